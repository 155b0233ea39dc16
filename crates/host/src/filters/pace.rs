//! How much of a worker's time the slow callbacks of one filter may take.
//!
//! `limits.time` ends a callback that takes too long. One that always takes a little less would have the worker nearly
//! to itself: each request, timer or piece of a body would cost everybody that much. So what slow callbacks take is a
//! debt of the filter's, which goes down by its share of the time that passes. While the debt is high, new requests do
//! not reach the filter, and its timers, queues, calls and bodies wait.
//!
//! Fast callbacks count for nothing: a filter of 100 µs has as many requests as come. Nor does the time that the worker
//! waited for a processor: once a callback was slow by the clock, those after it are measured by what they used, for some seconds and until the debt is
//! paid.
//!
//! A tenant with slow callbacks has its requests [aside](crate::aside); what its filters have on this worker beside requests waits
//! meanwhile.

use crate::turns::{self, Party};
use rustix::time::{ClockId, clock_gettime};
use std::{cell::Cell, rc::Rc, time::Duration};

/// A callback is slow from here on: longer than the ticks of guests' time are apart, which it is measured by.
const SLOW_MS: u64 = 10;

/// What a filter may owe: a few slow callbacks, its start among them, are nobody's trouble.
const MOST_DEBT_US: u64 = 1_000_000;

/// The time that one filter has taken on one worker.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Percent of the time by which the debt goes down.
    share: u32,
    debt_us: Cell<u64>,
    /// When that was the debt, in ms as [`now_ms`] gives them.
    known_ms: Cell<u64>,
    /// Until then callbacks are measured by what they use.
    suspect_until_ms: Cell<u64>,
    /// Whose it is.
    party: Rc<Party>,
}

/// A callback that is measured.
struct Began {
    clock: fn() -> u64,
    /// The clock tells what is used of a processor.
    is_suspect: bool,
    ms: u64,
}

/// What a tenant that is asked aside may owe on a worker: requests that its filters have met before are ended beyond that.
const MOST_ASIDE_US: u64 = 200_000;

/// For so long after a callback that was slow by the clock.
const SUSPECT_MS: u64 = 10_000;

/// Between two looks whether a tenant is quick again.
const ASIDE_TIME: Duration = Duration::from_secs(1);

impl Pace {
    /// Nothing is owed.
    pub(crate) fn new(share: u32, party: &Rc<Party>) -> Self {
        Self {
            share,
            party: Rc::clone(party),
            debt_us: Cell::new(0),
            known_ms: Cell::new(0),
            suspect_until_ms: Cell::new(0),
        }
    }

    /// Whether somebody counts what it uses of the worker.
    pub(super) fn is_charged(&self) -> bool {
        !self.party.is_alone()
    }

    /// Calls the filter, charges its tenant, and counts the time if it was long.
    pub(crate) fn measure<T>(&self, call: impl FnOnce() -> T) -> T {
        match self.party.is_charged_here() {
            true => self.party.run(false, || self.measure_long(call)),
            false => self.measure_long(call),
        }
    }

    fn measure_long<T>(&self, call: impl FnOnce() -> T) -> T {
        let began = self.begin();
        let result = call();
        self.end(began);
        result
    }

    fn begin(&self) -> Began {
        let is_suspect = self.debt_us.get() > 0 || self.was_slow_by_the_clock();
        let clock = if is_suspect { used_ms } else { now_ms };
        Began {
            clock,
            is_suspect,
            ms: clock(),
        }
    }

    fn end(&self, began: Began) {
        let took_ms = (began.clock)().saturating_sub(began.ms);
        let is_slow = took_ms >= SLOW_MS;
        if began.is_suspect || is_slow {
            self.look(took_ms, now_ms());
        }
        if is_slow {
            let used = Duration::from_millis(took_ms);
            self.took_long(began.is_suspect.then_some(used));
        }
    }

    fn was_slow_by_the_clock(&self) -> bool {
        let until_ms = self.suspect_until_ms.get();
        until_ms > 0 && now_ms() < until_ms
    }

    /// `used`: what it was of a processor, if not only the clock was looked at.
    #[cold]
    fn took_long(&self, used: Option<Duration>) {
        self.suspect_until_ms.set(now_ms() + SUSPECT_MS);
        if let Some(used) = used {
            self.party.quota().note_slow(used);
        }
    }

    #[cold]
    fn look(&self, took_ms: u64, now_ms: u64) {
        if took_ms >= SLOW_MS {
            self.owe(took_ms, now_ms);
        } else if self.debt_at(now_ms) == 0 {
            self.debt_us.set(0);
        }
    }

    fn owe(&self, took_ms: u64, now_ms: u64) {
        // What it may pay back began to count before the call did.
        let debt_us = self.debt_at(now_ms - took_ms) + took_ms * 1000;
        self.debt_us.set(debt_us);
        self.known_ms.set(now_ms - took_ms);
    }

    fn debt_at(&self, now_ms: u64) -> u64 {
        let passed_ms = now_ms.saturating_sub(self.known_ms.get());
        let paid_us = passed_ms.saturating_mul(self.paid_each_ms());
        self.debt_us.get().saturating_sub(paid_us)
    }

    fn paid_each_ms(&self) -> u64 {
        u64::from(self.share) * 10
    }

    /// How long the filter is to be left alone. One load, as long as it never was slow.
    pub(crate) fn rest(&self) -> Option<Duration> {
        if self.debt_us.get() <= MOST_DEBT_US {
            return None;
        }
        self.rest_at(now_ms())
    }

