//! `sock_…`: on the listeners that a guest is started with, and what it accepts from them.

use super::{Context, abi, abi::Rights, errno::Errno, memory::GuestMemory, table::Descriptor};
use crate::sys::transfer::{self, Parts};
use rustix::{
    io::Errno as Kernel,
    net::{Shutdown, SocketFlags, accept_with, shutdown, sockopt::socket_type},
};
use std::os::fd::BorrowedFd;

/// `riflags`: leave what is read in the socket.
const RECV_PEEK: u32 = 1;
/// `riflags`: wait until all is there.
const RECV_WAITALL: u32 = 2;
/// `roflags`: the rest of a datagram is lost.
const RECV_DATA_TRUNCATED: u16 = 1;

type Result<T = ()> = std::result::Result<T, Errno>;

impl Context {
    /// What is no socket says so, whatever else it may be used for; what is one has the kernel's answer.
    fn socket(&self, number: u32, right: Rights) -> Result<BorrowedFd<'_>> {
        let descriptor = self.table.get(number)?;
        descriptor
            .with(right)
            .map_err(|error| match socket_type(descriptor.file()) {
                Err(Kernel::NOTSOCK | Kernel::BADF) => Errno::NOT_SOCKET,
                _ => error,
            })
    }

    pub(super) fn sock_accept(
        &mut self,
        mut memory: GuestMemory<'_>,
        listener: u32,
        flags: u32,
        accepted: u32,
    ) -> Result {
        memory.check(accepted, 4)?;
        self.table.has_room()?;
        let flags = match flags {
            0 => SocketFlags::CLOEXEC,
            abi::FDFLAGS_NONBLOCK => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            _ => return Err(Errno::INVALID),
        };
        let listener = self.socket(listener, Rights::SOCK_ACCEPT)?;
        let socket = accept_with(listener, flags)?;
        let descriptor = Descriptor::new(socket, Rights::of_socket(), Rights::NONE);
        let number = self.table.insert(descriptor)?;
        memory.put_u32(accepted, number)
    }

    pub(super) fn sock_recv(
        &mut self,
        mut memory: GuestMemory<'_>,
        socket: u32,
        list: u32,
        count: u32,
        flags: u32,
        received: u32,
        out_flags: u32,
    ) -> Result {
        memory.check(received, 4)?;
        memory.check(out_flags, 2)?;
        let socket = self.socket(socket, Rights::FD_READ)?;
        let parts = Parts::read(memory.0, list, count)?;
        let (bytes, message) = transfer::receive(socket, parts, receive_flags(flags)?)?;
        let truncated = match message & libc::MSG_TRUNC {
            0 => 0,
            _ => RECV_DATA_TRUNCATED,
        };
        memory.put(out_flags, truncated.to_le_bytes())?;
        memory.put_u32(received, bytes)
    }

    /// As write(2): there are no flags to send with. The call with a list of messages would be looked at
    /// by a broker.
    pub(super) fn sock_send(
        &mut self,
        mut memory: GuestMemory<'_>,
        socket: u32,
        list: u32,
        count: u32,
        flags: u32,
        sent: u32,
    ) -> Result {
        memory.check(sent, 4)?;
        if flags != 0 {
            return Err(Errno::INVALID);
        }
        let socket = self.socket(socket, Rights::FD_WRITE)?;
        socket_type(socket)?;
        let bytes = transfer::write(socket, Parts::read(memory.0, list, count)?)?;
        memory.put_u32(sent, bytes)
    }

    pub(super) fn sock_shutdown(&mut self, _: GuestMemory<'_>, socket: u32, which: u32) -> Result {
        let which = match which {
            1 => Shutdown::Read,
            2 => Shutdown::Write,
            3 => Shutdown::Both,
            _ => return Err(Errno::INVALID),
        };
        let socket = self.socket(socket, Rights::SOCK_SHUTDOWN)?;
        Ok(shutdown(socket, which)?)
    }
}

fn receive_flags(flags: u32) -> Result<i32> {
    if flags & !(RECV_PEEK | RECV_WAITALL) != 0 {
        return Err(Errno::INVALID);
    }
    let when = |flag, kernel| match flags & flag {
        0 => 0,
        _ => kernel,
    };
    Ok(when(RECV_PEEK, libc::MSG_PEEK) | when(RECV_WAITALL, libc::MSG_WAITALL))
}
