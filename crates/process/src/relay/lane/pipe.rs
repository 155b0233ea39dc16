//! From a pipe to one of the guest's, piece by piece.

use super::{OVER, Wait};
use rustix::{event::PollFlags, io::Errno, pipe::SpliceFlags};
use std::os::fd::{AsFd, OwnedFd};

/// What a pipe of the smallest size holds.
pub(super) const PIECE_BYTES: usize = 4096;

/// As `FromSocket`, with tee(2) for the look.
#[derive(Debug)]
pub(crate) struct FromPipe {
    pub(super) from: OwnedFd,
    pub(super) to: OwnedFd,
    pub(super) shown_bytes: usize,
}

impl FromPipe {
    pub(super) fn waits(&self) -> [Wait<'_>; 2] {
        let to = self.to.as_fd();
        match self.shown_bytes {
            0 => [(self.from.as_fd(), PollFlags::IN), (to, PollFlags::empty())],
            _ => [(to, PollFlags::OUT); 2],
        }
    }

    pub(super) fn go(&mut self) -> bool {
        if self.shown_bytes == OVER {
            return false;
        }
        // There is room with something unread in it: nobody reads it any more, or the guest has made it
        // larger (F_SETPIPE_SZ), after which poll(2) tells nothing.
        if self.shown_bytes > 0 && self.unread_bytes() > 0 {
            self.end();
            return false;
        }
        self.take(self.shown_bytes);
        let flags = SpliceFlags::NONBLOCK;
        match rustix::pipe::tee(&self.from, &self.to, PIECE_BYTES, flags) {
            Ok(shown @ 1..) => self.shown_bytes = shown,
            Err(Errno::INTR) => {}
            // Nothing is there, or no room: the guest has written into its own input, and would keep us busy.
            Err(Errno::AGAIN) => return self.unread_bytes() == 0,
            // No writer is left, or no reader.
            Ok(_) | Err(_) => return false,
        }
        true
    }

    pub(super) fn unread_bytes(&self) -> usize {
        rustix::io::ioctl_fionread(&self.to).map_or(0, |bytes| bytes as usize)
    }

    pub(super) fn take(&mut self, mut count: usize) {
        self.shown_bytes = 0;
        let mut bytes = [0; PIECE_BYTES];
        // They are there, unless somebody else took them: then nobody may wait.
        while count > 0 && rustix::io::ioctl_fionread(&self.from).is_ok_and(|there| there > 0) {
            let most = count.min(PIECE_BYTES);
            match rustix::io::read(&self.from, &mut bytes[..most]) {
                Ok(length @ 1..) => count -= length,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    pub(super) fn end(&mut self) {
        if self.shown_bytes != OVER {
            self.take(self.shown_bytes.saturating_sub(self.unread_bytes()));
        }
        self.shown_bytes = OVER;
    }
}
