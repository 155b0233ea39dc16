//! Sockets that tokio watches.
#![allow(unsafe_code, reason = "tokio must be promised that a descriptor stays")]

use palisade_process::InnerSocket;
use std::io;
use tokio::io::{Interest, unix::AsyncFd};

/// Watches for a socket that was asked for.
pub(super) fn watch_asked(asked: InnerSocket) -> io::Result<AsyncFd<InnerSocket>> {
    // SAFETY: it has one `OwnedFd` for as long as it lives, which nobody can take out or change, and the `AsyncFd` owns it.
    let watched = unsafe { AsyncFd::register_with_interest(asked, Interest::READABLE) };
    Ok(watched?)
}
