//! Where a case runs and as whom, and the one way in which it starts palisade.

use palisade_process::Machine;
use palisade_suite::executable::{copy_program, write_program};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{FileType, Mode},
    process::{Pid, PidfdFlags, Signal},
};
use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{PermissionsExt, chown},
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};
use tempfile::TempDir;

/// `nobody`.
const ORDINARY_ID: u32 = 65534;

/// The wall of native programs: `make third-wall` runs the suite behind another one.
pub(crate) const NATIVE_WALL: &str = match cfg!(feature = "stub-wall") {
    true => "stub",
    false => "process",
};

/// No case takes this long unless something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// Not `/tmp`: a domain has one of its own, and what is granted there is a special case.
const PLACE: &str = "/var/tmp";

/// One thing that must hold.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) act: fn(&Fixture),
}

/// Lists the functions of a module that are cases. One that is left out is dead code.
macro_rules! cases {
    ($($case:ident),+ $(,)?) => {
        pub(crate) const CASES: &[crate::cli::fixture::Case] =
            &[$(crate::cli::fixture::Case { name: stringify!($case), act: $case }),+];
    };
}
pub(crate) use cases;

impl Case {
    /// Why this kernel can't show it: the tier without namespaces needs Landlock's scopes. That
    /// palisade refuses without them holds everywhere. Or why this user can't.
    pub(crate) fn why_not(self, user: User) -> Option<&'static str> {
        const SCOPES_ABI: u32 = 6;
        let is_bare = self.name.contains("without_namespaces") && !self.name.ends_with("refuses");
        let abi = Machine::probe().landlock_abi;
        let mounts = self.name.starts_with("mounts_") && !suite_is_root();
        let needs_root = mounts.then_some("needs root, to mount");
        let grouped = self.name.contains("in_a_control_group") && user == User::Ordinary;
        let needs_group = grouped.then_some("needs root, for a control group");
        needs_root.or(needs_group).or_else(|| {
            (is_bare && abi < Some(SCOPES_ABI)).then_some("needs Landlock interface 6, Linux 6.12")
        })
    }
}

/// Who starts palisade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

impl User {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "ordinary",
        }
    }

    /// Why this half of the suite can't run.
    pub(crate) fn why_not(self) -> Option<&'static str> {
        (self == Self::Root && !suite_is_root()).then_some("needs root")
    }

    pub(crate) fn become_in(self, command: &mut Command) {
        if self == Self::Ordinary && suite_is_root() {
            command.uid(ORDINARY_ID).gid(ORDINARY_ID);
        }
    }

    fn own(self, path: &Path) {
        if self == Self::Ordinary && suite_is_root() {
            chown(path, Some(ORDINARY_ID), Some(ORDINARY_ID)).unwrap();
        }
    }
}

fn suite_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The program under test, and those beside it, where everybody can execute them.
pub(crate) struct Installed {
    folder: TempDir,
}

impl Installed {
    pub(crate) fn for_everybody() -> Self {
        let folder = new_folder();
        let named = std::env::var_os("PALISADE_BIN").map(PathBuf::from);
        let built = named.unwrap_or_else(|| env!("CARGO_BIN_EXE_palisade").into());
        let beside = built.parent().unwrap();
        for name in [
            "palisade",
            "palisade-worker",
            "palisade-compiler",
            "palisade-host",
            "palisade-lab",
        ] {
            let copied = copy_program(&beside.join(name), &folder.path().join(name));
            copied.unwrap_or_else(|error| {
                panic!("{name}: {error}: build it first, with `cargo build --workspace --bins`")
            });
        }
        Self { folder }
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.folder.path().join("palisade")
    }
}

fn new_folder() -> TempDir {
    let folder = tempfile::Builder::new()
        .prefix("palisade-cli-")
        .tempdir_in(PLACE)
        .unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A user, a folder of the user's own that palisade is started in, and the program.
pub(crate) struct Fixture {
    pub(crate) user: User,
    folder: TempDir,
    program: PathBuf,
}

impl Fixture {
    pub(crate) fn new(user: User, installed: &Installed) -> Self {
        let folder = new_folder();
        user.own(folder.path());
        Self {
            user,
            folder,
            program: installed.program(),
        }
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.folder.path().into(),
            name => self.folder.path().join(name),
        }
    }

    /// The same as text, for flags.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().into()
    }

    /// Makes a folder that belongs to the user, and those above it.
    pub(crate) fn make_folder(&self, name: &str) {
        let mut path = self.path("");
        for part in Path::new(name).components() {
            path.push(part);
            if fs::create_dir(&path).is_ok() {
                self.user.own(&path);
            }
        }
    }

    /// Writes a file that belongs to the user, in folders that do.
    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        if let Some(parent) = Path::new(name).parent() {
            self.make_folder(parent.to_str().unwrap());
        }
        fs::write(&path, content).unwrap();
        self.user.own(&path);
    }

    /// Makes a FIFO that belongs to the user.
    pub(crate) fn make_fifo(&self, name: &str) {
        let (path, mode) = (self.path(name), Mode::from_raw_mode(0o600));
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        self.user.own(&path);
    }

    /// Writes a program.
    pub(crate) fn write_program(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        if let Some(parent) = Path::new(name).parent() {
            self.make_folder(parent.to_str().unwrap());
        }
        write_program(content.as_ref(), &path).unwrap();
        self.user.own(&path);
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// What a file of gzip's unfolds to.
    pub(crate) fn read_packed(&self, name: &str) -> String {
        let mut text = String::new();
        let file = fs::File::open(self.path(name)).unwrap();
        let read = flate2::read::GzDecoder::new(file).read_to_string(&mut text);
        read.unwrap();
        text
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    /// The program under test.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Palisade with these words, as the user, in the folder.
    pub(crate) fn palisade<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Call {
        self.call(&self.program, words)
    }

    /// `palisade run` with these flags and a shell script for a guest.
    pub(crate) fn script(&self, flags: &[&str], script: &str) -> Call {
        let words = ["run"]
            .iter()
            .chain(flags)
            .copied()
            .chain(["--", "/bin/sh", "-c", script]);
        self.palisade(words)
    }

    /// Any program as the user, in the folder, with the same short environment.
    pub(crate) fn call<S: AsRef<OsStr>>(
        &self,
        program: &Path,
        words: impl IntoIterator<Item = S>,
    ) -> Call {
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(self.path(""))
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        self.user.become_in(&mut command);
        Call {
            command,
            input: Vec::new(),
        }
    }
}

/// Palisade about to be started.
pub(crate) struct Call {
    pub(crate) command: Command,
    input: Vec<u8>,
}

/// How it went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Call {
    /// What it gets on its standard input; nothing otherwise.
    pub(crate) fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs it to its end.
    pub(crate) fn run(mut self) -> Outcome {
        let child = self.spawn();
        finish(child, &self.input)
    }

    /// Starts it with pipes for all streams.
    pub(crate) fn spawn(&mut self) -> Child {
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }
}

