//! Nothing is left of a domain, however palisade ends.
//!
//! The witness is a worker: this same program, started as the first process of a pid namespace of
//! its own, so that it sees every process and namespace that its runs of palisade bring about and
//! none of anybody else's. What palisade leaves without a parent becomes the worker's child; when
//! the worker has no child any more, all processes are gone.

use super::fixture::{Fixture, User, cases, ends_within, finish};
use rustix::{
    io::Errno,
    process::{WaitOptions, wait},
};
use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

cases![nothing_is_left_of_200_runs];

const RUNS: u64 = 200;
/// Runs that are killed in their first moments.
const EARLY_RUNS: u64 = 300;

/// How long the kernel may take with what it ends by itself.
const PATIENCE: Duration = Duration::from_secs(20);

const ORDERS: [&str; 3] = [
    "PALISADE_CLEANUP_USER",
    "PALISADE_CLEANUP_PROGRAM",
    "PALISADE_CLEANUP_FOLDER",
];

/// What the worker shall do.
pub(crate) struct Orders {
    user: User,
    program: PathBuf,
    folder: PathBuf,
}

fn nothing_is_left_of_200_runs(fixture: &Fixture) {
    fixture.make_folder("work");
    fixture.write("work/own", "text");
    let only_its_owners = fs::Permissions::from_mode(0o600);
    fs::set_permissions(fixture.path("work/own"), only_its_owners).unwrap();
    let mut command = Command::new("/usr/bin/unshare");
    command.args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-current-user"]);
    }
    command.arg(env::current_exe().unwrap());
    let values = [
        fixture.user.name().into(),
        fixture.program().to_owned(),
        fixture.path("work"),
    ];
    command
        .envs(ORDERS.into_iter().zip(values))
        .current_dir(fixture.path("work"));
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let outcome = finish(child, b"");
    assert_eq!(outcome.code(), 0, "{}{}", outcome.text(), outcome.stderr);
}

/// `None` in the suite itself.
pub(crate) fn worker_orders() -> Option<Orders> {
    let [user, program, folder] = ORDERS.map(env::var_os);
    let user = if user? == User::Root.name() {
        User::Root
    } else {
        User::Ordinary
    };
    Some(Orders {
        user,
        program: program?.into(),
        folder: folder?.into(),
    })
}

/// The worker's life.
pub(crate) fn work(orders: &Orders) {
    let usual = time_of_a_run(orders);
    reap_everything();
    let before = Inventory::take(orders);
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut killed = 0;
    for run in 0..EARLY_RUNS {
        // What palisade begins before its own runtime cannot be told to end then.
        let _ = run_once(orders, 0, Some(Duration::from_micros(run * 4)));
    }
    eventually(
        "no process is left of who was killed at once",
        || match wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => None,
            still => Some(format!("{still:?}")),
        },
    );
    for run in 0..RUNS {
        // Every third ends by itself; the others are killed anywhere between start and end.
        let moment = (run % 3 != 0).then(|| usual.mul_f64(dice.roll() * 1.2));
        if moment.is_none() {
            reap_everything();
        }
        killed += u64::from(run_once(orders, run, moment));
        if moment.is_none() {
            // Not even a zombie: who starts it may be a first process that waits for nobody else's children.
            let left = wait(WaitOptions::NOHANG);
            assert!(
                matches!(left, Err(Errno::CHILD)),
                "{:?}",
                words_of(orders, run)
            );
        }
    }
    reap_everything();
    eventually("all that was made is gone", || {
        Inventory::take(orders).more_than(&before)
    });
    assert!(
        killed > RUNS / 4,
        "only {killed} runs were killed: the test proves too little"
    );
}

fn time_of_a_run(orders: &Orders) -> Duration {
    let began = Instant::now();
    run_once(orders, 0, None);
    began.elapsed()
}

