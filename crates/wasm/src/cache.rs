//! Compiled code on disk.
//!
//! ```text
//!  palisade/        the caller's own, which nobody else can write to
//!    code-key       0600, 32 random bytes
//!    code/          0700
//!      NAME         code, its MAC, a mark
//! ```
//!
//! An entry's name is the hash of all that its code depends on: the module, this version, the compiler's
//! file, the processor's features. Its MAC is a keyed hash of name and code. Code is machine code that a
//! worker will execute, so whatever is not exactly as it was written — cut off, changed, under another
//! name, somebody else's, open to others, reached by a link — is removed and made again. What was checked
//! is handed on as an open file, never as a path.
//!
//! Who can write here and read the key can have code of his own executed in the domain of a later guest.
//! So a policy that lets a guest write here is refused.

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, Stat, Timespec, Timestamps},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            fs::{FileExt, MetadataExt},
        },
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// All entries together; those used longest ago go first.
const MOST_BYTES: u64 = 512 << 20;
/// An entry used within this time is not marked as used again.
const MARK_EVERY_S: i64 = 3600;
/// A file under a temporary name is that old only if its writer died.
const ABANDONED_S: i64 = 3600;

/// Below the user's caches.
const FOLDER: &str = "palisade";
/// The folder of entries, and the file of the key.
const ENTRIES: &str = "code";
const KEY: &str = "code-key";
const KEY_BYTES: usize = 32;
const MAC_BYTES: usize = 32;
/// The last bytes of a whole entry.
const MARK: &[u8; 8] = b"palcode1";
const TRAILER_BYTES: usize = MAC_BYTES + MARK.len();
/// How the names of unfinished files begin.
const UNFINISHED: &str = "tmp-";

/// An open cache.
#[derive(Debug)]
pub struct Cache {
    /// Where it lies, without links.
    pub path: PathBuf,
    folder: OwnedFd,
    key: [u8; KEY_BYTES],
    most_bytes: u64,
}

/// The cache can't be used: each start compiles.
#[derive(Debug, thiserror::Error)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// Where a user's caches lie: `$XDG_CACHE_HOME`, else `$HOME/.cache`; for root without either of its own
/// `/var/cache`.
///
/// # Errors
///
/// When an ordinary user has neither.
pub fn usual_base() -> Result<PathBuf, CacheError> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let is_root = rustix::process::geteuid().is_root();
    base(variable("XDG_CACHE_HOME"), variable("HOME"), is_root)
}

/// What of the usual cache nobody else may write to, by the letter: it may be missing. `None`: there is none.
pub fn usual_paths() -> Option<[PathBuf; 2]> {
    let path = usual_base().ok()?.join(FOLDER);
    Some(paths_in(&path))
}

fn paths_in(path: &Path) -> [PathBuf; 2] {
    [ENTRIES, KEY].map(|name| path.join(name))
}

/// sudo(8) may leave root the home of whoever asked: what root makes there is in the owner's way, and comes
/// wherever a link of the owner's leads.
fn base(
    caches: Option<PathBuf>,
    home: Option<PathBuf>,
    is_root: bool,
) -> Result<PathBuf, CacheError> {
    let usable = |path: &PathBuf| path.is_absolute() && (!is_root || is_roots(path));
    caches
        .filter(usable)
        .or_else(|| home.filter(usable).map(|home| home.join(".cache")))
        .or_else(|| is_root.then(|| PathBuf::from("/var/cache")))
        .ok_or(CacheError::NoHome)
}

/// Whether root owns what lies at this path, or that in which it would be made.
fn is_roots(path: &Path) -> bool {
    let mut existing = path.ancestors().filter_map(|path| path.metadata().ok());
    existing.next().is_some_and(|metadata| metadata.uid() == 0)
}

impl Cache {
    /// Opens the cache below `base`, and makes what is missing.
    ///
    /// # Errors
    ///
    /// When it can't be made, or could be changed by others.
    pub fn open(base: &Path) -> Result<Self, CacheError> {
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
        let folder = own_folder(
            outer.as_fd(),
            Path::new(ENTRIES),
            &path.join(ENTRIES),
            0o077,
        )?;
        let key = key(&outer).map_err(|errno| CacheError::Folder {
            path: path.join(KEY),
            errno,
        })?;
        Ok(Self {
            path,
            folder,
            key,
            most_bytes: MOST_BYTES,
        })
    }

