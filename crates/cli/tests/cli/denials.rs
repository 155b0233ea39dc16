//! Network calls that were refused, as the person at the terminal and the report are told of them.

use super::{
    fixture::{Fixture, cases},
    person::{PROMPT, Person, SESSION},
};
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs::Permissions,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

cases![
    a_terminal_shows_the_last_few,
    the_last_one_at_a_terminal_is_explained,
    where_nothing_is_told_it_is_told_what_would,
    a_pipe_gets_none,
    names_reach_no_terminal,
    the_flag_that_is_shown_works,
    the_report_has_them_all,
    probes_are_in_the_report_only,
    why_explains_them,
    why_writes_a_policy,
    why_asks_before_it_writes,
];

/// A grant, so that there is somebody to refuse the rest; nobody listens at tcpmux's port.
const GRANT: &str = "--connect tcp://127.0.0.1:1";

/// Connects to these ports of the loopback, one after the other, without a name lookup.
fn connect_to(ports: &str) -> String {
    format!("for port in {ports}; do (: < /dev/tcp/127.0.0.1/$port) 2> /dev/null; done; exit 3")
}

fn report(fixture: &Fixture, script: &str) -> Value {
    let flags = [
        "run",
        "--connect",
        "tcp://127.0.0.1:1",
        "--report",
        "report.json",
    ];
    let words = flags.into_iter().chain(["--", "/bin/bash", "-c", script]);
    fixture.palisade(words).run().is(3);
    serde_json::from_str(&fixture.read("report.json")).unwrap()
}

fn a_terminal_shows_the_last_few(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let script = connect_to("2 3 4 4 4");
    person.types(&format!("$P run {GRANT} -- bash -c '{script}'\n"));
    for line in [
        "denied: a connection to tcp://127.0.0.1:2 (bash): --connect tcp://127.0.0.1:2\r\n",
        "denied: a connection to tcp://127.0.0.1:3 (bash): --connect tcp://127.0.0.1:3\r\n",
        "denied: a connection to tcp://127.0.0.1:4 (bash, 3 times): --connect tcp://127.0.0.1:4\r\n",
    ] {
        person.sees(&format!("palisade: {line}"));
    }
    person.sees(PROMPT);
    let script = connect_to("{11..18}");
    person.types(&format!("$P run {GRANT} -- bash -c '{script}'\n"));
    person
        .sees("\npalisade: denied: a connection to tcp://127.0.0.1:14 (bash): ")
        .sees(
            "tcp://127.0.0.1:18\r\npalisade: denied: and 3 more\r\npalisade: `palisade why` says what",
        )
        .sees(PROMPT);
    assert!(
        !person.shown.contains("to tcp://127.0.0.1:13"),
        "{}",
        person.shown
    );
}

/// Until the next that fails; and nothing that a guest could have written.
fn the_last_one_at_a_terminal_is_explained(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let kept = format!("{SESSION}/palisade-last/last-report.json");
    person
        .types("$P why\n")
        .sees("no report of a run that failed at a terminal")
        .sees(PROMPT);
    let failing = connect_to("2");
    person.types(&format!("$P run {GRANT} -- bash -c '{failing}'\n"));
    person
        .sees("palisade: `palisade why` says what each flag would open")
        .sees(PROMPT);
    person
        .types(&format!("$P run {GRANT} -- true\n"))
        .sees(PROMPT);
    person
        .types("$P why\n")
        .sees("bash (process ")
        .sees("wanted a connection to tcp://127.0.0.1:2")
        .sees(&format!(
            "To allow it: palisade run {GRANT} --connect tcp://127.0.0.1:2 -- bash"
        ))
        .sees(PROMPT);
    let before = fixture.read(&kept);
    person.types(&format!(
        "$P run --write {SESSION} {GRANT} -- bash -c '{failing}'\n"
    ));
    person
        .sees("policy: the report that `palisade why` explains,")
        .sees(PROMPT);
    assert_eq!(fixture.read(&kept), before);
    // Who may read it can hold it, and is not waited for.
    let held = std::fs::File::open(fixture.path(&kept)).unwrap();
    held.lock().unwrap();
    person.types(&format!("$P run {GRANT} -- bash -c '{failing}'\n"));
    person
        .sees("with --report FILE, `palisade why FILE` says")
        .sees(PROMPT);
    drop(held);
    // One that others may write to is nobody's.
    let mode = |mode| std::fs::set_permissions(fixture.path(&kept), Permissions::from_mode(mode));
    mode(0o620).unwrap();
    person
        .types("$P why\n")
        .sees("no report of a run that failed at a terminal")
        .sees(PROMPT);
    mode(0o600).unwrap();
    // One that failed for something else leaves none.
    person
        .types(&format!("$P run {GRANT} -- false\n"))
        .sees(PROMPT);
    person
        .types("$P why\n")
        .sees("no report of a run that failed at a terminal")
        .sees(PROMPT);
    // A link is not followed, wherever it lies.
    std::fs::remove_file(fixture.path(&kept)).unwrap();
    fixture.write("mine", "as it was");
    symlink(fixture.path("mine"), fixture.path(&kept)).unwrap();
    person.types(&format!("$P run {GRANT} -- bash -c '{failing}'\n"));
    person
        .sees("with --report FILE, `palisade why FILE` says")
        .sees(PROMPT);
    assert_eq!(fixture.read("mine"), "as it was");
}

