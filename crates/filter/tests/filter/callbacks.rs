//! Which callbacks come, in which order and with what.

use crate::{guest, harness::*};
use palisade_filter::{Action, FaultKind, Part, Settings, Shared};
use std::sync::Arc;

#[test]
fn callbacks_come_in_order_and_with_sizes() {
    let mut fixture = Script::new().start();
    let configuration = fixture.instance.filter().settings().configuration.len() as u32;
    fixture.pass();
    assert_eq!(
        fixture.callbacks(),
        [
            ("proxy_on_context_create", vec![1, 0]),
            ("proxy_on_vm_start", vec![1, 16]),
            ("proxy_on_configure", vec![1, configuration]),
            ("proxy_on_context_create", vec![2, 1]),
            // Four pseudo fields, five others; the host is among the pseudo fields.
            ("proxy_on_request_headers", vec![2, 9, 0]),
            ("proxy_on_request_body", vec![2, 4, 0]),
            ("proxy_on_request_trailers", vec![2, 1]),
            ("proxy_on_response_headers", vec![2, 3, 0]),
            ("proxy_on_response_body", vec![2, 6, 0]),
            ("proxy_on_response_trailers", vec![2, 1]),
            ("proxy_on_done", vec![2]),
            ("proxy_on_log", vec![2]),
            ("proxy_on_delete", vec![2]),
        ]
    );
    assert_eq!(fixture.instance.metrics().streams, 0);
}

#[test]
fn each_stream_has_a_number_of_its_own() {
    let mut fixture = Script::new().start();
    fixture.events();
    let (first, second) = (fixture.open(), fixture.open());
    for id in [second, first] {
        let _ = fixture.instance.on_request_headers(id, true).unwrap();
    }
    fixture.instance.close(first).unwrap();
    let third = fixture.open();
    let _ = fixture.instance.on_request_headers(third, true).unwrap();
    let heads: Vec<_> = fixture
        .callbacks()
        .into_iter()
        .filter(|(name, _)| *name == "proxy_on_request_headers")
        .map(|(_, parameters)| parameters)
        .collect();
    assert_eq!(heads, [[3, 9, 1], [2, 9, 1], [4, 9, 1]]);
    assert_eq!(fixture.instance.streams().count(), 2);
}

#[test]
fn a_stream_that_the_guest_never_saw_is_closed_in_silence() {
    let mut fixture = Script::new().start();
    fixture.events();
    let id = fixture.open();
    assert!(fixture.instance.close(id).unwrap().is_some());
    assert_eq!(fixture.events(), []);
    assert!(fixture.instance.close(id).unwrap().is_none());
    let fault = fixture.instance.on_request_headers(id, true).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Host);
    assert!(fixture.instance.is_alive());
    fixture.pass();
}

#[test]
fn a_callback_says_whether_to_go_on() {
    let cases = [
        (REQUEST_HEADERS, Part::RequestHeaders, 0, Action::Continue),
        (REQUEST_HEADERS, Part::RequestHeaders, 1, Action::Pause),
        (REQUEST_HEADERS, Part::RequestHeaders, 2, Action::Continue),
        (REQUEST_HEADERS, Part::RequestHeaders, 4, Action::Pause),
        (REQUEST_BODY, Part::RequestBody, 1, Action::Pause),
        (REQUEST_BODY, Part::RequestBody, 3, Action::Pause),
        (RESPONSE_HEADERS, Part::ResponseHeaders, 1, Action::Pause),
        (RESPONSE_BODY, Part::ResponseBody, 99, Action::Pause),
        (
            RESPONSE_TRAILERS,
            Part::ResponseTrailers,
            0,
            Action::Continue,
        ),
    ];
    for (callback, part, wanted, action) in cases {
        let mut script = Script::new();
        call!(script, callback, "return", wanted);
        let mut fixture = script.start();
        let id = fixture.open();
        let given = fixture.instance.on_part(id, part, false).unwrap();
        assert_eq!(given, action, "{part:?} {wanted}");
    }
}

#[test]
fn a_guest_can_refuse_to_start() {
    for (callback, name) in [
        (VM_START, "proxy_on_vm_start"),
        (CONFIGURE, "proxy_on_configure"),
    ] {
        let mut script = Script::new();
        call!(script, callback, "return", 0);
        let started = script.start_with(script.settings(), &Arc::new(Shared::default()), None);
        let fault = started.err().expect("a refusal");
        assert_eq!((fault.kind, fault.callback), (FaultKind::Refused, name));
    }
}

