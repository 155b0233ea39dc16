//! HTTP calls of filters.

use crate::harness::*;
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use palisade_filter::{Bounds, HttpCallResponse};
use std::time::Duration;

const HEAD: &[(&str, &str)] = &[
    (":method", "POST"),
    (":path", "/check?a"),
    (":authority", "check.example"),
    ("x-a", "1"),
    ("content-length", "99"),
];

struct Call<'a> {
    upstream: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: &'a str,
    trailers: &'a [(&'a str, &'a str)],
    timeout: u32,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            upstream: "upstream",
            headers: HEAD,
            body: "body",
            trailers: &[("x-t", "2")],
            timeout: 500,
        }
    }
}

fn add(script: &mut Script, callback: usize, call: &Call<'_>) {
    let upstream = script.text(call.upstream);
    let headers = script.map(call.headers);
    let body = script.text(call.body);
    let trailers = script.map(call.trailers);
    call!(
        script,
        callback,
        "proxy_http_call",
        upstream,
        headers,
        body,
        trailers,
        call.timeout,
        NUMBER,
    );
}

fn response() -> HttpCallResponse {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-t", "3".parse().unwrap());
    HttpCallResponse {
        response: Response::builder()
            .status(503)
            .header("x-b", "2")
            .body(Bytes::from_static(b"answer"))
            .unwrap(),
        trailers,
    }
}

#[test]
fn a_call_goes_out_and_its_answer_comes_back() {
    let mut script = Script::new();
    add(&mut script, REQUEST_HEADERS, &Call::default());
    script.show_number(REQUEST_HEADERS, 4);
    let (status, field, trailer) = (
        script.text(":status"),
        script.text("x-b"),
        script.text("x-t"),
    );
    for (map, key) in [(6, status), (6, field), (7, trailer)] {
        call!(
            script,
            CALL_RESPONSE,
            "proxy_get_header_map_value",
            map,
            key,
            DATA,
            LENGTH
        );
        script.show(CALL_RESPONSE);
    }
    call!(
        script,
        CALL_RESPONSE,
        "proxy_get_buffer_bytes",
        4,
        0,
        100,
        DATA,
        LENGTH
    );
    script.show(CALL_RESPONSE);
    call!(
        script,
        CALL_RESPONSE,
        "proxy_get_status",
        NUMBER,
        DATA,
        LENGTH
    );
    script.show_number(CALL_RESPONSE, 4);
    // It is over afterwards.
    call!(
        script,
        TICK,
        "proxy_get_header_map_value",
        6,
        field,
        DATA,
        LENGTH
    );
    call!(
        script,
        TICK,
        "proxy_get_buffer_bytes",
        4,
        0,
        100,
        DATA,
        LENGTH
    );
    let mut fixture = script.start();
    let id = fixture.open();
    let _ = fixture.instance.on_request_headers(id, true).unwrap();
    let call = fixture.recorder.calls.borrow_mut().pop().unwrap();
    assert_eq!(call.stream, Some(id));
    assert_eq!(call.upstream, "upstream");
    assert_eq!(call.request.method(), Method::POST);
    assert_eq!(call.request.uri(), "/check?a");
    let fields: Vec<_> = call
        .request
        .headers()
        .keys()
        .map(|name| name.as_str())
        .collect();
    assert_eq!(fields, ["x-a", "host"]);
    assert_eq!(call.request.headers()["host"], "check.example");
    assert_eq!(&call.request.body()[..], b"body");
    assert_eq!(call.trailers["x-t"], "2");
    assert_eq!(call.timeout, Duration::from_millis(500));
    fixture
        .instance
        .on_http_call_response(call.token, Some(response()))
        .unwrap();
    fixture.instance.on_tick().unwrap();
    assert_eq!(
        fixture.statuses(),
        [OK, OK, OK, OK, OK, OK, BAD_ARGUMENT, NOT_FOUND]
    );
    assert_eq!(
        fixture.lines(),
        ["\x01\0\0\0", "503", "2", "3", "answer", "\0\0\0\0"]
    );
    let parameters = fixture.callbacks().into_iter().rev().nth(1).unwrap();
    let expected = ("proxy_on_http_call_response", vec![1, call.token, 2, 6, 1]);
    assert_eq!(parameters, expected);
    // Nobody waits for it any more.
    fixture.events();
    fixture
        .instance
        .on_http_call_response(call.token, Some(response()))
        .unwrap();
    fixture.instance.on_http_call_response(99, None).unwrap();
    assert_eq!(fixture.events(), []);
}

