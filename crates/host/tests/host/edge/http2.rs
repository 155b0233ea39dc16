//! HTTP/2: by hyper's client, and by frames that no client of good will sends.

use super::{
    limits::wait_until_gone,
    stand_in::{Server, short},
};
use crate::raw_http::Client;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use palisade_host::{config::Limits, io::Io};
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::LocalSet,
};

#[derive(Clone, Copy)]
pub(crate) struct Local;

impl<F: Future + 'static> hyper::rt::Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Runs a client to its end.
pub(crate) fn with_client<F: Future>(client: impl FnOnce() -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(Duration::from_secs(60), client())
            .await
            .expect("no more than a minute")
    })
}

async fn connect(address: SocketAddr) -> Sender {
    let stream = TcpStream::connect(address)
        .await
        .expect("the server accepts");
    handshake(stream).await
}

pub(crate) async fn handshake(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Sender {
    let (sender, connection) = http2::handshake(Local, Io(stream)).await.expect("HTTP/2");
    tokio::task::spawn_local(connection);
    sender
}

fn request(path: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(format!("http://test{path}"))
        .body(Full::new(Bytes::from_static(body.as_bytes())))
        .expect("a request")
}

async fn ask(
    sender: &mut Sender,
    request: Request<Full<Bytes>>,
) -> hyper::Result<(StatusCode, Bytes)> {
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

pub(crate) async fn get(sender: &mut Sender, path: &str) -> hyper::Result<(StatusCode, Bytes)> {
    ask(sender, request(path, "")).await
}

#[test]
fn http_2_is_known_by_its_preface() {
    let server = Server::start(Limits::default());
    with_client(async || {
        let mut sender = connect(server.address()).await;
        let (status, body) = get(&mut sender, "/").await.expect("an answer");
        assert_eq!((status, &body[..]), (StatusCode::OK, &b"first"[..]));
        let (_, body) = ask(&mut sender, request("/echo", "abc"))
            .await
            .expect("an answer");
        assert_eq!(&body[..], b"abc");
    });
}

#[test]
fn requests_of_one_connection_are_answered_side_by_side() {
    let server = Server::start(Limits::default());
    with_client(async || {
        let mut sender = connect(server.address()).await;
        let waiting = tokio::task::spawn_local(sender.send_request(request("/gate", "")));
        let (status, _) = get(&mut sender, "/").await.expect("an answer");
        assert_eq!(status, StatusCode::OK);
        server.open_gate(1);
        let waited = waiting.await.expect("no panic").expect("an answer");
        assert_eq!(waited.status(), StatusCode::OK);
    });
}

#[test]
fn a_body_is_bounded() {
    let server = Server::start(Limits {
        body_bytes: 2,
        ..Limits::default()
    });
    with_client(async || {
        let mut sender = connect(server.address()).await;
        let (status, _) = ask(&mut sender, request("/echo", "abc"))
            .await
            .expect("an answer");
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        let (status, _) = ask(&mut sender, request("/echo", "ab"))
            .await
            .expect("an answer");
        assert_eq!(status, StatusCode::OK);
    });
}

#[test]
fn a_head_is_bounded_in_bytes_and_fields() {
    let server = Server::start(Limits {
        header_bytes: 4000,
        headers: 20,
        ..Limits::default()
    });
    with_client(async || {
        let mut sender = connect(server.address()).await;
        let mut long = request("/", "");
        long.headers_mut()
            .insert("x", "v".repeat(5000).parse().expect("a value"));
        let (status, _) = ask(&mut sender, long).await.expect("an answer");
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let mut many = request("/", "");
        for _ in 0..30 {
            many.headers_mut()
                .append("x", "v".parse().expect("a value"));
        }
        let (status, _) = ask(&mut sender, many).await.expect("an answer");
        assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    });
}

#[test]
fn hosts_that_differ_are_refused() {
    let server = Server::start(Limits::default());
    with_client(async || {
        let mut sender = connect(server.address()).await;
        for (host, status) in [("test", StatusCode::OK), ("other", StatusCode::BAD_REQUEST)] {
            let mut request = request("/", "");
            request
                .headers_mut()
                .insert("host", host.parse().expect("a value"));
            assert_eq!(
                ask(&mut sender, request).await.expect("an answer").0,
                status,
                "{host}"
            );
        }
    });
}

#[test]
fn an_answer_that_the_window_does_not_take_is_broken_off() {
    let server = Server::start(short());
    with_client(async || {
        let mut sender = connect(server.address()).await;
        let response = sender
            .send_request(request("/endless", ""))
            .await
            .expect("an answer");
        // Nobody reads it: the client opens no window.
        let body: Incoming = response.into_body();
        while server.figure(|metrics| metrics.timed_out.get()) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(body.collect().await.is_err(), "it has no end");
        let (status, _) = get(&mut sender, "/").await.expect("another answer");
        assert_eq!(status, StatusCode::OK);
    });
}

#[test]
fn a_connection_without_a_request_ends() {
    let server = Server::start(short());
    with_client(async || {
        let mut sender = connect(server.address()).await;
        get(&mut sender, "/").await.expect("an answer");
        while !sender.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    wait_until_gone(&server);
}

// Frames: RFC 9113, section 4.1.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a short frame")
        .to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `GET path` of `http://a` in HPACK, nothing indexed.
fn get_head(path: &str) -> Vec<u8> {
    let mut head = vec![
        0x82,
        0x86,
        0x01,
        1,
        b'a',
        0x04,
        u8::try_from(path.len()).expect("a short path"),
    ];
    head.extend(path.bytes());
    head
}

fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0, u8::try_from(name.len()).expect("a short name")];
    field.extend(name.bytes());
    field.push(u8::try_from(value.len()).expect("a short value"));
    field.extend(value.bytes());
    field
}

fn begin(server: &Server) -> Client {
    begin_with_settings(server, &[])
}

fn begin_with_settings(server: &Server, settings: &[u8]) -> Client {
    let mut client = server.connect();
    client.send(
        [
            &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..],
            &frame(SETTINGS, 0, 0, settings),
        ]
        .concat(),
    );
    client
}

/// A client that lets so many bytes of each answer come. RFC 9113, section 6.5.2.
pub(super) fn begin_with_window(server: &Server, bytes: u32) -> Client {
    const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];
    let settings = [&INITIAL_WINDOW_SIZE[..], &bytes.to_be_bytes()].concat();
    begin_with_settings(server, &settings)
}

