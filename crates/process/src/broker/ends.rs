//! How processes ended that tried something in vain: of many denials those matter most whose process failed.

use crate::{lock::lock, sys::ended};
use palisade_wall::{Denial, Exit};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, PidfdFlags},
};
use std::{
    collections::{BTreeSet, VecDeque},
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Most processes of a domain that are followed: the last ones, for what fails at an end has caused it rather.
const MOST: usize = 24;
/// Most whose numbers are known, so that nobody who has one later is taken for them.
const MOST_KNOWN: usize = 8192;
/// Most of all domains of this process together: it has only so many descriptors.
const MOST_OPEN: u64 = 32;

/// Descriptors of processes that are open now.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Processes, each by its number on the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends(Arc<Mutex<All>>);

#[derive(Debug, Default)]
struct All {
    followed: VecDeque<Followed>,
    /// Numbers of all that were.
    known: BTreeSet<u32>,
}

#[derive(Debug)]
struct Followed {
    pid: u32,
    process: OwnedFd,
    /// Another one has had the number: nobody knows which of them was meant.
    is_ambiguous: bool,
}

impl Ends {
    /// Follows a process to its end. Its call is being attended to, so the number is its own.
    pub(super) fn follow(&self, pid: u32) {
        let mut all = lock(&self.0);
        if let Some(one) = all.followed.iter_mut().find(|one| one.pid == pid) {
            one.is_ambiguous |= has_ended(&one.process);
            return;
        }
        if all.known.len() >= MOST_KNOWN || !all.known.insert(pid) {
            return;
        }
        if all.followed.len() >= MOST {
            all.followed.pop_front();
        }
        // Without a descriptor to spare its end is not told.
        all.followed.extend(Followed::open(pid));
    }

    /// Says of each denial how its process ended. Nothing of the domain runs any more.
    pub(crate) fn tell(&self, denials: &mut [Denial]) {
        let all = lock(&self.0);
        for denial in denials {
            let pid = denial.process.as_ref().map(|process| process.pid);
            let mut of_it = all.followed.iter().filter(|one| Some(one.pid) == pid);
            denial.ended = of_it.next().and_then(Followed::exit);
        }
    }
}

impl Followed {
    fn open(pid: u32) -> Option<Self> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        if OPEN.fetch_add(1, Ordering::Relaxed) >= MOST_OPEN {
            OPEN.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(process) => Some(Self {
                pid,
                process,
                is_ambiguous: false,
            }),
            Err(_) => {
                OPEN.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    fn exit(&self) -> Option<Exit> {
        let exit = || ended::exit_of(self.process.as_fd());
        (!self.is_ambiguous).then(exit)?
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let now = Timespec::default();
    rustix::event::poll(&mut fds, Some(&now)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_wall::Process;
    use std::process::{Child, Command, Stdio};

    fn child(script: &str) -> Child {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::piped());
        command.spawn().unwrap()
    }

    fn ends(mut child: Child) {
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    fn told(all: &Ends, pid: u32) -> Option<Exit> {
        let mut denials = [Denial {
            process: Some(Process::new(pid, b"sh")),
            ..Denial::default()
        }];
        all.tell(&mut denials);
        denials[0].ended
    }

    #[test]
    fn each_is_told_by_its_own() {
        let all = Ends::default();
        let (well, badly) = (child("read x; true"), child("read x; exit 3"));
        let (one, other) = (well.id(), badly.id());
        for pid in [one, other, one] {
            all.follow(pid);
        }
        ends(well);
        ends(badly);
        if told(&all, other).is_some() {
            assert_eq!(told(&all, one), Some(Exit::Code(0)));
            assert_eq!(told(&all, other), Some(Exit::Code(3)));
        }
        assert_eq!(told(&all, 0), None);
        // Whoever has the number now is another one.
        all.follow(other);
        assert_eq!(told(&all, other), None);
    }

    #[test]
    fn so_many_are_followed_and_the_last_ones() {
        let all = Ends::default();
        let children: Vec<_> = (0..MOST + 2).map(|_| child("read x; exit 5")).collect();
        children.iter().for_each(|child| all.follow(child.id()));
        let followed = || {
            lock(&all.0)
                .followed
                .iter()
                .map(|one| one.pid)
                .collect::<Vec<_>>()
        };
        let last: Vec<_> = children[2..].iter().map(Child::id).collect();
        assert_eq!(followed(), last);
        // Its number may be another one's by now.
        let first = children[0].id();
        all.follow(first);
        assert!(!followed().contains(&first));
        children.into_iter().for_each(ends);
    }
}
