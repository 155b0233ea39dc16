//! Whatever a path, a policy, an argument, a report or a guest is called: nothing that palisade prints acts
//! on a terminal, and nothing forges a line of its own.

use super::{
    fixture::{Fixture, Outcome, cases},
    person::{PROMPT, Person},
};
use palisade_policy::acts_on_terminal;
use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt};

cases![
    values_of_flags,
    paths_that_are_there,
    programs_and_verbs,
    policy_files,
    reports,
    servers,
    names_that_are_no_text,
    what_is_written_to_files,
    names_that_guests_give_themselves,
];

/// Puts text into the clipboard, erases the screen by a control character of ISO 8859, turns the direction
/// of writing, and goes on in a line that looks like palisade's own.
const NAME: &str =
    "x\u{1b}]52;c;cHduZWQ=\u{7}\u{9b}2J\u{202e}y\npalisade forged\nmount     /forged";

#[track_caller]
fn is_harmless(outcome: &Outcome) {
    is_shown(&outcome.text(), outcome);
    is_shown(&outcome.stderr, outcome);
}

#[track_caller]
fn is_shown(text: &str, outcome: &Outcome) {
    let acts = |c: char| c != '\n' && acts_on_terminal(c);
    assert!(!text.contains(acts), "{outcome:?}");
    let forged =
        |line: &str| line.starts_with("palisade forged") || line.starts_with("mount     /forged");
    assert!(!text.lines().any(forged), "{outcome:?}");
}

/// Runs palisade with these words; it must have something to say.
#[track_caller]
fn says_no_harm(fixture: &Fixture, words: &[&str]) -> Outcome {
    let outcome = fixture.palisade(words).run();
    is_harmless(&outcome);
    let said = outcome.text() + &outcome.stderr;
    assert!(!said.is_empty(), "{words:?}");
    outcome
}

fn values_of_flags(fixture: &Fixture) {
    let flags = [
        "--wall",
        "--policy",
        "--read",
        "--write",
        "--exec",
        "--protect",
        "--ipc",
        "--env",
        "--cwd",
        "--device",
        "--connect",
        "--listen",
        "--profile",
        "--memory",
        "--cpu",
        "--processes",
        "--files",
        "--file-size",
        "--tmp-size",
        "--time",
        "--cpu-time",
        "--output",
        "--allow-degraded",
    ];
    for flag in flags {
        let absolute = format!("/{NAME}");
        for value in [NAME, &absolute] {
            says_no_harm(fixture, &["run", flag, value, "--", "false"]);
            says_no_harm(fixture, &["explain", flag, value, "--", "false"]);
        }
    }
    let report = fixture.text(&format!("none/{NAME}"));
    says_no_harm(fixture, &["run", "--report", &report, "--", "true"]);
    for scheme in ["tcp://", "unix:", "unix:/"] {
        let value = format!("{scheme}{NAME}");
        says_no_harm(fixture, &["run", "--connect", &value, "--", "false"]);
        says_no_harm(fixture, &["run", "--listen", &value, "--", "false"]);
    }
}

fn paths_that_are_there(fixture: &Fixture) {
    fixture.make_folder(NAME);
    fixture.write(&format!("{NAME}/file"), "");
    let elsewhere = format!("{NAME}:/else{NAME}");
    for flags in [
        &["--read", NAME][..],
        &["--read", &elsewhere],
        &["--write", NAME, "--protect", &format!("{NAME}/none{NAME}")],
        &["--write", NAME, "--exec", NAME, "--ipc", NAME],
        &["--read", NAME, "--cwd", &fixture.text(NAME)],
        &["--env", "A=\u{1b}[2J\u{9b}2J"],
    ] {
        let explain = [&["explain"], flags, &["--", "ls", NAME]].concat();
        assert!(says_no_harm(fixture, &explain).text().contains(r"\u{1b}"));
        let json = [&["explain", "--json"], flags, &["--", "ls", NAME]].concat();
        let json = says_no_harm(fixture, &json).text();
        serde_json::from_str::<serde_json::Value>(&json).unwrap();
    }
    // Hints of what was not granted.
    let hint = says_no_harm(fixture, &["run", "--", "ls", NAME]);
    assert!(hint.stderr.contains("--read"), "{hint:?}");
    // The policy in reach of the guest, and the report.
    let policy = format!("{NAME}/policy.toml");
    fixture.write(&policy, "");
    says_no_harm(
        fixture,
        &["run", "--write", NAME, "--policy", &policy, "--", "true"],
    );
    let report = format!("{NAME}/report");
    says_no_harm(
        fixture,
        &["run", "--write", NAME, "--report", &report, "--", "true"],
    );
}

fn programs_and_verbs(fixture: &Fixture) {
    let unknown = format!("--{NAME}");
    fixture.write(NAME, "neither a script nor a program");
    let absolute = fixture.text(NAME);
    for words in [
        &[NAME][..],
        &[&unknown],
        &["run", &unknown],
        &["run", "--", NAME],
        &["run", "--", "/none", NAME],
        &["run", "--read", NAME, "--", &absolute],
        &["explain", "--", NAME],
        &["why", NAME],
        &["why", "none", NAME],
        &["doctor", NAME],
        &["bench", NAME],
        &["bench", "--compare", NAME, NAME],
        &["completions", NAME],
        &["cost", "--runs", NAME, "--", "true"],
        &["cost", "--html", &format!("none/{NAME}"), "--", "true"],
        &["cost", "--", NAME],
        &["serve", NAME],
        &["serve", "--check", NAME],
        &["reload", NAME],
        &["status", NAME],
        &["status", "--admin", NAME],
        &["status", "--admin", &format!("unix:/{NAME}")],
    ] {
        says_no_harm(fixture, words);
    }
    fixture.write(&format!("{NAME}.wasm"), "\0asm\u{1}\0\0\0no module");
    says_no_harm(
        fixture,
        &["run", "--wall", "wasm", "--", &format!("./{NAME}.wasm")],
    );
}

