//! How long a body is said to be behind filters that look at it, and that it is not said to be empty.

use crate::chain::{answer_to, put_module};
use crate::fixture::Fixture;
use crate::raw_http::{Answer, Request};

/// Each case.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("reading", a_filter_that_only_reads_leaves_lengths),
    (
        "changing",
        a_filter_that_changes_bodies_tells_their_new_lengths,
    ),
    ("too-long", what_is_too_long_to_hold_goes_on_in_pieces),
    ("without-length", what_has_no_length_goes_on_as_it_comes),
    ("empty", an_empty_body_is_told_to_be_empty),
    (
        "failing",
        a_filter_that_fails_over_a_held_body_is_answered_for,
    ),
];

/// Looks at all bodies, and has no way to change them.
const READER: &str = r#"(module
    (import "env" "proxy_get_buffer_bytes" (func $get (param i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func $read (param $buffer i32) (param $bytes i32)
        (drop (call $get (local.get $buffer) (i32.const 0) (i32.const 8) (i32.const 16) (i32.const 20))))
    (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (call $read (i32.const 0) (local.get 1)) (i32.const 0))
    (func (export "proxy_on_response_body") (param i32 i32 i32) (result i32)
        (call $read (i32.const 1) (local.get 1)) (i32.const 0)))"#;

/// Puts `judged` in place of each body, once all of it is there; traps over one of three bytes.
const JUDGE: &str = r#"(module
    (import "env" "proxy_set_buffer_bytes" (func $set (param i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 16) "judged")
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func $judge (param $buffer i32) (param $bytes i32) (param $is_end i32) (result i32)
        (if (i32.eq (local.get $bytes) (i32.const 3)) (then unreachable))
        (if (result i32) (local.get $is_end)
            (then
                (drop (call $set
                    (local.get $buffer) (i32.const 0) (i32.const 0x7fffffff) (i32.const 16) (i32.const 6)))
                (i32.const 0))
            (else (i32.const 1))))
    (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (call $judge (i32.const 0) (local.get 1) (local.get 2)))
    (func (export "proxy_on_response_body") (param i32 i32 i32) (result i32)
        (call $judge (i32.const 1) (local.get 1) (local.get 2))))"#;

fn echo(request: &Request) -> Answer {
    Answer::new(200, request.body.clone())
}

/// An echo and a folder behind this module.
fn fixture(module: &str, settings: &str) -> Fixture {
    let fixture = Fixture::new().backend("echo", echo);
    let filter = put_module(&fixture, module);
    std::fs::create_dir(fixture.folder().join("site")).expect("make a folder");
    fixture
        .filter("filter", &filter, settings)
        .text("[services.site]\nfiles = \"site\"")
        .text(
            "[[route]]\npath = \"/site\"\nstrip = true\nfilters = [\"filter\"]\nservice = \"site\"",
        )
        .text("[[route]]\npath = \"/plain\"\nstrip = true\nservice = \"site\"")
        .route("/", &["filter"], "echo")
}

fn post(bytes: usize) -> Request {
    Request::new("POST", "/").body("x".repeat(bytes))
}

/// What the request and its answer were said to be long: `None` for chunks.
fn lengths(fixture: &Fixture, answer: &Answer) -> (Option<String>, Option<String>) {
    let asked = fixture.asked("echo");
    let asked = asked.last().expect("the service was asked");
    assert_eq!(
        asked.value("content-length").is_none(),
        asked.value("transfer-encoding").is_some()
    );
    let of = |value: Option<&str>| value.map(str::to_owned);
    (
        of(asked.value("content-length")),
        of(answer.value("content-length")),
    )
}

fn told(bytes: usize) -> Option<String> {
    Some(bytes.to_string())
}

