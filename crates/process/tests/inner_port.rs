//! A guest that serves at a port of its domain's own, and who started it connects there.

use palisade_policy::Policy;
use palisade_process::{
    Domain, InnerNetwork, Launcher, Machine, ThisHost,
    plan::{Options, PlanError, make_plan},
};
use palisade_wall::{Command, Spec, Streams, Surroundings};
use rustix::{event::PollFd, event::PollFlags, io::Errno};
use std::{
    fs::File,
    io::Read,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::fd::AsFd,
};

const PORT: u16 = 8000;

const PRELUDE: &str = "
import errno, socket, struct
def attempt(act):
    try:
        act(); return 'done'
    except OSError as error:
        return errno.errorcode[error.errno]
def bound(place, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    made = socket.socket(family, kind); made.bind(place); return made
";

/// Serves one connection: says what `text` is.
fn serving(family: &str, address: &str, text: &str) -> String {
    format!(
        "{PRELUDE}\ntext = {text}\nserver = bound(('{address}', {PORT}), {family})\nserver.listen()\n\
         client, place = server.accept()\nclient.sendall(str(text).encode())\n"
    )
}

fn start(script: &str) -> Domain {
    let launcher = Launcher::new(Machine::probe());
    let surroundings = Surroundings {
        inner_port: Some(PORT),
        ..Surroundings::default()
    };
    let mut command = Command::new("/usr/bin/python3");
    command.arguments = vec!["-c".into(), script.into()];
    let policy = Policy::default();
    let plan = make_plan(
        &Spec::new(&policy, &command, launcher.machine(), &surroundings),
        &ThisHost,
        &Options::default(),
    );
    let plan = plan.expect("a plan");
    let null = File::options().read(true).write(true).open("/dev/null");
    let null = null.expect("/dev/null");
    let stderr = std::io::stderr();
    let streams = Streams {
        stdin: null.as_fd(),
        stdout: null.as_fd(),
        stderr: stderr.as_fd(),
        terminal: None,
        passed: &[],
        questions: None,
        journal: None,
    };
    launcher.launch(&plan, &streams).expect("it starts")
}

fn connect(network: &InnerNetwork, ip: IpAddr) -> Result<TcpStream, Errno> {
    let socket = network
        .ask(ip)
        .and_then(palisade_process::InnerSocket::take);
    let socket = socket.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    match rustix::net::connect(&socket, &SocketAddr::new(ip, PORT)) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let mut fds = [PollFd::new(&socket, PollFlags::OUT)];
            rustix::event::poll(&mut fds, None)?;
            rustix::net::sockopt::socket_error(&socket)??;
        }
        Err(errno) => return Err(errno),
    }
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).expect("a stream");
    Ok(stream)
}

/// What it says to whoever comes first.
fn said(script: &str, ip: IpAddr) -> String {
    let domain = start(script);
    let network = domain.inner_network().expect("a descriptor");
    let network = network.expect("a network of its own");
    loop {
        match connect(&network, ip) {
            Ok(mut stream) => {
                let mut text = String::new();
                stream.read_to_string(&mut text).expect("what it says");
                return text;
            }
            Err(Errno::CONNREFUSED) => std::thread::yield_now(),
            Err(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn who_started_it_reaches_it() {
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    for (family, address, ip) in [
        ("socket.AF_INET", "127.0.0.1", v4),
        ("socket.AF_INET", "0.0.0.0", v4),
        ("socket.AF_INET6", "::", v4),
        ("socket.AF_INET6", "::1", v6),
    ] {
        assert_eq!(said(&serving(family, address, "'here'"), ip), "here");
    }
}

/// The port is all that it gives.
#[test]
fn nothing_else_is_bound_or_reached() {
    let outside = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let at = outside.local_addr().expect("an address").port();
    let tries = [
        "attempt(lambda: bound(('127.0.0.1', 8001)))",
        "attempt(lambda: bound(('0.0.0.0', 0)))",
        "attempt(lambda: bound(('10.0.0.1', 8000)))",
        "attempt(lambda: bound(('127.0.0.1', 8000), kind=socket.SOCK_DGRAM))",
        "attempt(lambda: socket.socket().listen())",
        &format!("attempt(lambda: socket.create_connection(('127.0.0.1', {at}), 5))"),
    ];
    let text = said(
        &serving(
            "socket.AF_INET",
            "127.0.0.1",
            &format!("[{}]", tries.join(", ")),
        ),
        Ipv4Addr::LOCALHOST.into(),
    );
    assert!(!text.contains("done"), "{text}");
    assert_eq!(text.matches("EACCES").count(), tries.len(), "{text}");
    outside.set_nonblocking(true).expect("a listener");
    assert!(outside.accept().is_err(), "it came out");
}

#[test]
fn without_namespaces_there_is_none() {
    let launcher = Launcher::new(Machine::probe()).without_namespaces();
    let surroundings = Surroundings {
        inner_port: Some(PORT),
        ..Surroundings::default()
    };
    let command = Command::new("/bin/true");
    let plan = make_plan(
        &Spec::new(
            &Policy::default(),
            &command,
            launcher.machine(),
            &surroundings,
        ),
        &ThisHost,
        &Options::default(),
    );
    assert!(matches!(plan, Err(PlanError::PortNeedsNamespaces)));
}
