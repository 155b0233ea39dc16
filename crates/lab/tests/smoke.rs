//! Each row from start to end, with hardly any time: that it runs here, that its figures are there
//! and that everything is kept. What the figures say is not looked at: a machine that runs tests is
//! not one to measure on.

use palisade_lab::{
    KeptRun, Options, Outcome, bench, environment,
    figure::{Figure, Verdict},
    jvm,
    rows::{self, Extent, Row, osv, rows},
    sample::Unit,
    subjects::{PEERS, peer},
};
use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The command, and what lies beside it.
const PROGRAMS: [&str; 7] = [
    "palisade-cli",
    "palisade-engine",
    "palisade-compiler",
    "palisade-host",
    "palisade-oci",
    "palisade-lab-calls",
    "palisade-lab-load",
];

/// `$PALISADE_BIN`, or the binary that cargo builds of this source, in this profile.
fn palisade() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let own = env::current_exe().expect("a path of this test");
        let folder = own.ancestors().nth(2).expect("target/TRIPLE/PROFILE/deps");
        let is_release = folder.file_name().is_some_and(|name| name == "release");
        let status = Command::new(env::var_os("CARGO").expect("set by cargo"))
            .args(["build", "--quiet"])
            .args(PROGRAMS.iter().flat_map(|name| ["--package", name]))
            .args(is_release.then_some("--release"))
            .status()
            .expect("cargo runs");
        assert!(status.success(), "palisade does not build");
        folder.join("palisade")
    };
    let given = env::var_os("PALISADE_BIN").map(PathBuf::from);
    given.unwrap_or_else(|| BUILT.get_or_init(build).clone())
}

fn options(out: &Path, interrupted: bool) -> Options {
    Options {
        palisade: palisade(),
        out: out.to_owned(),
        budget: Some(Duration::ZERO),
        patience: 1,
        peers: Some(peer("bubblewrap").into_iter().collect()),
        extent: Extent::Tiny,
        command_line: vec!["a test".to_owned()],
        interrupted: Arc::new(AtomicBool::new(interrupted)),
        progress: Box::new(|_| {}),
        show: Box::new(|_| Ok(())),
    }
}

fn named(row: &str) -> &'static Row {
    rows::row(row).expect("a row")
}

fn run(row: &str, out: &Path) -> anyhow::Result<Outcome> {
    run_row(named(row), out)
}

/// A row's outcome; its failure is an error.
fn run_row(row: &Row, out: &Path) -> anyhow::Result<Outcome> {
    let outcomes = bench(&[row], &options(out, false))?;
    let outcome = outcomes.rows.into_iter().next().expect("an outcome");
    match &outcome.failed {
        Some(reason) => anyhow::bail!("{reason}"),
        None => Ok(outcome),
    }
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

    let text_of = |name: &str| fs::read_to_string(outcome.folder.join(name)).expect(name);
    assert_eq!(text_of("table.txt"), text);
    assert!(text_of("../environment.json").contains("\"a test\""));
    assert!(text_of("../README.md").contains(&format!("| [{0}]({0}) |", outcome.row)));
    assert_is_read_again(outcome, runs_each_round);
}

/// What stands in the folder is what was measured.
fn assert_is_read_again(outcome: &Outcome, runs_each_round: usize) {
    let kept = KeptRun::read(&outcome.folder).expect("a run");
    assert_eq!(kept.environment, outcome.environment);
    let [row] = &kept.rows[..] else {
        panic!("not one row: {kept:?}");
    };
    assert_eq!(row.outcome.figures, outcome.figures);
    assert_eq!(row.outcome.to_string(), outcome.to_string());
    let samples = &row.samples;
    assert_eq!(
        (samples.rounds(), samples.contenders().len()),
        (2, runs_each_round)
    );
}

/// How many peers ran a workload.
fn peers(outcome: &Outcome, workload: &str) -> usize {
    let measures = |name: &str| {
        let mut contenders = outcome.figures.iter().map(|figure| &figure.contender);
        contenders.any(|one| one.subject == name && one.workload == workload)
    };
    let names = PEERS.iter().flat_map(|peer| {
        let same_view = format!("{}, same view", peer.name);
        [peer.name.to_owned(), same_view]
    });
    names.filter(|name| measures(name)).count()
}

