//! `wasi:http` of components: requests, by the grants.

#[path = "../../../engine/tests/component/rust.rs"]
mod rust;

use super::{
    fixture::{Fixture, Outcome, cases},
    wasm::run,
};
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::OnceLock,
    thread,
};

cases![
    requests_go_where_they_are_granted,
    requests_are_denied_without_a_grant,
    requests_over_tls_want_a_certificate,
];

/// Why the component can't be built here.
pub(crate) fn why_not(name: &str) -> Option<&'static str> {
    let parts = [
        "/usr/bin/cargo",
        "/usr/lib/rustlib/src/rust/library",
        "/usr/bin/wasm-ld-19",
    ];
    let is_built = || parts.iter().all(|part| Path::new(part).exists());
    (name.starts_with("requests_") && !is_built())
        .then_some("needs Debian's cargo-web, rust-web-src and lld-19")
}

fn ask(fixture: &Fixture, flags: &[&str], scheme: &str, authority: &str) -> Outcome {
    static COMPONENT: OnceLock<Vec<u8>> = OnceLock::new();
    let component = COMPONENT.get_or_init(|| {
        rust::component("sockets").unwrap_or_else(|rust::Missing(why)| panic!("{why}"))
    });
    fixture.write("asks.wasm", "");
    fs::write(fixture.path("asks.wasm"), component).unwrap();
    run(fixture, flags, &["asks.wasm", "request", scheme, authority]).run()
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Answers one request; gives its head.
fn answer_one(listener: TcpListener) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap() == 1 {
            head.push(byte[0]);
        }
        client
            .write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 5\r\n\r\nhello")
            .unwrap();
        String::from_utf8(head).unwrap()
    })
}

fn requests_go_where_they_are_granted(fixture: &Fixture) {
    for host in ["127.0.0.1", "localhost"] {
        let (listener, address) = listen();
        let server = answer_one(listener);
        let authority = format!("{host}:{}", address.port());
        let grant = format!("tcp://{authority}");
        ask(fixture, &["--connect", &grant], "http", &authority).prints("request ok 201 hello\n");
        let head = server.join().unwrap();
        assert!(head.starts_with("GET /path?query HTTP/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("host: {authority}\r\n")), "{head}");
    }
}

fn requests_are_denied_without_a_grant(fixture: &Fixture) {
    let (listener, address) = listen();
    listener.set_nonblocking(true).unwrap();
    let authority = address.to_string();
    let other = format!(
        "tcp://127.0.0.1:{}",
        if address.port() == 1 { 2 } else { 1 }
    );
    for flags in [&[][..], &["--connect", &other]] {
        let flags = [flags, &["--report", "report.json"]].concat();
        let outcome = ask(fixture, &flags, "http", &authority);
        assert_eq!(
            outcome.text(),
            "request error ErrorCode::HttpRequestDenied\n",
            "{outcome:?}"
        );
        let report = fixture.read("report.json");
        let is_noted = report.contains(&format!("--connect tcp://{authority}"));
        assert!(is_noted || flags.len() == 2, "{report}");
        let outcome = ask(fixture, &flags, "http", "absent.example:80");
        assert!(outcome.text().contains("DnsError"), "{outcome:?}");
    }
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// A server that answers in plain text shows none.
fn requests_over_tls_want_a_certificate(fixture: &Fixture) {
    let (listener, address) = listen();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    });
    let grant = format!("tcp://{address}");
    let outcome = ask(
        fixture,
        &["--connect", &grant],
        "https",
        &address.to_string(),
    );
    assert_eq!(
        outcome.text(),
        "request error ErrorCode::TlsProtocolError\n",
        "{outcome:?}"
    );
    server.join().unwrap();
}
