//! Sockets of a domain's own network, for who is outside.
//!
//! That network has a loopback and nothing else. A socket belongs to the network that it was made in, whoever holds it:
//! so init makes one and passes it out, and what is done with it then is done inside. The host has no port for
//! that, and nobody else has a way in.

use crate::{
    record::{receive_record, record_bytes},
    wire,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    io::Errno,
    net::{
        AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
        SocketType, ipproto, socketpair,
    },
};
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::IpAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

/// The network of one domain.
#[derive(Debug)]
pub struct InnerNetwork {
    /// Stream to init.
    socket: Arc<OwnedFd>,
}

/// A socket that was asked for. It is there once this is readable.
#[derive(Debug)]
pub struct InnerSocket(OwnedFd);

impl InnerNetwork {
    pub(crate) fn new(socket: Arc<OwnedFd>) -> Self {
        Self { socket }
    }

    /// Asks for a TCP socket that does not block, to connect to this address of the loopback's.
    ///
    /// # Errors
    ///
    /// When the domain has ended, or there are no more descriptors.
    pub fn ask(&self, family_of: IpAddr) -> io::Result<InnerSocket> {
        let family = match family_of {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        Ok(ask(self.socket.as_fd(), family, SocketFlags::NONBLOCK)?)
    }
}

/// Asks init, at the other end, for a TCP socket.
pub(crate) fn ask(
    init: BorrowedFd<'_>,
    family: AddressFamily,
    flags: SocketFlags,
) -> Result<InnerSocket, Errno> {
    let (place, inits_end) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let kind = SocketType::STREAM.as_raw() | (flags | SocketFlags::CLOEXEC).bits();
    let words = [
        u64::from(family.as_raw()),
        u64::from(kind),
        u64::from(ipproto::TCP.as_raw().get()),
    ];
    let record = record_bytes(wire::DOMAIN_SOCKET, &words);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [inits_end.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::TOOMANYREFS);
    }
    let parts = [IoSlice::new(&record)];
    rustix::net::sendmsg(init, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(InnerSocket(place))
}

impl InnerSocket {
    /// The socket. Blocks until it is there.
    ///
    /// # Errors
    ///
    /// When the domain has ended, or may have no more sockets.
    pub fn take(self) -> io::Result<OwnedFd> {
        Ok(self.take_it()?)
    }

    /// The same, for no longer than this.
    pub(crate) fn take_within(self, patience: Duration) -> Result<OwnedFd, Errno> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout = Timespec::try_from(patience).ok();
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, timeout.as_ref()))?;
        match ready {
            0 => Err(Errno::NOMEM),
            _ => self.take_it(),
        }
    }

    fn take_it(self) -> Result<OwnedFd, Errno> {
        // Closed without a word: the domain has ended.
        let (record, mut fds) = receive_record(self.0.as_fd())?.ok_or(Errno::CONNREFUSED)?;
        match record.kind {
            wire::MADE => fds.pop_front().ok_or(Errno::MFILE),
            _ => Err(Errno::from_raw_os_error(record.words[2] as i32)),
        }
    }
}

impl From<OwnedFd> for InnerSocket {
    fn from(asked: OwnedFd) -> Self {
        Self(asked)
    }
}

impl From<InnerSocket> for OwnedFd {
    fn from(asked: InnerSocket) -> Self {
        asked.0
    }
}

impl AsFd for InnerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
