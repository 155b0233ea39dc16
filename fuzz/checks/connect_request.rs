//! What must hold of whatever bytes a client sends to the proxy for wildcards.
//!
//! The fuzz target and an ordinary test call the same function.

use palisade_network::proxy::{
    hello::{HelloFault, MAX_HELLO_BYTES, read_hello},
    request::{ConnectRequest, MAX_REQUEST_BYTES, RequestFault, read_request},
};
use palisade_policy::HostName;

/// What the bytes are taken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// A request.
    pub(crate) request: bool,
    /// After that, or without it, TLS to a host.
    pub(crate) hello: bool,
}

/// Checks the request and what follows it, and the bytes as TLS from their start.
pub(crate) fn check(bytes: &[u8]) -> Taken {
    let request = check_request(bytes);
    let rest = request
        .as_ref()
        .map_or(bytes, |request| &bytes[request.length..]);
    Taken {
        request: request.is_some(),
        hello: check_hello(rest).is_some(),
    }
}

fn check_request(bytes: &[u8]) -> Option<ConnectRequest> {
    let read = read_request(bytes);
    match &read {
        Ok(Some(request)) => check_taken(bytes, request),
        Ok(None) => assert!(bytes.len() < MAX_REQUEST_BYTES),
        Err(fault) => assert_shows(&fault.to_string()),
    }
    for length in places(bytes.len()) {
        assert_no_later_doubt(&read, &read_request(&bytes[..length]), length);
    }
    read.ok().flatten()
}

/// A reader who knows no HTTP finds the same: no other host, and no other request inside.
fn check_taken(bytes: &[u8], request: &ConnectRequest) {
    let ConnectRequest { name, port, length } = request;
    assert!(*port > 0 && *length <= MAX_REQUEST_BYTES);
    let head = std::str::from_utf8(&bytes[..*length])
        .map(str::to_owned)
        .unwrap_or_else(|_| String::from_utf8_lossy(&bytes[..*length]).into_owned());
    let mut lines = head.split("\r\n");
    let asked = |text: &str| text.trim().trim_end_matches('.').to_ascii_lowercase();
    let line = lines.next().unwrap_or_default();
    let (authority, version) = line
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split_once(' '))
        .expect("a method, a target and a version");
    assert!(["HTTP/1.0", "HTTP/1.1"].contains(&version), "{line:?}");
    let (host, text) = authority.rsplit_once(':').expect("a port");
    assert_eq!(
        (asked(host).as_str(), text),
        (name.as_str(), &*port.to_string())
    );
    assert!(host.parse::<std::net::IpAddr>().is_err());
    for line in lines {
        assert!(!line.contains(['\r', '\n', '\0']), "{line:?}");
        let (header, value) = line.split_once(':').unwrap_or((line, ""));
        if header.eq_ignore_ascii_case("host") {
            let (host, _) = value.rsplit_once(':').unwrap_or((value, ""));
            assert_eq!(asked(host), name.as_str(), "{line:?}");
        }
        assert!(
            !header.eq_ignore_ascii_case("transfer-encoding"),
            "{line:?}"
        );
    }
    let plain = format!("CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n");
    let again = ConnectRequest {
        length: plain.len(),
        ..request.clone()
    };
    assert_eq!(read_request(plain.as_bytes()), Ok(Some(again)));
}

/// What is read of a beginning stays so, whatever comes after it.
fn assert_no_later_doubt(
    whole: &Result<Option<ConnectRequest>, RequestFault>,
    part: &Result<Option<ConnectRequest>, RequestFault>,
    length: usize,
) {
    match part {
        Ok(None) => {}
        Ok(Some(_)) => assert_eq!(whole, part, "at {length}"),
        Err(fault) => assert!(whole.is_err(), "at {length}: {fault}, then {whole:?}"),
    }
}

fn check_hello(bytes: &[u8]) -> Option<HostName> {
    let read = read_hello(bytes);
    match &read {
        Ok(Some(name)) => assert_eq!(name.as_str().parse().as_ref(), Ok(name)),
        Ok(None) => assert!(bytes.len() < MAX_HELLO_BYTES),
        Err(fault) => assert_shows(&fault.to_string()),
    }
    for length in places(bytes.len()) {
        match read_hello(&bytes[..length]) {
            Ok(None) => {}
            Err(HelloFault::TooLong) if length >= MAX_HELLO_BYTES => {}
            part => assert_eq!(read, part, "at {length}"),
        }
    }
    read.ok().flatten()
}

/// Every place of what is short; of what is long, the first and the last.
fn places(length: usize) -> impl Iterator<Item = usize> {
    (0..length.min(300)).chain(length.saturating_sub(50).max(300)..length)
}

/// A message can be printed on a terminal, whatever it is about.
fn assert_shows(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
}
