//! How a domain came to run its guest.

use crate::{
    keeper::Parked,
    wire::{self, started},
};

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
