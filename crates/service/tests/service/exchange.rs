//! Requests and their responses, while all goes well.

use crate::{
    LONG, Loaded,
    fixture::{self, Fixture},
    guests,
};
use http::StatusCode;
use palisade_engine::permits::Share;
use palisade_service::Stream;

pub(crate) fn a_short_answer_is_whole_and_its_length_known(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let response = fixture.get("/hello");
    assert_eq!(response.status, StatusCode::OK);
    assert_eq!(response.text(), "Hello, WASI!\n");
    assert_eq!(response.announced_bytes, Some(13));
    let metrics = fixture.metrics();
    assert_eq!((metrics.done, metrics.faults, metrics.denied), (1, 0, 0));
    assert!(metrics.cpu_ns > 0);
    assert!(metrics.lines.is_empty(), "{:?}", metrics.lines);
}

pub(crate) fn a_guest_sees_its_request(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let request = http::Request::put("/request?a=b")
        .header("host", "example.com:8080")
        .header("x-color", "red")
        .header("connection", "close");
    let response = fixture.ask(request.body(fixture::whole("")).unwrap());
    let text = response.text();
    let first = "Method::Put Some(Scheme::Http) Some(\"example.com:8080\") Some(\"/request?a=b\")";
    assert_eq!(text.lines().next(), Some(first));
    assert!(text.contains("x-color: red\n"), "{text}");
    assert!(
        !text.contains("connection"),
        "a connection is the server's: {text}"
    );
}

pub(crate) fn bodies_stream_both_ways_with_trailers(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    fixture.run(async {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        let asked = fixture.ask_async(fixture::request("/echo", body));
        let mut response = asked.await.unwrap().into_body();
        assert_eq!(
            fixture::next(&mut response).await.into_data().unwrap(),
            "begun"
        );
        for part in ["one", "two"] {
            parts.data(part);
            assert_eq!(
                fixture::next(&mut response).await.into_data().unwrap(),
                part
            );
        }
        parts.trailers("x-sum", "6");
        let trailers = fixture::next(&mut response).await.into_trailers().unwrap();
        assert_eq!(trailers["x-sum"], "6");
        assert!(fixture::is_at_end(&mut response).await);
    });
    assert_eq!(fixture.metrics().faults, 0);
}

/// The client sends a head, and nothing for a while.
pub(crate) fn a_head_alone_holds_no_instance(component: &Loaded) {
    let share = Share {
        instances: 1,
        wait_time: LONG,
    };
    let fixture = Fixture::sharing(&guests::engine(), component, share);
    fixture.run(async {
        let (parts, body) = fixture::channel();
        let mut slow = std::pin::pin!(fixture.ask_async(fixture::request("/echo", body)));
        assert!(fixture::poll_once(slow.as_mut()).await.is_none());
        let hello = fixture.ask_async(fixture::request("/hello", fixture::whole("")));
        assert_eq!(hello.await.unwrap().status(), StatusCode::OK);
        parts.data("one");
        let mut response = slow.await.unwrap().into_body();
        assert_eq!(
            fixture::next(&mut response).await.into_data().unwrap(),
            "one"
        );
    });
}

pub(crate) fn a_body_that_breaks_off_starts_no_guest(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    fixture.run(async {
        let fault = fixture
            .ask_async(fixture::request("/echo", fixture::Broken))
            .await;
        let fault = fault.unwrap_err();
        assert!(fault.to_string().contains("it is broken"), "{fault}");
        assert_eq!(fault.status(), StatusCode::BAD_REQUEST);
    });
    assert_eq!(fixture.metrics().done, 0);
}

pub(crate) fn an_answer_may_have_no_body(component: &Loaded) {
    let response = Fixture::new(component, "").get("/empty");
    assert_eq!(
        (response.text().as_str(), response.announced_bytes),
        ("", Some(0))
    );
}

pub(crate) fn a_status_is_the_guests(component: &Loaded) {
    assert_eq!(
        Fixture::new(component, "").get("/elsewhere").status,
        StatusCode::NOT_FOUND
    );
}

pub(crate) fn a_body_need_not_be_read(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let request = http::Request::post("/hello").header("host", "h");
    let response = fixture.ask(request.body(fixture::never()).unwrap());
    assert_eq!(response.text(), "Hello, WASI!\n");
}

/// Of a gigabyte the host holds what a few writes have.
pub(crate) fn a_guest_waits_for_its_reader(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    fixture.run(async {
        let asked = fixture.ask_async(fixture::request("/big?1000000000", fixture::whole("")));
        let mut response = asked.await.unwrap().into_body();
        for _ in 0..20 {
            let data = fixture::next(&mut response).await.into_data().unwrap();
            assert!(data.len() <= 64 << 10);
        }
        drop(response);
    });
    let metrics = fixture.metrics();
    assert_eq!((metrics.done, metrics.faults), (1, 0));
}

pub(crate) fn a_large_answer_comes_whole(component: &Loaded) {
    let response = Fixture::new(component, "").get("/big");
    assert_eq!(response.body.len(), 1 << 20);
    assert!(response.body.iter().all(|byte| *byte == b'x'));
}

pub(crate) fn a_client_that_goes_ends_the_guest(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    fixture.run(async {
        // Before the head, and after it.
        let asked = fixture.ask_async(fixture::request("/sleep", fixture::whole("")));
        assert!(fixture::is_pending(asked).await);
        let asked = fixture.ask_async(fixture::request("/late-loop", fixture::whole("")));
        drop(asked.await.unwrap());
    });
    let metrics = fixture.metrics();
    assert_eq!((metrics.done, metrics.faults), (2, 0));
    assert_eq!(metrics.memory_bytes, 0);
}

pub(crate) fn a_guest_may_go_on_when_it_has_answered(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    let response = fixture.get("/after");
    assert_eq!(response.text(), "answered\n");
    fixture.wait_for_done(1);
    assert_eq!(
        fixture.metrics().lines,
        [(Stream::Stdout, "went on".into())]
    );
}