#[test]
fn what_is_not_done_is_finished_when_the_guest_says_so() {
    let mut script = Script::new();
    call!(script, DONE, "return", 0);
    // Not while it is asked, but later.
    call!(script, DONE, "proxy_done");
    call!(script, TICK, "proxy_set_effective_context", 2);
    call!(script, TICK, "proxy_done");
    call!(script, TICK, "proxy_done");
    let key = script.text(":path");
    call!(
        script,
        LOG,
        "proxy_get_header_map_value",
        0,
        key,
        DATA,
        LENGTH
    );
    script.show(LOG);
    let mut fixture = script.start();
    let exchange = fixture.pass();
    assert_eq!(exchange.request.uri.path(), "/path/file");
    assert_eq!(fixture.statuses(), [NOT_FOUND]);
    assert_eq!(fixture.instance.metrics().streams, 1);
    assert_eq!(fixture.instance.streams().count(), 0);
    fixture.events();
    fixture.instance.on_tick().unwrap();
    let names: Vec<_> = fixture
        .callbacks()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["proxy_on_tick", "proxy_on_log", "proxy_on_delete"]);
    assert_eq!(fixture.statuses(), [OK, OK, NOT_FOUND, OK]);
    assert_eq!(fixture.lines(), ["/path/file?query=1"]);
    assert_eq!(fixture.instance.metrics().streams, 0);
}

#[test]
fn unfinished_streams_are_bounded() {
    let mut script = Script::new();
    call!(script, DONE, "return", 0);
    let mut fixture = script.start_bounded(palisade_filter::Bounds {
        unfinished_streams: 2,
        ..Default::default()
    });
    for _ in 0..5 {
        fixture.pass();
    }
    assert_eq!(fixture.instance.metrics().streams, 2);
}

#[test]
fn the_root_context_is_stopped_at_once_or_when_it_is_done() {
    let mut fixture = Script::new().start();
    fixture.events();
    assert!(!fixture.instance.is_done());
    assert!(fixture.instance.stop().unwrap());
    assert!(fixture.instance.stop().unwrap());
    assert!(fixture.instance.is_done());
    assert_eq!(
        fixture.callbacks(),
        [("proxy_on_done", vec![1]), ("proxy_on_delete", vec![1])]
    );
    let mut script = Script::new();
    call!(script, DONE, "return", 0);
    call!(script, TICK, "proxy_done");
    let mut fixture = script.start();
    assert!(!fixture.instance.stop().unwrap());
    assert!(!fixture.instance.is_done());
    fixture.events();
    fixture.instance.on_tick().unwrap();
    assert!(fixture.instance.is_done());
    assert_eq!(
        fixture.callbacks(),
        [("proxy_on_tick", vec![1]), ("proxy_on_delete", vec![1])]
    );
}

#[test]
fn nothing_is_called_once_the_root_context_is_gone() {
    let mut script = Script::new();
    let (upstream, none) = (script.text("upstream"), [0, 0]);
    let head = script.map(&[(":method", "GET"), (":path", "/"), (":authority", "a")]);
    let name = "proxy_http_call";
    call!(
        script, CONFIGURE, name, upstream, head, none, none, 1, NUMBER
    );
    let mut fixture = script.start();
    let token = fixture.recorder.calls.borrow()[0].token;
    assert!(fixture.instance.stop().unwrap());
    fixture.events();
    fixture.instance.on_tick().unwrap();
    fixture.instance.on_queue_ready(1).unwrap();
    fixture.instance.on_http_call_response(token, None).unwrap();
    assert_eq!(fixture.callbacks(), []);
}

#[test]
fn an_exchange_can_go_from_one_filter_to_the_next() {
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
    call!(
        script,
        REQUEST_BODY,
        "proxy_add_header_map_value",
        0,
        key,
        value
    );
    let (mut one, mut other) = (script.start(), script.start());
    let first = one.open();
    let _ = one.instance.on_request_headers(first, true).unwrap();
    let exchange = one.instance.take(first).unwrap();
    assert!(one.instance.exchange(first).is_none());
    let second = other.instance.open(exchange);
    let _ = other.instance.on_request_headers(second, true).unwrap();
    let exchange = other.instance.take(second).unwrap();
    assert_eq!(exchange.request.headers.get_all("x-a").iter().count(), 2);
    // Without it there is nothing to change, and nothing else is amiss.
    let _ = one.instance.on_request_body(first, true).unwrap();
    assert_eq!(one.statuses(), [OK, BAD_ARGUMENT]);
    one.instance.put(first, exchange).unwrap();
    let exchange = one.instance.close(first).unwrap().unwrap();
    assert!(one.instance.put(first, exchange).is_err());
}

#[test]
fn a_module_without_callbacks_is_not_called() {
    let text = r#"(module
        (memory (export "memory") 1)
        (func (export "proxy_abi_version_0_2_0"))
        (func (export "malloc") (param i32) (result i32) (i32.const 0))
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 1)))"#;
    let (filter, _) = crate::load::filter(text, Settings::new("f")).unwrap();
    assert!(filter.inspects(Part::ResponseHeaders));
    assert!(!filter.inspects(Part::RequestHeaders) && !filter.inspects(Part::ResponseTrailers));
    let mut instance = crate::load::start(&filter).unwrap();
    let id = instance.open(guest::exchange());
    let action = instance.on_request_headers(id, true).unwrap();
    assert_eq!(action, Action::Continue);
    let action = instance.on_response_headers(id, true).unwrap();
    assert_eq!(action, Action::Pause);
    instance.on_tick().unwrap();
    instance.on_queue_ready(1).unwrap();
    instance.on_http_call_response(1, None).unwrap();
    assert!(instance.close(id).unwrap().is_some());
    assert!(instance.stop().unwrap());
    assert_eq!(instance.metrics().crossings, 1);
}
