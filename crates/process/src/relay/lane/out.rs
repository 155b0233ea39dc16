//! What the guest writes, to the outside.

use super::{CHUNK_BYTES, SPLICE_BYTES, Wait, rest::Rest};
use crate::relay::Failure;
use rustix::{
    event::PollFlags,
    io::Errno,
    net::{RecvFlags, SendFlags, Shutdown},
    pipe::SpliceFlags,
};
use std::{
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

/// Where the guest's output comes from.
#[derive(Debug)]
pub(super) enum Source {
    Socket {
        ours: Arc<OwnedFd>,
        /// Kept open: then an end is what the guest said (shutdown(2)), and not that it is gone.
        guests: Arc<OwnedFd>,
    },
    Pipe(OwnedFd),
}

/// Where it goes to.
#[derive(Debug)]
pub(super) enum Sink {
    Socket(Arc<OwnedFd>),
    Pipe(OwnedFd),
    File(OwnedFd),
}

#[derive(Debug)]
pub(crate) struct Out {
    pub(super) number: usize,
    pub(super) from: Source,
    pub(super) to: Sink,
    pub(super) rest: Rest,
    /// The pipe that it goes to is full.
    pub(super) waits_for_room: bool,
    /// Nothing more is written to it: what is there is all.
    pub(super) is_last: bool,
}

impl Out {
    pub(super) fn new(number: usize, from: Source, to: Sink) -> Self {
        Self {
            number,
            from,
            to,
            rest: Rest::default(),
            waits_for_room: false,
            is_last: false,
        }
    }

    pub(super) fn descriptors(&self) -> Vec<&OwnedFd> {
        let from = match &self.from {
            Source::Socket { ours, guests } => vec![&**ours, &**guests],
            Source::Pipe(pipe) => vec![pipe],
        };
        let to = match &self.to {
            Sink::Socket(socket) => &**socket,
            Sink::File(file) | Sink::Pipe(file) => file,
        };
        from.into_iter().chain([to]).collect()
    }

    pub(super) fn waits(&self) -> [Wait<'_>; 2] {
        let from = match &self.from {
            Source::Socket { ours: socket, .. } => socket.as_fd(),
            Source::Pipe(pipe) => pipe.as_fd(),
        };
        let to = match &self.to {
            Sink::Socket(socket) => socket.as_fd(),
            Sink::File(file) | Sink::Pipe(file) => file.as_fd(),
        };
        if self.rest.is_empty() && !self.waits_for_room {
            [(from, PollFlags::IN), (from, PollFlags::IN)]
        } else {
            [(to, PollFlags::OUT), (to, PollFlags::OUT)]
        }
    }

    pub(super) fn go(&mut self) -> Result<bool, Failure> {
        if let (Source::Pipe(from), Sink::Pipe(to)) = (&self.from, &self.to) {
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            return match rustix::pipe::splice(from, None, to, None, SPLICE_BYTES, flags) {
                Ok(moved) => {
                    self.waits_for_room = false;
                    Ok(moved > 0)
                }
                Err(Errno::INTR) => Ok(true),
                // It was readable, so there is no room; the last look finds nothing to move.
                Err(Errno::AGAIN) => {
                    let is_empty = rustix::io::ioctl_fionread(from).is_ok_and(|bytes| bytes == 0);
                    self.waits_for_room = !is_empty;
                    Ok(!(self.is_last && is_empty))
                }
                Err(_) => Ok(false),
            };
        }
        if self.rest.is_empty() {
            match self.fill() {
                Ok(0) => {
                    self.pass_end_on();
                    return Ok(false);
                }
                Ok(_) => {}
                Err(Errno::INTR) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(!self.is_last),
                Err(_) => return Ok(false),
            }
        }
        match self.write() {
            Ok(_) => Ok(true),
            Err(errno) => {
                self.refuse_more();
                match errno {
                    // Whoever read it has gone.
                    Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Ok(false),
                    errno => Err((self.number, errno)),
                }
            }
        }
    }

    pub(super) fn fill(&mut self) -> rustix::io::Result<usize> {
        match &self.from {
            Source::Socket { ours: socket, .. } => self.rest.fill(|bytes| {
                let received = rustix::net::recv(socket, bytes, RecvFlags::DONTWAIT);
                received.map(|(length, _)| length)
            }),
            Source::Pipe(pipe) => self.rest.fill(|bytes| rustix::io::read(pipe, bytes)),
        }
    }

    pub(super) fn write(&mut self) -> rustix::io::Result<bool> {
        match &self.to {
            Sink::Socket(socket) => self.rest.write(|bytes| {
                rustix::net::send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }),
            Sink::File(file) | Sink::Pipe(file) => {
                self.rest.write(|bytes| rustix::io::write(file, bytes))
            }
        }
    }

    /// The guest said that it sends no more. Its end alone says nothing: others may hold the socket.
    pub(super) fn pass_end_on(&self) {
        if let Sink::Socket(socket) = &self.to {
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
    }

    /// What the guest writes now fails, as it would without a relay. A pipe is closed for that.
    pub(super) fn refuse_more(&self) {
        if let Source::Socket { ours, .. } = &self.from {
            let _ = rustix::net::shutdown(ours, Shutdown::Read);
            // What nobody reads would end the guest's socket with ECONNRESET instead of EPIPE.
            let mut bytes = vec![0; CHUNK_BYTES];
            while matches!(
                rustix::net::recv(ours, &mut *bytes, RecvFlags::DONTWAIT),
                Ok((1.., _))
            ) {}
        }
    }
}
