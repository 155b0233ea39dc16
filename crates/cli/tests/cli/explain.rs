//! `palisade explain`: the plan, without its effects.

use super::stage::{Stage, cases};
use serde_json::Value;
use std::fs;

cases![
    names_every_grant,
    as_json,
    changes_nothing,
    refuses_what_run_refuses,
    needs_no_privilege_of_the_host,
    takes_a_list_of_what_may_be_degraded,
    says_what_is_not_there,
];

fn takes_a_list_of_what_may_be_degraded(stage: &Stage) {
    let limits = ["explain", "--memory", "1G", "--cpu", "0.5"];
    let explain = |flags: &[&str]| {
        let outcome = stage
            .palisade([&limits, flags, &["--", "true"]].concat())
            .run();
        outcome.is_silent(0);
        outcome.text()
    };
    let one_by_one = ["--allow-degraded", "memory", "--allow-degraded", "cpu"];
    assert_eq!(
        explain(&["--allow-degraded", "memory,cpu"]),
        explain(&one_by_one)
    );
}

fn says_what_is_not_there(stage: &Stage) {
    stage.make_folder("there");
    let flags = ["--read-if-there", "there", "--read-if-there", "absent:/x"];
    let outcome = stage
        .palisade([&["explain"], &flags[..], &["--", "true"]].concat())
        .run();
    outcome.is_silent(0);
    let said = outcome.text();
    let absent = format!(
        "absent    {} is not there: nothing is granted\n",
        stage.text("absent")
    );
    assert!(said.contains(&absent), "{said}");
    assert!(
        said.contains(&format!("mount     {} (ro", stage.text("there"))),
        "{said}"
    );
}

fn names_every_grant(stage: &Stage) {
    stage.write("work/old", "");
    stage.make_folder("data");
    let words = [
        "explain",
        "--read",
        "data:/data",
        "--write",
        "work",
        "--protect",
        "work/.env",
        "--env",
        "A=1",
        "--time",
        "10s",
        "--files",
        "64",
        "--",
        "ls",
        "-l",
    ];
    let outcome = stage.palisade(words).run();
    outcome.is_silent(0);
    let text = outcome.text();
    let work = stage.text("work");
    for line in [
        "run       ls -l".to_owned(),
        format!("hold      {work}/.env on the host by an empty file"),
        format!(
            "mount     {} at /data (ro,nosuid,nodev)",
            stage.text("data")
        ),
        format!("mount     {work} (nosuid,nodev,noexec)"),
        format!("remount   {work}/.env (+ro)"),
        "limit     NOFILE 64".to_owned(),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line:?} in {text}"
        );
    }
    for word in [
        "seccomp",
        "landlock",
        "drop      every capability",
        "A=1",
        "/usr/bin/ls or ",
    ] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

fn as_json(stage: &Stage) {
    let outcome = stage
        .palisade([
            "explain",
            "--json",
            "--no-system",
            "--write",
            ".",
            "--",
            "/program",
            "x",
        ])
        .run();
    outcome.is_silent(0);
    let plan: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(plan["command"], serde_json::json!(["/program", "x"]));
    let steps = plan["steps"].as_array().unwrap();
    assert_eq!(steps[0]["step"], "make-root");
    assert!(
        steps
            .iter()
            .any(|step| step["step"] == "mount" && step["target"] == stage.text("")),
        "{plan}"
    );
    assert_eq!(plan["cwd"], stage.text(""));
}

fn changes_nothing(stage: &Stage) {
    stage.make_folder("work");
    stage
        .palisade([
            "explain",
            "--write",
            "work",
            "--protect",
            "work/.env",
            "--",
            "/bin/touch",
            "work/new",
        ])
        .run()
        .is_silent(0);
    assert_eq!(fs::read_dir(stage.path("work")).unwrap().count(), 0);
}

fn refuses_what_run_refuses(stage: &Stage) {
    stage
        .palisade(["explain", "--read", "missing", "--", "ls"])
        .run()
        .refuses(&["policy: ", "does not exist"]);
    stage
        .palisade(["explain", "--memory", "0", "--", "ls"])
        .run()
        .refuses(&["policy: --memory"]);
    stage.palisade(["explain"]).run().refuses(&["usage: "]);
}

/// A program that is not there is the guest's matter; the plan says where it would be looked for.
fn needs_no_privilege_of_the_host(stage: &Stage) {
    let outcome = stage
        .palisade(["explain", "--env", "PATH=/a:/b", "--", "absent"])
        .run();
    outcome.is_silent(0);
    assert!(
        outcome.text().contains("/a/absent or /b/absent"),
        "{}",
        outcome.text()
    );
}
