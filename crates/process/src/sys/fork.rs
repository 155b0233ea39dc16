//! A child that goes on in this process's own program, for one that has a single thread.

use super::last_errno;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, Signal, WaitOptions},
};
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, IntoRawFd, RawFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// A child. Dropping this ends it and what it started.
#[derive(Debug)]
pub(crate) struct Forked {
    pid: Pid,
    was_killed: AtomicBool,
    /// Its id may be another's by now.
    has_ended: AtomicBool,
}

/// Has a child do this, in a session of its own, with `kept` for its only descriptors above the standard
/// streams, which lead nowhere. It ends with this process. Each keeps its own copy of what `work` borrows.
///
/// # Errors
///
/// `EBUSY` where this process has other threads: in the child they would be gone with what they hold.
pub(crate) fn fork(name: &CStr, kept: &[RawFd], work: impl FnOnce()) -> Result<Forked, Errno> {
    fork_with(name, kept, Life::OfParent, work)
}

/// The same, but it outlives this process. Nobody waits for it here.
pub(crate) fn fork_apart(name: &CStr, kept: &[RawFd], work: impl FnOnce()) -> Result<Pid, Errno> {
    let forked = fork_with(name, kept, Life::OfItsOwn, work)?;
    let pid = forked.pid;
    std::mem::forget(forked);
    Ok(pid)
}

/// How long it lives at most.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    OfParent,
    OfItsOwn,
}

fn fork_with(
    name: &CStr,
    kept: &[RawFd],
    life: Life,
    work: impl FnOnce(),
) -> Result<Forked, Errno> {
    if !has_one_thread() {
        return Err(Errno::BUSY);
    }
    let mut kept: Vec<u32> = kept.iter().map(|fd| *fd as u32).collect();
    kept.sort_unstable();
    kept.dedup();
    keep_children();
    let parent = rustix::process::getpid();
    // SAFETY: there is no other thread, so that every lock and list is as whole in the child as here.
    let pid = unsafe { libc::fork() };
    match child(pid)? {
        Some(pid) => Ok(Forked {
            pid,
            was_killed: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        }),
        None => {
            let _no_unwinding = Exit;
            if settle(name, &kept, (life, parent)).is_ok() {
                work();
            }
            exit()
        }
    }
}

/// What fork(2) says: a child's number, or that this is the child. -1 is no child's: a signal to it goes to every
/// process there is.
fn child(said: libc::pid_t) -> Result<Option<Pid>, Errno> {
    match said {
        0 => Ok(None),
        1.. => Ok(Pid::from_raw(said)),
        _ => Err(last_errno()),
    }
}

/// Under a starter that ignores its children ours would be gone when they end, and their numbers be others'.
fn keep_children() {
    // SAFETY: both are actions that run no code.
    unsafe {
        let before = libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        if before != libc::SIG_IGN && before != libc::SIG_ERR {
            libc::signal(libc::SIGCHLD, before);
        }
    }
}

/// Whether this process has no thread but the calling one.
fn has_one_thread() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

/// A panic of the child's must not reach its parent's code.
struct Exit;

impl Drop for Exit {
    fn drop(&mut self) {
        exit()
    }
}

fn exit() -> ! {
    // SAFETY: takes a number; what runs at the end of the parent's program does not run.
    unsafe { libc::_exit(0) }
}

/// `kept` in ascending order, none twice.
fn settle(name: &CStr, kept: &[u32], (life, parent): (Life, Pid)) -> Result<(), Errno> {
    let _ = rustix::thread::set_name(name);
    if life == Life::OfParent {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(parent) {
            return Err(Errno::SRCH);
        }
    }
    // Keys of the terminal are for its parent.
    rustix::process::setsid()?;
    // SAFETY: the default action runs no code of the parent's.
    unsafe {
        for signal in 1..=31 {
            libc::signal(signal, libc::SIG_DFL);
        }
        // As every program of Rust's: a write to nobody is an error.
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for stream in 0..3 {
        // SAFETY: the descriptors of a child are its own; nothing in `work` knows those of its parent.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(last_errno());
        }
    }
    let _ = null.into_raw_fd();
    close_all_but(kept)
}

fn close_all_but(kept: &[u32]) -> Result<(), Errno> {
    let mut first = 3;
    for kept in kept {
        // Of the streams: `dup2` has put another one there.
        let last = kept.checked_sub(1).filter(|_| *kept >= first);
        close(first, last.ok_or(Errno::BADF)?)?;
        first = kept + 1;
    }
    close(first, u32::MAX)
}

/// Closes these, unless there are none.
fn close(first: u32, last: u32) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    // SAFETY: as in `settle`.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0u32) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

impl Forked {
    /// Has it end, and what it started.
    pub(crate) fn kill(&self) {
        if self.was_killed.swap(true, Ordering::Relaxed) {
            return;
        }
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        // Before it leads a group.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
    }

    /// Ends it and what it started. Nothing of it is left then.
    pub(crate) fn end(&self) {
        self.kill();
        if self.has_ended.swap(true, Ordering::Relaxed) {
            return;
        }
        // Somebody else in this process may have waited for it.
        let _ = rustix::io::retry_on_intr(|| {
            rustix::process::waitpid(Some(self.pid), WaitOptions::empty())
        });
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::{child, fork};
    use rustix::io::Errno;

    #[test]
    fn a_child_that_could_not_be_made_is_none() {
        // What failed last.
        assert!(std::fs::read("/absent").is_err());
        assert_eq!(child(-1), Err(Errno::NOENT));
        assert_eq!(child(0), Ok(None));
        assert_eq!(child(7).unwrap().unwrap().as_raw_nonzero().get(), 7);
    }

    #[test]
    fn a_process_with_other_threads_is_not_forked() {
        // The test's own thread is one of two.
        assert_eq!(fork(c"child", &[], || ()).map(drop), Err(Errno::BUSY));
    }
}
