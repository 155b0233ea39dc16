//! Calls that send to an address: `sendto`, and `sendmsg` and `sendmmsg`, which keep theirs in memory.
//!
//! The data is copied too: what is sent is sent from the copy. A UDP grant is needed to get here, so
//! what a domain does over TCP alone is never slowed.

use super::{
    address::{self, Address},
    call::{Answer, Brokered, Outcome, send_deadline, transport},
    guest,
    pending::Wait,
};
use crate::sys::message::{self, RawMessage};
use palisade_policy::Transport;
use rustix::{event::PollFlags, fs::OFlags, io::Errno, net::AddressFamily};
use std::{
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// More than any datagram holds, and as much of a stream as goes at once: a local socket's buffer by
/// default (`net.core.wmem_default`).
const MOST_DATA: usize = 212_992;
/// `UIO_MAXIOV`.
const MOST_PARTS: u64 = 1024;
/// `net.core.optmem_max` of older kernels: they accept no more.
const MOST_CONTROL: u64 = 20_480;
/// Flags that change how one message goes. `MSG_ZEROCOPY` would send from the copy after it is gone.
const FLAGS: i32 = libc::MSG_CONFIRM
    | libc::MSG_DONTROUTE
    | libc::MSG_EOR
    | libc::MSG_MORE
    | libc::MSG_OOB
    | libc::MSG_DONTWAIT
    | libc::MSG_NOSIGNAL;

/// A message as the guest wrote it, copied once.
struct Message {
    name: Option<Address>,
    data: Vec<u8>,
    /// How much there was to send.
    length: u64,
    control: Vec<u8>,
    flags: i32,
}

/// A message that may go.
struct Granted {
    name: Vec<u8>,
    data: Vec<u8>,
    control: Vec<u8>,
    /// What the control block's descriptors refer to.
    rights: Vec<OwnedFd>,
    flags: i32,
}

impl Brokered<'_> {
    /// `sendto(fd, data, length, flags, address, address length)`.
    pub(super) fn sendto(&mut self) -> Outcome {
        let [_, data, length, flags, ..] = self.call.arguments;
        let message = Message {
            name: Some(self.address(4, 5)?),
            data: guest::read(self.call, data, length.min(MOST_DATA as u64) as usize)?,
            length,
            control: Vec::new(),
            flags: flags as i32,
        };
        let socket = self.descriptor()?;
        self.send(socket, message, None)
    }

    /// `sendmsg(fd, message, flags)`.
    pub(super) fn sendmsg(&mut self) -> Outcome {
        let [_, at, flags, ..] = self.call.arguments;
        let message = self.message(at, flags as i32)?;
        let socket = self.descriptor()?;
        self.send(socket, message, None)
    }

    /// `sendmmsg(fd, messages, count, flags)`: as many as go without waiting, or the first.
    pub(super) fn sendmmsg(&mut self) -> Outcome {
        /// `struct mmsghdr`: a `struct msghdr`, then how much of it was sent.
        const ENTRY_BYTES: u64 = 64;
        const LENGTH_AT: u64 = 56;
        let [_, list, count, flags, ..] = self.call.arguments;
        let memory = guest::Memory::of(self.call.thread)?;
        let mut sent = 0;
        for index in 0..u64::from(count as u32).min(MOST_PARTS) {
            let at = list.wrapping_add(index * ENTRY_BYTES);
            let outcome = self.message(at, flags as i32).and_then(|message| {
                let socket = self.descriptor()?;
                let length_at = at.wrapping_add(LENGTH_AT);
                self.send(socket, message, Some((memory.clone(), length_at)))
            });
            match outcome {
                Ok(Answer::Result(Ok(_))) => sent += 1,
                // What the others come to, the next call tells.
                _ if sent > 0 => break,
                first => return first,
            }
        }
        Ok(Answer::Result(Ok(sent)))
    }

    /// Copies a `struct msghdr` and all it points to.
    fn message(&self, at: u64, flags: i32) -> Result<Message, Errno> {
        const HEADER_BYTES: usize = 56;
        let header = guest::read(self.call, at, HEADER_BYTES)?;
        let word = |index: usize| {
            let bytes = header[index * 8..].first_chunk();
            bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
        };
        let [
            name,
            name_length,
            parts,
            part_count,
            control,
            control_length,
        ] = [0, 1, 2, 3, 4, 5].map(word);
        if part_count > MOST_PARTS {
            return Err(Errno::MSGSIZE);
        }
        if control_length > MOST_CONTROL {
            return Err(Errno::NOBUFS);
        }
        let (data, length) = self.gather(parts, part_count)?;
        // No name or no length: none. The upper half of the length is padding.
        let name_length = u64::from(name_length as u32);
        let name = match (name, name_length) {
            (0, _) | (_, 0) => None,
            (name, length) => Some(Address::parse(&self.address_bytes(name, length)?)?),
        };
        Ok(Message {
            name,
            data,
            length,
            control: guest::read(self.call, control, control_length as usize)?,
            flags,
        })
    }

    /// The parts of a message in one piece, and how long it was.
    fn gather(&self, parts: u64, count: u64) -> Result<(Vec<u8>, u64), Errno> {
        const PART_BYTES: usize = 16;
        let list = guest::read(self.call, parts, count as usize * PART_BYTES)?;
        let (words, _) = list.as_chunks::<8>();
        let (mut data, mut length) = (Vec::new(), 0u64);
        for part in words.chunks_exact(2) {
            let [base, size] = [part[0], part[1]].map(u64::from_ne_bytes);
            let room = (MOST_DATA - data.len()) as u64;
            data.extend(guest::read(self.call, base, size.min(room) as usize)?);
            length = length.saturating_add(size);
        }
        Ok((data, length))
    }

    /// Sends what is granted. Of one of many messages the guest keeps the length, at this place of its
    /// memory.
    fn send(
        &mut self,
        socket: OwnedFd,
        message: Message,
        keep_length: Option<(guest::Memory, u64)>,
    ) -> Outcome {
        let granted = match &message.name {
            Some(Address::Inside(name)) => {
                return self.send_inside(&socket, name, &message);
            }
            _ => self.grant(&socket, message)?,
        };
        let done = move |sent: usize| match &keep_length {
            None => Ok(sent as i64),
            Some((memory, at)) => {
                memory.write(*at, &(sent as u32).to_ne_bytes())?;
                Ok(1)
            }
        };
        match granted.send(&socket) {
            Err(Errno::AGAIN) if granted.waits(&socket)? => Ok(Answer::Later(Wait {
                deadline: send_deadline(&socket, Errno::AGAIN)?,
                socket,
                until: PollFlags::OUT,
                again: Box::new(move |socket| match granted.send(socket) {
                    Err(Errno::AGAIN) => None,
                    sent => Some(sent.and_then(&done)),
                }),
            })),
            sent => Ok(Answer::Result(sent.and_then(done))),
        }
    }

    fn send_inside(&self, socket: &OwnedFd, name: &[u8], message: &Message) -> Outcome {
        if !message.control.is_empty() || message.length > MOST_DATA as u64 {
            return Err(Errno::OPNOTSUPP);
        }
        self.shared
            .performer
            .perform(self.call, socket.as_fd(), name, &message.data)
    }

    /// Decides by the socket's kind and the message's address.
    fn grant(&mut self, socket: &OwnedFd, message: Message) -> Result<Granted, Errno> {
        let mut granted = Granted {
            name: Vec::new(),
            data: message.data,
            control: message.control,
            rights: Vec::new(),
            flags: message.flags & FLAGS,
        };
        let is_whole = granted.data.len() as u64 == message.length;
        let Ok(transport) = transport(socket) else {
            // A local one, connected. Only of a stream may a part go.
            if message.name.is_some() || (!is_whole && is_datagram(socket)?) {
                return Err(Errno::MSGSIZE);
            }
            granted.rights = self.translate_rights(&mut granted.control)?;
            return Ok(granted);
        };
        if !is_whole && transport == Transport::Udp {
            return Err(Errno::MSGSIZE);
        }
        if !controls(&granted.control)?.iter().all(Control::is_harmless) {
            return Err(Errno::PERM);
        }
        match message.name {
            // A stream goes where it is connected to, whatever the address says (tcp_sendmsg_locked).
            Some(Address::Internet(asked)) if transport == Transport::Udp => {
                let target = self.granted(transport, asked, self.shared.gate.send(asked))?;
                granted.name = raw_address(address::in_family_of(asked, target));
            }
            Some(Address::Unspecified) => return Err(Errno::AFNOSUPPORT),
            _ => {}
        }
        Ok(granted)
    }

    /// Puts this process's own descriptors of the same open files into the copy of a control block.
    fn translate_rights(&mut self, control: &mut [u8]) -> Result<Vec<OwnedFd>, Errno> {
        let listener = self.shared.listener.as_fd();
        let mut held = Vec::new();
        for entry in controls(control)? {
            if (entry.level, entry.kind) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                return Err(Errno::PERM);
            }
            for at in entry.data.step_by(4) {
                let number = control.get_mut(at..at + 4).ok_or(Errno::INVAL)?;
                let guests = u32::from_ne_bytes([number[0], number[1], number[2], number[3]]);
                let own = self
                    .threads
                    .descriptor(listener, self.call, guests.into())?;
                number.copy_from_slice(&own.as_raw_fd().to_ne_bytes());
                held.push(own);
            }
        }
        Ok(held)
    }
}

