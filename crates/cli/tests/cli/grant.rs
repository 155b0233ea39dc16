//! `palisade grant` and `palisade revoke`: a running guest is granted more and less again, by whoever may operate it, and by no guest.

use super::{
    fixture::{Call, Fixture, Outcome, cases, init_of, read_line, signal},
    network::{grants::with_servers, in_own_network},
};
use palisade_suite::ports::free_ports;
use rustix::process::Signal;
use serde_json::Value;
use std::{
    io::{BufReader, Write},
    net::TcpListener,
    process::{Child, ChildStdin, ChildStdout},
    thread,
};

cases![
    what_is_granted_is_reached_until_it_is_taken_back,
    a_name_is_granted,
    a_place_to_listen_is_granted,
    a_network_is_granted,
    a_question_is_answered_by_it,
    what_was_answered_is_taken_back,
    what_is_granted_twice_is_taken_back_at_once,
    a_name_of_the_policy_s_is_granted_at_another_port,
    what_was_given_up_is_not_carried_out,
    an_answer_that_was_taken_back_is_not_written_down,
    what_is_open_stays_open,
    what_takes_a_start_is_refused,
    what_is_no_grant_is_refused,
    what_was_not_granted_is_not_taken_back,
    others_are_refused,
    a_domain_that_is_gone_is_told,
    a_guest_grants_itself_nothing,
    the_report_and_the_events_have_it,
    without_namespaces_it_refuses,
];

/// Tries the port that each line of its input names, and says how that went.
const TRIES: &str = "
import errno, socket, sys
kept = []
for line in sys.stdin:
    host, port = line.split()
    try:
        one = socket.create_connection((host, int(port)), 30)
        print(one.recv(9).decode(), flush=True); kept.append(one)
    except socket.gaierror: print('unknown', flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
";

/// A guest that runs.
pub(super) struct Guest {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    id: u32,
}

impl Guest {
    pub(super) fn start(fixture: &Fixture, flags: &[&str], script: &str) -> Self {
        let words = ["run", "--report", "report.json"].iter().chain(flags);
        let words = words
            .copied()
            .chain(["--", "/usr/bin/python3", "-uc", script]);
        Self::begin(&mut fixture.palisade(words), |child| child)
    }

    /// `palisade_of` finds palisade from what was started.
    fn begin(call: &mut Call, palisade_of: impl Fn(u32) -> u32) -> Self {
        let mut child = call.spawn();
        let mut guest = Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            id: 0,
        };
        // It runs when it answers.
        guest.says("127.0.0.1 1\n");
        guest.hears();
        guest.id = init_of(palisade_of(guest.child.id()));
        guest
    }

    pub(super) fn says(&mut self, line: &str) {
        self.stdin
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
    }

    pub(super) fn hears(&mut self) -> String {
        read_line(&mut self.stdout).trim_end().to_owned()
    }

    fn tries(&mut self, host: &str, port: u16) -> String {
        self.says(&format!("{host} {port}\n"));
        self.hears()
    }

    /// The palisade that runs it.
    pub(super) fn palisade(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn ends(mut self) -> Outcome {
        drop(self.stdin.take());
        super::fixture::finish(self.child, &[])
    }
}

/// A server of the host's that greets.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let _ = client.write_all(b"hello");
        }
    });
    port
}

pub(super) fn operate(fixture: &Fixture, verb: &str, guest: &Guest, flags: &[&str]) -> Outcome {
    let id = guest.id.to_string();
    let words = [verb, &id].into_iter().chain(flags.iter().copied());
    fixture.palisade(words).run()
}

/// What is granted so is granted.
fn gives(fixture: &Fixture, guest: &Guest, where_to: &str) {
    operate(fixture, "grant", guest, &["--connect", where_to]).is_silent(0);
}

fn takes(fixture: &Fixture, guest: &Guest, where_to: &str) {
    operate(fixture, "revoke", guest, &["--connect", where_to]).is(0);
}

fn at(port: u16) -> String {
    format!("tcp://127.0.0.1:{port}")
}

