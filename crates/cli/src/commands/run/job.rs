//! Palisade as a job of the shell that started it.
//!
//! Asked of `/proc`, where a group or session of another pid namespace is 0, for which rustix's `Pid`
//! has no room: its `getpgrp` must not be called in `unshare --pid`.

use std::path::PathBuf;

/// Where a process stands among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    parent: i32,
    group: i32,
    session: i32,
    /// The controlling terminal's device, as stat(2) packs it; 0 for none.
    terminal: u32,
}

/// The process group of this process.
pub(super) fn own_group() -> Option<i32> {
    Place::of("self").map(|place| place.group)
}

/// The name of the controlling terminal. `/dev/tty` is one file for all of them.
pub(super) fn terminal() -> Option<PathBuf> {
    let device = Place::of("self")?.terminal;
    let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
    // Linux's devices.txt: 136 and on are of pseudoterminals, 4 of virtual consoles and serial lines.
    match major {
        136..=143 => Some(format!("/dev/pts/{}", (major - 136) << 20 | minor).into()),
        4 if minor < 64 => Some(format!("/dev/tty{minor}").into()),
        _ => None,
    }
}

/// Whether this process is a job by itself, or the first of a pipeline: what started it is in another
/// group.
pub(super) fn leads_its_group() -> bool {
    own_group() == i32::try_from(std::process::id()).ok()
}

/// Whether somebody notices when this process stops, and can continue it. A group none of whose
/// processes has a parent elsewhere in the session is orphaned, and the kernel ignores stops from its
/// terminal (`will_become_orphaned_pgrp` in kernel/exit.c).
pub(super) fn is_watched() -> bool {
    Place::of("self").is_some_and(|own| {
        let mut ancestors = std::iter::successors(own.above(), |place| place.above());
        let outside = ancestors.find(|place| place.group != own.group);
        outside.is_some_and(|place| place.session == own.session)
    })
}

impl Place {
    fn of(process: &str) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn above(self) -> Option<Self> {
        Self::of(&self.parent.to_string())
    }

    /// Of proc_pid_stat(5): behind the program's name, which may contain anything, come the state,
    /// parent, group and session.
    fn parse(stat: &str) -> Option<Self> {
        let (_, behind_name) = stat.rsplit_once(')')?;
        let mut numbers = behind_name.split_whitespace().skip(1).map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Self {
            parent: next()?,
            group: next()?,
            session: next()?,
            terminal: u32::try_from(next()?).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_does_not_mislead() {
        let place = Place {
            parent: 7,
            group: 8,
            session: 9,
            terminal: 34816,
        };
        let parsed = Place::parse("12 (a) b (c) S 7 8 9 34816 8 4194304");
        assert_eq!(parsed, Some(place));
        assert_eq!(Place::parse("12 (a) S 7"), None);
    }
}
