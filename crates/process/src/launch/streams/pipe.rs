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
//! are passed on there as to an ordinary user, with a mode by which they can be opened, in the direction of the stream
//! alone: nobody gets to see a pipe but who holds it, or may look into somebody who does. The two ends share one mode. So
//! where another guest may have the other end (`palisade run A | palisade run B`), who comes second gets a pipe of its
//! own: else what B reads elsewhere could go back to A.

use crate::Tier;
use rustix::{
    fs::{Mode, OFlags, Stat},
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
    pub(super) fn is_relayed(&self, fd: BorrowedFd<'_>, tier: Tier, parent: &Parent) -> bool {
        if self.has_name {
            return true;
        }
        match tier {
            Tier::Privileged => parent.holds(self.identity) || open_one_way(fd).is_err(),
            // The user's own can be opened by the guest; another's can't, whoever holds it.
            Tier::UserNamespace | Tier::Bare => {
                self.owner == rustix::process::geteuid().as_raw() && parent.holds(self.identity)
            }
        }
    }
}

/// A pipe of the guest's alone. Any under `/proc/self/fd` is opened by its mode.
pub(super) fn open_to_guest(pipe: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fchmod(pipe, Mode::from_raw_mode(0o666))
}

/// A pipe of which others have an end: in the direction of this descriptor, where nobody else was let in by the other
/// one. The mode is set and not added to, so whoever does the same at the same time lets the pipe be opened in one
/// direction or in the other, never in both.
fn open_one_way(pipe: BorrowedFd<'_>) -> Result<(), Errno> {
    const OF_ITS_OWNER: u32 = 0o600;
    let flags = rustix::fs::fcntl_getfl(pipe)?;
    let bit = match flags & OFlags::RWMODE {
        OFlags::RDONLY => 0o004,
        OFlags::WRONLY => 0o002,
        _ => return Err(Errno::ACCESS),
    };
    let open = rustix::fs::fstat(pipe)?.st_mode & 0o066;
    if open & !bit != 0 {
        return Err(Errno::ACCESS);
    }
    rustix::fs::fchmod(pipe, Mode::from_raw_mode(OF_ITS_OWNER | bit))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    fn mode(pipe: impl AsFd) -> u32 {
        rustix::fs::fstat(pipe).unwrap().st_mode & 0o777
    }

    #[test]
    fn a_pipe_is_opened_in_its_direction_alone() {
        let (from, to) = pipe().unwrap();
        open_one_way(to.as_fd()).unwrap();
        assert_eq!(mode(&from), 0o602);
        // As stdout and as stderr.
        open_one_way(to.as_fd()).unwrap();
        assert_eq!(open_one_way(from.as_fd()), Err(Errno::ACCESS));
        assert_eq!(mode(&from), 0o602);

        let (from, to) = pipe().unwrap();
        open_one_way(from.as_fd()).unwrap();
        assert_eq!(open_one_way(to.as_fd()), Err(Errno::ACCESS));
        assert_eq!(mode(&to), 0o604);
    }

    #[test]
    fn a_pipe_that_is_open_to_others_stays_as_it_is() {
        let (from, to) = pipe().unwrap();
        open_to_guest(&from).unwrap();
        for end in [from.as_fd(), to.as_fd()] {
            assert_eq!(open_one_way(end), Err(Errno::ACCESS));
        }
    }
}
