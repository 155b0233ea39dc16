//! `palisade run --ask`: what no grant covers is asked about while the guest waits, and an answer is what it says and no more.

use super::{
    fixture::{Call, Fixture, Outcome, cases, ends_within, finish, signal},
    network::{grants::with_servers, in_own_network},
    person::{PROMPT, Person},
    published::{is_current, published},
    schema::violations,
};
use palisade_suite::ports::free_ports;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Write},
    net::{TcpListener, UdpSocket},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    process::{Child, ChildStdout},
    thread::{self, JoinHandle},
    time::Duration,
};

cases![
    an_address_is_asked_about_once,
    no_is_remembered,
    once_is_for_one_call,
    never_is_for_all_that_follows,
    a_name_is_asked_about_before_anybody_hears_it,
    what_a_name_leads_to_inside_is_asked_about_again,
    a_granted_name_is_not_asked_about,
    an_unknown_name_is_told,
    a_name_that_never_was_looked_up_is_an_address,
    datagrams_are_asked_about,
    places_to_listen_are_asked_about,
    what_is_granted_is_not_asked_about,
    what_no_grant_can_give_is_not_asked_about,
    a_program_answers,
    an_asker_that_is_not_there_is_told,
    an_asker_in_the_guest_s_reach_is_refused,
    who_hangs_up_says_no,
    who_says_nothing_says_no,
    nonsense_is_no_answer,
    an_endless_answer_is_none,
    others_go_on_while_one_waits,
    a_signal_reaches_one_that_waits,
    a_handler_is_run_while_it_waits,
    an_alarm_ends_the_wait,
    the_end_takes_the_question_back,
    once_is_for_the_call_that_waits,
    once_is_for_the_process_that_was_named,
    once_is_for_one_socket_s_connection,
    localhost_is_this_machine,
    two_without_streams_of_a_terminal_are_asked_in_turn,
    what_waits_at_the_end_is_told,
    datagrams_by_name_are_asked_about,
    a_stand_in_is_no_address_that_a_wide_grant_covers,
    a_flood_of_answers_is_none,
    the_program_that_is_looked_at_is_executed,
    what_is_typed_too_early_is_no_answer,
    what_is_not_shown_is_not_answered,
    two_at_a_terminal_are_asked_in_turn,
    the_next_is_shown_when_one_is_taken_back,
    a_guest_that_ends_meanwhile_holds_nobody_up,
    an_address_that_changes_meanwhile_is_not_reached,
    a_flood_is_one_question_and_a_count,
    a_name_acts_on_no_terminal,
    always_is_written_to_the_policy,
    always_without_a_policy_is_told,
    somebody_at_a_terminal_answers,
    only_a_whole_word_is_an_answer,
    the_guest_types_no_answer,
    what_is_printed_meanwhile_is_shown_later,
    it_takes_a_terminal,
    published_schema_is_current,
    without_namespaces_it_refuses,
    a_module_is_not_asked_about,
];

const READS: &str = "
import errno, socket, sys, threading
def reached(host, port, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(type=kind) as one:
            one.settimeout(60)
            one.connect((host, port))
            if kind == socket.SOCK_DGRAM: one.send(b'?')
            return one.recv(10).decode()
    except socket.gaierror: return 'unknown'
    except OSError as error: return errno.errorcode[error.errno]
";

/// Python whose questions go to the socket of an [`Asker`].
fn python(fixture: &Fixture, flags: &[&str], script: &str) -> Call {
    let script = format!("{READS}{script}");
    let words = ["run", "--report", "report.json", "--ask-socket", "asker"].iter();
    let words = words.chain(flags).copied();
    fixture.palisade(words.chain(["--", "/usr/bin/python3", "-uc", &script]))
}

pub(super) fn report(fixture: &Fixture) -> Value {
    serde_json::from_str(&fixture.read("report.json")).unwrap()
}

/// Listens, and gives each question the next of these words; the last for all that follow.
pub(super) struct Asker(JoinHandle<Vec<Value>>);

/// Says nothing.
pub(super) const SILENCE: &str = "";
const HANGS_UP: &str = "hangs up";

impl Asker {
    pub(super) fn says(fixture: &Fixture, words: &[&'static str]) -> Self {
        let mut words = words.to_vec();
        words.reverse();
        let listener = listen(fixture);
        Self(thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut told = Vec::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let Ok(line) = line else { break };
                let one: Value = serde_json::from_str(&line).unwrap();
                told.push(one.clone());
                if one["type"] != "question" {
                    continue;
                }
                let word = match words.len() {
                    1 => words[0],
                    _ => words.pop().unwrap(),
                };
                let answer = match word {
                    HANGS_UP => break,
                    SILENCE => continue,
                    raw if raw.starts_with('!') => raw[1..].to_owned(),
                    word => {
                        json!({"question": one["question"], "verdict": word}).to_string() + "\n"
                    }
                };
                if stream.write_all(answer.as_bytes()).is_err() {
                    break;
                }
            }
            told
        }))
    }

    /// All that it was told.
    pub(super) fn told(self) -> Vec<Value> {
        self.0.join().unwrap()
    }

    /// What it was asked about.
    pub(super) fn targets(self) -> Vec<String> {
        let told = self.told();
        let questions = told.iter().filter(|one| one["type"] == "question");
        let targets = questions.map(|one| one["target"].as_str().unwrap().to_owned());
        targets.collect()
    }
}

/// Answers when the time has come.
pub(super) struct Patient {
    pub(super) child: Child,
    stdout: BufReader<ChildStdout>,
    stream: UnixStream,
    questions: BufReader<UnixStream>,
}

