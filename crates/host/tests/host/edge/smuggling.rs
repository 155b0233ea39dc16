//! Requests that two parsers could understand differently: refused, or one meaning left.

use super::stand_in::{Server, anywhere, edge};
use crate::raw_http::Client;
use palisade_host::config::Limits;

/// What comes of the bytes.
#[derive(Debug)]
enum Outcome {
    /// An answer with this status, and the connection is closed.
    Refused(u16),
    /// The service sees it, with this line, and a second request can follow.
    Seen(&'static str),
}

use Outcome::{Refused, Seen};

const CASES: &[(&str, &str, Outcome)] = &[
    (
        "plain",
        "GET /head HTTP/1.1\r\nhost: a\r\n\r\n",
        Seen("GET /head"),
    ),
    (
        "length before coding",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "coding before length",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "two lengths",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        Refused(400),
    ),
    (
        "the same length twice",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
        Refused(400),
    ),
    (
        "two lengths in one field",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 3, 4\r\n\r\nabcd",
        Refused(400),
    ),
    (
        "length with a sign",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: +3\r\n\r\nabc",
        Refused(400),
    ),
    (
        "negative length",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: -3\r\n\r\nabc",
        Refused(400),
    ),
    (
        "hexadecimal length",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 0x3\r\n\r\nabc",
        Refused(400),
    ),
    (
        "empty length",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length:\r\n\r\nabc",
        Refused(400),
    ),
    (
        "length past 64 bits",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length: 18446744073709551619\r\n\r\nabc",
        Refused(400),
    ),
    (
        "two codings",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked twice",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "a coding under chunked",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Refused(501),
    ),
    (
        "chunked not last",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "a coding that looks like chunked",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "chunked behind a vertical tab",
        "POST /head HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "a coding in HTTP/1.0",
        "POST /head HTTP/1.0\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        Refused(400),
    ),
    (
        "folded line",
        "GET /head HTTP/1.1\r\nhost: a\r\nx: 1\r\n 2\r\n\r\n",
        Refused(400),
    ),
    (
        "folded first line",
        "GET /head HTTP/1.1\r\n host: a\r\n\r\n",
        Refused(400),
    ),
    (
        "space before colon",
        "GET /head HTTP/1.1\r\nhost: a\r\nx : 1\r\n\r\n",
        Refused(400),
    ),
    (
        "space before the colon of a length",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-length : 3\r\n\r\nabc",
        Refused(400),
    ),
    (
        "name without colon",
        "GET /head HTTP/1.1\r\nhost: a\r\nx\r\n\r\n",
        Refused(400),
    ),
    (
        "empty name",
        "GET /head HTTP/1.1\r\nhost: a\r\n: 1\r\n\r\n",
        Refused(400),
    ),
    (
        "NUL in a value",
        "GET /head HTTP/1.1\r\nhost: a\r\nx: 1\x002\r\n\r\n",
        Refused(400),
    ),
    (
        "CR in a value",
        "GET /head HTTP/1.1\r\nhost: a\r\nx: 1\r2\r\n\r\n",
        Refused(400),
    ),
    (
        "NUL in the target",
        "GET /head\x00 HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    // RFC 9112, section 2.2, lets a bare LF end a line, and a server behind may see it otherwise.
    (
        "bare LF",
        "GET /head HTTP/1.1\nhost: a\nx: 1\n\n",
        Refused(400),
    ),
    (
        "bare LF behind the target",
        "GET /head HTTP/1.1\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "bare LF behind a field",
        "GET /head HTTP/1.1\r\nhost: a\nx: 1\r\n\r\n",
        Refused(400),
    ),
    (
        "bare LF at the end of a head",
        "GET /head HTTP/1.1\r\nhost: a\r\n\n",
        Refused(400),
    ),
    (
        "bare LF before a request",
        "\nGET /head HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "an empty line before a request",
        "\r\nGET /head HTTP/1.1\r\nhost: a\r\n\r\n",
        Seen("GET /head"),
    ),
    (
        "bare LF behind a trailer",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: 1\n\r\n",
        Refused(502),
    ),
    (
        "bare LF after the last chunk",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\n",
        Refused(502),
    ),
    (
        "bare LF after a chunk's size",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
        Refused(502),
    ),
    (
        "bare LF in a chunk's extension",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3;x\nabc\r\n0\r\n\r\n",
        Refused(502),
    ),
    (
        "chunk's extension",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0\r\n\r\n",
        Seen("abc"),
    ),
    (
        "chunk's size past 64 bits",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n",
        Refused(502),
    ),
    (
        "chunk's size with a sign",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n+3\r\nabc\r\n0\r\n\r\n",
        Refused(502),
    ),
    (
        "chunk's size with 0x",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
        Refused(502),
    ),
    (
        "chunk longer than its size",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        Refused(502),
    ),
    ("no host", "GET /head HTTP/1.1\r\n\r\n", Refused(400)),
    (
        "no host in HTTP/1.0",
        "GET /head HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
        Seen("GET /head"),
    ),
    (
        "empty host",
        "GET /head HTTP/1.1\r\nhost:\r\n\r\n",
        Refused(400),
    ),
    (
        "two hosts",
        "GET /head HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        Refused(400),
    ),
    (
        "the same host twice",
        "GET /head HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "two hosts in one field",
        "GET /head HTTP/1.1\r\nhost: a, b\r\n\r\n",
        Refused(400),
    ),
    (
        "host with a path",
        "GET /head HTTP/1.1\r\nhost: a/b\r\n\r\n",
        Refused(400),
    ),
    (
        "host with a user",
        "GET /head HTTP/1.1\r\nhost: u@a\r\n\r\n",
        Refused(400),
    ),
    (
        "a port below 0",
        "GET /head HTTP/1.1\r\nhost: h:-1\r\n\r\n",
        Refused(400),
    ),
    (
        "a port above all",
        "GET /head HTTP/1.1\r\nhost: h:65536\r\n\r\n",
        Refused(400),
    ),
    (
        "half an address",
        "GET /head HTTP/1.1\r\nhost: [::1\r\n\r\n",
        Refused(400),
    ),
    (
        "no address",
        "GET /head HTTP/1.1\r\nhost: [::x]\r\n\r\n",
        Refused(400),
    ),
    (
        "an empty label",
        "GET /head HTTP/1.1\r\nhost: a..b\r\n\r\n",
        Refused(400),
    ),
    (
        "an address",
        "GET /head HTTP/1.1\r\nhost: [0::1]:80\r\n\r\n",
        Seen("host: [::1]:80\n"),
    ),
    (
        "another spelling of a host",
        "GET /head HTTP/1.1\r\nhost: A.Example.\r\n\r\n",
        Seen("host: a.example\n"),
    ),
    (
        "address with the same host",
        "GET http://a:80/head HTTP/1.1\r\nhost: A:80\r\n\r\n",
        Seen("GET /head\nhost: a:80\n"),
    ),
    (
        "address with another host",
        "GET http://b/head HTTP/1.1\r\nhost: a\r\n\r\n",
        Seen("GET /head\nhost: b\n"),
    ),
    (
        "address with what is no host",
        "GET http://b/head HTTP/1.1\r\nhost: a/b\r\n\r\n",
        Refused(400),
    ),
    (
        "address with two hosts",
        "GET http://b/head HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        Refused(400),
    ),
    (
        "address without host",
        "GET http://b/head HTTP/1.1\r\n\r\n",
        Refused(400),
    ),
    (
        "address with a user",
        "GET http://u@a/head HTTP/1.1\r\nhost: u@a\r\n\r\n",
        Refused(400),
    ),
    (
        "address of another kind",
        "GET ftp://a/head HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "host as target",
        "GET a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n",
        Refused(400),
    ),
    (
        "star as target",
        "GET * HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "target without slash",
        "GET head HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "space in the target",
        "GET /head x HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "two spaces before the version",
        "GET /head  HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "CONNECT",
        "CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\n",
        Refused(405),
    ),
    (
        "TRACE",
        "TRACE /head HTTP/1.1\r\nhost: a\r\n\r\n",
        Refused(405),
    ),
    (
        "a list in two fields",
        "GET /head HTTP/1.1\r\nhost: a\r\nx-user: a\r\nX-User: b\r\n\r\n",
        Seen("x-user: a, b\n"),
    ),
    (
        "two cookies",
        "GET /head HTTP/1.1\r\nhost: a\r\ncookie: a=1\r\ncookie: b=2\r\n\r\n",
        Seen("cookie: a=1; b=2\n"),
    ),
    (
        "two authorizations",
        "GET /head HTTP/1.1\r\nhost: a\r\nauthorization: a\r\nauthorization: a\r\n\r\n",
        Refused(400),
    ),
    (
        "two types",
        "POST /head HTTP/1.1\r\nhost: a\r\ncontent-type: a/b\r\ncontent-type: a/c\r\ncontent-length: 0\r\n\r\n",
        Refused(400),
    ),
    (
        "a field that only a proxy says",
        "GET /head HTTP/1.1\r\nx-original-url: /b\r\nX-Rewrite-URL: /c\r\ntrue-client-ip: 1.2.3.4\r\nhost: a\r\n\r\n",
        Seen("GET /head\nhost: a\n"),
    ),
    (
        "a path in another spelling",
        "GET /head/..//%68ead HTTP/1.1\r\nhost: a\r\n\r\n",
        Seen("GET /head\n"),
    ),
    (
        "HTTP/2.0 without its preface",
        "GET /head HTTP/2.0\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    (
        "HTTP/1.2",
        "GET /head HTTP/1.2\r\nhost: a\r\n\r\n",
        Seen("GET /head"),
    ),
    (
        "HTTP/1.10",
        "GET /head HTTP/1.10\r\nhost: a\r\n\r\n",
        Refused(400),
    ),
    ("HTTP/0.9", "GET /head\r\n\r\n", Refused(400)),
    (
        "TLS to a plain port",
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        Refused(400),
    ),
    (
        "an upgrade that nobody makes",
        "GET /head HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        Seen("upgrade: h2c"),
    ),
];

#[test]
fn a_request_has_one_meaning_or_none() {
    let server =
        Server::try_start(&edge(vec![anywhere()], Limits::default()), 1).expect("it starts");
    for (name, bytes, outcome) in CASES {
        let mut client = server.connect();
        client.send(bytes);
        let answer = client.answer();
        match outcome {
            Refused(status) => {
                assert_eq!(answer.status, *status, "{name}: {answer:?}");
                assert_ends(&mut client, name);
            }
            Seen(line) => {
                assert_eq!(answer.status, 200, "{name}: {answer:?}");
                assert!(answer.text().contains(line), "{name}: {answer:?}");
                assert_eq!(
                    client.get("/").text(),
                    "first",
                    "{name}: the second request"
                );
            }
        }
    }
}

/// Nothing behind the first request is taken for a second one.
fn assert_ends(client: &mut Client, name: &str) {
    // The connection may be closed already.
    let _ = client.try_send("GET / HTTP/1.1\r\nhost: smuggled\r\n\r\n");
    match client.read_to_end() {
        Ok(rest) => assert_eq!(rest, "", "{name}: an answer more"),
        Err(error) => {
            panic!("{name}: the connection was reset before its answer was read: {error}")
        }
    }
}

/// Names of variables have no hyphens: `X_User` and `X-User` are one to programs of CGI's kin.
#[test]
fn names_with_underscores_are_taken_out_unless_they_are_wanted() {
    for underscores in [false, true] {
        let server = Server::start(Limits {
            underscores,
            ..Limits::default()
        });
        let mut client = server.connect();
        client.send(
            "POST /head HTTP/1.1\r\nhost: a\r\nX_Forwarded_For: 1\r\nx-user: 2\r\nx_user: 3\r\nx_user: 4\r\n\
             Content_Length: 5\r\n_: 6\r\ncontent-length: 0\r\n\r\n",
        );
        let answer = client.answer();
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("x-user: 2\n"), "{answer:?}");
        let passed = answer.text().matches('_').count();
        assert_eq!(passed, if underscores { 5 } else { 0 }, "{answer:?}");
        assert_eq!(client.get("/").text(), "first", "the second request");
    }
}

#[test]
fn a_body_that_is_announced_is_asked_for_when_somebody_reads_it() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.answer().status, 100);
    client.send("abc");
    assert_eq!(client.answer().text(), "abc");
}

