//! Whether a tenant's filters take long, and so are to be asked on the thread aside.

use palisade_engine::lock::lock;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// What long callbacks may take of one processor for ever, in thousandths: whoever has one now and then is not slow.
const FREE_PER_MILLE: u64 = 10;
/// What they may take beyond that, in µs.
const MOST_DEBT_US: u64 = 50_000;
/// No debt is greater, so that whoever has become quick is taken for it after a minute.
const GREATEST_DEBT_US: u64 = 600_000;

/// What long callbacks of a tenant's filters have taken, which is paid back as time passes.
#[derive(Debug, Default)]
pub(super) struct Slow {
    debt: Mutex<Debt>,
    /// In ms of the clock that is asked; 0: it never was slow.
    until_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct Debt {
    us: u64,
    /// When it was that.
    known_ms: u64,
}

impl Slow {
    /// One has used so much of a processor.
    pub(super) fn note_at(&self, used_us: u64, now_ms: u64) {
        let mut debt = lock(&self.debt);
        let passed_ms = now_ms.saturating_sub(debt.known_ms);
        let left_us = debt
            .us
            .saturating_sub(passed_ms.saturating_mul(FREE_PER_MILLE));
        debt.us = left_us.saturating_add(used_us).min(GREATEST_DEBT_US);
        debt.known_ms = now_ms;
        if debt.us > MOST_DEBT_US {
            self.until_ms
                .store(now_ms + debt.us / FREE_PER_MILLE, Ordering::Relaxed);
        }
    }

    pub(super) fn is_at(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms.load(Ordering::Relaxed)
    }

    /// Whether it ever was: one load, for those that never are.
    pub(super) fn ever_was(&self) -> bool {
        self.until_ms.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_long_now_and_then_is_not_slow() {
        let slow = Slow::default();
        for second in 1..1000 {
            (0..4).for_each(|_| slow.note_at(2_500, second * 1000));
        }
        assert!(!slow.ever_was());
    }

    #[test]
    fn who_takes_long_again_and_again_is_slow_until_it_is_paid_for() {
        let slow = Slow::default();
        slow.note_at(45_000, 1000);
        assert!(!slow.ever_was() && !slow.is_at(1000));
        (0..100).for_each(|_| slow.note_at(90_000, 1000));
        let paid_ms = 1000 + GREATEST_DEBT_US / FREE_PER_MILLE;
        assert!(slow.ever_was() && slow.is_at(paid_ms - 1) && !slow.is_at(paid_ms));
        slow.note_at(2_000, paid_ms - 1);
        assert!(!slow.is_at(paid_ms + 1000), "little is left of the debt");
    }
}
