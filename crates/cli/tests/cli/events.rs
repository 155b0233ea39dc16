//! `palisade run --events`: what happens to a guest is told while it does, and nobody waits for who listens.

use super::{
    fixture::{Call, Fixture, cases},
    published::{is_current, published},
    schema::violations,
};
use palisade_suite::ports::free_ports;
use serde_json::{Value, json};
use std::{
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    thread,
};

cases![
    published_schema_is_current,
    start_and_end_are_told,
    denials_are_told_as_they_come,
    what_is_allowed_is_told,
    what_is_executed_in_vain_is_told,
    what_is_executed_through_a_link_of_the_view_is_told,
    files_are_told_where_they_are_watched,
    grants_are_told,
    a_limit_is_told,
    a_module_s_calls_are_told,
    what_a_proxy_decides_is_told,
    a_socket_hears_it,
    who_does_not_read_is_not_waited_for,
    who_goes_away_is_not_waited_for,
    a_file_that_exists_is_emptied,
    a_file_of_its_own,
    never_where_the_guest_can_write,
    a_name_acts_on_no_terminal,
    what_happens_is_the_same,
    without_namespaces_start_and_end_are_told,
];

const PUBLISHED: &str = "events.schema.json";

fn published_schema_is_current(fixture: &Fixture) {
    is_current(fixture, PUBLISHED, &palisade_wall::journal::schema());
    let schema = published(PUBLISHED);
    let right = json!({"at_us": 1, "event": "limit", "limit": "--time"});
    assert_eq!(violations(&schema, &right), [""; 0]);
    for wrong in [
        json!({"at_us": 1, "event": "limit"}),
        json!({"at_us": 1, "event": "party"}),
        json!({"event": "limit", "limit": "--time"}),
    ] {
        assert_ne!(violations(&schema, &wrong), [""; 0], "{wrong}");
    }
}

fn script(fixture: &Fixture, flags: &[&str], script: &str) -> Call {
    fixture.script(&[&["--events", "events"], flags].concat(), script)
}

/// All lines, each of which fits the schema.
fn events(text: &str) -> Vec<Value> {
    let schema = published(PUBLISHED);
    let lines = text.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(violations(&schema, &line), [""; 0], "{line}");
        line
    });
    lines.collect()
}

fn told(fixture: &Fixture) -> Vec<Value> {
    events(&fixture.read("events"))
}

/// Verdict, call and target of those that are about the network.
fn verdicts(told: &[Value]) -> Vec<String> {
    let verdicts = told.iter().filter(|one| one["event"] == "verdict");
    let words = |one: &Value| {
        ["verdict", "call", "target"].map(|key| one[key].as_str().unwrap().to_owned())
    };
    verdicts.map(|one| words(one).join(" ")).collect()
}

fn start_and_end_are_told(fixture: &Fixture) {
    script(fixture, &[], "exit 3").run().is(3);
    let told = told(fixture);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["event"], "start");
    assert_eq!(told[0]["wall"], super::fixture::NATIVE_WALL);
    assert_eq!(told[0]["command"], json!(["/bin/sh", "-c", "exit 3"]));
    assert!(told[0]["time_us"].as_u64() > Some(1_700_000_000_000_000));
    assert_eq!(told[1]["event"], "end");
    assert_eq!(told[1]["exit"], json!({"code": 3}));
    assert!(told[0]["at_us"].as_u64() < told[1]["at_us"].as_u64());
}

/// Before the guest has ended: it waits for that.
fn denials_are_told_as_they_come(fixture: &Fixture) {
    fixture.make_fifo("events");
    let connect =
        "import socket\ntry: socket.create_connection(('127.0.0.1', 1))\nexcept OSError: input()";
    let words = [
        "run",
        "--events",
        "events",
        "--",
        "/usr/bin/python3",
        "-c",
        connect,
    ];
    let place = fixture.path("events");
    // A reader before palisade looks for one.
    let fifo = fs::File::options()
        .read(true)
        .write(true)
        .open(place)
        .unwrap();
    let mut child = fixture.palisade(words).spawn();
    let mut lines = BufReader::new(fifo).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["event"], "start");
    let denied = next();
    assert_eq!(denied["verdict"], "deny");
    assert_eq!(denied["call"], "connect");
    assert_eq!(denied["target"], "tcp://127.0.0.1:1");
    assert_eq!(denied["process"]["name"], "python3");
    assert_eq!(denied["reason"], "no grant covers it");
    assert_eq!(denied["grant"], "--connect tcp://127.0.0.1:1");
    drop(child.stdin.take());
    super::fixture::finish(child, &[]);
    assert_eq!(next()["event"], "end");
}

