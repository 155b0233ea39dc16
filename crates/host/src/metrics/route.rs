//! What the requests of one route came to, and how long they took.

use super::Counter;
use crate::kinds::BrokenBy;
use http::StatusCode;
use std::time::Duration;

/// Classes of statuses, and none: no head went out.
const CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Upper bounds of the times that are counted together, in µs; what takes longer comes behind them.
const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// Times that are counted together.
const TIMES: usize = BOUNDS_US.len() + 1;

/// Counters of a route: of responses, of those broken off, of times, and the times' sum.
pub(super) const COUNTS: usize = CLASSES.len() + BrokenBy::ALL.len() + TIMES + 1;

/// How many requests were counted, of counts in the order of [`RouteSum::counts`].
pub(super) fn requests(counts: &[u64]) -> u64 {
    counts.iter().take(CLASSES.len()).sum()
}

/// The metrics of one route on one worker, which alone counts them.
#[derive(Debug, Default)]
pub struct RouteMetrics {
    responses: [Counter; CLASSES.len()],
    broken: [Counter; BrokenBy::ALL.len()],
    /// By [`BOUNDS_US`].
    times: [Counter; TIMES],
    times_us: Counter,
}

/// One route's metrics, all workers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteSum {
    responses: [u64; CLASSES.len()],
    broken: [u64; BrokenBy::ALL.len()],
    times: [u64; TIMES],
    times_us: u64,
}

impl RouteMetrics {
    /// Counts a request that is over.
    pub(crate) fn count(&self, status: Option<StatusCode>, broken: Option<BrokenBy>) {
        let class = status.map_or(0, |status| usize::from(status.as_u16() / 100));
        // Nothing but the five classes is a status of HTTP; what a guest makes up beyond them is a failure.
        self.responses[class.min(CLASSES.len() - 1)].add(1);
        if let Some(by) = broken {
            self.broken[by as usize].add(1);
        }
    }

    /// Counts how long one took, which stands for `weight` of them.
    pub(crate) fn count_time(&self, time: Duration, weight: u32) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let weight = u64::from(weight);
        let at = BOUNDS_US.partition_point(|bound| *bound < us);
        self.times[at].add(weight);
        self.times_us.add(us.saturating_mul(weight));
    }
}

