//! How often a guest may fail before it is left alone for a while.
//!
//! ```text
//!            more than `most` faults within `within`
//!  in use ───────────────────────────────────────────▶ at rest
//!     ▲──────────────── after `rest` ──────────────────────┘
//! ```
//!
//! A guest that fails at each request costs an instance or a process each time. At rest it costs nothing:
//! its requests get what they get when it fails, at once.

use crate::config::FaultBudget;
use palisade_engine::lock::lock;
use rustix::time::{ClockId, clock_gettime};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The faults of one guest, on all workers.
#[derive(Debug)]
pub(crate) struct Budget {
    allowed: FaultBudget,
    /// When the rest ends, in ms of the monotonic clock; 0: in use.
    rests_until_ms: AtomicU64,
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    began_ms: u64,
    faults: u32,
}

impl Budget {
    /// Nothing of it spent.
    pub(crate) fn new(allowed: FaultBudget) -> Self {
        Self {
            allowed,
            rests_until_ms: AtomicU64::new(0),
            window: Mutex::default(),
        }
    }

    /// Whether the guest is to be left alone now. One load, as long as it is not.
    pub(crate) fn is_at_rest(&self) -> bool {
        let until_ms = self.rests_until_ms.load(Ordering::Relaxed);
        until_ms != 0 && self.is_before(until_ms, now_ms())
    }

    #[cold]
    fn is_before(&self, until_ms: u64, now_ms: u64) -> bool {
        if now_ms < until_ms {
            return true;
        }
        let free = &self.rests_until_ms;
        // Whoever comes second finds it done, or a new rest that has begun meanwhile.
        let _ = free.compare_exchange(until_ms, 0, Ordering::Relaxed, Ordering::Relaxed);
        false
    }

    /// Counts a fault; gives the rest that begins with it, if one does.
    pub(crate) fn spend(&self) -> Option<Duration> {
        self.spend_at(now_ms())
    }

    fn spend_at(&self, now_ms: u64) -> Option<Duration> {
        let mut window = lock(&self.window);
        if now_ms.saturating_sub(window.began_ms) > millis(self.allowed.within) {
            *window = Window {
                began_ms: now_ms,
                faults: 0,
            };
        }
        window.faults += 1;
        if window.faults <= self.allowed.most {
            return None;
        }
        *window = Window::default();
        let until_ms = now_ms.saturating_add(millis(self.allowed.rest)).max(1);
        self.rests_until_ms.store(until_ms, Ordering::Relaxed);
        Some(self.allowed.rest)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(FaultBudget {
            most: 2,
            within: Duration::from_secs(10),
            rest: Duration::from_secs(5),
        })
    }

    #[test]
    fn the_fault_after_the_last_allowed_one_begins_the_rest() {
        let budget = budget();
        let begun: Vec<_> = (0..3)
            .map(|second| budget.spend_at(50_000 + second * 1000))
            .collect();
        assert_eq!(begun, [None, None, Some(Duration::from_secs(5))]);
        assert!(budget.is_before(57_000, 56_999));
    }

    #[test]
    fn faults_that_are_far_apart_do_not_add_up() {
        let budget = budget();
        for fault in 0..100 {
            assert_eq!(budget.spend_at(100_000 + fault * 6_000), None, "{fault}");
        }
        assert!(!budget.is_at_rest());
    }

    #[test]
    fn a_rest_ends() {
        let budget = budget();
        budget.rests_until_ms.store(1000, Ordering::Relaxed);
        assert!(!budget.is_before(1000, 1000));
        assert_eq!(budget.rests_until_ms.load(Ordering::Relaxed), 0);
        assert!(!budget.is_at_rest());
    }
}
