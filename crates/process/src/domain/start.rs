//! How a domain came to run its guest, and what comes after it.

use crate::{
    keeper::{Keeper, Parked},
    wire::{self, started},
};
use std::fmt;

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

/// Has the keeper make another domain when this one is gone.
pub(crate) struct Successor(Box<dyn FnOnce(&Keeper) + Send + Sync>);

impl Successor {
    pub(crate) fn new(order: impl FnOnce(&Keeper) + Send + Sync + 'static) -> Self {
        Self(Box::new(order))
    }

    /// Does not wait for it.
    pub(crate) fn order(self, keeper: &Keeper) {
        (self.0)(keeper);
    }
}

impl fmt::Debug for Successor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Successor")
    }
}
