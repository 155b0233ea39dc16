//! Calls on sockets of the domain's own: local ones, and netlink's where a profile has it.
//!
//! The filter cannot tell them from internet sockets, for it sees a descriptor's number only. Letting
//! them through would let another thread put an internet socket under that number meanwhile, and
//! carrying them out here would show the supervisor's credentials to the other end and look for paths
//! in the host's file system. So a child of init's does it, in the domain, as the guest's user, on the
//! same open socket. Its pid is what `SO_PEERCRED` shows to the other end.

use super::{
    call::{Answer, Outcome},
    guest,
    pending::Wait,
};
use crate::{
    keeper::record_bytes,
    plan::Plan,
    sys::notify::Notification,
    wire::{self, perform},
};
use rustix::{
    event::PollFlags,
    fs::{MemfdFlags, Mode, OFlags},
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
    pipe::PipeFlags,
};
use std::{
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Has calls carried out inside the domain.
#[derive(Debug)]
pub(crate) struct Performer {
    /// Stream to init.
    socket: OwnedFd,
    /// What is refused: see [`crate::seccomp::Groups`].
    refused: Refused,
}

/// What a domain without namespaces may not do even with sockets of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refused {
    /// Connecting to a name, and sending to one.
    pub(crate) connect: bool,
    /// Taking a name.
    pub(crate) bind: bool,
}

impl Refused {
    /// What the filter of such a domain would refuse if it did not leave it to the supervisor.
    pub(super) fn of(plan: &Plan) -> Self {
        let groups = plan.seccomp.unwrap_or_default();
        Self {
            connect: groups.host_sockets_visible,
            bind: groups.no_named_sockets,
        }
    }
}

impl Performer {
    pub(crate) fn new(socket: OwnedFd, refused: Refused) -> Self {
        Self { socket, refused }
    }

    /// Asks for a call with this address, and waits for its result.
    pub(super) fn perform(
        &self,
        call: &Notification,
        target: BorrowedFd<'_>,
        address: &[u8],
        data: &[u8],
    ) -> Outcome {
        let number = i64::from(call.call);
        let is_refused = match number {
            libc::SYS_listen => false,
            libc::SYS_bind => self.refused.bind,
            _ => self.refused.connect,
        };
        if is_refused {
            return Err(Errno::ACCESS);
        }
        let (result, answer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let folder = is_relative(address)
            .then(|| folder_of(call.thread))
            .transpose()?;
        let data = (!data.is_empty()).then(|| in_memory(data)).transpose()?;
        let mut words = [0; wire::RECORD_WORDS];
        words[perform::CALL] = number as u64;
        words[perform::NUMBER] = call.arguments[if number == libc::SYS_listen { 1 } else { 3 }];
        words[perform::UMASK] = match number {
            libc::SYS_bind => guest::umask(call.thread).ok_or(Errno::SRCH)?.into(),
            _ => 0,
        };
        words[perform::ADDRESS_LENGTH] = address.len() as u64;
        words[perform::ATTACHED] = [
            (perform::ATTACHED_FOLDER, folder.is_some()),
            (perform::ATTACHED_DATA, data.is_some()),
        ]
        .into_iter()
        .filter_map(|(bit, is_there)| is_there.then_some(bit))
        .sum();
        for (word, bytes) in words[perform::ADDRESS..].iter_mut().zip(address.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let fds: Vec<_> = [target, answer.as_fd()]
            .into_iter()
            .chain(folder.as_ref().map(AsFd::as_fd))
            .chain(data.as_ref().map(AsFd::as_fd))
            .collect();
        self.send(&words, &fds)?;
        Ok(Answer::Later(Wait {
            socket: result,
            until: PollFlags::IN,
            deadline: None,
            is_begun: true,
            again: Box::new(|result| Some(read_result(result))),
        }))
    }

    fn send(&self, words: &[u64], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let record = record_bytes(wire::DOMAIN_PERFORM, words);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
        let parts = [IoSlice::new(&record)];
        rustix::net::sendmsg(&self.socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    }
}

/// A path that begins where the caller stands. Abstract names begin with a NUL.
fn is_relative(address: &[u8]) -> bool {
    let is_local = address.starts_with(&(libc::AF_UNIX as u16).to_ne_bytes());
    is_local
        && address
            .get(2)
            .is_some_and(|first| !matches!(first, 0 | b'/'))
}

fn folder_of(thread: u32) -> Result<OwnedFd, Errno> {
    let path = format!("/proc/{thread}/cwd");
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn in_memory(data: &[u8]) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::memfd_create("palisade-message", MemfdFlags::CLOEXEC)?;
    let mut rest = data;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    Ok(file)
}

/// What the child wrote: the call's return value, or minus an error number.
fn read_result(result: &OwnedFd) -> Result<i64, Errno> {
    let mut bytes = [0; 8];
    if rustix::io::read(result, &mut bytes)? != bytes.len() {
        // It was killed with the domain, or for want of memory.
        return Err(Errno::NOMEM);
    }
    match i64::from_ne_bytes(bytes) {
        value @ 0.. => Ok(value),
        errno => Err(Errno::from_raw_os_error(-errno as i32)),
    }
}