impl Granted {
    /// Without waiting; `EPIPE` without a signal, which would be this process's.
    fn send(&self, socket: &OwnedFd) -> Result<usize, Errno> {
        let message = RawMessage {
            name: &self.name,
            data: &self.data,
            control: &self.control,
            flags: self.flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
        };
        message::send(socket.as_fd(), message)
    }

    /// Whether the guest would wait for room.
    fn waits(&self, socket: &OwnedFd) -> Result<bool, Errno> {
        let flags = rustix::fs::fcntl_getfl(socket)?;
        Ok(self.flags & libc::MSG_DONTWAIT == 0 && !flags.contains(OFlags::NONBLOCK))
    }
}

/// One entry of a control block, and where its data stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Control {
    level: i32,
    kind: i32,
    data: std::ops::Range<usize>,
}

impl Control {
    /// What changes a packet, but not where it goes: `IP_RETOPTS` and `IPV6_RTHDR` carry source routes.
    fn is_harmless(&self) -> bool {
        const HARMLESS: [(i32, i32); 8] = [
            (libc::IPPROTO_IP, libc::IP_TOS),
            (libc::IPPROTO_IP, libc::IP_TTL),
            (libc::IPPROTO_IP, libc::IP_PKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO),
            (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT),
        ];
        HARMLESS.contains(&(self.level, self.kind))
    }
}