    /// What nobody else may write to.
    pub fn paths(&self) -> [PathBuf; 2] {
        paths_in(&self.path)
    }

    /// The code of this name, checked; `None` if there is none. One that can't be trusted is removed.
    pub fn get(&self, name: EntryName) -> Option<File> {
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

    fn check(&self, name: EntryName, file: File) -> Option<File> {
        let stat = rustix::fs::fstat(&file).ok()?;
        if !is_own_file(&stat) || stat.st_nlink != 1 {
            return None;
        }
        let size = usize::try_from(stat.st_size).ok()?;
        let code_bytes = size.checked_sub(TRAILER_BYTES)?;
        let mut hasher = self.hasher(name);
        let mut trailer = [0; TRAILER_BYTES];
        update_from(&mut hasher, &file, code_bytes as u64).ok()?;
        file.read_exact_at(&mut trailer, code_bytes as u64).ok()?;
        let (mac, mark) = trailer.split_at(MAC_BYTES);
        // The comparison takes the same time wherever they differ.
        let is_whole =
            mark == MARK && hasher.finalize() == <[u8; MAC_BYTES]>::try_from(mac).ok()?;
        if !is_whole {
            return None;
        }
        mark_as_used(&file, &stat);
        Some(file)
    }

    /// Keeps code under this name, and gives it back as an open file.
    ///
    /// # Errors
    ///
    /// When it can't be written.
    pub fn put(&self, name: EntryName, code: &[u8]) -> Result<File, CacheError> {
        self.write(name, code).map_err(|errno| CacheError::Folder {
            path: self.path.clone(),
            errno,
        })
    }

    fn write(&self, name: EntryName, code: &[u8]) -> rustix::io::Result<File> {
        let mac = self.hasher(name).update(code).finalize();
        let (mut file, unfinished) = unfinished(&self.folder)?;
        let written = file
            .write_all(code)
            .and_then(|()| file.write_all(mac.as_bytes()))
            .and_then(|()| file.write_all(MARK))
            .and_then(|()| file.sync_data())
            .map_err(|error| errno_of(&error));
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let finished = written
            .and_then(|()| rustix::fs::openat(&self.folder, &unfinished, flags, Mode::empty()))
            .and_then(|reader| {
                rustix::fs::renameat(&self.folder, &unfinished, &self.folder, name.file_name())?;
                Ok(File::from(reader))
            });
        if finished.is_err() {
            let _ = rustix::fs::unlinkat(&self.folder, &unfinished, AtFlags::empty());
        }
        self.make_room(&name.file_name());
        finished
    }

    fn hasher(&self, name: EntryName) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&name.0);
        hasher
    }

    /// Removes entries until the rest fits, those used longest ago first, but not `newest`. Another
    /// process may do the same.
    fn make_room(&self, newest: &str) {
        let mut entries = self.entries();
        entries.sort_by_key(|entry| (entry.name == OsStr::new(newest), entry.used_s));
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let now_s = now_s();
        for entry in &entries {
            let is_unfinished = entry.name.as_bytes().starts_with(UNFINISHED.as_bytes());
            let is_abandoned = is_unfinished && entry.used_s + ABANDONED_S < now_s;
            let is_too_much = total > self.most_bytes && !is_unfinished;
            if (is_too_much && entry.name != OsStr::new(newest)) || is_abandoned {
                let _ = rustix::fs::unlinkat(&self.folder, &entry.name, AtFlags::empty());
                total -= entry.bytes;
            }
        }
    }

    fn entries(&self) -> Vec<Entry> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(listing) = rustix::fs::openat(&self.folder, ".", flags, Mode::empty()) else {
            return Vec::new();
        };
        let mut buffer = [const { MaybeUninit::uninit() }; 8192];
        let mut names = RawDir::new(listing, &mut buffer);
        let mut entries = Vec::new();
        while let Some(Ok(found)) = names.next() {
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            let stat = rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
            if let Ok(stat) = stat
                && FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            {
                entries.push(Entry {
                    name: name.into(),
                    bytes: u64::try_from(stat.st_size).unwrap_or(0),
                    used_s: stat.st_mtime,
                });
            }
        }
        entries
    }
}

