//! The processes of this machine, as `/proc` tells of them (proc(5)).

use super::Usage;
use crate::{keeper::PROGRAM_INSIDE, wire};
use rustix::fs::SealFlags;
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What the kernel says of one process. Nothing of it is the process's own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) pid: u32,
    pub(super) parent: u32,
    /// Since boot.
    pub(super) started_ticks: u64,
    cpu_ticks: u64,
}

/// All of them, at about one moment.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<u32, Entry>,
    children: HashMap<u32, Vec<u32>>,
}

impl Entry {
    pub(super) fn read(pid: u32) -> Option<Self> {
        // The name in it may be any bytes.
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &stat)
    }

    /// Fields are counted behind the name, which may hold anything: the parent is the fourth, times of the process and
    /// of its ended children the 14th to the 17th, the start the 22nd.
    pub(super) fn parse(pid: u32, stat: &[u8]) -> Option<Self> {
        const FIRST: usize = 3;
        let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let fields: Vec<_> = std::str::from_utf8(&stat[behind..])
            .ok()?
            .split_ascii_whitespace()
            .collect();
        let number = |field: usize| fields.get(field - FIRST)?.parse::<u64>().ok();
        let times = (14..=17).map(number);
        Some(Self {
            pid,
            parent: u32::try_from(number(4)?).ok()?,
            started_ticks: number(22)?,
            cpu_ticks: times.sum::<Option<u64>>()?,
        })
    }
}

impl Table {
    pub(super) fn read() -> io::Result<Self> {
        let names =
            fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let pids = names.filter_map(|name| name.parse().ok());
        // One that has ended meanwhile is nobody's.
        Ok(Self::of(pids.filter_map(Entry::read)))
    }

    pub(super) fn of(entries: impl Iterator<Item = Entry>) -> Self {
        let mut table = Self::default();
        for entry in entries {
            table
                .children
                .entry(entry.parent)
                .or_default()
                .push(entry.pid);
            table.entries.insert(entry.pid, entry);
        }
        table
    }

    /// Who has children.
    pub(super) fn parents(&self) -> impl Iterator<Item = &Entry> {
        self.children.keys().filter_map(|pid| self.entries.get(pid))
    }

    pub(super) fn children(&self, pid: u32) -> impl Iterator<Item = &Entry> {
        let children = self.children.get(&pid).into_iter().flatten();
        children.filter_map(|pid| self.entries.get(pid))
    }

    /// Pids of those around. A table is not read at one moment, so a circle is possible.
    pub(super) fn ancestors(&self, entry: &Entry) -> impl Iterator<Item = u32> {
        let mut left = self.entries.len();
        let mut next = Some(entry.parent);
        std::iter::from_fn(move || {
            let pid = next?;
            left = left.checked_sub(1)?;
            next = self.entries.get(&pid).map(|entry| entry.parent);
            Some(pid)
        })
    }

    /// Of all below an init. Who loses its parent there becomes init's child, so none is lost.
    pub(super) fn usage_below(&self, init: &Entry) -> Usage {
        let mut usage = Usage::default();
        let mut cpu_ticks = 0;
        let mut rest = vec![*init];
        let mut left = self.entries.len();
        while let Some(entry) = rest.pop() {
            if left == 0 {
                break;
            }
            left -= 1;
            cpu_ticks += entry.cpu_ticks;
            usage.processes += usize::from(entry.pid != init.pid);
            usage.memory_bytes += own_memory_bytes(entry.pid).unwrap_or(0);
            rest.extend(self.children(entry.pid).copied());
        }
        usage.cpu = duration_of(cpu_ticks);
        usage
    }
}

/// What a process has of memory that is not a file's, in bytes. One whose first thread has ended shows none by itself; its
/// other threads show it.
pub fn own_memory_bytes(pid: u32) -> Option<u64> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let bytes = resident_bytes(&folder)?;
    if bytes > 0 {
        return Some(bytes);
    }
    let threads = fs::read_dir(folder.join("task")).into_iter().flatten();
    let mut threads = threads
        .flatten()
        .filter_map(|thread| resident_bytes(&thread.path()));
    Some(threads.find(|bytes| *bytes > 0).unwrap_or(0))
}

