//! One direction of one stream.

mod file;
mod out;
mod pipe;
mod rest;
mod socket;
#[cfg(test)]
mod tests;

use super::Failure;
use file::FromFile;
use out::{Out, Sink, Source};
use pipe::{FromPipe, PIECE_BYTES};
use rest::Rest;
use rustix::{
    event::{
        PollFlags,
        epoll::{self, CreateFlags, EventData, EventFlags},
    },
    net::sockopt,
};
use socket::FromSocket;
use std::{
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::Arc,
};

/// Most bytes on their way in one direction.
const CHUNK_BYTES: usize = 64 * 1024;

/// Most bytes moved from pipe to pipe at once.
const SPLICE_BYTES: usize = 1 << 20;

/// One direction of one stream.
#[derive(Debug)]
pub(crate) enum Lane {
    /// From a socket to the guest's.
    FromSocket(FromSocket),
    /// From a device or file to the guest's pipe.
    FromFile(FromFile),
    /// From a pipe to the guest's.
    FromPipe(FromPipe),
    /// From the guest to the outside.
    Out(Out),
}

/// What to wait for on one descriptor.
type Wait<'a> = (BorrowedFd<'a>, PollFlags);

impl Lane {
    /// Both directions between a socket of the host's and a pair of which the guest has one end.
    pub(crate) fn of_sockets(
        number: usize,
        given: OwnedFd,
        ours: OwnedFd,
        guests: OwnedFd,
    ) -> rustix::io::Result<[Self; 2]> {
        // Data out of band would stay in a queue that poll(2) says can be read.
        sockopt::set_socket_oobinline(&ours, true)?;
        let (given, ours, guests) = (Arc::new(given), Arc::new(ours), Arc::new(guests));
        let taken = epoll::create(CreateFlags::CLOEXEC)?;
        let edge = EventFlags::OUT | EventFlags::ET;
        epoll::add(&taken, &*ours, EventData::new_u64(0), edge)?;
        Ok([
            Self::FromSocket(FromSocket {
                from: Arc::clone(&given),
                to: Arc::clone(&ours),
                guests: Arc::clone(&guests),
                taken,
                shown_bytes: 0,
            }),
            Self::Out(Out::new(
                number,
                Source::Socket { ours, guests },
                Sink::Socket(given),
            )),
        ])
    }

    /// Into a pipe of which the guest reads this end.
    pub(crate) fn into_pipe(
        from: OwnedFd,
        to: OwnedFd,
        guests: OwnedFd,
    ) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&to, true)?;
        Ok(Self::FromFile(FromFile {
            from,
            to: Some(to),
            guests,
            rest: Rest::default(),
            read_bytes: 0,
        }))
    }

    /// From one pipe into another that the guest reads. It holds one piece: then poll(2) tells when the
    /// guest has read that.
    pub(crate) fn between_pipes(from: OwnedFd, to: OwnedFd) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&to, true)?;
        rustix::pipe::fcntl_setpipe_size(&to, PIECE_BYTES)?;
        Ok(Self::FromPipe(FromPipe {
            from,
            to,
            shown_bytes: 0,
        }))
    }

    /// Out of a pipe that the guest writes, into a file or device, or else into a pipe.
    pub(crate) fn out_of_pipe(
        number: usize,
        from: OwnedFd,
        to: OwnedFd,
        into_pipe: bool,
    ) -> rustix::io::Result<Self> {
        rustix::io::ioctl_fionbio(&from, true)?;
        let sink = if into_pipe {
            Sink::Pipe(to)
        } else {
            Sink::File(to)
        };
        Ok(Self::Out(Out::new(number, Source::Pipe(from), sink)))
    }

    /// What it works on.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let all = match self {
            Self::FromSocket(lane) => vec![&*lane.from, &*lane.to, &*lane.guests, &lane.taken],
            Self::FromFile(lane) => [&lane.from, &lane.guests]
                .into_iter()
                .chain(&lane.to)
                .collect(),
            Self::FromPipe(lane) => vec![&lane.from, &lane.to],
            Self::Out(lane) => lane.descriptors(),
        };
        all.into_iter().map(AsRawFd::as_raw_fd).collect()
    }

    /// Whether it reads or writes a terminal.
    pub(super) fn has_terminal(&self) -> bool {
        match self {
            Self::FromFile(lane) => rustix::termios::isatty(&lane.from),
            Self::Out(lane) => {
                matches!(&lane.to, Sink::File(file) if rustix::termios::isatty(file))
            }
            Self::FromSocket(_) | Self::FromPipe(_) => false,
        }
    }

    /// What to wait for, on two descriptors.
    pub(super) fn waits(&self) -> [Wait<'_>; 2] {
        match self {
            Self::FromSocket(lane) => lane.waits(),
            Self::FromFile(lane) => lane.waits(),
            Self::FromPipe(lane) => lane.waits(),
            Self::Out(lane) => lane.waits(),
        }
    }

    /// Goes as far as it can now; `false` when it has come to its end.
    pub(super) fn go(&mut self) -> Result<bool, Failure> {
        match self {
            Self::FromSocket(lane) => Ok(lane.go()),
            Self::FromFile(lane) => Ok(lane.go()),
            Self::FromPipe(lane) => Ok(lane.go()),
            Self::Out(lane) => lane.go(),
        }
    }

    /// Nobody reads or writes at the guest's end any more.
    pub(super) fn guest_is_gone(&mut self) {
        match self {
            Self::FromSocket(lane) => lane.end(),
            Self::FromFile(lane) => lane.end(),
            Self::FromPipe(lane) => lane.end(),
            Self::Out(lane) => lane.is_last = true,
        }
    }

    /// Whether it has to go on without that anything happens: to find that it has come to its end.
    pub(super) fn must_look(&self) -> bool {
        match self {
            Self::Out(lane) => lane.is_last && lane.rest.is_empty() && !lane.waits_for_room,
            Self::FromPipe(lane) => lane.shown_bytes == OVER,
            Self::FromSocket(lane) => lane.shown_bytes == OVER,
            Self::FromFile(lane) => lane.rest.is_over,
        }
    }
}

/// Says in the place of a count that the lane is done.
const OVER: usize = usize::MAX;
