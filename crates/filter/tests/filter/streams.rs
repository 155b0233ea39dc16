//! Local responses, waiting and going on, contexts.

use crate::harness::*;
use http::{Response, StatusCode};
use palisade_filter::{Action, Bounds, Direction, Part, Settings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const PARTS: [(usize, Part); 6] = [
    (REQUEST_HEADERS, Part::RequestHeaders),
    (REQUEST_BODY, Part::RequestBody),
    (REQUEST_TRAILERS, Part::RequestTrailers),
    (RESPONSE_HEADERS, Part::ResponseHeaders),
    (RESPONSE_BODY, Part::ResponseBody),
    (RESPONSE_TRAILERS, Part::ResponseTrailers),
];

fn respond(script: &mut Script, callback: usize) {
    let details = script.text("details");
    let body = script.text("body");
    let headers = script.map(&[("x-a", "1"), ("x-a", "2"), ("connection", "close")]);
    call!(
        script,
        callback,
        "proxy_send_local_response",
        403,
        details,
        body,
        headers,
        u32::MAX,
    );
}

#[test]
fn a_local_response_comes_from_each_callback() {
    for (callback, part) in PARTS {
        let mut script = Script::new();
        respond(&mut script, callback);
        let mut fixture = script.start();
        let id = fixture.open();
        let action = fixture.instance.on_part(id, part, false).unwrap();
        assert_eq!(action, Action::Pause, "{part:?}");
        assert_eq!(fixture.statuses(), [OK]);
        let exchange = fixture.instance.exchange(id).unwrap();
        let response = exchange.local_response.take().unwrap();
        assert_eq!(response.status, StatusCode::FORBIDDEN);
        assert_eq!(&response.body[..], b"body");
        assert_eq!(response.details, "details");
        assert_eq!(response.grpc_status, -1);
        assert_eq!(response.headers.len(), 2);
    }
}

#[test]
fn a_local_response_wakes_whoever_waits_also_from_another_context() {
    let mut script = Script::new();
    call!(script, REQUEST_HEADERS, "return", 1);
    call!(script, TICK, "proxy_set_effective_context", 2);
    respond(&mut script, TICK);
    let mut fixture = script.start();
    let id = fixture.open();
    let action = fixture.instance.on_request_headers(id, true).unwrap();
    assert_eq!(action, Action::Pause);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    let mut poll = |fixture: &mut Fixture| {
        let poll = fixture
            .instance
            .poll_resumed(id, Direction::Request, &mut context);
        poll.is_ready()
    };
    assert!(!poll(&mut fixture));
    // The exchange is elsewhere meanwhile.
    let exchange = fixture.instance.take(id).unwrap();
    fixture.instance.on_tick().unwrap();
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(poll(&mut fixture));
    fixture.instance.put(id, exchange).unwrap();
    assert!(
        fixture
            .instance
            .exchange(id)
            .unwrap()
            .local_response
            .is_some()
    );
}

#[test]
fn a_local_response_that_can_not_be_is_refused() {
    let bounds = Bounds {
        body_bytes: 3,
        headers: 1,
        ..Bounds::default()
    };
    for (status, body, headers, given) in [
        (99, "", &[][..], BAD_ARGUMENT),
        (100, "", &[], BAD_ARGUMENT),
        (1000, "", &[], BAD_ARGUMENT),
        (65736, "", &[], BAD_ARGUMENT),
        (200, "1234", &[], INTERNAL_FAILURE),
        (200, "", &[("a b", "1")], BAD_ARGUMENT),
        (200, "", &[("a", "1\r\n")], BAD_ARGUMENT),
        (200, "", &[("a", "1"), ("b", "2")], INTERNAL_FAILURE),
        (200, "123", &[("a", "1")], OK),
    ] {
        let mut script = Script::new();
        let (body, headers) = (script.text(body), script.map(headers));
        let details = [0, 0];
        let name = "proxy_send_local_response";
        call!(
            script,
            REQUEST_HEADERS,
            name,
            status,
            details,
            body,
            headers,
            0
        );
        let mut fixture = script.start_bounded(bounds.clone());
        let exchange = fixture.pass();
        assert_eq!(fixture.statuses(), [given], "{status}");
        assert_eq!(exchange.local_response.is_some(), given == OK);
    }
    let mut script = Script::new();
    respond(&mut script, CONFIGURE);
    assert_eq!(script.statuses(), [BAD_ARGUMENT]);
}

#[test]
fn going_on_in_the_callback_that_pauses_is_going_on() {
    for (callback, part, stream) in [
        (REQUEST_HEADERS, Part::RequestHeaders, 0),
        (RESPONSE_BODY, Part::ResponseBody, 1),
    ] {
        let mut script = Script::new();
        call!(script, callback, "proxy_continue_stream", stream);
        call!(script, callback, "return", 1);
        let mut fixture = script.start();
        let id = fixture.open();
        let action = fixture.instance.on_part(id, part, false).unwrap();
        assert_eq!(action, Action::Pause);
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = |direction| fixture.instance.poll_resumed(id, direction, &mut context);
        assert!(poll(part.direction()).is_ready());
        let other = match part.direction() {
            Direction::Request => Direction::Response,
            Direction::Response => Direction::Request,
        };
        assert!(poll(other).is_pending());
    }
}

#[test]
fn going_on_before_is_forgotten_when_a_callback_pauses() {
    let mut script = Script::new();
    call!(script, REQUEST_HEADERS, "proxy_continue_stream", 0);
    call!(script, REQUEST_BODY, "return", 1);
    let mut fixture = script.start();
    let id = fixture.open();
    let _ = fixture.instance.on_request_headers(id, false).unwrap();
    let _ = fixture.instance.on_request_body(id, false).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let poll = fixture
        .instance
        .poll_resumed(id, Direction::Request, &mut context);
    assert!(poll.is_pending());
}

#[test]
fn a_stream_can_be_closed() {
    for stream in [0, 1] {
        let mut script = Script::new();
        call!(script, REQUEST_HEADERS, "proxy_close_stream", stream);
        let mut fixture = script.start();
        let id = fixture.open();
        let action = fixture.instance.on_request_headers(id, false).unwrap();
        assert_eq!(action, Action::Pause);
        assert!(fixture.instance.is_closed(id));
        fixture.instance.close(id).unwrap();
        assert!(!fixture.instance.is_closed(id));
    }
}

#[test]
fn streams_are_those_of_http_and_of_a_context() {
    for name in ["proxy_continue_stream", "proxy_close_stream"] {
        let mut script = Script::new();
        for stream in [2, 3] {
            call!(script, REQUEST_HEADERS, name, stream);
        }
        for stream in [4, 99, u32::MAX] {
            call!(script, REQUEST_HEADERS, name, stream);
        }
        call!(script, TICK, name, 0);
        let mut fixture = script.start();
        fixture.pass();
        fixture.instance.on_tick().unwrap();
        assert_eq!(
            fixture.statuses(),
            [
                UNIMPLEMENTED,
                UNIMPLEMENTED,
                BAD_ARGUMENT,
                BAD_ARGUMENT,
                BAD_ARGUMENT,
                BAD_ARGUMENT
            ]
        );
    }
}

#[test]
fn a_context_is_chosen_for_one_callback() {
    let mut script = Script::new();
    let key = script.text("request\0path");
    for context in [3, 1, 0, 2, 99, u32::MAX] {
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_set_effective_context",
            context
        );
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_get_property",
            key,
            DATA,
            LENGTH
        );
    }
    call!(script, TICK, "proxy_get_property", key, DATA, LENGTH);
    let mut fixture = script.start();
    let (_first, second) = (fixture.open(), fixture.open());
    let _ = fixture.instance.on_request_headers(second, true).unwrap();
    fixture.instance.on_tick().unwrap();
    assert_eq!(
        fixture.statuses(),
        [
            OK,
            OK, // the stream itself
            OK,
            NOT_FOUND, // the root context has no request
            OK,
            OK, // 0: whose callback it is
            OK,
            OK, // the other stream
            BAD_ARGUMENT,
            OK, // it stays as it was
            BAD_ARGUMENT,
            OK,        //
            NOT_FOUND, // and is forgotten with the next callback
        ]
    );
}