impl Patient {
    pub(super) fn begin(call: &mut Call, fixture: &Fixture) -> Self {
        let listener = listen(fixture);
        let mut child = call.spawn();
        let (stream, _) = listener.accept().unwrap();
        Self {
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
            questions: BufReader::new(stream.try_clone().unwrap()),
            stream,
        }
    }

    /// The next that it is told.
    pub(super) fn asked(&mut self) -> Value {
        let mut line = String::new();
        self.questions.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    pub(super) fn says(&mut self, line: &str) {
        writeln!(self.stream, "{line}").unwrap();
    }

    /// To the guest.
    pub(super) fn types(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
    }

    /// The next line of the guest's.
    pub(super) fn reads(&mut self) -> String {
        super::fixture::read_line(&mut self.stdout)
    }

    pub(super) fn ends(self) {
        finish(self.child, &[]).is(0);
    }
}

fn listen(fixture: &Fixture) -> UnixListener {
    let place = fixture.path("asker");
    let listener = UnixListener::bind(&place).unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o777)).unwrap();
    listener
}

/// A server of the host's that greets and says how often.
struct Server {
    port: u16,
    listener: TcpListener,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let greeting = listener.try_clone().unwrap();
        thread::spawn(move || {
            while let Ok((mut client, _)) = greeting.accept() {
                let _ = client.write_all(b"hello");
            }
        });
        Self { port, listener }
    }

    fn address(&self) -> String {
        format!("tcp://{}", self.listener.local_addr().unwrap())
    }

    /// For [`python`], which prints what came of each.
    fn is_tried_twice(&self) -> String {
        format!("for _ in 1, 2: print(reached('127.0.0.1', {}))", self.port)
    }
}

pub(super) fn shows(outcome: &Outcome, text: &str) {
    assert_eq!(outcome.text(), text, "{outcome:?}");
}

fn an_address_is_asked_about_once(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["run"]));
    let script = server.is_tried_twice();
    shows(&python(fixture, &[], &script).run(), "hello\nhello\n");
    let told = asker.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["call"], "connect");
    assert_eq!(told[0]["target"], server.address());
    assert_eq!(told[0]["process"]["name"], "python3");
    let report = report(fixture);
    let granted = &report["granted"];
    assert_eq!(
        granted[0]["grant"],
        format!("--connect {}", server.address())
    );
    assert_eq!(granted[0]["verdict"], "run");
    assert!(granted[0]["at_us"].as_u64() > Some(0));
    assert_eq!(report["denials"], json!([]));
}

fn no_is_remembered(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["no"]));
    let script = server.is_tried_twice();
    shows(&python(fixture, &[], &script).run(), "EACCES\nEACCES\n");
    assert_eq!(asker.targets(), [server.address()]);
    let report = report(fixture);
    assert_eq!(report["denials"][0]["count"], 2);
    assert_eq!(
        report["denials"][0]["reason"],
        "whoever was asked did not allow it"
    );
    assert_eq!(report["granted"], Value::Null);
}

fn once_is_for_one_call(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["once", "no"]));
    let script = server.is_tried_twice();
    shows(&python(fixture, &[], &script).run(), "hello\nEACCES\n");
    assert_eq!(asker.targets().len(), 2);
}

fn never_is_for_all_that_follows(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["run", "never"]));
    let script = format!(
        "print(reached('127.0.0.1', {}), [reached('127.0.0.1', port) for port in (1, 2, 3)], reached('127.0.0.1', {}))",
        server.port, server.port
    );
    shows(
        &python(fixture, &[], &script).run(),
        "hello ['EACCES', 'EACCES', 'EACCES'] hello\n",
    );
    assert_eq!(asker.targets().len(), 2);
}

fn a_name_is_asked_about_before_anybody_hears_it(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["no", "run"]);
    let script = "
for name in 'the.secret.is.7.test', 'public.test', 'public.test': print(reached(name, 8000))
print(socket.gethostbyname('the.secret.is.8.test').startswith('198.18.'))
one = socket.create_connection(('public.test', 8000)); print(one.getpeername())
";
    let prepare = with_servers(fixture);
    let call = python(fixture, &[], script);
    let outcome = in_own_network(fixture, &prepare, &call).run();
    shows(&outcome, "EACCES\ntcp\ntcp\nTrue\n('203.0.113.7', 8000)\n");
    assert_eq!(
        asker.targets(),
        ["tcp://the.secret.is.7.test:8000", "tcp://public.test:8000"]
    );
    let asked_for = fixture.read("ready.asked");
    assert!(
        asked_for.lines().all(|name| name == "public.test"),
        "{asked_for}"
    );
}

fn what_a_name_leads_to_inside_is_asked_about_again(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["run", "no", "run", "once"]);
    let script = "
for name in 'private.test', 'rebound.test', 'rebound.test': print(reached(name, 8000))
";
    let prepare = with_servers(fixture);
    let call = python(fixture, &[], script);
    let outcome = in_own_network(fixture, &prepare, &call).run();
    shows(&outcome, "EACCES\ntcp\ntcp\n");
    let told = asker.told();
    let asked: Vec<_> = told
        .iter()
        .map(|one| (one["target"].as_str().unwrap(), one["found_by"].as_str()))
        .collect();
    assert_eq!(
        asked,
        [
            ("tcp://private.test:8000", None),
            ("tcp://10.9.9.9:8000", Some("private.test")),
            ("tcp://rebound.test:8000", None),
            ("tcp://127.0.0.1:8000", Some("rebound.test")),
            ("tcp://127.0.0.1:8000", Some("rebound.test")),
        ]
    );
}

