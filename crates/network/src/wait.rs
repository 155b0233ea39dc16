//! Waiting for bytes with a deadline.

use std::{io, os::fd::AsFd, time::Instant};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// Waits until one of these is ready, or the deadline.
///
/// # Errors
/// `TimedOut` at the deadline.
pub(crate) fn until_ready(sources: &mut [PollFd<'_>], deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match poll(sources, Some(&left)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(Errno::INTR) => {}
            result => return result.map(drop).map_err(io::Error::from),
        }
    }
}

/// Waits until `source` can be read, or is at its end.
///
/// # Errors
/// `TimedOut` at the deadline, `ConnectionAborted` once the other end of `lifeline` is closed.
pub(crate) fn until_readable(
    source: &impl AsFd,
    lifeline: Option<&impl AsFd>,
    deadline: Instant,
) -> io::Result<()> {
    let source = PollFd::new(source, PollFlags::IN);
    let Some(lifeline) = lifeline else {
        return until_ready(&mut [source], deadline);
    };
    let mut sources = [source, PollFd::new(lifeline, PollFlags::IN)];
    until_ready(&mut sources, deadline)?;
    match sources[1].revents().is_empty() {
        true => Ok(()),
        false => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
