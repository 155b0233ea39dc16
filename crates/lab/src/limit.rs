//! A limit of time for a run of somebody else's: one that hangs costs seconds, and no row.
//!
//! A thread waits beside the run. When the time is up it ends every process that the run has started and what
//! those have started: whoever waits for them in the run comes back then. That is done by pid and parent, not by process
//! group or session: peers make sessions of their own.

use crate::memory::{descendants, parents};
use rustix::{
    process::{Pid, Signal, kill_process},
    thread::gettid,
};
use std::{
    collections::BTreeSet,
    fs, process,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};
use thiserror::Error;

/// Why a run was ended.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("it did not end within {} s", limit.as_secs())]
pub(crate) struct Hung {
    /// What it was given.
    pub(crate) limit: Duration,
}

/// Between two looks at what a run that was ended has left.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs something that may start processes and wait for them. With a limit it is ended after that, and an error
/// whatever it gives; without one the thread waits all the same, so that all runs are alike.
pub(crate) fn within<T>(
    limit: Option<Duration>,
    run: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let starter = gettid();
    let before = children_of(starter);
    let (is_ready, ready) = mpsc::channel();
    let (is_over, over) = mpsc::channel();
    let (result, was_ended) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let _ = is_ready.send(());
            watch(limit, starter, &before, over)
        });
        // It sleeps when the run begins.
        let _ = ready.recv();
        let result = run();
        drop::<Sender<()>>(is_over);
        (result, watcher.join())
    });
    match limit.filter(|_| was_ended.unwrap_or(false)) {
        Some(limit) => Err(Hung { limit }.into()),
        None => result,
    }
}

/// Waits until nobody can say any more that the run is over; whether it had to be ended.
fn watch(
    limit: Option<Duration>,
    starter: Pid,
    before: &BTreeSet<u32>,
    over: Receiver<()>,
) -> bool {
    let is_over_within = |time| over.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
    let Some(limit) = limit else {
        let _ = over.recv();
        return false;
    };
    if is_over_within(limit) {
        return false;
    }
    // The run may start something again before it gives up.
    loop {
        end_all(&(&children_of(starter) - before));
        if is_over_within(PAUSE) {
            return true;
        }
    }
}

/// What a thread of this process has started; of all threads where the kernel does not tell them apart
/// (`CONFIG_PROC_CHILDREN`).
fn children_of(starter: Pid) -> BTreeSet<u32> {
    let told = fs::read_to_string(format!("/proc/self/task/{starter}/children"));
    if let Ok(told) = told {
        let children = told.split_whitespace();
        return children.filter_map(|child| child.parse().ok()).collect();
    }
    let own = process::id();
    let parents = parents().unwrap_or_default().into_iter();
    let is_own = |(child, parent): (u32, u32)| (parent == own).then_some(child);
    parents.filter_map(is_own).collect()
}

/// Ends processes with all that they have started. They are stopped first, from the top, until nobody is new: who is
/// killed while it makes a process leaves one that has another parent.
fn end_all(roots: &BTreeSet<u32>) {
    let mut stopped = BTreeSet::new();
    loop {
        let parents = parents().unwrap_or_default();
        let all = roots.iter().flat_map(|root| descendants(*root, &parents));
        let new: Vec<u32> = all.filter(|one| !stopped.contains(one)).collect();
        if new.is_empty() {
            break;
        }
        for one in new {
            signal(one, Signal::STOP);
            stopped.insert(one);
        }
    }
    for one in stopped {
        signal(one, Signal::KILL);
    }
}

/// A process may have ended by now, which is as good, or be somebody else's, who cannot be helped.
fn signal(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{path::Path, process::Command, time::Instant};

    #[test]
    fn a_run_in_time_is_what_it_gives() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(within(second, || Ok(7)).unwrap(), 7);
        assert_eq!(within(None, || Ok(7)).unwrap(), 7);
        let failed = within::<()>(second, || anyhow::bail!("no such flag"));
        assert_eq!(failed.unwrap_err().to_string(), "no such flag");
    }

    /// With a session of its own and a process that nobody waits for.
    #[test]
    fn nothing_is_left_of_a_run_that_hangs() {
        let room = tempfile::tempdir().unwrap();
        let script = "setsid sh -c 'echo $$ >inner; sleep 600 & wait' & sleep 601 & wait";
        let limit = Duration::from_millis(500);
        let began = Instant::now();
        let hung = within(Some(limit), || {
            let shell = Command::new("/bin/sh")
                .args(["-c", script])
                .current_dir(&room)
                .status();
            Ok(shell?)
        });
        let hung = hung.unwrap_err();
        assert_eq!(hung.downcast_ref(), Some(&Hung { limit }));
        assert!(began.elapsed() < Duration::from_secs(60));
        let inner = fs::read_to_string(room.path().join("inner")).unwrap();
        let status = Path::new("/proc").join(inner.trim()).join("status");
        let is_gone = || match fs::read_to_string(&status) {
            Ok(text) => text.contains("State:\tZ"),
            Err(_) => true,
        };
        while !is_gone() {
            assert!(began.elapsed() < Duration::from_secs(60), "{inner} is left");
            thread::sleep(PAUSE);
        }
    }
}
