//! Where rounds run: in copies of what they may write to.

use super::{changes::Changes, learned::Wish};
use crate::{commands::init::holds_memory, say};
use anyhow::{Context, bail};
use palisade_command_line::{read, workplace::Workplace};
use palisade_policy::{Access, FileGrant};
use palisade_wall::{Command, Report};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    fs::{self, File, Permissions},
    io::{self, IsTerminal, Read, Seek, SeekFrom, stdin},
    os::{
        fd::AsFd,
        unix::{fs::PermissionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{self, Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tempfile::TempDir;

/// What to do where a folder is not copied.
const ADVICE: &str =
    "learn in a folder with only what the command needs, or begin with `palisade init`";
/// Of a pipe.
const MOST_INPUT_BYTES: u64 = 64 << 20;
/// As shells have it.
const BY_CTRL_C: u8 = 130;
/// Whoever waits for longer is told what for.
const SOON: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 300_000_000,
};
/// More than any report has.
const MOST_REPORT_BYTES: u64 = 16 << 20;

/// Copies, and what each round is told by.
pub(super) struct Ground {
    /// For the policy of a round and its report, out of every guest's reach.
    folder: TempDir,
    project: Workplace,
    /// Other folders that are written to.
    folders: Vec<Workplace>,
    /// Files that are written to, each with its copy.
    files: Vec<(PathBuf, PathBuf)>,
    input: Input,
    /// The memory of a domain can be counted here.
    pub(super) counts_memory: bool,
    /// Ctrl-C, or a signal to this process, ends a round: of a server somebody has seen enough.
    interrupted: Arc<AtomicBool>,
    terminated: Arc<AtomicBool>,
    /// Has something to read once there was a signal.
    told: UnixStream,
}

/// What rounds read from stdin.
enum Input {
    /// A terminal, or a device: the next round reads on.
    Inherited,
    /// Each reads this from here.
    File(File, u64),
}

/// A run, and how it ended.
pub(super) struct Round {
    pub(super) report: Report,
    /// By somebody who had seen enough.
    is_interrupted: bool,
}

impl Round {
    pub(super) fn ended_well(&self) -> bool {
        self.report.exit_code == 0 || self.is_interrupted
    }

    /// It would do so again.
    pub(super) fn ended_by_itself(&self) -> bool {
        self.report.exit_code == 0 && !self.is_interrupted
    }
}

impl Ground {
    pub(super) fn new(project: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("palisade-learn-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("host: cannot make a temporary folder")?;
        let [interrupted, terminated] = [Arc::default(), Arc::default()];
        let (told, tells) = UnixStream::pair().context("host: cannot make a pipe")?;
        told.set_nonblocking(true)
            .context("host: cannot make a pipe")?;
        for (signal, flag) in [
            (signal_hook::consts::SIGINT, &interrupted),
            (signal_hook::consts::SIGTERM, &terminated),
            (signal_hook::consts::SIGHUP, &terminated),
        ] {
            // The flag first: it is set before anybody is told.
            signal_hook::flag::register(signal, Arc::clone(flag))
                .and_then(|_| signal_hook::low_level::pipe::register(signal, tells.try_clone()?))
                .context("host: cannot catch signals")?;
        }
        Ok(Self {
            input: Input::of_stdin(folder.path())?,
            folder,
            project: Workplace::copy_of(project.into(), ADVICE)?,
            folders: Vec::new(),
            files: Vec::new(),
            counts_memory: holds_memory(),
            interrupted,
            terminated,
            told,
        })
    }

    /// The project, for who reads what is done with it.
    pub(super) fn told(&self) -> String {
        let left_out = match self.project.left_out() {
            0 => String::new(),
            count => {
                format!(" (without {count} sockets, devices, or files that are not yours to read)")
            }
        };
        format!("{}{left_out}", self.project.source().display())
    }

    /// One round, behind the wall, under this policy. None where palisade refused it, and said why.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or a signal had come before.
    pub(super) fn run(&self, text: &str, command: &Command) -> anyhow::Result<Option<Round>> {
        self.heed_signals()?;
        let [policy, report] =
            ["policy.toml", "report.json"].map(|name| self.folder.path().join(name));
        fs::write(&policy, text).context("host: cannot write a policy")?;
        // The program that runs, wherever it lies by now.
        let mut run = process::Command::new("/proc/self/exe");
        run.args(["run", "--watch", "--untold", "--report"])
            .arg(&report);
        run.arg("--policy")
            .arg(&policy)
            .arg("--cwd")
            .arg(self.project.source());
        run.arg("--").arg(&command.program).args(&command.arguments);
        run.stdin(self.input.of_round()?);
        self.wait_for(run.spawn().context("host: cannot start a round")?)?;
        let bytes = read::read_regular_file(&report, MOST_REPORT_BYTES).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(None);
        }
        fs::remove_file(&report).context("host: cannot remove a report")?;
        let report: Report =
            serde_json::from_slice(&bytes).context("host: the round's report is cut off")?;
        // Ctrl-C on a terminal is the guest's.
        let has_ctrl_c = report.exit_code == BY_CTRL_C && stdin().is_terminal();
        let is_interrupted = self.interrupted.swap(false, Ordering::Relaxed) || has_ctrl_c;
        Ok(Some(Round {
            report,
            is_interrupted,
        }))
    }

    fn wait_for(&self, mut round: Child) -> anyhow::Result<()> {
        let pid = i32::try_from(round.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("host: a child without a number")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("host: cannot watch a round")?;
        loop {
            let mut fds = [
                PollFd::new(&pidfd, PollFlags::IN),
                PollFd::new(&self.told, PollFlags::IN),
            ];
            let waited = rustix::io::retry_on_intr(|| poll(&mut fds, None));
            waited.context("host: cannot wait for a round")?;
            if !fds[0].revents().is_empty() {
                break;
            }
            // A byte for each signal; there may be none any more.
            let _ = (&self.told).read(&mut [0; 64]);
            if self.terminated.swap(false, Ordering::Relaxed) {
                // Of SIGINT the round has its own, from the terminal; this is for whoever is named.
                self.interrupted.store(true, Ordering::Relaxed);
                pidfd_send_signal(&pidfd, Signal::TERM).context("host: cannot end a round")?;
            }
        }
        round
            .wait()
            .context("host: cannot wait for a round")
            .map(drop)
    }

    /// Outside of rounds a signal ends all of it.
    pub(super) fn heed_signals(&self) -> anyhow::Result<()> {
        let flags = [&self.interrupted, &self.terminated];
        match flags.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            true => bail!("guest: ended by a signal: no policy was written"),
            false => Ok(()),
        }
    }

    /// What is typed on a terminal, until there is a signal.
    pub(super) fn listen<'a>(&'a self, terminal: &'a File) -> Typed<'a> {
        Typed {
            ground: self,
            terminal,
        }
    }

    /// Makes all copies what was copied.
    pub(super) fn refresh(&self) -> anyhow::Result<()> {
        self.project.refresh()?;
        self.folders.iter().try_for_each(Workplace::refresh)?;
        for (file, copy) in &self.files {
            // The guest may have closed it.
            let _ = fs::remove_file(copy);
            fs::copy(file, copy)
                .with_context(|| format!("host: cannot copy {}", file.display()))?;
        }
        Ok(())
    }

    /// Has what is to be written copied, if it lies elsewhere.
    pub(super) fn copy_if_written(&mut self, wish: &Wish) -> anyhow::Result<()> {
        let Some(path) = wish.written() else {
            return Ok(());
        };
        if self.moved_path(&path) != path {
            return Ok(());
        }
        match path.is_dir() {
            true => self.folders.push(Workplace::copy_of(path, ADVICE)?),
            false => {
                let copy = self
                    .folder
                    .path()
                    .join(format!("file-{}", self.files.len()));
                self.files.push((path, copy));
            }
        }
        Ok(())
    }

    fn moved_path(&self, path: &Path) -> PathBuf {
        let mut workplaces = [&self.project].into_iter().chain(&self.folders);
        if let Some(around) = workplaces.find(|place| path.starts_with(place.source())) {
            return around.moved(path);
        }
        let copy = self.files.iter().find(|(file, _)| file == path);
        copy.map_or_else(|| path.into(), |(_, copy)| copy.clone())
    }

    /// A value of a grant, of the copy where there is one.
    pub(super) fn moved(&self, access: Access, value: &str) -> String {
        let Ok(grant) = FileGrant::parse(access, value, Path::new("/")) else {
            return value.into();
        };
        let guest = grant.guest_path().to_owned();
        let host = self.moved_path(&grant.host);
        let guest = (guest != host).then_some(guest);
        FileGrant {
            host,
            guest,
            ..grant
        }
        .to_string()
    }

    /// What the last round changed of the project.
    pub(super) fn changes(&self) -> anyhow::Result<Changes> {
        let (source, copy) = (self.project.source(), self.project.inside());
        Changes::between(source, &copy).context("host: cannot compare the copy")
    }
}

/// See [`Ground::listen`].
pub(super) struct Typed<'a> {
    ground: &'a Ground,
    terminal: &'a File,
}

impl Read for Typed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut fds = [
                PollFd::new(self.terminal, PollFlags::IN),
                PollFd::new(&self.ground.told, PollFlags::IN),
            ];
            rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
            let [is_typed, is_told] = fds.map(|fd| !fd.revents().is_empty());
            self.ground.heed_signals().map_err(io::Error::other)?;
            if is_told {
                // Of one that a round has had.
                let _ = (&self.ground.told).read(&mut [0; 64]);
            } else if is_typed {
                break;
            }
        }
        let mut terminal = self.terminal;
        terminal.read(buffer)
    }
}

