//! Palisade as a job of the shell that started it.
//!
//! Asked of `/proc`, where a group or session of another pid namespace is 0, for which rustix's `Pid`
//! has no room: its `getpgrp` must not be called in `unshare --pid`.

/// Where a process stands among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    parent: i32,
    group: i32,
    session: i32,
}

/// The process group of this process.
pub(super) fn own_group() -> Option<i32> {
    Place::of("self").map(|place| place.group)
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
        };
        let parsed = Place::parse("12 (a) b (c) S 7 8 9 34816 8 4194304");
        assert_eq!(parsed, Some(place));
        assert_eq!(Place::parse("12 (a) S 7"), None);
    }
}
