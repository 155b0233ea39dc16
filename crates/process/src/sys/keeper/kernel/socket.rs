//! Sockets, and messages with descriptors.

use super::{Errno, Fd, Result, call6, file::O_CLOEXEC, number};

#[repr(C)]
pub(super) struct IoVec {
    pub(super) base: *mut u8,
    pub(super) length: usize,
}

#[repr(C)]
struct MsgHdr {
    name: *const u8,
    name_length: u32,
    iov: *mut IoVec,
    iov_length: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
}

/// `struct cmsghdr` and room for the most descriptors of one message.
#[repr(C, align(8))]
struct Control {
    length: usize,
    level: i32,
    kind: i32,
    fds: [Fd; crate::wire::MAX_FDS],
}

pub(super) const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const CMSG_HEADER_BYTES: usize = 16;
const MSG_CMSG_CLOEXEC: i32 = 0x4000_0000;
const MSG_NOSIGNAL: i32 = 0x4000;
const MSG_DONTWAIT: i32 = 0x40;
const MSG_CTRUNC: i32 = 8;

/// Two connected local sockets for bytes.
pub(crate) fn socket_pair() -> Result<[Fd; 2]> {
    const SOCK_STREAM: u32 = 1;
    pair_of(SOCK_STREAM)
}

/// Two connected local sockets for messages, each of which arrives as a whole or not at all.
pub(crate) fn message_pair() -> Result<[Fd; 2]> {
    const SOCK_SEQPACKET: u32 = 5;
    pair_of(SOCK_SEQPACKET)
}

fn pair_of(kind: u32) -> Result<[Fd; 2]> {
    const AF_UNIX: u32 = 1;
    let mut ends: [Fd; 2] = [-1; 2];
    // SAFETY: the kernel writes both descriptors into the borrowed array.
    unsafe {
        call!(
            number::SOCKETPAIR,
            AF_UNIX,
            kind | O_CLOEXEC,
            0,
            ends.as_mut_ptr()
        )?
    };
    Ok(ends)
}

/// Sends one message with descriptors attached.
pub(crate) fn send(socket: Fd, bytes: &[u8], fds: &[Fd]) -> Result<usize> {
    send_message(socket, bytes, fds, MSG_NOSIGNAL)
}

/// Sends one message if there is room for it.
pub(crate) fn send_at_once(socket: Fd, bytes: &[u8], fds: &[Fd]) -> Result<usize> {
    send_message(socket, bytes, fds, MSG_NOSIGNAL | MSG_DONTWAIT)
}

/// Sends to an address, or where the socket is connected if that is empty.
pub(crate) fn send_to(
    socket: Fd,
    address: &[u8],
    bytes: &[u8],
    fds: &[Fd],
    flags: i32,
) -> Result<usize> {
    send_message_to(socket, address, bytes, fds, flags | MSG_NOSIGNAL)
}

fn send_message(socket: Fd, bytes: &[u8], fds: &[Fd], flags: i32) -> Result<usize> {
    send_message_to(socket, &[], bytes, fds, flags)
}

fn send_message_to(
    socket: Fd,
    address: &[u8],
    bytes: &[u8],
    fds: &[Fd],
    flags: i32,
) -> Result<usize> {
    let mut control = Control {
        length: CMSG_HEADER_BYTES + size_of_val(fds),
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fds: [-1; _],
    };
    let Some(room) = control.fds.get_mut(..fds.len()) else {
        return Err(Errno::INVAL);
    };
    room.copy_from_slice(fds);
    let mut part = IoVec {
        base: bytes.as_ptr().cast_mut(),
        length: bytes.len(),
    };
    let message = MsgHdr {
        name: if address.is_empty() {
            core::ptr::null()
        } else {
            address.as_ptr()
        },
        name_length: address.len() as u32,
        iov: &raw mut part,
        iov_length: 1,
        control: &raw mut control as *mut u8,
        control_length: if fds.is_empty() {
            0
        } else {
            (control.length + 7) & !7
        },
        flags: 0,
    };
    // SAFETY: the header, the address, the part and the control block outlive the call, which only
    // reads them.
    unsafe { call!(number::SENDMSG, socket, &raw const message, flags) }
}

