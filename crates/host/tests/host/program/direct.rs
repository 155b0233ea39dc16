//! Programs that have a listener of their own.

use super::*;
use palisade_host::config::Address;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
};

fn direct(address: Address, habit: &[&str]) -> Settings {
    let mut settings = settings(habit);
    settings.program.direct = Some(address);
    settings
}

fn any_port() -> Address {
    Address::Internet("127.0.0.1:0".parse().unwrap())
}

fn address_of(host: &Host) -> SocketAddr {
    match host.program().direct_address() {
        Some(Address::Internet(address)) => *address,
        other => panic!("{other:?}"),
    }
}

/// What a client without the server gets, on a thread of its own.
async fn fetch(address: SocketAddr, path: &'static str) -> std::io::Result<String> {
    tokio::task::spawn_blocking(move || exchange(TcpStream::connect(address)?, path))
        .await
        .unwrap()
}

fn exchange(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: one.example\r\n\r\n")?;
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        let length = stream.read(&mut bytes)?;
        text += &String::from_utf8_lossy(&bytes[..length]);
        if length == 0 || text.ends_with("http") {
            return Ok(text);
        }
    }
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1 own http";

#[test]
fn a_connection_starts_the_program_that_has_it() {
    let host = Host::start(direct(any_port(), &[]));
    on_worker(async {
        let address = address_of(&host);
        assert_eq!(host.metrics().starts, 0);
        for _ in 0..3 {
            assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
        }
        host.becomes(|metrics| metrics.starts == 1).await;
    });
}

#[test]
fn a_socket_file_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let host = Host::start(direct(Address::Unix(path.clone()), &[]));
    on_worker(async {
        let connect = path.clone();
        let fetch = move || exchange(UnixStream::connect(connect).unwrap(), "/env");
        let answer = tokio::task::spawn_blocking(fetch).await.unwrap();
        assert_eq!(answer.unwrap(), ANSWER);
    });
    drop(host);
    assert!(!path.exists());
    // One that a server left behind which was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let host = Host::start(direct(Address::Unix(path), &[]));
    drop(host);
}

#[test]
fn connections_wait_while_there_is_no_program() {
    let host = Host::start(direct(any_port(), &["late"]));
    on_worker(async {
        let address = address_of(&host);
        assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
        // The one that brings it down is lost, those after it are not.
        let _ = fetch(address, "/crash").await;
        assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
        let metrics = host.becomes(|metrics| metrics.starts >= 2).await;
        assert_eq!(
            (metrics.starts, metrics.restarts, metrics.faults),
            (2, 1, 1)
        );
    });
}

#[test]
fn an_idle_program_is_ended_and_its_listener_stays() {
    let mut settings = direct(any_port(), &[]);
    settings.program.idle_time = Some(Duration::from_millis(200));
    let host = Host::start(settings);
    on_worker(async {
        let address = address_of(&host);
        for round in 1..=3 {
            assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
            let metrics = host
                .becomes(|metrics| {
                    (metrics.state, metrics.pid, metrics.starts) == (State::Idle, None, round)
                })
                .await;
            assert_eq!((metrics.starts, metrics.faults), (round, 0), "{metrics:?}");
        }
        // Who is connected keeps it, whether it says something or not.
        let held = TcpStream::connect(address).unwrap();
        host.becomes(|metrics| metrics.state == State::Running)
            .await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(host.metrics().state, State::Running);
        drop(held);
        host.becomes(|metrics| metrics.state == State::Idle).await;
    });
}

