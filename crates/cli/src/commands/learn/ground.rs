//! Where rounds run: in copies of what they may write to.

use super::{
    changes::Changes,
    checkout::Checkout,
    learned::Wish,
    signals::{Signals, is_before_a_terminal},
};
use crate::{commands::init::holds_memory, say};
use anyhow::{Context, bail};
use palisade_command_line::{
    read,
    workplace::{self, Workplace},
};
use palisade_policy::{Access, FileGrant, visible};
use palisade_process::Machine;
use palisade_wall::{Command, Report};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    cell::Cell,
    ffi::OsStr,
    fs::{self, File, Permissions},
    io::{self, IsTerminal, Read, Seek, SeekFrom, stdin},
    os::{fd::AsFd, unix::fs::PermissionsExt},
    path::{Path, PathBuf},
    process::{self, Child, Stdio},
};
use tempfile::TempDir;

/// What to do where a folder is not copied.
const ADVICE: &str =
    "learn in a folder with only what the command needs, or begin with `palisade init`";
/// The same where a folder may hold what is made of it.
const FRESH: &str =
    "--fresh leaves out what is made anew; or learn in a folder with only what the command needs";
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
    /// What a fresh checkout lacks is left out of the copy.
    is_fresh: bool,
    /// Other folders that are written to.
    folders: Vec<Workplace>,
    /// Files that are written to, each with its copy.
    files: Vec<(PathBuf, PathBuf)>,
    input: Input,
    /// The memory of a domain can be counted here.
    pub(super) counts_memory: bool,
    /// Calls can wait here, and so names be told that only the guest knows. Until a command turns out to go by whether names are found.
    tells_names: Cell<bool>,
    /// One of them ends a round: of a server somebody has seen enough.
    pub(super) signals: Signals,
}

/// What rounds read from stdin.
enum Input {
    /// A terminal, or a device: the next round reads on.
    Inherited,
    /// Each reads this from here.
    File(File, u64),
}