fn a_granted_name_is_not_asked_about(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["no"]);
    let script = "print(reached('public.test', 8000), reached('public.test', 8001))";
    let prepare = with_servers(fixture);
    let call = python(fixture, &["--connect", "tcp://public.test:8000"], script);
    let outcome = in_own_network(fixture, &prepare, &call).run();
    shows(&outcome, "tcp EACCES\n");
    assert_eq!(asker.targets(), ["tcp://public.test:8001"]);
}

fn an_unknown_name_is_told(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["run"]);
    let prepare = with_servers(fixture);
    let call = python(fixture, &[], "print(reached('absent.test', 80))");
    let outcome = in_own_network(fixture, &prepare, &call).run();
    shows(&outcome, "EHOSTUNREACH\n");
    assert_eq!(asker.targets(), ["tcp://absent.test:80"]);
    let report = report(fixture);
    assert_eq!(
        report["denials"][0]["reason"],
        "this machine finds no address of that name"
    );
}

/// Stand-ins are the names' that were asked for, and no others.
fn a_name_that_never_was_looked_up_is_an_address(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["no"]);
    python(fixture, &[], "print(reached('198.18.0.1', 80))").run();
    assert_eq!(asker.targets(), ["tcp://198.18.0.1:80"]);
}

fn datagrams_are_asked_about(fixture: &Fixture) {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let asker = Asker::says(fixture, &["once", "no", "run"]);
    let script = format!(
        "
one = socket.socket(type=socket.SOCK_DGRAM)
def sent(word, port):
    try: return one.sendto(word, ('127.0.0.1', port))
    except OSError as error: return errno.errorcode[error.errno]
print(sent(b'a', {port}), sent(b'bb', {port}), sent(b'ccc', 9), sent(b'dddd', 9))
"
    );
    shows(&python(fixture, &[], &script).run(), "1 EACCES 3 4\n");
    let at = format!("udp://127.0.0.1:{port}");
    assert_eq!(asker.targets(), [&at, &at, "udp://127.0.0.1:9"]);
    let mut word = [0; 10];
    assert_eq!(server.recv(&mut word).unwrap(), 1);
    server.set_nonblocking(true).unwrap();
    assert!(server.recv(&mut word).is_err(), "the second was not sent");
}

fn places_to_listen_are_asked_about(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["once", "run"]);
    let port = free_ports(3);
    let script = format!(
        "
def listens(port, host='127.0.0.1'):
    try:
        with socket.socket() as one:
            one.bind((host, port)); one.listen(); return 'listens'
    except OSError as error: return errno.errorcode[error.errno]
port = {port}
print(listens(port), listens(port), listens(port + 1), listens(port + 1), listens(0))
with socket.create_server(('', port + 2), family=socket.AF_INET6, dualstack_ipv6=True) as one: print(one.getsockname()[0])
"
    );
    shows(
        &python(fixture, &[], &script).run(),
        "EACCES EACCES listens listens listens\n::\n",
    );
    assert_eq!(
        asker.targets(),
        [
            format!("tcp://127.0.0.1:{port}"),
            format!("tcp://127.0.0.1:{}", port + 1),
            "tcp://127.0.0.1:0".into(),
            format!("tcp://*:{}", port + 2),
        ]
    );
    let granted = &report(fixture)["granted"];
    assert_eq!(granted.as_array().unwrap().len(), 3, "{granted}");
}

fn what_is_granted_is_not_asked_about(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["no"]));
    let script = format!("print(reached('127.0.0.1', {}))", server.port);
    let flags = ["--connect", &server.address()];
    shows(&python(fixture, &flags, &script).run(), "hello\n");
    assert_eq!(asker.targets(), [""; 0]);
}

fn what_no_grant_can_give_is_not_asked_about(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["run"]);
    let script = "
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except OSError as error: print(error.errno != 0)
print(reached('127.0.0.1', 0))
";
    let outcome = python(fixture, &[], script).run();
    shows(&outcome, "True\nEACCES\n");
    assert_eq!(asker.targets(), [""; 0]);
}

fn a_program_answers(fixture: &Fixture) {
    let server = Server::start();
    fixture.write_program(
        "answers",
        "#!/bin/sh\nread -r question; echo \"$question\" >question.json\necho '{\"question\": 1, \"verdict\": \"run\"}'\nexec cat\n",
    );
    let script = format!("{READS}print(reached('127.0.0.1', {}))", server.port);
    let words = [
        "run",
        "--ask-program",
        "./answers",
        "--",
        "/usr/bin/python3",
    ];
    let call = fixture.palisade(words.iter().copied().chain(["-c", &script]));
    shows(&{ call }.run(), "hello\n");
    assert!(fixture.read("question.json").contains(&server.address()));
}

fn an_asker_that_is_not_there_is_told(fixture: &Fixture) {
    let refused = |flag: &str, words: &[&str]| {
        fixture
            .palisade(["run", flag, "./nobody", "--", "true"])
            .run()
            .refuses(words);
    };
    refused("--ask-socket", &["nobody answers at ./nobody"]);
    refused("--ask-program", &["usage: cannot execute /", "/nobody"]);
    let both = ["run", "--ask", "--ask-socket", "x", "--", "true"];
    fixture
        .palisade(both)
        .run()
        .refuses(&["cannot be used with"]);
}

fn an_asker_in_the_guest_s_reach_is_refused(fixture: &Fixture) {
    fixture.make_folder("work");
    for flag in ["--ask-socket", "--ask-program"] {
        let words = ["run", "--write", "work", flag, "work/asker", "--", "true"];
        fixture.palisade(words).run().refuses(&[
            "who is to be asked,",
            "work/asker",
            "where the guest can write",
        ]);
    }
}