/// How many floors ran a workload.
fn floors(outcome: &Outcome, workload: &str) -> usize {
    let figures = outcome.figures.iter().map(|figure| &figure.contender);
    let floors = figures.filter(|one| one.workload == workload && one.subject.starts_with("floor"));
    floors
        .map(|one| &one.subject)
        .collect::<BTreeSet<_>>()
        .len()
}

/// How many ways of palisade's ran a WebAssembly program as that workload.
fn wasm_walls(outcome: &Outcome, workload: &str) -> usize {
    let is_one = |subject: &str| ["palisade run, wasm", "palisade run, cold"].contains(&subject);
    let figures = outcome.figures.iter().map(|figure| &figure.contender);
    let walls = figures.filter(|one| one.workload == workload && is_one(&one.subject));
    walls.map(|one| &one.subject).collect::<BTreeSet<_>>().len()
}

#[test]
fn start() {
    let out = tempfile::tempdir().unwrap();
    // Beside everybody who is installed; the other rows take one, for time's sake.
    let everybody = Options {
        peers: None,
        ..options(out.path(), false)
    };
    let outcomes = bench(&[named("start")], &everybody).unwrap();
    let outcome = &outcomes.rows[0];
    let workloads = ["static true", "/usr/bin/true", "WebAssembly true"];
    let peers: usize = workloads.iter().map(|one| peers(outcome, one)).sum();
    let floors = workloads.map(|one| floors(outcome, one));
    assert_eq!(
        floors,
        [4, 2, 0],
        "each with a whole wall, and both parked: {outcome}"
    );
    assert_complete(
        outcome,
        17 + peers + wasm_walls(outcome, "WebAssembly true"),
    );
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
fn watch() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("watch", out.path()).unwrap();
    let has_strace = Command::new("strace").arg("-V").output().is_ok();
    // Bare, behind the wall, watched, the floor.
    assert_complete(&outcome, 2 * (4 + usize::from(has_strace)));
}

#[test]
fn learn() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("learn", out.path()).unwrap();
    for subject in ["bare", "palisade learn"] {
        let of_subject = |figure: &&Figure| figure.contender.subject == subject;
        let figure = outcome.figures.iter().find(of_subject).expect(subject);
        assert!(
            figure.summary.is_some_and(|it| it.median > 0.0),
            "{outcome}"
        );
    }
    let text = outcome.to_string();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn osv_boot() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("osv-boot", out.path()).unwrap();
    let wasm = wasm_walls(&outcome, "main");
    assert_eq!(wasm == 1, has_wasi(), "{outcome}");
    assert_eq!(floors(&outcome, "main"), 4, "{outcome}");
    assert_complete(&outcome, 8 + wasm + peers(&outcome, "main"));
}

#[test]
fn counts() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("counts", out.path()).unwrap();
    assert_complete(&outcome, 3 + peers(&outcome, "static true"));
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
    let outcome = run("syscalls", out.path()).unwrap();
    let wasm = wasm_walls(&outcome, "syscalls");
    assert_eq!(wasm == 1, has_wasi(), "{outcome}");
    assert_eq!(floors(&outcome, "syscalls"), 2, "{outcome}");
    assert_complete(&outcome, 5 + wasm + peers(&outcome, "syscalls"));
    assert!(outcome.pinned_to.is_some());
}

#[test]
fn rows_of_operations() {
    let out = tempfile::tempdir().unwrap();
    for row in ["mk-2", "mk-3", "mk-6", "mk-7", "sva-f4"] {
        let outcome = run(row, out.path()).unwrap();
        let wasm = wasm_walls(&outcome, row);
        // WASI has no threads.
        assert_eq!(wasm == 1, row != "mk-6" && has_wasi(), "{outcome}");
        assert_eq!(floors(&outcome, row), 1, "{outcome}");
        assert_complete(&outcome, 3 + wasm + peers(&outcome, row));
        assert!(outcome.to_string().contains("\n  × floor"), "{outcome}");
    }
}

