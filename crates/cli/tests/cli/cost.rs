//! `palisade cost`, on commands that take no time: that it runs and what it says, not what it measures.

use super::fixture::{Fixture, Outcome, cases, finish, signal};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, io::Read};

cases![
    a_command_that_works_only_once,
    a_script_of_python,
    a_script_in_the_folder,
    figures_as_json,
    samples_are_kept_where_asked,
    a_command_that_fails,
    a_failure_of_the_walls_own_is_no_run,
    a_wasm_file_runs_behind_the_wall_and_in_engines,
    a_command_that_fails_behind_the_wall,
    a_program_that_is_none,
    a_folder_that_is_too_large,
    folders_that_are_not_copied,
    copies_that_take_most_of_the_time,
    words_on_stdout_tell_why,
    limits_hold_behind_the_wall,
    values_of_files_are_nowhere,
    in_the_folder_itself,
    setup_and_cleanup,
    arguments_that_lead_elsewhere,
    flags_that_mean_nothing,
    peers_by_name,
    a_page_with_charts,
    a_page_that_cannot_be_written_is_told_before_anything_runs,
    an_interruption_keeps_what_was_measured,
    an_interruption_before_that_keeps_nothing,
];

/// With little to do and nobody else.
fn cost(fixture: &Fixture, flags: &[&str], command: &[&str]) -> Outcome {
    let few = ["cost", "--runs", "2", "--peers", "none"];
    let words = few.iter().chain(flags).chain(&["--"]).chain(command);
    fixture.palisade(words.copied()).run()
}

#[track_caller]
fn shows(outcome: &Outcome, words: &[&str]) {
    outcome.is_silent(0);
    let text = outcome.text();
    // The command to copy is never cut.
    let mut lines = text.lines().filter(|line| !line.starts_with("  use: "));
    assert!(lines.all(|line| line.chars().count() <= 100), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

/// The second `bzip2 -k` in one folder would fail.
fn a_command_that_works_only_once(fixture: &Fixture) {
    fixture.write("file", "some text\n");
    let outcome = cost(fixture, &[], &["bzip2", "-k", "file"]);
    let words = [
        "cost: bzip2 -k file",
        "2 rounds",
        "granted: write . (each run has a fresh copy",
        "\nbare ",
        "\npalisade run ",
        "palisade run --write . -- bzip2 -k file\n",
    ];
    shows(&outcome, &words);
    let left = fs::read_dir(fixture.path("")).unwrap().count();
    assert_eq!(left, 1, "the folder stays as it is");
}

fn a_script_of_python(fixture: &Fixture) {
    fixture.write("numbers", "1\n2\n");
    fixture.write(
        "add.py",
        "open('sum', 'w').write(str(sum(map(int, open('numbers')))))\n",
    );
    let outcome = cost(fixture, &[], &["python3", "add.py"]);
    shows(&outcome, &["palisade run --write . -- python3 add.py"]);
    assert!(!fixture.exists("sum"));
}

fn a_script_in_the_folder(fixture: &Fixture) {
    fixture.write_program("job.sh", "#!/bin/sh\necho done > result\n");
    let outcome = cost(fixture, &[], &["./job.sh"]);
    shows(
        &outcome,
        &["exec job.sh", "--write . --exec job.sh -- ./job.sh"],
    );
}

/// Not even in what is kept, which people pass on.
fn values_of_files_are_nowhere(fixture: &Fixture) {
    fixture.write("secrets.env", "TOKEN=hunter2\n");
    fixture.write_program("work/job.sh", "#!/bin/sh\n[ ${#TOKEN} = 7 ]\n");
    let (file, program) = (fixture.text("secrets.env"), fixture.program());
    let few = ["cost", "--runs", "2", "--peers", "none", "--out", "../kept"];
    let words = ["--chdir=work", program.to_str().unwrap()].into_iter();
    let words = words
        .chain(few)
        .chain(["--env-file", &file, "--", "./job.sh"]);
    let outcome = fixture.call("/usr/bin/env".as_ref(), words).run();
    shows(&outcome, &[&format!("--env-file {file} -- ./job.sh")]);
    let mut folders = vec![fixture.path("kept")];
    let mut texts = vec![outcome.text()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "gz") => {
                    texts.push(fixture.read_packed(path.to_str().unwrap()));
                }
                false => texts.push(fs::read_to_string(path).unwrap()),
            }
        }
    }
    assert!(texts.len() > 3);
    for text in texts {
        assert!(!text.contains("hunter2"), "{text}");
    }
}

