//! Clients and language runtimes, unmodified, with only their grants.

use super::{bare, compile, guest, place, start_web_server};
use crate::cli::fixture::{Fixture, cases};
use palisade_suite::{executable::copy_program, ports::free_ports};
use std::{
    io::Read,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

cases![
    curl_gets_pages_of_the_host,
    curl_is_refused_what_is_not_granted,
    curl_gives_up_in_its_own_time,
    curl_goes_on_without_fast_open,
    python_asyncio_serves_itself,
    python_processes_share_a_connection,
    go_serves_itself_while_it_is_preempted,
    node_serves_itself,
    java_serves_itself,
    many_threads_connect_while_one_waits,
];

/// Flags for a program that serves itself at a port: tcp there and, with nobody listening, at the next;
/// udp there.
fn own_server(port: u16) -> String {
    let next = port + 1;
    format!(
        "--listen tcp://127.0.0.1:{port} --listen udp://127.0.0.1:{port} \
         --connect tcp://127.0.0.1:{port}-{next} --connect udp://127.0.0.1:{port}"
    )
}

fn curl_gets_pages_of_the_host(fixture: &Fixture) {
    let port = start_web_server();
    let at = format!("http://127.0.0.1:{port}");
    let several = format!("curl -sS {at}/one {at}/two {at}/three");
    let grant = format!("--connect tcp://127.0.0.1:{port}");
    guest(fixture, &grant, &several)
        .run()
        .prints("/one/two/three");
    let parallel = format!("curl -sS -Z {at}/same?[1-8] -o /dev/null -w %{{http_code}}");
    guest(fixture, &grant, &parallel)
        .run()
        .shows(&"200".repeat(8));
    // Version 6 of `localhost` is granted and refuses; the other is taken.
    let by_name = format!("curl -sS http://localhost:{port}/name");
    let grant = format!("--connect tcp://localhost:{port}");
    guest(fixture, &grant, &by_name).run().prints("/name");
}

fn curl_is_refused_what_is_not_granted(fixture: &Fixture) {
    const CANNOT_CONNECT: i32 = 7;
    let port = start_web_server();
    let closed = free_ports(1);
    let grant = format!("--connect tcp://127.0.0.1:{closed}");
    for port in [closed, port] {
        let outcome = guest(
            fixture,
            &grant,
            &format!("curl -s http://127.0.0.1:{port}/"),
        )
        .run();
        outcome.is_silent(CANNOT_CONNECT);
        assert_eq!(outcome.text(), "");
    }
    // The witness.
    let url = format!("http://127.0.0.1:{port}/");
    bare(fixture, &format!("/usr/bin/curl -sS {url}"))
        .run()
        .prints("/");
}

/// A listener that answers nobody any more, and what holds it so.
fn full_listener() -> (TcpListener, Vec<std::net::TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    // One more than the queue's length of none.
    let held = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener, vec![held])
}

fn curl_gives_up_in_its_own_time(fixture: &Fixture) {
    const TIMED_OUT: i32 = 28;
    let (listener, _held) = full_listener();
    let at = listener.local_addr().unwrap();
    let command = format!("curl -s --connect-timeout 0.2 http://{at}/");
    let grant = format!("--connect tcp://{at}");
    guest(fixture, &grant, &command).run().is_silent(TIMED_OUT);
}

fn curl_goes_on_without_fast_open(fixture: &Fixture) {
    let port = start_web_server();
    let grant = format!("--connect tcp://127.0.0.1:{port}");
    let command = format!("curl -sS --tcp-fastopen http://127.0.0.1:{port}/page");
    guest(fixture, &grant, &command).run().prints("/page");
}

fn python_asyncio_serves_itself(fixture: &Fixture) {
    let program = place(fixture, "program.py", include_str!("asynchronous.py"));
    let port = free_ports(3);
    let flags = format!("{} --read {program}", own_server(port));
    guest(
        fixture,
        &flags,
        &format!("/usr/bin/python3 {program} {port}"),
    )
    .run()
    .prints(
        "connections 19900 ConnectionRefusedError PermissionError\n\
             datagrams 19900 19900\n",
    );
}