/// A tool that never ends costs a row seconds, and leaves nothing that runs.
#[test]
fn a_peer_that_hangs_is_left_out() {
    let out = tempfile::tempdir().unwrap();
    let tool = out.path().join("bwrap");
    fs::write(&tool, "#!/bin/sh\necho $$ >>\"$0.pids\"\nsleep 600\n").unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    let folders = format!("{}:/usr/bin:/bin", out.path().display());
    let ran = Command::new(env!("CARGO_BIN_EXE_palisade-lab"))
        .arg(palisade())
        .args([
            "bench",
            "mk-6",
            "--time",
            "1ms",
            "--peers",
            "bubblewrap",
            "--out",
        ])
        .arg(out.path())
        .env("PATH", folders)
        .output()
        .unwrap();
    let [said, complaint] = [&ran.stdout, &ran.stderr].map(|one| String::from_utf8_lossy(one));
    assert!(ran.status.success(), "{said}{complaint}");
    assert!(
        said.contains("left out: bubblewrap did not end within 10 s"),
        "{said}"
    );
    let pids = fs::read_to_string(out.path().join("bwrap.pids")).unwrap();
    let is_there = |pid: &&str| Path::new("/proc").join(pid).exists();
    assert_eq!(pids.lines().find(is_there), None);
}

/// Whether a program is there. Where all tests must run, it must be.
fn has_program(program: &str, package: &str) -> bool {
    let places = ["/usr/bin", "/usr/sbin", "/usr/local/bin"].map(Path::new);
    let is_there = places.iter().any(|place| place.join(program).is_file());
    assert!(
        is_there || env::var_os("CI").is_none(),
        "CI needs {program}: tools/setup test"
    );
    if !is_there {
        eprintln!("skipped: {program} is missing (apt-get install {package})");
    }
    is_there
}

/// Whether C can be compiled to WebAssembly.
fn has_wasi() -> bool {
    has_program(
        "clang-19",
        "clang-19 lld-19 wasi-libc libclang-rt-19-dev-wasm32",
    )
}

/// Whether the sources of other people's programs were fetched; they need the network once.
fn has_sources() -> bool {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = cache.or(home).map(|cache| cache.join("palisade/sources"));
    let is_there = folder.is_some_and(|folder| folder.is_dir());
    if !is_there {
        eprintln!("skipped: the sources of bzip2 and lame are missing (lab/sources/fetch)");
    }
    is_there
}

#[test]
fn calls_within_a_process() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("kp-5", out.path()).unwrap();
    let (to_floor, own): (Vec<_>, Vec<_>) =
        outcome.figures.iter().partition(|one| one.is_to_floor());
    assert_eq!(
        (outcome.rounds, own.len(), to_floor.len()),
        (2, 6 * 18 + 5 * 2, 4)
    );
    let is_time = |figure: &&Figure| figure.summary.is_some_and(|it| it.median > 0.0);
    assert!(own.iter().all(is_time), "{outcome}");
    assert!(outcome.pinned_to.is_some());
    assert_is_read_again(&outcome, 6 + 5);
}

/// Pictures in a guest, beside the same natively.
#[test]
fn pictures_within_a_process() {
    if !has_wasi() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let outcome = run("kp-x", out.path()).unwrap();
    let is_time =
        |figure: &Figure| figure.is_to_floor() || figure.summary.is_some_and(|it| it.median > 0.0);
    assert_eq!((outcome.rounds, outcome.figures.len()), (2, 4 * (3 + 1)));
    assert!(outcome.figures.iter().all(is_time), "{outcome}");
    assert_is_read_again(&outcome, 3);
}