pub(super) fn get_frame(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &get_head(path))
}

/// The next frame: its kind, stream and payload. `None`: the connection has ended.
fn read_frame(client: &mut Client) -> Option<(u8, u32, Vec<u8>)> {
    let head = client.read_exactly(9).ok()?;
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let length = usize::try_from(number(&head[..3])).expect("a length");
    let payload = client.read_exactly(length).ok()?;
    Some((head[3], number(&head[5..]), payload))
}

/// Sends PINGs, and reads what comes, up to a frame of this kind for this stream. `false`: the connection ended.
fn ping_until(client: &mut Client, kind: u8, stream: u32) -> bool {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        if client.try_send(frame(PING, 0, 0, &[0; 8])).is_err() {
            return false;
        }
        // The answer to each sets the pace.
        loop {
            match read_frame(client) {
                Some((PING, ..)) => break,
                Some((found, of, _)) if (found, of) == (kind, stream) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }
}

#[test]
fn pings_keep_no_answer_that_is_not_taken() {
    let server = Server::start(short());
    for window in [0, 100] {
        let mut client = begin_with_window(&server, window);
        client.send(get_frame(1, "/endless"));
        assert!(
            ping_until(&mut client, RST_STREAM, 1),
            "the stream alone: window {window}"
        );
        client.send(get_frame(3, "/"));
        assert!(is_served(&mut client), "window {window}");
    }
    assert_eq!(server.figure(|metrics| metrics.timed_out.get()), 2);
}

#[test]
fn a_stream_that_is_taken_keeps_none_that_is_not() {
    let server = Server::start(short());
    let mut client = begin_with_window(&server, 100);
    client.send([get_frame(1, "/endless"), get_frame(3, "/endless")].concat());
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        match read_frame(&mut client).expect("the connection goes on") {
            (DATA, 3, payload) => {
                let taken = u32::try_from(payload.len())
                    .expect("a length")
                    .to_be_bytes();
                let updates = [
                    frame(WINDOW_UPDATE, 0, 3, &taken),
                    frame(WINDOW_UPDATE, 0, 0, &taken),
                ];
                client.send(updates.concat());
            }
            (RST_STREAM, stream, _) => return assert_eq!(stream, 1),
            _ => {}
        }
    }
}

#[test]
fn empty_parts_keep_no_body_that_does_not_come() {
    let server = Server::start(short());
    let mut client = begin(&server);
    client.send(frame(HEADERS, END_HEADERS, 1, &get_head("/echo")));
    let begun = Instant::now();
    while server.figure(|metrics| metrics.timed_out.get()) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "it goes on");
        // The answer to each PING sets the pace; h2 takes no more than so many.
        let empty = frame(DATA, 0, 1, &[]);
        let sent = client.try_send([empty, frame(PING, 0, 0, &[0; 8])].concat());
        if sent.is_err() || read_until(&mut client, PING).is_none() {
            return;
        }
    }
}

