//! Compiled code on disk.
//!
//! ```text
//!  palisade/        the caller's own, which nobody else can write to
//!    code-key       0600, 32 random bytes
//!    code/          0700, of programs that are run
//!      NAME         0400: code, its MAC, a mark
//!    served/        0700, of what servers have loaded
//! ```
//!
//! An entry's name is the hash of all that its code depends on: the module, this version, the compiler's
//! file, the processor's features. Its MAC is a keyed hash of name and code. Code is machine code that a
//! worker will execute, so whatever is not exactly as it was written — cut off, changed, under another
//! name, somebody else's, open to others, reached by a link — is removed and made again. What a server's
//! configuration names is read through once an hour, if nobody writes to it: the file and the time of
//! its change tell. What was checked is handed on as an open file, never as a path, and was held against change while it was checked
//! (`held.rs`): who kept a descriptor for writing changes nothing.
//!
//! Who can write here and read the key can have code of his own executed in the domain of a later guest.
//! So a policy that lets a guest write here is refused.

mod folder;
mod key;
mod room;

pub use folder::usual_base;

use crate::held::Held;
use folder::{is_own_file, make_folders, own_folder, unfinished};
use room::{Room, Seen, tells_each_change};
use rustix::{
    fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fs::File,
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// All entries of programs together; those used longest ago go first.
const MOST_BYTES: u64 = 512 << 20;
/// An entry used within this time is not marked as used again.
const MARK_EVERY_S: i64 = 3600;

/// Below the user's caches.
const FOLDER: &str = "palisade";
/// The folders of entries, and the file of the key.
const ENTRIES: &str = "code";
const SERVED: &str = "served";
const KEY: &str = "code-key";
const KEY_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
/// The last bytes of a whole entry.
const MARK: &[u8; 8] = b"palcode1";
const TRAILER_BYTES: usize = MAC_BYTES + MARK.len();

/// An open cache.
#[derive(Debug)]
pub struct Cache {
    /// Where it lies, without links.
    pub path: PathBuf,
    folder: OwnedFd,
    key: [u8; KEY_BYTES],
    room: Mutex<Room>,
}

/// The cache can't be used: each start compiles.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum CacheError {
    #[error("no folder for compiled code: neither XDG_CACHE_HOME nor HOME is set")]
    NoHome,
    #[error("{} cannot be used for compiled code: {errno}", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        errno: Errno,
    },
    #[error("{} cannot be used for compiled code: {why}", path.display())]
    Untrusted { path: PathBuf, why: &'static str },
}

/// What an entry is named after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryName([u8; 32]);

impl EntryName {
    /// The hash of these parts, none of which can pass for another.
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("palisade code cache, entry names, 1");
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    fn file_name(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    fn of_file(name: &OsStr) -> Option<Self> {
        let hash = blake3::Hash::from_hex(name.as_encoded_bytes()).ok()?;
        Some(Self(*hash.as_bytes()))
    }
}

/// What of the usual cache nobody else may write to, by the letter: it may be missing. `None`: there is none.
pub fn usual_paths() -> Option<[PathBuf; 3]> {
    let path = usual_base().ok()?.join(FOLDER);
    Some(paths_in(&path))
}

fn paths_in(path: &Path) -> [PathBuf; 3] {
    [ENTRIES, SERVED, KEY].map(|name| path.join(name))
}

impl Cache {
    /// Opens the cache of programs below `base`, and makes what is missing.
    ///
    /// # Errors
    ///
    /// When it can't be made, or could be changed by others.
    pub fn open(base: &Path) -> Result<Self, CacheError> {
        Self::open_folder(base, ENTRIES, MOST_BYTES)
    }

    /// Opens the cache of servers below `base`: no program that is run takes its room. `most_bytes` bounds all entries
    /// together, but for those that are spared ([`Cache::spare`]).
    ///
    /// # Errors
    ///
    /// As of [`Cache::open`].
    pub fn open_for_servers(base: &Path, most_bytes: u64) -> Result<Self, CacheError> {
        Self::open_folder(base, SERVED, most_bytes)
    }

