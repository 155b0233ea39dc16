//! Whether a file is still the one that it was.

use rustix::fs::Stat;
use std::path::Path;

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
        let stat = rustix::fs::stat(path).ok()?;
        let changed = [stat.st_ctime.into(), stat.st_ctime_nsec.into()];
        Some(Self(Stamp::new(&stat), changed))
    }
}
