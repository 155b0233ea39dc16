//! The server's program as its operator meets it: signals, reloads, the admin socket, a service manager.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};
use tempfile::TempDir;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a page and a configuration that serves it.
pub(super) struct Fixture {
    folder: TempDir,
}

/// A running server. Dropping it ends it.
pub(super) struct Server {
    process: Child,
    lines: Receiver<String>,
    ready: String,
    admin: PathBuf,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let fixture = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in ["one", "two"] {
            fs::create_dir(fixture.path(name)).unwrap();
            fs::write(fixture.path(name).join("index.html"), name).unwrap();
        }
        // The server asks where they are; without WebAssembly it starts neither.
        for name in ["palisade-worker", "palisade-compiler"] {
            fs::write(fixture.path(name), "").unwrap();
        }
        fixture.serve("one", "");
        fixture
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a configuration that serves this folder.
    fn serve(&self, folder: &str, more: &str) {
        self.write(&format!(
            "admin = 'unix:admin.sock'\nworkers = 1\nlog.format = 'json'\n[[listen]]\naddress = '127.0.0.1:0'\n\
             [services.site]\nfiles = '{folder}'\n[[route]]\nservice = 'site'\n{more}"
        ));
    }

    pub(super) fn write(&self, text: &str) {
        let new = self.path(".host.toml.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path("host.toml")).unwrap();
    }

    pub(super) fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade-host"));
        command
            .args(flags)
            .arg(self.path("host.toml"))
            .env("PALISADE_LIBEXEC", self.folder.path())
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn start(&self, flags: &[&str]) -> Server {
        self.start_command(self.command(flags))
    }

    fn start_command(&self, mut command: Command) -> Server {
        let mut process = command.spawn().unwrap();
        let lines = read_lines(process.stderr.take().unwrap());
        let mut server = Server {
            process,
            lines,
            ready: String::new(),
            admin: self.path("admin.sock"),
        };
        server.ready = server.wait_for("palisade: ");
        assert!(server.ready.contains("serving "), "{}", server.ready);
        server
    }
}

/// Lines as they come, from a thread that ends with the stream.
fn read_lines(stream: ChildStderr) -> Receiver<String> {
    let (send, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// The next line on stderr that has `text` in it.
    pub(super) fn wait_for(&self, text: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("no {text:?} ({error}): {seen:#?}"),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// What it said once it served.
    pub(super) fn ready(&self) -> &str {
        &self.ready
    }

    /// Where its first listener is.
    pub(super) fn address(&self) -> SocketAddr {
        let address = self.ready.split_once("http://").unwrap().1;
        let address = address.split([' ', ',', ';']).next().unwrap();
        address.parse().unwrap()
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).unwrap()
    }

    /// What the processor has done for it: proc_pid_stat(5), fields 14 and 15, in hundredths of a second.
    fn processor_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = |field: &&str| field.parse::<u64>().unwrap();
        Duration::from_millis(10 * fields[11..13].iter().map(ticks).sum::<u64>())
    }

    /// The page at `/`.
    fn page(&self) -> String {
        let answer = ask(
            self.connect(),
            "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        );
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// What the admin socket answers: its status and body.
    pub(super) fn admin(&self, request: &str) -> (u16, serde_json::Value) {
        let stream = UnixStream::connect(&self.admin).unwrap();
        let answer = ask(stream, &format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (
            head[9..12].parse().unwrap(),
            serde_json::from_str(body).unwrap(),
        )
    }

    /// Its metrics.
    pub(super) fn metrics(&self) -> String {
        let stream = UnixStream::connect(&self.admin).unwrap();
        ask(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
    }

    fn end(mut self) -> (ExitStatus, Vec<String>) {
        let status = self.process.wait().unwrap();
        (status, self.lines.iter().collect())
    }
}

pub(super) fn ask(mut stream: impl Read + Write, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_ready_line_says_what_is_served_where() {
    let fixture = Fixture::new();
    let server = fixture.start(&[]);
    for part in [
        "host.toml",
        "http://127.0.0.1:",
        "1 route,",
        "1 worker)",
        "admin.sock",
    ] {
        assert!(server.ready.contains(part), "{part}: {}", server.ready);
    }
    assert_eq!(server.page(), "one");
    let (status, told) = server.admin("GET /status");
    assert_eq!((status, &told["generation"]), (200, &1.into()));
    assert_eq!(told["guests"][0]["name"], "site");
}

#[test]
fn a_reload_that_was_asked_for_is_answered() {
    let fixture = Fixture::new();
    let server = fixture.start(&["--no-watch"]);
    fixture.serve("two", "");
    assert_eq!(server.page(), "one", "nobody looks at the file");
    let (status, answer) = server.admin("POST /reload");
    assert_eq!(
        (status, &answer["generation"]),
        (200, &2.into()),
        "{answer}"
    );
    assert_eq!(server.page(), "two");
}

#[test]
fn what_cannot_be_served_leaves_the_old_one_serving() {
    let fixture = Fixture::new();
    let server = fixture.start(&["--no-watch"]);
    for (folder, more, wanted) in [
        ("two", "wrokers = 2", "unknown key `wrokers`"),
        ("nowhere", "", "nowhere"),
        (
            "two",
            "[log]\npath = 'no/such/folder'",
            "cannot write the log",
        ),
        (
            "two",
            "[[listen]]\naddress = '203.0.113.1:80'",
            "203.0.113.1:80",
        ),
    ] {
        fixture.serve(folder, "");
        let text = fs::read_to_string(fixture.path("host.toml")).unwrap();
        let text = match more.starts_with("[log]") {
            true => text.replace("log.format = 'json'\n", "") + more,
            false => text + more,
        };
        fixture.write(&text);
        let (status, answer) = server.admin("POST /reload");
        assert_eq!(
            (status, &answer["generation"]),
            (422, &1.into()),
            "{more}: {answer}"
        );
        assert!(
            answer["error"].as_str().unwrap().contains(wanted),
            "{wanted}: {answer}"
        );
        assert_eq!(server.page(), "one");
        let (_, status) = server.admin("GET /status");
        assert!(
            status["last_failure"]["message"]
                .as_str()
                .unwrap()
                .contains(wanted),
            "{status}"
        );
    }
    let told = server.wait_for("reload failed");
    assert!(told.contains("wrokers"), "{told}");
    fixture.serve("two", "");
    assert_eq!(server.admin("POST /reload").0, 200);
    let (_, status) = server.admin("GET /status");
    assert_eq!(
        (&status["failed_reloads"], &status["reloads"]),
        (&4.into(), &1.into())
    );
    assert!(status["last_failure"].is_null(), "{status}");
    assert_eq!(server.page(), "two");
}

#[test]
fn hangup_reloads() {
    let fixture = Fixture::new();
    let server = fixture.start(&["--no-watch"]);
    fixture.serve("two", "");
    server.signal(Signal::HUP);
    server.wait_for("reloaded");
    assert_eq!(server.page(), "two");
}

#[test]
fn a_changed_file_is_served() {
    let fixture = Fixture::new();
    let server = fixture.start(&[]);
    fixture.serve("two", "");
    server.wait_for("reloaded");
    assert_eq!(server.page(), "two");
    fixture.write("this is = not");
    server.wait_for("reload failed");
    assert_eq!(server.page(), "two");
    fixture.serve("one", "");
    server.wait_for("reloaded");
    assert_eq!(server.page(), "one");
}

#[test]
fn the_admin_socket_goes_where_the_file_says() {
    let fixture = Fixture::new();
    let mut server = fixture.start(&["--no-watch"]);
    let old = server.admin.clone();
    let text = fs::read_to_string(fixture.path("host.toml")).unwrap();
    fixture.write(&text.replace("admin.sock", "other.sock"));
    assert_eq!(server.admin("POST /reload").0, 200);
    assert!(!old.exists(), "the old socket is gone");
    server.admin = fixture.path("other.sock");
    assert_eq!(server.admin("GET /status").1["generation"], 2);
}

#[test]
fn a_signal_lets_requests_finish_and_ends_the_server() {
    for signal in [Signal::TERM, Signal::INT] {
        let fixture = Fixture::new();
        let server = fixture.start(&[]);
        assert_eq!(server.page(), "one");
        let admin = server.admin.clone();
        server.signal(signal);
        let (status, lines) = server.end();
        assert_eq!(status.code(), Some(0), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.contains("\"stopped\"")),
            "{lines:?}"
        );
        assert!(!admin.exists());
    }
}

#[test]
fn logs_that_were_moved_away_are_opened_anew() {
    for signal in [Signal::USR1, Signal::HUP] {
        let fixture = Fixture::new();
        let text = fs::read_to_string(fixture.path("host.toml")).unwrap();
        fixture.write(&text.replace(
            "log.format = 'json'",
            "log = { path = 'host.log', access = true }",
        ));
        let server = fixture.start(&["--no-watch"]);
        let log = fixture.path("host.log");
        fs::rename(&log, fixture.path("host.log.1")).unwrap();
        server.signal(signal);
        // The signal is heard before the reload is, for it came first.
        server.admin("POST /reload");
        assert_eq!(server.page(), "one");
        server.signal(Signal::TERM);
        server.end();
        let new = fs::read_to_string(log).unwrap();
        assert!(new.contains("\"path\":\"/\""), "{signal:?}: {new}");
    }
}

/// As a container has it, whose lines somebody else collects; a socket, which cannot be opened, among others.
#[test]
fn the_processes_own_stream_is_a_log_by_its_name() {
    let fixture = Fixture::new();
    let text = fs::read_to_string(fixture.path("host.toml")).unwrap();
    fixture.write(&text.replace(
        "log.format = 'json'",
        "log = { path = '/dev/stdout', access = true, format = 'json' }",
    ));
    let (mut reader, socket) = UnixStream::pair().unwrap();
    let file = fs::File::create(fixture.path("out")).unwrap();
    for stream in [OwnedFd::from(socket), OwnedFd::from(file)] {
        let mut command = fixture.command(&["--no-watch"]);
        command.stdout(stream);
        let server = fixture.start_command(command);
        assert_eq!(server.page(), "one");
        server.signal(Signal::TERM);
        server.end();
    }
    let mut lines = String::new();
    reader.read_to_string(&mut lines).unwrap();
    for lines in [lines, fs::read_to_string(fixture.path("out")).unwrap()] {
        assert!(lines.contains("\"path\":\"/\""), "{lines}");
    }
}

/// The whole server, not only who lets clients in.
#[test]
fn a_server_without_descriptors_waits_and_goes_on() {
    const DESCRIPTORS: usize = 64;
    let fixture = Fixture::new();
    let own = fixture.command(&["--no-watch"]);
    let mut command = Command::new("/bin/sh");
    command
        .args([
            "-c",
            &format!("ulimit -n {DESCRIPTORS} && exec \"$0\" \"$@\""),
        ])
        .arg(own.get_program())
        .args(own.get_args())
        .envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let server = fixture.start_command(command);
    let clients: Vec<_> = (0..2 * DESCRIPTORS).map(|_| server.connect()).collect();
    server.wait_for("no descriptor left");
    let before = server.processor_time();
    // The silence of the one who waits longest is a second.
    let mut last = clients.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    assert!(last.read(&mut [0]).is_err(), "it is let in");
    let spent = server.processor_time() - before;
    assert!(spent < Duration::from_millis(300), "{spent:?} of a second");
    let answer = ask(
        clients.first().unwrap(),
        "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    );
    // A file takes a descriptor, too: some are kept back for those who are in.
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(clients);
    assert_eq!(server.page(), "one");
    server.signal(Signal::TERM);
    assert_eq!(server.end().0.code(), Some(0));
}

#[test]
fn a_service_manager_is_told() {
    let fixture = Fixture::new();
    let socket = UnixDatagram::bind(fixture.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut message = [0; 4096];
        let count = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..count].to_vec()).unwrap()
    };
    let mut command = fixture.command(&["--no-watch"]);
    command.env("NOTIFY_SOCKET", fixture.path("notify"));
    let server = fixture.start_command(command);
    let ready = heard();
    let (state, status) = ready.split_once('\n').unwrap();
    assert_eq!(state, "READY=1");
    assert!(
        status.starts_with("STATUS=Serving ") && status.ends_with("host.toml, generation 1"),
        "{status}"
    );
    let mut last = 0;
    for (folder, wanted) in [
        ("two", "generation 2"),
        ("no\nwhere", "the last reload failed"),
    ] {
        fixture.serve(&folder.replace('\n', "-"), "");
        server.signal(Signal::HUP);
        let reloading = heard();
        let since = reloading
            .strip_prefix("RELOADING=1\nMONOTONIC_USEC=")
            .unwrap();
        let since: u64 = since.parse().unwrap();
        assert!(since > last, "{since} after {last}");
        last = since;
        let ready = heard();
        assert!(ready.starts_with("READY=1\nSTATUS=Serving "), "{ready}");
        assert!(
            ready.contains(wanted) && ready.lines().count() == 2,
            "{ready}"
        );
    }
    server.signal(Signal::TERM);
    assert!(heard().starts_with("STOPPING=1\nSTATUS="));
}

/// It is told while the workers answer, and by nobody else's watchdog.
#[test]
fn a_watchdog_is_told_that_the_server_is_alive() {
    const TIME: Duration = Duration::from_millis(300);
    let fixture = Fixture::new();
    let socket = UnixDatagram::bind(fixture.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut message = [0; 4096];
        let count = socket.recv(&mut message).unwrap();
        String::from_utf8(message[..count].to_vec()).unwrap()
    };
    let start = |pid: Option<&str>| {
        let mut command = fixture.command(&["--no-watch"]);
        command.env("NOTIFY_SOCKET", fixture.path("notify"));
        command.env("WATCHDOG_USEC", TIME.as_micros().to_string());
        command.env_remove("WATCHDOG_PID");
        command.envs(pid.map(|pid| ("WATCHDOG_PID", pid)));
        let server = fixture.start_command(command);
        assert!(heard().starts_with("READY=1"));
        server
    };
    let server = start(None);
    for _ in 0..3 {
        assert_eq!(heard(), "WATCHDOG=1");
    }
    // Whatever else it says: it goes on.
    server.signal(Signal::HUP);
    while !heard().starts_with("READY=1") {}
    while heard() != "WATCHDOG=1" {}
    server.signal(Signal::TERM);
    while !heard().starts_with("STOPPING=1") {}
    server.end();
    let server = start(Some("1"));
    assert_eq!(server.page(), "one");
    server.signal(Signal::TERM);
    assert!(
        heard().starts_with("STOPPING=1"),
        "it is another's watchdog"
    );
}

#[test]
fn a_check_serves_nothing() {
    let fixture = Fixture::new();
    let check = || {
        let output = fixture.command(&["--check"]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = check();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("configuration is valid"), "{said}");
    assert!(!Path::new(&fixture.path("admin.sock")).exists());
    fixture.serve("one", "[services.old]\nfiles = 'two'");
    assert!(check().1.contains("no route leads to service `old`"));
    fixture.serve("nowhere", "");
    let (code, said) = check();
    assert_eq!(code, Some(125), "{said}");
    assert!(said.contains("nowhere"), "{said}");
}

#[test]
fn what_is_not_a_configuration_ends_it_with_the_line() {
    let fixture = Fixture::new();
    fixture.write("workers = 'many'");
    let output = fixture.command(&[]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said.contains("host.toml:1:11"), "{said}");
    for flags in [&["--workers", "0"][..], &["--unknown"], &["other.toml"]] {
        assert_eq!(
            fixture.command(flags).output().unwrap().status.code(),
            Some(125)
        );
    }
}