fn policy_files(fixture: &Fixture) {
    let name = format!("{NAME}.toml");
    let quoted = serde_json::to_string(NAME).unwrap();
    for text in [
        format!("{quoted} = 1"),
        format!("[grants]\nread = [{quoted}]"),
        format!("[grants]\n{quoted} = [{quoted}]"),
        format!("[limits]\ntime = {quoted}"),
        "[grants]\nread = ['\u{202e}\u{9b}2J']".to_owned(),
        "\u{1b}]52;c;x\u{7} = 1".to_owned(),
        "# \u{9b}2J\u{202e}\nunknown = 1 # \u{9b}2J\u{202e}".to_owned(),
    ] {
        fixture.write(&name, &text);
        says_no_harm(fixture, &["run", "--policy", &name, "--", "true"]);
    }
}

fn reports(fixture: &Fixture) {
    let outcome = fixture.script(&["--report", "report.json"], "exit 3").run();
    outcome.is_silent(3);
    let mut report: serde_json::Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    report["trap"] = NAME.into();
    report["command"] = serde_json::json!([NAME, NAME]);
    report["enforcement"][0]["mechanism"] = NAME.into();
    report["denials"] = serde_json::json!([{
        "what": NAME, "call": NAME, "address": NAME, "reason": NAME, "count": 2, "grant": format!("--connect {NAME}"),
        "process": { "pid": 1, "name": NAME },
    }]);
    fixture.write("hostile.json", &report.to_string());
    says_no_harm(fixture, &["why", "hostile.json"]);
    let unknown = serde_json::json!({ "version": 1, NAME: NAME }).to_string();
    for text in [&unknown, NAME, "{\"version\": 99}"] {
        fixture.write("hostile.json", text);
        says_no_harm(fixture, &["why", "hostile.json"]);
    }
}

fn servers(fixture: &Fixture) {
    let quoted = serde_json::to_string(NAME).unwrap();
    let name = format!("{NAME}.toml");
    for text in [
        format!("{quoted} = 1"),
        format!("admin = {quoted}"),
        format!("[[filter]]\nname = {quoted}\nmodule = {quoted}"),
        "\u{1b}]52;c;x\u{7} = \u{9b}".to_owned(),
    ] {
        fixture.write(&name, &text);
        for words in [
            &["serve", "--check", &name][..],
            &["serve", &name],
            &["status", &name],
            &["reload", &name],
        ] {
            says_no_harm(fixture, words);
        }
    }
    says_no_harm(fixture, &["serve", "--init", NAME]);
    says_no_harm(fixture, &["serve", "--init", NAME]);
    says_no_harm(fixture, &["serve", "--check", &format!("{NAME}/host.toml")]);
}

/// One byte that stands for CSI where text is ISO 8859.
fn names_that_are_no_text(fixture: &Fixture) {
    let name = OsString::from_vec(b"x\x9b2J\xff".to_vec());
    fs::create_dir(fixture.path("").join(&name)).unwrap();
    for verb in ["run", "explain"] {
        for flag in ["--read", "--write", "--policy", "--cwd"] {
            let words: [OsString; 5] = [
                verb.into(),
                flag.into(),
                name.clone(),
                "--".into(),
                "false".into(),
            ];
            let outcome = fixture.palisade(&words).run();
            for bytes in [&outcome.stdout[..], outcome.stderr.as_bytes()] {
                assert!(std::str::from_utf8(bytes).is_ok(), "{outcome:?}");
            }
        }
    }
}

fn what_is_written_to_files(fixture: &Fixture) {
    fixture.make_folder(NAME);
    let flags = [
        "run",
        "--read",
        NAME,
        "--report",
        "report.json",
        "--",
        "true",
        NAME,
    ];
    fixture.palisade(flags).run().is_silent(0);
    let text = fixture.read("report.json");
    let acts = |c: char| c != '\n' && acts_on_terminal(c);
    assert!(!text.contains(acts), "{text:?}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["command"][1], NAME, "it means the same");
    let flags = ["run", "--report", "-", "--", "true", NAME];
    is_harmless(&fixture.palisade(flags).run());
}

/// Denials are told where a person reads them.
fn names_that_guests_give_themselves(fixture: &Fixture) {
    let script = "import ctypes, socket\n\
         ctypes.CDLL(None).prctl(15, b'\\x1b]0;x\\x07\\xc2\\x9b2J')\n\
         s = socket.socket()\n\
         try: s.connect(('127.0.0.1', 9))\n\
         except OSError: pass\n";
    fixture.write("name.py", script);
    let mut person = Person::sit_down(fixture);
    person
        .types("$P run --connect tcp://127.0.0.1:1 --read name.py -- python3 name.py\n")
        .sees("denied: ")
        .sees("--connect tcp://127.0.0.1:9")
        .sees(PROMPT);
    let shown = person.shown.replace("\r\n", "\n");
    let acts = |c: char| c != '\n' && c != '\r' && acts_on_terminal(c);
    assert!(!shown.contains(acts), "{shown:?}");
    assert!(shown.contains(r"\u{1b}]0;x"), "{shown:?}");
}
