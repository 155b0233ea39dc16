//! Whether a tenant's filters take long, and so are to be asked on the thread aside.

use std::sync::atomic::{AtomicU64, Ordering};

/// Twice within so long is no chance: a single long callback may have met a page that was not there.
const WITHIN_MS: u64 = 10_000;
/// From a long callback to the time when all of them are taken for quick again.
const FOR_MS: u64 = 60_000;

/// When callbacks of a tenant's filters took long, in ms of one clock. 0: never.
#[derive(Debug, Default)]
pub(super) struct Slow {
    noted_ms: AtomicU64,
    until_ms: AtomicU64,
}

impl Slow {
    /// One took long.
    pub(super) fn note_at(&self, now_ms: u64) {
        let before_ms = self.noted_ms.swap(now_ms.max(1), Ordering::Relaxed);
        let is_again = before_ms > 0 && now_ms.saturating_sub(before_ms) < WITHIN_MS;
        if is_again || self.is_at(now_ms) {
            self.until_ms.store(now_ms + FOR_MS, Ordering::Relaxed);
        }
    }

    pub(super) fn is_at(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms.load(Ordering::Relaxed)
    }

    /// Whether any was slow enough, ever: one load, for those that never are.
    pub(super) fn ever_was(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_long_callback_is_chance_and_two_are_not() {
        let slow = Slow::default();
        slow.note_at(5);
        assert!(!slow.ever_was() && !slow.is_at(5));
        slow.note_at(5 + WITHIN_MS);
        assert!(!slow.is_at(5 + WITHIN_MS), "they are too far apart");
        slow.note_at(6 + WITHIN_MS);
        assert!(slow.ever_was() && slow.is_at(6 + WITHIN_MS));
    }

    #[test]
    fn who_was_slow_is_quick_again_after_a_while() {
        let slow = Slow::default();
        (1..=2).for_each(|now_ms| slow.note_at(now_ms));
        assert!(slow.is_at(1 + FOR_MS) && !slow.is_at(2 + FOR_MS));
        slow.note_at(1 + FOR_MS);
        assert!(
            slow.is_at(2 + FOR_MS),
            "one is enough for as long as it is slow"
        );
    }
}
