//! Programs of a whole server: what a reload does to them, and what is left when it has ended.

use super::served;
use palisade_suite::executable::copy_program;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Nothing here takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a program of its own, and a server that is started there.
struct Fixture {
    folder: TempDir,
}

struct Server {
    process: Child,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let anybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), anybody).unwrap();
        let fixture = Self { folder };
        fs::create_dir(fixture.path("bin")).unwrap();
        copy_program(&served(), &fixture.path("bin/served")).unwrap();
        // The server asks where they are; without WebAssembly it starts neither.
        for name in ["palisade-worker", "palisade-compiler"] {
            fs::write(fixture.path(name), "").unwrap();
        }
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A configuration with a program by routes and one with a listener of its own.
    fn write(&self, of_programs: &str, more: &str) {
        let program = |habit: &str| {
            format!(
                "program = ['./bin/served', '{habit}']\npolicy.grants.read = ['bin']\n{of_programs}\n"
            )
        };
        let text = format!(
            "admin = 'unix:admin'\nworkers = 1\n[limits]\nstop-time = '1s'\n[[listen]]\naddress = 'unix:socket'\n\
             [services.routed]\n{}[services.own]\ndirect = 'unix:own'\n{}[[route]]\nservice = 'routed'\n{more}",
            program("stubborn"),
            program("plain"),
        );
        fs::write(self.path("host.toml"), text).unwrap();
    }

    fn start(&self) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_palisade-host"))
            .arg("--no-watch")
            .arg(self.path("host.toml"))
            .env("PALISADE_LIBEXEC", self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = lines.find(|line| line.as_ref().unwrap().starts_with("palisade: serving"));
        assert!(ready.is_some(), "it does not serve");
        std::thread::spawn(move || lines.for_each(drop));
        Server { process }
    }

    /// What is answered at one of its sockets.
    fn ask(&self, socket: &str, request: &str) -> String {
        let mut stream = UnixStream::connect(self.path(socket)).unwrap();
        write!(
            stream,
            "{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        if socket == "own" {
            // It does not know of `connection: close`.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn env_of(&self, socket: &str) {
        let answer = self.ask(socket, "GET /env");
        assert!(answer.ends_with("1 own http"), "{socket}: {answer}");
    }

    fn status_of(&self, guest: &str) -> serde_json::Value {
        let answer = self.ask("admin", "GET /status");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        let guests = status["guests"].as_array().unwrap();
        let found = guests.iter().find(|known| known["name"] == guest);
        found.unwrap().clone()
    }

    /// Processes of its programs.
    fn processes(&self) -> BTreeSet<u32> {
        let program = self.path("bin/served");
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            line.starts_with(program.to_str()?.as_bytes())
                .then_some(pid)
        });
        pids.collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_configuration_that_cannot_be_loaded_starts_nothing() {
    let fixture = Fixture::new();
    fixture.write("", "");
    let _server = fixture.start();
    fixture.env_of("own");
    fixture.env_of("socket");
    let before = fixture.processes();
    assert_eq!(before.len(), 2, "{before:?}");
    let memory = |guest| fixture.status_of(guest)["memory_bytes"].as_u64().unwrap();
    assert!(memory("own") > 0 && memory("routed") > 0);
    fixture.write(
        "back-off = '50ms'",
        "[services.unloadable]\nfiles = 'nowhere'\n[[route]]\npath = '/x'\nservice = 'unloadable'\n",
    );
    assert!(
        fixture
            .ask("admin", "POST /reload")
            .starts_with("HTTP/1.1 422")
    );
    for _ in 0..10 {
        fixture.env_of("own");
        fixture.env_of("socket");
    }
    assert_eq!(fixture.processes(), before);
    assert!(
        memory("own") > 0 && memory("routed") > 0,
        "metrics are intact"
    );
    fixture.write("back-off = '50ms'", "");
    assert!(
        fixture
            .ask("admin", "POST /reload")
            .starts_with("HTTP/1.1 200")
    );
    until("the old programs end", || {
        fixture.processes().is_disjoint(&before)
    });
    fixture.env_of("own");
    fixture.env_of("socket");
    assert_eq!(fixture.processes().len(), 2);
    assert!(memory("own") > 0 && memory("routed") > 0);
}

#[test]
fn a_fault_is_told_and_counts_go_on_through_a_reload() {
    let fixture = Fixture::new();
    fixture.write("", "");
    let _server = fixture.start();
    assert!(
        fixture
            .ask("socket", "POST /crash")
            .starts_with("HTTP/1.1 502")
    );
    until("it is told", || fixture.status_of("routed")["faults"] == 1);
    let message = "ended with signal 6";
    assert_eq!(
        fixture.status_of("routed")["last_fault"]["message"],
        message
    );
    fixture.write("back-off = '50ms'", "");
    assert!(
        fixture
            .ask("admin", "POST /reload")
            .starts_with("HTTP/1.1 200")
    );
    let status = fixture.status_of("routed");
    assert_eq!(
        (&status["faults"], &status["last_fault"]["message"]),
        (&1.into(), &message.into())
    );
}

#[test]
fn a_program_is_heard_where_the_new_file_says() {
    let fixture = Fixture::new();
    fixture.write("", "");
    let _server = fixture.start();
    fixture.env_of("socket");
    fixture.write("log = 'programs.log'", "");
    assert!(
        fixture
            .ask("admin", "POST /reload")
            .starts_with("HTTP/1.1 200")
    );
    fixture.ask("socket", "POST /crash");
    until("its end is in the log", || {
        let lines = fs::read_to_string(fixture.path("programs.log"));
        lines.is_ok_and(|lines| lines.contains("signal 6"))
    });
}

