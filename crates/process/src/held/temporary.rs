//! The temporary folder of a guest that has no file system of its own: a folder of the host's, made for it and removed
//! with all that it left there.
//!
//! ```text
//! /tmp/palisade-3f9c2b…   0700, a random name: nobody can be there first, nobody else can look
//! ```
//!
//! What is in it by then is a stranger's, so it is removed by names in open folders, and no link is followed. The tree
//! may be deeper than descriptors or a stack would reach: whoever removes it stands in one folder at a time, goes down
//! where something is left and up by `..`. Where a process of the guest's is left after all, it may move the folder that is
//! stood in to where the guest may write: `..` counts only if it is the folder that was come from.

use crate::{host::Identity, launch_error::LaunchError};
use rustix::{
    fs::{AtFlags, Mode, OFlags, RawDir},
    io::Errno,
};
use std::{
    ffi::{CStr, CString, OsString},
    fmt::Write,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// What no link leads to.
const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// What is asked for of a folder's entries at once.
const ENTRIES_BYTES: usize = 16 << 10;

/// How long it may take to empty one: the starter waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// One guest's folder. It goes by [`Temporary::remove`].
#[derive(Debug)]
pub(super) struct Temporary {
    around: OwnedFd,
    folder: OwnedFd,
    name: String,
    path: PathBuf,
}

impl Temporary {
    /// Makes one in a folder where everybody may.
    pub(super) fn make(around: &Path) -> Result<Self, LaunchError> {
        let error = |errno| LaunchError::MakeTemporary {
            folder: around.into(),
            errno,
        };
        let name = random_name().map_err(error)?;
        let path = around.join(&name);
        let around = rustix::fs::open(around, FOLDER, Mode::empty()).map_err(error)?;
        rustix::fs::mkdirat(&around, &name, Mode::RWXU).map_err(error)?;
        let folder = rustix::fs::openat(&around, &name, FOLDER, Mode::empty()).map_err(error)?;
        // Who may rename in the folder around it could have put another in its place.
        if !is_as_made(&folder).map_err(error)? {
            return Err(error(Errno::EXIST));
        }
        Ok(Self {
            around,
            folder,
            name,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder around it, and its name there.
    pub(super) fn place(&self) -> (BorrowedFd<'_>, &str) {
        (self.around.as_fd(), &self.name)
    }

    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Removes it and what is in it, for a limited time. What the guest made so that nobody lists it stays.
    pub(super) fn remove(self) -> rustix::io::Result<()> {
        empty(self.folder, Instant::now() + PATIENCE)?;
        rustix::fs::unlinkat(&self.around, &self.name, AtFlags::REMOVEDIR)
    }
}

/// Variables by which programs find it.
pub(super) fn variables(path: &Path) -> [OsString; 2] {
    ["TMPDIR=", "HOME="].map(|name| {
        let mut variable = OsString::from(name);
        variable.push(path);
        variable
    })
}

fn random_name() -> rustix::io::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let mut name = String::from("palisade-");
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name)
}

/// Whether this is a folder of one's own, for nobody else, with nothing in it.
fn is_as_made(folder: &OwnedFd) -> rustix::io::Result<bool> {
    rustix::fs::seek(folder, rustix::fs::SeekFrom::Start(0))?;
    let stat = rustix::fs::fstat(folder)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    let mut buffer = [MaybeUninit::uninit(); ENTRIES_BYTES];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        if !is_itself(entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(is_own && stat.st_mode & 0o7777 == 0o700)
}

fn is_itself(name: &CStr) -> bool {
    [c".", c".."].contains(&name)
}

/// Removes what a folder holds, however deep.
fn empty(folder: OwnedFd, until: Instant) -> rustix::io::Result<()> {
    let mut here = folder;
    let mut above = Vec::new();
    loop {
        let next = match (remove_entries(&here, until)?, above.last()) {
            (Some(name), _) => {
                above.push(Identity::of(&rustix::fs::fstat(&here)?));
                rustix::fs::openat(&here, name, FOLDER, Mode::empty())?
            }
            (None, None) => return Ok(()),
            (None, Some(from)) => {
                let parent = go_up(&here, *from)?;
                above.pop();
                parent
            }
        };
        here = next;
    }
}

/// The folder around this one, if it is the one that was come from.
fn go_up(folder: &OwnedFd, from: Identity) -> rustix::io::Result<OwnedFd> {
    let parent = rustix::fs::openat(folder, c"..", FOLDER, Mode::empty())?;
    match Identity::of(&rustix::fs::fstat(&parent)?) == from {
        true => Ok(parent),
        false => Err(Errno::XDEV),
    }
}

/// Removes a folder's entries, and those of the folders in it, up to the first folder with a filled one in it: gives
/// its name.
fn remove_entries(folder: &OwnedFd, until: Instant) -> rustix::io::Result<Option<CString>> {
    remove_each(folder, until, |name| {
        let below = rustix::fs::openat(folder, name, FOLDER, Mode::empty())?;
        remove_each(&below, until, |_| Err(Errno::NOTEMPTY))?;
        rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)
    })
}

/// Removes a folder's entries; what is done with a filled folder may fail for what it is filled with, and its name is
/// given then.
fn remove_each(
    folder: &OwnedFd,
    until: Instant,
    remove_filled: impl Fn(&CStr) -> rustix::io::Result<()>,
) -> rustix::io::Result<Option<CString>> {
    rustix::fs::seek(folder, rustix::fs::SeekFrom::Start(0))?;
    let mut buffer = [MaybeUninit::uninit(); ENTRIES_BYTES];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if is_itself(name) {
            continue;
        }
        if Instant::now() >= until {
            return Err(Errno::TIME);
        }
        let removed = match remove_entry(folder, name) {
            Err(Errno::NOTEMPTY) => remove_filled(name),
            removed => removed,
        };
        match removed {
            Err(Errno::NOTEMPTY) => return Ok(Some(name.into())),
            removed => removed?,
        }
    }
    Ok(None)
}

fn remove_entry(folder: &OwnedFd, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        // As Linux and POSIX have it.
        Err(Errno::ISDIR | Errno::PERM) => rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn made() -> (tempfile::TempDir, Temporary) {
        let around = tempfile::tempdir().unwrap();
        let temporary = Temporary::make(around.path()).unwrap();
        (around, temporary)
    }

    fn is_empty(folder: &Path) -> bool {
        fs::read_dir(folder).unwrap().next().is_none()
    }

    #[test]
    fn nobody_else_can_look() {
        use std::os::unix::fs::PermissionsExt;
        let (_around, temporary) = made();
        let mode = fs::metadata(temporary.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700);
    }

    #[test]
    fn what_links_lead_to_stays() {
        let (around, temporary) = made();
        let kept = tempfile::tempdir().unwrap();
        fs::write(kept.path().join("file"), "kept").unwrap();
        let inside = temporary.path().join("a");
        fs::create_dir(&inside).unwrap();
        std::os::unix::fs::symlink(kept.path(), inside.join("folder")).unwrap();
        std::os::unix::fs::symlink(kept.path().join("file"), inside.join("file")).unwrap();
        fs::hard_link(kept.path().join("file"), inside.join("second")).unwrap();
        temporary.remove().unwrap();
        assert!(is_empty(around.path()));
        assert_eq!(fs::read(kept.path().join("file")).unwrap(), b"kept");
    }

    #[test]
    fn many_files_in_many_folders_go() {
        let (around, temporary) = made();
        for folder in 0..20 {
            let folder = temporary.path().join(folder.to_string());
            fs::create_dir(&folder).unwrap();
            for file in 0..200 {
                fs::write(folder.join(format!("{file}{}", "x".repeat(200))), "").unwrap();
            }
            fs::create_dir(folder.join("nothing")).unwrap();
        }
        temporary.remove().unwrap();
        assert!(is_empty(around.path()));
    }

    #[test]
    fn another_folder_in_its_place_is_not_taken() {
        let (_around, temporary) = made();
        assert!(is_as_made(&temporary.folder).unwrap());
        fs::write(temporary.path().join("file"), "").unwrap();
        assert!(!is_as_made(&temporary.folder).unwrap());
    }

    #[test]
    fn nobody_waits_for_ever() {
        let (_around, temporary) = made();
        fs::write(temporary.path().join("file"), "").unwrap();
        let folder = temporary.folder().try_clone_to_owned().unwrap();
        assert_eq!(empty(folder, Instant::now()), Err(Errno::TIME));
        temporary.remove().unwrap();
    }

    /// Deeper than a path can say, and than descriptors reach.
    #[test]
    fn a_tree_deeper_than_any_path_goes() {
        let (around, temporary) = made();
        let mut here = temporary.folder().try_clone_to_owned().unwrap();
        for _ in 0..2_500 {
            rustix::fs::mkdirat(&here, c"a", Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, c"a", FOLDER, Mode::empty()).unwrap();
        }
        drop(here);
        temporary.remove().unwrap();
        assert!(is_empty(around.path()));
    }

    /// Moved away while it is emptied: seen before a folder above it that is not the guest's is touched.
    #[test]
    fn a_way_up_that_leads_elsewhere_is_not_taken() {
        let (_around, temporary) = made();
        let elsewhere = tempfile::tempdir().unwrap();
        let outer = temporary.path().join("outer");
        fs::create_dir_all(outer.join("inner")).unwrap();
        let from = Identity::of(&rustix::fs::stat(&outer).unwrap());
        fs::rename(outer.join("inner"), elsewhere.path().join("inner")).unwrap();
        let here = rustix::fs::open(elsewhere.path().join("inner"), FOLDER, Mode::empty()).unwrap();
        assert_eq!(go_up(&here, from).unwrap_err(), Errno::XDEV);
    }

    #[test]
    fn a_folder_that_may_not_be_entered_is_removed_when_empty() {
        let (around, temporary) = made();
        rustix::fs::mkdirat(temporary.folder(), c"closed", Mode::empty()).unwrap();
        temporary.remove().unwrap();
        assert!(is_empty(around.path()));
    }
}