#[test]
fn a_body_that_nobody_reads_is_not_asked_for() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n");
    assert_eq!(client.answer().status, 200);
}

#[test]
fn an_answer_that_leaves_http_is_an_error_of_the_service() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send("GET /switch HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n");
    assert_eq!(client.answer().status, 502);
    assert_eq!(client.get("/").text(), "first");
}

/// What was looked at in the first request is looked at in the next, wherever its bytes begin and end.
#[test]
fn a_second_request_is_looked_at_as_the_first() {
    let server = Server::start(Limits::default());
    let bodies = [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
        "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na\nb",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n",
        // Its body is left where it is.
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\na\nb",
    ];
    for first in bodies {
        let both = format!("{first}GET /head HTTP/1.1\r\nhost: a\nx: 1\r\n\r\n");
        for piece in [both.len(), first.len(), first.len() - 1, 7] {
            let mut client = server.connect();
            for piece in both.as_bytes().chunks(piece) {
                client.send(piece);
            }
            assert_eq!(client.answer().status, 200, "{both} by {piece}");
            match client.try_answer() {
                Ok(answer) => assert_eq!(answer.status, 400, "{both} by {piece}"),
                // What nobody reads of a body that has not come yet ends the connection.
                Err(error) => assert!(first.starts_with("POST / "), "{both} by {piece}: {error}"),
            }
            assert_ends(&mut client, first);
        }
    }
}

