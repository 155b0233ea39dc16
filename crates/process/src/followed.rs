//! An input file that the guest reads through a view of its own, with an offset of its own.

use rustix::fs::SeekFrom;
use std::os::fd::OwnedFd;

/// An input file of which the guest reads a view of its own.
#[derive(Debug)]
pub(crate) struct Followed {
    original: OwnedFd,
    view: OwnedFd,
    began: u64,
}

impl Followed {
    pub(crate) fn new(original: OwnedFd, view: OwnedFd, began: u64) -> Self {
        Self {
            original,
            view,
            began,
        }
    }

    /// Once the guest has ended: who reads the file next goes on where the guest stopped.
    pub(crate) fn catch_up(&self) {
        match rustix::fs::tell(&self.view) {
            Ok(read) if read != self.began => {
                // It was sought in before.
                let _ = rustix::fs::seek(&self.original, SeekFrom::Start(read));
            }
            _ => {}
        }
    }
}