/// Feeds a child, reads all that it says and waits for its end.
pub(crate) fn finish(mut child: Child, input: &[u8]) -> Outcome {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        if let Some(mut stdin) = stdin {
            // A guest that does not read its input is not a failure.
            scope.spawn(move || drop(stdin.write_all(input)));
        }
        let stdout = scope.spawn(move || stdout.map_or_else(Vec::new, read_all));
        let stderr = scope.spawn(move || stderr.map_or_else(Vec::new, read_all));
        let status = wait(&mut child);
        Outcome {
            status,
            stdout: stdout.join().unwrap(),
            stderr: String::from_utf8_lossy(&stderr.join().unwrap()).into_owned(),
        }
    })
}

fn read_all(mut from: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Waits for a child's end; one that hangs is killed and fails the case.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    if !ends_within(child, PATIENCE) {
        let _ = child.kill();
        let _ = child.wait();
        panic!("palisade hung for {PATIENCE:?}");
    }
    child.wait().unwrap()
}

/// Whether a child ends in time. It is left to be waited for.
pub(crate) fn ends_within(child: &Child, time: Duration) -> bool {
    has_event(&pidfd_of(child.id()), time)
}

/// Whether a process, which need not be a child, ends before a case should hang.
pub(crate) fn ends_soon(pidfd: &OwnedFd) -> bool {
    has_event(pidfd, PATIENCE)
}

fn has_event(pidfd: &OwnedFd, time: Duration) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let timeout = Timespec::try_from(time).unwrap();
    rustix::event::poll(&mut fds, Some(&timeout)).unwrap() == 1
}

pub(crate) fn pidfd_of(pid: u32) -> OwnedFd {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

/// Pids of the processes whose parent this is.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let line = format!("PPid:\t{parent}");
    let is_child = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|found| found == line)
    };
    let names = fs::read_dir("/proc").unwrap().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

/// The first process of the domain, which ends with the guest.
pub(crate) fn init_of(palisade: u32) -> u32 {
    let is_first = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mut lines = status.lines();
        lines.any(|line| line.starts_with("NSpid:") && line.ends_with("\t1"))
    };
    let keepers = children_of(palisade);
    let mut inits = keepers.into_iter().flat_map(children_of).filter(is_first);
    inits.next().expect("no domain runs")
}

/// The next line that a child prints.
pub(crate) fn read_line(from: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

/// Sends a child a signal.
pub(crate) fn signal(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

/// Ends palisade by SIGKILL and waits until its keeper, which cleans up after it, has ended too.
pub(crate) fn kill_and_await_keeper(mut child: Child) {
    let keepers: Vec<_> = children_of(child.id()).into_iter().map(pidfd_of).collect();
    assert_eq!(keepers.len(), 1, "palisade has one child");
    signal(&child, Signal::KILL);
    wait(&mut child);
    assert!(keepers.iter().all(ends_soon), "the keeper stays");
}

impl Outcome {
    /// The exit code as a shell shows it.
    pub(crate) fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// It ended with this code and palisade itself had nothing to say.
    #[track_caller]
    pub(crate) fn is_silent(&self, code: i32) -> &Self {
        assert_eq!((self.code(), self.stderr.as_str()), (code, ""), "{self:?}");
        self
    }

    /// It ended with this code, whatever was said.
    #[track_caller]
    pub(crate) fn is(&self, code: i32) -> &Self {
        assert_eq!(self.code(), code, "{self:?}");
        self
    }

    /// The guest printed this and ended well.
    #[track_caller]
    pub(crate) fn prints(&self, text: &str) -> &Self {
        self.is_silent(0);
        assert_eq!(self.text(), text);
        self
    }

    /// It ended with this code, and palisade said why in one line with these words in it; notes may
    /// stand beside that.
    #[track_caller]
    pub(crate) fn says(&self, code: i32, words: &[&str]) -> &Self {
        self.is(code);
        let lines: Vec<_> = self
            .stderr
            .lines()
            .filter(|line| line.starts_with("palisade: ") && !line.starts_with("palisade: note: "))
            .collect();
        assert_eq!(lines.len(), 1, "one line: {self:?}");
        for word in words {
            assert!(lines[0].contains(word), "{word:?} in {:?}", lines[0]);
        }
        self
    }

    /// Palisade refused before anything ran: one line that says whose fault it is.
    #[track_caller]
    pub(crate) fn refuses(&self, words: &[&str]) -> &Self {
        self.says(125, words);
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert!(self.stdout.is_empty(), "{self:?}");
        self
    }
}
