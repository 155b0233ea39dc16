//! The system calls that rustix lacks: the only `unsafe` code of the crate.
#![allow(unsafe_code, reason = "system calls without a wrapper")]

pub(crate) mod bpf;

use rustix::io::Errno;
use std::{
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::atomic::{AtomicI32, Ordering},
};

/// A copy of a descriptor that this process was started with.
pub(crate) fn duplicate(number: RawFd) -> rustix::io::Result<OwnedFd> {
    // SAFETY: it was opened for this process and nobody else in it closes it; one that is not open gives EBADF below.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    const ABOVE: RawFd = 100;
    rustix::io::fcntl_dupfd_cloexec(fd, ABOVE)
}

/// Signals of every number, which rustix's type does not have all of.
pub(crate) fn send_signal(process: &OwnedFd, number: i32) -> rustix::io::Result<()> {
    // SAFETY: a null siginfo is allowed and means the default.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            number,
            std::ptr::null::<u8>(),
            0,
        )
    };
    match sent {
        0 => Ok(()),
        _ => Err(Errno::from_raw_os_error(
            std::io::Error::last_os_error()
                .raw_os_error()
                .unwrap_or(libc::EIO),
        )),
    }
}

/// Whom signals are handed on to, and whose size follows this terminal's.
static PROCESS: AtomicI32 = AtomicI32::new(-1);
static TERMINAL: AtomicI32 = AtomicI32::new(-1);

/// Those that a terminal or a supervisor sends to what it takes for the program.
const HANDED_ON: [i32; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
];

/// As long as this is there, signals are handed on.
pub(crate) struct Handed;

impl Drop for Handed {
    fn drop(&mut self) {
        PROCESS.store(-1, Ordering::Release);
        TERMINAL.store(-1, Ordering::Release);
    }
}

/// Hands signals on to a process that is this one's child, and a change of the terminal's size to its terminal.
pub(crate) fn hand_signals_on(
    process: &OwnedFd,
    terminal: Option<BorrowedFd<'_>>,
) -> std::io::Result<Handed> {
    PROCESS.store(process.as_raw_fd(), Ordering::Release);
    TERMINAL.store(terminal.map_or(-1, |fd| fd.as_raw_fd()), Ordering::Release);
    for signal in HANDED_ON {
        // SAFETY: the handler makes only calls that a handler may make, on numbers.
        let set = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = hand_on as extern "C" fn(i32) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if set != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(Handed)
}

extern "C" fn hand_on(signal: i32) {
    let terminal = TERMINAL.load(Ordering::Acquire);
    // SAFETY: both calls are the kernel's own, take numbers and a structure of this frame, and keep nothing; errno is put back,
    // for the code that was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        if signal == libc::SIGWINCH && terminal >= 0 {
            let mut size: libc::winsize = std::mem::zeroed();
            if libc::ioctl(0, libc::TIOCGWINSZ, &raw mut size) == 0 {
                libc::ioctl(terminal, libc::TIOCSWINSZ, &raw const size);
            }
        } else {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                PROCESS.load(Ordering::Acquire),
                signal,
                std::ptr::null::<u8>(),
                0,
            );
        }
        *libc::__errno_location() = errno;
    }
}
