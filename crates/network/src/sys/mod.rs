//! What the standard library does not do between fork and exec. The only `unsafe` code of the crate.
#![allow(unsafe_code, reason = "a call between fork and exec")]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Child, Command},
};

use rustix::{process::Signal, thread::set_no_new_privs};

/// The first descriptor that is no standard stream.
const FIRST: libc::c_uint = 3;

/// Starts a program in a session of its own, without a terminal and with no descriptor above 2. It gains no
/// privilege by what it executes, and ends with the thread that called this.
///
/// # Errors
///
/// When it can't be started, or the kernel refuses any of that.
pub(crate) fn spawn_apart(command: &mut Command) -> io::Result<Child> {
    // SAFETY: `leave_caller` makes system calls and nothing else: it allocates nothing, locks nothing and
    // touches no memory but its own stack, as signal-safety(7) wants it after a fork.
    unsafe { command.pre_exec(leave_caller) };
    command.spawn()
}

fn leave_caller() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    set_no_new_privs(true)?;
    close_when_executed()
}

/// Marked rather than closed: the standard library reports a failed exec by one of them.
fn close_when_executed() -> io::Result<()> {
    let close_range = |flags: libc::c_uint| {
        // SAFETY: no pointer (close_range(2)).
        let result =
            unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, flags) };
        match result {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    match close_range(libc::CLOSE_RANGE_CLOEXEC) {
        // Before Linux 5.11 there was no such flag. A program that is not executed ends without a word then.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => close_range(0),
        marked => marked,
    }
}
