//! Sockets that this process was started with: sd_listen_fds(3).

use crate::{config::Address, edge::sys};
use palisade_engine::lock::lock;
use rustix::{
    io::FdFlags,
    net::{self, SocketAddrUnix},
};
use std::{
    net::SocketAddr,
    os::fd::{OwnedFd, RawFd},
    sync::{LazyLock, Mutex},
};

/// The first descriptor of those that a service manager passes: sd_listen_fds(3).
const FIRST_INHERITED: RawFd = 3;

/// Sockets that a service manager passed and nobody has taken yet.
static INHERITED: LazyLock<Mutex<Vec<OwnedFd>>> = LazyLock::new(|| Mutex::new(adopt_inherited()));

/// Takes them over, if that was not done before.
pub(super) fn adopt() {
    LazyLock::force(&INHERITED);
}

/// sd_listen_fds(3): so many descriptors from the third on are for the process with this number.
fn adopt_inherited() -> Vec<OwnedFd> {
    let number = |name| std::env::var(name).ok()?.parse::<i32>().ok();
    let is_ours = number("LISTEN_PID").is_some_and(|pid| pid.unsigned_abs() == std::process::id());
    let count = number("LISTEN_FDS").filter(|_| is_ours).unwrap_or(0);
    let sockets = sys::adopt_listening(FIRST_INHERITED..FIRST_INHERITED.saturating_add(count));
    for socket in &sockets {
        // Programs that are started must not get it, and nobody may wait in accept(2).
        let _ = rustix::io::fcntl_setfd(socket, FdFlags::CLOEXEC);
        let _ = rustix::io::ioctl_fionbio(socket, true);
    }
    sockets
}

/// The socket that a service manager passed for this address, if there is one.
pub(super) fn take(address: &Address) -> Option<OwnedFd> {
    let mut inherited = lock(&*INHERITED);
    let index = inherited
        .iter()
        .position(|socket| is_listening_at(socket, address))?;
    Some(inherited.swap_remove(index))
}

fn is_listening_at(socket: &OwnedFd, address: &Address) -> bool {
    let Ok(name) = net::getsockname(socket) else {
        return false;
    };
    match address {
        Address::Internet(address) => SocketAddr::try_from(name).is_ok_and(|name| name == *address),
        Address::Unix(path) => SocketAddrUnix::try_from(name)
            .is_ok_and(|name| name.path_bytes() == Some(path.as_os_str().as_encoded_bytes())),
    }
}