fn figures_as_json(fixture: &Fixture) {
    let outcome = cost(fixture, &["--json"], &["true"]);
    outcome.is_silent(0);
    let all: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let figures = all["figures"].as_array().unwrap();
    for measure in ["wall", "start", "cpu", "memory"] {
        let of = |subject: &str| {
            let mut found = figures.iter().filter(|one| one["measure"] == measure);
            found.any(|one| one["subject"] == subject && one["median"].as_f64() > Some(0.0))
        };
        assert!(of("bare") && of("palisade run"), "{measure} in {all}");
    }
    assert_eq!(
        all["advice"]["command_line"],
        "palisade run --write . -- true"
    );
    assert_eq!(all["advice"]["running"]["too-few"]["rounds"], 2);
}

/// As those of rows are, so that they can be read again.
fn samples_are_kept_where_asked(fixture: &Fixture) {
    let outcome = cost(fixture, &["--out", "kept"], &["true"]);
    shows(&outcome, &["samples: kept/"]);
    let mut runs = fs::read_dir(fixture.path("kept")).unwrap();
    let run = runs.next().unwrap().unwrap().path();
    let kept = |name: &str| fs::read_to_string(run.join("cost").join(name)).unwrap();
    let samples = run.join("cost/samples.jsonl.gz");
    let samples = fixture.read_packed(samples.to_str().unwrap());
    assert_eq!(samples.lines().count(), 4);
    assert_eq!(kept("table.txt"), outcome.text());
    let shown = ["bench", "--from", run.to_str().unwrap()];
    shows(
        &fixture.palisade(shown).run(),
        &["cost: true", "\npalisade run "],
    );
}

fn a_command_that_fails(fixture: &Fixture) {
    let outcome = cost(fixture, &[], &["cat", "nothing"]);
    outcome.refuses(&[
        "guest: cat fails with no wall at all",
        "--ignore-failure",
        "No such file",
    ]);
    shows(
        &cost(fixture, &["--ignore-failure"], &["cat", "nothing"]),
        &["\npalisade run "],
    );
}

/// A refusal of palisade's own is no run of the command.
fn a_failure_of_the_walls_own_is_no_run(fixture: &Fixture) {
    let flags = ["--ignore-failure", "--cwd", "/nowhere"];
    let outcome = cost(fixture, &flags, &["cat", "nothing"]);
    outcome.is(125);
    assert!(outcome.stderr.contains("/nowhere"), "{outcome:?}");
}

/// Beside a program that only looks like wasmtime, for the command line and the table. Nothing runs it with
/// no wall, so nothing is said of what the wall costs.
fn a_wasm_file_runs_behind_the_wall_and_in_engines(fixture: &Fixture) {
    /// `(module (func (export "_start")))`.
    const MODULE: &str = "\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\
                          \x0a\x04\x01\x02\0\x0b";
    fixture.write("empty.wasm", "");
    let refused = cost(fixture, &[], &["./empty.wasm"]);
    refused.refuses(&["guest: empty.wasm fails behind palisade's wall"]);
    fixture.write("filter.wasm", MODULE);
    fixture.write_program(
        "tools/wasmtime",
        "#!/bin/sh\n[ \"$1\" = run ] && [ \"$2\" = --dir ]\n",
    );
    let words = [
        "cost",
        "--runs",
        "2",
        "--peers",
        "wasmtime",
        "--",
        "./filter.wasm",
    ];
    let path = format!("{}:/usr/bin:/bin", fixture.text("tools"));
    let outcome = fixture.palisade(words).env("PATH", &path).run();
    shows(&outcome, &["\npalisade run ", "\nwasmtime "]);
    assert!(!outcome.text().contains("palisade costs"), "{outcome:?}");
}

fn a_command_that_fails_behind_the_wall(fixture: &Fixture) {
    fixture.make_folder("elsewhere");
    fixture.make_folder("here");
    let target = fixture.text("elsewhere/file");
    let script = format!("echo x > {target}");
    let run = |flags: &[&str]| {
        let few = ["cost", "--runs", "2", "--peers", "none"];
        let command = ["--", "sh", "-c", &script];
        let words = few.iter().chain(flags).chain(&command);
        let mut call = fixture.palisade(words);
        call.command.current_dir(fixture.path("here"));
        call.run()
    };
    run(&[]).refuses(&[
        "guest: sh runs with no wall and fails behind palisade's",
        "--write",
    ]);
    let granted = fixture.text("elsewhere");
    shows(
        &run(&["--write", &granted]),
        &[&format!("--write {granted} --write .")],
    );
}