/// hyper has handed the whole answer over: there is no stream left to end alone.
#[test]
fn pings_keep_no_end_of_an_answer_that_is_not_taken() {
    let server = Server::start(short());
    let mut client = begin_with_window(&server, 1);
    client.send(get_frame(1, "/"));
    assert!(
        !ping_until(&mut client, RST_STREAM, 1),
        "the connection ends"
    );
    wait_until_gone(&server);
}

/// RFC 9113, section 8.1. h2 lets such trailers through without them, whatever way their names are written: nobody
/// sees any but the head's own.
#[test]
fn pseudo_fields_in_trailers_reach_nobody() {
    let server = Server::start(Limits::default());
    // Of the dynamic table, where the head has put it, of the static table, and written out.
    let indexed = [&[0x40, 5][..], b":path", &[9], b"/trailers"].concat();
    let head = [&[0x83, 0x86][..], &indexed, &field(":authority", "a")].concat();
    for pseudo in [vec![0xbe], vec![0x84], vec![0x82], field(":path", "/x")] {
        let mut client = begin(&server);
        client.send(frame(HEADERS, END_HEADERS, 1, &head));
        client.send(frame(DATA, 0, 1, b"abc"));
        let trailers = [pseudo, field("x-sum", "1")].concat();
        let flags = END_HEADERS | END_STREAM;
        client.send(frame(HEADERS, flags, 1, &trailers));
        let told = read_until(&mut client, DATA).expect("an answer");
        let told = String::from_utf8(told).expect("text");
        assert_eq!(told, "POST http://a/trailers\nx-sum: 1\n");
    }
}

/// The next reader of such a field takes the space for none.
#[test]
fn spaces_around_values_are_refused() {
    let server = Server::start(Limits::default());
    for (value, is_taken) in [
        ("root", true),
        ("a b", true),
        (" root", false),
        ("root\t", false),
    ] {
        let mut client = begin(&server);
        let head = [get_head("/head"), field("x-user", value)].concat();
        client.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
        let answer = read_until(&mut client, HEADERS).expect("an answer");
        // `:status: 200` and `400` of the static table.
        let status = if is_taken { 0x88 } else { 0x8c };
        assert_eq!(answer.first(), Some(&status), "{value:?}");
    }
}

/// Neither hyper nor h2 can say `100 Continue` in HTTP/2. A client that waits for it is not left waiting, and one that does
/// not wait is served.
#[test]
fn a_client_that_waits_to_be_told_to_go_on_is_told_that_nobody_will() {
    let server = Server::start(Limits::default());
    let mut client = begin(&server);
    let head = [get_head("/echo"), field("expect", "100-continue")].concat();
    client.send(frame(HEADERS, END_HEADERS, 1, &head));
    // `:status: 417`: the name is the static table's eighth, the value is in Huffman's code.
    let answer = read_until(&mut client, HEADERS).expect("an answer");
    assert_eq!(answer[..5], [0x48, 0x83, 0x68, 0x2e, 0xff]);
    client.send(frame(HEADERS, END_HEADERS, 3, &head));
    client.send(frame(DATA, END_STREAM, 3, b"abc"));
    loop {
        match read_frame(&mut client).expect("the connection goes on") {
            (DATA, 3, body) => return assert_eq!(body, b"abc"),
            (HEADERS, 3, answer) => assert_eq!(answer.first(), Some(&0x88), "{answer:?}"),
            _ => {}
        }
    }
}

#[test]
fn pings_keep_no_connection_without_a_request() {
    let server = Server::start(short());
    let mut client = begin(&server);
    client.send(get_frame(1, "/"));
    assert!(ping_until(&mut client, GOAWAY, 0), "it is told");
    wait_until_gone(&server);
}

#[test]
fn an_answer_whose_window_opens_slowly_goes_on() {
    let server = Server::start(short());
    let mut client = begin_with_window(&server, 100);
    client.send(get_frame(1, "/endless"));
    let mut silent = server.connect();
    let mut ended = 0;
    // Each silent connection that ends shows that a time-out has passed.
    while ended < 3 {
        let (kind, ..) = read_frame(&mut client).expect("it goes on");
        assert_ne!(kind, RST_STREAM);
        if kind != DATA {
            continue;
        }
        client.send(frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes()));
        silent
            .tcp()
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a time");
        if silent.read_to_end().is_ok() {
            ended += 1;
            silent = server.connect();
        }
    }
}

