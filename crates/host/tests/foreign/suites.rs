//! Suites of others, run against a server: h2spec (`tools/protocol-suites`) and slowhttptest.

use crate::fixture::{Fixture, Server};
use crate::raw_http::Answer;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Each case, and whether it is h2spec's.
pub(crate) const CASES: &[(&str, fn(), bool)] = &[
    ("h2spec-by-tls", h2spec_passes_by_tls, true),
    ("h2spec", h2spec_passes_but_for_http_1, true),
    ("slow-heads", slow_heads_lose_their_connections, false),
    ("slow-bodies", slow_bodies_lose_their_connections, false),
    ("slow-reads", slow_reads_keep_nobody_waiting, false),
];

const SLOWHTTPTEST: &str = "/usr/bin/slowhttptest";

/// Why a case cannot be run here.
pub(crate) fn why_not(is_of_h2spec: bool) -> Option<&'static str> {
    match is_of_h2spec {
        true if !h2spec().is_file() => Some("needs what tools/protocol-suites builds"),
        false if !Path::new(SLOWHTTPTEST).is_file() => {
            Some("needs the Debian package slowhttptest")
        }
        _ => None,
    }
}

fn h2spec() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root.join(target).join("protocol-suites/h2spec")
}

/// A service that reads all of its request, and answers with more than a window of HTTP/2 has room for.
fn fixture(limits: &str) -> Fixture {
    let fixture = Fixture::new().backend("service", |_| Answer::new(200, vec![b'x'; 200_000]));
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    fixture.put("certificate.pem", cert.pem());
    fixture.put("key.pem", signing_key.serialize_pem());
    let mut fixture = fixture
        .quiet()
        .text("[[listen]]\naddress = \"127.0.0.1:0\"")
        .text("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = { certificate = \"certificate.pem\", key = \"key.pem\" }")
        .route("/", &[], "service");
    fixture.edit("[limits]\n", &format!("[limits]\n{limits}"));
    fixture
}

/// The port of `http` or `https`.
fn port(server: &mut Server, scheme: &str) -> String {
    let line = server.wait_for_line("serving ");
    let start = format!("{scheme}://127.0.0.1:");
    let (_, rest) = line
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {scheme}: {line}"));
    rest.chars().take_while(char::is_ascii_digit).collect()
}

/// What a suite prints, without colours.
fn output(command: &mut Command) -> String {
    let output = command.env("TERM", "dumb").stdin(Stdio::null()).output();
    let output = output.expect("start the suite").stdout;
    let text = String::from_utf8_lossy(&output).into_owned();
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |plain, piece| {
        plain + piece.split_once('m').map_or(piece, |(_, rest)| rest)
    })
}

fn run_h2spec(port: &str, more: &[&str]) -> String {
    // An answer that does not come counts as one that is wrong: nobody is in a hurry.
    let settings = ["--strict", "-o", "20", "-h", "127.0.0.1", "-p", port];
    output(Command::new(h2spec()).args(settings).args(more))
}

fn h2spec_passes_by_tls() {
    let fixture = fixture("");
    let mut server = fixture.serve();
    let port = port(&mut server, "https");
    let told = run_h2spec(&port, &["-t", "-k"]);
    assert!(
        told.contains("146 tests, 146 passed, 0 skipped, 0 failed"),
        "{told}"
    );
}

/// Without TLS a port speaks HTTP/1 as well: what does not begin as HTTP/2 is refused in the words of HTTP/1 before the
/// connection ends, which h2spec takes for a frame that breaks off.
fn h2spec_passes_but_for_http_1() {
    let fixture = fixture("");
    let mut server = fixture.serve();
    let port = port(&mut server, "http");
    let told = run_h2spec(&port, &[]);
    assert!(
        told.contains("146 tests, 145 passed, 0 skipped, 1 failed"),
        "{told}"
    );
    let (_, failures) = told.split_once("Failures:").expect("a list of them");
    assert!(
        failures.contains("Sends invalid connection preface"),
        "{failures}"
    );
    assert!(
        failures.contains("Actual: Error: unexpected EOF"),
        "{failures}"
    );
}

const SHORT: &str = "header-time = \"1s\"\nbody-time = \"1s\"\n";

/// Fifty connections at once that take their time, for ten seconds at most.
fn run_slow(limits: &str, mode: &[&str]) -> String {
    let fixture = fixture(limits);
    let mut server = fixture.serve();
    let url = format!("http://127.0.0.1:{}/", port(&mut server, "http"));
    let settings = ["-c", "50", "-r", "50", "-l", "10", "-p", "5", "-u", &url];
    let told = output(Command::new(SLOWHTTPTEST).args(mode).args(settings));
    assert!(told.contains("service available:   YES"), "{told}");
    assert!(!told.contains("service available:   NO"), "{told}");
    assert_eq!(server.get("/").status, 200);
    told
}

fn slow_heads_lose_their_connections() {
    let mode = ["-H", "-i", "1"];
    let told = run_slow(SHORT, &mode);
    assert!(told.contains("No open connections left"), "{told}");
    // They would have gone on.
    let told = run_slow("header-time = \"60s\"\n", &mode);
    assert!(told.contains("Hit test time limit"), "{told}");
}

fn slow_bodies_lose_their_connections() {
    let mode = ["-B", "-i", "3"];
    let told = run_slow(SHORT, &mode);
    assert!(told.contains("No open connections left"), "{told}");
    let told = run_slow("body-time = \"60s\"\n", &mode);
    assert!(told.contains("Hit test time limit"), "{told}");
}

fn slow_reads_keep_nobody_waiting() {
    run_slow(SHORT, &["-X", "-k", "3", "-n", "1", "-z", "10"]);
}
