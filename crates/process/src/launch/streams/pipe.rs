//! Standard streams that are pipes.
//!
//! Who owns a pipe can open it anew for the other direction (`/proc/self/fd`), and Landlock is not asked
//! about pipes (`is_nouser_or_private` in security/landlock/fs.c). An ordinary user's guest has that user's
//! id: it could write into what others read next, such as the shell that reads its commands there, and read
//! what others wrote. That matters where somebody else holds the same end. Whoever does got it as palisade
//! did, from the process that started palisade; so a pipe which that one holds is relayed, and any other is
//! passed on, at its own speed.
//!
//! As root a domain has a user of its own, who owns no pipe and could not open `/dev/stdout`. So the same pipes
//! are passed on there as to an ordinary user, with a mode by which they can be opened: nobody gets to see a pipe
//! but who holds it, or may look into somebody who does. A program that embeds palisade may give one pipe to
//! several guests; root's then open none of it, as ever.

use crate::Tier;
use rustix::{
    fs::{Mode, Stat},
    io::Errno,
};
use std::{
    cell::OnceCell,
    os::fd::{AsFd, BorrowedFd},
};

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
    pub(super) fn is_relayed(
        &self,
        fd: BorrowedFd<'_>,
        tier: Tier,
        is_its_own: bool,
        parent: &Parent,
    ) -> bool {
        if self.has_name {
            return true;
        }
        match tier {
            Tier::Privileged if !is_its_own => false,
            Tier::Privileged => parent.holds(self.identity) || open_to_guest(fd).is_err(),
            // The user's own can be opened by the guest; another's can't, whoever holds it.
            Tier::UserNamespace | Tier::Bare => {
                self.owner == rustix::process::geteuid().as_raw() && parent.holds(self.identity)
            }
        }
    }
}

/// Any pipe of the guest's under `/proc/self/fd` is opened by its mode.
pub(super) fn open_to_guest(pipe: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fchmod(pipe, Mode::from_raw_mode(0o666))
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
