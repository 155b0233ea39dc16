//! A component of WASI 0.2 that asks its host directly, with no C library between: sockets, names, and what
//! a hostile component asks for. The first argument says what; each line of output is what a call came to.

use std::{fmt::Write as _, net::Ipv4Addr};
use wasip2::{
    cli::{environment::get_arguments, exit::exit_with_code, stdout::get_stdout},
    exports::cli::run::Guest,
    http::{
        outgoing_handler::handle,
        types::{ErrorCode as HttpErrorCode, Fields, OutgoingRequest, Scheme},
    },
    random::random::get_random_bytes,
    sockets::{
        instance_network::instance_network,
        ip_name_lookup::resolve_addresses,
        network::{ErrorCode, IpAddressFamily, IpSocketAddress, Ipv4SocketAddress},
        tcp_create_socket::create_tcp_socket,
        udp::OutgoingDatagram,
        udp_create_socket::create_udp_socket,
    },
};

struct Program;

impl Guest for Program {
    fn run() -> Result<(), ()> {
        let words = get_arguments();
        let word = |place: usize| words.get(place).map_or("", String::as_str);
        match word(1) {
            "connect" => tell("connect", connect(word(2))),
            "listen" => tell("listen", listen(word(2))),
            "datagram" => tell("datagram", send(word(2), word(3))),
            "resolve" => tell("resolve", resolve(word(2))),
            "request" => tell_answer(request(word(2), word(3))),
            "random" => {
                let bytes = get_random_bytes(word(2).parse().map_err(drop)?);
                tell("random", Ok(bytes.len().to_string()));
            }
            "huge-list" => hand_over_a_huge_list(),
            "handles" => keep_every_handle(),
            "code" => exit_with_code(word(2).parse().map_err(drop)?),
            _ => return Err(()),
        }
        Ok(())
    }
}

wasip2::cli::command::export!(Program);

type Outcome = Result<String, ErrorCode>;

fn tell(what: &str, outcome: Outcome) {
    let mut line = String::new();
    match outcome {
        Ok(words) => writeln!(line, "{what} ok {words}"),
        Err(code) => writeln!(line, "{what} error {}", code.name()),
    }
    .expect("a string takes everything");
    get_stdout()
        .blocking_write_and_flush(line.as_bytes())
        .expect("write to stdout");
}

/// The status and the body that come for `GET /path?query`.
fn request(scheme: &str, authority: &str) -> Result<String, HttpErrorCode> {
    let request = OutgoingRequest::new(Fields::new());
    let scheme = match scheme {
        "https" => Scheme::Https,
        _ => Scheme::Http,
    };
    request.set_scheme(Some(&scheme)).expect("a scheme");
    request.set_authority(Some(authority)).expect("an authority");
    request.set_path_with_query(Some("/path?query")).expect("a path");
    let answer = handle(request, None)?;
    answer.subscribe().block();
    let answer = answer.get().expect("it is there").expect("it is taken once")?;
    let body = answer.consume().expect("it has a body");
    let stream = body.stream().expect("it is read once");
    let mut bytes = Vec::new();
    while let Ok(more) = stream.blocking_read(4096) {
        bytes.extend(more);
    }
    Ok(format!("{} {}", answer.status(), String::from_utf8_lossy(&bytes)))
}

fn tell_answer(answer: Result<String, HttpErrorCode>) {
    let line = match answer {
        Ok(words) => format!("request ok {words}\n"),
        Err(code) => format!("request error {code:?}\n"),
    };
    get_stdout().blocking_write_and_flush(line.as_bytes()).expect("write to stdout");
}

/// `A.B.C.D:PORT`
fn address(text: &str) -> IpSocketAddress {
    let (host, port) = text.split_once(':').expect("an address and a port");
    let [a, b, c, d] = host.parse::<Ipv4Addr>().expect("an address").octets();
    IpSocketAddress::Ipv4(Ipv4SocketAddress {
        port: port.parse().expect("a port"),
        address: (a, b, c, d),
    })
}

/// Connects, sends a line and reads the answer.
fn connect(to: &str) -> Outcome {
    let socket = create_tcp_socket(IpAddressFamily::Ipv4)?;
    socket.start_connect(&instance_network(), address(to))?;
    socket.subscribe().block();
    let (input, output) = socket.finish_connect()?;
    output
        .blocking_write_and_flush(b"hello\n")
        .map_err(|_| ErrorCode::ConnectionReset)?;
    let answer = input
        .blocking_read(100)
        .map_err(|_| ErrorCode::ConnectionReset)?;
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// Takes one connection and gives back what it sends.
fn listen(at: &str) -> Outcome {
    let socket = create_tcp_socket(IpAddressFamily::Ipv4)?;
    socket.start_bind(&instance_network(), address(at))?;
    socket.finish_bind()?;
    socket.start_listen()?;
    socket.finish_listen()?;
    let IpSocketAddress::Ipv4(bound) = socket.local_address()? else {
        return Err(ErrorCode::NotSupported);
    };
    tell("bound", Ok(bound.port.to_string()));
    socket.subscribe().block();
    let (_connection, input, output) = socket.accept()?;
    let words = input
        .blocking_read(100)
        .map_err(|_| ErrorCode::ConnectionReset)?;
    output
        .blocking_write_and_flush(&words)
        .map_err(|_| ErrorCode::ConnectionReset)?;
    Ok(String::from_utf8_lossy(&words).trim_end().to_owned())
}

/// Connects a datagram socket to one address, then sends to another.
fn send(connected: &str, to: &str) -> Outcome {
    let socket = create_udp_socket(IpAddressFamily::Ipv4)?;
    socket.start_bind(&instance_network(), address("0.0.0.0:0"))?;
    socket.finish_bind()?;
    let remote = (!connected.is_empty()).then(|| address(connected));
    let (_input, output) = socket.stream(remote)?;
    output.subscribe().block();
    output.check_send()?;
    let sent = output.send(&[OutgoingDatagram {
        data: b"datagram".to_vec(),
        remote_address: (!to.is_empty()).then(|| address(to)),
    }])?;
    Ok(sent.to_string())
}

fn resolve(name: &str) -> Outcome {
    let found = resolve_addresses(&instance_network(), name)?;
    found.subscribe().block();
    let mut words = String::new();
    while let Some(one) = found.resolve_next_address()? {
        write!(words, "{one:?} ").expect("a string takes everything");
    }
    Ok(words.trim_end().to_owned())
}

/// 64 MiB in one call: the host would have to keep them.
fn hand_over_a_huge_list() {
    let bytes = vec![0; 64 << 20];
    let written = get_stdout().write(&bytes);
    tell("huge-list", Ok(format!("{written:?}")));
}

/// A socket's pollable after another, none given back.
fn keep_every_handle() {
    let mut kept = Vec::new();
    loop {
        kept.push(get_stdout().subscribe());
        if kept.len() == 1_000_000 {
            return tell("handles", Ok(kept.len().to_string()));
        }
    }
}
