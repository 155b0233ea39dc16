//! Running domains from outside: `palisade ps`, `top`, `kill`, `exec`. And who can't: guests, and other users.

use super::{
    cleanup::eventually,
    fixture::{
        Fixture, Outcome, cases, children_of, ends_soon, finish, init_of, pidfd_of, read_line,
        signal, wait,
    },
    person::{PROMPT, Person},
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command},
};

cases![
    a_running_domain_is_listed_until_it_ends,
    a_wasm_guest_is_listed_and_not_entered,
    what_a_guest_is_called_does_not_reach_the_terminal,
    a_kill_ends_all_of_a_domain_and_is_reported,
    who_is_not_there_cannot_be_ended,
    nothing_has_a_name_that_could_be_found,
    a_guest_sees_no_domain_and_enters_none,
    a_guest_that_imitates_a_domain_is_not_listed,
    without_namespaces_a_guest_that_imitates_a_domain_is_not_listed,
    without_namespaces_a_domain_is_listed_and_ended,
    without_namespaces_a_guest_cannot_use_the_door,
    another_user_sees_nothing_and_cannot_ask,
    a_crash_of_the_supervisor_leaves_nothing_to_list,
    a_crash_of_the_keeper_leaves_nothing_to_list,
    top_shows_who_uses_most_first,
    top_on_a_terminal_goes_on_until_ctrl_c,
    a_further_process_is_where_the_guest_is,
    a_further_process_is_held_as_the_guest_is,
    a_further_process_is_limited_with_the_guest,
    who_attends_to_a_further_process_is_not_looked_into,
    what_a_further_process_is_refused_is_told_of_its_domain,
    a_further_process_has_streams_of_its_own,
    a_further_process_tells_how_it_ended,
    a_further_process_ends_with_its_domain,
    a_further_process_ends_with_who_asked,
    a_further_process_gets_signals,
    a_further_process_has_a_terminal,
    a_further_process_has_none_of_the_hosts_network,
    without_namespaces_a_further_process_is_held_too,
];

/// A guest that says that it runs, and then waits for a line.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    id: u32,
}

const WAIT: &str = "echo up; read line";

impl Running {
    fn start(fixture: &Fixture, flags: &[&str], script: &str) -> Self {
        Self::of(fixture.script(flags, script).spawn())
    }

    fn of(mut child: Child) -> Self {
        let mut out = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(read_line(&mut out), "up\n");
        let id = init_of(child.id());
        Self { child, out, id }
    }

    fn id(&self) -> String {
        self.id.to_string()
    }

    /// Lets the guest end.
    fn end(mut self) -> Outcome {
        let mut input = self.child.stdin.take().unwrap();
        // One that was ended does not read.
        let _ = input.write_all(b"\n");
        drop(input);
        finish(self.child, b"")
    }

    fn exec(&self, fixture: &Fixture, words: &[&str]) -> super::fixture::Call {
        let id = self.id();
        fixture.palisade(
            ["exec", &id, "--"]
                .iter()
                .copied()
                .chain(words.iter().copied()),
        )
    }

    /// What a shell script prints there.
    #[track_caller]
    fn says(&self, fixture: &Fixture, script: &str) -> String {
        let outcome = self.exec(fixture, &["sh", "-c", script]).run();
        outcome.is_silent(0);
        outcome.text()
    }
}

fn list(fixture: &Fixture) -> Vec<Value> {
    let outcome = fixture.palisade(["ps", "--json"]).run();
    outcome.is_silent(0);
    serde_json::from_slice(&outcome.stdout).unwrap()
}

fn row(fixture: &Fixture, id: u32) -> Option<Value> {
    list(fixture).into_iter().find(|row| row["id"] == id)
}

