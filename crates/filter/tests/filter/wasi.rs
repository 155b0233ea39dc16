//! What language run-time libraries ask for.

use crate::harness::*;
use palisade_filter::{Bounds, LogLevel};

const BADF: u32 = 8;
const FAULT: u32 = 21;
const INVAL: u32 = 28;
const NOENT: u32 = 44;
const NOTSUP: u32 = 58;
const SPIPE: u32 = 70;

fn tick(script: &Script) -> Fixture {
    let mut fixture = script.start();
    fixture.events();
    fixture.instance.on_tick().unwrap();
    fixture
}

/// A list of parts, for a write.
fn parts(script: &mut Script, parts: &[[u64; 2]]) -> [u64; 2] {
    let bytes: Vec<u8> = parts
        .iter()
        .flatten()
        .flat_map(|number| (*number as u32).to_le_bytes())
        .collect();
    [script.bytes(&bytes)[0], parts.len() as u64]
}

#[test]
fn output_becomes_log_lines() {
    let mut script = Script::new();
    let (one, two) = (script.text("one "), script.text("two\n"));
    let list = parts(&mut script, &[one, two]);
    for fd in [1, 2, 0, 3] {
        call!(script, TICK, "fd_write", fd, list, NUMBER);
    }
    script.show_number(TICK, 4);
    let none = [0, 0];
    call!(script, TICK, "fd_write", 1, none, NUMBER);
    let fixture = tick(&script);
    assert_eq!(fixture.statuses(), [OK, OK, BADF, BADF, OK]);
    let events = fixture.events();
    let line = |level| Event::Line(level, "one two".to_owned());
    assert!(events.contains(&line(LogLevel::Info)));
    assert!(events.contains(&line(LogLevel::Error)));
    assert!(events.contains(&Event::Line(LogLevel::Info, "\x08\0\0\0".to_owned())));
}

#[test]
fn a_write_is_bounded_and_reaches_nothing_outside() {
    let mut script = Script::new();
    let text = script.text("0123456789");
    let outside = parts(&mut script, &[text, [OUT, 100]]);
    let long = parts(&mut script, &[text, text, text]);
    let huge = parts(&mut script, &[[0, 0x3ffff], [0, 0x3ffff]]);
    call!(script, TICK, "fd_write", 1, outside, NUMBER);
    call!(script, TICK, "fd_write", 1, OUT, 1, NUMBER);
    call!(script, TICK, "fd_write", 1, long[0], u32::MAX, NUMBER);
    call!(script, TICK, "fd_write", 1, long, OUT);
    call!(script, TICK, "fd_write", 1, long, NUMBER);
    call!(script, TICK, "fd_write", 1, huge, NUMBER);
    let mut fixture = script.start_bounded(Bounds {
        line_bytes: 24,
        ..Bounds::default()
    });
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.statuses(), [FAULT, FAULT, INVAL, FAULT, OK, OK]);
    assert_eq!(fixture.lines()[0], "012345678901234567890123");
    assert_eq!(fixture.lines()[1].len(), 24);
}

#[test]
fn a_guest_has_the_environment_that_it_was_given() {
    let mut script = Script::new();
    call!(script, TICK, "environ_sizes_get", NUMBER, LENGTH);
    script.show_number(TICK, 4);
    call!(script, TICK, "environ_get", 256, 512);
    call!(script, TICK, "proxy_log", 2, 512, 11);
    call!(script, TICK, "proxy_log", 2, crate::guest::LOAD | 256, 11);
    call!(script, TICK, "args_sizes_get", NUMBER, LENGTH);
    call!(script, TICK, "args_get", OUT, OUT);
    script.show_number(TICK, 4);
    for [a, b] in [[OUT, 16], [16, OUT]] {
        call!(script, TICK, "environ_sizes_get", a, b);
        call!(script, TICK, "args_sizes_get", a, b);
        call!(script, TICK, "environ_get", a, b);
    }
    let fixture = tick(&script);
    assert_eq!(fixture.statuses(), [vec![OK; 4], vec![FAULT; 6]].concat());
    let expected = ["\x01\0\0\0", "NAME=value\0", "NAME=value\0", "\0\0\0\0"];
    assert_eq!(fixture.lines(), expected);
}

#[test]
fn clocks_and_random_bytes() {
    let mut script = Script::new();
    for clock in [0, 1, 2, u32::MAX] {
        call!(script, TICK, "clock_time_get", clock, 0, NUMBER);
        call!(script, TICK, "clock_res_get", clock, NUMBER);
    }
    call!(script, TICK, "clock_time_get", 0, 0, OUT);
    call!(script, TICK, "clock_res_get", 0, OUT);
    call!(script, TICK, "random_get", 256, 32);
    call!(script, TICK, "random_get", 512, 32);
    call!(script, TICK, "random_get", OUT, 32);
    call!(script, TICK, "random_get", 0, 65537);
    let (first, second) = (script.text("first"), script.text("second"));
    for (key, at) in [(first, 256), (second, 512)] {
        call!(script, TICK, "proxy_set_effective_context", 2);
        call!(script, TICK, "proxy_set_property", key, at, 32);
    }
    let mut fixture = script.start();
    let id = fixture.open();
    let _ = fixture.instance.on_request_headers(id, true).unwrap();
    fixture.instance.on_tick().unwrap();
    assert_eq!(
        fixture.statuses(),
        [
            OK, OK, OK, OK, NOTSUP, NOTSUP, NOTSUP, NOTSUP, FAULT, FAULT, OK, OK, FAULT, INVAL, OK,
            OK, OK, OK
        ]
    );
    let properties = &fixture.instance.exchange(id).unwrap().properties;
    assert_ne!(properties.get(b"first"), properties.get(b"second"));
    assert!(properties.get(b"first").is_some());
}

#[test]
fn there_are_no_files() {
    let mut script = Script::new();
    let path = script.text("/etc/passwd");
    call!(script, TICK, "path_open", 3, 0, path, 0, 0, 0, 0, NUMBER);
    call!(script, TICK, "fd_read", 0, 0, 0, NUMBER);
    call!(script, TICK, "fd_read", 3, 0, 0, NUMBER);
    for fd in [1, 3] {
        call!(script, TICK, "fd_seek", fd, 0, 0, NUMBER);
        call!(script, TICK, "fd_close", fd);
        call!(script, TICK, "fd_fdstat_get", fd, 256);
    }
    call!(script, TICK, "fd_fdstat_get", 1, OUT);
    call!(script, TICK, "poll_oneoff", 0, 0, 1, NUMBER);
    call!(script, TICK, "poll_oneoff", 0, 0, 1, OUT);
    let fixture = tick(&script);
    assert_eq!(
        fixture.statuses(),
        [
            NOENT, BADF, BADF, SPIPE, OK, OK, BADF, BADF, BADF, FAULT, OK, FAULT
        ]
    );
}
