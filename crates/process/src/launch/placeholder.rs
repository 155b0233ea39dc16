//! Placeholders: empty files and folders on the host that keep protected paths from coming into
//! being.
//!
//! While a domain runs, each of its placeholders carries a shared lock (flock(2)). Whoever wants to
//! remove one must get the exclusive lock first, so two domains that protect the same path don't
//! take it from under each other: removing the file under a mount point would remove the mount.

use super::LaunchError;
use crate::plan::{FILE_MODE, FOLDER_MODE, Placeholder};
use rustix::{
    fs::{FlockOperation, Mode, OFlags},
    io::Errno,
};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

/// Placeholders that this process holds.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    placeholders: Vec<(PathBuf, bool, OwnedFd)>,
}

impl Placeholders {
    /// Creates what does not exist and locks all of it.
    pub(super) fn hold(&mut self, placeholders: &[Placeholder]) -> Result<(), LaunchError> {
        for placeholder in placeholders {
            let file = create_and_lock(placeholder).map_err(|errno| LaunchError::HoldPath {
                path: placeholder.path.clone(),
                errno,
            })?;
            self.placeholders
                .push((placeholder.path.clone(), placeholder.folder, file));
        }
        Ok(())
    }

    /// Removes what nobody else holds and nobody has filled.
    pub(super) fn remove(&mut self) {
        for (path, folder, file) in self.placeholders.drain(..).rev() {
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
                && is_unused(&file, &path)
            {
                // A folder that was filled stays: rmdir refuses it.
                let _ = if folder {
                    rustix::fs::rmdir(&path)
                } else {
                    rustix::fs::unlink(&path)
                };
            }
        }
    }
}

fn create_and_lock(placeholder: &Placeholder) -> rustix::io::Result<OwnedFd> {
    loop {
        create(placeholder)?;
        let kind = if placeholder.folder {
            OFlags::DIRECTORY
        } else {
            OFlags::empty()
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | kind;
        let file = match rustix::fs::open(&placeholder.path, flags, Mode::empty()) {
            // Removed by another launcher in between.
            Err(Errno::NOENT) => continue,
            opened => opened?,
        };
        rustix::fs::flock(&file, FlockOperation::LockShared)?;
        if is_same_file(&file, &placeholder.path) {
            return Ok(file);
        }
    }
}

fn create(placeholder: &Placeholder) -> rustix::io::Result<()> {
    let created = if placeholder.folder {
        rustix::fs::mkdir(&placeholder.path, Mode::from(FOLDER_MODE))
    } else {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::open(&placeholder.path, flags, Mode::from(FILE_MODE)).map(drop)
    };
    match created {
        Err(Errno::EXIST) => Ok(()),
        outcome => outcome,
    }
}

fn is_same_file(file: &OwnedFd, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (rustix::fs::fstat(file), rustix::fs::lstat(path)) else {
        return false;
    };
    (open.st_dev, open.st_ino) == (there.st_dev, there.st_ino)
}

fn is_unused(file: &OwnedFd, path: &Path) -> bool {
    let is_folder = |mode| rustix::fs::FileType::from_raw_mode(mode).is_dir();
    is_same_file(file, path)
        && rustix::fs::fstat(file).is_ok_and(|stat| stat.st_size == 0 || is_folder(stat.st_mode))
}
