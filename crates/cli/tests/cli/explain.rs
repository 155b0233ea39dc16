//! `palisade explain`: the plan, without its effects.

use super::fixture::{Fixture, NATIVE_WALL, cases};
use serde_json::Value;
use std::fs;

cases![
    begins_with_a_summary,
    a_line_is_one_whatever_is_in_it,
    values_that_may_be_secrets_are_not_printed,
    names_every_grant,
    as_json,
    changes_nothing,
    refuses_what_run_refuses,
    needs_no_privilege_of_the_host,
    takes_a_list_of_what_may_be_degraded,
    says_what_is_not_there,
];

/// Ten lines that say what the steps below come to.
fn begins_with_a_summary(fixture: &Fixture) {
    let nothing = fixture.palisade(["explain", "--", "/bin/ls", "a b"]).run();
    let text = nothing.is_silent(0).text();
    let (summary, steps) = text.split_once("\n\n").unwrap();
    assert!(summary.lines().count() <= 10, "{summary}");
    assert!(steps.starts_with("run       /bin/ls a b\n"), "{steps}");
    let program = format!("program   /bin/ls 'a b', behind the {NATIVE_WALL} wall, in /");
    for line in [
        program.as_str(),
        "reads     the system's programs, libraries and some settings",
        "writes    nothing of the host's; and in a /tmp and /dev/shm of its own, which are gone at the end",
        "executes  what it reads, nothing that it can write",
        "reaches   no network, not even this machine's loopback",
        "variables HOME LOGNAME PATH USER",
        "limits    none asked for, but wide ones on processes and its own /tmp",
        "weaker    nothing: this machine enforces all of it",
    ] {
        assert!(
            summary.lines().any(|found| found == line),
            "{line:?} in {summary}"
        );
    }
    fixture.make_folder("cargo/registry");
    let cargo = fixture.text("cargo");
    let more = [
        "explain",
        "--device",
        "pts",
        "--profile",
        "rust",
        "--",
        "ls",
    ];
    let more = fixture.palisade(more).env("CARGO_HOME", &cargo).run();
    let text = more.is_silent(0).text();
    for told in [
        &*format!("settings, {cargo}/registry\n"),
        "devices   pts, and its own terminal as /dev/tty\n",
    ] {
        assert!(text.contains(told), "{told:?} in {text}");
    }
    fixture.write("work/.env", "");
    fixture.make_folder("data");
    let work = fixture.text("work");
    let mut words = vec![
        "explain",
        "-r",
        "data:/data",
        "-w",
        "work",
        "--protect",
        "work/.env",
        "--exec",
        "work",
    ];
    words.extend([
        "-c",
        "tcp://192.0.2.1:443",
        "--listen",
        "tcp://127.0.0.1:8080",
        "--time",
        "10s",
        "-e",
        "A=secret",
    ]);
    words.extend(["--no-system", "--", "/program"]);
    let text = fixture.palisade(words).run().is_silent(0).text();
    let (summary, _) = text.split_once("\n\n").unwrap();
    for line in [
        format!("reads     {} as /data", fixture.text("data")),
        format!(
            "writes    {work}; not {work}/.env; and in a /tmp and /dev/shm of its own, which are gone at the end"
        ),
        format!("executes  what it reads, and of what it can write {work}"),
        "reaches   connects to tcp://192.0.2.1:443, listens at tcp://127.0.0.1:8080".to_owned(),
        "limits    time 10s".to_owned(),
        "variables A HOME LOGNAME PATH USER".to_owned(),
    ] {
        assert!(
            summary.lines().any(|found| found == line),
            "{line:?} in {summary}"
        );
    }
    assert!(!summary.contains("secret"), "{summary}");
}

