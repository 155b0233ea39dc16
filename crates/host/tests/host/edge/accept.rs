//! Too many connections, too few descriptors.

use super::{
    http2::{begin_with_window, get_frame, is_served},
    limits::{wait_until, wait_until_gone},
    stand_in::{Server, short},
};
use crate::raw_http::{Client, get};
use palisade_host::config::Limits;
use rustix::process::{Resource, Rlimit};
use std::{
    fs,
    net::SocketAddr,
    os::fd::OwnedFd,
    process::Command,
    time::{Duration, Instant},
};

#[test]
fn clients_wait_while_every_connection_is_taken() {
    let server = Server::start(Limits {
        connections: 2,
        ..Limits::default()
    });
    let mut taken = [server.connect(), server.connect()];
    for client in &mut taken {
        client.send(get("/gate"));
    }
    server.wait_for_request();
    server.wait_for_request();
    let mut waiting = server.connect();
    waiting.send(get("/"));
    server.open_gate(2);
    for client in taken {
        let mut client = client;
        assert_eq!(client.answer().text(), "first");
    }
    assert_eq!(waiting.answer().text(), "first");
    let notices = server.notices.lock().expect("no test panicked").clone();
    assert!(
        notices
            .iter()
            .all(|notice| notice.contains("`limits.connections`")),
        "{notices:?}"
    );
}

#[test]
fn connections_without_a_request_make_room() {
    let server = Server::start(Limits {
        connections: 2,
        ..Limits::default()
    });
    // Both keep their connections, for a minute as far as they are concerned.
    let mut kept = [server.connect(), server.connect()];
    for client in &mut kept {
        assert_eq!(client.get("/").text(), "first");
    }
    let mut next = server.connect();
    assert_eq!(next.get("/").text(), "first");
}

/// Set in the child process that a test runs itself in, for what concerns a whole process.
const CHILD: &str = "PALISADE_TEST_CHILD";

fn in_a_child(test: &str, act: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return act();
    }
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", &format!("edge::accept::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
fn a_server_without_descriptors_serves_whom_it_has() {
    in_a_child(
        "a_server_without_descriptors_serves_whom_it_has",
        run_out_of_descriptors,
    );
}

#[test]
fn nothing_stays_of_connections_however_they_end() {
    in_a_child("nothing_stays_of_connections_however_they_end", || {
        let server = Server::start(Limits::default());
        end_in_every_way(&server, 1);
        let (descriptors, memory) = (open_descriptors(), resident_bytes());
        end_in_every_way(&server, 200);
        assert_eq!(open_descriptors(), descriptors);
        let more = resident_bytes().saturating_sub(memory);
        assert!(more < 8 << 20, "{more} bytes more");
    });
}

/// So many connections for each way to leave. Returns when the server has seen them all off.
fn end_in_every_way(server: &Server, rounds: u64) {
    let sent = [
        "GET / HTTP/1.1\r\nhost:",
        "POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nabc",
        "GET /endless HTTP/1.1\r\nhost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\n\r\nnonsense\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "PRI * HTTP/2",
        "",
    ];
    let accepted = || server.figure(|metrics| metrics.accepted.get());
    let all = accepted() + rounds * (sent.len() as u64 + 1);
    for _ in 0..rounds {
        for bytes in sent {
            server.connect().send(bytes);
        }
        let mut half = server.connect();
        half.send(get("/"));
        half.end();
        assert_eq!(half.answer().text(), "first");
    }
    wait_until("every client is let in", || accepted() == all);
    wait_until_gone(server);
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("this process").count()
}

/// proc_pid_statm(5): the second number, in pages.
fn resident_bytes() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").expect("this process");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * rustix::param::page_size()
}

