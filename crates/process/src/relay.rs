//! A thread that passes on the bytes of standard streams which the guest must not hold itself.
//!
//! ```text
//!  outside                     supervisor                      guest
//!  socket  ◀──────────────▶  two lanes, one each way  ◀───▶  a local socket of the domain's
//!  device, nameless file ──▶       one lane          ────▶  a pipe
//! ```
//!
//! A socket of the host's can be disconnected and sent elsewhere, asked for the host's interfaces, and
//! carries descriptors; none of that passes a relay of bytes.
//!
//! - **What the guest does not read stays outside** for who reads next, as it does without a relay: bytes
//!   from a socket are only looked at (`MSG_PEEK`) until the guest has taken them, a file is sought back.
//! - **An end passes as what it is:** shutdown(2) on one side is shutdown(2) on the other.
//! - **Nothing is lost at the end:** when the guest is gone its last words are still written, however long
//!   the other side takes to read them; the supervisor decides how long it waits.

mod lane;

pub(crate) use lane::Lane;

use crate::sys::with_signals_blocked;
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec},
    io::Errno,
    pipe::PipeFlags,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

/// What could not be passed on: of which stream, and why.
pub(crate) type Failure = (usize, Errno);

/// A running relay. Without it the thread goes on until all is passed on.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Readable for the thread when the guest is gone.
    stop: Arc<OwnedFd>,
    /// Hangs up when the thread has ended.
    done: OwnedFd,
    failure: Arc<OnceLock<Failure>>,
}

impl Relay {
    /// Begins to relay.
    ///
    /// # Errors
    ///
    /// When no thread can be made.
    pub(crate) fn start(lanes: Vec<Lane>) -> io::Result<Self> {
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let (done, running) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let failure = Arc::new(OnceLock::new());
        let thread = Thread {
            lanes,
            stop: Arc::clone(&stop),
            failure: Arc::clone(&failure),
        };
        const STACK_BYTES: usize = 64 * 1024;
        let builder = thread::Builder::new().name("palisade-relay".into());
        let run = move || {
            thread.run();
            drop::<OwnedFd>(running);
        };
        with_signals_blocked(|| builder.stack_size(STACK_BYTES).spawn(run))?;
        Ok(Self {
            stop,
            done,
            failure,
        })
    }

    /// The guest is gone: what it left is passed on, and nothing more.
    pub(crate) fn stop(&self) {
        // It cannot be full: a count of 2^64 - 1.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Hangs up when all has been passed on.
    pub(crate) fn done(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }

    /// Waits until then, no longer than so; tells whether it was worth it.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let most = Timespec::try_from(most).unwrap_or_default();
        let mut fds = [PollFd::new(&self.done, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&most))) == Ok(1)
    }

    /// What could not be written where the guest's output goes.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.get().copied()
    }
}

struct Thread {
    lanes: Vec<Lane>,
    stop: Arc<OwnedFd>,
    failure: Arc<OnceLock<Failure>>,
}

impl Thread {
    fn run(mut self) {
        let mut stopped = false;
        while !self.lanes.is_empty() {
            let Ok(ready) = self.wait(stopped) else {
                return;
            };
            let (signalled, ready) = ready
                .split_first()
                .map_or((false, &[][..]), |split| (!split.0.is_empty(), split.1));
            if signalled && !stopped {
                stopped = true;
                self.lanes.iter_mut().for_each(Lane::guest_is_gone);
            }
            let mut events = ready.chunks(2);
            let failure = &self.failure;
            self.lanes.retain_mut(|lane| {
                let events = events.next().unwrap_or(&[]);
                let happened = events.iter().any(|event| !event.is_empty());
                match if happened || lane.must_look() {
                    lane.go()
                } else {
                    Ok(true)
                } {
                    Ok(goes_on) => goes_on,
                    Err(failed) => {
                        let _ = failure.set(failed);
                        false
                    }
                }
            });
        }
    }

    /// What happened on the stop, then on two descriptors of each lane.
    fn wait(&self, stopped: bool) -> rustix::io::Result<Vec<PollFlags>> {
        let own = if stopped {
            PollFlags::empty()
        } else {
            PollFlags::IN
        };
        let mut fds = vec![PollFd::new(&*self.stop, own)];
        let mut looks = false;
        for lane in &self.lanes {
            looks |= lane.must_look();
            fds.extend(
                lane.waits()
                    .map(|(fd, events)| PollFd::from_borrowed_fd(fd, events)),
            );
        }
        let at_once = Timespec::default();
        let most = looks.then_some(&at_once);
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, most))?;
        Ok(fds.iter().map(PollFd::revents).collect())
    }
}