fn a_line_is_one_whatever_is_in_it(fixture: &Fixture) {
    let name = "x\ny  forged";
    fixture.make_folder(name);
    let plain = fixture.palisade(["explain", "--", "ls", "a"]).run().text();
    let words = ["explain", "--", "ls", "a\nb\n"];
    let broken = fixture.palisade(words).run().is_silent(0).text();
    assert_eq!(plain.lines().count(), broken.lines().count());
    assert!(
        broken.starts_with("program   ls $'a\\nb\\n', behind"),
        "{broken}"
    );
    assert!(broken.contains("\nrun       ls a\\nb\\n\n"), "{broken}");
    let words = ["explain", "-r", name, "-e", "A=b\nc", "--", "ls"];
    let text = fixture.palisade(words).run().is_silent(0).text();
    assert!(text.contains("/x\\ny  forged (ro"), "{text}");
    assert!(
        !text
            .lines()
            .any(|line| line.starts_with("y  forged") || line.starts_with('c')),
        "{text}"
    );
}

/// Those that come from the host or from a file. What was typed is in the list of processes anyway.
fn values_that_may_be_secrets_are_not_printed(fixture: &Fixture) {
    fixture.write("secrets.env", "FROM_FILE=hunter2\n");
    for form in [&["explain"][..], &["explain", "--json"]] {
        let flags = [
            "-e",
            "TOKEN",
            "-e",
            "TYPED=seen",
            "--env-file",
            "secrets.env",
            "--",
            "ls",
        ];
        let call = fixture
            .palisade(form.iter().chain(&flags))
            .env("TOKEN", "hunter2");
        let text = call.env("LANG", "C.UTF-8").run().is_silent(0).text();
        assert!(!text.contains("hunter2"), "{text}");
        for variable in [
            "TOKEN=(not shown)",
            "FROM_FILE=(not shown)",
            "TYPED=seen",
            "LANG=C.UTF-8",
        ] {
            assert!(text.contains(variable), "{variable}: {text}");
        }
    }
}

fn takes_a_list_of_what_may_be_degraded(fixture: &Fixture) {
    let limits = ["explain", "--memory", "1G", "--cpu", "0.5"];
    let explain = |flags: &[&str]| {
        let outcome = fixture
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

fn says_what_is_not_there(fixture: &Fixture) {
    fixture.make_folder("there");
    let flags = ["--read-if-there", "there", "--read-if-there", "absent:/x"];
    let outcome = fixture
        .palisade([&["explain"], &flags[..], &["--", "true"]].concat())
        .run();
    outcome.is_silent(0);
    let said = outcome.text();
    let absent = format!(
        "absent    {} is not there: nothing is granted\n",
        fixture.text("absent")
    );
    assert!(said.contains(&absent), "{said}");
    assert!(
        said.contains(&format!("mount     {} (ro", fixture.text("there"))),
        "{said}"
    );
}

fn names_every_grant(fixture: &Fixture) {
    fixture.write("work/old", "");
    fixture.make_folder("data");
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
    let outcome = fixture.palisade(words).run();
    outcome.is_silent(0);
    let text = outcome.text();
    let work = fixture.text("work");
    for line in [
        "run       ls -l".to_owned(),
        format!("hold      {work}/.env on the host by an empty file"),
        format!(
            "mount     {} at /data (ro,nosuid,nodev)",
            fixture.text("data")
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

fn as_json(fixture: &Fixture) {
    let outcome = fixture
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
            .any(|step| step["step"] == "mount" && step["target"] == fixture.text("")),
        "{plan}"
    );
    assert_eq!(plan["cwd"], fixture.text(""));
}

fn changes_nothing(fixture: &Fixture) {
    fixture.make_folder("work");
    fixture
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
    assert_eq!(fs::read_dir(fixture.path("work")).unwrap().count(), 0);
}

fn refuses_what_run_refuses(fixture: &Fixture) {
    fixture
        .palisade(["explain", "--read", "missing", "--", "ls"])
        .run()
        .refuses(&["policy: ", "does not exist"]);
    fixture
        .palisade(["explain", "--memory", "0", "--", "ls"])
        .run()
        .refuses(&["policy: --memory"]);
    fixture.palisade(["explain"]).run().refuses(&["usage: "]);
}

/// A program that is not there is the guest's matter; the plan says where it would be looked for.
fn needs_no_privilege_of_the_host(fixture: &Fixture) {
    let outcome = fixture
        .palisade(["explain", "--env", "PATH=/a:/b", "--", "absent"])
        .run();
    outcome.is_silent(0);
    assert!(
        outcome.text().contains("/a/absent or /b/absent"),
        "{}",
        outcome.text()
    );
}
