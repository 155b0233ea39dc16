//! Sockets that a guest finds open: sd_listen_fds(3).
//!
//! They are its descriptors from 3 on, first those that whoever launches hands over, then those that
//! palisade opens itself (`--listen …,ready`), then those it was started with (`--listen inherited`).

use crate::{launch_error::LaunchError, plan::Plan, sys};
use palisade_network::ReadyListener;
use palisade_policy::Transport;
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt},
};
use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// The variables that tell a guest about them.
const VARIABLES: [&str; 3] = ["LISTEN_FDS=", "LISTEN_FDNAMES=", "LISTEN_PID="];

/// Open sockets and their names.
#[derive(Debug)]
pub(super) struct Listeners<'a> {
    handed: &'a [BorrowedFd<'a>],
    /// What is passed beside listeners.
    others: &'a [BorrowedFd<'a>],
    names: Vec<String>,
    sockets: Vec<(OwnedFd, String)>,
}

impl<'a> Listeners<'a> {
    /// Opens and finds those of the plan; the first of `passed` are those that it hands over.
    pub(super) fn of(plan: &Plan, passed: &'a [BorrowedFd<'a>]) -> Result<Self, LaunchError> {
        let (handed, others) = passed
            .split_at_checked(plan.handed.len())
            .ok_or(LaunchError::NotHandedOver)?;
        let mut sockets = Vec::new();
        for listener in plan.network.ready_listeners() {
            let name = format!("{}-{}", listener.transport, listener.address.port());
            let socket = open(&listener).map_err(|errno| LaunchError::Listen {
                transport: listener.transport,
                address: listener.address,
                errno,
            })?;
            sockets.push((socket, name));
        }
        if plan.inherits_listeners {
            let count = sys::count_inherited();
            if count > sys::MOST_INHERITED {
                return Err(LaunchError::TooManyInherited { count });
            }
            let inherited = sys::inherited_descriptors().map_err(LaunchError::Inherit)?;
            if inherited.is_empty() {
                return Err(LaunchError::NothingInherited);
            }
            for (socket, _) in &inherited {
                refuse_channel(socket).map_err(LaunchError::Inherit)?;
            }
            sockets.extend(inherited);
        }
        Ok(Self {
            handed,
            others,
            names: plan.handed.iter().map(|one| one.name.clone()).collect(),
            sockets,
        })
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let opened = self.sockets.iter().map(|(socket, _)| socket.as_fd());
        self.handed.iter().copied().chain(opened)
    }

    /// What the guest finds open after them.
    pub(super) fn others(&self) -> &'a [BorrowedFd<'a>] {
        self.others
    }

    /// How many.
    pub(super) fn count(&self) -> usize {
        self.handed.len() + self.sockets.len()
    }

    /// What tells the guest; its process puts its pid in.
    pub(super) fn add_variables(&self, variables: &mut Vec<OsString>) {
        if self.count() == 0 {
            return;
        }
        let opened = self.sockets.iter().map(|(_, name)| name);
        let names: Vec<_> = self
            .names
            .iter()
            .chain(opened)
            .map(String::as_str)
            .collect();
        let [count, named, pid] = VARIABLES;
        variables.push(format!("{count}{}", self.count()).into());
        variables.push(format!("{named}{}", names.join(":")).into());
        variables.push(pid.into());
    }
}

/// A descriptor that the variables name and nobody passed is one that this process opened itself, and
/// its way to the keeper may be that: a local socket with a peer.
fn refuse_channel(socket: &OwnedFd) -> Result<(), Errno> {
    let is_local = sockopt::socket_domain(socket)? == AddressFamily::UNIX;
    match rustix::net::getpeername(socket) {
        Ok(_) if is_local => Err(Errno::ISCONN),
        _ => Ok(()),
    }
}

/// A datagram socket is bound only.
fn open(listener: &ReadyListener) -> Result<OwnedFd, Errno> {
    match open_at(listener.transport, listener.address) {
        // A host without IPv6.
        Err(Errno::AFNOSUPPORT) if listener.address.ip().is_unspecified() => {
            let port = listener.address.port();
            open_at(
                listener.transport,
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            )
        }
        opened => opened,
    }
}

fn open_at(transport: Transport, address: SocketAddr) -> Result<OwnedFd, Errno> {
    const BACKLOG: i32 = 4096;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match transport {
        Transport::Tcp => SocketType::STREAM,
        Transport::Udp => SocketType::DGRAM,
    };
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, !address.ip().is_unspecified())?;
    }
    if transport == Transport::Tcp {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    if transport == Transport::Tcp {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}
