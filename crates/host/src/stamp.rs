//! Whether a file is still the one that it was.

use rustix::fs::Stat;
use std::path::Path;

/// A file as it was: another one in its place has another stamp, and so has one that was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([i128; 5]);

impl Stamp {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let Stat {
            st_dev,
            st_ino,
            st_size,
            st_mtime,
            st_mtime_nsec,
            ..
        } = rustix::fs::stat(path).ok()?;
        Some(Self([
            st_dev.into(),
            st_ino.into(),
            st_size.into(),
            st_mtime.into(),
            st_mtime_nsec.into(),
        ]))
    }
}
