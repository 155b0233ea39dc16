//! Many times, summed up.

use serde::Serialize;

/// What a list of times looks like, in ns; nothing of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Spread {
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) most_ns: u64,
}

impl Spread {
    /// Sums up `times_ns`, in any order.
    pub(crate) fn of(mut times_ns: Vec<u64>) -> Option<Self> {
        times_ns.sort_unstable();
        let last = times_ns.len().checked_sub(1)?;
        // The nearest rank: each is a time that was measured.
        let at = |percent: usize| times_ns[(last * percent).div_ceil(100)];
        Some(Self {
            p50_ns: at(50),
            p90_ns: at(90),
            p99_ns: at(99),
            most_ns: times_ns[last],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up() {
        let spread = Spread::of((0..=100).rev().collect()).unwrap();
        assert_eq!(
            [spread.p50_ns, spread.p90_ns, spread.p99_ns, spread.most_ns],
            [50, 90, 99, 100]
        );
        assert_eq!(Spread::of(vec![7]).map(|spread| spread.p99_ns), Some(7));
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
