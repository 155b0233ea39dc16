//! Standard streams that are pipes.
//!
//! Who owns a pipe can open it anew for the other direction (`/proc/self/fd`), and Landlock is not asked
//! about pipes (`is_nouser_or_private` in security/landlock/fs.c). An ordinary user's guest has that user's
//! id: it could write into what others read next, such as the shell that reads its commands there, and read
//! what others wrote. That matters where somebody else holds the same end. Whoever does got it as palisade
//! did, from the process that started palisade; so a pipe which that one holds is relayed, and any other is
//! passed on, at its own speed.
//!
//! As root a domain has a user of its own, who owns no pipe and could not open `/dev/stdout`. So a pipe that is
//! passed on there gets the one bit of mode by which others can open it the way round in which the guest holds it
//! anyway, and never both.

use crate::Tier;
use rustix::{
    fs::{Mode, Stat},
    io::Errno,
};
use std::{cell::OnceCell, os::fd::BorrowedFd};

/// A pipe or FIFO.
#[derive(Debug)]
pub(super) struct Pipe {
    identity: (u64, u64),
    owner: u32,
    has_name: bool,
}

impl Pipe {
    pub(super) fn new(fd: BorrowedFd<'_>, stat: &Stat) -> Result<Self, Errno> {
        const PIPEFS: i64 = 0x5049_5045;
        Ok(Self {
            identity: (stat.st_dev, stat.st_ino),
            owner: stat.st_uid,
            has_name: rustix::fs::fstatfs(fd)?.f_type as i64 != PIPEFS,
        })
    }

    /// Whether only its bytes may be passed on. A FIFO has a mode that others rely on, and may be open to
    /// any user.
    pub(super) fn is_relayed(&self, tier: Tier, parent: &Parent) -> bool {
        self.has_name || (self.is_open_to_guest(tier) && parent.holds(self.identity))
    }

    /// As root a domain has a user of its own, who owns nothing.
    fn is_open_to_guest(&self, tier: Tier) -> bool {
        tier != Tier::Privileged && self.owner == rustix::process::geteuid().as_raw()
    }
}

/// Lets others open a pipe for reading, or for writing, by its name in `/proc`: nobody has that but who may look
/// into somebody that holds it. Two guests may hold the two ends; who comes second finds the other bit and leaves the
/// mode as it is, and of two that come at one time neither keeps his. What the kernel refuses stays as it was.
pub(super) fn let_reopen(pipe: BorrowedFd<'_>, for_reading: bool) {
    let (own, other) = match for_reading {
        true => (Mode::ROTH, Mode::WOTH),
        false => (Mode::WOTH, Mode::ROTH),
    };
    let mode = || rustix::fs::fstat(pipe).map_or(other, |stat| Mode::from_raw_mode(stat.st_mode));
    let before = mode();
    if before.intersects(own | other) || rustix::fs::fchmod(pipe, before | own).is_err() {
        return;
    }
    let after = mode();
    if after.contains(other) {
        let _ = rustix::fs::fchmod(pipe, after - own);
    }
}

/// The streams of the process that started this one, looked up once; `None` if it does not let itself be
/// asked.
#[derive(Debug, Default)]
pub(super) struct Parent(OnceCell<Option<Vec<(u64, u64)>>>);

impl Parent {
    /// Whether it holds this one, for all we know.
    fn holds(&self, identity: (u64, u64)) -> bool {
        let streams = self.0.get_or_init(streams_of_parent).as_ref();
        streams.is_none_or(|streams| streams.contains(&identity))
    }
}

fn streams_of_parent() -> Option<Vec<(u64, u64)>> {
    let parent = rustix::process::getppid()?.as_raw_pid();
    let mut streams = Vec::new();
    for stream in 0..3 {
        match rustix::fs::stat(format!("/proc/{parent}/fd/{stream}")) {
            Ok(stat) => streams.push((stat.st_dev, stat.st_ino)),
            // Closed there.
            Err(Errno::NOENT) => {}
            Err(_) => return None,
        }
    }
    Some(streams)
}
