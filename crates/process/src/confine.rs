//! The wall around palisade itself.
//!
//! Supervisor and keeper may do what their user may, while a guest runs that would like to have just that
//! done for it: a path that leads elsewhere by now is enough. What seeing a domain to its end does not need
//! is given up as soon as the guest runs:
//!
//! - seccomp: no program, no process, no socket, nothing written by name;
//! - Landlock: of the host's files those of its control groups and of `/proc` are read, and what was made is
//!   removed. Names below folders that the guest may write to can be listed, as the guest can.
//!
//! Before that palisade waits for 0.2 ms and does nothing else: of a guest that has ended well by then, and of which nothing on the
//! host is looked at or removed, only the exit code is left to tell (`Domain::confine_supervisor_to`).
//!
//! What reads a guest's or a stranger's bytes is a process of its own, with rules and a filter of its own: who
//! looks names up, tunnels and relays (`sys/fork.rs`).
//!
//! A thread of the supervisor's that serves the guest's network is not under these rules: the kernel lets
//! nobody who is look into a guest (`hook_ptrace_access_check` in security/landlock/task.c). Threads share
//! memory. So between threads of one process, as in a program that embeds the library, this holds what goes
//! astray, and not whoever executes code of his own in one of them.

use crate::{
    KeeperError,
    keeper::Keeper,
    seccomp::{self, CompileError, Filter},
    sys::{
        confine::{self, Handled},
        landlock_abi, with_signals_blocked,
    },
};
use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    thread,
};

/// What is not needed any more could not be given up.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum ConfineError {
    #[error(
        "wall: palisade cannot confine itself ({step}): {errno}; `palisade doctor` says what this machine lacks"
    )]
    Step {
        step: &'static str,
        #[source]
        errno: Errno,
    },
    #[error(transparent)]
    CompileFilter(#[from] CompileError),
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    #[error("wall: what answers the guest cannot be begun: {0}")]
    Settle(#[source] io::Error),
}

fn during(step: &'static str) -> impl Fn(Errno) -> ConfineError {
    move |errno| ConfineError::Step { step, errno }
}

/// What somebody of palisade's needs of the host's files, and of the kernel.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    /// Files and folders, and what is done with them or below.
    pub(crate) files: Vec<(Target<'a>, Use)>,
    /// Connections by TCP.
    pub(crate) connects: bool,
    /// System calls.
    pub(crate) calls: Filter,
}

/// A file or folder.
#[derive(Debug)]
pub(crate) enum Target<'a> {
    /// By its path, which no guest can change.
    Path(PathBuf),
    /// That is open.
    Open(BorrowedFd<'a>),
}

/// What is done with files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Read and listed.
    Read,
    /// Folders alone, listed.
    List,
    /// Read and executed.
    Execute,
    /// Written to as they are.
    Write,
    /// Removed from their folder.
    Remove,
    /// The same for folders alone.
    RemoveFolders,
}

impl Use {
    /// `LANDLOCK_ACCESS_FS_*`.
    fn rights(self) -> u64 {
        const EXECUTE: u64 = 1;
        const WRITE_FILE: u64 = 1 << 1;
        const READ: u64 = 1 << 2 | READ_DIR;
        const READ_DIR: u64 = 1 << 3;
        const REMOVE: u64 = REMOVE_DIR | 1 << 5;
        const REMOVE_DIR: u64 = 1 << 4;
        match self {
            Self::Read => READ,
            Self::List => READ_DIR,
            Self::Execute => READ | EXECUTE,
            Self::Write => WRITE_FILE | 1 << 2,
            Self::Remove => REMOVE,
            Self::RemoveFolders => REMOVE_DIR,
        }
    }
}

/// Rules and a filter, to be put around a thread or a process.
#[derive(Debug)]
pub(crate) struct Walls {
    rules: Option<OwnedFd>,
    /// As seccomp(2) takes it.
    filter: Vec<u8>,
}

impl<'a> Kept<'a> {
    /// The same, and names below these folders.
    pub(crate) fn and_list(mut self, folders: impl IntoIterator<Item = BorrowedFd<'a>>) -> Self {
        let folders = folders.into_iter();
        let listed = folders.map(|folder| (Target::Open(folder), Use::List));
        self.files.extend(listed);
        self
    }

    /// Makes them. Without Landlock the filter is all there is.
    pub(crate) fn walls(&self, landlock_abi: Option<u32>) -> Result<Walls, ConfineError> {
        Ok(Walls {
            rules: landlock_abi.map(|abi| self.rules(abi)).transpose()?,
            filter: seccomp::program(&self.calls)?,
        })
    }

    /// For who serves a guest's network, and may be told of files by the folders that they lie in.
    pub(crate) fn of_broker(names_folders: bool) -> Self {
        Self {
            files: Vec::new(),
            connects: true,
            calls: seccomp::broker(names_folders),
        }
    }

    /// For who tunnels a guest's connections.
    pub(crate) fn of_proxy() -> Self {
        Self {
            files: Vec::new(),
            connects: true,
            calls: seccomp::proxy(),
        }
    }

    /// For who passes bytes between streams.
    pub(crate) fn of_relay() -> Self {
        Self {
            files: Vec::new(),
            connects: false,
            calls: seccomp::relay(),
        }
    }

