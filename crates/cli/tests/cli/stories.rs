//! Stories of first use: a plain command fails, the flags that palisade names are added, and it works.
//!
//! The cheap ones of `make stories`.

use super::fixture::{Fixture, Outcome, cases};
use serde_json::Value;
use std::{io::Read, net::TcpListener, thread};

cases![
    a_makefile_runs_what_it_built,
    a_script_reads_what_its_arguments_name,
    a_script_asks_a_server,
];

/// Runs `command` with `flags`, then with what was advised as well. The second attempt must succeed.
#[track_caller]
fn succeeds_as_advised(fixture: &Fixture, flags: &[&str], command: &[&str]) -> Vec<String> {
    let first = run(fixture, flags, command);
    assert!(!first.status.success(), "{first:?}");
    let advised = advised_flags(fixture, &first);
    let flags = flags.iter().copied();
    let flags: Vec<_> = flags.chain(advised.iter().map(String::as_str)).collect();
    let second = run(fixture, &flags, command);
    assert!(second.status.success(), "with {flags:?}: {second:?}");
    advised
}

fn run(fixture: &Fixture, flags: &[&str], command: &[&str]) -> Outcome {
    let words = ["run", "--report", "../report.json"];
    let mut call = fixture.palisade([&words, flags, &["--"], command].concat());
    call.command.current_dir(fixture.path("checkout"));
    call.run()
}

/// Of the notes, and of the report's denials: as words.
fn advised_flags(fixture: &Fixture, outcome: &Outcome) -> Vec<String> {
    let notes = outcome.stderr.lines().filter_map(|line| {
        let (_, flag) = line.strip_prefix("palisade: note: ")?.rsplit_once(": ")?;
        Some(flag.to_owned())
    });
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let denials = report["denials"].as_array().unwrap();
    let grants = denials.iter().filter_map(|denial| denial["grant"].as_str());
    let mut flags: Vec<_> = notes.chain(grants.map(str::to_owned)).collect();
    flags.sort();
    flags.dedup();
    let words = flags.iter().map(|flag| shlex::split(flag).unwrap());
    words.flatten().collect()
}

fn a_makefile_runs_what_it_built(fixture: &Fixture) {
    fixture.write(
        "checkout/Makefile",
        "check: words\n\t./words >counted\nwords: words.c\n\tcc -o $@ $<\n",
    );
    let program = "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n";
    fixture.write("checkout/words.c", program);
    let advised = succeeds_as_advised(fixture, &["--write", "."], &["make", "check"]);
    assert_eq!(advised, ["--exec", &fixture.text("checkout")]);
    assert_eq!(fixture.read("checkout/counted"), "hello\n");
}

fn a_script_reads_what_its_arguments_name(fixture: &Fixture) {
    fixture.write("checkout/it's here/notes", "hello\n");
    fixture.write("checkout/sum.sh", "wc -l <\"$1\"\n");
    let command = ["sh", "sum.sh", "it's here/notes"];
    let advised = succeeds_as_advised(fixture, &[], &command);
    assert_eq!(advised, ["--read", "it's here/notes", "--read", "sum.sh"]);
}

/// The server of this process is the witness.
fn a_script_asks_a_server(fixture: &Fixture) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let script = format!(
        "import socket\nwith socket.create_connection(('127.0.0.1', {})) as client:\n    client.sendall(b'hello')\n",
        address.port()
    );
    fixture.write("checkout/ask.py", &script);
    let served = thread::spawn(move || {
        let mut said = String::new();
        server
            .accept()
            .unwrap()
            .0
            .read_to_string(&mut said)
            .unwrap();
        said
    });
    let advised = succeeds_as_advised(fixture, &["--read", "."], &["python3", "ask.py"]);
    assert_eq!(advised, ["--connect", &format!("tcp://{address}")]);
    assert_eq!(served.join().unwrap(), "hello");
}
