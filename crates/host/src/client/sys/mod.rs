//! Descriptors that tokio watches.
#![allow(unsafe_code, reason = "tokio must be promised that a descriptor stays")]

use std::{io, os::fd::OwnedFd};
use tokio::io::{Interest, unix::AsyncFd};

/// Watches for `fd` to become readable.
pub(crate) fn watch_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open and the same for as long as it lives, and the `AsyncFd` owns it: nobody
    // else can close it or put another in its place (`AsyncFd::register_with_interest`).
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    Ok(watched?)
}
