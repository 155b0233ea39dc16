//! Each row from start to end, with hardly any time: that it runs here, that its figures are there
//! and that everything is kept. What the figures say is not looked at: a machine that runs tests is
//! not one to measure on.

use palisade_lab::{
    Options, Outcome, bench, environment,
    figure::{Figure, Verdict},
    rows::{self, Extent, rows},
    sample::{Run, Unit},
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

/// `$PALISADE_BIN`, or the binary that cargo builds of this source, in this profile.
fn palisade() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let own = env::current_exe().expect("a path of this test");
        let folder = own.ancestors().nth(2).expect("target/TRIPLE/PROFILE/deps");
        let is_release = folder.file_name().is_some_and(|name| name == "release");
        let status = Command::new(env::var_os("CARGO").expect("set by cargo"))
            .args(["build", "--quiet", "--package", "palisade-cli"])
            .args(is_release.then_some("--release"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "palisade does not build");
        folder.join("palisade")
    };
    let given = env::var_os("PALISADE_BIN").map(PathBuf::from);
    given.unwrap_or_else(|| BUILT.get_or_init(build).clone())
}

fn run(row: &str, out: &Path, interrupted: bool) -> anyhow::Result<Outcome> {
    let options = Options {
        palisade: palisade(),
        out: out.to_owned(),
        budget: Some(Duration::ZERO),
        extent: Extent::Tiny,
        command_line: vec!["a test".to_owned()],
        interrupted: Arc::new(AtomicBool::new(interrupted)),
        progress: Box::new(|_| {}),
    };
    bench(rows::row(row).expect("a row"), &options)
}

fn assert_complete(outcome: &Outcome, runs_each_round: usize) {
    assert_eq!(outcome.rounds, 2, "no budget is two rounds");
    let has_figures = |subject: &str| {
        let of_subject = |figure: &&Figure| figure.contender.subject.starts_with(subject);
        let figures: Vec<_> = outcome.figures.iter().filter(of_subject).collect();
        // Of counts, none is a figure too.
        let measured = figures.iter().filter(|figure| figure.unit != Unit::Count);
        let medians = measured.filter_map(|figure| figure.summary);
        !figures.is_empty() && medians.into_iter().all(|summary| summary.median > 0.0)
    };
    assert!(has_figures("bare") && has_figures("palisade run"));
    let text = outcome.to_string();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );

    let kept = |name: &str| fs::read_to_string(outcome.folder.join(name)).expect(name);
    assert_eq!(kept("table.txt"), text);
    assert!(kept("environment.json").contains("\"a test\""));
    assert!(kept("summary.json").contains("\"figures\""));
    let runs: Vec<Run> = kept("samples.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).expect("a run"))
        .collect();
    assert_eq!(
        runs.iter().filter(|run| !run.warm_up).count(),
        2 * runs_each_round
    );
}

fn has_bubblewrap(outcome: &Outcome) -> bool {
    outcome
        .figures
        .iter()
        .any(|figure| figure.contender.subject == "bubblewrap")
}

#[test]
fn start() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("start", out.path(), false).unwrap();
    assert_complete(&outcome, if has_bubblewrap(&outcome) { 10 } else { 8 });
    for subject in ["library, cold", "library, keeper up", "library, parked"] {
        assert!(
            outcome
                .figures
                .iter()
                .any(|figure| figure.contender.subject == subject),
            "{subject}"
        );
    }
    let (_, steps) = outcome.tables.last().expect("the steps");
    assert!(steps.to_string().contains("program-running"), "{steps}");
}

#[test]
fn osv_boot() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("osv-boot", out.path(), false).unwrap();
    assert_complete(&outcome, if has_bubblewrap(&outcome) { 4 } else { 3 });
}

#[test]
fn counts() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("counts", out.path(), false).unwrap();
    assert_complete(&outcome, if has_bubblewrap(&outcome) { 4 } else { 3 });
    for who in ["command", "keeper", "init", "guest"] {
        let of_palisade =
            |one: &&Figure| one.contender.subject == "palisade run" && one.measure == who;
        let figure = outcome.figures.iter().find(of_palisade).expect(who);
        assert!(
            figure.summary.is_some_and(|it| it.median > 0.0),
            "{outcome}"
        );
    }
}

#[test]
fn syscalls() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("syscalls", out.path(), false).unwrap();
    assert_complete(&outcome, if has_bubblewrap(&outcome) { 4 } else { 3 });
    assert!(outcome.environment.pinned_to.is_some());
}

#[test]
fn rows_of_operations() {
    let out = tempfile::tempdir().unwrap();
    for row in ["mk-2", "mk-3", "mk-6", "mk-7", "sva-f4"] {
        let outcome = run(row, out.path(), false).unwrap();
        assert_complete(&outcome, if has_bubblewrap(&outcome) { 3 } else { 2 });
    }
}

#[test]
fn rows_of_memory() {
    let out = tempfile::tempdir().unwrap();
    for row in ["mk-8", "mk-9"] {
        let outcome = run(row, out.path(), false).unwrap();
        assert_complete(&outcome, if has_bubblewrap(&outcome) { 3 } else { 2 });
        let (_, parts) = outcome.tables.last().expect("who holds it");
        let keepers = parts.to_string().matches("palisade-keeper").count();
        assert_eq!(keepers, 2, "a keeper and an init: {parts}");
    }
}

#[test]
fn a_row_of_conformance() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("mk-1", out.path(), false).unwrap();
    assert_complete(&outcome, 2);
    let differences = outcome
        .figures
        .iter()
        .find(|one| one.measure == "differences");
    let differences = differences.and_then(|figure| figure.verdict);
    assert_eq!(differences, Some(Verdict::Pass), "{outcome}");
}

#[test]
fn rows_of_whole_programs() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("sva-t3", out.path(), false).unwrap();
    let contenders = if has_bubblewrap(&outcome) { 3 } else { 2 };
    assert_complete(&outcome, 3 * contenders);
    let text = outcome.to_string();
    for program in ["bzip2 of 256 KB", "lame of 824 KB", "perl of 64 KB"] {
        assert!(text.contains(program), "{text}");
    }
}

#[test]
fn an_interruption_leaves_no_figures_of_an_unfinished_round() {
    let out = tempfile::tempdir().unwrap();
    let error = run("start", out.path(), true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "interrupted before the first round was complete"
    );
}

#[test]
fn without_palisade_the_first_run_says_so() {
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        palisade: "/nowhere/palisade".into(),
        out: out.path().to_owned(),
        budget: Some(Duration::ZERO),
        extent: Extent::Tiny,
        command_line: Vec::new(),
        interrupted: Arc::default(),
        progress: Box::new(|_| {}),
    };
    let error = bench(rows::row("syscalls").expect("a row"), &options).unwrap_err();
    let text = format!("{error:#}");
    assert!(
        text.contains("/nowhere/palisade") && text.contains("No such file"),
        "{text}"
    );
}

#[test]
fn rows_have_names_of_their_own() {
    let names = rows().map(|row| row.name());
    assert!(
        names
            .iter()
            .all(|name| rows::row(name).is_some_and(|row| row.name() == *name))
    );
    assert!(rows::row("nothing").is_none());
}

#[test]
fn the_machine_is_described() {
    assert!(
        environment::Environment::of_this_machine()
            .time
            .ends_with('Z')
    );
}
