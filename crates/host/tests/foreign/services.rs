//! Services that nobody here wrote answer.

use crate::fixture::{Fixture, fetched};
use crate::raw_http::Request;

fn says_hello(name: &str) {
    let fixture = Fixture::new()
        .component("service", &fetched(name), "")
        .route("/", &[], "service");
    let server = fixture.serve();
    for _ in 0..20 {
        let answer = server.get("/");
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "Hello, WASI!")
        );
    }
}

pub(crate) fn rust_of_0_2_2_answers() {
    says_hello("http_proxy_0.2.2");
}

pub(crate) fn rust_of_0_2_12_answers() {
    says_hello("http_proxy_0.2.12");
}

pub(crate) fn rust_of_0_3_0_answers() {
    says_hello("http_proxy_0.3.0");
}

pub(crate) fn rust_by_other_crates_answers() {
    says_hello("http_proxy_compat_0.3.0");
}

pub(crate) fn javascript_reads_and_answers() {
    let fixture = Fixture::new()
        .component("service", &fetched("javascript"), "")
        .route("/", &[], "service");
    let server = fixture.serve();
    assert_eq!(server.get("/a?b=c").text(), "/a?b=c: 0 bytes\n");
    let answer = server.ask(&Request::new("POST", "/a").body(vec![b'x'; 100_000]));
    assert_eq!(answer.text(), "/a: 100000 bytes\n");
    assert_eq!(answer.value("content-type"), Some("text/plain"));
}

/// A foreign filter before a foreign service.
pub(crate) fn a_filter_stands_before_a_service() {
    let fixture = Fixture::new()
        .component("service", &fetched("http_proxy_0.2.12"), "")
        .filter(
            "config",
            &fetched("http_config"),
            "configuration = \"added\"",
        )
        .route("/", &["config"], "service");
    let answer = fixture.serve().get("/");
    assert_eq!(
        (answer.text().as_str(), answer.value("custom-header")),
        ("Hello, WASI!", Some("added"))
    );
}
