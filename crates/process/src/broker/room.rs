//! Room for messages that are on their way into the domain.
//!
//! What a guest sends on a socket of the domain's own lies in a memory file until a child of init's has sent
//! it, and the kernel charges that file to palisade's group, for palisade wrote it. A guest can have many such
//! calls wait, and leave them by a signal, so what all of them hold is bounded.

use crate::lock::lock;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    pipe::PipeFlags,
};
use std::{os::fd::OwnedFd, sync::Mutex};

/// The part of a domain's memory that may lie in messages outside it.
const SHARE: u64 = 16;
/// A few messages at least, however little memory a domain has.
const LEAST: u64 = 1 << 20;
/// Without a limit, and under a large one.
const MOST: u64 = 16 << 20;
/// Each needs a descriptor of the supervisor's.
const MOST_MESSAGES: usize = 128;
/// What a memory file takes beside what is in it.
const FILE_BYTES: usize = 4096;

/// What the messages of one domain hold.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    taken: Mutex<Vec<Taken>>,
}

#[derive(Debug)]
struct Taken {
    bytes: usize,
    /// Hangs up when nobody has the message any more.
    gone: OwnedFd,
}

impl Room {
    /// For a domain of so much memory.
    pub(super) fn of(memory_bytes: Option<u64>) -> Self {
        let most = memory_bytes.map_or(MOST, |bytes| (bytes / SHARE).clamp(LEAST, MOST));
        Self {
            most: most as usize,
            taken: Mutex::default(),
        }
    }

    /// Takes some for a message of so many bytes, for as long as somebody holds what this gives: it is to go
    /// wherever the message goes. `ENOBUFS` where there is none, as send(2) says it.
    pub(super) fn take(&self, bytes: usize) -> Result<OwnedFd, Errno> {
        // Nothing in between can panic.
        let mut taken = lock(&self.taken);
        forget_what_is_gone(&mut taken);
        let bytes = bytes.next_multiple_of(FILE_BYTES) + FILE_BYTES;
        let all: usize = taken.iter().map(|taken| taken.bytes).sum();
        if all + bytes > self.most || taken.len() >= MOST_MESSAGES {
            return Err(Errno::NOBUFS);
        }
        let (gone, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        taken.push(Taken { bytes, gone });
        Ok(held)
    }
}

fn forget_what_is_gone(taken: &mut Vec<Taken>) {
    let nothing = PollFlags::empty();
    let fds = taken.iter().map(|taken| PollFd::new(&taken.gone, nothing));
    let mut fds: Vec<_> = fds.collect();
    // What it says does not matter if it fails: nothing is forgotten then.
    let _ = rustix::event::poll(&mut fds, Some(&Timespec::default()));
    let gone: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    let mut gone = gone.into_iter();
    taken.retain(|_| gone.next() == Some(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_as_much_as_is_not_held() {
        let room = Room::of(Some(64 << 20));
        let message = 200 << 10;
        let held: Vec<_> = std::iter::from_fn(|| room.take(message).ok()).collect();
        assert_eq!(held.len(), (4 << 20) / (message + FILE_BYTES));
        assert_eq!(room.take(message).map(drop), Err(Errno::NOBUFS));
        drop(held);
        assert!(room.take(message).is_ok());
        let held: Vec<_> = std::iter::from_fn(|| room.take(1).ok()).collect();
        assert_eq!(held.len(), MOST_MESSAGES);
    }

    #[test]
    fn there_is_room_for_a_few_in_every_domain_and_not_for_all_in_any() {
        let most = |memory_bytes| Room::of(memory_bytes).most;
        assert_eq!(most(Some(0)), 1 << 20);
        assert_eq!([Some(u64::MAX), None].map(most), [16 << 20; 2]);
    }
}
