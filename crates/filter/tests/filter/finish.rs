//! The head of a response and the end of its stream in one go.

use crate::harness::*;
use http::{Response, StatusCode};
use palisade_filter::{Action, FaultKind, Finish, Instance, Message, Settings, StreamId};

/// As bytes a text.
const PASSED_BYTES: u64 = u64::from_le_bytes(*b"AB\0\0\0\0\0\0");

/// A stream whose request has passed, and whose response has come.
fn responded(instance: &mut Instance) -> StreamId {
    let id = instance.open(crate::guest::exchange());
    let action = instance.on_request_headers(id, true).unwrap();
    assert_eq!(action, Action::Continue);
    let response = Response::builder().status(202).header("x-own", "1");
    let head = response.body(()).unwrap().into_parts().0;
    let exchange = instance.exchange(id).unwrap();
    exchange.response = Some(head);
    exchange.response_rest = Message::default();
    id
}

fn finish(instance: &mut Instance, id: StreamId) -> Finish {
    instance.finish(id, false, PASSED_BYTES).unwrap()
}

/// The callbacks since it was asked for them.
fn names(fixture: &Fixture) -> Vec<&'static str> {
    let callbacks = fixture.callbacks().into_iter();
    fixture.events();
    callbacks.map(|(name, _)| name).collect()
}

#[test]
fn callbacks_come_in_their_order_and_give_the_exchange_back() {
    let mut script = Script::new();
    let path = script.text("response.size");
    call!(script, LOG, "proxy_get_property", path, DATA, LENGTH);
    script.show(LOG);
    let mut fixture = script.start();
    let id = responded(&mut fixture.instance);
    fixture.events();
    let Finish::Over(Some(exchange)) = finish(&mut fixture.instance, id) else {
        panic!("it is not over");
    };
    assert_eq!(exchange.response.unwrap().status, StatusCode::ACCEPTED);
    assert!(!fixture.instance.has_stream(id));
    let events = fixture.recorder.events.borrow().clone();
    let has_size =
        |event: &Event| matches!(event, Event::Line(_, line) if line.starts_with("AB\0"));
    assert!(events.iter().any(has_size), "{events:?}");
    assert_eq!(
        names(&fixture),
        [
            "proxy_on_response_headers",
            "proxy_on_done",
            "proxy_on_log",
            "proxy_on_delete"
        ]
    );
}

#[test]
fn a_head_that_does_not_pass_leaves_its_stream_open() {
    for respond in [false, true] {
        let mut script = Script::new();
        match respond {
            false => call!(script, RESPONSE_HEADERS, "return", 1),
            true => call!(script, RESPONSE_HEADERS, "proxy_close_stream", 1),
        }
        let mut fixture = script.start();
        let id = responded(&mut fixture.instance);
        fixture.events();
        let finish = finish(&mut fixture.instance, id);
        assert!(matches!(finish, Finish::Held(Action::Pause)), "{finish:?}");
        assert_eq!(names(&fixture), ["proxy_on_response_headers"]);
        assert_eq!(fixture.instance.is_closed(id), respond);
        assert!(fixture.instance.close(id).unwrap().is_some());
        assert_eq!(
            names(&fixture),
            ["proxy_on_done", "proxy_on_log", "proxy_on_delete"]
        );
    }
}

#[test]
fn a_fault_before_the_head_has_passed_is_told_from_one_after_it() {
    let mut script = Script::new();
    call!(script, RESPONSE_HEADERS, "trap");
    let mut fixture = script.start();
    let id = responded(&mut fixture.instance);
    let fault = fixture.instance.finish(id, true, 0).unwrap_err();
    assert_eq!(fault.callback, "proxy_on_response_headers");
    assert!(fixture.instance.take(id).is_some());
    for (callback, name) in ENDS {
        let mut script = Script::new();
        call!(script, callback, "trap");
        let mut fixture = script.start();
        let id = responded(&mut fixture.instance);
        let Finish::Failed(Some(exchange), fault) = finish(&mut fixture.instance, id) else {
            panic!("{name} has not failed");
        };
        assert_eq!((fault.kind, fault.callback), (FaultKind::Trap, name));
        assert_eq!(exchange.response.unwrap().status, StatusCode::ACCEPTED);
        assert!(!fixture.instance.is_alive());
    }
}

