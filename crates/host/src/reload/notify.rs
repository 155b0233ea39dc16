//! What a service manager is told: sd_notify(3).

use rustix::time::{ClockId, clock_gettime};
use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

/// Tells the manager, if this process was started by one that wants to know. It is nobody's fault if it
/// does not listen.
pub(super) fn notify(state: &str) {
    if let Some(name) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(name.as_encoded_bytes(), state);
    }
}

/// Says since when, so that the manager can tell the end of this reload from that of an earlier one.
pub(super) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let us = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
    notify(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
}

fn send(name: &[u8], state: &str) -> std::io::Result<()> {
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => {
            let path = std::path::Path::new(std::str::from_utf8(path).unwrap_or_default());
            SocketAddr::from_pathname(path)?
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
