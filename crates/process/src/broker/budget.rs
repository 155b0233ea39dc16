//! How much processor time a domain's calls take of the supervisor's, and how much they may.
//!
//! A guest's thread sleeps while its call is answered, so that neither limit on its own time sees what the
//! answer costs. Under `--cpu` answering is held to the same share, in a bucket of its own. Under
//! `--cpu-time` init, which holds that limit, is told what was used here, and adds it to what the domain used.

use crate::lock::lock;
use crate::{record::record_bytes, wire};
use rustix::{
    net::SendFlags,
    time::{ClockId, clock_gettime},
};
use std::{
    os::fd::OwnedFd,
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

/// What may be used at once after a rest: as much as the kernel lets a control group have in a period.
const BURST: Duration = Duration::from_millis(100);
/// A thread that is busy looks at its clock so often. That is a call, and to see that it is due is none.
const LOOK: Duration = Duration::from_millis(1);
/// What may be used before init is told of it again: it does not look more often either.
const UNTOLD: Duration = Duration::from_millis(10);

/// What all threads that answer a domain's calls have used, and may use.
#[derive(Debug)]
pub(super) struct Budget {
    /// Processors; `None` without a limit.
    cores: Option<f64>,
    /// The way to init, where that holds a limit on processor time.
    init: Option<Arc<OwnedFd>>,
    account: Mutex<Account>,
}

#[derive(Debug)]
struct Account {
    used: Duration,
    told: Duration,
    /// In seconds of processor time; below zero it is owed.
    left: f64,
    looked: Instant,
}

impl Budget {
    /// For a domain with this share; init, at the other end of the socket, is told of what is used.
    pub(super) fn new(cores: Option<f64>, init: Option<Arc<OwnedFd>>) -> Self {
        Self {
            cores,
            init,
            account: Mutex::new(Account::new(Instant::now())),
        }
    }

    /// Processor time of all threads up to now.
    pub(super) fn used(&self) -> Duration {
        self.account().used
    }

    /// Adds what a thread used. Gives how long it is to pause, until that is covered.
    fn spend(&self, spent: Duration) -> Option<Duration> {
        let mut account = self.account();
        let untold = account.spend(spent);
        let pause = self
            .cores
            .and_then(|cores| account.settle(cores, Instant::now(), spent));
        drop(account);
        if let (Some(used), Some(init)) = (untold, &self.init) {
            let record = record_bytes(wire::DOMAIN_CPU_USED, &[used.as_micros() as u64]);
            // It fails only if the domain has ended.
            let _ = rustix::net::send(init, &record, SendFlags::NOSIGNAL);
        }
        pause
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        // Nothing in between can panic.
        lock(&self.account)
    }
}

impl Account {
    fn new(now: Instant) -> Self {
        Self {
            used: Duration::ZERO,
            told: Duration::ZERO,
            left: BURST.as_secs_f64(),
            looked: now,
        }
    }

    /// Gives the whole when it is time to tell of it.
    fn spend(&mut self, spent: Duration) -> Option<Duration> {
        self.used += spent;
        if self.used - self.told < UNTOLD {
            return None;
        }
        self.told = self.used;
        Some(self.used)
    }

    /// Takes the share of the time that passed, and gives back what was spent.
    fn settle(&mut self, cores: f64, now: Instant, spent: Duration) -> Option<Duration> {
        // Another thread may have looked since.
        let passed = now.saturating_duration_since(self.looked);
        self.looked = self.looked.max(now);
        let earned = self.left + passed.as_secs_f64() * cores;
        self.left = earned.min(BURST.as_secs_f64()) - spent.as_secs_f64();
        (self.left < 0.0).then(|| Duration::from_secs_f64(-self.left / cores).min(BURST))
    }
}

/// What one thread uses. What it used last is counted when this is dropped.
pub(super) struct Meter<'a> {
    budget: &'a Budget,
    looked: Instant,
    /// All that the thread has used, as far as it is counted.
    counted: Duration,
}

impl<'a> Meter<'a> {
    /// Of this thread, which begins now: all that it has used counts.
    pub(super) fn of_this_thread(budget: &'a Budget) -> Self {
        Self {
            budget,
            looked: Instant::now(),
            counted: Duration::ZERO,
        }
    }

    /// After each piece of work: pauses until what was used is covered.
    pub(super) fn keep(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK {
            return;
        }
        self.looked = now;
        if let Some(pause) = self.count() {
            thread::sleep(pause);
        }
    }

    fn count(&mut self) -> Option<Duration> {
        let used = thread_time();
        let spent = used.saturating_sub(std::mem::replace(&mut self.counted, used));
        self.budget.spend(spent)
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        let _ = self.count();
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::receive_record;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::os::fd::AsFd;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_share_is_earned_by_the_time_that_passes() {
        let mut now = Instant::now();
        let mut account = Account::new(now);
        let mut settle = |passed, spent| {
            now += passed;
            account.settle(0.5, now, spent)
        };
        assert_eq!(settle(MS * 10, MS * 5), None);
        assert_eq!(settle(MS * 200, MS * 100), None, "the burst");
        let pause = settle(MS * 20, MS * 20).unwrap();
        assert!(pause > MS * 19 && pause < MS * 21, "{pause:?}");
    }

    #[test]
    fn a_rest_earns_no_more_than_a_burst() {
        let now = Instant::now();
        let mut account = Account::new(now);
        let rested = now + Duration::from_secs(60);
        assert_eq!(account.settle(1.0, rested, MS), None);
        assert!(account.settle(1.0, rested + MS, MS * 150).is_some());
    }

    /// Each thread's own, however short: a guest can have one made for a single call.
    #[test]
    fn all_threads_are_counted_and_init_is_told() {
        let flags = SocketFlags::CLOEXEC;
        let (init, ours) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let budget = Budget::new(None, Some(Arc::new(ours)));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut meter = Meter::of_this_thread(&budget);
                    while thread_time() < MS * 20 {
                        meter.keep();
                    }
                });
            }
        });
        assert!(budget.used() >= MS * 60, "{:?}", budget.used());
        drop(budget.init);
        let mut told = Vec::new();
        while let Some((record, _)) = receive_record(init.as_fd()).unwrap() {
            assert_eq!(record.kind, wire::DOMAIN_CPU_USED);
            told.push(record.words[0]);
        }
        let most = told.iter().max().copied().unwrap_or(0);
        assert!(most > 50_000, "{told:?}");
        assert!(told.len() <= most as usize / 10_000, "{told:?}");
    }
}