fn what_is_allowed_is_told(fixture: &Fixture) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let (grant, own) = (format!("tcp://127.0.0.1:{port}"), free_ports(1));
    let place = format!("tcp://127.0.0.1:{own}");
    let run = format!(
        "python3 -c 'import socket; a = [socket.create_connection((\"127.0.0.1\", {port})) for _ in \"12\"]; \
         u = socket.socket(type=socket.SOCK_DGRAM); u.sendto(b\"x\", (\"127.0.0.1\", 9)); \
         s = socket.create_server((\"127.0.0.1\", {own}))'"
    );
    let flags = [
        "--connect",
        &grant,
        "--connect",
        "udp://127.0.0.1:9",
        "--listen",
        &place,
    ];
    script(fixture, &flags, &run).run().is(0);
    let connected = format!("allow connect {grant}");
    assert_eq!(
        verdicts(&told(fixture)),
        [
            connected.as_str(),
            &connected,
            "allow send udp://127.0.0.1:9",
            &format!("allow bind {place}"),
            &format!("allow listen {place}"),
        ]
    );
}

fn what_is_executed_in_vain_is_told(fixture: &Fixture) {
    script(fixture, &[], "cp /bin/true /tmp/copy; /tmp/copy").run();
    let told = told(fixture);
    assert_eq!(verdicts(&told), ["deny execve /tmp/copy"]);
    assert_eq!(told[1]["grant"], "--exec /tmp", "as the report has it");
}

/// `/bin` is a link in the domain's root.
fn what_is_executed_through_a_link_of_the_view_is_told(fixture: &Fixture) {
    let way = "/bin/../../tmp/copy";
    script(fixture, &[], &format!("cp /bin/true /tmp/copy; {way}")).run();
    assert_eq!(verdicts(&told(fixture)), ["deny execve /tmp/copy"]);
}

fn files_are_told_where_they_are_watched(fixture: &Fixture) {
    fixture.write("secret", "");
    fixture.write("given/file", "");
    let read = "cat given/file secret; echo >given/new; echo >/tmp/own";
    script(fixture, &["--read", "given"], read).run();
    assert_eq!(
        verdicts(&told(fixture)),
        [""; 0],
        "only where they are watched"
    );
    script(fixture, &["--read", "given", "--watch"], read).run();
    let here = fixture.text("");
    let told = verdicts(&told(fixture));
    let told: Vec<_> = told
        .iter()
        .filter(|one| one.contains(&here) && one.contains("openat"))
        .map(|one| one.replace(&here, "."))
        .collect();
    assert_eq!(
        told,
        [
            "allow openat ./given/file",
            "deny openat ./secret",
            "deny openat ./given/new",
        ]
    );
}

fn grants_are_told(fixture: &Fixture) {
    fixture.write_program(
        "answers",
        "#!/bin/sh\nread -r question; echo '{\"question\": 1, \"verdict\": \"run\"}'\nexec cat\n",
    );
    let flags = ["--ask-program", "./answers"];
    let connect = "python3 -c 'import socket; socket.socket().connect_ex((\"127.0.0.1\", 1))'";
    script(fixture, &flags, connect).run().is(0);
    let told = told(fixture);
    assert_eq!(told[1]["event"], "granted");
    assert_eq!(told[1]["grant"], "--connect tcp://127.0.0.1:1");
    assert_eq!(told[1]["answer"], "run");
    assert_eq!(verdicts(&told), ["allow connect tcp://127.0.0.1:1"]);
}

fn a_limit_is_told(fixture: &Fixture) {
    script(fixture, &["--time", "200ms"], "sleep 60")
        .run()
        .is(124);
    let told = told(fixture);
    assert_eq!(told[1]["event"], "limit");
    assert_eq!(told[1]["limit"], "--time");
    assert_eq!(told[2]["ending"], "time-limit");
}

fn a_module_s_calls_are_told(fixture: &Fixture) {
    super::wasm::run_wasm(fixture, &["--events", "events"], &["exit", "3"]).is(3);
    let told = told(fixture);
    assert_eq!(told[0]["wall"], "wasm");
    assert_eq!(told.last().unwrap()["event"], "end");
}

/// It is apart, and tells at the end.
fn what_a_proxy_decides_is_told(fixture: &Fixture) {
    let ask = "curl -s https://a.example.org/; true";
    let flags = ["--connect", "tcp://*.example.com:443"];
    script(fixture, &flags, ask).run().is(0);
    let told = verdicts(&told(fixture));
    assert!(
        told.contains(&"deny proxy tcp://a.example.org:443".into()),
        "{told:?}"
    );
}

fn a_socket_hears_it(fixture: &Fixture) {
    let listener = UnixListener::bind(fixture.path("listens")).unwrap();
    fs::set_permissions(fixture.path("listens"), Permissions::from_mode(0o777)).unwrap();
    let reads = thread::spawn(move || {
        let mut text = String::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_string(&mut text)
            .unwrap();
        text
    });
    let flags = ["--events", "unix:listens"];
    fixture.script(&flags, "exit 5").run().is(5);
    let told = events(&reads.join().unwrap());
    assert_eq!(told.last().unwrap()["exit_code"], 5);
    let flags = ["--events", "unix:nobody"];
    fixture
        .script(&flags, "true")
        .run()
        .refuses(&["nobody reads at nobody"]);
}

