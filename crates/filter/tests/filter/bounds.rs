//! Memory of the host that a guest can make grow.

use crate::harness::*;
use palisade_filter::{Settings, Shared};
use std::sync::Arc;

#[test]
fn figures_count_what_was_done() {
    let mut script = Script::new();
    call!(script, REQUEST_HEADERS, "proxy_clear_route_cache");
    let mut fixture = script.start();
    let before = fixture.instance.metrics();
    let id = fixture.open();
    let _ = fixture.instance.on_request_headers(id, true).unwrap();
    let after = fixture.instance.metrics();
    // Two callbacks, each with a line, and the call with its own line.
    assert_eq!(after.crossings - before.crossings, 2 + 2 + 2);
    assert_eq!(after.memory_bytes, 4 * 65536);
    assert_eq!((before.streams, after.streams), (0, 1));
}

#[test]
fn time_is_counted_from_the_first_phase_on() {
    let mut fixture = Script::new().start();
    let mut counted_ns = 0;
    // One phase was its start: its module begins with nothing of its own.
    for _ in 1..64 {
        let now_ns = fixture.instance.metrics().cpu_ns;
        assert!(now_ns > counted_ns);
        counted_ns = now_ns;
        fixture.instance.on_tick().unwrap();
    }
    // One of 17 is measured, for all of them.
    for _ in 0..3 {
        let mut growths = 0;
        for _ in 0..17 {
            let before_ns = fixture.instance.metrics().cpu_ns;
            fixture.instance.on_tick().unwrap();
            growths += u32::from(fixture.instance.metrics().cpu_ns > before_ns);
        }
        assert_eq!(growths, 1);
    }
}

#[test]
fn thousands_of_exchanges_leave_nothing() {
    let mut script = Script::new();
    let (key, value) = (script.text("x-a"), script.text("1"));
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_add_header_map_value",
        0,
        key,
        value
    );
    call!(script, REQUEST_HEADERS, "proxy_set_property", key, value);
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_define_metric",
        0,
        key,
        NUMBER
    );
    call!(script, LOG, "proxy_set_shared_data", key, value, 0);
    let shared = Arc::new(Shared::default());
    let settings = Settings {
        limits: Default::default(),
        ..script.settings()
    };
    let mut fixture = script.start_with(settings, &shared, None).unwrap();
    let memory_bytes = fixture.instance.metrics().memory_bytes;
    for _ in 0..2000 {
        fixture.pass();
        fixture.events();
    }
    let metrics = fixture.instance.metrics();
    assert_eq!((metrics.streams, metrics.memory_bytes), (0, memory_bytes));
    assert_eq!(shared.metrics().len(), 1);
}
