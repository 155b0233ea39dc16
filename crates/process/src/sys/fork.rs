//! A child that goes on in this process's own program, for one that has a single thread.

use super::last_errno;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    process::{Pid, Signal, WaitOptions},
};
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, IntoRawFd, OwnedFd},
};

/// A child. Dropping this ends it and what it started.
#[derive(Debug)]
pub(crate) struct Forked {
    pid: Pid,
}

/// Has a child do this, in a session of its own, with `kept` for its only descriptor above the standard
/// streams, which lead nowhere. It ends with this process.
///
/// # Errors
///
/// `EBUSY` where this process has other threads: in the child they would be gone with what they hold.
pub(crate) fn fork(
    name: &CStr,
    kept: OwnedFd,
    work: impl FnOnce(OwnedFd),
) -> Result<Forked, Errno> {
    if !has_one_thread() {
        return Err(Errno::BUSY);
    }
    let parent = rustix::process::getpid();
    // SAFETY: there is no other thread, so that every lock and list is as whole in the child as here.
    let pid = unsafe { libc::fork() };
    match Pid::from_raw(pid) {
        Some(pid) => Ok(Forked { pid }),
        None if pid == 0 => {
            let _no_unwinding = Exit;
            if settle(name, &kept, parent).is_ok() {
                work(kept);
            }
            exit()
        }
        None => Err(last_errno()),
    }
}

/// Whether this process has no thread but the calling one.
pub(crate) fn has_one_thread() -> bool {
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

fn settle(name: &CStr, kept: &OwnedFd, parent: Pid) -> Result<(), Errno> {
    let _ = rustix::thread::set_name(name);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid() != Some(parent) {
        return Err(Errno::SRCH);
    }
    // Keys of the terminal are for its parent.
    rustix::process::setsid()?;
    // SAFETY: the default action runs no code of the parent's.
    unsafe {
        for signal in 1..=31 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for stream in 0..3 {
        // SAFETY: the descriptors of a child are its own; nothing in `work` knows those of its parent.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(last_errno());
        }
    }
    let _ = null.into_raw_fd();
    close_all_but(kept.as_raw_fd())
}

fn close_all_but(kept: i32) -> Result<(), Errno> {
    const FIRST: u32 = 3;
    let kept = kept as u32;
    let close = |from: u32, to: u32| {
        // SAFETY: as in `settle`; `kept` is above the standard streams and in neither range.
        match unsafe { libc::syscall(libc::SYS_close_range, from, to, 0u32) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    };
    if kept < FIRST {
        return Err(Errno::BADF);
    }
    if kept > FIRST {
        close(FIRST, kept - 1)?;
    }
    close(kept + 1, u32::MAX)
}

impl Drop for Forked {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        // Before it leads a group.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        // Somebody else in this process may have waited for it.
        let _ = rustix::io::retry_on_intr(|| {
            rustix::process::waitpid(Some(self.pid), WaitOptions::empty())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::fork;
    use rustix::io::Errno;

    #[test]
    fn a_process_with_other_threads_is_not_forked() {
        // The test's own thread is one of two.
        let (kept, _other) = rustix::pipe::pipe().unwrap();
        assert_eq!(fork(c"child", kept, |_| ()).map(drop), Err(Errno::BUSY));
    }
}