fn a_filter_that_only_reads_leaves_lengths() {
    let fixture = fixture(READER, "");
    // Larger than anything that is held, in several pieces.
    let big = vec![b'x'; 5 << 20];
    std::fs::write(fixture.folder().join("site/big"), &big).expect("write a file");
    let server = fixture.serve();
    for bytes in [1, 100_000, 5 << 20] {
        let answer = server.ask(&post(bytes));
        assert_eq!(answer.body.len(), bytes);
        assert_eq!(lengths(&fixture, &answer), (told(bytes), told(bytes)));
    }
    let file = server.get("/site/big");
    assert!(file.body == big);
    assert_eq!(file.value("content-length"), Some("5242880"));
    let head = "HEAD /site/big HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    let head = answer_to(&server, head.as_bytes());
    assert!(
        head.contains("\r\ncontent-length: 5242880\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

fn a_filter_that_changes_bodies_tells_their_new_lengths() {
    let fixture = fixture(JUDGE, "");
    std::fs::write(fixture.folder().join("site/file"), "x".repeat(100_000)).expect("write a file");
    let server = fixture.serve();
    for bytes in [1, 100_000, 1 << 20] {
        let answer = server.ask(&post(bytes));
        assert_eq!(answer.text(), "judged");
        assert_eq!(lengths(&fixture, &answer), (told(6), told(6)), "{bytes}");
    }
    let file = server.get("/site/file");
    assert_eq!(
        (file.text().as_str(), file.value("content-length")),
        ("judged", Some("6"))
    );
    // What it would be, nobody knows before all of it was shown to the filter.
    let head = |path: &str| {
        let head = format!("HEAD {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
        answer_to(&server, head.as_bytes())
    };
    assert!(!head("/site/file").contains("content-length"));
    assert!(head("/plain/file").contains("\r\ncontent-length: 100000\r\n"));
}

fn what_is_too_long_to_hold_goes_on_in_pieces() {
    // It could change bodies, for all that the server knows, and does not.
    let module = READER.replace("proxy_get_buffer_bytes", "proxy_set_buffer_bytes");
    let module = module.replace(
        "(drop (call $get",
        "(drop (i32.const 0)) (if (i32.const 0) (then (drop (call $get",
    );
    let module = module.replace("(i32.const 20))))", "(i32.const 20))))))");
    let fixture = fixture(&module, "body-size = \"1K\"");
    let server = fixture.serve();
    for (bytes, is_told) in [(1024, true), (1025, false), (100_000, false)] {
        let answer = server.ask(&post(bytes));
        assert!(answer.text() == "x".repeat(bytes), "{}", answer.status);
        let expected = is_told.then(|| bytes.to_string());
        assert_eq!(
            lengths(&fixture, &answer),
            (expected.clone(), expected),
            "{bytes}"
        );
    }
}

fn what_has_no_length_goes_on_as_it_comes() {
    let fixture = fixture(JUDGE, "");
    let server = fixture.serve();
    let chunked = "POST / HTTP/1.1\r\nhost: test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                   5\r\n12345\r\n0\r\n\r\n";
    assert!(answer_to(&server, chunked.as_bytes()).contains("judged"));
    let asked = fixture.asked("echo");
    assert_eq!(asked[0].value("transfer-encoding"), Some("chunked"));
    assert_eq!(
        (asked[0].value("content-length"), &asked[0].body[..]),
        (None, &b"judged"[..])
    );
}

fn an_empty_body_is_told_to_be_empty() {
    let fixture = fixture(JUDGE, "");
    let server = fixture.serve();
    let length = |request: Request| {
        assert_eq!(server.ask(&request).status, 200);
        let asked = fixture.asked("echo");
        asked
            .last()
            .and_then(|asked| asked.value("content-length").map(str::to_owned))
    };
    assert_eq!(length(post(0)), told(0));
    assert_eq!(
        length(Request::new("PUT", "/").header("content-length", "0")),
        told(0)
    );
    assert_eq!(
        length(Request::new("DELETE", "/").header("content-length", "0")),
        told(0)
    );
    assert_eq!(length(Request::new("DELETE", "/")), None);
    assert_eq!(length(Request::new("GET", "/")), None);
}

/// Its head has not gone out: the client is told.
fn a_filter_that_fails_over_a_held_body_is_answered_for() {
    let fixture = fixture(JUDGE, "");
    std::fs::write(fixture.folder().join("site/three"), "abc").expect("write a file");
    let server = fixture.serve();
    assert_eq!(server.ask(&post(3)).status, 500);
    assert_eq!(fixture.asked("echo").len(), 0);
    assert_eq!(server.get("/site/three").status, 500);
    assert_eq!(server.ask(&post(4)).text(), "judged");
}
