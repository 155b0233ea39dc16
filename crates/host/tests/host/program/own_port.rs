//! Programs that bind a port of their own.

use super::*;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

const PYTHON: &str = "/usr/bin/python3";

/// A program in Python with this port. Two tests may well have the same one: it is no port of this machine's.
fn python(arguments: &[&str]) -> Settings {
    let mut settings = settings(&[]);
    let words = std::iter::once(PYTHON).chain(arguments.iter().copied());
    settings.program.command = words.map(str::to_owned).collect();
    settings.program.port = Some(PORT);
    settings
}

const PORT: u16 = 8000;

/// Answers each request with what `ANSWER` is for its path.
fn script(prelude: &str, answer: &str) -> String {
    format!(
        "import errno, http.server, os, socket\n\
         {prelude}\n\
         class Handler(http.server.BaseHTTPRequestHandler):\n\
         \x20   protocol_version = 'HTTP/1.1'\n\
         \x20   def do_GET(self):\n\
         \x20       text = str({answer}).encode()\n\
         \x20       self.send_response(200)\n\
         \x20       self.send_header('content-length', str(len(text)))\n\
         \x20       self.end_headers()\n\
         \x20       self.wfile.write(text)\n\
         http.server.ThreadingHTTPServer.address_family = socket.AF_INET6 if '::' in HOST else socket.AF_INET\n\
         http.server.ThreadingHTTPServer((HOST, {PORT}), Handler).serve_forever()\n"
    )
}

fn scripted(host: &str, prelude: &str, answer: &str) -> Settings {
    let text = script(&format!("HOST = '{host}'\n{prelude}"), answer);
    python(&["-c", &text])
}

/// Sockets of this machine that listen at the port.
fn host_listeners() -> usize {
    let of_table = |table: &str| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let port = format!(":{PORT:04X}");
        let listens = |line: &&str| {
            let mut words = line.split_whitespace().skip(1);
            let is_there = words.next().is_some_and(|local| local.ends_with(&port));
            is_there && words.nth(1) == Some("0A")
        };
        text.lines().filter(listens).count()
    };
    of_table("/proc/net/tcp") + of_table("/proc/net/tcp6")
}

#[test]
fn a_server_that_binds_its_port_answers() {
    let folder = tempfile::tempdir().unwrap();
    let anybody = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), anybody).unwrap();
    std::fs::write(folder.path().join("page"), "a page").unwrap();
    let path = folder.path().to_str().unwrap();
    let before = host_listeners();
    let mut settings = python(&["-m", "http.server", "8000", "--directory", path]);
    settings.policy.grants.files.push(FileGrant {
        access: Access::Read,
        host: folder.path().into(),
        guest: None,
    });
    let host = Host::start(settings);
    on_worker(async {
        let service = host.service();
        for _ in 0..3 {
            assert_eq!(body_of(get(&service, "/page").await).await, "a page");
        }
        assert_eq!(host_listeners(), before, "it is a port of this machine's");
        host.hears("GET /page HTTP/1.1\" 200").await;
        let metrics = host.metrics();
        assert_eq!((metrics.starts, metrics.faults), (1, 0));
    });
}

#[test]
fn every_address_of_its_loopback_is_its_own() {
    for address in ["127.0.0.1", "0.0.0.0", "::", "::1"] {
        let host = Host::start(scripted(address, "", "self.client_address[0]"));
        on_worker(async {
            let text = body_of(get(&host.service(), "/").await).await;
            let text = String::from_utf8_lossy(&text).into_owned();
            let expected = ["127.0.0.1", "::ffff:127.0.0.1", "::1"];
            assert!(expected.contains(&&*text), "{address}: {text}");
        });
    }
}

/// Each has the port, and is asked by its own service alone.
#[test]
fn two_programs_with_one_port_do_not_meet() {
    let one = Host::start(scripted("127.0.0.1", "", "'one'"));
    let meets = "try:\n    socket.create_connection(('127.0.0.1', 8000), 5); met = 'met'\n\
                 except OSError as error:\n    met = errno.errorcode[error.errno]\n";
    on_worker(async {
        let first = one.service();
        assert_eq!(body_of(get(&first, "/").await).await, "one");
        let two = Host::start(scripted("127.0.0.1", meets, "met"));
        let second = two.service();
        assert_eq!(body_of(get(&second, "/").await).await, "EACCES");
        assert_eq!(body_of(get(&first, "/").await).await, "one");
    });
}

