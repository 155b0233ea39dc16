//! The flags that would have allowed what was refused.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use palisade_policy::{HostName, Transport};

use crate::address::scope_of;

/// `--connect TRANSPORT://ADDRESS:PORTS`.
pub(crate) fn connect(
    transport: Transport,
    address: IpAddr,
    scope: u32,
    ports: impl fmt::Display,
) -> String {
    format!("--connect {transport}://{}:{ports}", host(address, scope))
}

/// `--connect TRANSPORT://ADDRESS:PORT` of a socket's address.
pub(crate) fn connect_to(transport: Transport, target: SocketAddr) -> String {
    connect(transport, target.ip(), scope_of(target), target.port())
}

/// `--connect TRANSPORT://NAME:PORT`.
pub(crate) fn connect_to_name(transport: Transport, name: &HostName, port: u16) -> String {
    format!("--connect {transport}://{name}:{port}")
}

/// `--listen TRANSPORT://ADDRESS:PORT`; every interface is `*`.
pub(crate) fn listen(transport: Transport, address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        ip if ip.is_unspecified() => format!("--listen {transport}://*:{port}"),
        ip => format!(
            "--listen {transport}://{}:{port}",
            host(ip, scope_of(address))
        ),
    }
}

/// An interface is written by its index here: a refusal asks nobody for its name, and a grant takes
/// either.
fn host(address: IpAddr, scope: u32) -> String {
    match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) if scope == 0 => format!("[{v6}]"),
        IpAddr::V6(v6) => format!("[{v6}%{scope}]"),
    }
}
