//! Messages as a guest writes them, copied out of its memory once.
//!
//! Everything here is the guest's choice: each length is bounded before it is used, and nothing is read
//! twice.

use crate::address::{self, Address};
use rustix::io::Errno;
use std::ops::Range;

/// More than any datagram holds, and as much of a stream as goes at once: a local socket's buffer by
/// default (`net.core.wmem_default`).
pub(super) const MOST_DATA: usize = 212_992;
/// `UIO_MAXIOV`.
const MOST_PARTS: u64 = 1024;
/// `net.core.optmem_max` of older kernels: they accept no more.
const MOST_CONTROL: u64 = 20_480;

/// Memory that a guest's pointers point into.
pub(super) trait Source {
    /// Copies this much from there: all of it, or `EFAULT`.
    fn read(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno>;

    /// Copies several pieces, one behind the other.
    fn read_parts(&self, parts: &[(u64, usize)]) -> Result<Vec<u8>, Errno>;
}

/// A message as the guest wrote it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: Option<Address>,
    pub(super) data: Vec<u8>,
    /// How much there was to send.
    pub(super) length: u64,
    pub(super) control: Vec<u8>,
    /// `MSG_*`.
    pub(super) flags: i32,
}

impl Message {
    /// Copies a `struct msghdr` and all it points to.
    pub(super) fn copy(memory: &impl Source, at: u64, flags: i32) -> Result<Self, Errno> {
        const HEADER_BYTES: usize = 56;
        let header = memory.read(at, HEADER_BYTES)?;
        let (words, _) = header.as_chunks::<8>();
        let [
            name,
            name_length,
            parts,
            part_count,
            control,
            control_length,
            _,
        ] = *words
        else {
            return Err(Errno::FAULT);
        };
        let [name, parts, part_count, control, control_length] =
            [name, parts, part_count, control, control_length].map(u64::from_ne_bytes);
        if part_count > MOST_PARTS {
            return Err(Errno::MSGSIZE);
        }
        if control_length > MOST_CONTROL {
            return Err(Errno::NOBUFS);
        }
        // An `int`; what follows it is padding.
        let [a, b, c, d, ..] = name_length;
        let name = copy_name(memory, name, i32::from_ne_bytes([a, b, c, d]))?;
        let (data, length) = gather(memory, parts, part_count)?;
        Ok(Self {
            name,
            data,
            length,
            control: memory.read(control, control_length as usize)?,
            flags,
        })
    }
}

/// No name or no length: none. Of a longer one the kernel reads as much as any address has.
fn copy_name(memory: &impl Source, at: u64, length: i32) -> Result<Option<Address>, Errno> {
    let length = usize::try_from(length).map_err(|_| Errno::INVAL)?;
    if at == 0 || length == 0 {
        return Ok(None);
    }
    let bytes = memory.read(at, length.min(address::MOST_BYTES))?;
    Address::parse(&bytes).map(Some)
}

/// The parts of a message in one piece, and how long it was.
fn gather(memory: &impl Source, parts: u64, count: u64) -> Result<(Vec<u8>, u64), Errno> {
    const PART_BYTES: usize = 16;
    let list = memory.read(parts, count as usize * PART_BYTES)?;
    let (words, _) = list.as_chunks::<8>();
    let (mut pieces, mut room, mut length) = (Vec::new(), MOST_DATA, 0u64);
    for part in words.chunks_exact(2) {
        let [base, size] = [part[0], part[1]].map(u64::from_ne_bytes);
        let taken = size.min(room as u64) as usize;
        if taken > 0 {
            pieces.push((base, taken));
        }
        room -= taken;
        length = length.saturating_add(size);
    }
    Ok((memory.read_parts(&pieces)?, length))
}

/// One entry of a control block, and where its data stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Control {
    pub(super) level: i32,
    pub(super) kind: i32,
    pub(super) data: Range<usize>,
}

impl Control {
    /// Whether it changes a packet, but not where it goes: `IP_RETOPTS` and `IPV6_RTHDR` carry source
    /// routes, and a packet information that names an interface sends by that.
    pub(super) fn is_harmless(&self, block: &[u8]) -> bool {
        const HARMLESS: [(i32, i32); 6] = [
            (libc::IPPROTO_IP, libc::IP_TOS),
            (libc::IPPROTO_IP, libc::IP_TTL),
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
            (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT),
        ];
        // `struct in_pktinfo` begins with the interface, `struct in6_pktinfo` ends with it.
        let interface = match (self.level, self.kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => 0..4,
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => 16..20,
            other => return HARMLESS.contains(&other),
        };
        let data = block.get(self.data.clone()).unwrap_or_default();
        data.get(interface).is_some_and(|index| index == [0; 4])
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