fn run_out_of_descriptors() {
    let server = Server::start(Limits::default());
    let mut kept = server.connect();
    assert_eq!(kept.get("/").text(), "first");
    let mut next = server.connect();
    assert_eq!(next.get("/").text(), "first");
    // A client's socket is there before the limit; what is accepted from now on finds no descriptor.
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .expect("a socket");
    let open = open_descriptors();
    let limit = Rlimit {
        current: Some(0),
        maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, limit).expect("a limit");
    rustix::net::connect(&socket, &server.address()).expect("the kernel lets it in");
    let mut waiting = Client::over(std::net::TcpStream::from(socket));
    waiting.send(get("/"));
    // Those that are there are served, and the server does not turn in circles.
    let before = processor_time();
    for _ in 0..20 {
        assert_eq!(kept.get("/").text(), "first");
        std::thread::sleep(Duration::from_millis(20));
    }
    let spent = processor_time().saturating_sub(before);
    assert!(
        spent < Duration::from_millis(200),
        "{spent:?} of processor time"
    );
    let starved = server.notices.lock().expect("no test panicked").clone();
    assert_eq!(starved.len(), 1, "{starved:?}");
    assert!(starved[0].contains("no descriptor left"), "{starved:?}");
    // A descriptor becomes free.
    drop(next);
    let limit = Rlimit {
        current: Some(open as u64 + 8),
        ..limit
    };
    rustix::process::setrlimit(Resource::Nofile, limit).expect("a limit");
    assert_eq!(waiting.answer().text(), "first");
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// A client that has many answers made and takes none of them has its share, and nobody else waits for that.
#[test]
fn who_takes_no_answers_keeps_nobody_from_descriptors() {
    in_a_child("who_takes_no_answers_keeps_nobody_from_descriptors", || {
        let limit = Rlimit {
            current: Some(256),
            maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
        };
        rustix::process::setrlimit(Resource::Nofile, limit).expect("a limit");
        let server = Server::start(Limits::default());
        // Clients are of the same process: they have their sockets before.
        let others: Vec<_> = (2..10).map(socket_of).collect();
        let mut greedy: Vec<_> = (0..9).map(|_| begin_with_window(&server, 0)).collect();
        let mut held = 0;
        for client in &mut greedy {
            let streams = (0..100).map(|number| 2 * number + 1);
            let asked = streams.flat_map(|stream| get_frame(stream, "/file"));
            client.send(asked.collect::<Vec<_>>());
            held += (0..100).filter(|_| is_served(client)).count();
        }
        assert!((8..200).contains(&held), "{held} of 900 answers are held");
        for socket in others {
            let began = Instant::now();
            rustix::net::connect(&socket, &server.address()).expect("the kernel lets it in");
            let mut other = Client::over(std::net::TcpStream::from(socket));
            assert_eq!(other.get("/file-once").status, 200);
            assert!(began.elapsed() < Duration::from_secs(5), "it waited");
        }
    });
}

#[test]
fn a_client_has_no_more_connections_than_are_left() {
    let server = Server::start(Limits {
        connections: 400,
        ..Limits::default()
    });
    let mut greedy: Vec<_> = (0..400).map(|_| server.connect()).collect();
    let is_in =
        |client: &mut Client| client.try_send(get("/")).is_ok() && client.read_exactly(8).is_ok();
    let count = greedy
        .iter_mut()
        .filter_map(|client| is_in(client).then_some(()))
        .count();
    // Each of the two workers leaves as much as it gives.
    assert!((128..=270).contains(&count), "{count}");
    let socket = socket_of(2);
    rustix::net::connect(&socket, &server.address()).expect("the kernel lets it in");
    let mut other = Client::over(std::net::TcpStream::from(socket));
    assert_eq!(other.get("/").text(), "first");
    drop(greedy);
    wait_until("one alone is in", || {
        server.figure(|metrics| metrics.connections.get()) == 1
    });
    assert_eq!(server.connect().get("/").text(), "first", "it may again");
}

/// A client's socket, whose address is 127.0.0.`number`.
fn socket_of(number: u8) -> OwnedFd {
    use rustix::net::{AddressFamily, SocketType, bind, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&socket, &SocketAddr::from(([127, 0, 0, number], 0))).expect("an address");
    socket
}

#[test]
fn a_slow_client_keeps_nobody_else_waiting() {
    let server = Server::start(short());
    let slow: Vec<_> = (0..50)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET / HTTP/1.1\r\n");
            client
        })
        .collect();
    assert_eq!(server.connect().get("/").text(), "first");
    for mut client in slow {
        assert_eq!(client.answer().status, 408);
    }
}
