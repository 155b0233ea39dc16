//! A port of the domain's own loopback, for a guest that serves whoever started it.
//!
//! The guest's socket is the host's, or one of its own that no loopback was up for. When it takes the port, another
//! one of the domain's network is put under the same number. Who held copies of the first one, a `dup` or an `epoll`,
//! keeps it: servers copy a socket once it listens.

use super::{
    call::{Brokered, DONE, Outcome},
    local::Performer,
};
use crate::lock::lock;
use crate::sys::{network_cookie, notify};
use palisade_network::address::canonical;
use palisade_policy::Transport;
use rustix::{
    fs::OFlags,
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socket_with, sockopt},
};
use std::{
    collections::VecDeque,
    io::Read,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::{Mutex, OnceLock},
};

/// Sockets that are remembered: a program listens with one, or with one for each of its processes.
const MOST_SOCKETS: usize = 256;

/// The port, and the sockets that took it.
#[derive(Debug)]
pub(super) struct InnerPort {
    port: Port,
    /// The kernel's numbers for them, which no other socket ever has (`SO_COOKIE`).
    cookies: Mutex<VecDeque<u64>>,
    /// That of the domain's network (`SO_NETNS_COOKIE`), once a socket was made there.
    network: OnceLock<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    None,
    One(u16),
    /// Programs of a container meet each other at its own loopback.
    All,
}

impl InnerPort {
    pub(super) fn new(port: Option<u16>) -> Self {
        Self::with(port.map_or(Port::None, Port::One))
    }

    /// Every port of the loopback that is not granted of the host's.
    pub(super) fn of_all() -> Self {
        Self::with(Port::All)
    }

    fn with(port: Port) -> Self {
        Self {
            port,
            cookies: Mutex::default(),
            network: OnceLock::new(),
        }
    }

    /// Whether a guest that binds to this address means the port.
    pub(super) fn is_meant(&self, transport: Transport, asked: SocketAddr) -> bool {
        let asked = canonical(asked);
        transport == Transport::Tcp && self.port == Port::One(asked.port()) && is_loopback(asked)
    }

    /// Whether what is not granted at this address is the domain's own affair.
    pub(super) fn takes(&self, transport: Transport, asked: SocketAddr) -> bool {
        transport == Transport::Tcp && self.port == Port::All && is_loopback(canonical(asked))
    }

    /// Has a socket made there, by which others are known.
    pub(super) fn learn(&self, performer: &Performer) -> Result<(), Errno> {
        self.remember(&performer.make_socket(AddressFamily::INET)?)
    }

    /// Whether such a socket is meant for the domain's loopback, where nobody else is.
    pub(super) fn is_own_affair(&self, socket: &OwnedFd, asked: SocketAddr) -> bool {
        is_loopback(canonical(asked)) && self.is_inside(socket)
    }

    /// Whether this is a socket of the domain's network, where all of its loopback is its own.
    pub(super) fn is_inside(&self, socket: &OwnedFd) -> bool {
        self.port == Port::All
            && self
                .network
                .get()
                .is_some_and(|own| network_cookie(socket.as_fd()) == Ok(*own))
    }

    /// Whether this is a socket of the domain's network that has the port.
    pub(super) fn has(&self, socket: &OwnedFd) -> bool {
        match self.port {
            Port::None => return false,
            Port::All => return self.is_inside(socket),
            Port::One(_) => {}
        }
        let cookies = lock(&self.cookies);
        sockopt::socket_cookie(socket).is_ok_and(|cookie| cookies.contains(&cookie))
    }

