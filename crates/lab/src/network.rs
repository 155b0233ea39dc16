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

pub(crate) use bridge::Bridge;

use anyhow::Context;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with,
    sockopt::set_socket_reuseaddr,
};
use std::{
    fmt, fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    path::PathBuf,
};

/// Where a network namespace says, and is told, by which rule TCP sends.
const CONGESTION_CONTROL: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// By which rule TCP sends here: `cubic`, `reno` or `bbr`, say.
///
/// # Errors
///
/// When there is no `/proc` to tell.
pub(crate) fn congestion_control() -> anyhow::Result<String> {
    let rule = fs::read_to_string(CONGESTION_CONTROL);
    let rule = rule.with_context(|| format!("host: cannot read {CONGESTION_CONTROL}"))?;
    Ok(rule.trim().to_owned())
}

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

/// A port of this machine's loopback, for a server that comes and goes.
///
/// A port of TCP stays this one's while no server listens at it: the kernel gives it to nobody who asks for any port,
/// neither a listener nor a connection, for a socket is bound to it that never listens. A server that sets
/// `SO_REUSEADDR`, as servers do, may listen at it all the same (socket(7)). With UDP such a socket would take datagrams
/// away: there it is a port that nobody used a moment ago.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) number: u16,
    _bound: Option<OwnedFd>,
}

impl Port {
    /// One that is free.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub(crate) fn find(transport: Transport) -> anyhow::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let found = match transport {
            Transport::Tcp => Self::bind_for_servers(any),
            Transport::Udp => UdpSocket::bind(any)
                .and_then(|socket| socket.local_addr())
                .map(|address| Self {
                    number: address.port(),
                    _bound: None,
                }),
        };
        found.context("host: no port is free")
    }

    fn bind_for_servers(any: SocketAddr) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &any)?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self {
            number: address.port(),
            _bound: Some(socket),
        })
    }
}

#[cfg(test)]
mod tests;