fn a_running_domain_is_listed_until_it_ends(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], "sleep 1000 & echo up; read line; kill $!");
    let row_of = || row(fixture, guest.id);
    let found = row_of().unwrap();
    assert_eq!(found["wall"], "process");
    assert_eq!(found["name"], Value::Null);
    assert_eq!(found["supervisor"], guest.child.id());
    assert_eq!(found["processes"], 2, "{found}");
    assert_eq!(found["command"][0], "/bin/sh");
    assert!(found["memory_bytes"].as_u64() > Some(0), "{found}");
    assert!(found["age_ms"].as_u64() < Some(600_000), "{found}");
    let table = fixture.palisade(["ps"]).run();
    table.is_silent(0);
    let text = table.text();
    assert!(text.starts_with("ID "), "{text}");
    let line = text
        .lines()
        .find(|line| line.starts_with(&guest.id()))
        .unwrap();
    assert!(
        line.contains("  process  ") && line.contains("/bin/sh -c sleep 1000"),
        "{line}"
    );
    let id = guest.id;
    guest.end().is(0);
    assert!(row(fixture, id).is_none());
}

fn a_wasm_guest_is_listed_and_not_entered(fixture: &Fixture) {
    let module = wat::parse_str(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 100) "up\n")
            (func (export "_start")
                (i32.store (i32.const 0) (i32.const 100))
                (i32.store (i32.const 4) (i32.const 3))
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))
                (i32.store (i32.const 4) (i32.const 1))
                (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16)))))"#,
    );
    fs::write(fixture.path("guest.wasm"), module.unwrap()).unwrap();
    fixture.make_folder("cache");
    let run = ["run", "--read", ".", "--", "guest.wasm", "word"];
    let mut call = fixture
        .palisade(run)
        .env("XDG_CACHE_HOME", &fixture.text("cache"));
    let guest = Running::of(call.spawn());
    let found = row(fixture, guest.id).unwrap();
    assert_eq!(found["wall"], "wasm");
    assert_eq!(found["command"], serde_json::json!(["guest.wasm", "word"]));
    guest
        .exec(fixture, &["sh"])
        .run()
        .refuses(&["guest: ", "WebAssembly"]);
    fixture.palisade(["kill", &guest.id()]).run().is_silent(0);
    guest.end().says(137, &["palisade kill"]);
}

fn what_a_guest_is_called_does_not_reach_the_terminal(fixture: &Fixture) {
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\nid 1 \u{202e}";
    let words = ["run", "--", "/bin/sh", "-c", WAIT, "sh", hostile];
    let guest = Running::of(fixture.palisade(words).spawn());
    for words in [&["ps"][..], &["ps", "--json"], &["top", "--once"]] {
        let outcome = fixture.palisade(words).run();
        outcome.is_silent(0);
        let text = outcome.text();
        let acts = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        assert!(!text.contains(acts), "{text:?}");
    }
    let found = row(fixture, guest.id).unwrap();
    assert_eq!(found["command"][4], hostile);
    let lines = fixture.palisade(["ps"]).run().text();
    let forged = lines.lines().any(|line| line.starts_with("id 1"));
    assert!(!forged, "{lines}");
    guest.end().is(0);
}

fn a_kill_ends_all_of_a_domain_and_is_reported(fixture: &Fixture) {
    let script = "trap '' TERM INT HUP; setsid sleep 1000 & echo up; while :; do sleep 1000; done";
    let guest = Running::start(fixture, &["--report", "report.json"], script);
    let inside: Vec<_> = children_of(guest.id).into_iter().map(pidfd_of).collect();
    fixture.palisade(["kill", &guest.id()]).run().is_silent(0);
    assert!(inside.iter().all(ends_soon));
    assert!(row(fixture, guest.id).is_none());
    finish(guest.child, b"").says(137, &["ended by `palisade kill`"]);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    assert_eq!(report["ending"], "operator");
    let why = fixture.palisade(["why", "report.json"]).run();
    assert!(why.text().contains("palisade kill"), "{why:?}");
}

fn who_is_not_there_cannot_be_ended(fixture: &Fixture) {
    // A process that is no domain is nobody's to end here.
    let own = std::process::id().to_string();
    for meant in ["1", "4194304", "no-name", &own, "-1", ""] {
        fixture
            .palisade(["kill", "--", meant])
            .run()
            .says(125, &["host: no domain of yours", "palisade ps"]);
    }
    fixture
        .palisade(["exec", "4194304", "--", "true"])
        .run()
        .refuses(&["host: no domain of yours"]);
}