/// Connections put together at random, the same in each run, in one piece and in several: the server answers as many requests
/// as the strictest reader finds, and none behind the first that it would not take.
#[test]
fn as_many_requests_are_seen_as_the_strictest_reader_finds() {
    const PIECES: [&str; 16] = [
        "GET /echo HTTP/1.1\r\nhost: a\r\n",
        "POST /echo HTTP/1.1\r\nhost: a\r\n",
        "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n",
        "GET /echo HTTP/1.1\r\nhost: a\r\n\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "x: 1\r\n",
        "x: 1\n",
        "content-length: 3\r\n",
        "Content-Length:0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "abc",
        "3\r\nabc\r\n",
        "0\r\n\r\n",
    ];
    let server = Server::start(Limits::default());
    let (mut random, mut seen) = (7_u64, [0; 4]);
    for round in 0..1500 {
        let mut bytes = String::new();
        for _ in 0..6 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            bytes += PIECES[(random >> 60) as usize];
        }
        let piece = [bytes.len(), 1, 13][round % 3];
        let mut client = server.connect();
        for piece in bytes.as_bytes().chunks(piece) {
            // It may have ended the connection already.
            let _ = client.try_send(piece);
        }
        client.end();
        let answers = client.read_to_end().unwrap_or_default();
        let answered = answers.matches("HTTP/1.1 200 OK").count();
        let strict = strictly_read(bytes.as_bytes());
        assert_eq!(answered, strict, "{bytes:?} by {piece}: {answers}");
        seen[strict.min(3)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
}

/// How many requests there are before the first that is not whole or not clear.
fn strictly_read(mut bytes: &[u8]) -> usize {
    let mut count = 0;
    while let Some(rest) = strict_request(bytes) {
        count += 1;
        bytes = rest;
    }
    count
}

/// What follows a request, if one stands there.
fn strict_request(mut bytes: &[u8]) -> Option<&[u8]> {
    while let Some(rest) = bytes.strip_prefix(b"\r\n") {
        bytes = rest;
    }
    let (start, mut bytes) = strict_line(bytes)?;
    // `abcPOST` is a method as well.
    let start = start.trim_start_matches("abc");
    let is_start = ["GET /echo HTTP/1.1", "POST /echo HTTP/1.1"].contains(&start);
    let (mut hosts, mut length, mut codings) = (0, None, 0);
    loop {
        let (line, rest) = strict_line(bytes)?;
        bytes = rest;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        match &*name.to_ascii_lowercase() {
            "host" => hosts += 1,
            "content-length" if length.is_some() => return None,
            "content-length" => length = value.trim().parse::<usize>().ok(),
            "transfer-encoding" => codings += 1,
            name if name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') => {}
            _ => return None,
        }
    }
    match (is_start && hosts == 1, length, codings) {
        (true, length, 0) => bytes.get(length.unwrap_or(0)..),
        (true, None, 1) => strict_chunks(bytes),
        _ => None,
    }
}

fn strict_chunks(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (size, rest) = strict_line(bytes)?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return strict_trailers(rest);
        }
        bytes = rest.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

fn strict_trailers(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (line, rest) = strict_line(bytes)?;
        bytes = rest;
        if line.is_empty() {
            return Some(bytes);
        }
        line.split_once(':')?;
    }
}

/// A line that CR and LF end, with neither in it.
fn strict_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes[..end].strip_suffix(b"\r")?;
    Some((std::str::from_utf8(line).ok()?, &bytes[end + 1..]))
}
