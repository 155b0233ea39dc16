//! Placeholders: empty files and folders on the host that keep protected paths from coming into
//! being.
//!
//! They lie where guests of other domains may write, so nothing is done by path: a placeholder is a name
//! in a folder that is held open, and that is the folder which the plan was made for.
//!
//! While a domain runs, each of its placeholders carries a shared lock (flock(2)). Whoever wants to
//! remove one must get the exclusive lock first, so two domains that protect the same path don't
//! take it from under each other: removing the file under a mount point would remove the mount. Others can
//! lock it too, so nobody waits for a lock without an end.
//!
//! So are folders that are executable in a folder that is written to: they have to be there before a mount can make
//! them so. Such a one is an ordinary folder of the starter's and stays: another guest may use it by now.
//!
//! Whose supervisor and keeper are killed at one time leaves placeholders behind. Their mode says what they
//! are: the next domain that protects the same path holds them, and removes them when it ends.

use crate::{
    launch_error::LaunchError,
    reopen::open_same,
    steps::Placeholder,
    wire::{self, PLACEHOLDER_FILE_MODE, PLACEHOLDER_FOLDER_MODE},
};
use rustix::{
    fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

/// How long a placeholder may be locked by somebody else. Palisade itself locks one for as long as it takes
/// to remove it.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// Placeholders of one domain: all of them named in open folders, the first of them made.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    entries: Vec<FolderEntry>,
    /// Those that were made, open and locked.
    files: Vec<OwnedFd>,
}

/// A name in an open folder.
#[derive(Debug)]
struct FolderEntry {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    is_folder: bool,
    is_to_fill: bool,
}

impl Placeholders {
    /// Opens the folders, if they are still those of the plan.
    pub(super) fn open(placeholders: &[Placeholder]) -> Result<Self, LaunchError> {
        let entries = placeholders.iter().map(FolderEntry::open);
        Ok(Self {
            entries: entries.collect::<Result<_, _>>()?,
            files: Vec::new(),
        })
    }

    /// For whoever shall remove what this process cannot: the kind, the folder, the name.
    pub(super) fn to_clean(&self) -> impl Iterator<Item = (u8, BorrowedFd<'_>, &OsStr)> {
        let entries = self.entries.iter().filter(|entry| !entry.is_to_fill);
        entries.map(|entry| {
            let kind = match entry.is_folder {
                true => wire::CLEAN_PLACEHOLDER_FOLDER,
                false => wire::CLEAN_PLACEHOLDER,
            };
            (kind, entry.folder.as_fd(), entry.name.as_os_str())
        })
    }

    /// Creates what does not exist and locks all of it.
    pub(super) fn hold(&mut self) -> Result<(), LaunchError> {
        for entry in &self.entries {
            let file = match entry.is_to_fill {
                true => entry.make()?,
                false => entry.create_and_lock()?,
            };
            self.files.push(file);
        }
        Ok(())
    }

    /// Removes what nobody else holds and nobody has filled.
    pub(super) fn remove(&mut self) {
        let entries = self.entries.iter().zip(self.files.drain(..));
        for (entry, file) in entries.filter(|(entry, _)| !entry.is_to_fill) {
            entry.remove(&file);
        }
    }
}

impl FolderEntry {
    fn open(placeholder: &Placeholder) -> Result<Self, LaunchError> {
        let path = &placeholder.path;
        let parent = path.parent().unwrap_or(path);
        Ok(Self {
            folder: open_same(parent, placeholder.parent)?,
            name: path.file_name().unwrap_or_default().into(),
            path: path.clone(),
            is_folder: placeholder.folder,
            is_to_fill: placeholder.to_fill,
        })
    }

    /// A folder for the guest. Another launcher may make it meanwhile, for the same; nobody removes it.
    fn make(&self) -> Result<OwnedFd, LaunchError> {
        let error = |errno| LaunchError::MakeFolder {
            path: self.path.clone(),
            errno,
        };
        if !self.is_around_own().map_err(error)? {
            return Err(LaunchError::OfAnotherUser {
                path: self.path.clone(),
            });
        }
        self.create().map_err(error)?;
        self.open_file().map_err(error)
    }

