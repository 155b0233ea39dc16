//! A port of the domain's own loopback, for a guest that serves whoever started it.
//!
//! The guest's socket is the host's, or one of its own that no loopback was up for. When it takes the port, another
//! one of the domain's network is put under the same number. Who held copies of the first one, a `dup` or an `epoll`,
//! keeps it: servers copy a socket once it listens.

use super::{
    Shared,
    call::{Brokered, DONE, Outcome},
};
use crate::lock::lock;
use crate::sys::notify;
use palisade_network::address::canonical;
use palisade_policy::Transport;
use rustix::{fs::OFlags, io::Errno, net::sockopt};
use std::{
    collections::VecDeque,
    io::Read,
    net::SocketAddr,
    os::fd::{AsFd, OwnedFd},
    sync::Mutex,
};

/// Sockets that are remembered: a program listens with one, or with one for each of its processes.
const MOST_SOCKETS: usize = 256;

/// The port, and the sockets that took it.
#[derive(Debug)]
pub(super) struct InnerPort {
    port: Option<u16>,
    /// The kernel's numbers for them, which no other socket ever has (`SO_COOKIE`).
    cookies: Mutex<VecDeque<u64>>,
}

impl InnerPort {
    pub(super) fn new(port: Option<u16>) -> Self {
        Self {
            port,
            cookies: Mutex::default(),
        }
    }

    /// Whether a guest that binds to this address means the port.
    pub(super) fn is_meant(&self, transport: Transport, asked: SocketAddr) -> bool {
        let asked = canonical(asked);
        transport == Transport::Tcp
            && self.port == Some(asked.port())
            && (asked.ip().is_loopback() || asked.ip().is_unspecified())
    }

    /// Whether this is a socket of the domain's network that has the port.
    pub(super) fn has(&self, socket: &OwnedFd) -> bool {
        if self.port.is_none() {
            return false;
        }
        let cookies = lock(&self.cookies);
        sockopt::socket_cookie(socket).is_ok_and(|cookie| cookies.contains(&cookie))
    }

    fn remember(&self, socket: &OwnedFd) -> Result<(), Errno> {
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
        let Shared {
            performer,
            listener,
            inner,
            ..
        } = self.shared;
        let family = sockopt::socket_domain(socket)?;
        let made = performer.make_socket(family)?;
        take_after(&made, socket, asked)?;
        rustix::net::bind(&made, &asked)?;
        inner.remember(&made)?;
        let number = self.call.arguments[0] as u32;
        let close_on_exec = self.is_closed_on_exec(number)?;
        notify::replace_descriptor(
            listener.as_fd(),
            self.call.id,
            made.as_fd(),
            number,
            close_on_exec,
        )?;
        DONE
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

/// Sets what servers set of a socket before they bind it.
fn take_after(made: &OwnedFd, socket: &OwnedFd, asked: SocketAddr) -> Result<(), Errno> {
    let is_nonblocking = rustix::fs::fcntl_getfl(socket)?.contains(OFlags::NONBLOCK);
    if is_nonblocking {
        let flags = rustix::fs::fcntl_getfl(made)?;
        rustix::fs::fcntl_setfl(made, flags | OFlags::NONBLOCK)?;
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