/// One run, killed at `moment` if it has not ended before. Says whether it was killed.
fn run_once(orders: &Orders, run: u64, moment: Option<Duration>) -> bool {
    let mut command = Command::new(&orders.program);
    command
        .args(words_of(orders, run))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    orders.user.become_in(&mut command);
    let mut child = command.spawn().unwrap();
    let alive = moment.is_some_and(|moment| !ends_within(&child, moment));
    if alive {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    assert!(
        alive || status.success(),
        "run {run}: {:?}: {status}",
        words_of(orders, run)
    );
    alive
}

/// Kinds of domain that leave different things to clean.
fn words_of(orders: &Orders, run: u64) -> Vec<&'static str> {
    let flags: &[&str] = match (run % 5, orders.user) {
        (0, _) => &[],
        (1, _) => &["--write", ".", "--protect", ".env", "--protect", "a/b/c"],
        (2, User::Root) => &["--memory", "256M", "--cpu", "1", "--processes", "50"],
        (2, User::Ordinary) => &["--processes", "50", "--device", "pts"],
        (3, _) => &["--read", "own"],
        _ => &["--output", "1M", "--time", "20s", "--write", ".:/work"],
    };
    let script = "sleep 100 & (sleep 100 &) ; true";
    ["run"]
        .iter()
        .chain(flags)
        .chain(&["--", "/bin/sh", "-c", script])
        .copied()
        .collect()
}

/// Waits until this process has no child, adopted ones included.
fn reap_everything() {
    loop {
        match wait(WaitOptions::empty()) {
            Err(Errno::CHILD) => return,
            Err(Errno::INTR) | Ok(_) => {}
            Err(errno) => panic!("cannot wait: {errno}"),
        }
    }
}

/// Everything that could be left, each with what it is.
#[derive(Debug, PartialEq, Eq)]
struct Inventory(BTreeSet<String>);

impl Inventory {
    fn take(orders: &Orders) -> Self {
        let mut all = BTreeSet::new();
        for process in names_in(Path::new("/proc")).filter(|name| name.parse::<u32>().is_ok()) {
            let folder = PathBuf::from(format!("/proc/{process}/ns"));
            let links = names_in(&folder).filter_map(|name| fs::read_link(folder.join(name)).ok());
            all.extend(links.map(|link| format!("namespace {}", link.display())));
            all.insert(format!("process {process}"));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        all.extend(mounts.lines().map(|line| format!("mount {line}")));
        all.extend(
            own_cgroups()
                .iter()
                .map(|path| format!("cgroup {}", path.display())),
        );
        let files = everything_below(&orders.folder);
        all.extend(files.iter().map(|path| format!("file {}", path.display())));
        Self(all)
    }

    /// What there is more than before. Less is what a killed run of this suite left and a run has swept since.
    fn more_than(&self, before: &Self) -> Option<String> {
        let more: Vec<_> = self.0.difference(&before.0).collect();
        (!more.is_empty()).then(|| format!("more: {more:#?}"))
    }
}

fn names_in(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// Groups whose name says that they were made in this pid namespace: others run palisade too.
fn own_cgroups() -> BTreeSet<PathBuf> {
    let link = fs::read_link("/proc/self/ns/pid").unwrap();
    let inode: String = link
        .to_str()
        .unwrap()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let is_own =
        |path: &PathBuf| path.is_dir() && path.to_string_lossy().contains(&format!("-{inode}-"));
    everything_below(Path::new("/sys/fs/cgroup"))
        .into_iter()
        .filter(is_own)
        .collect()
}

pub(crate) fn everything_below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(everything_below(&entry.path()));
        }
        found.insert(entry.path());
    }
    found
}

/// xorshift64: the same moments in every run of the suite, as far as the machine lets them be.
struct Dice(u64);

impl Dice {
    /// From 0 up to 1.
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Looks until nothing is complained about, first at once and then less and less often.
#[track_caller]
pub(crate) fn eventually(what: &str, mut what_is_not: impl FnMut() -> Option<String>) {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(50);
    while let Some(complaint) = what_is_not() {
        assert!(
            Instant::now() < deadline,
            "{what}, not within {PATIENCE:?}: {complaint}"
        );
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