fn python_processes_share_a_connection(fixture: &Fixture) {
    const SCRIPT: &str = "
import os, socket, sys
one = socket.socket()
other = one.dup()
other.connect(('127.0.0.1', int(sys.argv[1])))
left, right = socket.socketpair()
if os.fork() == 0:
    one.sendall(b'child ')
    os._exit(0)
os.wait()
if os.fork() == 0:
    data, [passed], _, _ = socket.recv_fds(right, 1, 1)
    socket.socket(fileno=passed).sendall(b'passed ')
    os._exit(0)
socket.send_fds(left, [b'x'], [other.fileno()])
os.wait()
one.sendall(b'port %d' % one.getsockname()[1])
";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let program = place(fixture, "share.py", SCRIPT);
    let flags = format!("--connect tcp://{at} --read {program}");
    let command = format!("/usr/bin/python3 {program} {}", at.port());
    guest(fixture, &flags, &command).run().prints("");
    let (mut stream, from) = listener.accept().unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, format!("child passed port {}", from.port()));
}

/// The Go program, built once for both users. Go's own packages are kept for the next time: they take
/// long.
fn go_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-network");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("main.go"), include_str!("main.go")).unwrap();
        let usual = Path::new("/usr/local/go/bin/go");
        let built = Command::new(if usual.exists() {
            usual
        } else {
            Path::new("go")
        })
        .args(["build", "-o", "program", "main.go"])
        .env("GOCACHE", folder.join("cache"))
        .env("HOME", &folder)
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0")
        .current_dir(&folder)
        .status()
        .expect("go is installed: `make test` sees to it");
        assert!(built.success());
        folder.join("program")
    })
}

fn go_serves_itself_while_it_is_preempted(fixture: &Fixture) {
    let port = free_ports(3);
    copy_program(go_program(), &fixture.path("program")).unwrap();
    let program = fixture.text("program");
    let [next, last] = [port + 1, port + 2];
    let flags = format!("{} --read {program}", own_server(port));
    let command = format!("{program} 127.0.0.1:{port} 127.0.0.1:{next} 127.0.0.1:{last}");
    guest(fixture, &flags, &command)
        .run()
        .prints("fresh 1024\nkept alive 1024\nclosed true\nnot granted true\ndatagram ping\n");
}

fn node_serves_itself(fixture: &Fixture) {
    let program = place(fixture, "server.js", include_str!("server.js"));
    let port = free_ports(3);
    let flags = format!("{} --profile node --read {program}", own_server(port));
    // `localhost` is both versions there, and the program's lookup finds the first.
    let flags = format!("{flags} --connect tcp://[::1]:{port}");
    guest(fixture, &flags, &format!("node {program} {port}"))
        .run()
        .prints(
            "fresh 1225\nkept alive 1225\nrefused ECONNREFUSED EACCES\ndatagram ping\n\
             name 127.0.0.1\n",
        );
}

fn java_serves_itself(fixture: &Fixture) {
    let program = place(fixture, "Nio.java", include_str!("Nio.java"));
    let port = free_ports(3);
    let flags = format!("{} --profile java --read {program}", own_server(port));
    guest(fixture, &flags, &format!("java {program} {port}"))
        .run()
        .prints(
            "answers 100\nhttp page\nrefused Connection refused, Permission denied\n\
             datagram ping\n",
        );
}

fn many_threads_connect_while_one_waits(fixture: &Fixture) {
    let program = compile(fixture, "crowd", include_str!("crowd.c"));
    let port = start_web_server();
    let (full, _held) = full_listener();
    let full = full.local_addr().unwrap();
    let flags = format!("--read {program} --connect tcp://127.0.0.1:{port} --connect tcp://{full}");
    guest(
        fixture,
        &flags,
        &format!("{program} {port} {}", full.port()),
    )
    .run()
    .prints("one after another 500\nat once 640\nstill waiting 1\n");
}