fn where_nothing_is_told_it_is_told_what_would(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    let note = "palisade run --watch tells which, and palisade learn writes a policy";
    person
        .types("$P run -- bash -c 'test -e /srv/data'\n")
        .sees(note)
        .sees(PROMPT);
    person
        .types("$P run -- true; echo do''ne\n")
        .sees("done")
        .sees(PROMPT);
    assert_eq!(person.shown.matches(note).count(), 1, "{}", person.shown);
    fixture
        .palisade(["run", "--", "/bin/false"])
        .run()
        .is_silent(1);
}

fn a_pipe_gets_none(fixture: &Fixture) {
    let script = connect_to("2");
    let words = [
        "run",
        "--connect",
        "tcp://127.0.0.1:1",
        "--",
        "/bin/bash",
        "-c",
        &script,
    ];
    fixture.palisade(words).run().is_silent(3);
}

/// A process is called as the file that it was started from, unless it says otherwise.
fn names_reach_no_terminal(fixture: &Fixture) {
    let script = r#"name=$(printf "/tmp/x\033[2J\007"); ln -s /bin/bash "$name";
        "$name" -c ": < /dev/tcp/127.0.0.1/2" 2> /dev/null; exit 3"#
        .replace('\n', "");
    let mut person = Person::sit_down(fixture);
    person.types(&format!("$P run {GRANT} -- bash -c '{script}'\n"));
    person
        .sees(r"127.0.0.1:2 (x\u{1b}[2J\u{7}): --connect")
        .sees(PROMPT);
    let report = report(fixture, &script);
    assert_eq!(report["denials"][0]["process"]["name"], r"x\u{1b}[2J\u{7}");
}

fn the_flag_that_is_shown_works(fixture: &Fixture) {
    let denied = report(fixture, &connect_to("2"));
    let flag = denied["denials"][0]["grant"].as_str().unwrap();
    let words = ["run", "--report", "report.json"]
        .into_iter()
        .chain(flag.split(' '));
    let script = connect_to("2");
    let words = words.chain(["--", "/bin/bash", "-c", &script]);
    fixture.palisade(words).run().is(3);
    let granted: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    assert_eq!(granted["denials"], json!([]));
}

fn the_report_has_them_all(fixture: &Fixture) {
    let report = report(fixture, &connect_to("{11..18} 18"));
    let denials = report["denials"].as_array().unwrap();
    assert_eq!(denials.len(), 8, "{report}");
    let mut last = denials[7].clone();
    assert!(last["process"]["pid"].as_u64().unwrap() > 1);
    last["process"]["pid"] = json!(0);
    // Where the kernel tells.
    let ended = last.as_object_mut().unwrap().remove("ended");
    assert!(
        ended.is_none_or(|ended| ended == json!({"code": 1})),
        "{report}"
    );
    assert_eq!(
        last,
        json!({
            "what": "a connection to tcp://127.0.0.1:18",
            "call": "connect",
            "address": "tcp://127.0.0.1:18",
            "reason": "it is granted at other ports only",
            "process": {"pid": 0, "name": "bash"},
            "count": 2,
            "grant": "--connect tcp://127.0.0.1:18",
            "probe": false,
        })
    );
}