/// What a round is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ToLearn,
    /// Just as the policy will be used.
    ToProve,
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
    pub(super) fn new(project: &Path, is_fresh: bool) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("palisade-learn-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("host: cannot make a temporary folder")?;
        let signals = Signals::catch()?;
        Ok(Self {
            input: Input::of_stdin(folder.path(), &signals)?,
            folder,
            project: copy_of(project, is_fresh)?,
            is_fresh,
            folders: Vec::new(),
            files: Vec::new(),
            counts_memory: holds_memory(),
            tells_names: Cell::new(Machine::probe().holds_calls()),
            signals,
        })
    }

    /// The project, for who reads what is done with it.
    pub(super) fn told(&self) -> String {
        let left_out = match (self.project.left_out(), self.is_fresh) {
            (_, true) => " as it is checked out (without what is made or ignored)",
            (0, _) => "",
            _ => " (without sockets, devices, and files that are not yours to read)",
        };
        format!("{}{left_out}", self.project.source().display())
    }

    /// One round, behind the wall, under this policy; watched, where something is to be learned from it. None where palisade refused it, and said why.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or a signal had come before.
    pub(super) fn run(
        &self,
        text: &str,
        command: &Command,
        kind: Kind,
    ) -> anyhow::Result<Option<Round>> {
        self.signals.heed()?;
        let [policy, report] =
            ["policy.toml", "report.json"].map(|name| self.folder.path().join(name));
        fs::write(&policy, text).context("host: cannot write a policy")?;
        // The program that runs, wherever it lies by now.
        let mut run = process::Command::new("/proc/self/exe");
        run.args(["run", "--untold", "--report"]).arg(&report);
        if kind == Kind::ToLearn {
            run.arg("--watch");
            // Whoever could grant it more answers lookups with stand-ins: connections to them tell of names that nobody sees otherwise.
            if self.tells_names.get() {
                run.arg("--grantable");
            }
        }
        run.arg("--policy")
            .arg(&policy)
            .arg("--cwd")
            .arg(self.project.source());
        run.arg("--").arg(&command.program).args(&command.arguments);
        run.stdin(self.input.of_round()?);
        let is_ended = self.wait_for(run.spawn().context("host: cannot start a round")?)?;
        let bytes = read::read_regular_file(&report, MOST_REPORT_BYTES).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(None);
        }
        fs::remove_file(&report).context("host: cannot remove a report")?;
        let report: Report =
            serde_json::from_slice(&bytes).context("host: the round's report is cut off")?;
        // Ctrl-C on a terminal is the guest's.
        let has_ctrl_c = report.exit_code == BY_CTRL_C && stdin().is_terminal();
        Ok(Some(Round {
            report,
            is_interrupted: is_ended || has_ctrl_c,
        }))
    }

    /// From now on no name is found that is not granted, as it will be behind the policy. `false` if that was so.
    pub(super) fn find_no_names(&self) -> bool {
        self.tells_names.replace(false)
    }

    /// Until it ends; and whether a signal was there for it.
    fn wait_for(&self, mut round: Child) -> anyhow::Result<bool> {
        let pid = i32::try_from(round.id()).ok().and_then(Pid::from_raw);
        let pid = pid.context("host: a child without a number")?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("host: cannot watch a round")?;
        let mut is_ended = false;
        loop {
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN), self.signals.wakes()];
            let waited = rustix::io::retry_on_intr(|| poll(&mut fds, None));
            waited.context("host: cannot wait for a round")?;
            for signal in self.signals.take() {
                is_ended = true;
                // Ctrl-C on a terminal the round has had itself.
                if signal != Signal::INT || !is_before_a_terminal() {
                    // It may have ended since.
                    let _ = pidfd_send_signal(&pidfd, signal);
                }
            }
            if !fds[0].revents().is_empty() {
                break;
            }
        }
        round.wait().context("host: cannot wait for a round")?;
        Ok(is_ended)
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

    /// Leaves what the last round made of the project in a folder of its own.
    pub(super) fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        let left_out = workplace::keep(&self.project.inside(), folder)?;
        let but = match left_out {
            0 => String::new(),
            count => format!(", but for {count} sockets, devices, and files that cannot be read"),
        };
        let shown = visible(&folder.to_string_lossy()).into_owned();
        say::line(&format!("kept in {shown}: what the last round left{but}"));
        Ok(())
    }

    /// What the last round changed of the project.
    pub(super) fn changes(&self) -> anyhow::Result<Changes> {
        let (source, copy) = (self.project.source(), self.project.inside());
        let changes = Changes::between(source, &copy, Checkout::of(source), self.is_fresh);
        changes.context("host: cannot compare the copy")
    }
}

fn copy_of(project: &Path, is_fresh: bool) -> anyhow::Result<Workplace> {
    if !is_fresh {
        return Workplace::copy_of(project.into(), FRESH);
    }
    let checkout = Checkout::of(project);
    let without = Box::new(move |name: &OsStr, is_folder| checkout.is_without(name, is_folder));
    Workplace::copy_without(project.into(), without, ADVICE)
}

impl Input {
    fn of_stdin(folder: &Path, signals: &Signals) -> anyhow::Result<Self> {
        let stdin = stdin();
        // A closed one is none.
        let Ok(about) = fstat(&stdin) else {
            return Ok(Self::Inherited);
        };
        let kind = FileType::from_raw_mode(about.st_mode);
        if stdin.is_terminal() || kind == FileType::CharacterDevice {
            return Ok(Self::Inherited);
        }
        let own = stdin.as_fd().try_clone_to_owned().map(File::from);
        let mut own = own.context("host: cannot keep stdin")?;
        if kind == FileType::RegularFile {
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
        let all = signals.while_reading(&own).take(MOST_INPUT_BYTES + 1);
        let read = io::copy(&mut { all }, &mut kept);
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