    fn remember(&self, socket: &OwnedFd) -> Result<(), Errno> {
        if self.port == Port::All {
            // The same of all of them, and never the host's, whoever made it.
            let cookie = network_cookie(socket.as_fd())?;
            let hosts = network_cookie(host_socket()?.as_fd())?;
            let is_own = cookie != hosts && *self.network.get_or_init(|| cookie) == cookie;
            return is_own.then_some(()).ok_or(Errno::ACCESS);
        }
        let cookie = sockopt::socket_cookie(socket)?;
        let mut cookies = lock(&self.cookies);
        if cookies.len() >= MOST_SOCKETS {
            cookies.pop_front();
        }
        cookies.push_back(cookie);
        Ok(())
    }
}

impl Brokered<'_> {
    /// Puts a socket of the domain's network that has the port in the place of the guest's.
    pub(super) fn bind_inside(&mut self, socket: &OwnedFd, asked: SocketAddr) -> Outcome {
        let made = self.make_inside(socket, asked)?;
        rustix::net::bind(&made, &asked)?;
        self.put_in_place(&made)?;
        DONE
    }

    /// The same with one that listens there. It was bound as a client's, at a port of the host's that is free here too.
    pub(super) fn listen_inside(
        &mut self,
        socket: &OwnedFd,
        bound: SocketAddr,
        backlog: i32,
    ) -> Outcome {
        let made = self.make_inside(socket, bound)?;
        rustix::net::bind(&made, &bound)?;
        rustix::net::listen(&made, backlog)?;
        self.put_in_place(&made)?;
        DONE
    }

    /// The same with one that connects to it.
    pub(super) fn connect_inside(&mut self, socket: &OwnedFd, asked: SocketAddr) -> Outcome {
        let made = self.make_inside(socket, asked)?;
        self.put_in_place(&made)?;
        self.reach(made, asked)
    }

    fn make_inside(&self, socket: &OwnedFd, asked: SocketAddr) -> Result<OwnedFd, Errno> {
        let family = sockopt::socket_domain(socket)?;
        let made = self.shared.performer.make_socket(family)?;
        self.shared.callers.inner.remember(&made)?;
        take_after(&made, socket, asked)?;
        Ok(made)
    }

    fn put_in_place(&self, made: &OwnedFd) -> Result<(), Errno> {
        let number = self.call.arguments[0] as u32;
        let close_on_exec = self.is_closed_on_exec(number)?;
        notify::replace_descriptor(
            self.shared.listener.as_fd(),
            self.call.id,
            made.as_fd(),
            number,
            close_on_exec,
        )
    }

    /// Whether the caller's descriptor goes when a program is executed.
    fn is_closed_on_exec(&self, number: u32) -> Result<bool, Errno> {
        let mut text = String::new();
        let mut file = self.shared.maker.descriptor_of(self.call.thread, number)?;
        file.read_to_string(&mut text).map_err(|_| Errno::SRCH)?;
        // It was found by the caller's number.
        if !notify::is_waiting(self.shared.listener.as_fd(), self.call.id) {
            return Err(Errno::SRCH);
        }
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        let flags = flags.ok_or(Errno::SRCH)?;
        Ok(flags & OFlags::CLOEXEC.bits() != 0)
    }
}

fn host_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().is_loopback() || address.ip().is_unspecified()
}

/// Sets what servers set of a socket before they bind it.
fn take_after(made: &OwnedFd, socket: &OwnedFd, asked: SocketAddr) -> Result<(), Errno> {
    let is_nonblocking = rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK);
    if is_nonblocking {
        rustix::io::ioctl_fionbio(made, true)?;
    }
    sockopt::set_socket_reuseaddr(made, sockopt::socket_reuseaddr(socket)?)?;
    sockopt::set_socket_reuseport(made, sockopt::socket_reuseport(socket)?)?;
    sockopt::set_socket_keepalive(made, sockopt::socket_keepalive(socket)?)?;
    sockopt::set_tcp_nodelay(made, sockopt::tcp_nodelay(socket)?)?;
    if asked.is_ipv6()
        && let Ok(only) = sockopt::ipv6_v6only(socket)
    {
        sockopt::set_ipv6_v6only(made, only)?;
    }
    Ok(())
}
