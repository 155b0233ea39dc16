//! To end as a native program does.

/// Ends this process by a signal, whatever was done about it before.
pub(crate) fn end_by(signal: i32) -> ! {
    // SAFETY: the default action needs no handler to be valid; the set is written before it is read.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
    // Not reached: each signal of a trap ends the process by default.
    std::process::abort()
}