/// A file in the cache.
struct Entry {
    name: OsString,
    bytes: u64,
    used_s: i64,
}

/// The key of this cache, made at its first use. One that others could have read or written is made
/// anew, and with it every entry.
fn key(outer: &OwnedFd) -> rustix::io::Result<[u8; KEY_BYTES]> {
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        match read_key(outer)? {
            Some(key) => return Ok(key),
            None => make_key(outer)?,
        }
    }
    Err(Errno::AGAIN)
}

fn read_key(outer: &OwnedFd) -> rustix::io::Result<Option<[u8; KEY_BYTES]>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(outer, KEY, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return remove_key(outer, errno),
        Ok(file) => file,
    };
    let stat = rustix::fs::fstat(&file)?;
    let is_secret = is_own_file(&stat) && stat.st_nlink == 1 && stat.st_mode & 0o077 == 0;
    let mut key = [0; KEY_BYTES];
    let is_whole =
        stat.st_size == KEY_BYTES as i64 && rustix::io::pread(&file, &mut key, 0) == Ok(KEY_BYTES);
    match is_secret && is_whole {
        true => Ok(Some(key)),
        false => remove_key(outer, Errno::PERM),
    }
}

fn remove_key<T>(outer: &OwnedFd, why: Errno) -> rustix::io::Result<Option<T>> {
    match rustix::fs::unlinkat(outer, KEY, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        Err(_) => Err(why),
    }
}

/// Whoever is first makes it.
fn make_key(outer: &OwnedFd) -> rustix::io::Result<()> {
    let mut key = [0; KEY_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut key))
        .map_err(|error| errno_of(&error))?;
    let (mut file, name) = unfinished(outer)?;
    let made = file
        .write_all(&key)
        .and_then(|()| file.sync_data())
        .map_err(|error| errno_of(&error))
        .and_then(|()| rustix::fs::renameat_with(outer, &name, outer, KEY, RenameFlags::NOREPLACE));
    match made {
        Ok(()) => Ok(()),
        Err(errno) => {
            let _ = rustix::fs::unlinkat(outer, &name, AtFlags::empty());
            match errno {
                Errno::EXIST => Ok(()),
                errno => Err(errno),
            }
        }
    }
}

/// A new file under a name that nobody else has.
fn unfinished(folder: &OwnedFd) -> rustix::io::Result<(File, String)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{UNFINISHED}{}-{number}", std::process::id());
        match rustix::fs::openat(folder, &name, flags, Mode::from(0o600)) {
            // Another's who had this number and died.
            Err(Errno::EXIST) => {}
            opened => return Ok((opened?.into(), name)),
        }
    }
}

fn is_own_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o022 == 0
}

/// Opens a folder of the caller's in which others have none of these rights, and makes it if it is missing.
fn own_folder(
    at: impl AsFd,
    name: &Path,
    shown: &Path,
    rights: u32,
) -> Result<OwnedFd, CacheError> {
    let cannot = |errno| CacheError::Folder {
        path: shown.into(),
        errno,
    };
    let untrusted = |why| CacheError::Untrusted {
        path: shown.into(),
        why,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(&at, name, flags, Mode::empty());
    let folder = match open() {
        Err(Errno::NOENT) => match rustix::fs::mkdirat(&at, name, Mode::from(0o700)) {
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(errno) => Err(errno),
        },
        opened => opened,
    };
    let folder = folder.map_err(cannot)?;
    let stat = rustix::fs::fstat(&folder).map_err(cannot)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(untrusted("it belongs to somebody else"));
    }
    if stat.st_mode & rights != 0 {
        return Err(untrusted("others have rights in it (chmod go-rwx)"));
    }
    Ok(folder)
}

fn make_folders(path: &Path) -> rustix::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| errno_of(&error))
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
