//! The supervisor's end of the process that makes a domain's sockets: see `sys/keeper/maker.rs`.

use crate::{
    keeper::{receive_record, record_bytes},
    wire,
};
use rustix::{io::Errno, net::SendFlags, net::sockopt};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

/// It is there to answer at once. Under a limit on processors it may have to wait for its share.
const PATIENCE: Duration = Duration::from_secs(2);

/// The part of a domain's memory that may be in connections which nobody has accepted, if all are full.
const SHARE_OF_WAITING: u64 = 16;
/// The default of `net.ipv4.tcp_rmem`: nobody reads from them, so it does not grow.
const RECEIVE_BUFFER_BYTES: u64 = 128 * 1024;

/// A process that makes sockets as a member of the domain's memory group. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Maker {
    socket: OwnedFd,
    /// Of one socket that listens.
    most_waiting: u32,
}

impl Maker {
    /// The one that was ordered at the other end of this socket, for a domain of so much memory.
    pub(crate) fn ordered(socket: OwnedFd, memory_bytes: u64) -> Self {
        let most_waiting = memory_bytes / SHARE_OF_WAITING / RECEIVE_BUFFER_BYTES;
        Self {
            socket,
            most_waiting: u32::try_from(most_waiting).unwrap_or(u32::MAX).max(1),
        }
    }

    /// How many connections may wait to be accepted. The kernel charges a connection to whoever accepts it
    /// (`inet_csk_accept`), and what was sent on it before to nobody.
    pub(super) fn backlog(&self, asked: i32) -> i32 {
        // Negative is much, to the kernel.
        (asked as u32).min(self.most_waiting) as i32
    }

    /// Waits until it is in its group.
    pub(super) fn confirm(&self) -> Result<(), Errno> {
        sockopt::set_socket_timeout(&self.socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        self.hear(wire::MAKER_READY).map(drop)
    }

    /// A new socket, whose memory is the domain's. Out of memory its kernel ends it, as it ends the guest.
    pub(super) fn make(&self, family: u32, kind: u32, protocol: u32) -> Result<OwnedFd, Errno> {
        let words = [family, kind, protocol].map(u64::from);
        let request = record_bytes(wire::MAKE_SOCKET, &words);
        rustix::net::send(&self.socket, &request, SendFlags::NOSIGNAL).map_err(|_| Errno::NOMEM)?;
        self.hear(wire::SOCKET_MADE)?.ok_or(Errno::NOMEM)
    }

    /// Has it leave its group, which cannot be removed before, and waits until it lets go.
    pub(super) fn dismiss(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
        let _ = receive_record(self.socket.as_fd());
    }

    fn hear(&self, expected: u64) -> Result<Option<OwnedFd>, Errno> {
        let received = receive_record(self.socket.as_fd());
        let Ok(Some((record, mut fds))) = received else {
            // An answer that comes later must not be taken for the next one's.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
            return Err(Errno::NOMEM);
        };
        match record.kind {
            kind if kind == expected => Ok(fds.pop_front()),
            _ => Err(Errno::from_raw_os_error(record.words[2] as i32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn ends() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    #[test]
    fn fewer_connections_wait_where_there_is_less_memory() {
        let most = |memory_bytes| Maker::ordered(ends().0, memory_bytes).backlog(4096);
        assert_eq!([16 << 20, 1 << 30].map(most), [8, 512]);
        assert_eq!(most(4096), 1);
        let maker = Maker::ordered(ends().0, 1 << 30);
        assert_eq!([0, 5, -1].map(|asked| maker.backlog(asked)), [0, 5, 512]);
    }

    /// Killed for want of memory, say.
    #[test]
    fn without_its_process_there_are_no_sockets() {
        let (ours, other) = ends();
        let maker = Maker::ordered(ours, 1 << 20);
        drop(other);
        let made = maker.make(2, 1, 0);
        assert_eq!(made.map(drop), Err(Errno::NOMEM));
    }

    #[test]
    fn what_the_kernel_refuses_is_refused() {
        let (ours, other) = ends();
        let maker = Maker::ordered(ours, 1 << 20);
        let errno = u64::from(Errno::MFILE.raw_os_error().unsigned_abs());
        let answer = record_bytes(wire::KEEPER_FAILED, &[0, 0, errno]);
        rustix::net::send(&other, &answer, SendFlags::NOSIGNAL).unwrap();
        assert_eq!(maker.make(2, 1, 0).map(drop), Err(Errno::MFILE));
    }
}