/// Sockets and files of a running domain's that anybody could open by a name.
fn nothing_has_a_name_that_could_be_found(fixture: &Fixture) {
    let runtime = fixture.path("runtime");
    fixture.make_folder("runtime");
    let guest = {
        let mut call = fixture
            .script(&[], WAIT)
            .env("XDG_RUNTIME_DIR", runtime.to_str().unwrap());
        Running::of(call.spawn())
    };
    assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0);
    let held = [guest.child.id()]
        .into_iter()
        .chain(children_of(guest.child.id()));
    for pid in held.chain([guest.id]) {
        for (socket, name) in sockets_of(pid) {
            assert_eq!(name, "", "socket {socket} of process {pid}");
        }
    }
    guest.end().is(0);
}

/// Inodes of a process's local sockets and the name that each is bound to.
fn sockets_of(pid: u32) -> Vec<(String, String)> {
    let table = fs::read_to_string("/proc/net/unix").unwrap();
    let links = fs::read_dir(format!("/proc/{pid}/fd"));
    // Init's are for root alone to see.
    let links = links
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok());
    let inodes: BTreeSet<_> = links
        .filter_map(|link| {
            Some(
                link.to_str()?
                    .strip_prefix("socket:[")?
                    .strip_suffix(']')?
                    .to_owned(),
            )
        })
        .collect();
    let rows = table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = rows.filter(|fields| fields.len() >= 7 && inodes.contains(fields[6]));
    rows.map(|fields| {
        (
            fields[6].to_owned(),
            fields.get(7).copied().unwrap_or("").to_owned(),
        )
    })
    .collect()
}

fn a_guest_sees_no_domain_and_enters_none(fixture: &Fixture) {
    let victim = Running::start(fixture, &[], WAIT);
    let program = fixture.program().to_str().unwrap();
    let installed = fixture.program().parent().unwrap().to_str().unwrap();
    let script = format!(
        "{program} ps --json; {program} kill {id}; echo kill $?; {program} exec {id} -- true; echo exec $?; \
         kill -9 {id} 2>/dev/null; echo signal $?",
        id = victim.id,
    );
    for flags in [
        &["--read", installed][..],
        &["--read", installed, "--read", "/run", "--write", "."],
    ] {
        let outcome = fixture.script(flags, &script).run();
        let text = outcome.text();
        assert!(text.starts_with("[]\n"), "{flags:?} {outcome:?}");
        for refused in ["kill 125\n", "exec 125\n", "signal 1\n"] {
            assert!(text.contains(refused), "{flags:?} {outcome:?}");
        }
    }
    assert!(row(fixture, victim.id).is_some());
    // The control: outside, the same words do all of it.
    victim.exec(fixture, &["true"]).run().is_silent(0);
    fixture.palisade(["kill", &victim.id()]).run().is_silent(0);
    victim.end().is(137);
}

/// A process that calls itself a keeper, with a child that calls itself an init.
const IMITATION: &str = "echo 'echo up; read line' > 1; \
     exec perl -e '$0 = qq(palisade-keeper); if (fork) { wait } else { exec { q(/bin/sh) } q(palisade-init), q(1), q(process), q(), q(forged) }'";

fn is_listed_as_forged(fixture: &Fixture) -> bool {
    list(fixture)
        .iter()
        .any(|row| row["command"] == serde_json::json!(["forged"]))
}

fn a_guest_that_imitates_a_domain_is_not_listed(fixture: &Fixture) {
    let guest = Running::start(fixture, &["--write", "."], IMITATION);
    let found = row(fixture, guest.id).unwrap();
    assert_eq!(found["processes"], 2, "both are there: {found}");
    assert!(!is_listed_as_forged(fixture));
    guest.end().is(0);
}

const ACCEPTED: [&str; 2] = ["--allow-degraded", "namespaces"];

