//! Waiting for answers.

use crate::connection::Connection;
use anyhow::Context;
use rustix::{
    event::{PollFd, PollFlags, Timespec, epoll, poll},
    io::Errno,
};
use std::{mem::MaybeUninit, os::fd::OwnedFd, time::Instant};

/// What to do until something comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Look again and again.
    Spin,
    /// Leave the processor to others.
    Sleep,
}

/// Which connections something has come on.
#[derive(Debug)]
pub(crate) struct Watch {
    epoll: OwnedFd,
    wait: Wait,
}

/// As many at a time.
const MOST_EVENTS: usize = 64;

impl Watch {
    pub(crate) fn new(wait: Wait) -> anyhow::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(Self {
            epoll: epoll.context("host: cannot make an epoll instance")?,
            wait,
        })
    }

    /// Watches a connection, by its place among the others. It is forgotten when it is closed.
    pub(crate) fn add(&self, connection: &Connection, place: usize) -> anyhow::Result<()> {
        let data = epoll::EventData::new_u64(place as u64);
        epoll::add(&self.epoll, connection, data, epoll::EventFlags::IN)
            .context("host: cannot watch a connection")
    }

    /// Watches it for room to send too, or no longer.
    pub(crate) fn set_sending(
        &self,
        connection: &Connection,
        place: usize,
        is_sending: bool,
    ) -> anyhow::Result<()> {
        let flags = match is_sending {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let data = epoll::EventData::new_u64(place as u64);
        epoll::modify(&self.epoll, connection, data, flags)
            .context("host: cannot watch a connection")
    }

    /// Puts the places of those with something to read into a list that is kept. A watch that sleeps does so until
    /// `until`, one that spins looks once.
    pub(crate) fn look(
        &self,
        until: Option<Instant>,
        ready: &mut Vec<usize>,
    ) -> anyhow::Result<()> {
        ready.clear();
        if self.wait == Wait::Sleep {
            self.sleep(until)?;
        }
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut events = [const { MaybeUninit::uninit() }; MOST_EVENTS];
        match epoll::wait(&self.epoll, &mut events, Some(&at_once)) {
            Ok((events, _)) => {
                ready.extend(events.iter().map(|event| event.data.u64() as usize));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("host: cannot wait for answers"),
        }
    }

    /// By ppoll(2), which takes ns: epoll_wait(2) sleeps for whole ms, and requests would be that late.
    fn sleep(&self, until: Option<Instant>) -> anyhow::Result<()> {
        let time = until.map(|until| until.saturating_duration_since(Instant::now()));
        let time = time.map(Timespec::try_from).transpose();
        let time = time.context("host: cannot tell a time")?;
        match poll(
            &mut [PollFd::new(&self.epoll, PollFlags::IN)],
            time.as_ref(),
        ) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("host: cannot wait for answers"),
        }
    }
}
