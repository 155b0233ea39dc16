//! Time, and waiting for descriptors.

use super::{Fd, Result, call6, number};

pub(crate) const POLLIN: i16 = 1;
pub(crate) const POLLHUP: i16 = 16;
pub(crate) const POLLPRI: i16 = 2;

#[repr(C)]
pub(crate) struct PollFd {
    pub(crate) fd: Fd,
    pub(crate) events: i16,
    pub(crate) revents: i16,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

pub(crate) fn monotonic_ns() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let mut now = Timespec::default();
    // SAFETY: the kernel writes one timespec.
    let _ = unsafe { call!(number::CLOCK_GETTIME, CLOCK_MONOTONIC, &raw mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64
}

/// Waits until a descriptor is ready or `timeout_ns` have passed (`None` waits for ever).
pub(crate) fn poll(fds: &mut [PollFd], timeout_ns: Option<u64>) -> Result<usize> {
    let timeout = timeout_ns.map(|ns| Timespec {
        seconds: (ns / 1_000_000_000) as i64,
        nanoseconds: (ns % 1_000_000_000) as i64,
    });
    let pointer = timeout
        .as_ref()
        .map_or(core::ptr::null(), |timeout| &raw const *timeout);
    // SAFETY: `fds` and the timeout live for the call; a null timeout and mask are allowed.
    unsafe { call!(number::PPOLL, fds.as_mut_ptr(), fds.len(), pointer, 0, 8) }
}