/// The entries of a control block: each a `struct cmsghdr` of 16 bytes (length with itself, level,
/// type), its data, and padding to a multiple of eight.
///
/// # Errors
///
/// `EINVAL` where one does not fit into what is left: the kernel refuses that too (`CMSG_OK`).
pub(super) fn controls(block: &[u8]) -> Result<Vec<Control>, Errno> {
    const HEADER_BYTES: usize = 16;
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(header) = block
        .get(at..)
        .and_then(<[u8]>::first_chunk::<HEADER_BYTES>)
    {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *header;
        let length = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
        if length < HEADER_BYTES || length > block.len() - at {
            return Err(Errno::INVAL);
        }
        entries.push(Control {
            level: i32::from_ne_bytes([i, j, k, l]),
            kind: i32::from_ne_bytes([m, n, o, p]),
            data: at + HEADER_BYTES..at + length,
        });
        at += length.next_multiple_of(8);
    }
    Ok(entries)
}

fn is_datagram(socket: &OwnedFd) -> Result<bool, Errno> {
    let kind = rustix::net::sockopt::socket_type(socket)?;
    Ok(kind != rustix::net::SocketType::STREAM)
}

/// `struct sockaddr_in` or `struct sockaddr_in6`.
fn raw_address(address: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    bytes.extend(family.as_raw().to_ne_bytes());
    bytes.extend(address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes.extend(v4.ip().octets());
            bytes.extend([0; 8]);
        }
        SocketAddr::V6(v6) => {
            bytes.extend([0; 4]);
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}
