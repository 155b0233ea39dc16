//! What a worker has under way with a server, for another thread to see.

use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicU64, Ordering};

/// What one worker has under way. Only that worker changes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Tally {
    begun: AtomicU64,
    ended: AtomicU64,
    /// When something began or ended last.
    used_ms: AtomicU64,
}

impl Tally {
    /// Something begins. Sequentially consistent, as is [`Tally::counts`]: of a worker that begins and then
    /// looks whether it may, and a thread that forbids it and then counts, one sees the other.
    pub(crate) fn begin(&self) {
        let begun = self.begun.load(Ordering::Relaxed);
        self.used_ms.store(coarse_ms(), Ordering::Relaxed);
        self.begun.store(begun.wrapping_add(1), Ordering::SeqCst);
    }

    /// It is over.
    pub(crate) fn end(&self) {
        let ended = self.ended.load(Ordering::Relaxed);
        self.used_ms.store(coarse_ms(), Ordering::Relaxed);
        self.ended.store(ended.wrapping_add(1), Ordering::Release);
    }

    /// How much was begun, and how much of that has ended.
    pub(crate) fn counts(&self) -> (u64, u64) {
        // In this order: what ends in between counts as under way still.
        let ended = self.ended.load(Ordering::Acquire);
        (self.begun.load(Ordering::SeqCst), ended)
    }

    /// When something began or ended last, by [`coarse_ms`]; 0: never. Looked at behind [`Tally::counts`].
    pub(crate) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }
}

/// Milliseconds of the monotonic clock as of its last tick, which costs no system call.
#[doc(alias = "CLOCK_MONOTONIC_COARSE")]
pub(crate) fn coarse_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
