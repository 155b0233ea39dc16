//! Log, clock, timer.

use crate::harness::*;
use palisade_filter::{Bounds, LogLevel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn lines_go_to_the_log_with_their_level() {
    let mut script = Script::new();
    let line = script.text("a line");
    for level in 0..8 {
        call!(script, TICK, "proxy_log", level, line);
    }
    let mut fixture = script.start();
    fixture.recorder.level.set(LogLevel::Warn);
    fixture.instance.on_tick().unwrap();
    let logged: Vec<_> = fixture
        .events()
        .into_iter()
        .filter_map(|event| match event {
            Event::Line(level, line) => Some((level, line)),
            _ => None,
        })
        .collect();
    let line = |level| (level, "a line".to_owned());
    assert_eq!(
        logged,
        [
            line(LogLevel::Warn),
            line(LogLevel::Error),
            line(LogLevel::Critical)
        ]
    );
    fixture.recorder.level.set(LogLevel::Trace);
    let mut script = Script::new();
    let line = script.text("a line");
    call!(script, TICK, "proxy_log", 6, line);
    call!(script, TICK, "proxy_log", u32::MAX, line);
    let mut fixture = script.start();
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.statuses(), [BAD_ARGUMENT; 2]);
}

#[test]
fn the_guest_can_ask_for_the_level() {
    let mut script = Script::new();
    call!(script, TICK, "proxy_get_log_level", NUMBER);
    script.show_number(TICK, 4);
    let mut fixture = script.start();
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.lines(), ["\0\0\0\0"]);
}

#[test]
fn lines_are_bounded_in_length_and_number() {
    let mut script = Script::new();
    let line = script.text("0123456789");
    for _ in 0..20 {
        call!(script, TICK, "proxy_log", 2, line);
    }
    let mut fixture = script.start_bounded(Bounds {
        line_bytes: 8,
        lines: 10,
        ..Bounds::default()
    });
    fixture.instance.on_tick().unwrap();
    let lines = fixture.lines();
    assert!(lines.len() <= 10 && lines.iter().all(|line| line == "01234567"));
    let dropped = fixture.instance.metrics().lines_dropped;
    assert!(dropped >= 11, "{dropped}");
    // Each phase has its own share.
    fixture.events();
    fixture.instance.on_tick().unwrap();
    assert!(!fixture.lines().is_empty());
}

#[test]
fn a_guest_can_set_its_timer() {
    let mut script = Script::new();
    call!(script, CONFIGURE, "proxy_set_tick_period_milliseconds", 200);
    call!(script, TICK, "proxy_set_tick_period_milliseconds", 200);
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_set_tick_period_milliseconds",
        0
    );
    let mut fixture = script.start();
    let period = Some(Duration::from_millis(200));
    assert_eq!(fixture.instance.tick_period(), period);
    fixture.instance.on_tick().unwrap();
    fixture.pass();
    assert_eq!(fixture.instance.tick_period(), None);
    assert_eq!(*fixture.recorder.tick_periods.borrow(), [period, None]);
    assert!(fixture.callbacks().contains(&("proxy_on_tick", vec![1])));
}

#[test]
fn the_clock_goes() {
    let mut script = Script::new();
    call!(script, TICK, "proxy_get_current_time_nanoseconds", NUMBER);
    let key = script.text("now");
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_current_time_nanoseconds",
        NUMBER
    );
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_set_property",
        key,
        [NUMBER, 8]
    );
    let before = SystemTime::now();
    let (statuses, exchange) = script.run();
    assert_eq!(statuses, [OK, OK]);
    let ns: [u8; 8] = exchange.properties.get(b"now").unwrap()[..]
        .try_into()
        .unwrap();
    let now = UNIX_EPOCH + Duration::from_nanos(u64::from_le_bytes(ns));
    assert!(now >= before && now <= SystemTime::now());
}

#[test]
fn there_is_nothing_to_be_done_with_before_it_ends() {
    let mut script = Script::new();
    for callback in [CREATE, CONFIGURE, REQUEST_HEADERS, LOG] {
        call!(script, callback, "proxy_done");
    }
    assert_eq!(script.statuses(), [NOT_FOUND; 4]);
}