#[test]
fn the_next_program_gets_the_listener() {
    let host = Host::start(direct(any_port(), &[]));
    let mut changed = host.program().settings().clone();
    changed.program.back_off *= 2;
    let taken = host.begin(changed.clone(), Some(host.program()));
    assert_eq!(taken.direct_address(), host.program().direct_address());
    let address = taken.direct_address().cloned().unwrap();
    // Nobody else does.
    changed.program.direct = Some(address);
    let refused = host.plan(changed).open(None);
    assert!(
        matches!(refused, Err(ProgramError::Listen { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_route_may_lead_to_it_too() {
    let host = Host::start(direct(any_port(), &[]));
    on_worker(async {
        let service = host.service();
        assert_eq!(body_of(get(&service, "/env").await).await, "1 own http");
        let answer = ask(&service, Method::POST, "/echo", "text").await;
        assert_eq!(body_of(answer).await, "text");
        host.becomes(|metrics| metrics.starts == 1).await;
    });
}

#[test]
fn what_was_only_loaded_touches_nothing() {
    let host = Host::start(direct(any_port(), &[]));
    on_worker(async {
        let address = address_of(&host);
        assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
        let mut changed = host.program().settings().clone();
        changed.program.back_off *= 2;
        let loaded = host.plan(changed);
        loaded.open(Some(&**host.program())).unwrap();
        for _ in 0..20 {
            assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
        }
        assert_eq!(loaded.metrics(), ProgramMetrics::default());
        drop(loaded);
        assert_eq!(fetch(address, "/env").await.unwrap(), ANSWER);
        // The one start is counted once it is told of.
        host.becomes(|metrics| metrics.starts == 1).await;
        assert_eq!(host.metrics().faults, 0);
    });
}

/// What holds a listener of the host's has that and nothing else: no other address to listen at, nobody to connect to, and
/// no way to the server's own sockets, by whatever socket comes out of it.
#[test]
fn a_listener_is_all_that_a_program_has() {
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = outside.local_addr().unwrap().port();
    let script = format!(
        "import ctypes, errno, socket\n\
         server = socket.socket(fileno=3)\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def attempt(act):\n\
         \x20   try:\n\
         \x20       act(); return 'done'\n\
         \x20   except OSError as error:\n\
         \x20       return errno.errorcode[error.errno]\n\
         def disconnected(made):\n\
         \x20   libc.connect(made.fileno(), bytes(16), 16); return made\n\
         def fresh(kind=socket.SOCK_STREAM):\n\
         \x20   return socket.socket(socket.AF_INET, kind)\n\
         def listens(made, place):\n\
         \x20   made.bind(place); made.listen()\n\
         first, _ = server.accept()\n\
         tried = [attempt(act) for act in (\n\
         \x20   lambda: fresh().connect(('127.0.0.1', {at})),\n\
         \x20   lambda: disconnected(first).connect(('127.0.0.1', {at})),\n\
         \x20   lambda: listens(first, ('127.0.0.1', 0)),\n\
         \x20   lambda: listens(fresh(), ('127.0.0.1', 0)),\n\
         \x20   lambda: fresh().listen(),\n\
         \x20   lambda: fresh(socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {at})),\n\
         \x20   lambda: first.sendto(b'x', 0x20000000, ('127.0.0.1', {at})),\n\
         \x20   lambda: server.setsockopt(socket.SOL_SOCKET, 25, b'lo'))]\n\
         while True:\n\
         \x20   client, _ = server.accept()\n\
         \x20   client.recv(4096)\n\
         \x20   client.sendall(('HTTP/1.1 200 OK\\r\\n\\r\\n' + ' '.join(tried) + ' http').encode())\n\
         \x20   client.close()\n"
    );
    let mut settings = direct(any_port(), &[]);
    settings.program.command = ["/usr/bin/python3", "-c", &script]
        .map(str::to_owned)
        .into();
    let host = Host::start(settings);
    on_worker(async {
        let address = address_of(&host);
        // The first is the one that it tries its luck with.
        let _first = TcpStream::connect(address).unwrap();
        let answer = fetch(address, "/").await.unwrap();
        let (_, tried) = answer.split_once("\r\n\r\n").unwrap();
        assert!(!tried.contains("done"), "{tried}");
        assert_eq!(tried.split(' ').count(), 9, "{tried}");
    });
    outside.set_nonblocking(true).unwrap();
    assert!(outside.accept().is_err(), "it reached somebody");
}