fn a_program_that_is_none(fixture: &Fixture) {
    fixture.make_folder("folder");
    fixture.write("plain", "text");
    let says = |program: &str, code: i32, words: &[&str]| {
        cost(fixture, &[], &[program]).says(code, words);
    };
    says(
        "no-such-program",
        127,
        &["guest: no-such-program was not found"],
    );
    says("./nothing", 127, &["guest: ./nothing was not found"]);
    says("plain", 127, &["write ./plain"]);
    says(
        "./plain",
        126,
        &["guest: ./plain cannot be executed", "chmod +x"],
    );
    says(
        "./folder",
        126,
        &["guest: ./folder cannot be executed: it is a folder"],
    );
    let nothing = fixture.palisade(["cost"]).run();
    nothing.refuses(&["usage: ", "PROGRAM"]);
}

fn a_folder_that_is_too_large(fixture: &Fixture) {
    fixture.write("large", "");
    let file = fs::File::options().write(true).open(fixture.path("large"));
    file.unwrap().set_len(2 << 30).unwrap();
    cost(fixture, &[], &["true"]).refuses(&["usage: ", "more than 1024 MiB", "--in-place"]);
    shows(
        &cost(fixture, &["--in-place"], &["true"]),
        &["granted: write .\n"],
    );
}

fn folders_that_are_not_copied(fixture: &Fixture) {
    let run = |folder: &str, home: &str| {
        let mut call = fixture.palisade(["cost", "--peers", "none", "--", "true"]);
        call.command.current_dir(folder).env("HOME", home);
        call.run()
    };
    run("/usr", "/nowhere").refuses(&["usage: /usr is a folder of the system", "--in-place"]);
    let here = fixture.text("");
    run(&here, &here).refuses(&["usage: ", "is your home", "--cleanup"]);
}

/// Copying them takes longer than to start a program that does nothing, in whatever build.
fn copies_that_take_most_of_the_time(fixture: &Fixture) {
    for number in 0..3000 {
        fixture.write(&format!("{}/{number}", number % 10), "");
    }
    // Each run makes the next one copy all of it again.
    let command = ["sh", "-c", "exec rm -r [0-9]"];
    let outcome = cost(fixture, &["--json"], &command);
    outcome.is_silent(0);
    let all: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let warnings = all["warnings"].as_array().unwrap();
    let told = warnings
        .iter()
        .find(|one| one["text"].to_string().contains("--in-place"));
    assert!(told.is_some(), "{warnings:?}");
}

/// As those of compilers and test runners.
fn words_on_stdout_tell_why(fixture: &Fixture) {
    let failing = ["sh", "-c", "echo the module is missing; exit 2"];
    let outcome = cost(fixture, &[], &failing);
    outcome.refuses(&["fails with no wall at all", "the module is missing"]);
    let setup = ["--setup", "echo no room; exit 2"];
    cost(fixture, &setup, &["true"]).refuses(&["--setup: exit status: 2: no room"]);
    // What fails only later, when nobody listens to stdout.
    let third = "echo x >> log; test $(wc -l < log) -lt 4 || { echo three are enough; exit 2; }";
    let later = cost(fixture, &["--in-place"], &["sh", "-c", third]);
    later.refuses(&["its stdout is thrown away"]);
}

fn limits_hold_behind_the_wall(fixture: &Fixture) {
    let other_than_32 = ["sh", "-c", "test $(ulimit -n) != 32"];
    let limited = cost(fixture, &["--files", "32"], &other_than_32);
    limited.refuses(&["sh runs with no wall and fails behind palisade's"]);
    let words = ["limits: --files 33", "palisade run --write . --files 33 --"];
    shows(&cost(fixture, &["--files", "33"], &other_than_32), &words);
    // The one limit whose flag is the measuring's own.
    fixture.write("policy.toml", "[limits]\ntime = \"100ms\"\n");
    let slow = cost(fixture, &["--policy", "policy.toml"], &["sleep", "0.4"]);
    slow.refuses(&["sleep runs with no wall and fails behind palisade's"]);
}

fn in_the_folder_itself(fixture: &Fixture) {
    fixture.write("file", "some text\n");
    let twice = cost(fixture, &["--in-place"], &["bzip2", "-k", "file"]);
    twice.refuses(&["guest: bzip2 runs with no wall and fails", "already exists"]);
    fs::remove_file(fixture.path("file.bz2")).unwrap();
    let flags = ["--in-place", "--cleanup", "rm file.bz2"];
    shows(
        &cost(fixture, &flags, &["bzip2", "-k", "file"]),
        &["granted: write .\n"],
    );
    assert!(!fixture.exists("file.bz2"));
}