fn who_hangs_up_says_no(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &[HANGS_UP]));
    let script = server.is_tried_twice();
    shows(&python(fixture, &[], &script).run(), "EACCES\nEACCES\n");
    assert_eq!(asker.targets().len(), 1);
}

fn who_says_nothing_says_no(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &[SILENCE]));
    let script = server.is_tried_twice();
    let outcome = python(fixture, &["--ask-time", "200ms"], &script).run();
    shows(&outcome, "EACCES\nEACCES\n");
    let told = asker.told();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1], json!({"type": "withdrawn", "question": 1}));
}

fn nonsense_is_no_answer(fixture: &Fixture) {
    const NONSENSE: &str = "!run\n{\"question\":1}\n{\"question\":2,\"verdict\":\"run\"}\n\n\
                            {\"question\":1,\"verdict\":\"yes\"}\n\0\n{\"question\":1,\"verdict\":\"no\"}\n";
    let (server, asker) = (Server::start(), Asker::says(fixture, &[NONSENSE, "run"]));
    let script = format!(
        "print(reached('127.0.0.1', {}), reached('127.0.0.1', {}))",
        server.port,
        Server::start().port
    );
    // The answer to the second question came before it was asked.
    shows(&python(fixture, &[], &script).run(), "EACCES hello\n");
    assert_eq!(asker.targets().len(), 2);
}

fn an_endless_answer_is_none(fixture: &Fixture) {
    const ENDLESS: &str = concat!("!", include_str!("ask.rs"));
    let without_lines: &'static str = ENDLESS.replace('\n', " ").leak();
    let (server, asker) = (
        Server::start(),
        Asker::says(fixture, &[without_lines, "run"]),
    );
    let script = server.is_tried_twice();
    shows(&python(fixture, &[], &script).run(), "EACCES\nEACCES\n");
    assert_eq!(asker.targets().len(), 1);
}

fn others_go_on_while_one_waits(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &[SILENCE]));
    let script = format!(
        "
waits = threading.Thread(target=reached, args=['127.0.0.1', 1], daemon=True)
waits.start()
for _ in range(100): reached('127.0.0.1', {})
print(waits.is_alive(), flush=True)
import os; os._exit(0)
",
        server.port
    );
    let outcome = python(fixture, &["--connect", &server.address()], &script).run();
    shows(&outcome, "True\n");
    assert_eq!(asker.targets(), ["tcp://127.0.0.1:1"]);
}

fn a_signal_reaches_one_that_waits(fixture: &Fixture) {
    let asker = Asker::says(fixture, &[SILENCE]);
    let mut call = python(fixture, &[], "print('begun'); reached('127.0.0.1', 1)");
    let mut child = call.spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    super::fixture::read_line(&mut stdout);
    signal(&child, Signal::TERM);
    assert!(ends_within(&child, Duration::from_secs(30)));
    let outcome = finish(child, &[]);
    assert_eq!(outcome.code(), 143, "{outcome:?}");
    drop(asker);
}

/// And the call is begun anew when it returns, with one question for both.
fn a_handler_is_run_while_it_waits(fixture: &Fixture) {
    let server = Server::start();
    let script = format!(
        "
import signal
ours, theirs = socket.socketpair()
theirs.setblocking(False)
signal.set_wakeup_fd(theirs.fileno())
signal.signal(signal.SIGUSR1, lambda *_: 0)
def tell():
    for _ in 1, 2: ours.recv(1); print('handled')
threading.Thread(target=tell).start()
import os, time
busy = True
def kill():
    while busy: os.kill(os.getpid(), signal.SIGUSR1); time.sleep(0.1)
threading.Thread(target=kill).start()
print(reached('127.0.0.1', {}))
busy = False
",
        server.port
    );
    let mut patient = Patient::begin(&mut python(fixture, &[], &script), fixture);
    assert_eq!(patient.asked()["target"], server.address());
    for _ in 0..2 {
        assert_eq!(patient.reads(), "handled\n");
    }
    patient.says("{\"question\": 1, \"verdict\": \"run\"}");
    assert_eq!(patient.reads(), "hello\n");
    patient.ends();
}

fn an_alarm_ends_the_wait(fixture: &Fixture) {
    let asker = Asker::says(fixture, &[SILENCE]);
    let script = "
import signal
def late(*_): raise TimeoutError
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try: socket.create_connection(('127.0.0.1', 1))
except TimeoutError as error: print('late')
";
    shows(&python(fixture, &[], script).run(), "late\n");
    drop(asker);
}

/// One that died before the answer came leaves it to nobody.
fn once_is_for_the_call_that_waits(fixture: &Fixture) {
    let server = Server::start();
    let script = format!(
        "
import os
child = os.fork()
if child == 0: reached('127.0.0.1', {0}); os._exit(0)
input(); os.kill(child, 9); os.wait(); print('killed', flush=True)
input(); print(reached('127.0.0.1', {0}))
",
        server.port
    );
    let mut patient = Patient::begin(&mut python(fixture, &[], &script), fixture);
    assert_eq!(patient.asked()["question"], 1);
    patient.types("\n");
    assert_eq!(patient.reads(), "killed\n");
    patient.says("{\"question\": 1, \"verdict\": \"once\"}");
    // The answer is heard before the next call: the asker's end shows it.
    patient.types("\n");
    let second = patient.asked();
    assert_eq!(second["type"], "question", "{second}");
    patient.says("{\"question\": 2, \"verdict\": \"no\"}");
    assert_eq!(patient.reads(), "EACCES\n");
    patient.ends();
}