/// What the port gives is the port: nothing else of the network, neither the host's nor its own.
#[test]
fn a_port_of_its_own_grants_nothing_else() {
    let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = outside.local_addr().unwrap().port();
    let tries = format!(
        "import struct\n\
         def attempt(act):\n\
         \x20   try:\n\
         \x20       act(); return 'done'\n\
         \x20   except OSError as error:\n\
         \x20       return errno.errorcode[error.errno]\n\
         def bound(place, kind=socket.SOCK_STREAM):\n\
         \x20   made = socket.socket(socket.AF_INET, kind); made.bind(place); return made\n\
         def listening():\n\
         \x20   socket.socket().listen()\n\
         def flags():\n\
         \x20   made = socket.socket()\n\
         \x20   import fcntl\n\
         \x20   fcntl.ioctl(made, 0x8914, struct.pack('16sH22x', b'lo', 0))\n\
         tried = [attempt(lambda: bound(('127.0.0.1', 8001))), attempt(lambda: bound(('0.0.0.0', 0))),\n\
         \x20        attempt(lambda: bound(('10.0.0.1', 8000))), attempt(lambda: bound(('127.0.0.1', 8000), socket.SOCK_DGRAM)),\n\
         \x20        attempt(listening), attempt(lambda: socket.create_connection(('127.0.0.1', {at}), 5)), attempt(flags)]\n"
    );
    let host = Host::start(scripted("127.0.0.1", &tries, "tried"));
    on_worker(async {
        let tried = body_of(get(&host.service(), "/").await).await;
        let tried = String::from_utf8_lossy(&tried).into_owned();
        assert!(!tried.contains("done"), "{tried}");
        assert_eq!(tried.matches("EACCES").count(), 7, "{tried}");
    });
    outside.set_nonblocking(true).unwrap();
    assert!(outside.accept().is_err(), "it came out");
}

/// A program that serves by its port and asks others by what it is granted.
#[test]
fn a_program_may_connect_too() {
    let outside = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = outside.local_addr().unwrap().port();
    let asks = format!(
        "asked = lambda: socket.create_connection(('127.0.0.1', {at}), 5).recv(9).decode()"
    );
    let mut settings = scripted("0.0.0.0", &asks, "asked()");
    let grant = format!("tcp://127.0.0.1:{at}").parse().unwrap();
    settings.policy.grants.connect.push(grant);
    let host = Host::start(settings);
    let answers = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = outside.accept().unwrap();
        stream.write_all(b"from out").unwrap();
    });
    on_worker(async {
        let service = host.service();
        assert_eq!(body_of(get(&service, "/").await).await, "from out");
        let own = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT));
        assert!(own.is_err() || host_listeners() > 0, "it listens outside");
    });
    answers.join().unwrap();
}

/// What it set of its socket holds: a socket that its children shall have, and one that they shall not.
#[test]
fn the_port_is_closed_on_exec_as_its_socket_was() {
    let check = "import fcntl, subprocess, sys\n\
                 def is_kept(inherits):\n\
                 \x20   made = socket.socket(); made.set_inheritable(inherits)\n\
                 \x20   made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
                 \x20   made.bind(('127.0.0.1', 8000))\n\
                 \x20   kept = not fcntl.fcntl(made, fcntl.F_GETFD) & fcntl.FD_CLOEXEC\n\
                 \x20   made.close(); return kept\n\
                 kept = [is_kept(True), is_kept(False)]\n";
    let host = Host::start(scripted("127.0.0.1", check, "kept"));
    on_worker(async {
        let kept = body_of(get(&host.service(), "/").await).await;
        assert_eq!(kept, "[True, False]");
    });
}

#[test]
fn the_next_process_has_the_port_again() {
    let host = Host::start(scripted("127.0.0.1", "", "os.getpid()"));
    on_worker(async {
        let service = host.service();
        body_of(get(&service, "/").await).await;
        kill(&host.metrics());
        host.becomes(|metrics| metrics.faults == 1).await;
        body_of(get(&service, "/").await).await;
        let metrics = host.metrics();
        assert_eq!((metrics.starts, metrics.restarts), (2, 1));
    });
}

/// One that never binds its port is told of, and keeps nobody waiting for longer than a start may take.
#[test]
fn a_port_that_nobody_binds_is_told_of() {
    let mut settings = python(&["-c", "import time; time.sleep(1000)"]);
    settings.program.start_time = Duration::from_millis(500);
    let host = Host::start(settings);
    on_worker(async {
        let error = get(&host.service(), "/").await.unwrap_err();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE, "{error}");
        host.hears("did not listen at port 8000").await;
    });
}

/// It needs a network of its own.
#[test]
fn without_namespaces_there_is_no_such_port() {
    let launcher = Launcher::new(Machine::probe()).without_namespaces();
    let heard: Arc<Heard> = Arc::default();
    let settings = scripted("127.0.0.1", "", "''");
    let error = Program::new(settings, heard, launcher.machine()).unwrap_err();
    assert!(error.to_string().contains("takes namespaces"), "{error}");
}
