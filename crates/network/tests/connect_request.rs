//! The fuzz target `connect_request`, over what real clients send, and over a fixed number of edits
//! of that, the same in each run.

#[path = "../../../fuzz/checks/connect_request.rs"]
mod connect_request;
#[path = "../../../fuzz/checks/edits.rs"]
mod edits;

use connect_request::{Taken, check};
use std::{fs, path::Path};

const ROUNDS: usize = 4_000;

/// Pieces that mean something to one reader or another.
const PIECES: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b".",
    b"@",
    b"%",
    b"/",
    b"*",
    b"CONNECT ",
    b"GET ",
    b" HTTP/1.1",
    b" HTTP/2.0",
    b"Host: b.example.com\r\n",
    b"host:a.example.com:443\r\n",
    b"Content-Length: 1\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"a.example.com",
    b"127.0.0.1",
    b"[::1]",
    b"443",
    b"http://",
    &[22, 3, 1],
    &[22, 3, 1, 0, 1, 1],
    &[0xfe, 0x0d],
    &[0, 0],
    &[0xff, 0xff],
];

fn seed(name: &str) -> Vec<u8> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    fs::read(seeds.join("connect_request").join(name)).unwrap()
}

/// Recorded from curl 7.88, git 2.39, wget 1.21, OpenSSL 3.0, Python 3.11, Go and Java 17.
#[test]
fn real_clients_are_taken() {
    let both = Taken {
        request: true,
        hello: true,
    };
    for client in [
        "curl",
        "git",
        "go",
        "java",
        "openssl-tls1_2",
        "python",
        "records",
        "wget",
    ] {
        assert_eq!(check(&seed(client)), both, "{client}");
    }
    for hostile in ["address", "body", "other-host", "plain-http"] {
        assert_eq!(check(&seed(hostile)), Taken::default(), "{hostile}");
    }
    assert!(!check(&seed("two-requests")).hello);
    assert!(check(&seed("hello-alone")).hello);
}

#[test]
fn edited_seeds_keep_the_rules() {
    let (mut requests, mut hellos) = (0, 0);
    edits::check_edits(&edits::seeds("connect_request"), PIECES, ROUNDS, |bytes| {
        let taken = check(bytes);
        requests += usize::from(taken.request);
        hellos += usize::from(taken.hello);
        1
    });
    let some = ROUNDS / 20..ROUNDS - ROUNDS / 20;
    assert!(
        some.contains(&requests) && some.contains(&hellos),
        "{requests}, {hellos}"
    );
}
