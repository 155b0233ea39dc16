//! Names of leaves: who made it, so that what a killed supervisor leaves behind can be told from
//! what a living one uses.

use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::kernel_file;

/// A process that owns leaves, told apart from a later one with the same id by when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pid: u32,
    /// Clock ticks after boot.
    start_ticks: u64,
    /// The inode of the pid namespace that `pid` belongs to. Who looks from another one cannot
    /// tell whether the owner lives.
    pid_namespace: u64,
}

/// `<pid>-<start>-<pid namespace>-<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeafName {
    owner: Owner,
    serial: u64,
}

/// Whether the owner of a leaf can be seen to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Lives,
    Ended,
    /// It belongs to another pid namespace.
    Unknown,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    ///
    /// When `/proc` is not mounted or not of this pid namespace.
    pub fn this_process() -> io::Result<Self> {
        let pid = process::id();
        let stat = kernel_file::text("/proc/self/stat")?;
        let (_, start_ticks) = parse_stat(&stat).ok_or(io::ErrorKind::InvalidData)?;
        if !stat.starts_with(&format!("{pid} ")) {
            let advice = "/proc belongs to another pid namespace: mount it anew";
            return Err(io::Error::other(advice));
        }
        Ok(Self {
            pid,
            start_ticks,
            pid_namespace: fs::metadata("/proc/self/ns/pid")?.ino(),
        })
    }

    /// A name that this process has not used before.
    #[must_use]
    pub fn next_name(self) -> LeafName {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        LeafName {
            owner: self,
            serial: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether the owner lives, as `observer` sees it. `stat` reads `/proc/<pid>/stat`.
    pub(super) fn life(self, observer: Self, stat: impl FnOnce(u32) -> io::Result<String>) -> Life {
        if self.pid_namespace != observer.pid_namespace {
            return Life::Unknown;
        }
        match stat(self.pid) {
            Ok(stat) => match parse_stat(&stat) {
                Some(('Z' | 'X', _)) => Life::Ended,
                Some((_, start_ticks)) if start_ticks == self.start_ticks => Life::Lives,
                _ => Life::Ended,
            },
            Err(error) if is_gone(&error) => Life::Ended,
            Err(_) => Life::Unknown,
        }
    }
}

/// No such process, or it ended while its file was being read.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// State and start time: fields 3 and 22. The name before them may contain anything.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    let start_ticks = fields.nth(18)?.parse().ok()?;
    Some((state, start_ticks))
}

impl LeafName {
    pub(super) fn owner(self) -> Owner {
        self.owner
    }

    /// The name as it is written; `None` for any other group's.
    pub(super) fn parse(name: &str) -> Option<Self> {
        let numbers: Option<Vec<u64>> = name.split('-').map(|word| word.parse().ok()).collect();
        let [pid, start_ticks, pid_namespace, serial] = numbers?[..] else {
            return None;
        };
        let owner = Owner {
            pid: pid.try_into().ok()?,
            start_ticks,
            pid_namespace,
        };
        Some(Self { owner, serial })
    }
}

impl fmt::Display for LeafName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Owner {
            pid,
            start_ticks,
            pid_namespace,
        } = self.owner;
        write!(f, "{pid}-{start_ticks}-{pid_namespace}-{}", self.serial)
    }
}
