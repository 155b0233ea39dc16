//! A port of a program's own loopback, as the server connects to it.
//!
//! The domain's network leads nowhere. Each connection begins with a socket that the domain's init makes there and passes
//! out: nothing listens on the host, and no other guest gets in.

use super::sys;
use palisade_wall::InnerNetwork;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream as StdStream},
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use tokio::net::{TcpSocket, TcpStream};

/// How long init may take for a socket. It does little else.
const PATIENCE: Duration = Duration::from_secs(5);

/// The port.
#[derive(Debug)]
pub(crate) struct Inside {
    network: Box<dyn InnerNetwork>,
    port: u16,
    /// The program listens at `::1` alone.
    is_v6: AtomicBool,
}

impl Inside {
    pub(crate) fn new(network: Box<dyn InnerNetwork>, port: u16) -> Self {
        Self {
            network,
            port,
            is_v6: AtomicBool::new(false),
        }
    }

    /// Connects to the program: at 127.0.0.1 or else at `::1`, the one that it took before first.
    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let is_v6 = self.is_v6.load(Ordering::Relaxed);
        let first = self.connect_to(is_v6).await;
        if first.is_ok() {
            return first;
        }
        let second = self.connect_to(!is_v6).await;
        if second.is_ok() {
            self.is_v6.store(!is_v6, Ordering::Relaxed);
            return second;
        }
        first
    }

    async fn connect_to(&self, is_v6: bool) -> io::Result<TcpStream> {
        let ip: IpAddr = match is_v6 {
            true => Ipv6Addr::LOCALHOST.into(),
            false => Ipv4Addr::LOCALHOST.into(),
        };
        let asked = self.network.ask(ip)?;
        let socket = tokio::time::timeout(PATIENCE, self.made(asked)).await??;
        let socket = TcpSocket::from_std_stream(StdStream::from(socket));
        socket.connect(SocketAddr::new(ip, self.port)).await
    }

    async fn made(&self, asked: OwnedFd) -> io::Result<OwnedFd> {
        let asked = sys::watch_readable(asked)?;
        let _ = asked.readable().await?;
        self.network.take(asked.into_inner())
    }
}
