//! A service of WASI 0.2. The path of a request says how it is answered: well, or not.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU32, Ordering},
};
use wasip2::{
    cli::{environment::get_environment, exit::exit, stderr::get_stderr, stdout::get_stdout},
    clocks::monotonic_clock::subscribe_duration,
    exports::http::incoming_handler::Guest,
    filesystem::{
        preopens::get_directories,
        types::{Descriptor, DescriptorFlags, OpenFlags, PathFlags},
    },
    http::{
        outgoing_handler,
        types::{
            ErrorCode, Fields, FutureIncomingResponse, FutureTrailers, IncomingBody,
            IncomingRequest, IncomingResponse, OutgoingBody, OutgoingRequest, OutgoingResponse, RequestOptions, ResponseOutparam, Scheme,
        },
    },
    io::streams::{OutputStream, StreamError},
    sockets::{
        instance_network::instance_network,
        ip_name_lookup::resolve_addresses,
        network::{IpAddressFamily, IpSocketAddress, Ipv4SocketAddress},
        tcp_create_socket::create_tcp_socket,
    },
};

struct Service;

wasip2::http::proxy::export!(Service);

impl Guest for Service {
    fn handle(request: IncomingRequest, answer: ResponseOutparam) {
        let path = request.path_with_query().unwrap_or_default();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        match path {
            "/hello" => say(answer, "Hello, WASI!\n"),
            "/request" => say(answer, &tell(&request)),
            "/echo" => echo(&request, answer),
            "/count" => say(answer, &count()),
            "/big" => big(answer, query.parse().unwrap_or(1 << 20)),
            "/empty" => ResponseOutparam::set(answer, Ok(OutgoingResponse::new(Fields::new()))),
            "/announced" => announced(answer, query.parse().unwrap_or(5)),
            "/after" => after(answer),
            "/words" => words(answer),
            "/flood" => flood(answer),
            "/env" => say(answer, &format!("{:?}", get_environment())),
            "/read" => say(answer, &read(query)),
            "/write" => say(answer, &write(query)),
            "/send" => say(answer, &send(query)),
            "/send-many" => send_many(&request, answer, query),
            "/socket" => say(answer, &socket()),
            "/trap" => unreachable!("asked for"),
            "/late-trap" => {
                let _body = begin(answer, b"begun");
                unreachable!("asked for");
            }
            "/loop" => spin(),
            "/late-loop" => {
                let _body = begin(answer, b"begun");
                spin();
            }
            "/sleep" => subscribe_duration(3_600_000_000_000).block(),
            "/read-and-sleep" => {
                // It asks, and does not wait for what it is told.
                let body = request.consume().expect("the request's body");
                let stream = body.stream().expect("the request's stream");
                let _ = stream.blocking_read(16);
                let _ = stream.read(16);
                subscribe_duration(3_600_000_000_000).block();
            }
            "/grow" => grow(),
            "/none" => {}
            "/exit" => exit(Err(())),
            "/error" => ResponseOutparam::set(answer, Err(ErrorCode::DestinationNotFound)),
            "/unfinished" => std::mem::forget(begin(answer, b"begun")),
            "/given-up" => drop(begin(answer, b"begun")),
            _ => {
                let response = OutgoingResponse::new(Fields::new());
                response.set_status_code(404).expect("a status");
                ResponseOutparam::set(answer, Ok(response));
            }
        }
    }
}

/// The body, once its head is out and it has begun.
fn begin(answer: ResponseOutparam, bytes: &[u8]) -> OutgoingBody {
    let response = OutgoingResponse::new(Fields::new());
    let body = response.body().expect("the body");
    ResponseOutparam::set(answer, Ok(response));
    let out = body.write().expect("the stream");
    out.blocking_write_and_flush(bytes).expect("a write");
    drop(out);
    body
}

fn say(answer: ResponseOutparam, words: &str) {
    let response = OutgoingResponse::new(Fields::new());
    let body = response.body().expect("the body");
    ResponseOutparam::set(answer, Ok(response));
    let out = body.write().expect("the stream");
    write_all(&out, words.as_bytes()).expect("writes");
    drop(out);
    OutgoingBody::finish(body, None).expect("the end");
}

