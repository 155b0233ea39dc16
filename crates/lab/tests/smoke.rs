//! Each row from start to end, with hardly any time: that it runs here, that its figures are there
//! and that everything is kept. What the figures say is not looked at: a machine that runs tests is
//! not one to measure on.

use palisade_lab::{
    Options, Outcome, bench, environment,
    figure::Figure,
    jvm,
    rows::{self, Row, osv, rows},
    sample::Run,
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
    run_row(rows::row(row).expect("a row"), out, interrupted)
}

fn run_row(row: &dyn Row, out: &Path, interrupted: bool) -> anyhow::Result<Outcome> {
    let options = Options {
        palisade: palisade(),
        out: out.to_owned(),
        budget: Some(Duration::ZERO),
        command_line: vec!["a test".to_owned()],
        interrupted: Arc::new(AtomicBool::new(interrupted)),
        progress: Box::new(|_| {}),
    };
    bench(row, &options)
}

fn assert_complete(outcome: &Outcome, runs_each_round: usize) {
    assert_eq!(outcome.rounds, 2, "no budget is two rounds");
    let has_figures = |subject: &str| {
        let of_subject = |figure: &&Figure| figure.contender.subject.starts_with(subject);
        let figures: Vec<_> = outcome.figures.iter().filter(of_subject).collect();
        let medians = figures.iter().filter_map(|figure| figure.summary);
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

/// Whether there is a JDK and Maven. Where all tests must run, there must be.
fn has_java() -> bool {
    let answers = |program: &str| Command::new(program).arg("-version").output().is_ok();
    let is_there = answers("javac") && answers("mvn");
    assert!(
        is_there || env::var_os("CI").is_none(),
        "CI needs javac and mvn: tools/setup test"
    );
    if !is_there {
        eprintln!("skipped: javac or mvn is missing (apt-get install default-jdk-headless maven)");
    }
    is_there
}

/// Two of the workloads; all of them would take minutes.
#[test]
fn osv_jvm() {
    static ROW: osv::Jvm = osv::Jvm::of(&["compress", "derby"]);
    if !has_java() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let outcome = run_row(&ROW, out.path(), false).unwrap();
    let is_mean = |figure: &&Figure| figure.contender.workload == "geometric mean";
    let walls = outcome.figures.iter().filter(is_mean).count();
    assert!(walls >= 1, "{outcome}");
    assert_complete(&outcome, 2 * (1 + walls));
    assert!(outcome.environment.tools.contains_key("java"));
}

#[test]
fn every_workload_for_java_is_right_behind_the_wall() {
    if !has_java() {
        return;
    }
    let jar = jvm::jar().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let output = Command::new(palisade())
        .args(["run".as_ref(), "--read".as_ref(), jar.as_os_str()])
        .args(["--write".as_ref(), scratch.path()])
        .args(["--", "java", "-Xmx1g", "-jar"])
        .arg(&jar)
        .args(["check".as_ref(), scratch.path()])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let checked = String::from_utf8(output.stdout).unwrap();
    let checked: Vec<_> = checked.lines().collect();
    assert_eq!(checked, osv::JVM.workloads());
    let left = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 0, "files are left of a database");
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