/// Reads frames up to one of a kind; its payload. `None`: the connection ended before.
fn read_until(client: &mut Client, kind: u8) -> Option<Vec<u8>> {
    loop {
        let (found, _, payload) = read_frame(client)?;
        if found == kind {
            return Some(payload);
        }
    }
}

fn ask_forever(stream: u32) -> Vec<u8> {
    get_frame(stream, "/forever")
}

fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

/// Tries to have requests begun and gives them up at once, `batch` at a time. Says how many were begun before
/// the server ended the connection.
fn flood(batch: u32) -> u64 {
    const MOST: u32 = 20_000;
    let server = Server::start(Limits::default());
    let mut other = server.connect();
    let mut client = begin(&server);
    let mut first = 0;
    while first < MOST {
        let streams = (first..first + batch).map(|number| 2 * number + 1);
        let asks: Vec<_> = streams.clone().flat_map(ask_forever).collect();
        let resets: Vec<_> = streams.flat_map(reset).collect();
        // The answer to a ping shows that what was sent before was looked at.
        let ping = frame(PING, 0, 0, &[0; 8]);
        let sent = client.try_send([asks, ping].concat());
        if sent.is_err()
            || read_until(&mut client, PING).is_none()
            || client.try_send(resets).is_err()
        {
            break;
        }
        first += batch;
    }
    assert!(first < MOST, "the connection goes on");
    assert_eq!(other.get("/").text(), "first", "on another connection");
    server.figure(|metrics| metrics.requests.get())
}

#[test]
fn a_flood_of_resets_ends_its_connection_alone() {
    // As many at a time as a connection may have, and few.
    for batch in [100, 10] {
        let requests = flood(batch);
        assert!(requests < 5_000, "{requests} requests were begun");
    }
}

#[test]
fn a_flood_of_requests_that_are_reset_unseen_ends_its_connection() {
    let server = Server::start(Limits::default());
    let mut client = begin(&server);
    let streams = (0..20_000).map(|number| 2 * number + 1);
    let ended = streams
        .map(|stream| [ask_forever(stream), reset(stream)].concat())
        .find_map(|frames| client.try_send(frames).err());
    assert!(ended.is_some() || read_until(&mut client, GOAWAY).is_some());
    let requests = server.figure(|metrics| metrics.requests.get());
    assert!(requests < 5_000, "{requests} requests were begun");
}

#[test]
fn a_head_without_end_ends_its_connection() {
    let server = Server::start(Limits::default());
    let mut client = begin(&server);
    client.send(frame(HEADERS, END_STREAM, 1, &get_head("/")));
    let more = frame(
        CONTINUATION,
        0,
        1,
        &field("x", &"v".repeat(100)).repeat(100),
    );
    for _ in 0..100 {
        // The server may have closed before everything was sent.
        if client.try_send(&more).is_err() {
            break;
        }
    }
    assert!(
        read_until(&mut client, GOAWAY).is_some(),
        "a megabyte of head was taken"
    );
    wait_until_gone(&server);
}

#[test]
fn two_lengths_are_refused() {
    let server = Server::start(Limits::default());
    let cases: [(&str, Vec<u8>); 4] = [
        (
            "two",
            [field("content-length", "3"), field("content-length", "4")].concat(),
        ),
        ("a sign", field("content-length", "+3")),
        ("a coding", field("transfer-encoding", "chunked")),
        ("a connection", field("connection", "close")),
    ];
    for (name, fields) in cases {
        let mut client = begin(&server);
        let head = [get_head("/head"), fields].concat();
        client.send(frame(HEADERS, END_HEADERS, 1, &head));
        client.send(frame(DATA, END_STREAM, 1, b"abc"));
        assert!(!is_served(&mut client), "{name}");
    }
    let mut client = begin(&server);
    let head = [get_head("/head"), field("content-length", "3")].concat();
    client.send(frame(HEADERS, END_HEADERS, 1, &head));
    client.send(frame(DATA, END_STREAM, 1, b"abc"));
    assert!(is_served(&mut client), "one length");
}

/// Whether the next stream is answered with 200, `0x88` in HPACK.
pub(super) fn is_served(client: &mut Client) -> bool {
    loop {
        match read_frame(client) {
            Some((HEADERS, _, payload)) => return payload.first() == Some(&0x88),
            None | Some((RST_STREAM | GOAWAY, ..)) => return false,
            Some(_) => {}
        }
    }
}
