//! From a socket of the host's to the guest's.

use super::{CHUNK_BYTES, OVER, Wait};
use rustix::{
    event::{
        PollFlags,
        epoll::{self, EventData, EventFlags},
    },
    io::Errno,
    net::{RecvFlags, SendFlags, Shutdown},
};
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

/// Bytes are looked at, shown to the guest, and taken from the outside once the guest has taken them.
#[derive(Debug)]
pub(crate) struct FromSocket {
    pub(super) from: Arc<OwnedFd>,
    pub(super) to: Arc<OwnedFd>,
    /// The guest's end, to see what it has not read.
    pub(super) guests: Arc<OwnedFd>,
    /// Readable when the guest has read a piece: poll(2) on the socket only tells of room.
    pub(super) taken: OwnedFd,
    /// So many of the next bytes were shown.
    pub(super) shown_bytes: usize,
}

impl FromSocket {
    pub(super) fn waits(&self) -> [Wait<'_>; 2] {
        let fd = match self.shown_bytes {
            0 => self.from.as_fd(),
            _ => self.taken.as_fd(),
        };
        [(fd, PollFlags::IN); 2]
    }

    pub(super) fn go(&mut self) -> bool {
        if self.shown_bytes == OVER {
            return false;
        }
        if self.shown_bytes > 0 {
            self.forget_event();
            if self.unread_bytes() > 0 {
                return true;
            }
            if !self.take(self.shown_bytes) {
                return false;
            }
        }
        self.show()
    }

    /// The event stays until it is fetched.
    pub(super) fn forget_event(&self) {
        let mut events = [epoll::Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        }];
        let at_once = rustix::event::Timespec::default();
        let _ = epoll::wait(&self.taken, &mut events, Some(&at_once));
    }

    pub(super) fn unread_bytes(&self) -> usize {
        rustix::io::ioctl_fionread(&self.guests).map_or(0, |bytes| bytes as usize)
    }

    /// Shows the guest what is there.
    pub(super) fn show(&mut self) -> bool {
        let mut bytes = vec![0; CHUNK_BYTES];
        let look = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.from, &mut *bytes, look) {
            Ok((0, _)) => {
                let _ = rustix::net::shutdown(&self.to, Shutdown::Write);
                false
            }
            Ok((length, _)) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                match rustix::net::send(&self.to, &bytes[..length], flags) {
                    Ok(sent) => self.shown_bytes = sent,
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    // The guest reads no more (shutdown(2)).
                    Err(_) => return false,
                }
                true
            }
            Err(Errno::INTR | Errno::AGAIN) => true,
            Err(_) => {
                let _ = rustix::net::shutdown(&self.to, Shutdown::Write);
                false
            }
        }
    }

    /// Takes so many bytes from the outside.
    pub(super) fn take(&mut self, mut count: usize) -> bool {
        self.shown_bytes = 0;
        let mut bytes = vec![0; count.min(CHUNK_BYTES)];
        while count > 0 {
            let most = count.min(CHUNK_BYTES);
            match rustix::net::recv(&self.from, &mut bytes[..most], RecvFlags::DONTWAIT) {
                // Somebody else took them.
                Ok((0, _)) => return true,
                Ok((length, _)) => count -= length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Takes what the guest has read of the last piece.
    pub(super) fn end(&mut self) {
        if self.shown_bytes != OVER {
            let read = self.shown_bytes.saturating_sub(self.unread_bytes());
            self.take(read);
        }
        self.shown_bytes = OVER;
    }
}
