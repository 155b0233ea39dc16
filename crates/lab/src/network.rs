//! The network of rows with two ends: one end, server or client, is behind a wall, the other is not.
//!
//! ```text
//!   outside                        the wall                inside
//!   a client, no wall  ──────────────▶│ 127.0.0.1:PORT      a server
//!   a server, no wall  ◀──────────────│                     a client
//! ```
//!
//! Both ends are on this machine and meet at a port of its loopback that was free. A container's
//! network has addresses of its own: `bridge`.

mod bridge;
mod server;

pub(crate) use bridge::Bridge;
pub(crate) use server::{Answer, Readiness, Server};

use anyhow::Context;
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::PathBuf,
};

/// What a command needs of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Nothing.
    #[default]
    None,
    /// To reach a server.
    Connects(Endpoint),
    /// To be one.
    Listens(Endpoint),
}

impl Network {
    /// Whether it needs anything.
    pub fn is_some(&self) -> bool {
        self.endpoint().is_some()
    }

    /// Where the ends meet.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            Self::None => None,
            Self::Connects(endpoint) | Self::Listens(endpoint) => Some(endpoint),
        }
    }
}

/// Where two ends meet, as the end behind the wall calls it. Its `Display` is that of palisade's
/// grants: `tcp://127.0.0.1:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// How they talk.
    pub transport: Transport,
    /// The server's.
    pub address: IpAddr,
    /// The server's.
    pub port: u16,
    /// The network namespace that was made for the end behind the wall, if one was.
    pub namespace: Option<PathBuf>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = SocketAddr::new(self.address, self.port);
        write!(formatter, "{}://{address}", self.transport)
    }
}

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// A port of this machine's loopback that nobody uses at the moment.
pub(crate) fn free_port(transport: Transport) -> anyhow::Result<u16> {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let bound = match transport {
        Transport::Tcp => TcpListener::bind(any).and_then(|socket| socket.local_addr()),
        Transport::Udp => UdpSocket::bind(any).and_then(|socket| socket.local_addr()),
    };
    Ok(bound.context("host: no port is free")?.port())
}

#[cfg(test)]
mod tests;