fn what_is_granted_is_reached_until_it_is_taken_back(fixture: &Fixture) {
    let (port, other) = (server(), server());
    let mut guest = Guest::start(fixture, &["--grantable"], TRIES);
    assert_eq!(guest.tries("127.0.0.1", port), "EACCES");
    gives(fixture, &guest, &at(port));
    assert_eq!(guest.tries("127.0.0.1", port), "hello");
    assert_eq!(guest.tries("127.0.0.1", other), "EACCES");
    let revoked = operate(fixture, "revoke", &guest, &["--connect", &at(port)]);
    revoked.is(0);
    assert!(
        revoked.stderr.contains("connections that are open stay"),
        "{revoked:?}"
    );
    assert_eq!(guest.tries("127.0.0.1", port), "EACCES");
    guest.ends().is(0);
}

fn a_name_is_granted(fixture: &Fixture) {
    let prepare = with_servers(fixture);
    let words = [
        "run",
        "--report",
        "report.json",
        "--grantable",
        "--",
        "/usr/bin/python3",
        "-uc",
        TRIES,
    ];
    let call = fixture.palisade(words);
    // Its own network is made by programs that execute each other.
    let mut guest = Guest::begin(&mut in_own_network(fixture, &prepare, &call), |child| child);
    assert_eq!(guest.tries("public.test", 8000), "EACCES");
    gives(fixture, &guest, "tcp://public.test:8000");
    assert_eq!(guest.tries("public.test", 8000), "tcp");
    gives(fixture, &guest, "tcp://rebound.test:8000");
    assert_eq!(guest.tries("rebound.test", 8000), "EACCES", "it is private");
    guest.ends().is(0);
}

fn a_place_to_listen_is_granted(fixture: &Fixture) {
    let port = free_ports(1);
    let script = format!(
        "
import errno, socket, sys
for line in sys.stdin:
    try: socket.create_server(('127.0.0.1', {port})); print('listens', flush=True)
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
"
    );
    let mut guest = Guest::start(fixture, &["--grantable"], &script);
    assert_eq!(guest.tries("x", 0), "EACCES");
    operate(fixture, "grant", &guest, &["--listen", &at(port)]).is_silent(0);
    assert_eq!(guest.tries("x", 0), "listens");
    guest.ends().is(0);
}

fn a_network_is_granted(fixture: &Fixture) {
    let port = server();
    let mut guest = Guest::start(fixture, &["--grantable"], TRIES);
    let all = format!("tcp://127.0.0.0/8:{port}");
    gives(fixture, &guest, &all);
    assert_eq!(guest.tries("127.0.0.1", port), "hello");
    guest.ends().is(0);
}

fn a_question_is_answered_by_it(fixture: &Fixture) {
    let port = server();
    fixture.write_program("silent", "#!/bin/sh\nexec cat >/dev/null\n");
    let flags = [
        "--ask-program",
        "./silent",
        "--connect",
        "tcp://127.0.0.1:1",
    ];
    let mut guest = Guest::start(fixture, &flags, TRIES);
    guest.says(&format!("127.0.0.1 {port}\n"));
    gives(fixture, &guest, &at(port));
    assert_eq!(guest.hears(), "hello");
    guest.ends().is(0);
}

fn what_was_answered_is_taken_back(fixture: &Fixture) {
    let port = server();
    fixture.write_program(
        "agrees",
        "#!/bin/sh\nread -r question; echo '{\"question\": 1, \"verdict\": \"run\"}'\nread -r question; \
         echo '{\"question\": 2, \"verdict\": \"no\"}'\nexec cat >/dev/null\n",
    );
    let flags = [
        "--ask-program",
        "./agrees",
        "--connect",
        "tcp://127.0.0.1:1",
    ];
    let mut guest = Guest::start(fixture, &flags, TRIES);
    assert_eq!(guest.tries("127.0.0.1", port), "hello");
    takes(fixture, &guest, &at(port));
    assert_eq!(
        guest.tries("127.0.0.1", port),
        "EACCES",
        "it is asked about again"
    );
    guest.ends().is(0);
}