/// Another one that waits for the same is asked about anew.
fn once_is_for_the_process_that_was_named(fixture: &Fixture) {
    let server = Server::start();
    let script = format!(
        "
import os, time
first = os.fork()
if first == 0: reached('127.0.0.1', {0}); os._exit(0)
input()
if os.fork() == 0: print(reached('127.0.0.1', {0})); os._exit(0)
time.sleep(0.3); os.kill(first, 9); os.wait(); print('killed', flush=True); os.wait()
",
        server.port
    );
    let mut patient = Patient::begin(&mut python(fixture, &[], &script), fixture);
    let first = patient.asked();
    patient.types("\n");
    assert_eq!(patient.reads(), "killed\n");
    patient.says("{\"question\": 1, \"verdict\": \"once\"}");
    let second = patient.asked();
    assert_ne!(first["process"]["pid"], second["process"]["pid"]);
    patient.says("{\"question\": 2, \"verdict\": \"no\"}");
    assert_eq!(patient.reads(), "EACCES\n");
    patient.ends();
    assert_eq!(report(fixture)["granted"], Value::Null, "no call had it");
}

/// Whoever asks a name server for it is told so.
fn localhost_is_this_machine(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["run"]));
    let script = format!(
        "
one = socket.socket(type=socket.SOCK_DGRAM)
one.connect(('127.0.0.1', 53))
one.send(b'\\7\\7\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\x09LocalHost\\0\\0\\1\\0\\1')
address = socket.inet_ntoa(one.recv(512)[-4:])
print(address, reached(address, {}))
",
        server.port
    );
    shows(&python(fixture, &[], &script).run(), "127.0.0.1 hello\n");
    assert_eq!(asker.targets(), [server.address()]);
}

/// Who connects without waiting asks again, to hear what became of it.
fn once_is_for_one_socket_s_connection(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["once", "no"]));
    let script = format!(
        "
import select
def connects():
    with socket.socket() as one:
        one.setblocking(False)
        results = []
        while len(results) < 3:
            results.append(errno.errorcode.get(one.connect_ex(('127.0.0.1', {})), 'ok'))
            select.select([], [one], [], 1)
        return results
print(connects(), connects())
",
        server.port
    );
    let outcome = python(fixture, &[], &script).run();
    shows(
        &outcome,
        "['EINPROGRESS', 'ok', 'EISCONN'] ['EACCES', 'EACCES', 'EACCES']\n",
    );
    assert_eq!(asker.targets().len(), 2);
}

fn what_waits_at_the_end_is_told(fixture: &Fixture) {
    let asker = Asker::says(fixture, &[SILENCE]);
    python(fixture, &["--time", "1s"], "reached('127.0.0.1', 1)")
        .run()
        .is(124);
    let report = report(fixture);
    let denials = report["denials"].as_array().unwrap();
    let told = denials
        .iter()
        .find(|one| one["address"] == "tcp://127.0.0.1:1");
    assert_eq!(
        told.unwrap()["reason"],
        "whoever was asked did not allow it"
    );
    drop(asker);
}

/// What is sent by a connected socket goes nowhere, and says so.
fn datagrams_by_name_are_asked_about(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["no", "run"]);
    let script = "
def sent(port):
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.settimeout(30)
        try: one.sendto(b'?', ('public.test', port)); return one.recv(9)
        except OSError as error: return errno.errorcode[error.errno]
print(sent(8001), sent(8000), sent(8000))
with socket.socket(type=socket.SOCK_DGRAM) as one:
    one.connect(('public.test', 8001)); one.settimeout(30)
    try: one.send(b'?'); one.recv(9)
    except OSError as error: print(errno.errorcode[error.errno])
";
    let prepare = with_servers(fixture);
    let call = python(fixture, &[], script);
    let outcome = in_own_network(fixture, &prepare, &call).run();
    shows(&outcome, "EACCES b'udp' b'udp'\nECONNREFUSED\n");
    assert_eq!(
        asker.targets(),
        ["udp://public.test:8001", "udp://public.test:8000"]
    );
}

fn a_stand_in_is_no_address_that_a_wide_grant_covers(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["no"]);
    let script = "print(reached('public.test', 8000), reached('203.0.113.7', 8000))";
    let prepare = with_servers(fixture);
    let call = python(fixture, &["--connect", "tcp://0.0.0.0/0:8000"], script);
    let outcome = in_own_network(fixture, &prepare, &call).run();
    shows(&outcome, "EACCES tcp\n");
    assert_eq!(asker.targets(), ["tcp://public.test:8000"]);
}

fn a_flood_of_answers_is_none(fixture: &Fixture) {
    fixture.write_program("floods", "#!/bin/sh\nexec yes\n");
    let words = [
        "run",
        "--ask-program",
        "./floods",
        "--",
        "/usr/bin/python3",
        "-c",
    ];
    let script = format!("{READS}print(reached('127.0.0.1', 1))");
    let call = fixture.palisade(words.iter().copied().chain([script.as_str()]));
    shows(&{ call }.run(), "EACCES\n");
}

/// Whether it lies in the guest's reach is asked of the one that `PATH` leads to.
fn the_program_that_is_looked_at_is_executed(fixture: &Fixture) {
    fixture.write_program("work/bin/answers", "#!/bin/sh\nexec cat\n");
    let words = [
        "run",
        "--write",
        "work",
        "--ask-program",
        "answers",
        "--",
        "true",
    ];
    let path = format!("{}:/usr/bin:/bin", fixture.text("work/bin"));
    let outcome = fixture.palisade(words).env("PATH", &path).run();
    outcome.refuses(&["who is to be asked,", "where the guest can write"]);
    let words = ["run", "--ask-program", "no-such-program", "--", "true"];
    fixture
        .palisade(words)
        .run()
        .refuses(&["no program no-such-program in PATH"]);
}

