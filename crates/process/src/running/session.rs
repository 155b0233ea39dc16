//! A further process in a domain, from outside.

use super::door::{OperateError, hear};
use crate::{
    launch::encode::{encode_further, header},
    record::record_bytes,
    wire::{self, Step},
};
use palisade_wall::Terminal;
use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags},
};
use std::{
    ffi::OsString,
    io::IoSlice,
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// What to start.
#[derive(Debug)]
pub struct Further<'a> {
    /// The program, looked up in the guest's `PATH` if it has no slash, and its arguments.
    pub arguments: &'a [OsString],
    /// `NAME=VALUE` each, for those that the guest's environment has not.
    pub variables: &'a [OsString],
    /// Standard streams. They are handed over as they are: pipes made for it, nothing of the caller's own.
    pub streams: [BorrowedFd<'a>; 3],
    /// A terminal of its own in place of some of them.
    pub terminal: Option<&'a Terminal>,
}

/// A process that runs in a domain. It ends when this is dropped.
///
/// Its descriptor ([`AsFd`]) is readable when [`Session::next_event`] has something.
#[derive(Debug)]
pub struct Session {
    socket: OwnedFd,
    terminal: Option<OwnedFd>,
}

/// Something that became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// It has ended, with this wait status.
    Ended(u32),
    /// Its domain has ended, and it with it.
    DomainEnded,
}

impl Session {
    pub(super) fn begin(socket: OwnedFd, further: &Further<'_>) -> Result<Self, OperateError> {
        match send(&socket, further) {
            // Why it is not heard stands in the answer.
            Err(Errno::PIPE | Errno::CONNRESET) => {}
            sent => sent.map_err(OperateError::Talk)?,
        }
        let (record, terminal) = hear(&socket)?.ok_or(OperateError::Gone)?;
        match record.kind {
            wire::INIT_STARTED => Ok(Self { socket, terminal }),
            wire::INIT_FAILED => Err(refusal(&record, further)),
            _ => Err(OperateError::Gone),
        }
    }

    /// The master end of its terminal, once.
    pub fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// Sends its process group a signal.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn signal(&self, number: i32) -> Result<(), OperateError> {
        let record = record_bytes(wire::DOMAIN_SIGNAL, &[number as u64]);
        rustix::net::send(&self.socket, &record, SendFlags::NOSIGNAL)
            .map(drop)
            .map_err(OperateError::Talk)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// When it cannot be heard any more.
    pub fn next_event(&self) -> Result<SessionEvent, OperateError> {
        Ok(match hear(&self.socket)? {
            Some((record, _)) if record.kind == wire::INIT_ENDED => {
                SessionEvent::Ended(record.words[wire::ended::STATUS] as u32)
            }
            _ => SessionEvent::DomainEnded,
        })
    }
}

impl AsFd for Session {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send(socket: &OwnedFd, further: &Further<'_>) -> rustix::io::Result<()> {
    let body = encode_further(further.arguments, further.variables, further.terminal);
    let header = header(body.len(), further.streams.len());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&further.streams));
    // Its reader takes the header alone, with the descriptors.
    let parts = [IoSlice::new(&header)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut rest = &body[..];
    while !rest.is_empty() {
        let sent =
            rustix::io::retry_on_intr(|| rustix::net::send(socket, rest, SendFlags::NOSIGNAL))?;
        rest = &rest[sent..];
    }
    Ok(())
}

fn refusal(record: &wire::Record, further: &Further<'_>) -> OperateError {
    let [step, _, errno, ..] = record.words;
    let errno = Errno::from_raw_os_error(errno as i32);
    let program = further
        .arguments
        .first()
        .map(|program| program.to_string_lossy());
    let path = program.unwrap_or_default().into_owned();
    match (Step::from_number(step), errno) {
        (Step::Enter, Errno::SRCH) => OperateError::Gone,
        (Step::Execute, Errno::NOENT) => OperateError::NotFound(path),
        (Step::Execute, errno) => OperateError::CannotExecute { path, errno },
        (step, errno) => OperateError::Start {
            step: format!("{step:?}"),
            errno,
        },
    }
}