    fn rules(&self, abi: u32) -> Result<OwnedFd, ConfineError> {
        let failed = during("Landlock rules");
        let mut handled = everything(abi);
        if self.connects {
            handled.network = 0;
        }
        let ruleset = confine::landlock_ruleset(&handled, abi).map_err(&failed)?;
        for (target, uses) in &self.files {
            let allow = |file: BorrowedFd<'_>| allow(ruleset.as_fd(), &handled, *uses, file);
            match target {
                Target::Open(file) => allow(*file),
                // What is not there needs no rule.
                Target::Path(path) => open(path).map_or(Ok(()), |file| allow(file.as_fd())),
            }
            .map_err(&failed)?;
        }
        Ok(ruleset)
    }
}

/// Landlock around threads of a program that embeds palisade: of those whom a path that leads astray by now could
/// have do a guest's will (landlock(7)).
#[derive(Debug)]
pub struct Confinement {
    rules: OwnedFd,
}

impl Confinement {
    /// Files below `folders`, which may be open by `O_PATH`, are read; a folder that is put in the place of one of them
    /// is not. Nothing is written, made, removed or executed, and no TCP connection made.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the rules. `abi` is [`Machine::landlock_abi`](crate::Machine::landlock_abi).
    pub fn to_read<'a>(
        folders: impl IntoIterator<Item = BorrowedFd<'a>>,
        abi: u32,
    ) -> Result<Self, ConfineError> {
        let failed = during("Landlock rules");
        let handled = everything(abi);
        let rules = confine::landlock_ruleset(&handled, abi).map_err(&failed)?;
        for folder in folders {
            allow(rules.as_fd(), &handled, Use::Read, folder).map_err(&failed)?;
        }
        Ok(Self { rules })
    }

    /// No file is executed, and no process outside these rules looked into. All else stays. `None`: the kernel has no
    /// Landlock, or its interface 1, under which nobody moves a file from one folder to another.
    ///
    /// # Errors
    ///
    /// When the kernel refuses the rules.
    pub fn to_execute_nothing() -> Result<Option<Self>, ConfineError> {
        const EXECUTE: u64 = 1;
        // Denied unless a rule allows it, whatever is handled.
        const REFER: u64 = 1 << 13;
        let Some(abi) = landlock_abi().filter(|abi| *abi >= 2) else {
            return Ok(None);
        };
        let failed = during("Landlock rules");
        let handled = Handled {
            files: EXECUTE | REFER,
            network: 0,
            scopes: 0,
        };
        let rules = confine::landlock_ruleset(&handled, abi).map_err(&failed)?;
        let root = open(Path::new("/")).map_err(&failed)?;
        confine::landlock_allow(rules.as_fd(), REFER, root.as_fd()).map_err(&failed)?;
        Ok(Some(Self { rules }))
    }

    /// Puts the calling thread behind it for good, and all threads and processes that it starts.
    ///
    /// # Errors
    ///
    /// When the kernel refuses; a thread can be put behind 16 of them.
    pub fn enter(&self) -> Result<(), ConfineError> {
        rustix::thread::set_no_new_privs(true).map_err(during("no_new_privs"))?;
        confine::landlock_restrict(self.rules.as_fd()).map_err(during("Landlock"))
    }
}

/// What makes sense for a file that is no folder: execute, write, read, truncate, `ioctl`.
const OF_FILES: u64 = 0b111 | 1 << 14 | 1 << 15;

impl Walls {
    pub(crate) fn around_keeper(&self, keeper: &Keeper) -> Result<(), ConfineError> {
        Ok(keeper.confine(self.rules.as_ref().map(AsFd::as_fd), &self.filter)?)
    }

    /// Of the rules, for who is forked and goes behind them.
    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.rules.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Starts threads within them: threads have what the one has that starts them.
    pub(crate) fn start<T: Send>(
        &self,
        start: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let start = || match self.around_this_thread() {
            Ok(()) => start(),
            Err(error) => Err(io::Error::other(error)),
        };
        with_signals_blocked(|| {
            thread::scope(|scope| {
                let thread = thread::Builder::new().spawn_scoped(scope, start)?;
                let joined = thread.join();
                joined.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
            })
        })
    }

    /// Around the calling thread, and all that it starts from now on.
    pub(crate) fn around_this_thread(&self) -> Result<(), ConfineError> {
        rustix::thread::set_no_new_privs(true).map_err(during("no_new_privs"))?;
        if let Some(rules) = &self.rules {
            confine::landlock_restrict(rules.as_fd()).map_err(during("Landlock"))?;
        }
        confine::load_filter(&self.filter).map_err(during("seccomp"))
    }
}

/// All that Landlock of this interface can deny, but for signals: the domain's init lives outside.
fn everything(abi: u32) -> Handled {
    const TCP: u64 = 0b11;
    const ABSTRACT_SOCKETS: u64 = 1;
    let rights = match abi {
        1 => 13,
        2 => 14,
        3..=4 => 15,
        _ => 16,
    };
    Handled {
        files: (1 << rights) - 1,
        network: if abi >= 4 { TCP } else { 0 },
        scopes: if abi >= 6 { ABSTRACT_SOCKETS } else { 0 },
    }
}

fn open(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn allow(
    rules: BorrowedFd<'_>,
    handled: &Handled,
    uses: Use,
    file: BorrowedFd<'_>,
) -> rustix::io::Result<()> {
    let mode = rustix::fs::fstat(file)?.st_mode;
    let sensible = match FileType::from_raw_mode(mode).is_dir() {
        true => u64::MAX,
        false => OF_FILES,
    };
    confine::landlock_allow(rules, uses.rights() & handled.files & sensible, file)
}
