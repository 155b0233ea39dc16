//! So many units a second, and some at once after a pause: the generic cell rate algorithm (ITU-T I.371), which keeps one
//! number, the time at which all is paid for that was taken, and so takes no lock between workers.

use super::now_ns;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const SECOND_NS: u64 = 1_000_000_000;
/// Without a bound.
const UNBOUNDED: u64 = u64::MAX;

/// Units that flow in at a rate and are taken out.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: AtomicU64,
    /// How far in advance may be taken, in ns.
    burst_ns: AtomicU64,
    /// When all is paid for.
    paid_ns: AtomicU64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self {
            per_second: AtomicU64::new(UNBOUNDED),
            burst_ns: AtomicU64::new(0),
            paid_ns: AtomicU64::new(0),
        }
    }
}

/// How long so many units take to come.
pub(crate) fn cost_ns(units: u64, per_second: u64) -> u64 {
    let cost = u128::from(units) * u128::from(SECOND_NS) / u128::from(per_second.max(1));
    u64::try_from(cost)
        .unwrap_or(u64::MAX / 4)
        .min(u64::MAX / 4)
}

/// When all is paid for if as much is taken now as comes in `cost_ns`, `burst_ns` of which may be taken in advance.
///
/// # Errors
/// How long it takes until it may be taken.
pub(crate) fn take(
    paid_ns: u64,
    cost_ns: u64,
    burst_ns: u64,
    now_ns: u64,
) -> Result<u64, Duration> {
    let paid_ns = paid_ns.max(now_ns).saturating_add(cost_ns);
    match (paid_ns - now_ns).checked_sub(burst_ns) {
        None | Some(0) => Ok(paid_ns),
        Some(wait_ns) => Err(Duration::from_nanos(wait_ns)),
    }
}

impl Bucket {
    /// Sets the rate, and how many units may be taken at once, at least 1. `None`: there is no bound.
    pub(crate) fn set(&self, per_second: Option<u64>, burst: Option<u64>) {
        let rate = per_second.unwrap_or(UNBOUNDED);
        let burst_ns = cost_ns(burst.unwrap_or(rate).max(1), rate);
        self.burst_ns.store(burst_ns, Ordering::Relaxed);
        self.per_second.store(rate, Ordering::Relaxed);
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.per_second.load(Ordering::Relaxed) != UNBOUNDED
    }

    /// Takes units that are there.
    ///
    /// # Errors
    /// How long it takes until they are.
    pub(crate) fn take_at(&self, units: u64, now_ns: u64) -> Result<(), Duration> {
        let per_second = self.per_second.load(Ordering::Relaxed);
        if per_second == UNBOUNDED {
            return Ok(());
        }
        let burst_ns = self.burst_ns.load(Ordering::Relaxed);
        let cost_ns = cost_ns(units, per_second);
        let mut paid_ns = self.paid_ns.load(Ordering::Relaxed);
        loop {
            let next_ns = take(paid_ns, cost_ns, burst_ns, now_ns)?;
            let (relaxed, now) = (Ordering::Relaxed, &self.paid_ns);
            match now.compare_exchange_weak(paid_ns, next_ns, relaxed, relaxed) {
                Ok(_) => return Ok(()),
                Err(changed_ns) => paid_ns = changed_ns,
            }
        }
    }

    /// Takes units that were used already, whether or not they are there.
    pub(crate) fn charge_at(&self, units: u64, now_ns: u64) {
        let cost_ns = cost_ns(units, self.per_second.load(Ordering::Relaxed));
        let charged = |paid_ns: u64| Some(paid_ns.max(now_ns).saturating_add(cost_ns));
        // It never fails.
        let _ = self
            .paid_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, charged);
    }

    /// How long it takes until something is there; `None`: something is.
    pub(crate) fn wait_at(&self, now_ns: u64) -> Option<Duration> {
        let due_ns = self.paid_ns.load(Ordering::Relaxed).saturating_sub(now_ns);
        let wait_ns = due_ns.checked_sub(self.burst_ns.load(Ordering::Relaxed))?;
        (wait_ns > 0 && self.is_bounded()).then(|| Duration::from_nanos(wait_ns))
    }

    /// The same of now, where the clock is looked at only if there is a bound.
    pub(crate) fn wait_at_now(&self) -> Option<Duration> {
        self.is_bounded().then(|| self.wait_at(now_ns())).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_NS: u64 = 1_000 * SECOND_NS;

    fn bucket(per_second: u64, burst: u64) -> Bucket {
        let bucket = Bucket::default();
        bucket.set(Some(per_second), Some(burst));
        bucket
    }

    #[test]
    fn so_many_come_in_a_second_and_a_burst_at_once() {
        let bucket = bucket(10, 5);
        let taken = (0..100)
            .filter(|_| bucket.take_at(1, START_NS).is_ok())
            .count();
        assert_eq!(taken, 5);
        let wait = bucket.take_at(1, START_NS).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        let later = START_NS + 100_000_000;
        assert!(bucket.take_at(1, later).is_ok() && bucket.take_at(1, later).is_err());
        let in_ten_seconds =
            (0..10_000u64).filter(|ms| bucket.take_at(1, later + ms * 1_000_000).is_ok());
        assert_eq!(in_ten_seconds.count(), 99);
    }

    #[test]
    fn what_was_used_is_paid_for_afterwards() {
        // Half of a processor, a second's worth at once.
        let bucket = bucket(SECOND_NS / 2, SECOND_NS / 2);
        bucket.charge_at(SECOND_NS / 2, START_NS);
        assert_eq!(bucket.wait_at(START_NS), None);
        bucket.charge_at(SECOND_NS / 2, START_NS);
        assert_eq!(bucket.wait_at(START_NS), Some(Duration::from_secs(1)));
        assert_eq!(bucket.wait_at(START_NS + SECOND_NS), None);
    }

    #[test]
    fn without_a_bound_nothing_is_counted() {
        let bucket = Bucket::default();
        bucket.charge_at(u64::MAX, START_NS);
        assert!(bucket.take_at(u64::MAX, START_NS).is_ok());
        assert_eq!(bucket.wait_at(START_NS), None);
    }
}