/// Control groups that these processes are in, where they are a domain's own.
fn groups(pids: &BTreeSet<u32>) -> BTreeSet<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let of = |pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let lines: Vec<_> = pids.iter().map(of).collect();
    let lines = lines.iter().flat_map(|text| text.lines());
    let lines = lines.filter(|line| !own.lines().any(|known| known == *line));
    let folders = lines.filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let root = Path::new("/sys/fs/cgroup");
        let root = if controllers.is_empty() {
            root.into()
        } else {
            root.join(controllers)
        };
        Some(root.join(path.trim_start_matches('/')))
    });
    folders.filter(|folder| folder.exists()).collect()
}

/// The server's children: keepers.
fn children(pid: u32) -> BTreeSet<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists =
        tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    let lists: Vec<_> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.map(|pid| pid.parse().unwrap()).collect()
}

/// Whoever of them has not ended.
fn living(pids: &BTreeSet<u32>) -> Vec<u32> {
    let has_ended = |pid: &&u32| match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // Nobody may be there to take the last word of one whose parent was killed.
        Ok(stat) => stat
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(_) => true,
    };
    pids.iter().filter(|pid| !has_ended(pid)).copied().collect()
}

fn nothing_is_left_after(signal: Signal) {
    let fixture = Fixture::new();
    fixture.write("policy.limits.processes = 100", "");
    let mut server = fixture.start();
    fixture.env_of("own");
    fixture.env_of("socket");
    let programs = fixture.processes();
    assert_eq!(programs.len(), 2);
    let keepers = children(server.process.id());
    let groups = groups(&programs);
    assert!(!keepers.is_empty());
    kill_process(Pid::from_child(&server.process), signal).unwrap();
    let begin = Instant::now();
    server.process.wait().unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "the stop has a bound"
    );
    until("all processes end", || {
        living(&programs).is_empty() && living(&keepers).is_empty()
    });
    until("control groups go", || {
        !groups.iter().any(|group| group.exists())
    });
    if signal == Signal::TERM {
        assert!(!fixture.path("own").exists() && !fixture.path("socket").exists());
    }
    // What a killed server leaves of its sockets is in nobody's way.
    let _server = fixture.start();
    fixture.env_of("own");
    fixture.env_of("socket");
}

/// One of its programs ignores SIGTERM.
#[test]
fn nothing_is_left_after_a_stop() {
    nothing_is_left_after(Signal::TERM);
}

#[test]
fn nothing_is_left_after_a_kill() {
    nothing_is_left_after(Signal::KILL);
}

/// Children of a process.
fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let of =
        |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let all: Vec<_> = tasks.map(of).collect();
    let pids = all.iter().flat_map(|line| line.split_whitespace());
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

/// A server with a program that is frozen by now, and what its domain's group of version 2 is.
fn frozen(more: &str) -> (Fixture, Server, PathBuf) {
    let fixture = Fixture::new();
    let text = format!(
        "admin = 'unix:admin'\nworkers = 1\n[[listen]]\naddress = 'unix:socket'\n\
         [services.routed]\nprogram = ['./bin/served', 'stubborn']\npolicy.grants.read = ['bin']\n{more}\
         idle-time = '20ms'\nrest = 'freeze'\n[[route]]\nservice = 'routed'\n"
    );
    fs::write(fixture.path("host.toml"), text).unwrap();
    let server = fixture.start();
    fixture.env_of("socket");
    until("it stands still", || {
        fixture.status_of("routed")["state"] == "frozen"
    });
    let guest = *fixture.processes().first().unwrap();
    let group = super::frozen::group_of(guest).unwrap();
    assert!(group.ends_with("guest"), "{}", group.display());
    (fixture, server, group)
}

/// Nobody is left who could let it go on.
#[test]
fn what_is_frozen_ends_with_a_server_and_a_keeper_that_are_killed() {
    if !super::frozen::can_freeze() {
        return;
    }
    let (fixture, server, _) = frozen("");
    let keepers = children_of(server.process.id());
    assert!(!keepers.is_empty());
    for pid in [server.process.id()].into_iter().chain(keepers) {
        let pid = Pid::from_raw(pid as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    until("all of it ends", || fixture.processes().is_empty());
}

/// Nor does what of ours is charged to the domain keep the keeper waiting, which removes the group.
#[test]
fn nothing_of_what_is_frozen_outlives_a_server_that_is_killed() {
    if !super::frozen::can_freeze() {
        return;
    }
    for more in [
        "",
        "policy.grants.connect = ['tcp://127.0.0.1:9']\npolicy.limits.cpu-time = '1h'\n",
        "policy.grants.connect = ['tcp://127.0.0.1:9']\npolicy.limits.memory = '64M'\n\
         policy.allow-degraded = ['memory']\n",
    ] {
        let (fixture, server, group) = frozen(more);
        let keepers = children_of(server.process.id());
        let pid = Pid::from_raw(server.process.id() as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        until("all of it ends", || fixture.processes().is_empty());
        until("the keepers end", || {
            !keepers.iter().any(|pid| is_alive(*pid))
        });
        assert!(!group.parent().unwrap().exists(), "{}", group.display());
    }
}

/// Zombies are whoever's who does not wait.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}