    fn rest_at(&self, now_ms: u64) -> Option<Duration> {
        let over_us = self.debt_at(now_ms).checked_sub(MOST_DEBT_US)?;
        let rest_ms = over_us.div_ceil(self.paid_each_ms().max(1));
        (rest_ms > 0).then(|| Duration::from_millis(rest_ms))
    }

    /// Waits until the filter may be called again.
    pub(crate) async fn has_rested(&self) {
        while let Some(rest) = self.wait().or_else(|| self.is_asked_aside()) {
            tokio::time::sleep(rest).await;
        }
    }

    /// How long what it does beside the heads of requests is to wait.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.rest().or_else(|| self.party.quota().processor_wait())
    }

    /// Whether requests that it has met on this worker would hold up everybody for too long: its tenant is asked aside, and it owes much
    /// here.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.debt_us.get() > MOST_ASIDE_US
            && self.is_asked_aside().is_some()
            && self.debt_at(now_ms()) > MOST_ASIDE_US
    }

    /// When to look again whether the filter is asked here.
    fn is_asked_aside(&self) -> Option<Duration> {
        (self.party.quota().is_slow() && !turns::is_aside()).then_some(ASIDE_TIME)
    }

    /// Why the filter is not asked.
    pub(crate) fn why(&self) -> String {
        format!(
            "its slow callbacks have taken more than {} % of this worker's time (`slow-share`)",
            self.share
        )
    }
}

/// Of the monotonic clock, as of the last tick: no look at a clock, which every callback would feel.
fn now_ms() -> u64 {
    palisade_engine::guest::ticked_ns() / 1_000_000
}

/// Of a processor, by this thread. A system call.
fn used_ms() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1000 + used.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_000_000;

    fn pace(share: u32) -> Pace {
        pace_of("", share)
    }

    fn pace_of(tenant: &str, share: u32) -> Pace {
        Pace::new(
            share,
            &Party::new(&crate::quota::Quotas::default().of(tenant)),
        )
    }

    /// Calls of this length, one right after the other: how many are made in a minute, if each waits for the rest that
    /// the one before it earned.
    fn time_taken_in_a_minute(share: u32, took_ms: u64) -> u64 {
        let pace = pace(share);
        let (mut now_ms, mut taken_ms) = (START_MS, 0);
        while now_ms < START_MS + 60_000 {
            now_ms += took_ms;
            taken_ms += took_ms;
            pace.owe(took_ms, now_ms);
            let rest = pace.rest_at(now_ms).unwrap_or_default();
            now_ms += rest.as_millis() as u64;
        }
        taken_ms
    }

    #[test]
    fn a_slow_filter_gets_its_share_and_no_more() {
        for share in [10, 25, 50, 75] {
            let taken_ms = time_taken_in_a_minute(share, 90);
            let due_ms = 600 * u64::from(share);
            assert!(
                (due_ms..due_ms + 1300).contains(&taken_ms),
                "{share}: {taken_ms}"
            );
        }
    }

    #[test]
    fn all_of_the_time_is_a_share_too() {
        assert!(time_taken_in_a_minute(100, 90) >= 60_000);
    }

    #[test]
    fn a_few_slow_calls_cost_nothing() {
        let pace = pace(1);
        for call in 1..=11 {
            pace.owe(90, START_MS + call * 90);
        }
        assert_eq!(pace.rest_at(START_MS + 990), None);
        pace.owe(90, START_MS + 1080);
        assert!(pace.rest_at(START_MS + 1080).is_some());
        assert_eq!(pace.rest_at(START_MS + 3_600_000), None);
    }

    /// Once it was slow, what it uses is counted and not what it waits.
    #[test]
    fn waiting_for_a_processor_is_nobodys_debt() {
        let pace = pace(1);
        pace.owe(90, now_ms());
        let owed_us = pace.debt_us.get();
        pace.measure(|| std::thread::sleep(Duration::from_millis(30)));
        assert!(pace.debt_us.get() <= owed_us);
    }

    #[test]
    fn a_debt_that_is_paid_is_forgotten() {
        let pace = pace(100);
        pace.owe(10, now_ms().saturating_sub(1000));
        pace.measure(|| {});
        assert_eq!(pace.debt_us.get(), 0);
    }

    #[test]
    fn quick_calls_are_not_counted() {
        let pace = pace(1);
        for _ in 0..10_000 {
            pace.measure(|| {});
        }
        assert_eq!(pace.rest(), None);
    }

    #[test]
    fn what_a_tenants_callbacks_use_is_charged_to_it_once() {
        let pace = pace_of("t", 50);
        let used_ns = || pace.party.quota().used_ns();
        // Time of the processor's, which somebody else may have for a while.
        let ran_ns = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let busy = || {
            let until_ns = ran_ns() + 5_000_000;
            while ran_ns() < until_ns {}
        };
        pace.measure(busy);
        let once_ns = used_ns();
        assert!(once_ns > 2_000_000, "{once_ns}");
        pace.party.run(false, || pace.measure(busy));
        let twice_ns = used_ns();
        assert!(twice_ns < 2 * once_ns + 2_000_000, "{once_ns}, {twice_ns}");
    }

    #[test]
    fn who_is_asked_aside_and_owes_much_is_overdrawn() {
        let pace = pace_of("t", 1);
        pace.owe(300, now_ms());
        assert!(!pace.is_overdrawn(), "it is asked here");
        pace.party.quota().note_slow(Duration::from_millis(100));
        assert!(pace.is_overdrawn());
        turns::enter_aside();
        assert!(!pace.is_overdrawn(), "that is the place for it");
    }
}
