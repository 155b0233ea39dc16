//! `palisade why`: reports in sentences, and what is no report.

use super::fixture::{Fixture, cases};
use std::fs::File;

cases![
    a_real_report,
    a_report_on_stdin,
    denials_with_their_flags,
    a_hostile_report_reaches_no_terminal,
    what_is_no_report,
    a_newer_report,
    what_is_no_file,
    nothing_to_explain,
];

/// A report of this version with these denials, as JSON.
fn report(denials: &str) -> String {
    format!(
        r#"{{"version": 1, "wall": "process", "command": ["curl"], "exit": {{"code": 7}},
            "ending": "guest", "exit_code": 7, "enforcement": [], "denials": [{denials}],
            "phases": [], "usage": {{"wall_us": 1, "user_us": 1, "system_us": 1,
            "peak_process_bytes": 1, "minor_faults": 1, "major_faults": 0, "read_bytes": 0,
            "written_bytes": 0, "voluntary_switches": 1, "involuntary_switches": 0,
            "left_behind": 0}}}}"#
    )
}

fn a_real_report(fixture: &Fixture) {
    let flags = ["--time", "100ms", "--report", "report.json"];
    fixture.script(&flags, "sleep 60").run().is(124);
    let outcome = fixture.palisade(["why", "report.json"]).run();
    outcome.is_silent(0);
    for words in [
        "`/bin/sh -c 'sleep 60'` was ended, for it ran longer than --time allows",
        "\n- The guest wanted more time: it is beyond the limit --time; a larger `--time`",
    ] {
        assert!(outcome.text().contains(words), "{words}: {outcome:?}");
    }
    fixture
        .script(&["--report", "report.json"], "true")
        .run()
        .is(0);
    fixture
        .palisade(["why", "report.json"])
        .run()
        .prints("`/bin/sh -c true` ended well.\nNothing was denied that the wall could tell of.\n");
}

fn a_report_on_stdin(fixture: &Fixture) {
    let call = fixture.palisade(["why", "-"]).input(report(""));
    assert!(
        call.run()
            .is_silent(0)
            .text()
            .starts_with("`curl` ended itself with exit code 7.\n")
    );
    fixture
        .palisade(["why", "-"])
        .run()
        .refuses(&["usage: stdin is not a report"]);
}

fn denials_with_their_flags(fixture: &Fixture) {
    let denial = r#"{"what": "a connection to tcp://[::1]:80", "call": "connect",
        "address": "tcp://[::1]:80", "reason": "no grant covers it", "process": {"pid": 12, "name": "curl"}, "count": 3,
        "grant": "--connect tcp://[::1]:80", "probe": false}"#;
    fixture.write("report.json", &report(denial));
    let text = fixture
        .palisade(["why", "report.json"])
        .run()
        .is_silent(0)
        .text();
    assert_eq!(
        text.lines().nth(1).unwrap(),
        "- curl (process 12) wanted a connection to tcp://[::1]:80 3 times: no grant covers it; \
         `--connect 'tcp://[::1]:80'` would open tcp port 80 of this machine's own loopback, where \
         services may trust whoever reaches them."
    );
}

fn a_hostile_report_reaches_no_terminal(fixture: &Fixture) {
    let denial = r#"{"what": "\u001b[2J", "process": {"pid": 1, "name": "\u001b]0;x\u0007\u202e"},
        "grant": "--connect unix:/\u001b[2J"}"#;
    fixture.write("report.json", &report(denial));
    let text = fixture
        .palisade(["why", "report.json"])
        .run()
        .is_silent(0)
        .text();
    assert!(!text.contains(['\x1b', '\x07', '\u{202e}']), "{text:?}");
    fixture.write("x\x1b[2J", &report("").replace("usage", "\\u001b[2J"));
    let outcome = fixture.palisade(["why", "x\x1b[2J"]).run();
    outcome.refuses(&["usage: ", "is not a report"]);
    assert!(!outcome.stderr.contains('\x1b'), "{outcome:?}");
}

fn what_is_no_report(fixture: &Fixture) {
    for text in [
        "",
        "no JSON",
        "[]",
        "{}",
        "{\"version\": 1}",
        "{\"version\": \"1\"}",
        "\u{0}",
    ] {
        fixture.write("report.json", text);
        fixture
            .palisade(["why", "report.json"])
            .run()
            .refuses(&["usage: report.json is not a report of `palisade run --report`: "]);
    }
    fixture.write(
        "report.json",
        &report("").replace("\"code\": 7", "\"code\": 700"),
    );
    fixture
        .palisade(["why", "report.json"])
        .run()
        .refuses(&["usage: report.json is not a report"]);
}

fn a_newer_report(fixture: &Fixture) {
    fixture.write(
        "report.json",
        "{\"version\": 999, \"everything\": \"is different\"}",
    );
    fixture.palisade(["why", "report.json"]).run().refuses(&[
        "usage: report.json is a report of version 999",
        "reads up to 1",
    ]);
}

fn what_is_no_file(fixture: &Fixture) {
    fixture.make_folder("folder");
    fixture.make_fifo("fifo");
    fixture.write("huge", "");
    File::options()
        .write(true)
        .open(fixture.path("huge"))
        .and_then(|file| file.set_len(1 << 40))
        .unwrap();
    for (name, reason) in [
        ("absent", "No such file"),
        ("folder", "not a regular file"),
        ("fifo", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("huge", "larger than"),
    ] {
        fixture.palisade(["why", name]).run().refuses(&[
            "usage: cannot read ",
            "`-` is stdin",
            reason,
        ]);
    }
}

fn nothing_to_explain(fixture: &Fixture) {
    fixture
        .palisade(["why"])
        .env("XDG_RUNTIME_DIR", &fixture.text("."))
        .run()
        .refuses(&["usage: there is no report of a run that failed at a terminal"]);
    fixture
        .palisade(["why", ""])
        .run()
        .refuses(&["usage: ", "REPORT"]);
    fixture
        .palisade(["why", "a", "b"])
        .run()
        .refuses(&["usage: ", "'b'"]);
}
