//! Guests that fail, and limits that end them.

use crate::{
    Loaded,
    fixture::{self, Fixture},
};
use http::StatusCode;
use http_body_util::BodyExt;
use palisade_service::{Fault, Stream};
use std::time::Duration;

pub(crate) fn a_trap_is_an_error_with_its_backtrace(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let fault = fixture.fail("/trap");
    assert!(matches!(fault, Fault::Trap(_)), "{fault}");
    assert_eq!(fault.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let metrics = fixture.metrics();
    assert_eq!((metrics.done, metrics.faults), (1, 1));
    let (stream, line) = metrics.lines.last().unwrap();
    assert_eq!(*stream, Stream::Wall);
    assert!(
        line.starts_with("guest: it trapped: ") && line.contains("; at "),
        "{line}"
    );
    assert_eq!(fixture.get("/hello").status, StatusCode::OK, "the next one");
}

pub(crate) fn a_body_breaks_off_with_its_guest(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let response = fixture.get("/late-trap");
    // Nothing had gone out.
    assert_eq!(response.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(fixture.metrics().faults, 1);
}

pub(crate) fn a_loop_is_ended_in_time(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"50ms\"");
    for path in ["/loop", "/late-loop"] {
        let fault = fixture.fail(path);
        assert!(matches!(fault, Fault::Time(_)), "{fault}");
        assert_eq!(fault.status(), StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(fixture.get("/hello").status, StatusCode::OK);
}

/// On the same thread.
pub(crate) fn a_loop_gives_others_their_turn(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"10s\"");
    fixture.run(async {
        let looping = fixture.ask_async(fixture::request("/loop", fixture::whole("")));
        let hello = fixture.ask_async(fixture::request("/hello", fixture::whole("")));
        assert!(fixture::is_first(hello, looping).await);
    });
}

pub(crate) fn processor_time_has_its_limit(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ncpu-time = \"50ms\"");
    let fault = fixture.fail("/loop");
    assert!(matches!(fault, Fault::CpuTime(_)), "{fault}");
}

pub(crate) fn a_wait_is_ended_in_time(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"50ms\"");
    let fault = fixture.fail("/sleep");
    assert!(matches!(fault, Fault::Time(_)), "{fault}");
    assert_eq!(fixture.metrics().memory_bytes, 0);
}

/// It begins its request's body, and sends no more of it.
pub(crate) fn a_slow_client_is_not_its_guests_fault(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"50ms\"");
    let fault = fixture.fail_with("/echo", fixture::never());
    assert_eq!(fault, Fault::Client);
    assert_eq!(fault.status(), StatusCode::REQUEST_TIMEOUT);
    assert!(!fault.is_breakdown());
    assert_eq!(fixture.metrics().memory_bytes, 0);
}

/// It takes a part of the response, and asks for the next one when time is up.
pub(crate) fn a_slow_reader_is_not_its_guests_fault(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"50ms\"");
    fixture.run(async {
        let asked = fixture.ask_async(fixture::request("/big?1000000000", fixture::whole("")));
        let mut response = asked.await.unwrap().into_body();
        let pause = tokio::time::Instant::now() + Duration::from_millis(60);
        let error = loop {
            match response.frame().await.expect("it is no whole response") {
                Ok(_) => tokio::time::sleep_until(pause).await,
                Err(error) => break error,
            }
        };
        assert_eq!(*error.downcast::<Fault>().unwrap(), Fault::Client);
    });
    assert_eq!(fixture.metrics().faults, 1);
}

/// Neither a request that goes on and on, nor one that waits for its guest, is its fault.
pub(crate) fn a_slow_guest_is_at_fault_whatever_its_client_does(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"50ms\"");
    for path in ["/sleep", "/loop", "/read-and-sleep"] {
        let fault = fixture.fail_with(path, fixture::never());
        assert!(matches!(fault, Fault::Time(_)), "{path}: {fault}");
        assert!(fault.is_breakdown());
    }
}

pub(crate) fn memory_has_its_limit(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\nmemory = \"32MiB\"");
    let fault = fixture.fail("/grow");
    assert!(matches!(fault, Fault::Memory(_)), "{fault}");
    assert!(fault.to_string().contains("; at "), "{fault}");
    assert_eq!(fixture.metrics().memory_bytes, 0);
}

pub(crate) fn a_guest_must_answer(component: &Loaded) {
    assert_eq!(Fixture::new(component, "").fail("/none"), Fault::NoResponse);
}

pub(crate) fn a_guest_that_exits_has_not_answered(component: &Loaded) {
    assert_eq!(Fixture::new(component, "").fail("/exit"), Fault::Exit(1));
}

pub(crate) fn an_error_code_has_a_status(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let fault = fixture.fail("/error");
    assert_eq!(fault.status(), StatusCode::BAD_GATEWAY);
    assert!(!fault.is_breakdown());
}

pub(crate) fn an_unfinished_body_breaks_off(component: &Loaded) {
    for fixture in [Fixture::new(component, ""), Fixture::kept(component, "")] {
        assert_eq!(fixture.fail("/unfinished"), Fault::Unfinished);
        assert!(matches!(fixture.fail("/given-up"), Fault::Broken(_)));
    }
}

pub(crate) fn a_body_is_as_long_as_announced(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    assert_eq!(fixture.get("/announced?10").body.len(), 10);
    assert!(matches!(fixture.fail("/announced?5"), Fault::Broken(_)));
    assert!(matches!(fixture.fail("/announced?15"), Fault::Broken(_)));
}
