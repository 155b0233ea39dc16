//! The room that entries take: what was used longest ago goes first, and what is spared does not go.
//!
//! The folder is listed now and then only: to list it for each new entry would cost the square of their number.

use super::{EntryName, folder::UNFINISHED, now_s};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use std::{
    cmp::Reverse,
    collections::HashMap,
    ffi::{OsStr, OsString},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
};

/// A file under a temporary name is that old only if its writer died.
const ABANDONED_S: i64 = 3600;
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
    /// By the names of their files; how many times each is to be spared.
    spared: HashMap<OsString, usize>,
}

impl Room {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            most_bytes,
            total_bytes: None,
            since_bytes: 0,
            oldest_last: Vec::new(),
            spared: HashMap::new(),
        }
    }

    pub(super) fn spare(&mut self, name: EntryName) {
        *self.spared.entry(name.file_name().into()).or_default() += 1;
    }

    pub(super) fn spare_no_more(&mut self, name: EntryName) {
        let name = OsString::from(name.file_name());
        if let Some(times) = self.spared.get_mut(&name) {
            *times -= 1;
            if *times == 0 {
                self.spared.remove(&name);
            }
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
            let is_spared =
                oldest.name == OsStr::new(newest) || self.spared.contains_key(&oldest.name);
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