pub(crate) fn socket(family: u32, kind: u32, protocol: u32) -> Result<Fd> {
    // SAFETY: takes numbers only.
    unsafe { call!(number::SOCKET, family, kind, protocol).map(|fd| fd as Fd) }
}

/// Brings up the loopback of a socket's network, netdevice(7): with it come its addresses.
pub(crate) fn bring_loopback_up(socket: Fd) -> Result<()> {
    const SIOCSIFFLAGS: u32 = 0x8914;
    const IFF_UP: u16 = 1;
    /// `struct ifreq`: a name of 16 bytes, and a union of 24 that begins with the flags.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let mut request = Request {
        name: *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        flags: IFF_UP,
        rest: [0; 22],
    };
    // SAFETY: the kernel reads a `struct ifreq`, of this size and layout on 64-bit machines.
    unsafe { call!(number::IOCTL, socket, SIOCSIFFLAGS, &raw mut request).map(drop) }
}

/// The number of a socket's network namespace, which no other ever has (`SO_NETNS_COOKIE`, Linux 5.14).
pub(crate) fn network_cookie(socket: Fd) -> Result<u64> {
    const SO_NETNS_COOKIE: i32 = 71;
    let mut cookie = 0u64;
    let mut length = size_of::<u64>() as u32;
    // SAFETY: the kernel writes at most `length` bytes to a word that is borrowed for the call, and the length.
    unsafe {
        call!(
            number::GETSOCKOPT,
            socket,
            SOL_SOCKET,
            SO_NETNS_COOKIE,
            &raw mut cookie,
            &raw mut length
        )?
    };
    Ok(cookie)
}

pub(crate) fn connect(socket: Fd, address: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads an address that is borrowed for the call.
    unsafe { call!(number::CONNECT, socket, address.as_ptr(), address.len()) }
}

pub(crate) fn bind(socket: Fd, address: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads an address that is borrowed for the call.
    unsafe { call!(number::BIND, socket, address.as_ptr(), address.len()) }
}

pub(crate) fn listen(socket: Fd, backlog: i32) -> Result<usize> {
    // SAFETY: takes numbers only.
    unsafe { call!(number::LISTEN, socket, backlog) }
}

/// Receives bytes and the descriptors attached to them. Gives how many of each; 0 bytes is the end.
pub(crate) fn receive(
    socket: Fd,
    buffer: &mut [u8],
    fds: &mut [Fd; crate::wire::MAX_FDS],
) -> Result<(usize, usize)> {
    let mut control = Control {
        length: 0,
        level: 0,
        kind: 0,
        fds: [-1; _],
    };
    let mut part = IoVec {
        base: buffer.as_mut_ptr(),
        length: buffer.len(),
    };
    let mut message = MsgHdr {
        name: core::ptr::null(),
        name_length: 0,
        iov: &raw mut part,
        iov_length: 1,
        control: &raw mut control as *mut u8,
        control_length: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: the kernel writes at most `length` bytes into the buffer and at most
    // `control_length` into the control block, both borrowed for the call.
    let bytes = unsafe { call!(number::RECVMSG, socket, &raw mut message, MSG_CMSG_CLOEXEC)? };
    if message.flags & MSG_CTRUNC != 0 {
        return Err(Errno::OVERFLOW);
    }
    if message.control_length < CMSG_HEADER_BYTES || control.kind != SCM_RIGHTS {
        return Ok((bytes, 0));
    }
    let count = ((control.length - CMSG_HEADER_BYTES) / size_of::<Fd>()).min(fds.len());
    fds[..count].copy_from_slice(&control.fds[..count]);
    Ok((bytes, count))
}
