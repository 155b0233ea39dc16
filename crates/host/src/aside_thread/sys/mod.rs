//! The scheduling class of a thread.
#![allow(unsafe_code, reason = "the C library's function takes a pointer")]

use std::io;

/// Gives way to whoever else wants the processor, from now on (`SCHED_IDLE`, sched(7)). Only root could take that back
/// before Linux 2.6.39; nobody does.
///
/// # Errors
///
/// Those of sched_setscheduler(2).
pub(super) fn give_way() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 is the calling thread, and the structure lives through the call.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