#[test]
fn a_call_that_failed_has_no_fields_and_a_status() {
    let mut script = Script::new();
    add(&mut script, CONFIGURE, &Call::default());
    let key = script.text("x-b");
    call!(
        script,
        CALL_RESPONSE,
        "proxy_get_header_map_value",
        6,
        key,
        DATA,
        LENGTH
    );
    call!(
        script,
        CALL_RESPONSE,
        "proxy_get_header_map_pairs",
        6,
        DATA,
        LENGTH
    );
    call!(
        script,
        CALL_RESPONSE,
        "proxy_get_buffer_bytes",
        4,
        0,
        100,
        DATA,
        LENGTH
    );
    call!(
        script,
        CALL_RESPONSE,
        "proxy_get_status",
        NUMBER,
        DATA,
        LENGTH
    );
    script.show(CALL_RESPONSE);
    script.show_number(CALL_RESPONSE, 4);
    let mut fixture = script.start();
    let call = fixture.recorder.calls.borrow_mut().pop().unwrap();
    assert_eq!(call.stream, None);
    fixture
        .instance
        .on_http_call_response(call.token, None)
        .unwrap();
    assert_eq!(fixture.statuses(), [OK, NOT_FOUND, OK, OK, OK]);
    assert_eq!(fixture.lines(), ["reset", "\x0b\0\0\0"]);
    let (_, parameters) = fixture.callbacks().pop().unwrap();
    assert_eq!(parameters, [1, call.token, 0, 0, 0]);
}

#[test]
fn a_call_that_can_not_be_is_refused() {
    let bounds = Bounds {
        body_bytes: 4,
        headers: 5,
        ..Bounds::default()
    };
    let without = |name: &str| -> Vec<(&str, &str)> {
        let others = HEAD.iter().filter(|(key, _)| *key != name);
        others.copied().collect()
    };
    let with = |key: &'static str, value: &'static str| -> Vec<(&str, &str)> {
        let mut map = without(key);
        map.push((key, value));
        map
    };
    let heads = [
        without(":method"),
        without(":path"),
        without(":authority"),
        with(":method", "CONNECT"),
        with(":path", "no/root"),
        with(":path", "/a\r\nb"),
        with(":authority", "a b"),
        with("x-a", "1\r\nx-b: 2"),
    ];
    let mut cases: Vec<_> = heads
        .iter()
        .map(|headers| {
            let call = Call {
                headers,
                ..Call::default()
            };
            (call, BAD_ARGUMENT)
        })
        .collect();
    let refused = Call {
        upstream: "other",
        ..Call::default()
    };
    let not_text = Call {
        trailers: &[("content-type", "1")],
        ..Call::default()
    };
    let long = Call {
        body: "12345",
        ..Call::default()
    };
    let many = Call {
        trailers: &[
            ("a", ""),
            ("b", ""),
            ("c", ""),
            ("d", ""),
            ("e", ""),
            ("f", ""),
        ],
        ..Call::default()
    };
    cases.extend([
        (refused, BAD_ARGUMENT),
        (not_text, BAD_ARGUMENT),
        (long, INTERNAL_FAILURE),
        (many, INTERNAL_FAILURE),
    ]);
    for (at, (call, status)) in cases.iter().enumerate() {
        let mut script = Script::new();
        add(&mut script, REQUEST_HEADERS, call);
        let mut fixture = script.start_bounded(bounds.clone());
        fixture.pass();
        assert_eq!(fixture.statuses(), [*status], "{at}");
        assert_eq!(fixture.recorder.calls.borrow().len(), 0, "{at}");
        assert_eq!(
            fixture.instance.metrics().denials,
            u64::from(call.upstream == "other")
        );
    }
}

#[test]
fn calls_are_bounded_in_number_and_time() {
    let mut script = Script::new();
    for timeout in [0, u32::MAX, 1] {
        let call = Call {
            timeout,
            ..Call::default()
        };
        add(&mut script, TICK, &call);
    }
    let mut fixture = script.start_bounded(Bounds {
        calls: 2,
        call_time: Duration::from_secs(3),
        ..Bounds::default()
    });
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.statuses(), [OK, OK, INTERNAL_FAILURE]);
    let calls = fixture.recorder.calls.take();
    assert!(
        calls
            .iter()
            .all(|call| call.timeout == Duration::from_secs(3))
    );
    fixture.events();
    fixture
        .instance
        .on_http_call_response(calls[0].token, None)
        .unwrap();
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.statuses(), [OK, INTERNAL_FAILURE, INTERNAL_FAILURE]);
    let token = fixture.recorder.calls.borrow()[0].token;
    assert!(!calls.iter().any(|call| call.token == token));
}

#[test]
fn there_is_no_grpc_and_no_foreign_function() {
    let mut script = Script::new();
    for (name, count) in [
        ("proxy_grpc_call", 12),
        ("proxy_grpc_stream", 9),
        ("proxy_grpc_send", 4),
        ("proxy_grpc_cancel", 1),
        ("proxy_grpc_close", 1),
    ] {
        let arguments = [0; 12].map(|_| Argument::One(OUT));
        assert!(count <= arguments.len());
        script.call(TICK, name, arguments);
    }
    let name = script.text("declare_property");
    call!(
        script,
        TICK,
        "proxy_call_foreign_function",
        name,
        name,
        DATA,
        LENGTH
    );
    let mut fixture = script.start();
    fixture.instance.on_tick().unwrap();
    let none = UNIMPLEMENTED;
    assert_eq!(
        fixture.statuses(),
        [none, none, none, none, none, NOT_FOUND]
    );
}