#[test]
fn a_stream_that_is_gone_is_no_context() {
    let mut script = Script::new();
    call!(script, TICK, "proxy_set_effective_context", 2);
    call!(script, DELETE, "proxy_set_effective_context", 2);
    let mut fixture = script.start();
    fixture.pass();
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.statuses(), [OK, BAD_ARGUMENT]);
}

#[test]
fn anothers_local_response_does_not_hold_the_one_under_way() {
    let mut script = Script::new();
    call!(script, REQUEST_HEADERS, "proxy_set_effective_context", 2);
    respond(&mut script, REQUEST_HEADERS);
    let mut fixture = script.start();
    let (first, second) = (fixture.open(), fixture.open());
    let action = fixture.instance.on_request_headers(second, true).unwrap();
    assert_eq!(action, Action::Continue);
    let exchange = |fixture: &mut Fixture, id| fixture.instance.take(id).unwrap();
    assert!(exchange(&mut fixture, first).local_response.is_some());
    assert!(exchange(&mut fixture, second).local_response.is_none());
}

/// A head that was held while its body came, and has passed.
#[test]
fn a_head_that_has_passed_is_changed_no_more() {
    let text = r#"(module
        (import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
        (import "env" "proxy_replace_header_map_value"
          (func $replace (param i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 8) ":pathx-own/other")
        (func (export "proxy_abi_version_0_2_100"))
        (func (export "malloc") (param i32) (result i32) (i32.const 1024))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_tick") (param i32)
          (drop (call $effective (i32.const 2)))
          (drop (call $replace (i32.const 0) (i32.const 8) (i32.const 5) (i32.const 18) (i32.const 6)))
          (drop (call $replace (i32.const 2) (i32.const 13) (i32.const 5) (i32.const 18) (i32.const 6)))))"#;
    let (filter, _) = crate::load::filter(text, Settings::new("f")).unwrap();
    for has_passed in [false, true] {
        let mut instance = crate::load::start(&filter).unwrap();
        let id = instance.open(crate::guest::exchange());
        let action = instance.on_request_headers(id, false).unwrap();
        assert_eq!(action, Action::HoldHead);
        let head = Response::new(()).into_parts().0;
        instance.exchange(id).unwrap().response = Some(head);
        let action = instance.on_response_headers(id, false).unwrap();
        assert_eq!(action, Action::HoldHead);
        if has_passed {
            instance.pass_head(id, Direction::Request);
            instance.pass_head(id, Direction::Response);
        }
        instance.on_tick().unwrap();
        let exchange = instance.exchange(id).unwrap();
        let is_changed = [
            exchange.request.uri.path() == "/other",
            exchange
                .response
                .as_ref()
                .unwrap()
                .headers
                .contains_key("x-own"),
        ];
        assert_eq!(is_changed, [!has_passed; 2]);
    }
}