/// nginx with no wall and behind each, one request after the other in turn.
#[test]
fn a_row_of_answers_in_turn() {
    if !has_program("nginx", "nginx-light") {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let outcome = run("kp-6", out.path()).unwrap();
    assert_eq!(floors(&outcome, "kp-6"), 1, "{outcome}");
    assert_complete(&outcome, 3 + peers(&outcome, "kp-6"));
}

/// Every contender has figures, and nothing was lost on the way.
fn assert_served(row: &str, ours: &[&str]) -> Outcome {
    let out = tempfile::tempdir().unwrap();
    let outcome = run(row, out.path()).unwrap();
    assert_eq!(outcome.rounds, 2, "no budget is two rounds");
    for subject in ours {
        let of_subject = |figure: &&Figure| figure.contender.subject == *subject;
        let mut figures = outcome.figures.iter().filter(of_subject);
        let has_median = |figure: &Figure| figure.summary.is_some_and(|it| it.median > 0.0);
        assert!(figures.any(has_median), "{subject}: {outcome}");
    }
    let contenders = outcome.figures.iter().map(|figure| {
        let contender = &figure.contender;
        (contender.workload.as_str(), contender.subject.as_str())
    });
    let contenders: BTreeSet<_> = contenders.collect();
    assert_is_read_again(&outcome, contenders.len());
    let text = outcome.to_string();
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    outcome
}

const SERVED: &str = "palisade serve";
const SERVED_NULL: &str = "palisade serve, null filter";

/// Beside nginx, where it is installed, with the modules that are.
#[test]
fn rows_of_filters() {
    for row in ["kp-7", "kp-8", "serve-filter"] {
        let outcome = assert_served(row, &[SERVED, SERVED_NULL]);
        let judged = outcome.figures.iter().filter(|one| one.verdict.is_some());
        assert!(judged.count() >= 1, "{outcome}");
        let has_nginx = |figure: &Figure| figure.contender.subject == "nginx";
        let is_there = has_program("nginx", "nginx-light");
        assert_eq!(outcome.figures.iter().any(has_nginx), is_there, "{outcome}");
    }
}

#[test]
fn a_row_of_files() {
    assert_served("serve-files", &[SERVED]);
}

#[test]
fn a_row_of_programs_behind_the_wall_of_a_server() {
    let ours = [
        "palisade serve, direct",
        "palisade serve, in front",
        "no wall",
    ];
    assert_served("serve-program", &ours);
}

#[test]
fn a_row_of_components() {
    if has_wasi() {
        assert_served("serve-component", &["palisade serve, fresh instance"]);
    }
}

/// Beside the program with no wall, and all of them answer with the grey picture.
#[test]
fn a_row_of_pictures_that_are_posted() {
    if has_wasi() {
        let ours = [
            "palisade serve, program, own socket",
            "palisade serve, program",
            "palisade serve, component, fresh",
            "palisade serve, component, kept",
            "bare",
        ];
        assert_served("serve-pictures", &ours);
    }
}

/// Many services of each kind, those of code of others where it can be compiled.
#[test]
fn rows_of_many_services() {
    if has_wasi() {
        let ours = [
            "palisade serve, components",
            "palisade serve, filters",
            "palisade serve, programs",
        ];
        assert_served("den-f8", &ours);
        assert_served("den-f4", &[ours[0], ours[2]]);
    }
}

#[test]
fn rows_of_idle_services() {
    if has_wasi() {
        let outcome = assert_served("den-t2", &["palisade run", "bare"]);
        let of_programs = |one: &&Figure| one.contender.subject == "palisade serve, programs";
        let mut figures = outcome.figures.iter().filter(of_programs);
        assert!(figures.any(|one| one.measure == "held"), "{outcome}");
        let outcome = run("den-f5", tempfile::tempdir().unwrap().path()).unwrap();
        let woken = outcome
            .figures
            .iter()
            .filter(|one| one.measure == "wake-ups-2");
        // Frozen programs beside the others, where something can freeze them.
        assert!((3..=4).contains(&woken.count()), "{outcome}");
    }
}

#[test]
fn a_row_of_servers_at_a_pace() {
    let ours = [
        "palisade serve, direct",
        "palisade serve, in front",
        "no wall",
    ];
    assert_served("den-f12", &ours);
}

/// Containers of an engine are root's; everybody else is told so.
#[test]
fn rows_of_containers() {
    let rows = [
        ("container-start", "create, start, delete"),
        ("container-memory", "held"),
        ("container-many", "all"),
        ("container-requests", "requests"),
    ];
    for (row, measure) in rows {
        let out = tempfile::tempdir().unwrap();
        let outcome = match run(row, out.path()) {
            Ok(outcome) => outcome,
            Err(reason) => {
                assert!(lacks_containers(&reason.to_string()), "{row}: {reason}");
                continue;
            }
        };
        let ours =
            |one: &&Figure| one.contender.subject == "palisade-oci" && one.measure == measure;
        let summary = outcome
            .figures
            .iter()
            .find(ours)
            .and_then(|one| one.summary);
        assert!(summary.is_some_and(|one| one.median > 0.0), "{outcome}");
    }
}

/// Not root, or a program is missing: the row says which.
fn lacks_containers(reason: &str) -> bool {
    reason.contains("as root") || reason.contains("is not installed")
}

/// No request of the tenant is lost, whatever its neighbour does.
#[test]
fn a_row_of_neighbours() {
    if has_wasi() {
        let outcome = assert_served("tenants", &["palisade serve"]);
        let lost = |one: &&Figure| one.measure.starts_with("lost-") && one.verdict.is_some();
        let lost: Vec<_> = outcome.figures.iter().filter(lost).collect();
        assert!(lost.len() >= 6, "{outcome}");
        let is_none = |one: &&Figure| one.verdict == Some(Verdict::Pass);
        assert!(lost.iter().all(is_none), "{outcome}");
    }
}

/// A filter is swapped while it is asked, and no request is lost.
#[test]
fn a_filter_is_compiled_linked_and_swapped() {
    let outcome = assert_served(
        "kp-c",
        &["library", "floor", "palisade serve, header filter"],
    );
    let lost = outcome.figures.iter().find(|one| one.measure == "lost");
    let lost = lost.expect("what was lost");
    assert_eq!(lost.verdict, Some(Verdict::Pass), "{outcome}");
}

/// Programs of ours at both ends.
#[test]
fn rows_with_two_ends() {
    let out = tempfile::tempdir().unwrap();
    for row in ["broker", "mk-4", "mk-5", "den-f3"] {
        let outcome = run(row, out.path()).unwrap();
        assert_eq!(floors(&outcome, row), 1, "{outcome}");
        assert_complete(&outcome, 3 + peers(&outcome, row));
    }
}

/// Servers and clients of others.
#[test]
fn rows_of_servers() {
    let rows = [
        ("den-tcp", "iperf3", "iperf3"),
        ("sva-f2", "nginx", "nginx-light apache2-utils"),
        ("sva-f3", "sshd", "openssh-server"),
        ("osv-mc", "memcaslap", "memcached libmemcached-tools"),
        ("redis", "redis-server", "redis-server"),
        ("pgbench", "pgbench", "postgresql"),
    ];
    let out = tempfile::tempdir().unwrap();
    for (row, program, package) in rows {
        if has_program(program, package) {
            let outcome = run(row, out.path()).unwrap();
            assert_eq!(floors(&outcome, row), 1, "{outcome}");
            assert_complete(&outcome, 3 + peers(&outcome, row));
        }
    }
}

/// Beside the network of a container, where it can be made.
#[test]
fn a_row_beside_a_bridge() {
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        peers: Some(peer("bridged").into_iter().collect()),
        ..options(out.path(), false)
    };
    let outcomes = bench(&[named("den-f3")], &options).unwrap();
    let outcome = &outcomes.rows[0];
    assert_eq!(outcome.failed, None);
    let can = rustix::process::geteuid().is_root() && Path::new("/usr/sbin/nft").is_file();
    assert_eq!(peers(outcome, "den-f3") == 1, can, "{outcome}");
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
    static METHOD: osv::Jvm = osv::Jvm::of(&["compress", "derby"]);
    if !has_java() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let row = Row {
        method: &METHOD,
        ..*named("osv-jvm")
    };
    let outcome = run_row(&row, out.path()).unwrap();
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
fn rows_of_memory() {
    let out = tempfile::tempdir().unwrap();
    for row in ["mk-8", "mk-9"] {
        let outcome = run(row, out.path()).unwrap();
        assert_complete(&outcome, 2 + peers(&outcome, row));
        let (_, parts) = outcome.tables.last().expect("who holds it");
        let parts = parts.to_string();
        let count = |name| parts.matches(name).count();
        assert_eq!(
            (count("palisade-keeper"), count("palisade-init")),
            (2, 1),
            "a keeper, its maker and an init: {parts}"
        );
    }
}

#[test]
fn a_row_of_conformance() {
    let out = tempfile::tempdir().unwrap();
    let outcome = run("mk-1", out.path()).unwrap();
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
    let outcome = run("sva-t3", out.path()).unwrap();
    let programs = ["bzip2 of 256 KB", "lame of 824 KB", "perl of 64 KB"];
    let compiled = [
        "bzip2, compiled here, of 256 KB",
        "lame, compiled here, of 824 KB",
    ];
    let workloads = programs.iter().chain(&compiled);
    let peers: usize = workloads.map(|one| peers(&outcome, one)).sum();
    let wasm: usize = compiled.iter().map(|one| wasm_walls(&outcome, one)).sum();
    let expected = if has_wasi() && has_sources() { 2 } else { 0 };
    assert_eq!(wasm, expected, "{outcome}");
    assert_complete(&outcome, 3 * 2 + 2 * wasm + peers);
    let text = outcome.to_string();
    for program in programs {
        assert!(text.contains(program), "{text}");
    }
}

#[test]
fn an_interruption_before_the_first_row_measures_nothing() {
    let out = tempfile::tempdir().unwrap();
    let outcomes = bench(&[named("start")], &options(out.path(), true)).unwrap();
    assert!(outcomes.rows.is_empty());
    let readme = fs::read_to_string(outcomes.folder.join("README.md")).unwrap();
    assert!(readme.contains("Not measured: start."), "{readme}");
}

#[test]
fn an_interruption_within_a_row_keeps_the_rows_before_it() {
    let out = tempfile::tempdir().unwrap();
    let interrupted = Arc::new(AtomicBool::new(false));
    let from_progress = Arc::clone(&interrupted);
    let options = Options {
        interrupted,
        progress: Box::new(move |progress| {
            let is_second = progress.number == 2;
            from_progress.store(is_second, Ordering::Relaxed);
        }),
        ..options(out.path(), false)
    };
    let rows = ["start", "syscalls", "mk-2"].map(named);
    let outcomes = bench(&rows, &options).unwrap();
    let failed: Vec<_> = outcomes
        .rows
        .iter()
        .map(|row| (row.row.as_str(), row.failed.as_deref()))
        .collect();
    let reason = "interrupted before the first round was complete";
    assert_eq!(failed, [("start", None), ("syscalls", Some(reason))]);
}

#[test]
fn a_row_that_fails_does_not_keep_the_others_from_being_measured() {
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        palisade: "/nowhere/palisade".into(),
        ..options(out.path(), false)
    };
    let outcomes = bench(&["syscalls", "mk-2"].map(named), &options).unwrap();
    assert_eq!(outcomes.rows.len(), 2);
    for outcome in &outcomes.rows {
        let reason = outcome.failed.as_deref().expect("a reason");
        assert!(
            reason.contains("/nowhere/palisade") && reason.contains("No such file"),
            "{reason}"
        );
    }
    let kept = KeptRun::read(&outcomes.folder).unwrap();
    assert!(kept.rows.iter().all(|row| row.outcome.failed.is_some()));
}

#[test]
fn rows_have_names_of_their_own() {
    let mut names = rows().iter().map(|row| row.name);
    assert!(names.all(|name| rows::row(name).is_some_and(|row| row.name == name)));
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
