//! Bodies and configurations.

use crate::harness::*;
use palisade_filter::{Action, Bounds, Direction};
use std::task::{Context, Waker};

const REQUEST: u32 = 0;
const RESPONSE: u32 = 1;
const MAX: u32 = u32::MAX;

fn get(callback: usize, buffer: u32, start: u32, length: u32) -> (u32, Vec<String>) {
    let mut script = Script::new();
    call!(
        script,
        callback,
        "proxy_get_buffer_bytes",
        buffer,
        start,
        length,
        DATA,
        LENGTH
    );
    script.show(callback);
    let mut fixture = script.start();
    fixture.pass();
    (fixture.statuses()[0], fixture.lines())
}

#[test]
fn buffers_are_read_in_parts() {
    let cases = [
        (REQUEST_BODY, REQUEST, 0, 100, "body"),
        (REQUEST_BODY, REQUEST, 1, 2, "od"),
        (REQUEST_BODY, REQUEST, 3, MAX - 3, "y"),
        (REQUEST_BODY, REQUEST, 4, 1, ""),
        (REQUEST_BODY, REQUEST, 99, 1, ""),
        (REQUEST_BODY, REQUEST, 0, 0, ""),
        (RESPONSE_BODY, RESPONSE, 0, 100, "answer"),
        (VM_START, 6, 3, 6, "config"),
        (LOG, RESPONSE, 0, 100, "answer"),
    ];
    for (callback, buffer, start, length, text) in cases {
        let given = get(callback, buffer, start, length);
        assert_eq!(
            given,
            (OK, vec![text.to_owned()]),
            "{buffer} {start} {length}"
        );
    }
    assert_eq!(get(REQUEST_BODY, REQUEST, 4, MAX).0, BAD_ARGUMENT);
    for buffer in [9, 100, MAX] {
        assert_eq!(get(REQUEST_BODY, buffer, 0, 1).0, BAD_ARGUMENT, "{buffer}");
    }
    for buffer in [2, 3, 4, 5, 8] {
        assert_eq!(get(REQUEST_BODY, buffer, 0, 1).0, NOT_FOUND, "{buffer}");
    }
    assert_eq!(get(CONFIGURE, REQUEST, 0, 1).0, NOT_FOUND);
}

#[test]
fn a_buffer_says_how_long_it_is() {
    let mut script = Script::new();
    call!(
        script,
        REQUEST_BODY,
        "proxy_get_buffer_status",
        REQUEST,
        NUMBER,
        LENGTH
    );
    script.show_number(REQUEST_BODY, 4);
    call!(
        script,
        REQUEST_BODY,
        "proxy_get_buffer_status",
        9,
        NUMBER,
        LENGTH
    );
    call!(
        script,
        REQUEST_BODY,
        "proxy_get_buffer_status",
        4,
        NUMBER,
        LENGTH
    );
    let mut fixture = script.start();
    fixture.pass();
    assert_eq!(fixture.statuses(), [OK, BAD_ARGUMENT, NOT_FOUND]);
    assert_eq!(fixture.lines(), ["\x04\0\0\0"]);
}

#[test]
fn bodies_are_changed_and_lose_the_length_that_was_said() {
    let cases = [
        (0, 0, "a ", "a body"),
        (4, 0, " b", "body b"),
        (MAX, 0, " b", "body b"),
        (0, MAX, "other", "other"),
        (0, 4, "", ""),
        (1, 2, "--", "b--y"),
        (2, 0, "-", "bo-dy"),
    ];
    for (start, length, text, after) in cases {
        let mut script = Script::new();
        let text = script.text(text);
        call!(
            script,
            REQUEST_BODY,
            "proxy_set_buffer_bytes",
            REQUEST,
            start,
            length,
            text
        );
        let (statuses, exchange) = script.run();
        assert_eq!(statuses, [OK]);
        assert_eq!(&exchange.request_rest.body[..], after.as_bytes());
        assert!(!exchange.request.headers.contains_key("content-length"));
        assert_eq!(exchange.response.unwrap().headers["content-length"], "6");
    }
}

#[test]
fn bodies_are_changed_while_they_are_here() {
    let mut script = Script::new();
    let text = script.text("x");
    for callback in [
        REQUEST_HEADERS,
        REQUEST_BODY,
        REQUEST_TRAILERS,
        RESPONSE_BODY,
        LOG,
    ] {
        for buffer in [REQUEST, RESPONSE] {
            call!(
                script,
                callback,
                "proxy_set_buffer_bytes",
                buffer,
                0,
                0,
                text
            );
        }
    }
    call!(
        script,
        REQUEST_BODY,
        "proxy_set_buffer_bytes",
        6,
        0,
        0,
        text
    );
    call!(
        script,
        REQUEST_BODY,
        "proxy_set_buffer_bytes",
        9,
        0,
        0,
        text
    );
    let mut expected = [NOT_FOUND; 12];
    // Both of the body's, then what no guest may change.
    (expected[2], expected[4], expected[5]) = (OK, BAD_ARGUMENT, BAD_ARGUMENT);
    expected[9] = OK;
    assert_eq!(script.statuses(), expected);
}

#[test]
fn a_body_is_bounded() {
    let bounds = Bounds {
        body_bytes: 10,
        ..Bounds::default()
    };
    let mut script = Script::new();
    let (fits, over) = (script.text("123456"), script.text("7"));
    for text in [fits, over] {
        call!(
            script,
            REQUEST_BODY,
            "proxy_set_buffer_bytes",
            REQUEST,
            MAX,
            0,
            text
        );
    }
    let mut fixture = script.start_bounded(bounds);
    let exchange = fixture.pass();
    assert_eq!(fixture.statuses(), [OK, INTERNAL_FAILURE]);
    assert_eq!(&exchange.request_rest.body[..], b"body123456");
}

#[test]
fn a_body_is_held_until_it_is_whole() {
    let mut script = Script::new();
    call!(script, REQUEST_BODY, "return", 1);
    call!(script, TICK, "proxy_set_effective_context", 2);
    call!(
        script,
        TICK,
        "proxy_get_buffer_bytes",
        REQUEST,
        0,
        100,
        DATA,
        LENGTH
    );
    script.show(TICK);
    call!(script, TICK, "proxy_continue_stream", 0);
    let mut fixture = script.start();
    let id = fixture.open();
    let waker = Waker::noop();
    let mut context = Context::from_waker(waker);
    let mut poll = |fixture: &mut Fixture| {
        let poll = fixture
            .instance
            .poll_resumed(id, Direction::Request, &mut context);
        poll.is_ready()
    };
    for _ in 0..2 {
        let action = fixture.instance.on_request_body(id, false).unwrap();
        assert_eq!(action, Action::Pause);
        assert!(!poll(&mut fixture));
        let body = &mut fixture.instance.exchange(id).unwrap().request_rest.body;
        body.extend_from_slice(b" more");
    }
    fixture.instance.on_tick().unwrap();
    assert!(poll(&mut fixture));
    assert!(!poll(&mut fixture));
    assert_eq!(fixture.lines(), ["body more more"]);
    let sizes: Vec<_> = fixture
        .callbacks()
        .into_iter()
        .filter(|(name, _)| *name == "proxy_on_request_body")
        .map(|(_, parameters)| parameters[1])
        .collect();
    assert_eq!(sizes, [4, 9]);
}
