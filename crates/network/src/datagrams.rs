//! Datagrams between parts of palisade, in order and with an end: `SOCK_SEQPACKET`.

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Of one, and more than any needs: the longest tells all addresses of a name.
pub(crate) const MOST_BYTES: usize = 32 << 10;

/// Two connected ends.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Sends one, and a descriptor with it.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    with: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let with: Vec<_> = with.into_iter().collect();
    if !with.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&with));
    }
    // An empty datagram would be taken for the end.
    let parts = [IoSlice::new(if bytes.is_empty() { b"!" } else { bytes })];
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives one that is there already; `None` at the end. A descriptor that came with it is closed.
///
/// # Errors
/// `WouldBlock` where there is none.
pub(crate) fn receive_now(socket: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
    let received = receive_with(socket, RecvFlags::DONTWAIT)?;
    Ok(received.map(|(bytes, _)| bytes))
}

/// Receives one and the descriptor that came with it; `None` at the end.
pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    receive_with(socket, RecvFlags::empty())
}

fn receive_with(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let mut bytes = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    bytes.truncate(received.bytes);
    let with = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    Ok(Some((bytes, with)))
}