/// A host that has no user namespace to give, in one around the test.
fn start_without_namespaces(fixture: &Fixture, flags: &[&str], script: &str) -> Running {
    const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let program = fixture.program().to_str().unwrap();
    let words = ["-Ur", "/bin/sh", "-c", WITHOUT, "sh", program, "run"];
    let guest = ["--", "/bin/sh", "-c", script];
    let words = words
        .iter()
        .chain(&ACCEPTED)
        .chain(flags)
        .chain(&guest)
        .copied();
    let mut child = fixture.call(Path::new("/usr/bin/unshare"), words).spawn();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut out), "up\n");
    let keepers = children_of(child.id());
    let id = keepers.into_iter().flat_map(children_of).next().unwrap();
    Running { child, out, id }
}

/// In the user namespace of a palisade that was started so: there its user is root, and traces what it may.
fn beside(fixture: &Fixture, running: &Running, words: &[&str]) -> Outcome {
    let pid = running.child.id().to_string();
    let program = fixture.program().to_str().unwrap();
    let enter = ["-U", "--preserve-credentials", "-t", &pid, program];
    let words = enter.iter().copied().chain(words.iter().copied());
    fixture.call(Path::new("/usr/bin/nsenter"), words).run()
}

fn without_namespaces_a_guest_that_imitates_a_domain_is_not_listed(fixture: &Fixture) {
    let guest = start_without_namespaces(fixture, &["--write", "."], IMITATION);
    let outcome = beside(fixture, &guest, &["ps", "--json"]);
    outcome.is_silent(0);
    let rows: Vec<Value> = serde_json::from_slice(&outcome.stdout).unwrap();
    assert!(rows.iter().any(|row| row["id"] == guest.id), "{rows:?}");
    assert!(
        !rows
            .iter()
            .any(|row| row["command"] == serde_json::json!(["forged"])),
        "{rows:?}"
    );
    guest.end().is(0);
}

fn without_namespaces_a_domain_is_listed_and_ended(fixture: &Fixture) {
    let guest = start_without_namespaces(fixture, &[], "setsid sleep 1000 & echo up; read line");
    let inside: Vec<_> = children_of(guest.id).into_iter().map(pidfd_of).collect();
    assert!(!inside.is_empty());
    beside(fixture, &guest, &["kill", &guest.id()]).is_silent(0);
    assert!(inside.iter().all(ends_soon));
    guest.end().is(137);
}

/// Takes the door of another domain's keeper, as `palisade exec` does.
const TAKE_DOOR: &str = "\
import ctypes, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
keeper = call(434, int(sys.argv[1]), 0)
if keeper < 0: print('pidfd_open', os.strerror(ctypes.get_errno())); sys.exit()
door = call(438, keeper, 5, 0)
print('door' if door >= 0 else os.strerror(ctypes.get_errno()))
";

fn without_namespaces_a_guest_cannot_use_the_door(fixture: &Fixture) {
    let victim = start_without_namespaces(fixture, &[], WAIT);
    fixture.write("take.py", TAKE_DOOR);
    let keeper = children_of(victim.child.id())[0].to_string();
    let script = format!(
        "/usr/bin/python3 take.py {keeper}; kill -9 {} || echo held; echo up; read line",
        victim.id
    );
    let mut child = {
        let program = fixture.program().to_str().unwrap();
        let pid = victim.child.id().to_string();
        let words = [
            "-U",
            "--preserve-credentials",
            "-t",
            &pid,
            program,
            "run",
            "--allow-degraded",
            "namespaces",
            "--read",
            ".",
            "--",
            "/bin/sh",
            "-c",
            &script,
        ];
        fixture.call(Path::new("/usr/bin/nsenter"), words).spawn()
    };
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let answer = read_line(&mut out);
    assert!(!answer.starts_with("door"), "{answer}");
    assert_eq!(read_line(&mut out), "held\n");
    drop(child.stdin.take());
    finish(child, b"");
    // The control: who is not a guest takes it.
    let pid = victim.child.id().to_string();
    let take = fixture.text("take.py");
    let words = [
        "-U",
        "--preserve-credentials",
        "-t",
        &pid,
        "/usr/bin/python3",
        &take,
        &keeper,
    ];
    let outcome = fixture.call(Path::new("/usr/bin/nsenter"), words).run();
    assert_eq!(outcome.text(), "door\n", "{outcome:?}");
    victim.end().is(0);
}

