//! The messages of fixed size that supervisor, keeper and init exchange, on this side's sockets: see
//! [`crate::wire`].

use crate::wire::{self, Record};
use rustix::{io::Errno, net::RecvFlags};
use std::{
    collections::VecDeque,
    io::IoSliceMut,
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

/// Most descriptors that come with one.
const MOST_FDS: usize = 16;

/// A record as it is sent. Words that are not given are zero.
pub(crate) fn record_bytes(kind: u64, words: &[u64]) -> [u8; wire::RECORD_BYTES] {
    let mut bytes = [0; wire::RECORD_BYTES];
    let all = std::iter::once(&kind).chain(words);
    for (to, word) in bytes.chunks_exact_mut(8).zip(all) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

fn parse_record(bytes: &[u8; wire::RECORD_BYTES]) -> Record {
    let (chunks, _) = bytes.as_chunks::<8>();
    let mut words = chunks.iter().map(|word| u64::from_ne_bytes(*word));
    let mut record = Record {
        kind: words.next().unwrap_or(0),
        ..Record::default()
    };
    for (to, from) in record.words.iter_mut().zip(words) {
        *to = from;
    }
    record
}

/// Receives one whole record and what came with it; `None` when the peer has closed.
pub(crate) fn receive_record(
    socket: BorrowedFd<'_>,
) -> rustix::io::Result<Option<(Record, VecDeque<OwnedFd>)>> {
    let mut bytes = [0; wire::RECORD_BYTES];
    let mut fds = VecDeque::new();
    let mut filled = 0;
    while filled < bytes.len() {
        let received = receive_part(socket, &mut bytes[filled..], &mut fds)?;
        if received == 0 {
            return Ok(None);
        }
        filled += received;
    }
    Ok(Some((parse_record(&bytes), fds)))
}

/// The record that comes next, if it is there; it stays there.
pub(crate) fn next_record(socket: BorrowedFd<'_>) -> Option<Record> {
    let mut bytes = [0; wire::RECORD_BYTES];
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (length, _) = rustix::net::recv(socket, &mut bytes, flags).ok()?;
    (length == bytes.len()).then(|| parse_record(&bytes))
}

/// Bytes that follow a record.
pub(crate) fn receive_exactly(
    socket: BorrowedFd<'_>,
    mut bytes: &mut [u8],
) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match receive_part(socket, bytes, &mut VecDeque::new())? {
            0 => return Err(Errno::PIPE),
            received => bytes = &mut bytes[received..],
        }
    }
    Ok(())
}

fn receive_part(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    fds: &mut VecDeque<OwnedFd>,
) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut ancillary = rustix::net::RecvAncillaryBuffer::new(&mut space);
    let mut part = [IoSliceMut::new(bytes)];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut part, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    for message in ancillary.drain() {
        if let rustix::net::RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok(received.bytes)
}