/// As getaddrinfo(3) does: a udp socket is connected to an address that is granted for tcp.
fn probes_are_in_the_report_only(fixture: &Fixture) {
    let script = "(: < /dev/udp/127.0.0.1/1) 2> /dev/null; exit 3";
    let report = report(fixture, script);
    let told: Vec<_> = report["denials"].as_array().unwrap().iter().collect();
    assert_eq!(told.len(), 1, "{report}");
    assert_eq!(
        (&told[0]["address"], &told[0]["probe"]),
        (&json!("udp://127.0.0.1:1"), &json!(true))
    );
    let mut person = Person::sit_down(fixture);
    person.types(&format!(
        "$P run {GRANT} -- bash -c '{script}'; echo code $?\n"
    ));
    person.sees("code 3\r\n").sees(PROMPT);
    assert!(!person.shown.contains("denied:"), "{}", person.shown);
}

fn why_explains_them(fixture: &Fixture) {
    report(fixture, &connect_to("2"));
    let text = fixture
        .palisade(["why", "report.json"])
        .run()
        .is_silent(0)
        .text();
    let sentence = text.lines().nth(1).unwrap();
    assert!(sentence.starts_with("- bash (process "), "{text}");
    assert!(
        sentence.ends_with(
            " wanted a connection to tcp://127.0.0.1:2: it is granted at other ports only; \
             `--connect tcp://127.0.0.1:2` would open tcp port 2 of this machine's own loopback, \
             where services may trust whoever reaches them."
        ),
        "{text}"
    );
}

/// What it says at the end is what the same program needs.
fn why_writes_a_policy(fixture: &Fixture) {
    report(fixture, &connect_to("2 3"));
    let why = |words: &[&str]| {
        let words = ["why", "report.json"].iter().chain(words);
        fixture.palisade(words.copied().collect::<Vec<_>>()).run()
    };
    let text = why(&[]).is_silent(0).text();
    assert!(
        text.ends_with(
            "In a policy: grants.connect = [\"tcp://127.0.0.1:2\", \"tcp://127.0.0.1:3\"]\n"
        ),
        "{text}"
    );
    let flags = " --connect tcp://127.0.0.1:2 --connect tcp://127.0.0.1:3 -- ";
    assert!(text.contains(flags), "{text}");
    why(&["--apply", "policy.toml", "--yes"]).refuses(&["usage: cannot find policy.toml"]);
    fixture.write(
        "policy.toml",
        "# Mine.\n[grants]\nconnect = [\"tcp://127.0.0.1:1\"]\n",
    );
    // In a session of its own it has no terminal.
    let words = ["-w".as_ref(), fixture.program().as_os_str()].into_iter();
    let words = words.chain(["why", "report.json", "--apply", "policy.toml"].map(OsStr::new));
    let alone = fixture.call(Path::new("/usr/bin/setsid"), words).run();
    alone.refuses(&["--yes agrees to all"]);
    why(&["--apply", "policy.toml", "--yes"]).is(0);
    assert_eq!(
        fixture.read("policy.toml"),
        "# Mine.\n[grants]\nconnect = [\"tcp://127.0.0.1:1\", \"tcp://127.0.0.1:2\", \"tcp://127.0.0.1:3\"]\n"
    );
    let script = connect_to("2 3");
    let words = ["run", "--policy", "policy.toml", "--report", "report.json"];
    let words = words.into_iter().chain(["--", "/bin/bash", "-c", &script]);
    fixture.palisade(words).run().is(3);
    let granted: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    assert_eq!(granted["denials"], json!([]));
}

fn why_asks_before_it_writes(fixture: &Fixture) {
    report(fixture, &connect_to("2 3"));
    fixture.write("policy.toml", "");
    let mut person = Person::sit_down(fixture);
    person.types("$P why report.json --apply policy.toml\n");
    person
        .sees("connect = \"tcp://127.0.0.1:2\"\r\n")
        .sees("own loopback, where services may trust whoever reaches them")
        .sees("[y]es, [N]o, [q]uit: ");
    person.types("\n");
    person
        .sees("connect = \"tcp://127.0.0.1:3\"\r\n")
        .sees("[q]uit: ");
    person.types("y\n");
    person.sees("policy.toml: 1 grant added").sees(PROMPT);
    assert_eq!(
        fixture.read("policy.toml"),
        "[grants]\nconnect = [\"tcp://127.0.0.1:3\"]\n"
    );
}