fn setup_and_cleanup(fixture: &Fixture) {
    let log = fixture.text("log");
    let note = |word: &str| format!("echo {word} >> {log}");
    let flags = ["--setup", &note("before"), "--cleanup", &note("after")];
    shows(&cost(fixture, &flags, &["true"]), &[]);
    let said = fixture.read("log");
    assert_eq!(
        said,
        "before\nafter\n".repeat(6),
        "tried once and two rounds, of two"
    );
    let failing = cost(fixture, &["--setup", "echo no >&2; exit 3"], &["true"]);
    failing.refuses(&["palisade: usage: --setup: exit status: 3: no"]);
}

fn arguments_that_lead_elsewhere(fixture: &Fixture) {
    fixture.write("other/file", "text");
    fixture.make_folder("here");
    let words = [
        "cost",
        "--runs",
        "2",
        "--peers",
        "none",
        "--",
        "cat",
        "../other/file",
    ];
    let mut call = fixture.palisade(words);
    call.command.current_dir(fixture.path("here"));
    let file = fixture.text("other/file");
    let outcome = call.run();
    outcome.is_silent(0);
    let (text, granted) = (outcome.text(), format!("--read {file}"));
    assert!(
        text.contains(&format!("../other/file is given as {file}").replace('\n', " "))
            || text.contains("../other/file is given as"),
        "{text}"
    );
    assert!(text.contains(&granted), "{text}");
}

fn flags_that_mean_nothing(fixture: &Fixture) {
    for (flags, words) in [
        (["--runs", "1"], ["--runs", "2 is the least"]),
        (["--runs", "many"], ["--runs", "many"]),
        (["--time", "12 parsecs"], ["--time", "parsecs"]),
        (["--peers", "docker"], ["--peers", "docker"]),
        (["--peers", "none,bubblewrap"], ["--peers", "none"]),
        (["--memory", "much"], ["--memory", "much"]),
        (["--read", "nothing"], ["nothing", "does not exist"]),
    ] {
        let all = ["cost"]
            .iter()
            .chain(&flags)
            .chain(&["--", "true"])
            .copied();
        fixture.palisade(all).run().refuses(&words);
    }
}

fn peers_by_name(fixture: &Fixture) {
    let words = ["cost", "--runs", "2", "--peers", "bubblewrap", "--", "true"];
    let outcome = fixture.palisade(words).run();
    shows(&outcome, &["\nbubblewrap "]);
    assert!(!outcome.text().contains("\nfirejail "));
}

/// Interrupts when two rounds are over: everybody has been tried once, two have run twice since, and
/// the next one begins.
fn interrupted_in_the_third_round(fixture: &Fixture, flags: &[&str]) -> Outcome {
    const EVENT: &str = "run\n";
    fixture.make_fifo("events");
    // Open both ways: no writer waits, and there is no end between two of them.
    let mut both_ways = fs::File::options();
    both_ways.read(true).write(true);
    let mut events = both_ways.open(fixture.path("events")).unwrap();
    let setup = format!("echo run > {}", fixture.text("events"));
    let words = ["cost", "--peers", "none", "--time", "1m", "--setup", &setup];
    let words = words.iter().chain(flags).chain(&["--", "true"]);
    let child = fixture.palisade(words).spawn();
    events.read_exact(&mut [0; EVENT.len() * 7]).unwrap();
    signal(&child, Signal::INT);
    finish(child, &[])
}

fn an_interruption_keeps_what_was_measured(fixture: &Fixture) {
    let outcome = interrupted_in_the_third_round(fixture, &[]);
    outcome.is(130);
    assert!(outcome.text().contains("\npalisade run "), "{outcome:?}");
}

fn an_interruption_before_that_keeps_nothing(fixture: &Fixture) {
    let outcome = interrupted_in_the_third_round(fixture, &["--warm-up", "1000"]);
    outcome.says(130, &["interrupted before the first round was complete"]);
    assert_eq!(outcome.text(), "");
}

fn a_page_with_charts(fixture: &Fixture) {
    let outcome = cost(fixture, &["--html", "page.html"], &["echo", "<b>"]);
    assert!(
        outcome.stderr.contains("the page is page.html"),
        "{outcome:?}"
    );
    let page = fixture.read("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
    assert!(page.contains("echo &lt;b&gt;") && !page.contains("<b>echo"));
}

fn a_page_that_cannot_be_written_is_told_before_anything_runs(fixture: &Fixture) {
    let flags = ["--in-place", "--html", "nowhere/page.html"];
    let outcome = cost(fixture, &flags, &["touch", "ran"]);
    outcome.refuses(&["host: --html: cannot write nowhere/page.html"]);
    assert!(!fixture.exists("ran"));
}
