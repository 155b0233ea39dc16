//! How much processor time a domain's calls may take of the supervisor's.
//!
//! A guest's thread sleeps while its call is answered, so that the limit on its own time does not see
//! what the answer costs. Under such a limit answering is held to the same share, in a bucket of its own.

use rustix::time::{ClockId, clock_gettime};
use std::{
    thread,
    time::{Duration, Instant},
};

/// What may be used at once after a rest: as much as the kernel lets a control group have in a period.
const BURST: Duration = Duration::from_millis(100);
/// Calls between two looks at the clock, which is a call itself.
const CALLS: u32 = 16;

/// The share of a domain, and what it has left.
pub(super) struct Budget {
    /// Processors; `None` without a limit.
    cores: Option<f64>,
    calls: u32,
    /// In seconds of processor time; below zero it is owed.
    left: f64,
    looked: Instant,
    used: Duration,
}

impl Budget {
    /// Of a thread that begins now.
    pub(super) fn new(cores: Option<f64>) -> Self {
        Self {
            cores,
            calls: 0,
            left: BURST.as_secs_f64(),
            looked: Instant::now(),
            used: thread_time(),
        }
    }

    /// After each call: pauses until what was used is covered.
    pub(super) fn keep(&mut self) {
        let Some(cores) = self.cores else { return };
        self.calls += 1;
        if !self.calls.is_multiple_of(CALLS) {
            return;
        }
        let (now, used) = (Instant::now(), thread_time());
        let passed = now - std::mem::replace(&mut self.looked, now);
        let spent = used.saturating_sub(std::mem::replace(&mut self.used, used));
        if let Some(pause) = self.settle(cores, passed, spent) {
            thread::sleep(pause);
        }
    }

    /// Takes the share of the time that passed, and gives back what was spent.
    fn settle(&mut self, cores: f64, passed: Duration, spent: Duration) -> Option<Duration> {
        let earned = self.left + passed.as_secs_f64() * cores;
        self.left = earned.min(BURST.as_secs_f64()) - spent.as_secs_f64();
        (self.left < 0.0).then(|| Duration::from_secs_f64(-self.left / cores).min(BURST))
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_share_is_earned_by_the_time_that_passes() {
        let mut budget = Budget::new(Some(0.5));
        assert_eq!(budget.settle(0.5, MS * 10, MS * 5), None);
        assert_eq!(budget.settle(0.5, MS * 200, MS * 100), None, "the burst");
        let pause = budget.settle(0.5, MS * 20, MS * 20).unwrap();
        assert!(pause > MS * 19 && pause < MS * 21, "{pause:?}");
    }

    #[test]
    fn a_rest_earns_no_more_than_a_burst() {
        let mut budget = Budget::new(Some(1.0));
        assert_eq!(budget.settle(1.0, Duration::from_secs(60), MS), None);
        assert!(budget.settle(1.0, MS, MS * 150).is_some());
    }
}