const FLOOD: &str = "python3 -c 'import socket\nfor _ in range(20000):\n with socket.socket() as one: one.connect_ex((\"127.0.0.1\", 1))'";

fn who_does_not_read_is_not_waited_for(fixture: &Fixture) {
    let listener = UnixListener::bind(fixture.path("listens")).unwrap();
    fs::set_permissions(fixture.path("listens"), Permissions::from_mode(0o777)).unwrap();
    let outcome = fixture.script(&["--events", "unix:listens"], FLOOD).run();
    outcome.is(0);
    assert!(outcome.stderr.contains("events were lost"), "{outcome:?}");
    let lost: u64 = (outcome.stderr.split_whitespace())
        .find_map(|word| word.parse().ok())
        .unwrap();
    // What was taken is whole; the last word may be cut, for nobody took its end.
    let (stream, _) = listener.accept().unwrap();
    let mut text = Vec::new();
    { &stream }.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let whole = &text[..text.rfind('\n').unwrap() + 1];
    let read = events(whole).len() as u64;
    assert!(read + lost + 1 >= 20_002 && lost > 0, "{read} {lost}");
}

fn who_goes_away_is_not_waited_for(fixture: &Fixture) {
    let listener = UnixListener::bind(fixture.path("listens")).unwrap();
    fs::set_permissions(fixture.path("listens"), Permissions::from_mode(0o777)).unwrap();
    let mut child = fixture
        .script(&["--events", "unix:listens"], "read x")
        .spawn();
    drop(listener.accept().unwrap());
    drop(child.stdin.take());
    let outcome = super::fixture::finish(child, &[]);
    assert!(outcome.stderr.contains("events were lost"), "{outcome:?}");
}

fn a_file_that_exists_is_emptied(fixture: &Fixture) {
    fixture.write("events", &"no event\n".repeat(1000));
    script(fixture, &[], "true").run().is(0);
    assert_eq!(told(fixture).len(), 2);
}

/// Whatever the report's is called.
fn a_file_of_its_own(fixture: &Fixture) {
    let whole = fixture.text("report.json");
    for report in ["report.json", "./report.json", &whole] {
        let flags = ["--report", "report.json", "--events", report];
        let refused = fixture.script(&flags, "true").run();
        refused.refuses(&["usage: --events takes a file or a socket of its own"]);
    }
    let flags = ["--events", "-"];
    fixture
        .script(&flags, "true")
        .run()
        .refuses(&["of its own"]);
}

fn never_where_the_guest_can_write(fixture: &Fixture) {
    fixture.make_folder("work");
    for to in ["work/events", "unix:work/socket"] {
        let flags = ["--write", "work", "--events", to];
        let refused = fixture.script(&flags, "true").run();
        refused.refuses(&["--events work/", "where the guest can write"]);
    }
}

fn a_name_acts_on_no_terminal(fixture: &Fixture) {
    let name = "python3 -c 'import ctypes, socket; ctypes.CDLL(None).prctl(15, b\"\\x1b[2J\"); socket.socket().connect_ex((\"127.0.0.1\", 1))'";
    script(fixture, &[], name).run();
    let told = told(fixture);
    assert_eq!(told[1]["process"]["name"], "\\u{1b}[2J");
}

/// What the guest sees of it, and what the report says.
fn what_happens_is_the_same(fixture: &Fixture) {
    let ask = "python3 -c 'import socket; print(socket.socket().connect_ex((\"127.0.0.1\", 1)))'; getent hosts a.example; \
               /usr/bin/nothing; cp /bin/true /tmp/copy; /tmp/copy; echo $?";
    let run = |flags: &[&str]| {
        let flags = [flags, &["--report", "report.json"]].concat();
        let outcome = fixture.script(&flags, ask).run();
        let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
        let denials = report["denials"].as_array().unwrap().iter();
        let mut denials: Vec<_> = denials
            .map(|one| format!("{} {} {}", one["what"], one["grant"], one["count"]))
            .collect();
        denials.sort();
        (outcome.text(), denials)
    };
    assert_eq!(run(&["--events", "events"]), run(&[]));
}

fn without_namespaces_start_and_end_are_told(fixture: &Fixture) {
    let flags = ["--events", "events", "--allow-degraded", "namespaces"];
    super::tiers::run_without_namespaces(fixture, &flags, "exit 4")
        .run()
        .is(4);
    let told = told(fixture);
    assert_eq!(told.last().unwrap()["exit_code"], 4);
}
