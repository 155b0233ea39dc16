//! Those who ask all the time, each kind in its own way, and know what the answer is.

use super::{PAGE, Seen, http2::Http2, tls::Issuer};
use crate::fixture::Places;
use crate::raw_http::{Answer, Client, Request};
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// How a kind of clients asks.
enum Way {
    /// On a connection that is kept.
    Kept,
    /// The same over TLS, and anew now and then: certificates change.
    Tls,
    /// Over HTTP/2, among requests that are given up.
    Http2,
    /// On a connection of its own, whose answer is taken a little at a time.
    Slowly,
}

/// Who asks, for what, and what must come.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) clients: usize,
    way: Way,
    path: &'static str,
    body: Vec<u8>,
}

/// Requests on one connection over TLS or HTTP/2.
const MOST_REQUESTS: u32 = 50;

pub(super) fn kinds(greeting: &str) -> Vec<Kind> {
    let kind = |name, clients, way, path, body: &[u8]| Kind {
        name,
        clients,
        way,
        path,
        body: body.to_vec(),
    };
    vec![
        kind("files", 2, Way::Kept, "/site/page", &PAGE),
        kind("component", 2, Way::Kept, "/component", greeting.as_bytes()),
        kind("faulty", 1, Way::Kept, "/faulty", b"Nothing was sent.\n"),
        kind("program", 2, Way::Kept, "/program", b"Hello, world!\n"),
        kind("upstream", 2, Way::Kept, "/up", b"told"),
        kind("tls", 1, Way::Tls, "/up", b"told"),
        kind("http2", 1, Way::Http2, "/component", greeting.as_bytes()),
        kind("slow-reader", 1, Way::Slowly, "/site/page", &PAGE),
    ]
}

pub(super) fn ask_until_over(server: &Places, issuer: &Issuer, kind: &Kind, seen: &Seen) {
    while !seen.is_over() {
        let end = match kind.way {
            Way::Kept => Client::connect_unix(&server.socket)
                .and_then(|client| ask_on(client, u32::MAX, kind, seen)),
            Way::Tls => issuer
                .connect(&server.tls)
                .and_then(|stream| ask_on(Client::over(stream), MOST_REQUESTS, kind, seen)),
            Way::Http2 => ask_http2(&server.socket, kind, seen),
            Way::Slowly => {
                ask_slowly(&server.socket, kind).map(|answer| check(kind, &answer, seen))
            }
        };
        if let Err(error) = end {
            seen.fail(format!("{}: {error}", kind.name));
        }
    }
}

fn check(kind: &Kind, answer: &Answer, seen: &Seen) {
    match answer.status == 200 && answer.body == kind.body {
        true => seen.good(kind.name),
        false => {
            let mut text = answer.text();
            text.truncate(200);
            seen.fail(format!("{}: {}: {text}", kind.name, answer.status));
        }
    }
}

fn ask_on(mut client: Client, most: u32, kind: &Kind, seen: &Seen) -> io::Result<()> {
    let request = Request::new("GET", kind.path);
    for _ in 0..most {
        if seen.is_over() {
            break;
        }
        let answer = client.ask(&request)?;
        check(kind, &answer, seen);
        if answer.closes() {
            break;
        }
    }
    Ok(())
}

fn ask_http2(socket: &Path, kind: &Kind, seen: &Seen) -> io::Result<()> {
    let mut client = Http2::connect(socket)?;
    for number in 0..MOST_REQUESTS {
        if seen.is_over() || client.is_ending() {
            break;
        }
        if number % 10 == 0 {
            client.give_up("/site/page")?;
        }
        let answer = client.get(kind.path)?;
        check(kind, &answer, seen);
    }
    Ok(())
}

/// Parts of a few KiB, with a pause before each: this is what it is to be slow.
fn ask_slowly(socket: &Path, kind: &Kind) -> io::Result<Answer> {
    struct Slow(UnixStream);
    impl Read for Slow {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            std::thread::sleep(Duration::from_millis(5));
            let most = bytes.len().min(4 << 10);
            self.0.read(&mut bytes[..most])
        }
    }
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }
    let request = Request::new("GET", kind.path).header("connection", "close");
    Client::over(Slow(UnixStream::connect(socket)?)).ask(&request)
}