/// However it is written; a part of it is nothing.
fn what_is_granted_twice_is_taken_back_at_once(fixture: &Fixture) {
    let port = server();
    let mut guest = Guest::start(fixture, &["--grantable"], TRIES);
    let (whole, same) = (at(port), format!("tcp://127.0.0.1:{port}-{port}"));
    for grant in [&whole, &same, &whole] {
        gives(fixture, &guest, grant);
    }
    let part = format!("tcp://localhost:{port}");
    assert_eq!(
        operate(fixture, "revoke", &guest, &["--connect", &part]).code(),
        125
    );
    assert_eq!(guest.tries("127.0.0.1", port), "hello");
    takes(fixture, &guest, &same);
    assert_eq!(guest.tries("127.0.0.1", port), "EACCES");
    guest.ends().is(0);
}

fn a_name_of_the_policy_s_is_granted_at_another_port(fixture: &Fixture) {
    let prepare = with_servers(fixture);
    let flags = ["--grantable", "--connect", "tcp://public.test:8001"];
    let words = ["run", "--report", "report.json"].into_iter().chain(flags);
    let call = fixture.palisade(words.chain(["--", "/usr/bin/python3", "-uc", TRIES]));
    let mut guest = Guest::begin(&mut in_own_network(fixture, &prepare, &call), |child| child);
    assert_eq!(guest.tries("public.test", 8000), "EACCES");
    gives(fixture, &guest, "tcp://public.test:8000");
    assert_eq!(guest.tries("public.test", 8000), "tcp");
    guest.ends().is(0);
}

/// By one who was told that nobody answers.
fn what_was_given_up_is_not_carried_out(fixture: &Fixture) {
    let port = server();
    let mut guest = Guest::start(fixture, &["--grantable"], TRIES);
    signal(&guest.child, Signal::STOP);
    let refused = operate(fixture, "grant", &guest, &["--connect", &at(port)]);
    assert!(refused.stderr.contains("does not answer"), "{refused:?}");
    signal(&guest.child, Signal::CONT);
    // It hears of this one after the other.
    gives(fixture, &guest, "tcp://127.0.0.1:9");
    assert_eq!(guest.tries("127.0.0.1", port), "EACCES");
    guest.ends().is(0);
}

fn an_answer_that_was_taken_back_is_not_written_down(fixture: &Fixture) {
    let port = server();
    fixture.write(
        "policy.toml",
        "[grants]\nconnect = [\"tcp://127.0.0.1:1\"]\n",
    );
    fixture.write_program(
        "agrees",
        "#!/bin/sh\nread -r question; echo '{\"question\": 1, \"verdict\": \"always\"}'\nexec cat >/dev/null\n",
    );
    let flags = ["--policy", "policy.toml", "--ask-program", "./agrees"];
    let mut guest = Guest::start(fixture, &flags, TRIES);
    assert_eq!(guest.tries("127.0.0.1", port), "hello");
    takes(fixture, &guest, &at(port));
    guest.ends().is(0);
    assert!(!fixture.read("policy.toml").contains(&port.to_string()));
}

fn what_is_open_stays_open(fixture: &Fixture) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = "
import socket, sys
one = None
for line in sys.stdin:
    host, port = line.split()
    if one is None and port != '1': one = socket.create_connection((host, int(port)))
    print(one.recv(9) if one else 'none', flush=True)
";
    let mut guest = Guest::start(fixture, &["--grantable"], script);
    gives(fixture, &guest, &at(port));
    guest.says(&format!("127.0.0.1 {port}\n"));
    let (mut client, _) = listener.accept().unwrap();
    client.write_all(b"one").unwrap();
    assert_eq!(guest.hears(), "b'one'");
    takes(fixture, &guest, &at(port));
    guest.says("127.0.0.1 2\n");
    client.write_all(b"two").unwrap();
    assert_eq!(guest.hears(), "b'two'");
    guest.ends().is(0);
}

fn what_takes_a_start_is_refused(fixture: &Fixture) {
    let guest = Guest::start(fixture, &["--grantable"], TRIES);
    for grant in ["internet", "tcp://*.example.com:443", "unix:/run/x"] {
        let refused = operate(fixture, "grant", &guest, &["--connect", grant]);
        assert_eq!(refused.code(), 125, "{refused:?}");
        assert!(refused.stderr.contains("takes a start"), "{refused:?}");
    }
    guest.ends().is(0);
}