    fn create_and_lock(&self) -> Result<OwnedFd, LaunchError> {
        let error = |errno| LaunchError::HoldPath {
            path: self.path.clone(),
            errno,
        };
        let until = Instant::now() + LOCK_PATIENCE;
        loop {
            let is_new = self.create().map_err(error)?;
            let file = match self.open_file() {
                // Removed by another launcher in between.
                Err(Errno::NOENT) if Instant::now() < until => continue,
                opened => opened.map_err(error)?,
            };
            // Of its own it knows whether they are: not every file system keeps the mode.
            if !is_new && !self.is_placeholder(&rustix::fs::fstat(&file).map_err(error)?) {
                return Err(self.changed());
            }
            self.lock(&file, until)?;
            match self.is_there(&file) {
                true => return Ok(file),
                false if Instant::now() < until => {}
                false => return Err(self.changed()),
            }
        }
    }

    fn changed(&self) -> LaunchError {
        LaunchError::SourceChanged {
            path: self.path.clone(),
        }
    }

    /// A guest of root's could not write in a folder of root's that lies in somebody else's.
    fn is_around_own(&self) -> rustix::io::Result<bool> {
        let around = rustix::fs::fstat(&self.folder)?;
        Ok(around.st_uid == rustix::process::geteuid().as_raw())
    }

    /// Makes it, unless something is there; says which.
    fn create(&self) -> rustix::io::Result<bool> {
        let created = if self.is_folder {
            let mode = match self.is_to_fill {
                true => Mode::RWXU | Mode::RWXG | Mode::RWXO,
                false => Mode::from(PLACEHOLDER_FOLDER_MODE),
            };
            rustix::fs::mkdirat(&self.folder, &self.name, mode)
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from(PLACEHOLDER_FILE_MODE);
            rustix::fs::openat(&self.folder, &self.name, flags, mode).map(drop)
        };
        match created {
            Err(Errno::EXIST) => Ok(false),
            created => created.map(|()| true),
        }
    }

    fn open_file(&self) -> rustix::io::Result<OwnedFd> {
        let kind = match self.is_folder {
            true => OFlags::DIRECTORY,
            false => OFlags::empty(),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = flags | OFlags::CLOEXEC | kind;
        rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
    }

    fn is_placeholder(&self, stat: &Stat) -> bool {
        let kind = FileType::from_raw_mode(stat.st_mode);
        let mode = stat.st_mode & 0o7777;
        match self.is_folder {
            true => kind.is_dir() && mode == PLACEHOLDER_FOLDER_MODE,
            false => kind.is_file() && mode == PLACEHOLDER_FILE_MODE && stat.st_size == 0,
        }
    }

    /// flock(2) waits for ever or not at all: it is asked again and again, less and less often.
    fn lock(&self, file: &OwnedFd, until: Instant) -> Result<(), LaunchError> {
        let mut pause = Duration::from_micros(50);
        loop {
            match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(()),
                Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(pause),
                Err(Errno::WOULDBLOCK) => {
                    return Err(LaunchError::PlaceholderLocked {
                        path: self.path.clone(),
                    });
                }
                Err(errno) => {
                    return Err(LaunchError::HoldPath {
                        path: self.path.clone(),
                        errno,
                    });
                }
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn is_there(&self, file: &OwnedFd) -> bool {
        let there = rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let (Ok(open), Ok(there)) = (rustix::fs::fstat(file), there) else {
            return false;
        };
        (open.st_dev, open.st_ino) == (there.st_dev, there.st_ino)
    }

    fn remove(&self, file: &OwnedFd) {
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && self.is_there(file)
            && (self.is_folder || rustix::fs::fstat(file).is_ok_and(|stat| stat.st_size == 0))
        {
            // A folder that was filled stays: rmdir refuses it.
            let flags = match self.is_folder {
                true => AtFlags::REMOVEDIR,
                false => AtFlags::empty(),
            };
            let _ = rustix::fs::unlinkat(&self.folder, &self.name, flags);
        }
    }
}