impl RouteSum {
    /// Adds a worker's.
    pub(super) fn add(&mut self, metrics: &RouteMetrics) {
        fn add<const N: usize>(sums: &mut [u64; N], counters: &[Counter; N]) {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                *sum += counter.get();
            }
        }
        add(&mut self.responses, &metrics.responses);
        add(&mut self.broken, &metrics.broken);
        add(&mut self.times, &metrics.times);
        self.times_us += metrics.times_us.get();
    }

    /// All counters, in one order.
    pub(super) fn counts(&self) -> [u64; COUNTS] {
        let mut counts = self.responses.iter().chain(&self.broken).chain(&self.times);
        let last = self.times_us;
        std::array::from_fn(|_| counts.next().copied().unwrap_or(last))
    }

    /// What has counted so much.
    pub(super) fn of_counts(counts: &[u64; COUNTS]) -> Self {
        let mut sum = Self::default();
        let Self {
            responses,
            broken,
            times,
            times_us,
        } = &mut sum;
        let fields = responses.iter_mut().chain(broken).chain(times);
        for (field, count) in fields.chain([times_us]).zip(counts) {
            *field = *count;
        }
        sum
    }

    /// Adds another route's.
    pub(crate) fn merge(&mut self, other: &Self) {
        let (mine, more) = (self.counts(), other.counts());
        *self = Self::of_counts(&std::array::from_fn(|at| mine[at] + more[at]));
    }

    /// What has been counted since it was this.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let (now, before) = (self.counts(), earlier.counts());
        Self::of_counts(&std::array::from_fn(|at| {
            now[at].saturating_sub(before[at])
        }))
    }

    /// Requests that are over.
    pub(crate) fn requests(&self) -> u64 {
        self.responses.iter().sum()
    }

    /// Those of them that were answered with an error of the server's (5xx), and those that somebody else than their
    /// client broke off.
    pub(crate) fn errors(&self) -> u64 {
        let failed = self.responses[CLASSES.len() - 1];
        let client = self.broken[BrokenBy::Client as usize];
        failed + self.broken.iter().sum::<u64>() - client
    }

    /// What so large a part of its requests did not take longer than, in seconds, as far as times are told apart: within
    /// those that are counted together they are taken to be spread evenly. `None`: there were none.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let all: u64 = self.times.iter().sum();
        let rank = part * all as f64;
        let (mut below, mut lower) = (0, 0.0);
        for (count, bound_us) in self.times.iter().zip(BOUNDS_US) {
            let bound = bound_us as f64 / 1e6;
            let within = rank - below as f64;
            if *count > 0 && within <= *count as f64 {
                return Some(lower + (bound - lower) * within / *count as f64);
            }
            (below, lower) = (below + count, bound);
        }
        // Nothing tells by how much these are beyond the last bound.
        (all > 0).then_some(lower)
    }

    /// Requests by what class of status they were answered with.
    pub(crate) fn responses(&self) -> impl Iterator<Item = (&'static str, u64)> {
        CLASSES.into_iter().zip(self.responses)
    }

    /// Requests that were broken off, by who did it.
    pub(crate) fn broken(&self) -> impl Iterator<Item = (&'static str, u64)> {
        BrokenBy::ALL
            .map(BrokenBy::name)
            .into_iter()
            .zip(self.broken)
    }

    /// Requests that took no longer than so many seconds.
    pub(crate) fn times(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6);
        let mut sum = 0;
        bounds.zip(self.times).map(move |(bound, count)| {
            sum += count;
            (bound, sum)
        })
    }

    /// All of them, and their seconds.
    pub(crate) fn times_sum(&self) -> (u64, f64) {
        (self.times.iter().sum(), self.times_us as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_times_add_up_in_steps() {
        let (first, second) = (RouteMetrics::default(), RouteMetrics::default());
        first.count_time(Duration::from_micros(100), 1);
        first.count_time(Duration::from_micros(101), 16);
        second.count_time(Duration::from_secs(3600), 1);
        let mut sum = RouteSum::default();
        sum.add(&first);
        sum.add(&second);
        let times: Vec<_> = sum.times().collect();
        assert_eq!(times[..3], [(0.0001, 1), (0.00025, 17), (0.0005, 17)]);
        assert_eq!(times.last(), Some(&(10.0, 17)));
        assert_eq!(sum.times_sum(), (18, 3_600.001_716));
    }

    #[test]
    fn quantiles_are_within_the_times_that_are_counted_together() {
        let metrics = RouteMetrics::default();
        for _ in 0..90 {
            metrics.count_time(Duration::from_micros(900), 1);
        }
        for _ in 0..10 {
            metrics.count_time(Duration::from_secs(60), 1);
        }
        let mut sum = RouteSum::default();
        assert_eq!(sum.quantile(0.5), None);
        sum.add(&metrics);
        assert!((0.0005..=0.001).contains(&sum.quantile(0.5).unwrap()));
        assert_eq!(sum.quantile(0.9), Some(0.001));
        assert_eq!(sum.quantile(0.99), Some(10.0), "no bound is above");
    }

    #[test]
    fn what_was_counted_since_is_the_difference() {
        let metrics = RouteMetrics::default();
        let now = || {
            let mut sum = RouteSum::default();
            sum.add(&metrics);
            sum
        };
        metrics.count(StatusCode::from_u16(500).ok(), None);
        let before = now();
        metrics.count(StatusCode::from_u16(200).ok(), Some(BrokenBy::Client));
        metrics.count(StatusCode::from_u16(200).ok(), Some(BrokenBy::Service));
        metrics.count_time(Duration::from_millis(1), 16);
        let mut since = now().since(&before);
        assert_eq!((since.requests(), since.errors()), (2, 1));
        assert_eq!(since.times_sum().0, 16);
        since.merge(&before);
        assert_eq!(since, now());
    }

    #[test]
    fn whatever_a_status_is_it_has_a_class() {
        let metrics = RouteMetrics::default();
        for code in [100, 200, 599, 600, 999] {
            metrics.count(StatusCode::from_u16(code).ok(), None);
        }
        metrics.count(None, Some(BrokenBy::Limit));
        let mut sum = RouteSum::default();
        sum.add(&metrics);
        let responses: Vec<_> = sum.responses().map(|(_, count)| count).collect();
        assert_eq!(responses, [1, 1, 1, 0, 0, 3]);
        assert_eq!(sum.broken().last(), Some(("limit", 1)));
    }
}