fn another_user_sees_nothing_and_cannot_ask(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    fixture.write("take.py", TAKE_DOOR);
    let keeper = children_of(guest.child.id())[0].to_string();
    let take = |command: &mut Command| {
        let outcome = command
            .args([&fixture.text("take.py"), &keeper])
            .output()
            .unwrap();
        String::from_utf8(outcome.stdout).unwrap()
    };
    let python = || Command::new("/usr/bin/python3");
    if rustix::process::geteuid().is_root() {
        let stranger = |program: &Path| {
            let mut command = Command::new("/usr/bin/setpriv");
            command
                .args(["--reuid", "61238", "--regid", "61238", "--clear-groups"])
                .arg(program);
            command
        };
        let listed = stranger(fixture.program())
            .args(["ps", "--json"])
            .output()
            .unwrap();
        assert_eq!(listed.stdout, b"[]\n");
        let ended = stranger(fixture.program())
            .args(["kill", &guest.id()])
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(125));
        assert_eq!(
            take(&mut stranger(Path::new("/usr/bin/python3"))),
            "Operation not permitted\n"
        );
    }
    // The control: its own user takes it.
    let mut own = python();
    fixture.user.become_in(&mut own);
    assert_eq!(take(&mut own), "door\n");
    assert!(row(fixture, guest.id).is_some());
    guest.end().is(0);
}

fn a_crash_of_the_supervisor_leaves_nothing_to_list(fixture: &Fixture) {
    let mut guest = Running::start(fixture, &[], WAIT);
    let init = pidfd_of(guest.id);
    signal(&guest.child, Signal::KILL);
    wait(&mut guest.child);
    assert!(ends_soon(&init));
    assert!(row(fixture, guest.id).is_none());
}

fn a_crash_of_the_keeper_leaves_nothing_to_list(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let (init, keeper) = (pidfd_of(guest.id), children_of(guest.child.id())[0]);
    rustix::process::pidfd_send_signal(pidfd_of(keeper), Signal::KILL).unwrap();
    assert!(ends_soon(&init));
    assert!(row(fixture, guest.id).is_none());
    let _ = guest.end();
}

fn top_shows_who_uses_most_first(fixture: &Fixture) {
    let idle = Running::start(fixture, &[], WAIT);
    let busy = Running::start(
        fixture,
        &[],
        "sh -c 'while :; do :; done' & echo up; read line; kill $!",
    );
    let used = |id| row(fixture, id).unwrap()["cpu_us"].as_u64().unwrap();
    eventually("one is busy", || {
        (used(busy.id) < 200_000).then(|| "it is not".into())
    });
    let outcome = fixture.palisade(["top", "--once"]).run();
    outcome.is_silent(0);
    let text = outcome.text();
    let line_of = |id: u32| {
        text.lines()
            .position(|line| line.starts_with(&format!("{id} ")))
    };
    assert!(
        line_of(busy.id).unwrap() < line_of(idle.id).unwrap(),
        "{text}"
    );
    assert!(text.lines().next().unwrap().contains("domains, "), "{text}");
    fixture.palisade(["top", "--every", "0"]).run().is(125);
    // Without a terminal there are no sequences for one, and a signal ends it.
    let mut child = fixture.palisade(["top", "--every", "0.1"]).spawn();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut heads = 0;
    while heads < 3 {
        let line = read_line(&mut out);
        assert!(!line.contains('\u{1b}') && !line.is_empty(), "{line:?}");
        heads += u32::from(line.starts_with("ID "));
    }
    signal(&child, Signal::INT);
    finish(child, b"").is(130);
    busy.end().is(0);
    idle.end().is(0);
}

fn top_on_a_terminal_goes_on_until_ctrl_c(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let mut person = Person::sit_down(fixture);
    person.types("$P top --every 0.1\n");
    for _ in 0..3 {
        person
            .sees("\u{1b}[H\u{1b}[J")
            .sees(" domains, ")
            .sees("\nID ");
    }
    person.types("\x03").sees(PROMPT);
    person.types("echo code $?\n").sees("code 130\r\n");
    guest.end().is(0);
}