impl Input {
    fn of_stdin(folder: &Path) -> anyhow::Result<Self> {
        let stdin = stdin();
        // A closed one is none.
        let Ok(about) = fstat(&stdin) else {
            return Ok(Self::Inherited);
        };
        let kind = FileType::from_raw_mode(about.st_mode);
        if stdin.is_terminal() || kind == FileType::CharacterDevice {
            return Ok(Self::Inherited);
        }
        if kind == FileType::RegularFile {
            let own = stdin.as_fd().try_clone_to_owned().map(File::from);
            let mut own = own.context("host: cannot keep stdin")?;
            let at = own.stream_position();
            return Ok(Self::File(
                own,
                at.context("host: cannot tell where stdin is")?,
            ));
        }
        let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut fds, Some(&SOON)) == Ok(0) {
            say::line(
                "reads stdin to its end, for each round reads the same (</dev/null where there is nothing to read)",
            );
        }
        let mut kept = tempfile::tempfile_in(folder).context("host: cannot keep stdin")?;
        let read = io::copy(&mut stdin.lock().take(MOST_INPUT_BYTES + 1), &mut kept);
        match read.context("host: cannot keep stdin")? {
            0..=MOST_INPUT_BYTES => Ok(Self::File(kept, 0)),
            _ => bail!(
                "usage: stdin has more than {} MiB: give it as a file",
                MOST_INPUT_BYTES >> 20
            ),
        }
    }

    fn of_round(&self) -> anyhow::Result<Stdio> {
        Ok(match self {
            Self::Inherited => Stdio::inherit(),
            Self::File(file, at) => {
                let mut file = file.try_clone().context("host: cannot read stdin again")?;
                let sought = file.seek(SeekFrom::Start(*at));
                sought.context("host: cannot read stdin again")?;
                file.into()
            }
        })
    }
}