/// As much at once as the host takes.
fn write_all(out: &OutputStream, mut bytes: &[u8]) -> Result<(), StreamError> {
    while !bytes.is_empty() {
        out.subscribe().block();
        let most = out.check_write()? as usize;
        let (now, rest) = bytes.split_at(bytes.len().min(most));
        out.write(now)?;
        bytes = rest;
    }
    out.blocking_flush()
}

fn tell(request: &IncomingRequest) -> String {
    let mut text = format!(
        "{:?} {:?} {:?} {:?}\n",
        request.method(),
        request.scheme(),
        request.authority(),
        request.path_with_query()
    );
    for (name, value) in request.headers().entries() {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(&value));
    }
    text
}

fn count() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    (COUNT.fetch_add(1, Ordering::Relaxed) + 1).to_string()
}

/// The request's body and trailers are the answer's, part for part.
fn echo(request: &IncomingRequest, answer: ResponseOutparam) {
    let body = request.consume().expect("the request's body");
    let response = OutgoingResponse::new(Fields::new());
    let answer_body = response.body().expect("the body");
    ResponseOutparam::set(answer, Ok(response));
    let (input, out) = (
        body.stream().expect("the request's stream"),
        answer_body.write().expect("the stream"),
    );
    loop {
        match input.blocking_read(16 << 10) {
            Ok(bytes) => write_all(&out, &bytes).expect("writes"),
            Err(StreamError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
    }
    drop((input, out));
    let trailers = wait_for(&IncomingBody::finish(body));
    OutgoingBody::finish(answer_body, trailers).expect("the end");
}

fn wait_for(trailers: &FutureTrailers) -> Option<Fields> {
    trailers.subscribe().block();
    let trailers = trailers.get().expect("they are there").expect("once");
    trailers.expect("trailers").map(|trailers| trailers.clone())
}

fn big(answer: ResponseOutparam, bytes: usize) {
    const PIECE: [u8; 4096] = [b'x'; 4096];
    let response = OutgoingResponse::new(Fields::new());
    let body = response.body().expect("the body");
    ResponseOutparam::set(answer, Ok(response));
    let out = body.write().expect("the stream");
    let mut left = bytes;
    while left > 0 {
        let now = left.min(PIECE.len());
        if out.blocking_write_and_flush(&PIECE[..now]).is_err() {
            return;
        }
        left -= now;
    }
    drop(out);
    OutgoingBody::finish(body, None).expect("the end");
}

/// Ten bytes are announced.
fn announced(answer: ResponseOutparam, bytes: usize) {
    let fields = Fields::new();
    fields
        .append("content-length", b"10")
        .expect("a field");
    let response = OutgoingResponse::new(fields);
    let body = response.body().expect("the body");
    ResponseOutparam::set(answer, Ok(response));
    let out = body.write().expect("the stream");
    // More than was announced is refused.
    let _ = out.blocking_write_and_flush(&b"xxxxxxxxxxxxxxxxxxxx"[..bytes]);
    drop(out);
    let _ = OutgoingBody::finish(body, None);
}

fn after(answer: ResponseOutparam) {
    say(answer, "answered\n");
    subscribe_duration(20_000_000).block();
    let out = get_stdout();
    out.blocking_write_and_flush(b"went on\n").expect("a line");
}

fn words(answer: ResponseOutparam) {
    let (out, errors) = (get_stdout(), get_stderr());
    out.blocking_write_and_flush(b"one\ntw").expect("a line");
    errors
        .blocking_write_and_flush(b"to the terminal \x1b[2J\n")
        .expect("a line");
    out.blocking_write_and_flush(b"o\nthree").expect("a line");
    say(answer, "said\n");
}

fn flood(answer: ResponseOutparam) {
    let out = get_stdout();
    for _ in 0..100 {
        out.blocking_write_and_flush(&[b'x'; 4095]).expect("words");
        out.blocking_write_and_flush(b"\n").expect("an end");
    }
    say(answer, "said\n");
}

/// `FOLDER` as the guest knows it, and a path in it.
fn open(path: &str, flags: OpenFlags, rights: DescriptorFlags) -> Result<Descriptor, String> {
    let (folder, path) = path.rsplit_once("//").ok_or("FOLDER//PATH")?;
    let folders = get_directories();
    let (folder, _) = folders
        .iter()
        .find(|(_, name)| name == folder)
        .ok_or_else(|| format!("no such folder among {}", folders.len()))?;
    folder
        .open_at(PathFlags::SYMLINK_FOLLOW, path, flags, rights)
        .map_err(|code| code.name().to_owned())
}

fn read(path: &str) -> String {
    let read = || {
        let file = open(path, OpenFlags::empty(), DescriptorFlags::READ)?;
        let (bytes, _) = file.read(4096, 0).map_err(|code| code.name().to_owned())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_else(|error: String| error)
}

fn write(path: &str) -> String {
    let write = || {
        let file = open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
        let bytes = file.write(b"written", 0);
        bytes.map_err(|code| code.name().to_owned())
    };
    write().map_or_else(|error: String| error, |bytes| bytes.to_string())
}

/// A hundred requests at one time, whose answers are kept until the request's body ends; says how many there
/// are, and what became of the last.
fn send_many(request: &IncomingRequest, answer: ResponseOutparam, target: &str) {
    let sent: Vec<_> = (0..100).map(|_| begin_send(target)).collect();
    let answers: Vec<_> = sent
        .into_iter()
        .map(|sent| sent.and_then(|sent| wait_for_answer(&sent)))
        .collect();
    let answered = answers.iter().filter(|answer| answer.is_ok()).count();
    let last = answers.last().map(|answer| answer.as_ref().map(|_| ()));
    let body = begin(answer, format!("{answered} {last:?}").as_bytes());
    let rest = request.consume().expect("the request's body");
    let input = rest.stream().expect("the request's stream");
    while input.blocking_read(4096).is_ok() {}
    OutgoingBody::finish(body, None).expect("the end");
}

/// `AUTHORITY/PATH` by http.
fn begin_send(target: &str) -> Result<FutureIncomingResponse, ErrorCode> {
    let (authority, path) = target.split_once('/').unwrap_or((target, ""));
    let request = OutgoingRequest::new(Fields::new());
    request.set_scheme(Some(&Scheme::Http)).expect("a scheme");
    request.set_authority(Some(authority)).expect("an authority");
    request
        .set_path_with_query(Some(&format!("/{path}")))
        .expect("a path");
    let options = RequestOptions::new();
    options
        .set_connect_timeout(Some(5_000_000_000))
        .expect("a time");
    outgoing_handler::handle(request, Some(options))
}

fn wait_for_answer(sent: &FutureIncomingResponse) -> Result<IncomingResponse, ErrorCode> {
    sent.subscribe().block();
    sent.get().expect("it is there").expect("once")
}

fn send(target: &str) -> String {
    let response = match begin_send(target).and_then(|sent| wait_for_answer(&sent)) {
        Ok(response) => response,
        Err(code) => return format!("{code:?}"),
    };
    let body = response.consume().expect("the body");
    let stream = body.stream().expect("the stream");
    let mut bytes = Vec::new();
    while let Ok(more) = stream.blocking_read(4096) {
        bytes.extend(more);
    }
    format!("{} {}", response.status(), String::from_utf8_lossy(&bytes))
}

fn socket() -> String {
    let network = instance_network();
    let address = IpSocketAddress::Ipv4(Ipv4SocketAddress {
        port: 80,
        address: (127, 0, 0, 1),
    });
    let connected = create_tcp_socket(IpAddressFamily::Ipv4)
        .and_then(|socket| socket.start_connect(&network, address));
    let looked_up = resolve_addresses(&network, "localhost").and_then(|stream| {
        stream.subscribe().block();
        stream.resolve_next_address()
    });
    format!("connect {connected:?}, look up {looked_up:?}")
}

fn spin() -> ! {
    let mut turns = 0_u64;
    loop {
        turns = std::hint::black_box(turns + 1);
    }
}

fn grow() {
    let mut kept = Vec::new();
    loop {
        kept.push(std::hint::black_box(vec![1_u8; 1 << 20]));
    }
}