fn a_further_process_is_where_the_guest_is(fixture: &Fixture) {
    fixture.write("granted/file", "here");
    fixture.write("secret", "not here");
    let script = "echo mine > /tmp/own; for one in cgroup ipc mnt net pid user uts; do readlink /proc/self/ns/$one; done > /tmp/namespaces; \
                  env > /tmp/environment; id > /tmp/id; pwd > /tmp/folder; echo up; read line";
    let flags = ["--read", "granted", "--env", "GREETING=hello world"];
    let guest = Running::start(fixture, &flags, script);
    for (command, file) in [
        (
            "for one in cgroup ipc mnt net pid user uts; do readlink /proc/self/ns/$one; done",
            "namespaces",
        ),
        ("id", "id"),
        ("pwd", "folder"),
        ("env | grep -v -e ^_= -e ^OLDPWD= | sort", "environment"),
    ] {
        let read = match file {
            "environment" => "grep -v -e ^_= -e ^OLDPWD= /tmp/environment | sort".to_owned(),
            file => format!("cat /tmp/{file}"),
        };
        assert_eq!(
            guest.says(fixture, command),
            guest.says(fixture, &read),
            "{command}"
        );
    }
    assert_eq!(
        guest.says(fixture, "cat /tmp/own; cat granted/file; echo $GREETING"),
        "mine\nherehello world\n"
    );
    let denied = guest.exec(fixture, &["cat", &fixture.text("secret")]).run();
    assert!(
        denied.code() == 1 && denied.stderr.contains("No such file"),
        "{denied:?}"
    );
    guest.end().is(0);
}

/// Of the guest's own process, and of one that came later.
fn a_further_process_is_held_as_the_guest_is(fixture: &Fixture) {
    const HELD: &str = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; ulimit -a; umask; cat /proc/self/cgroup; \
                        grep -c . /proc/keys 2>/dev/null; cat /proc/self/limits";
    let script = format!("({HELD}) > /tmp/held; echo up; read line");
    let flags = ["--processes", "50", "--files", "77"];
    let guest = Running::start(fixture, &flags, &script);
    let own = guest.says(fixture, HELD);
    assert_eq!(own, guest.says(fixture, "cat /tmp/held"));
    assert!(
        own.contains("NoNewPrivs:\t1") && own.contains("Seccomp:\t2"),
        "{own}"
    );
    // What the filter, mounts and Landlock keep the guest from.
    for (script, error) in [
        ("unshare -U true", "Operation not permitted"),
        ("cp /bin/true /tmp/true; /tmp/true", "Permission denied"),
        ("mount -t tmpfs none /tmp", "superuser"),
        ("echo x > /etc/passwd", "Read-only file system"),
    ] {
        let denied = guest.exec(fixture, &["sh", "-c", script]).run();
        assert!(
            denied.code() != 0 && denied.stderr.to_lowercase().contains(&error.to_lowercase()),
            "{denied:?}"
        );
    }
    // Nobody's descriptors come with it.
    assert_eq!(guest.says(fixture, "ls /proc/self/fd"), "0\n1\n2\n3\n");
    guest.end().is(0);
}

fn a_further_process_is_limited_with_the_guest(fixture: &Fixture) {
    // An ordinary user may have no group to count in.
    let flags = ["--cpu-time", "1s", "--allow-degraded", "cpu-time"];
    let guest = Running::start(fixture, &flags, WAIT);
    let outcome = guest
        .exec(fixture, &["sh", "-c", "while :; do :; done"])
        .run();
    outcome.is(137);
    guest.end().says(152, &["--cpu-time"]);
}

