//! Folders and files of the caller's own.

use super::{CacheError, errno_of};
use rustix::{
    fs::{FileType, Mode, OFlags, Stat},
    io::Errno,
};
use std::{
    fs::File,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// How the names of unfinished files begin.
pub(super) const UNFINISHED: &str = "tmp-";

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

/// sudo(8) may leave root the home of whoever asked: what root makes there is in the owner's way, and comes
/// wherever a link of the owner's leads.
pub(super) fn base(
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

/// A new file under a name that nobody else has.
pub(super) fn unfinished(folder: &OwnedFd) -> rustix::io::Result<(File, String)> {
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

pub(super) fn is_own_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == rustix::process::geteuid().as_raw()
        && stat.st_mode & 0o022 == 0
}

/// Opens a folder of the caller's in which others have none of these rights, and makes it if it is missing.
pub(super) fn own_folder(
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

pub(super) fn make_folders(path: &Path) -> rustix::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| errno_of(&error))
}