fn what_is_typed_too_early_is_no_answer(fixture: &Fixture) {
    let server = Server::start();
    let mut person = Person::sit_down(fixture);
    person
        .types(&asks(&server, "", "0"))
        .sees("never   no to this")
        .types("run\n")
        .sees("Your word: ")
        .types("no\n")
        .sees("Permission denied")
        .sees(PROMPT);
    assert!(!person.shown.contains("b'hello'"));
}

fn what_is_not_shown_is_not_answered(fixture: &Fixture) {
    let server = Server::start();
    fixture.make_fifo("go");
    let mut person = Person::sit_down(fixture);
    person
        .types(&asks(
            &server,
            "--read go",
            "print('begun', flush=True); open('go').read()",
        ))
        .sees("begun\r\n");
    person.holds_the_screen();
    fs::write(fixture.path("go"), "").unwrap();
    person.types("run\n").sees_no_more();
    person.lets_the_screen_go_on();
    person
        .sees("never   no to this")
        .sees("Your word: ")
        .types("no\n");
    person.sees("Permission denied").sees(PROMPT);
    assert!(!person.shown.contains("b'hello'"));
}

fn two_at_a_terminal_are_asked_in_turn(fixture: &Fixture) {
    let (one, other) = (Server::start(), Server::start());
    let mut person = Person::sit_down(fixture);
    let guest = |server: &Server| {
        format!(
            "$P run --ask -- python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', {})).recv(9), {0})\"",
            server.port
        )
    };
    let both = format!("sh -c '{} & {}; wait'\n", guest(&one), guest(&other))
        .replace("$P", fixture.program().to_str().unwrap());
    let both = both.replace("('127.0.0.1'", "(\\\"127.0.0.1\\\"");
    person.types(&both).sees("Your word: ").sees_no_more();
    assert_eq!(
        person.shown.matches("-- palisade asks").count(),
        1,
        "{}",
        person.shown
    );
    let asked_first = person
        .shown
        .contains(&format!("wants to connect to {}", one.address()));
    let (first, second) = if asked_first {
        (&one, &other)
    } else {
        (&other, &one)
    };
    person
        .types("run\n")
        .sees(&format!("wants to connect to {}", second.address()))
        .sees("Your word: ")
        .types("no\n")
        .sees(PROMPT);
    assert!(
        person.shown.contains(&format!("b'hello' {}", first.port)),
        "{}",
        person.shown
    );
    assert!(!person.shown.contains(&format!("b'hello' {}", second.port)));
}

/// It is the session's, whatever their streams are.
fn two_without_streams_of_a_terminal_are_asked_in_turn(fixture: &Fixture) {
    let servers = [Server::start(), Server::start()];
    let mut person = Person::sit_down(fixture);
    for (name, server) in ["one", "two"].iter().zip(&servers) {
        let script = format!(
            "import socket\nopen('{name}.out', 'wb').write(socket.create_connection(('127.0.0.1', {})).recv(9))\n",
            server.port
        );
        fixture.write(&format!("{name}.py"), &script);
        fixture.write(&format!("{name}.out"), "");
    }
    let guest = |name: &str| {
        format!(
            "$P run --ask --read {name}.py --write {name}.out -- python3 {name}.py </dev/null >{name}.log 2>&1"
        )
    };
    person
        .types(&format!(
            "sh -c '{} & {}; wait'\n",
            guest("one"),
            guest("two")
        ))
        .sees("Your word: ")
        .sees_no_more();
    assert_eq!(
        person.shown.matches("-- palisade asks").count(),
        1,
        "{}",
        person.shown
    );
    let [one, two] = &servers;
    let asked_first = person
        .shown
        .contains(&format!("wants to connect to {}", one.address()));
    let (granted, second) = match asked_first {
        true => ("one.out", two),
        false => ("two.out", one),
    };
    person
        .types("run\n")
        .sees(&format!("wants to connect to {}", second.address()))
        .sees("Your word: ")
        .types("no\n")
        .sees(PROMPT);
    let other = if asked_first { "two.out" } else { "one.out" };
    assert_eq!(
        (fixture.read(granted), fixture.read(other)),
        ("hello".into(), String::new())
    );
}

fn the_next_is_shown_when_one_is_taken_back(fixture: &Fixture) {
    let server = Server::start();
    let mut person = Person::sit_down(fixture);
    let script = "import os, socket
def connects(port):
    child = os.fork()
    if child == 0: print(socket.create_connection(('127.0.0.1', port)).recv(9)); os._exit(0)
    return child
first = connects(1)
open('go/waits').read(); connects(PORT)
open('go/killed').read(); os.kill(first, 9); os.wait(); os.wait()
";
    fixture.write("two.py", &script.replace("PORT", &server.port.to_string()));
    fixture.make_folder("go");
    let steps = ["go/waits", "go/killed"];
    steps.iter().for_each(|step| fixture.make_fifo(step));
    person
        .types("$P run --ask --read two.py --read go -- python3 two.py\n")
        .sees("tcp://127.0.0.1:1\r\n")
        .sees("Your word: ");
    for step in steps {
        fs::write(fixture.path(step), "").unwrap();
    }
    person
        .sees("-- no answer is needed any more --")
        .sees(&server.address())
        .sees("Your word: ")
        .types("run\n")
        .sees("b'hello'")
        .sees(PROMPT);
}