/// Of many at one time, also of more than init has room for.
fn what_a_further_process_is_refused_is_told_of_its_domain(fixture: &Fixture) {
    let script =
        "cp /bin/true /tmp/one; cp /bin/true /tmp/two; echo up; read line; /tmp/one; exit 3";
    let guest = Running::start(fixture, &["--report", "report.json"], script);
    let children: Vec<_> = (0..20)
        .map(|_| {
            let script = "echo up; read line; /tmp/two; /tmp/one; exec 3<>/dev/tcp/10.1.2.3/9";
            let mut child = guest.exec(fixture, &["bash", "-c", script]).spawn();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            assert_eq!(read_line(&mut out), "up\n");
            child
        })
        .collect();
    for child in children {
        let outcome = finish(child, b"\n");
        // Seen or not, it goes on to what refuses it.
        assert_eq!(
            outcome.stderr.matches("Permission denied").count(),
            4,
            "{outcome:?}"
        );
    }
    guest.end().is(3);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let denials = report["denials"].as_array().unwrap();
    let count = |what: &str| {
        let denial = denials.iter().find(|denial| denial["what"] == what);
        denial.unwrap_or_else(|| panic!("{what}: {report}"))["count"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(count("the execution of /tmp/one"), 16 + 1);
    assert_eq!(count("the execution of /tmp/two"), 16);
    assert_eq!(count("a connection to tcp://10.1.2.3:9"), 16);
}

/// It has what the further process is started with, and init's rights in the domain.
fn who_attends_to_a_further_process_is_not_looked_into(fixture: &Fixture) {
    let script = "echo up; for word in attendant own; do read pid; \
                  for file in maps environ auxv; do cat /proc/$pid/$file > /dev/null 2>&1 && echo read $word $file; done; done; \
                  echo done; read line";
    let mut guest = Running::start(fixture, &[], script);
    let mut child = guest
        .exec(fixture, &["sh", "-c", "echo $PPID; read line"])
        .spawn();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let attendant = read_line(&mut out);
    // The control: processes of the guest's own, of which the first is 2.
    let pids = format!("{attendant}2\n");
    let input = guest.child.stdin.as_mut().unwrap();
    input.write_all(pids.as_bytes()).unwrap();
    for line in [
        "read own maps\n",
        "read own environ\n",
        "read own auxv\n",
        "done\n",
    ] {
        assert_eq!(read_line(&mut guest.out), line);
    }
    finish(child, b"\n").is(0);
    guest.end().is(0);
}

fn a_further_process_has_streams_of_its_own(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let big = vec![b'x'; 1 << 20];
    let outcome = guest
        .exec(fixture, &["sh", "-c", "tee /dev/stderr | wc -c"])
        .input(big.clone())
        .run();
    outcome.is(0);
    assert_eq!(
        (outcome.text().trim(), outcome.stderr.len()),
        ("1048576", big.len())
    );
    // Whoever reads no more is told of, as in a pipeline.
    let mut child = guest.exec(fixture, &["yes"]).spawn();
    drop(child.stdout.take());
    finish(child, b"").is(141);
    // The pipes are its own: those of `palisade exec` are nobody else's.
    let kinds = guest.says(
        fixture,
        "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2",
    );
    assert!(
        kinds.lines().all(|kind| kind.starts_with("pipe:")),
        "{kinds}"
    );
    guest.end().is(0);
}

fn a_further_process_tells_how_it_ended(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    guest
        .exec(fixture, &["sh", "-c", "exit 7"])
        .run()
        .is_silent(7);
    guest
        .exec(fixture, &["sh", "-c", "kill -TERM $$"])
        .run()
        .is_silent(143);
    guest
        .exec(fixture, &["no-such-program"])
        .run()
        .says(127, &["no-such-program", "not found"]);
    guest
        .exec(fixture, &["/etc/group"])
        .run()
        .says(126, &["cannot be executed"]);
    guest
        .exec(fixture, &["sh", "-c", "kill -STOP $$; echo went on"])
        .run()
        .prints("went on\n");
    let long = "a".repeat(100_000);
    let outcome = guest
        .exec(fixture, &["sh", "-c", "echo ${#1}", "sh", &long])
        .run();
    outcome.prints("100000\n");
    // Many at once.
    let children: Vec<_> = (0..20)
        .map(|number| {
            (
                number,
                guest
                    .exec(fixture, &["sh", "-c", &format!("exit {number}")])
                    .spawn(),
            )
        })
        .collect();
    for (number, child) in children {
        finish(child, b"").is_silent(number);
    }
    guest.end().is(0);
}

fn a_further_process_ends_with_its_domain(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let mut child = guest
        .exec(fixture, &["sh", "-c", "echo up; exec sleep 1000"])
        .spawn();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut out), "up\n");
    guest.end().is(0);
    finish(child, b"").is(137);
}

