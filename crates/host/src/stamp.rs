//! Whether a file is still the one that it was.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

/// A file as it was: another one in its place has another stamp, and so has one that was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([i128; 5]);

/// The same to whoever sets times back, too; also of a file that was only renamed or linked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExactStamp(Stamp, [i128; 2]);

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Some(Self::new(&rustix::fs::stat(path).ok()?))
    }

    fn new(stat: &Stat) -> Self {
        Self([
            stat.st_dev.into(),
            stat.st_ino.into(),
            stat.st_size.into(),
            stat.st_mtime.into(),
            stat.st_mtime_nsec.into(),
        ])
    }
}

impl ExactStamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Some(Self::new(&rustix::fs::stat(path).ok()?))
    }

    pub(crate) fn new(stat: &Stat) -> Self {
        let changed = [stat.st_ctime.into(), stat.st_ctime_nsec.into()];
        Self(Stamp::new(stat), changed)
    }
}

/// Looks at many files of one folder, one after the other: the way there is gone once.
#[derive(Debug, Default)]
pub(crate) struct Look {
    folder: Option<(Box<[u8]>, OwnedFd)>,
}

impl Look {
    /// What lies at this absolute path, following links.
    pub(crate) fn stat(&mut self, path: &Path) -> Option<Stat> {
        let bytes = path.as_os_str().as_bytes();
        let slash = bytes.iter().rposition(|byte| *byte == b'/')?;
        let (folder, name) = (&bytes[..=slash], OsStr::from_bytes(&bytes[slash + 1..]));
        if self
            .folder
            .as_ref()
            .is_none_or(|(known, _)| **known != *folder)
        {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(CWD, OsStr::from_bytes(folder), flags, Mode::empty());
            self.folder = Some((folder.into(), opened.ok()?));
        }
        let (_, folder) = self.folder.as_ref()?;
        rustix::fs::statat(folder, name, AtFlags::empty()).ok()
    }
}