fn a_guest_that_ends_meanwhile_holds_nobody_up(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let script = "import os, socket, threading, time\n\
                  threading.Thread(target=lambda: socket.create_connection(('127.0.0.1', 1)), daemon=True).start()\n\
                  time.sleep(DELAY); os._exit(0)\n";
    for round in 0..8 {
        let delay = format!("{}", f64::from(round) / 1000.0);
        fixture.write("ends.py", &script.replace("DELAY", &delay));
        person
            .types("$P run --ask --read ends.py -- python3 ends.py; echo en''ded\n")
            .sees("ended\r\n")
            .sees(PROMPT);
    }
}

fn the_end_takes_the_question_back(fixture: &Fixture) {
    let server = Server::start();
    let script = format!(
        "
import os
child = os.fork()
if child == 0: reached('127.0.0.1', 1); os._exit(0)
input(); os.kill(child, 9); os.wait()
print(reached('127.0.0.1', {}))
",
        server.port
    );
    let mut patient = Patient::begin(&mut python(fixture, &[], &script), fixture);
    assert_eq!(patient.asked()["type"], "question");
    patient.types("\n");
    assert_eq!(patient.asked(), json!({"type": "withdrawn", "question": 1}));
    assert_eq!(patient.asked()["target"], server.address());
    patient.says("{\"question\": 2, \"verdict\": \"run\"}");
    assert_eq!(patient.reads(), "hello\n");
    patient.ends();
}

/// What the call says when it is answered is asked about anew.
fn an_address_that_changes_meanwhile_is_not_reached(fixture: &Fixture) {
    let (granted, other) = (Server::start(), Server::start());
    let script = format!(
        "
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
def address(port): return struct.pack('=HHI8x', 2, socket.htons(port), 0x0100007f)
memory = ctypes.create_string_buffer(address({}), 16)
one = socket.socket()
result = []
def call(): result.append((libc.connect(one.fileno(), memory, 16), ctypes.get_errno()))
thread = threading.Thread(target=call)
thread.start()
input()
ctypes.memmove(memory, address({}), 16)
print('changed', flush=True)
thread.join()
print(result[0] == (-1, errno.EACCES))
",
        granted.port, other.port
    );
    let mut patient = Patient::begin(&mut python(fixture, &[], &script), fixture);
    assert_eq!(patient.asked()["target"], granted.address());
    // The first question is answered when the guest has changed what it asked.
    patient.types("\n");
    assert_eq!(patient.reads(), "changed\n");
    patient.says("{\"question\": 1, \"verdict\": \"run\"}");
    assert_eq!(patient.asked()["target"], other.address());
    patient.says("{\"question\": 2, \"verdict\": \"no\"}");
    assert_eq!(patient.reads(), "True\n");
    patient.ends();
}

fn a_flood_is_one_question_and_a_count(fixture: &Fixture) {
    let asker = Asker::says(fixture, &[SILENCE]);
    let script = "
threads = [threading.Thread(target=reached, args=['127.0.0.1', 1 + port]) for port in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
";
    python(fixture, &["--ask-time", "100ms"], script)
        .run()
        .is(0);
    let told = asker.told();
    let questions: Vec<_> = told
        .iter()
        .filter(|one| one["type"] == "question")
        .collect();
    assert!(questions.len() < 100, "{}", questions.len());
    assert!(
        questions[1..]
            .iter()
            .any(|one| one["unasked"].as_u64() > Some(0))
    );
    let report = report(fixture);
    let denials = report["denials"].as_array().unwrap();
    let unasked = denials
        .iter()
        .find(|one| one["what"] == "more that was to be asked about");
    let unasked = unasked.unwrap()["count"].as_u64().unwrap();
    assert_eq!(unasked + questions.len() as u64, 200, "{unasked}");
}

fn a_name_acts_on_no_terminal(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["no"]);
    let script = "
import ctypes
ctypes.CDLL(None).prctl(15, b'a\\x1b[2J\\n\"}')
reached('127.0.0.1', 1)
";
    python(fixture, &[], script).run();
    let told = asker.told();
    assert_eq!(told[0]["process"]["name"], "a\\u{1b}[2J\\n\"}");
}

fn always_is_written_to_the_policy(fixture: &Fixture) {
    let server = Server::start();
    fixture.write("policy.toml", "# Mine.\n[grants]\n");
    let asker = Asker::says(fixture, &["always", "run"]);
    let script = format!(
        "print(reached('127.0.0.1', {}), reached('127.0.0.1', 1))",
        server.port
    );
    let outcome = python(fixture, &["--policy", "policy.toml"], &script).run();
    shows(&outcome, "hello ECONNREFUSED\n");
    assert!(
        outcome.stderr.contains("policy.toml: 1 grant added"),
        "{outcome:?}"
    );
    let expected = format!("# Mine.\n[grants]\nconnect = [\"{}\"]\n", server.address());
    assert_eq!(fixture.read("policy.toml"), expected);
    drop(asker);
    let words = [
        "run",
        "--policy",
        "policy.toml",
        "--",
        "/usr/bin/python3",
        "-c",
    ];
    let script = format!("{READS}print(reached('127.0.0.1', {}))", server.port);
    let again = fixture.palisade(words.iter().copied().chain([script.as_str()]));
    shows(&{ again }.run(), "hello\n");
}

fn always_without_a_policy_is_told(fixture: &Fixture) {
    let (server, asker) = (Server::start(), Asker::says(fixture, &["always"]));
    let script = format!("print(reached('127.0.0.1', {}))", server.port);
    let outcome = python(fixture, &[], &script).run();
    shows(&outcome, "hello\n");
    let flag = format!("--connect {}", server.address());
    assert!(outcome.stderr.contains(&flag), "{outcome:?}");
    drop(asker);
}