    fn open_folder(base: &Path, entries: &str, most_bytes: u64) -> Result<Self, CacheError> {
        let cannot = |errno| CacheError::Folder {
            path: base.into(),
            errno,
        };
        let base = match std::fs::canonicalize(base) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                make_folders(base).map_err(cannot)?;
                std::fs::canonicalize(base)
            }
            found => found,
        };
        let base = base.map_err(|error| cannot(errno_of(&error)))?;
        let path = base.join(FOLDER);
        let outer = own_folder(rustix::fs::CWD, &path, &path, 0o022)?;
        let open = |name: &str| own_folder(outer.as_fd(), Path::new(name), &path.join(name), 0o077);
        // Both, whoever asks: no guest makes the other one ahead.
        open(ENTRIES)?;
        open(SERVED)?;
        let key = key::key(&outer).map_err(|errno| CacheError::Folder {
            path: path.join(KEY),
            errno,
        })?;
        Ok(Self {
            folder: open(entries)?,
            path,
            key,
            room: Mutex::new(Room::new(most_bytes)),
        })
    }

    /// What nobody else may write to.
    pub fn paths(&self) -> [PathBuf; 3] {
        paths_in(&self.path)
    }

    /// Bounds all entries together by so many bytes from the next new one on.
    pub fn set_most_bytes(&self, most_bytes: u64) {
        self.room().most_bytes = most_bytes;
    }

    /// Has the entry of this name stay, whatever room it takes, until [`Cache::spare_no_more`] was called as often.
    pub fn spare(&self, name: EntryName) {
        self.room().spare(name);
    }

    /// Takes one [`Cache::spare`] back.
    pub fn spare_no_more(&self, name: EntryName) {
        self.room().spare_no_more(name);
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code of this name, checked and held as it is; `None` if there is none. One that can't be trusted is removed.
    pub(crate) fn get(&self, name: EntryName) -> Option<Held> {
        let file_name = name.file_name();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.folder, &file_name, flags, Mode::empty());
        let checked = match opened {
            Err(Errno::NOENT) => return None,
            Err(_) => None,
            Ok(file) => self.check(name, File::from(file)),
        };
        if checked.is_none() {
            // What is there may be anything but a folder; a folder stays, and nothing is kept here.
            let _ = rustix::fs::unlinkat(&self.folder, &file_name, AtFlags::empty());
        }
        checked
    }

    fn check(&self, name: EntryName, file: File) -> Option<Held> {
        let stat = rustix::fs::fstat(&file).ok()?;
        if !is_own_file(&stat) || stat.st_nlink != 1 {
            return None;
        }
        mark_as_used(&file, &stat);
        // From here on nobody changes it: what is checked is what is handed on.
        let held = Held::of(file).ok()?;
        let Held::Leased(leased) = &held else {
            return self.is_whole(name, held.file()).then_some(held);
        };
        let seen = Seen::from(&rustix::fs::fstat(leased.file()).ok()?);
        if self.room().has_seen(name, seen) {
            return Some(held);
        }
        let is_whole = self.is_whole(name, leased.file());
        let kind = rustix::fs::fstatfs(leased.file()).ok()?.f_type;
        if is_whole && tells_each_change(kind) {
            self.room().see(name, seen);
        }
        is_whole.then_some(held)
    }

    fn is_whole(&self, name: EntryName, file: &File) -> bool {
        let check = || {
            let size = usize::try_from(file.metadata().ok()?.len()).ok()?;
            let code_bytes = size.checked_sub(TRAILER_BYTES)?;
            let mut hasher = self.hasher(name);
            let mut trailer = [0; TRAILER_BYTES];
            update_from(&mut hasher, file, code_bytes as u64).ok()?;
            file.read_exact_at(&mut trailer, code_bytes as u64).ok()?;
            let (mac, mark) = trailer.split_at(MAC_BYTES);
            // The comparison takes the same time wherever they differ.
            let is_whole =
                mark == MARK && hasher.finalize() == <[u8; MAC_BYTES]>::try_from(mac).ok()?;
            Some(is_whole)
        };
        check() == Some(true)
    }

    /// Keeps code under this name, and gives it back, checked and held.
    ///
    /// # Errors
    ///
    /// When it can't be written.
    pub(crate) fn put(&self, name: EntryName, code: &[u8]) -> Result<Held, CacheError> {
        self.write(name, code).map_err(|errno| CacheError::Folder {
            path: self.path.clone(),
            errno,
        })
    }

    fn write(&self, name: EntryName, code: &[u8]) -> rustix::io::Result<Held> {
        let mac = self.hasher(name).update(code).finalize();
        let (mut file, unfinished) = unfinished(&self.folder)?;
        let written = file
            .write_all(code)
            .and_then(|()| file.write_all(mac.as_bytes()))
            .and_then(|()| file.write_all(MARK))
            .and_then(|()| file.sync_data())
            .map_err(|error| errno_of(&error))
            .and_then(|()| rustix::fs::fchmod(&file, Mode::from(0o400)));
        // Nobody holds a file that is open for writing.
        drop(file);
        let finished = written.and_then(|()| {
            // Under the name that only this process knows: under the other one somebody may put the same code in its place.
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let reader = rustix::fs::openat(&self.folder, &unfinished, flags, Mode::empty())?;
            let held = self.check(name, reader.into()).ok_or(Errno::IO)?;
            rustix::fs::renameat(&self.folder, &unfinished, &self.folder, name.file_name())?;
            Ok(held)
        });
        if finished.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &unfinished, AtFlags::empty());
        }
        let bytes = (code.len() + TRAILER_BYTES) as u64;
        self.room().make(&self.folder, &name.file_name(), bytes);
        finished
    }

    fn hasher(&self, name: EntryName) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&name.0);
        hasher
    }
}

fn update_from(hasher: &mut blake3::Hasher, file: &File, bytes: u64) -> std::io::Result<()> {
    /// Enough for the widest lanes, and small enough for a processor's cache.
    const PIECE_BYTES: usize = 128 * 1024;
    let mut piece = vec![0; PIECE_BYTES.min(bytes as usize)];
    let mut at = 0;
    while at < bytes {
        let length = piece.len().min((bytes - at) as usize);
        file.read_exact_at(&mut piece[..length], at)?;
        hasher.update(&piece[..length]);
        at += length as u64;
    }
    Ok(())
}

fn mark_as_used(file: &File, stat: &Stat) {
    if stat.st_mtime + MARK_EVERY_S < now_s() {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        // It goes a little earlier then.
        let _ = rustix::fs::futimens(file, &times);
    }
}

fn now_s() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