/// What one stream's end has the guest finish, and fail over, is not lost with it.
#[test]
fn a_fault_over_another_stream_leaves_the_exchange() {
    // Traps in proxy_on_log of the first stream, which proxy_on_done of the second has it finish.
    let text = r#"(module
        (import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
        (import "env" "proxy_done" (func $done (result i32)))
        (memory (export "memory") 1)
        (func (export "proxy_abi_version_0_2_1"))
        (func (export "malloc") (param i32) (result i32) (i32.const 1024))
        (func (export "proxy_on_done") (param i32) (result i32)
          (if (i32.eq (local.get 0) (i32.const 2)) (then (return (i32.const 0))))
          (drop (call $effective (i32.const 2)))
          (drop (call $done))
          (i32.const 1))
        (func (export "proxy_on_log") (param i32)
          (if (i32.eq (local.get 0) (i32.const 2)) (then (unreachable)))))"#;
    let (filter, _) = crate::load::filter(text, Settings::new("f")).unwrap();
    for is_finished in [false, true] {
        let mut instance = crate::load::start(&filter).unwrap();
        let first = responded(&mut instance);
        assert!(instance.close(first).unwrap().is_some());
        let second = responded(&mut instance);
        let exchange = match is_finished {
            true => match finish(&mut instance, second) {
                Finish::Failed(exchange, fault) => {
                    assert_eq!(fault.callback, "proxy_on_log");
                    exchange
                }
                other => panic!("{other:?}"),
            },
            false => {
                instance.close(second).unwrap_err();
                instance.take(second)
            }
        };
        let response = exchange.expect("the exchange").response.unwrap();
        assert_eq!(response.status, StatusCode::ACCEPTED);
    }
}

/// The end of another stream is in the same phase, and a guest can respond from there.
#[test]
fn a_response_from_another_streams_end_holds_the_head() {
    let text = |callback| {
        format!(
            r#"(module
        (import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
        (import "env" "proxy_done" (func $done (result i32)))
        (import "env" "proxy_send_local_response"
          (func $respond (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "proxy_abi_version_0_2_1"))
        (func (export "malloc") (param i32) (result i32) (i32.const 1024))
        (func (export "{callback}") (param i32 i32 i32) (result i32)
          (if (i32.eq (local.get 0) (i32.const 3)) (then
            (drop (call $effective (i32.const 2)))
            (drop (call $done))))
          (i32.const 0))
        (func (export "proxy_on_done") (param i32) (result i32)
          (i32.ne (local.get 0) (i32.const 2)))
        (func (export "proxy_on_log") (param i32)
          (if (i32.eq (local.get 0) (i32.const 2)) (then
            (drop (call $effective (i32.const 3)))
            (drop (call $respond (i32.const 403) (i32.const 0) (i32.const 0) (i32.const 0)
              (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1)))))))"#
        )
    };
    let has_responded = |instance: &mut Instance, id| {
        let response = instance.exchange(id).unwrap().local_response.as_ref();
        response.is_some_and(|response| response.status == StatusCode::FORBIDDEN)
    };
    let start = |callback| {
        let (filter, _) = crate::load::filter(&text(callback), Settings::new("f")).unwrap();
        let mut instance = crate::load::start(&filter).unwrap();
        let first = responded(&mut instance);
        assert!(instance.close(first).unwrap().is_some());
        instance
    };
    let mut instance = start("proxy_on_request_headers");
    let second = instance.open(crate::guest::exchange());
    let action = instance.on_request_headers(second, true).unwrap();
    assert_eq!(action, Action::Pause);
    assert!(has_responded(&mut instance, second));
    for is_finished in [false, true] {
        let mut instance = start("proxy_on_response_headers");
        let second = responded(&mut instance);
        let action = match is_finished {
            true => match finish(&mut instance, second) {
                Finish::Held(action) => action,
                other => panic!("{other:?}"),
            },
            false => instance.on_response_headers(second, true).unwrap(),
        };
        assert_eq!(action, Action::Pause);
        assert!(has_responded(&mut instance, second));
    }
}
