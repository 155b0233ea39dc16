//! What the safe crates have no call for. The only `unsafe` code of the crate.
#![allow(
    unsafe_code,
    reason = "descriptors by number, mapped code, memory of guests"
)]

pub(crate) mod code;
pub(crate) mod mapped;
pub(crate) mod open_how;
pub(crate) mod signal;
pub(crate) mod transfer;

use rustix::io::Errno;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use transfer::last_error;

/// Takes over a descriptor that this process was started with.
pub(crate) fn adopt(number: RawFd) -> OwnedFd {
    // SAFETY: the callers name descriptors that the order promises, each once; nothing else of this
    // process knows their numbers.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// close(2), with what it has to say: a full disk may be told only here.
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was owned, so nothing else uses its number.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Fills a guest's bytes with random ones: getrandom(2), until all is filled.
///
/// # Errors
///
/// When the kernel has none, which it says of no sound machine.
pub fn fill_randomly(mut bytes: &mut [u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        // SAFETY: the kernel writes at most as many bytes as there are.
        let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        match usize::try_from(count) {
            Ok(count) => bytes = &mut bytes[count..],
            Err(_) if last_error() == Errno::INTR => {}
            Err(_) => return Err(last_error()),
        }
    }
    Ok(())
}
