//! The room that entries take: what was used longest ago goes first, and what is spared does not go. And which of these were
//! found whole, so that they need not be read through each time.
//!
//! The folder is listed now and then only: to list it for each new entry would cost the square of their number.

use super::{EntryName, folder::UNFINISHED, now_s};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat};
use std::{
    cmp::Reverse,
    collections::HashMap,
    ffi::{OsStr, OsString},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

/// A file under a temporary name is that old only if its writer died.
const ABANDONED_S: i64 = 3600;
/// How coarsely file systems tell times, at worst.
const COARSE_S: i64 = 3;
/// The folder is listed again when one part of so many of the bound has come.
const LISTED_EVERY: u64 = 8;

/// What a cache takes of its disk.
#[derive(Debug)]
pub(super) struct Room {
    /// All entries together.
    pub(super) most_bytes: u64,
    /// What they take, as far as it is known here; `None`: not looked at yet.
    total_bytes: Option<u64>,
    /// What has come since.
    since_bytes: u64,
    /// What was there then, the entries used last first.
    oldest_last: Vec<Entry>,
    spared: HashMap<EntryName, Spared>,
    /// File systems tell times as coarsely as this: what changed later may change again at the same time.
    pub(super) coarse_s: i64,
}

/// An entry that stays.
#[derive(Debug, Default)]
struct Spared {
    /// So many want it.
    times: usize,
    whole: Option<Seen>,
}

/// A file as it was found. As long as it is the same nobody has written to it: before it is opened for writing its mode has to
/// change, and that and each write are told by the time of its change, which only whoever sets the clock has a say in. So it is on
/// [file systems](tells_each_change) of which that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    device: u64,
    inode: u64,
    mode: u32,
    bytes: i64,
    changed: (i64, i64),
}

impl From<&Stat> for Seen {
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            mode: stat.st_mode,
            bytes: stat.st_size,
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

impl Seen {
    fn is_writable(&self) -> bool {
        self.mode & 0o222 != 0
    }
}

/// Whether a file system keeps the time of each change, by a mapping too. One in memory does not: tmpfs(5) has no time for what is
/// stored in a page that was only read before.
pub(super) fn tells_each_change(kind: i64) -> bool {
    const EXT4: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const BTRFS: i64 = 0x9123_683e;
    const F2FS: i64 = 0xf2f5_2010;
    [EXT4, XFS, BTRFS, F2FS].contains(&kind)
}

impl Room {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            most_bytes,
            total_bytes: None,
            since_bytes: 0,
            oldest_last: Vec::new(),
            spared: HashMap::new(),
            coarse_s: COARSE_S,
        }
    }

    pub(super) fn spare(&mut self, name: EntryName) {
        self.spared.entry(name).or_default().times += 1;
    }

    pub(super) fn spare_no_more(&mut self, name: EntryName) {
        if let Some(spared) = self.spared.get_mut(&name) {
            spared.times -= 1;
            if spared.times == 0 {
                self.spared.remove(&name);
            }
        }
    }

    /// Whether this is what was found whole.
    pub(super) fn has_seen(&self, name: EntryName, seen: Seen) -> bool {
        let spared = self.spared.get(&name);
        spared.is_some_and(|spared| spared.whole == Some(seen))
    }

    /// This was found whole, and while it was looked at nobody could change it. What changed just now is looked at again.
    pub(super) fn see(&mut self, name: EntryName, seen: Seen) {
        let is_settled = seen.changed.0 + self.coarse_s <= now_s();
        if let Some(spared) = self.spared.get_mut(&name) {
            spared.whole = (is_settled && !seen.is_writable()).then_some(seen);
        }
    }

    /// An entry of so many bytes has come; others go for it, if they must. Another process may do the same.
    pub(super) fn make(&mut self, folder: &OwnedFd, newest: &str, bytes: u64) {
        self.since_bytes += bytes;
        let known = self
            .total_bytes
            .filter(|_| self.since_bytes <= self.most_bytes / LISTED_EVERY);
        let total = match known {
            Some(total) => total + bytes,
            None => self.list(folder),
        };
        self.total_bytes = Some(self.remove_oldest(folder, newest, total));
    }

    /// Looks at what there is, and gives what it takes.
    fn list(&mut self, folder: &OwnedFd) -> u64 {
        let now_s = now_s();
        let mut entries = entries(folder);
        entries.retain(|entry| {
            let is_unfinished = entry.name.as_bytes().starts_with(UNFINISHED.as_bytes());
            if is_unfinished && entry.used_s + ABANDONED_S < now_s {
                let _ = rustix::fs::unlinkat(folder, &entry.name, AtFlags::empty());
            }
            !is_unfinished
        });
        entries.sort_by_key(|entry| Reverse(entry.used_s));
        self.since_bytes = 0;
        let total = entries.iter().map(|entry| entry.bytes).sum();
        self.oldest_last = entries;
        total
    }

    /// Removes entries until the rest fits, those used longest ago first. Gives what the rest takes.
    fn remove_oldest(&mut self, folder: &OwnedFd, newest: &str, mut total: u64) -> u64 {
        while total > self.most_bytes
            && let Some(oldest) = self.oldest_last.pop()
        {
            let is_spared = oldest.name == OsStr::new(newest)
                || EntryName::of_file(&oldest.name)
                    .is_some_and(|name| self.spared.contains_key(&name));
            // One that was used since, or made anew, is found again when the folder is listed next.
            if is_spared || stat(folder, &oldest.name).is_none_or(|now| now != oldest) {
                continue;
            }
            if rustix::fs::unlinkat(folder, &oldest.name, AtFlags::empty()).is_ok() {
                total = total.saturating_sub(oldest.bytes);
            }
        }
        total
    }
}

/// A file in the cache.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    name: OsString,
    bytes: u64,
    used_s: i64,
}

pub(super) fn entries(folder: &OwnedFd) -> Vec<Entry> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listing) = rustix::fs::openat(folder, ".", flags, Mode::empty()) else {
        return Vec::new();
    };
    let mut buffer = [const { MaybeUninit::uninit() }; 8192];
    let mut names = RawDir::new(listing, &mut buffer);
    let mut entries = Vec::new();
    while let Some(Ok(found)) = names.next() {
        let name = OsStr::from_bytes(found.file_name().to_bytes());
        entries.extend(stat(folder, name));
    }
    entries
}

fn stat(folder: &OwnedFd, name: &OsStr) -> Option<Entry> {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| Entry {
        name: name.into(),
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        used_s: stat.st_mtime,
    })
}