fn asks(server: &Server, flags: &str, before: &str) -> String {
    format!(
        "$P run --ask {flags} -- python3 -c \"import socket; {before}; print(socket.create_connection(('127.0.0.1', {})).recv(9))\"\n",
        server.port
    )
}

fn somebody_at_a_terminal_answers(fixture: &Fixture) {
    let server = Server::start();
    let mut person = Person::sit_down(fixture);
    person
        .types(&asks(&server, "", "0"))
        .sees("-- palisade asks --")
        .sees("\"python3\" (process ")
        .sees(&format!("wants to connect to {}", server.address()))
        .sees("Your word: ")
        .types("run\n")
        .sees("-- the guest goes on --")
        .sees("b'hello'")
        .sees(PROMPT)
        .types(&asks(&server, "", "0"))
        .sees("Your word: ")
        .types("n\n")
        .sees("Permission denied")
        .sees(PROMPT);
    fixture.write("policy.toml", "[grants]\n");
    person
        .types(&asks(&server, "--policy policy.toml", "0"))
        .sees("it is written to the policy:")
        .sees("policy.toml")
        .sees("Your word: ")
        .types("always\n")
        .sees("b'hello'")
        .sees("policy.toml: 1 grant added")
        .sees(PROMPT);
}

fn only_a_whole_word_is_an_answer(fixture: &Fixture) {
    let server = Server::start();
    let mut person = Person::sit_down(fixture);
    person.types(&asks(&server, "", "0")).sees("Your word: ");
    for no_answer in ["r\n", "yes\n", "run run\n", "\n", "always\n"] {
        person.types(no_answer).sees("once, run, no or never: ");
    }
    person.types("once\n").sees("b'hello'").sees(PROMPT);
    // The end of the input, and the interrupt, which is the guest's.
    person
        .types(&asks(&server, "", "0"))
        .sees("Your word: ")
        .types("\u{4}")
        .sees("Permission denied")
        .sees(PROMPT)
        .types(&asks(&server, "", "0"))
        .sees("Your word: ")
        .types("\u{3}")
        .sees(PROMPT);
}

/// It asks its terminal to type an answer for it: a device status report, and TIOCSTI where the kernel has it.
fn the_guest_types_no_answer(fixture: &Fixture) {
    let server = Server::start();
    let mut person = Person::sit_down(fixture);
    let types = "import fcntl, sys, os; print('\\x1b[6n', end='', flush=True); \
                 [os.write(1, b'run\\n')]";
    person
        .types(&asks(&server, "", types))
        .sees("Your word: ")
        .sees_no_more();
    assert!(!person.shown.contains("b'hello'"));
    person.types("no\n").sees("Permission denied").sees(PROMPT);
}

fn what_is_printed_meanwhile_is_shown_later(fixture: &Fixture) {
    let server = Server::start();
    fixture.make_fifo("go");
    let mut person = Person::sit_down(fixture);
    let command = format!(
        "$P run --ask --read go -- sh -c 'python3 -c \"import socket; socket.create_connection((\\\"127.0.0.1\\\", {}))\" & \
         read x <go; echo \"-- the guest says\"; wait'\n",
        server.port
    );
    person.types(&command).sees("Your word: ");
    fs::write(fixture.path("go"), "\n").unwrap();
    person.sees_no_more();
    let asked = person.shown.rfind("Your word: ").unwrap();
    assert!(!person.shown[asked..].contains("guest says"));
    person
        .types("run\n")
        .sees("-- the guest goes on --")
        .sees("-- the guest says")
        .sees(PROMPT);
}

fn it_takes_a_terminal(fixture: &Fixture) {
    let mut call = fixture.call(
        std::path::Path::new("/usr/bin/setsid"),
        [
            "-w",
            fixture.program().to_str().unwrap(),
            "run",
            "--ask",
            "--",
            "true",
        ],
    );
    let child = call.spawn();
    finish(child, &[]).refuses(&[
        "usage: nobody can be asked without a terminal",
        "--ask-program",
    ]);
}

/// And what is said fits it.
fn published_schema_is_current(fixture: &Fixture) {
    const PUBLISHED: &str = "questions.schema.json";
    is_current(fixture, PUBLISHED, &palisade_wall::ask::schema());
    let schema = published(PUBLISHED);
    let asker = Asker::says(fixture, &[SILENCE]);
    let flags = ["--ask-time", "100ms"];
    python(fixture, &flags, "reached('127.0.0.1', 1)").run();
    let mut told = asker.told();
    assert_eq!(told.len(), 2);
    told.push(json!({"question": 1, "verdict": "run"}));
    for one in &told {
        assert_eq!(violations(&schema, one), [""; 0], "{one}");
    }
    assert_ne!(
        violations(&schema, &json!({"question": 1, "verdict": "yes"})),
        [""; 0]
    );
}

fn without_namespaces_it_refuses(fixture: &Fixture) {
    let asker = Asker::says(fixture, &["run"]);
    let flags = ["--ask-socket", "asker", "--allow-degraded", "namespaces"];
    super::tiers::run_without_namespaces(fixture, &flags, "true")
        .run()
        .refuses(&["--ask", "namespaces", "palisade doctor"]);
    drop(asker);
}

fn a_module_is_not_asked_about(fixture: &Fixture) {
    fixture.write("module.wasm", "\0asm\u{1}\0\0\0");
    fixture
        .palisade(["run", "--ask-program", "cat", "--", "./module.wasm"])
        .run()
        .refuses(&["usage: --ask", "native program"]);
}