fn what_is_no_grant_is_refused(fixture: &Fixture) {
    let guest = Guest::start(fixture, &["--grantable"], TRIES);
    for flags in [&["--connect", "example.com"][..], &["--read", "~/x"], &[]] {
        let flag = flags
            .first()
            .copied()
            .unwrap_or("--connect, --listen, --read, --write is missing");
        operate(fixture, "grant", &guest, flags).refuses(&[flag]);
    }
    guest.ends().is(0);
}

fn what_was_not_granted_is_not_taken_back(fixture: &Fixture) {
    let port = server();
    let mut guest = Guest::start(fixture, &["--grantable", "--connect", &at(port)], TRIES);
    let refused = operate(fixture, "revoke", &guest, &["--connect", &at(port)]);
    assert!(
        refused
            .stderr
            .contains("it was not granted while the guest runs"),
        "{refused:?}"
    );
    assert_eq!(
        guest.tries("127.0.0.1", port),
        "hello",
        "its policy is its own"
    );
    guest.ends().is(0);
}

fn others_are_refused(fixture: &Fixture) {
    let port = server();
    for flags in [&[][..], &["--connect", "tcp://127.0.0.1:9"]] {
        let mut guest = Guest::start(fixture, flags, TRIES);
        let refused = operate(fixture, "grant", &guest, &["--connect", &at(port)]);
        assert!(
            refused
                .stderr
                .contains("not started with --grantable or --ask"),
            "{refused:?}"
        );
        assert_eq!(guest.tries("127.0.0.1", port), "EACCES");
        guest.ends().is(0);
    }
}

fn a_domain_that_is_gone_is_told(fixture: &Fixture) {
    let words = ["grant", "no-such-domain", "--connect", "tcp://127.0.0.1:1"];
    fixture
        .palisade(words)
        .run()
        .refuses(&["no domain of yours", "palisade ps"]);
}

/// It has palisade itself, and finds nobody to ask.
fn a_guest_grants_itself_nothing(fixture: &Fixture) {
    let port = server();
    let program = fixture
        .program()
        .parent()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    let script = format!(
        "
import subprocess, sys
for line in sys.stdin:
    id = line.split()[1]
    asks = lambda what: subprocess.run(['{program}/palisade', 'grant', what, '--connect', '{}'], capture_output=True, text=True)
    print([asks(what).returncode for what in (id, '1', '2')], flush=True)
",
        at(port)
    );
    fixture.make_folder("work");
    for flags in [&["--grantable"][..], &["--grantable", "--write", "work"]] {
        let flags = [flags, &["--read", &program]].concat();
        let mut guest = Guest::start(fixture, &flags, &script);
        guest.says(&format!("x {}\n", guest.id));
        assert_eq!(guest.hears(), "[125, 125, 125]");
        guest.ends().is(0);
        let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
        assert_eq!(report["granted"], Value::Null);
        let _ = std::fs::remove_file(fixture.path("report.json"));
    }
}

fn the_report_and_the_events_have_it(fixture: &Fixture) {
    let port = server();
    let mut guest = Guest::start(fixture, &["--grantable", "--events", "events"], TRIES);
    gives(fixture, &guest, &at(port));
    assert_eq!(guest.tries("127.0.0.1", port), "hello");
    takes(fixture, &guest, &at(port));
    guest.ends().is(0);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let granted = &report["granted"][0];
    assert_eq!(granted["grant"], format!("--connect {}", at(port)));
    assert_eq!(granted["verdict"], Value::Null);
    assert!(granted["at_us"].as_u64() < granted["revoked_at_us"].as_u64());
    let events = fixture.read("events");
    let kinds =
        ["granted", "revoked"].map(|kind| events.matches(&format!("\"event\":\"{kind}\"")).count());
    assert_eq!(kinds, [1, 1], "{events}");
}

fn without_namespaces_it_refuses(fixture: &Fixture) {
    let flags = ["--grantable", "--allow-degraded", "namespaces"];
    super::tiers::run_without_namespaces(fixture, &flags, "true")
        .run()
        .refuses(&["--grantable", "namespaces", "palisade doctor"]);
}
