//! What ends an instance, and what is left of it.

use crate::{guest, harness::*};
use palisade_filter::{Direction, FaultKind, Limits, Part, Settings, Shared};
use std::{
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

fn settings(script: &Script) -> Settings {
    Settings {
        limits: Limits {
            memory_bytes: 1 << 20,
            time: Some(Duration::from_millis(20)),
            ..Limits::default()
        },
        ..script.settings()
    }
}

fn start(script: &Script) -> Fixture {
    script
        .start_with(settings(script), &Arc::new(Shared::default()), None)
        .unwrap()
}

const FAULTS: [(&str, u32, FaultKind); 6] = [
    ("trap", 0, FaultKind::Trap),
    ("loop", 0, FaultKind::Time),
    ("recurse", 0, FaultKind::Trap),
    ("grow", 100, FaultKind::Memory),
    ("exit", 3, FaultKind::Exit),
    ("abort", 0, FaultKind::Exit),
];

#[test]
fn each_fault_in_each_callback_of_an_exchange() {
    let parts = [
        (
            CREATE_STREAM,
            Part::RequestHeaders,
            "proxy_on_context_create",
        ),
        (
            REQUEST_HEADERS,
            Part::RequestHeaders,
            "proxy_on_request_headers",
        ),
        (REQUEST_BODY, Part::RequestBody, "proxy_on_request_body"),
        (
            REQUEST_TRAILERS,
            Part::RequestTrailers,
            "proxy_on_request_trailers",
        ),
        (
            RESPONSE_HEADERS,
            Part::ResponseHeaders,
            "proxy_on_response_headers",
        ),
        (RESPONSE_BODY, Part::ResponseBody, "proxy_on_response_body"),
        (
            RESPONSE_TRAILERS,
            Part::ResponseTrailers,
            "proxy_on_response_trailers",
        ),
    ];
    for (callback, part, name) in parts {
        for (act, argument, kind) in FAULTS {
            let mut script = Script::new();
            call!(script, callback, act, argument);
            let mut fixture = start(&script);
            let id = fixture.open();
            let fault = fixture.instance.on_part(id, part, true).unwrap_err();
            assert_eq!((fault.kind, fault.callback), (kind, name), "{act}");
            assert!(!fixture.instance.is_alive());
            assert!(fixture.instance.take(id).is_some());
        }
    }
}

#[test]
fn a_fault_in_each_of_the_other_callbacks() {
    for (callback, name) in [
        (CREATE, "proxy_on_context_create"),
        (VM_START, "proxy_on_vm_start"),
        (CONFIGURE, "proxy_on_configure"),
    ] {
        let mut script = Script::new();
        call!(script, callback, "trap");
        let started = script.start_with(settings(&script), &Arc::default(), None);
        let fault = started.err().expect("a fault");
        assert_eq!((fault.kind, fault.callback), (FaultKind::Trap, name));
    }
    for (callback, name) in ENDS {
        let mut script = Script::new();
        call!(script, callback, "trap");
        let mut fixture = start(&script);
        let id = fixture.open();
        let _ = fixture.instance.on_request_headers(id, true).unwrap();
        let fault = fixture.instance.close(id).unwrap_err();
        assert_eq!((fault.kind, fault.callback), (FaultKind::Trap, name));
        assert!(fixture.instance.take(id).is_some());
    }
    let mut script = Script::new();
    call!(script, TICK, "trap");
    let fault = start(&script).instance.on_tick().unwrap_err();
    assert_eq!(fault.callback, "proxy_on_tick");
    let mut script = Script::new();
    call!(script, QUEUE_READY, "trap");
    let fault = start(&script).instance.on_queue_ready(1).unwrap_err();
    assert_eq!(fault.callback, "proxy_on_queue_ready");
}

#[test]
fn a_fault_of_the_allocator_is_the_guests() {
    for (act, argument, kind) in FAULTS {
        let mut script = Script::new();
        let path = script.text("plugin_name");
        call!(script, TICK, "proxy_get_property", path, DATA, LENGTH);
        call!(script, ALLOCATE, act, argument);
        let mut fixture = start(&script);
        let fault = fixture.instance.on_tick().unwrap_err();
        assert_eq!(
            (fault.kind, fault.callback),
            (kind, "proxy_on_tick"),
            "{act}"
        );
    }
}

#[test]
fn a_root_context_that_does_not_come_to_an_end_is_ended() {
    for (callback, name) in [(DONE, "proxy_on_done"), (DELETE, "proxy_on_delete")] {
        let mut script = Script::new();
        call!(script, callback, "loop");
        let mut fixture = start(&script);
        let fault = fixture.instance.stop().unwrap_err();
        assert_eq!((fault.kind, fault.callback), (FaultKind::Time, name));
        assert!(fixture.instance.is_done());
    }
}

#[test]
fn a_fault_says_where_it_was() {
    let mut script = Script::new();
    call!(script, REQUEST_HEADERS, "trap");
    let mut fixture = start(&script);
    let id = fixture.open();
    let fault = fixture.instance.on_request_headers(id, true).unwrap_err();
    let text = fault.to_string();
    assert!(
        text.starts_with("guest: a trap in proxy_on_request_headers: "),
        "{text}"
    );
    assert!(text.contains("unreachable"), "{text}");
    let mut script = Script::new();
    let message = utf16(&mut script, "no luck");
    let file = utf16(&mut script, "index.ts");
    call!(script, TICK, "abort", message, file, 3, 4);
    let fault = start(&script).instance.on_tick().unwrap_err();
    assert!(fault.message.contains("no luck at index.ts:3:4"), "{fault}");
    // Whatever it points to.
    for at in [0u32, 1, 3, 0x3fffe, 0x3ffff, 0xffff_fffe] {
        let mut script = Script::new();
        call!(script, TICK, "abort", at, at, 3, 4);
        let fault = start(&script).instance.on_tick().unwrap_err();
        assert_eq!(fault.kind, FaultKind::Exit);
    }
}

/// A text of AssemblyScript's: its length in bytes stands before it.
fn utf16(script: &mut Script, text: &str) -> u64 {
    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let length = (units.len() as u32).to_le_bytes();
    let [at, _] = script.bytes(&[&length[..], &units].concat());
    at + 4
}

#[test]
fn the_dead_are_not_called_and_give_back_what_they_have() {
    let mut script = Script::new();
    call!(script, TICK, "trap");
    call!(script, REQUEST_HEADERS, "return", 1);
    let mut fixture = start(&script);
    let (first, second) = (fixture.open(), fixture.open());
    let _ = fixture.instance.on_request_headers(first, true).unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut poll = |fixture: &mut Fixture| {
        let poll = fixture
            .instance
            .poll_resumed(first, Direction::Request, &mut context);
        poll.is_ready()
    };
    assert!(!poll(&mut fixture));
    fixture.instance.on_tick().unwrap_err();
    assert!(poll(&mut fixture));
    assert!(fixture.instance.is_done());
    for _ in 0..2 {
        let fault = fixture
            .instance
            .on_request_headers(second, true)
            .unwrap_err();
        assert_eq!(fault.kind, FaultKind::Host);
        fixture.instance.on_tick().unwrap_err();
    }
    let streams: Vec<_> = fixture.instance.streams().collect();
    assert_eq!(streams, [first, second]);
    // Those that are not to blame go on elsewhere.
    let mut other = start(&script);
    for id in streams {
        let exchange = fixture.instance.take(id).unwrap();
        let id = other.instance.open(exchange);
        let _ = other.instance.on_request_headers(id, true).unwrap();
        other.instance.close(id).unwrap();
    }
    // Nothing is said to a dead guest.
    fixture.events();
    assert!(fixture.instance.close(second).unwrap().is_none());
    assert!(fixture.instance.close(first).is_err());
    assert_eq!(fixture.events(), []);
}

#[test]
fn one_time_is_for_all_callbacks_of_a_phase() {
    // Both together take more time than there is, the first alone as much as it likes.
    let text = r#"(module
        (import "env" "proxy_get_current_time_nanoseconds" (func $now (param i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "proxy_abi_version_0_2_1"))
        (func (export "malloc") (param i32) (result i32) (i32.const 1024))
        (func $spend (local $end i64)
          (drop (call $now (i32.const 8)))
          (local.set $end (i64.add (i64.load (i32.const 8)) (i64.const 60000000)))
          (loop $again
            (drop (call $now (i32.const 8)))
            (br_if $again (i64.lt_u (i64.load (i32.const 8)) (local.get $end)))))
        (func (export "proxy_on_context_create") (param i32 i32)
          (if (local.get 1) (then (call $spend))))
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (call $spend) (i32.const 0)))"#;
    let settings = |milliseconds| Settings {
        limits: Limits {
            time: Some(Duration::from_millis(milliseconds)),
            ..Limits::default()
        },
        ..Settings::new("f")
    };
    let (filter, _) = crate::load::filter(text, settings(90)).unwrap();
    let mut instance = crate::load::start(&filter).unwrap();
    let id = instance.open(guest::exchange());
    let fault = instance.on_request_headers(id, true).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Time);
    assert_eq!(fault.callback, "proxy_on_request_headers");
}

#[test]
fn a_new_instance_does_not_know_the_old_one() {
    let mut script = Script::new();
    call!(script, RESPONSE_HEADERS, "trap");
    let shared = Arc::new(Shared::default());
    for _ in 0..3 {
        let mut fixture = script.start_with(settings(&script), &shared, None).unwrap();
        let id = fixture.open();
        let _ = fixture.instance.on_request_headers(id, true).unwrap();
        fixture.instance.on_response_headers(id, true).unwrap_err();
        let streams: Vec<_> = fixture
            .callbacks()
            .into_iter()
            .filter(|(name, _)| *name == "proxy_on_request_headers")
            .collect();
        assert_eq!(streams, [("proxy_on_request_headers", vec![2, 9, 1])]);
    }
}