fn a_further_process_ends_with_who_asked(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let mut child = guest
        .exec(fixture, &["sh", "-c", "trap '' HUP; echo up; sleep 1000"])
        .spawn();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut out), "up\n");
    let processes = || {
        row(fixture, guest.id).unwrap()["processes"]
            .as_u64()
            .unwrap()
    };
    assert!(processes() > 2);
    signal(&child, Signal::KILL);
    wait(&mut child);
    eventually("it is gone", || {
        (processes() != 1).then(|| processes().to_string())
    });
    guest.end().is(0);
}

fn a_further_process_gets_signals(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let script = "trap 'echo heard; exit 9' USR1; echo up; while :; do sleep 0.01; done";
    let mut child = guest.exec(fixture, &["sh", "-c", script]).spawn();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut out), "up\n");
    signal(&child, Signal::USR1);
    assert_eq!(read_line(&mut out), "heard\n");
    finish(child, b"").is(9);
    guest.end().is(0);
}

fn a_further_process_has_a_terminal(fixture: &Fixture) {
    let guest = Running::start(fixture, &[], WAIT);
    let mut person = Person::sit_down(fixture);
    let id = guest.id;
    person
        .types(&format!("$P exec {id} -- sh -c 'tty; stty size; test -t 0 && echo is on one; exit 5'; echo code $?\n"))
        .sees("\n30 100\r\n")
        .sees("is on one\r\n")
        .sees("code 5\r\n")
        .sees(PROMPT);
    person.types(&format!("$P exec {id} -- cat\n"));
    person.types("typed\n").sees("typed\r\ntyped\r\n");
    person
        .types("\x03")
        .sees(PROMPT)
        .types("echo code $?\n")
        .sees("code 130\r\n")
        .sees(PROMPT);
    // The terminal is as before, and its keys are the shell's again.
    person
        .types("stty -a | grep -o ' icanon'\n")
        .sees(" icanon\r\n")
        .sees(PROMPT);
    person
        .types(&format!("echo piped | $P exec {id} -- cat | tr a-z A-Z\n"))
        .sees("PIPED\r\n")
        .sees(PROMPT);
    guest.end().is(0);
}

/// What the supervisor decides it decides for the guest's own processes. This one is refused, and nothing waits.
fn a_further_process_has_none_of_the_hosts_network(fixture: &Fixture) {
    let guest = Running::start(fixture, &["--connect", "tcp://127.0.0.1:*"], WAIT);
    let script = "import socket; socket.create_connection((\"127.0.0.1\", 9))";
    let outcome = guest.exec(fixture, &["python3", "-c", script]).run();
    outcome.is(1);
    assert!(outcome.stderr.contains("Permission denied"), "{outcome:?}");
    assert_eq!(
        guest.says(fixture, "sh -c 'echo programs run'"),
        "programs run\n"
    );
    guest.end().is(0);
}

fn without_namespaces_a_further_process_is_held_too(fixture: &Fixture) {
    fixture.write("secret", "x");
    fixture.write("granted/file", "here\n");
    let guest = start_without_namespaces(fixture, &["--read", "granted"], WAIT);
    let exec = |words: &[&str]| {
        let id = guest.id();
        let all: Vec<_> = ["exec", &id, "--"]
            .iter()
            .copied()
            .chain(words.iter().copied())
            .collect();
        beside(fixture, &guest, &all)
    };
    exec(&["cat", "granted/file"]).prints("here\n");
    let denied = exec(&["cat", "secret"]);
    assert!(
        denied.code() == 1 && denied.stderr.contains("Permission denied"),
        "{denied:?}"
    );
    let held = exec(&["grep", "-E", "^(NoNewPrivs|Seccomp):", "/proc/self/status"]);
    // Its own `/proc` is the host's here, of which nothing is granted.
    assert!(
        held.code() != 0 || held.text().contains("Seccomp:\t2"),
        "{held:?}"
    );
    guest.end().is(0);
}
