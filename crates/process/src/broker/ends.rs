//! How processes ended that tried something in vain: of many denials those matter most whose process failed.

use crate::{lock::lock, sys::ended};
use palisade_wall::{Denial, Exit};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    process::{Pid, PidfdFlags},
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex},
};

/// Most processes that are followed: the last ones, for what fails at an end has caused it rather.
const MOST: usize = 64;

/// Processes, each by its number on the host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends(Arc<Mutex<VecDeque<Followed>>>);

#[derive(Debug)]
struct Followed {
    pid: u32,
    /// `None` where two have had the number: nobody knows which of them was meant.
    process: Option<OwnedFd>,
}

impl Ends {
    /// Follows a process to its end. Its call is being attended to, so the number is its own.
    pub(super) fn follow(&self, pid: u32) {
        let mut all = lock(&self.0);
        if let Some(known) = all.iter_mut().find(|one| one.pid == pid) {
            known.process.take_if(|process| has_ended(process));
            return;
        }
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let opened = number.map(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()));
        // Without a descriptor to spare its end is not told.
        if let Some(Ok(process)) = opened {
            if all.len() >= MOST {
                all.pop_front();
            }
            all.push_back(Followed {
                pid,
                process: Some(process),
            });
        }
    }

    /// Says of each denial how its process ended. Nothing of the domain runs any more.
    pub(crate) fn tell(&self, denials: &mut [Denial]) {
        let all = lock(&self.0);
        for denial in denials {
            let pid = denial.process.as_ref().map(|process| process.pid);
            let mut of_it = all.iter().filter(|one| Some(one.pid) == pid);
            denial.ended = of_it.next().and_then(Followed::exit);
        }
    }
}

impl Followed {
    fn exit(&self) -> Option<Exit> {
        ended::exit_of(self.process.as_ref()?.as_fd())
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
        let children: Vec<_> = (0..MOST + 2).map(|_| child("read x")).collect();
        children.iter().for_each(|child| all.follow(child.id()));
        let followed: Vec<_> = lock(&all.0).iter().map(|one| one.pid).collect();
        let last: Vec<_> = children[2..].iter().map(Child::id).collect();
        assert_eq!(followed, last);
        children.into_iter().for_each(ends);
    }
}
