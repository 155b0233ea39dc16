//! From a device or file to a pipe of the guest's.

use super::{Wait, rest::Rest};
use rustix::{event::PollFlags, fs::SeekFrom, io::Errno};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a device or file; a file is sought back to where the guest stopped.
#[derive(Debug)]
pub(crate) struct FromFile {
    pub(super) from: OwnedFd,
    /// Until the end of the file.
    pub(super) to: Option<OwnedFd>,
    /// The guest's end, to see what it has not read.
    pub(super) guests: OwnedFd,
    pub(super) rest: Rest,
    pub(super) read_bytes: i64,
}

impl FromFile {
    pub(super) fn waits(&self) -> [Wait<'_>; 2] {
        match &self.to {
            Some(to) if !self.rest.is_empty() => [(to.as_fd(), PollFlags::OUT); 2],
            Some(_) => [(self.from.as_fd(), PollFlags::IN); 2],
            None => [(self.from.as_fd(), PollFlags::empty()); 2],
        }
    }

    pub(super) fn go(&mut self) -> bool {
        let Some(to) = self.to.as_ref().filter(|_| !self.rest.is_over) else {
            return !self.rest.is_over;
        };
        if self.rest.is_empty() {
            match self.rest.fill(|bytes| rustix::io::read(&self.from, bytes)) {
                Ok(length @ 1..) => self.read_bytes += length as i64,
                Err(Errno::INTR | Errno::AGAIN) => {}
                // The end, or nothing that can be read: closing the pipe tells the guest. A file is sought
                // back later.
                Ok(_) | Err(_) => {
                    self.to = None;
                    return rustix::fs::tell(&self.from).is_ok();
                }
            }
        }
        self.rest
            .write(|bytes| rustix::io::write(to, bytes))
            .is_ok()
    }

    pub(super) fn end(&mut self) {
        if std::mem::replace(&mut self.rest.is_over, true) {
            return;
        }
        let in_pipe = rustix::io::ioctl_fionread(&self.guests).unwrap_or(0);
        let unread = in_pipe as i64 + (self.rest.bytes.len() - self.rest.start) as i64;
        // The guest may have written into its own input.
        let unread = unread.min(self.read_bytes);
        if unread > 0 {
            // A device has no place to go back to.
            let _ = rustix::fs::seek(&self.from, SeekFrom::Current(-unread));
        }
    }
}
