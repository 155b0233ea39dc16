//! Help, manual page, completions, doctor: what palisade says of itself.

use super::fixture::{Fixture, User, cases};
use serde_json::Value;
use std::fs;

cases![
    help_for_newcomers,
    help_of_run_has_every_exit_code,
    version,
    short_forms,
    completions_are_scripts,
    bash_completes,
    manual_page,
    every_flag_is_in_the_manual,
    doctor,
    doctor_as_json,
    doctor_without_namespaces,
];

fn help_for_newcomers(fixture: &Fixture) {
    for words in [&["--help"][..], &["-h"], &["help"]] {
        let outcome = fixture.palisade(words).run();
        outcome.is_silent(0);
        for word in [
            "Examples:",
            "palisade run",
            "palisade doctor",
            "explain",
            "why",
            "completions",
            "man",
        ] {
            assert!(outcome.text().contains(word), "{word}: {outcome:?}");
        }
    }
    let nothing_typed = fixture.palisade([""; 0]).run();
    nothing_typed.is(125);
    assert!(nothing_typed.stderr.contains("Examples:"));
}

fn help_of_run_has_every_exit_code(fixture: &Fixture) {
    let text = fixture
        .palisade(["run", "--help"])
        .run()
        .is_silent(0)
        .text();
    for code in ["124", "125", "126", "127", "128+n", "137", "152", "153"] {
        assert!(text.contains(&format!("\n  {code} ")), "{code}: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

fn version(fixture: &Fixture) {
    let wanted = format!("palisade {}\n", env!("CARGO_PKG_VERSION"));
    fixture.palisade(["--version"]).run().prints(&wanted);
}

/// The commonest flags have one, and it does the same.
fn short_forms(fixture: &Fixture) {
    fixture.write("data", "read\n");
    fixture.make_folder("out");
    fixture.write("policy.toml", "[limits]\nfiles = 64\n");
    let words = [
        "run",
        "-r",
        "data",
        "-w",
        "out",
        "-e",
        "A=1",
        "-c",
        "tcp://192.0.2.1:9",
        "-p",
        "policy.toml",
        "--",
        "/bin/sh",
        "-c",
        "cat data; echo $A > out/a; ulimit -n",
    ];
    fixture.palisade(words).run().prints("read\n64\n");
    assert_eq!(fixture.read("out/a"), "1\n");
    let help = fixture.palisade(["run", "-h"]).run().text();
    let page = fixture.palisade(["man"]).run().text().replace("\\-", "-");
    for (short, long) in [
        ("-p", "policy"),
        ("-r", "read"),
        ("-w", "write"),
        ("-e", "env"),
        ("-c", "connect"),
    ] {
        assert!(help.contains(&format!("{short}, --{long}")), "{help}");
        assert!(page.contains(short), "{short}");
    }
}

fn completions_are_scripts(fixture: &Fixture) {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = fixture
            .palisade(["completions", shell])
            .run()
            .is_silent(0)
            .text();
        for word in [
            "run",
            "explain",
            "why",
            "doctor",
            "protect",
            "allow-degraded",
        ] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    fixture
        .palisade(["completions", "cmd.exe"])
        .run()
        .refuses(&["usage: ", "cmd.exe"]);
    let script = fixture.palisade(["completions", "bash"]).run().text();
    fixture.write("palisade.bash", &script);
    fixture
        .call("/bin/bash".as_ref(), ["-n", "palisade.bash"])
        .run()
        .is_silent(0);
}

fn bash_completes(fixture: &Fixture) {
    let script = fixture.palisade(["completions", "bash"]).run().text();
    fixture.write("palisade.bash", &script);
    let complete = "source ./palisade.bash; COMP_WORDS=(palisade run --pro); COMP_CWORD=2; \
                    _palisade palisade --pro run; printf '%s\\n' \"${COMPREPLY[@]}\" | sort";
    fixture
        .call("/bin/bash".as_ref(), ["-c", complete])
        .run()
        .prints("--processes\n--profile\n--protect\n");
}

/// Only macros of man(7) and groff(7) that every formatter knows.
fn manual_page(fixture: &Fixture) {
    let page = fixture.palisade(["man"]).run().is_silent(0).text();
    let known = [
        "TH", "SH", "PP", "TP", "br", "nf", "fi", "RS", "RE", "IP", "ie", "el", "ds", "if",
    ];
    for line in page.lines().filter(|line| line.starts_with('.')) {
        let request = line[1..].split([' ', '\\']).next().unwrap();
        assert!(known.contains(&request), "{line}");
    }
    let sections: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".SH "))
        .collect();
    for section in [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "GRANTS",
        "LIMITS",
        "\"EXIT CODES\"",
        "EXAMPLES",
    ] {
        assert!(sections.contains(&section), "{section} in {sections:?}");
    }
    assert!(
        page.lines().any(|line| line.starts_with(".TH palisade 1")),
        "{page}"
    );
}

fn every_flag_is_in_the_manual(fixture: &Fixture) {
    let help = fixture.palisade(["run", "--help"]).run().text();
    let page = fixture.palisade(["man"]).run().text().replace("\\-", "-");
    let flags: Vec<_> = help
        .lines()
        .filter_map(|line| {
            let line = line.trim_start();
            let line = line.split_once(", ").map_or(line, |(_, long)| long);
            line.strip_prefix("--")
        })
        .collect();
    assert!(flags.len() > 20, "{flags:?}");
    for flag in flags {
        let name = flag.split(' ').next().unwrap();
        assert!(page.contains(&format!("--{name}")), "{name}");
    }
}

/// The cases of this suite run behind the full wall, so the doctor must say that it is there.
fn doctor(fixture: &Fixture) {
    let outcome = fixture.palisade(["doctor"]).run();
    outcome.is_silent(0);
    let text = outcome.text();
    let tier = match fixture.user {
        User::Root => "tier     privileged",
        User::Ordinary => "tier     user namespace",
    };
    assert!(text.starts_with(tier), "{text}");
    assert!(text.contains("\nok       namespaces"), "{text}");
    assert!(
        text.ends_with("`palisade run` works here with the full wall.\n"),
        "{text}"
    );
    assert_eq!(
        fs::read_dir(fixture.path("")).unwrap().count(),
        0,
        "nothing is left of the trial"
    );
}

fn doctor_as_json(fixture: &Fixture) {
    let outcome = fixture.palisade(["doctor", "--json"]).run();
    outcome.is_silent(0);
    let all: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(all["full_wall"], true);
    assert_eq!(all["facts"]["trial"], "stood");
    let names: Vec<_> = all["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|finding| finding["name"].as_str())
        .collect();
    for name in [
        "kernel",
        "namespaces",
        "Landlock",
        "seccomp",
        "memory",
        "cpu",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}

/// In a user namespace that allows no further one: there the real trial fails.
fn doctor_without_namespaces(fixture: &Fixture) {
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let here = |words: &[&str]| {
        let outer = ["--user", "--map-root-user", "/bin/sh", "-c", forbid, "sh"];
        let program = fixture.program().to_str().unwrap();
        let words = outer
            .into_iter()
            .chain([program])
            .chain(words.iter().copied());
        fixture.call("/usr/bin/unshare".as_ref(), words).run()
    };
    let diagnosis = here(&["doctor"]);
    diagnosis.is_silent(1);
    let text = diagnosis.text();
    for words in [
        "\nmissing  namespaces",
        "user.max_user_namespaces = ",
        "--allow-degraded namespaces",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    here(&["run", "--", "/bin/true"]).says(125, &["host: ", "palisade doctor"]);
    here(&[
        "run",
        "--allow-degraded",
        "namespaces",
        "--",
        "/bin/echo",
        "less",
    ])
    .prints("less\n");
}
