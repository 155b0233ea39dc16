//! How a domain came to run its guest, and what comes after it.

use crate::{
    keeper::{Keeper, Parked},
    wire::{self, started},
};
use std::{fmt, os::fd::BorrowedFd};

/// The words of [`wire::INIT_STARTED`].
pub(crate) type StartedWords = [u64; wire::RECORD_WORDS];

/// Moments of a start, in ns of the monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartTimes {
    pub(crate) ordered_ns: u64,
    pub(crate) park_began_ns: u64,
    pub(crate) park_done_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) received_ns: u64,
    pub(crate) root_ns: u64,
    pub(crate) pivot_ns: u64,
    pub(crate) exec_ns: u64,
}

impl StartTimes {
    pub(crate) fn new(
        parked: &Parked,
        (ordered_ns, sent_ns): (u64, u64),
        words: StartedWords,
    ) -> Self {
        Self {
            ordered_ns,
            park_began_ns: parked.made_ns.0,
            park_done_ns: parked.made_ns.1,
            sent_ns,
            received_ns: words[started::RECEIVED],
            root_ns: words[started::ROOT],
            pivot_ns: words[started::PIVOT],
            exec_ns: words[started::EXEC],
        }
    }
}

/// What is done for the launch after this one, when the guest has ended.
pub(crate) struct Successor(Box<Follow>);

type Follow = dyn FnOnce(&Keeper, BorrowedFd<'_>) + Send + Sync;

impl Successor {
    /// `follow` gets the keeper and the domain's init.
    pub(crate) fn new(
        follow: impl FnOnce(&Keeper, BorrowedFd<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(follow))
    }

    /// Does not wait for anything.
    pub(crate) fn follow(self, keeper: &Keeper, init: BorrowedFd<'_>) {
        (self.0)(keeper, init);
    }
}

impl fmt::Debug for Successor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Successor")
    }
}