/// Resident pages less those of files.
fn resident_bytes(folder: &Path) -> Option<u64> {
    let statm = fs::read_to_string(folder.join("statm")).ok()?;
    let mut fields = statm.split_ascii_whitespace().skip(1);
    let resident: u64 = fields.next()?.parse().ok()?;
    let shared: u64 = fields.next()?.parse().ok()?;
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

pub(super) fn duration_of(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let rest = ticks % per_second;
    Duration::from_secs(ticks / per_second)
        + Duration::from_nanos(rest * 1_000_000_000 / per_second)
}

pub(super) fn boot_time() -> io::Result<SystemTime> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    let seconds = line.and_then(|seconds| seconds.trim().parse().ok());
    let seconds = seconds
        .ok_or_else(|| io::Error::other("/proc/stat does not say when the machine started"))?;
    Ok(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The words that a process shows as its arguments: its own word, as far as a title goes. Never empty.
///
/// The kernel reads them from the process's memory, which may be as much as it likes, or a file that somebody serves
/// slowly: to be asked of this user's processes only.
pub(super) fn title(pid: u32) -> Option<Vec<Vec<u8>>> {
    let file = File::open(format!("/proc/{pid}/cmdline")).ok()?;
    let mut bytes = Vec::new();
    file.take(wire::TITLE_BYTES as u64)
        .read_to_end(&mut bytes)
        .ok()?;
    let end = bytes.iter().rposition(|byte| *byte != 0)? + 1;
    Some(
        bytes[..end]
            .split(|byte| *byte == 0)
            .map(<[u8]>::to_vec)
            .collect(),
    )
}

/// Whether a process executes the keeper's program, as this user, in this pid namespace.
pub(super) fn is_own_keeper(pid: u32) -> bool {
    let own = rustix::process::getuid().as_raw();
    let status = Status::read(pid);
    status.is_some_and(|status| status.uid == own && status.pids.len() == 1) && executes_keeper(pid)
}

/// Whether a process is the first of a pid namespace one further in, or of none of its own (a domain without namespaces).
pub(super) fn is_first(pid: u32) -> bool {
    let status = Status::read(pid);
    status.is_some_and(|status| matches!(&*status.pids, [_, 1] | [_]))
}

/// A memory file that nobody can write to any more; inside a domain, the file that a palisade outside left.
fn executes_keeper(pid: u32) -> bool {
    const MEMORY_FILE: &[u8] = b"/memfd:palisade-keeper (deleted)";
    let path = PathBuf::from(format!("/proc/{pid}/exe"));
    let Ok(target) = fs::read_link(&path) else {
        return false;
    };
    if target.as_os_str().as_bytes() != MEMORY_FILE {
        return target == Path::new(PROGRAM_INSIDE);
    }
    let sealed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    let seals = File::open(&path).and_then(|file| Ok(rustix::fs::fcntl_get_seals(&file)?));
    seals.is_ok_and(|seals| seals.contains(sealed))
}

/// Lines of proc_pid_status(5).
struct Status {
    uid: u32,
    /// Its pids, from this namespace inwards.
    pids: Vec<u32>,
}

impl Status {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{pid}/status")).ok()?)
    }

    /// The first line has the name, in which the kernel escapes line ends.
    fn parse(status: &[u8]) -> Option<Self> {
        let status = String::from_utf8_lossy(status);
        let numbers = |key: &str| {
            let line = status
                .lines()
                .skip(1)
                .find_map(|line| line.strip_prefix(key))?;
            let numbers = line.split_ascii_whitespace().map(str::parse);
            numbers.collect::<Result<Vec<u32>, _>>().ok()
        };
        Some(Self {
            uid: *numbers("Uid:")?.first()?,
            pids: numbers("NSpid:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_hold_anything() {
        let stat = b"7 (a) R 1 2) 3\xff) S 5 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 55 9";
        let entry = Entry::parse(7, stat).unwrap();
        assert_eq!(
            (entry.parent, entry.started_ticks, entry.cpu_ticks),
            (5, 55, 127)
        );
        assert_eq!(Entry::parse(7, b"7 (short"), None);
        assert_eq!(Entry::parse(7, b"7 (short) S 1"), None);
    }

    #[test]
    fn a_status_is_not_read_from_a_name() {
        let status =
            Status::parse(b"Name:\tUid:\\n0\nUmask:\t0022\nUid:\t7\t8\t9\t10\nNSpid:\t100\t1\n")
                .unwrap();
        assert_eq!((status.uid, &*status.pids), (7, &[100, 1][..]));
        assert!(Status::parse(b"Name:\tx\nUid:\tno\n").is_none());
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let entry = |pid, parent| Entry {
            pid,
            parent,
            started_ticks: 0,
            cpu_ticks: 1,
        };
        let table = Table::of(
            [
                entry(2_000_000_000, 2_000_000_001),
                entry(2_000_000_001, 2_000_000_000),
            ]
            .into_iter(),
        );
        let first = table.entries[&2_000_000_000];
        assert!(table.ancestors(&first).count() <= 3);
        assert!(table.usage_below(&first).processes <= 2);
    }
}
