//! The flag that would have helped, for arguments that exist on the host and not inside.

use super::stage::{Outcome, Stage, cases};

cases![
    script_that_is_not_granted,
    program_that_is_not_granted,
    absolute_path,
    nothing_to_hint_at,
    success_needs_no_hint,
    the_hint_works,
];

fn notes(outcome: &Outcome) -> Vec<&str> {
    outcome
        .stderr
        .lines()
        .filter(|line| line.contains("note: "))
        .collect()
}

fn script_that_is_not_granted(stage: &Stage) {
    stage.write("script.sh", "exit 0\n");
    let outcome = stage.palisade(["run", "--", "/bin/sh", "script.sh"]).run();
    outcome.is(2);
    assert_eq!(
        notes(&outcome),
        ["palisade: note: 'script.sh' exists on the host but is not granted: --read script.sh"]
    );
}

fn program_that_is_not_granted(stage: &Stage) {
    stage.write_program("program", "#!/bin/sh\n");
    let outcome = stage.palisade(["run", "--", "./program"]).run();
    outcome.is(127);
    assert_eq!(notes(&outcome).len(), 1, "{outcome:?}");
    assert!(
        notes(&outcome)[0].ends_with("--read ./program"),
        "{outcome:?}"
    );
}

fn absolute_path(stage: &Stage) {
    stage.write("data", "");
    let data = stage.text("data");
    let outcome = stage.palisade(["run", "--", "/bin/cat", &data]).run();
    outcome.is(1);
    assert!(
        notes(&outcome)[0].ends_with(&format!("--read {data}")),
        "{outcome:?}"
    );
}

/// Granted, in the system view, a flag, or not on the host either.
fn nothing_to_hint_at(stage: &Stage) {
    stage.write("granted", "");
    let words = [
        "run",
        "--read",
        "granted",
        "--",
        "/bin/false",
        "granted",
        "/usr/bin/env",
        "-x",
        "absent",
        "",
    ];
    let outcome = stage.palisade(words).run();
    outcome.is(1);
    assert_eq!(notes(&outcome), [""; 0], "{outcome:?}");
}

fn success_needs_no_hint(stage: &Stage) {
    stage.write("script.sh", "");
    stage
        .palisade(["run", "--", "/bin/true", "script.sh"])
        .run()
        .is_silent(0);
}

fn the_hint_works(stage: &Stage) {
    stage.write("script.sh", "echo well\n");
    let outcome = stage.palisade(["run", "--", "/bin/sh", "script.sh"]).run();
    let note = notes(&outcome)[0].to_owned();
    let (_, flag) = note.rsplit_once(": ").unwrap();
    let words = ["run"]
        .into_iter()
        .chain(flag.split(' '))
        .chain(["--", "/bin/sh", "script.sh"]);
    stage.palisade(words).run().prints("well\n");
}
