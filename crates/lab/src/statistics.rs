//! Medians, percentiles and bootstrap intervals. Pure: the same values always give the same figures.
//!
//! Its own, for no crate of note draws whole rounds again: a bootstrap of single values would break the
//! pairs that a round is made of. Percentiles interpolate between neighbours (Hyndman and Fan's type 7,
//! as in R, NumPy and Julia). Of no values, everything is NaN.

use serde::{Deserialize, Deserializer, Serialize};

/// How often an interval's samples are drawn again.
const RESAMPLES: usize = 2000;
/// Part of the resampled statistics that an interval leaves out at each end: 95 % are inside.
const TAIL: f64 = 0.025;

/// What a list of values looks like, in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// Half of the values are below it.
    #[serde(deserialize_with = "number_or_nan")]
    pub median: f64,
    /// A tenth of the values are below it.
    #[serde(deserialize_with = "number_or_nan")]
    pub p10: f64,
    /// Nine tenths of the values are below it.
    #[serde(deserialize_with = "number_or_nan")]
    pub p90: f64,
    /// All but a hundredth of the values are below it.
    #[serde(deserialize_with = "number_or_nan")]
    pub p99: f64,
}

impl Summary {
    /// Sums up `values`, in any order.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part| percentile(&sorted, part);
        Self {
            count: values.len(),
            median: at(0.5),
            p10: at(0.1),
            p90: at(0.9),
            p99: at(0.99),
        }
    }
}

/// A statistic of the samples, and the interval that holds the true one in 95 cases of 100.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Of the samples as they are.
    #[serde(deserialize_with = "number_or_nan")]
    pub value: f64,
    /// Lower end of the interval.
    #[serde(deserialize_with = "number_or_nan")]
    pub low: f64,
    /// Upper end of the interval.
    #[serde(deserialize_with = "number_or_nan")]
    pub high: f64,
}

impl Estimate {
    /// The interval's width as a part of the value.
    pub fn relative_width(&self) -> f64 {
        (self.high - self.low) / self.value
    }
}

/// JSON has no word for NaN: it is written as `null`.
fn number_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The median of `values`, which need not be sorted.
pub fn median(values: &[f64]) -> f64 {
    Summary::of(values).median
}

/// The median, with its interval.
pub fn estimate_median(values: &[f64]) -> Estimate {
    bootstrap(values.len(), |rounds| median_of(values, rounds))
}

/// The median, over rounds, of the ratio of a round's two values.
///
/// Not the ratio of the two medians: a round is a pair, and what was slow about it was slow for both, mostly. Where rounds
/// have nothing in common the two are as good as each other; where the machine is now faster and now slower, each median
/// lies somewhere between speeds of its own, and their ratio is several times as uncertain.
pub fn estimate_ratio(ours: &[f64], theirs: &[f64]) -> Estimate {
    estimate_median(&ratios_by_round(ours, theirs))
}

/// The median, over rounds, of how much more ours is than theirs.
pub fn estimate_difference(ours: &[f64], theirs: &[f64]) -> Estimate {
    estimate_median(&by_round([ours, theirs], |[ours, theirs]| ours - theirs))
}

/// What somebody's runs take more than others', as a part of the others' whole: each is a whole and
/// what of it does not count.
pub fn estimate_added_part(ours: [&[f64]; 2], theirs: [&[f64]; 2]) -> Estimate {
    let all = [ours[0], ours[1], theirs[0], theirs[1]];
    estimate_median(&by_round(all, |[ours, ours_out, theirs, theirs_out]| {
        ((ours - ours_out) - (theirs - theirs_out)) / theirs
    }))
}

/// The geometric mean of several such ratios over the same rounds.
pub fn estimate_mean_ratio(pairs: &[(Vec<f64>, Vec<f64>)]) -> Estimate {
    let pairs = pairs
        .iter()
        .map(|(ours, theirs)| ratios_by_round(ours, theirs));
    let pairs: Vec<_> = pairs.collect();
    let rounds = pairs.iter().map(Vec::len).min().unwrap_or(0);
    bootstrap(rounds, |rounds| {
        let logs = pairs.iter().map(|ratios| median_of(ratios, rounds).ln());
        (logs.sum::<f64>() / pairs.len() as f64).exp()
    })
}

/// How such a ratio changed from one lot of rounds to another, as the second to the first. The
/// lots are independent: their rounds are drawn apart.
pub fn estimate_change(before: (&[f64], &[f64]), after: (&[f64], &[f64])) -> Estimate {
    let [before, after] = [before, after].map(|(ours, theirs)| ratios_by_round(ours, theirs));
    bootstrap_lots([before.len(), after.len()], |[first, second]| {
        median_of(&after, second) / median_of(&before, first)
    })
}

/// The ratio of each round's two values.
pub fn ratios_by_round(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    by_round([ours, theirs], |[ours, theirs]| ours / theirs)
}

/// What becomes of each round's values, for the rounds that all series have.
fn by_round<const SERIES: usize>(
    series: [&[f64]; SERIES],
    value: impl Fn([f64; SERIES]) -> f64,
) -> Vec<f64> {
    let rounds = series.iter().map(|series| series.len()).min();
    let rounds = 0..rounds.unwrap_or(0);
    rounds
        .map(|round| value(series.map(|series| series[round])))
        .collect()
}

/// Percentile bootstrap over rounds. A round is drawn whole: what its contenders have in common (a
/// slow moment of the machine) stays in common, and does not widen the interval of their ratio.
fn bootstrap(rounds: usize, statistic: impl Fn(&[usize]) -> f64) -> Estimate {
    bootstrap_lots([rounds], |[rounds]| statistic(rounds))
}

/// The same over several lots of rounds.
fn bootstrap_lots<const LOTS: usize>(
    rounds: [usize; LOTS],
    statistic: impl Fn([&[usize]; LOTS]) -> f64,
) -> Estimate {
    let mut drawn = rounds.map(|rounds| (0..rounds).collect::<Vec<usize>>());
    let value = statistic(drawn.each_ref().map(Vec::as_slice));
    let mut random = SplitMix64::new();
    let mut resampled: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for (drawn, rounds) in drawn.iter_mut().zip(rounds) {
                drawn.fill_with(|| random.below(rounds));
            }
            statistic(drawn.each_ref().map(Vec::as_slice))
        })
        .collect();
    resampled.sort_by(f64::total_cmp);
    Estimate {
        value,
        low: percentile(&resampled, TAIL),
        high: percentile(&resampled, 1.0 - TAIL),
    }
}

fn median_of(values: &[f64], rounds: &[usize]) -> f64 {
    let mut drawn: Vec<f64> = rounds.iter().map(|&round| values[round]).collect();
    let middle = drawn.len() / 2;
    if drawn.is_empty() {
        return f64::NAN;
    }
    let odd = drawn.len() % 2 == 1;
    let (below, upper, _) = drawn.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below
        .iter()
        .copied()
        .max_by(f64::total_cmp)
        .filter(|_| !odd)
        .unwrap_or(*upper);
    (lower + *upper) / 2.0
}

/// The value that this part of the sorted values lies below.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let position = part * last as f64;
    let (low, high) = (
        sorted[position.floor() as usize],
        sorted[position.ceil() as usize],
    );
    low + (high - low) * position.fract()
}

/// SplitMix64 (Steele, Lea and Flood, 2014) from a fixed seed: the same samples must give the same
/// interval in every version of the lab, which no random-number crate promises.
struct SplitMix64(u64);

impl SplitMix64 {
    fn new() -> Self {
        Self(0x70_61_6c_69_73_61_64_65)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`. The multiplication favours some numbers by less than bound / 2⁶⁴.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_interpolate() {
        let summary = Summary::of(&[40.0, 10.0, 30.0, 20.0, 50.0]);
        assert_eq!(
            summary,
            Summary {
                count: 5,
                median: 30.0,
                p10: 14.0,
                p90: 46.0,
                p99: 49.6
            }
        );
        assert_eq!(median(&[1.0, 2.0, 4.0, 100.0]), 3.0);
    }

    #[test]
    fn of_nothing_nothing_is_known() {
        let summary = Summary::of(&[]);
        assert!(
            summary.median.is_nan() && summary.p99.is_nan() && estimate_median(&[]).high.is_nan()
        );
    }

    #[test]
    fn both_medians_are_the_same() {
        for values in [
            vec![5.0],
            vec![5.0, 1.0],
            vec![3.0, 9.0, 4.0],
            vec![8.0, 2.0, 6.0, 4.0],
        ] {
            let all: Vec<usize> = (0..values.len()).collect();
            assert_eq!(median_of(&values, &all), median(&values), "{values:?}");
        }
    }

    #[test]
    fn values_that_never_differ_have_no_interval() {
        let exact = |value| Estimate {
            value,
            low: value,
            high: value,
        };
        assert_eq!(estimate_median(&[7.0; 9]), exact(7.0));
        assert_eq!(estimate_ratio(&[6.0; 9], &[4.0; 9]), exact(1.5));
        assert_eq!(estimate_difference(&[6.0; 9], &[4.0; 9]), exact(2.0));
        let mean =
            estimate_mean_ratio(&[(vec![4.0; 5], vec![1.0; 5]), (vec![1.0; 5], vec![1.0; 5])]);
        assert!((mean.value - 2.0).abs() < 1e-12 && mean.low == mean.high);
    }

    #[test]
    fn what_is_added_counts_without_the_starts() {
        let (ours, theirs) = ([[115.0; 5], [5.0; 5]], [[101.0; 5], [1.0; 5]]);
        let added = estimate_added_part([&ours[0], &ours[1]], [&theirs[0], &theirs[1]]);
        assert!((added.value - 10.0 / 101.0).abs() < 1e-12 && added.low == added.high);
        assert!(estimate_added_part([&[], &[]], [&[], &[]]).value.is_nan());
    }

    #[test]
    fn a_change_divides_what_the_lots_divide() {
        let exact = estimate_change((&[6.0; 4], &[4.0; 4]), (&[9.0; 7], &[3.0; 7]));
        assert_eq!((exact.value, exact.low, exact.high), (2.0, 2.0, 2.0));
        // Of two ratios each, drawn apart: the medians 1, 5 and 9 to the medians 1, 5 and 9.
        let ones = [1.0, 1.0];
        let apart = estimate_change((&[1.0, 9.0], &ones), (&[1.0, 9.0], &ones));
        assert_eq!((apart.value, apart.low, apart.high), (1.0, 1.0 / 9.0, 9.0));
        assert!(estimate_change((&[], &[]), (&[1.0], &[1.0])).value.is_nan());
    }

    #[test]
    fn what_a_round_has_in_common_does_not_widen_the_ratio() {
        let bare: Vec<f64> = (0..40)
            .map(|round| 100.0 + f64::from(round % 7) * 30.0)
            .collect();
        let ours: Vec<f64> = bare.iter().map(|value| value * 1.1).collect();
        let ratio = estimate_ratio(&ours, &bare);
        assert!(
            (ratio.value - 1.1).abs() < 1e-9 && ratio.relative_width() < 1e-9,
            "{ratio:?}"
        );
        assert!(estimate_median(&ours).relative_width() > 0.1);
    }

    /// On a machine that is half as fast now and then, which changes within one round of five, with a little noise in each.
    #[test]
    fn a_machine_of_two_speeds_does_not_widen_the_ratio() {
        let mut random = SplitMix64(3);
        let mut uniform = || random.next() as f64 / u64::MAX as f64;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let speed = if uniform() < 0.5 { 1.0 } else { 2.0 };
            let changed = if uniform() < 0.2 { 3.0 - speed } else { speed };
            ours.push(1.02 * speed * (0.98 + 0.04 * uniform()));
            theirs.push(changed * (0.98 + 0.04 * uniform()));
        }
        let ratio = estimate_ratio(&ours, &theirs);
        assert!(ratio.low <= 1.02 && 1.02 <= ratio.high, "{ratio:?}");
        assert!(ratio.relative_width() < 0.03, "{ratio:?}");
        let quotient = |rounds: &[usize]| median_of(&ours, rounds) / median_of(&theirs, rounds);
        let of_medians = bootstrap(ours.len(), quotient);
        assert!(of_medians.relative_width() > 0.5, "{of_medians:?}");
    }

    /// The same distribution in both: half of the ratios lie on each side of 1, whatever its shape.
    #[test]
    fn of_equals_the_interval_holds_one_about_as_often_as_it_says() {
        let mut random = SplitMix64(2);
        let mut skewed = || 100.0 + 10.0 / (0.01 + random.next() as f64 / u64::MAX as f64);
        let hits = (0..200).filter(|_| {
            let [ours, theirs] = [0, 1].map(|_| (0..41).map(|_| skewed()).collect::<Vec<_>>());
            let ratio = estimate_ratio(&ours, &theirs);
            ratio.low <= 1.0 && 1.0 <= ratio.high
        });
        let hits = hits.count();
        assert!((180..=199).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn rounds_that_one_did_not_take_part_in_are_in_no_ratio() {
        let ratio = estimate_ratio(&[2.0, 4.0, 900.0], &[1.0, 2.0]);
        assert_eq!((ratio.value, ratio.low, ratio.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn the_interval_is_the_same_every_time_and_holds_the_value() {
        let values: Vec<f64> = (0..25).map(|n| f64::from(n * n % 17)).collect();
        let (first, second) = (estimate_median(&values), estimate_median(&values));
        assert_eq!(first, second);
        assert!(
            first.low < first.value && first.value < first.high,
            "{first:?}"
        );
    }

    /// The three medians that can be drawn from {1, 9}: 1 and 9 with a chance of 1/4 each, else 5.
    #[test]
    fn the_interval_of_two_values_spans_them() {
        assert_eq!(
            estimate_median(&[1.0, 9.0]),
            Estimate {
                value: 5.0,
                low: 1.0,
                high: 9.0
            }
        );
    }

    /// In 95 of 100 lots of samples the interval must hold the true median; fewer than 90 of 100 would
    /// be a broken bootstrap.
    #[test]
    fn the_interval_holds_the_true_median_about_as_often_as_it_says() {
        let mut random = SplitMix64(1);
        let mut uniform = || random.next() as f64 / u64::MAX as f64;
        let hits = (0..200).filter(|_| {
            let values: Vec<f64> = (0..41).map(|_| uniform()).collect();
            let estimate = estimate_median(&values);
            estimate.low <= 0.5 && 0.5 <= estimate.high
        });
        let hits = hits.count();
        assert!((180..=199).contains(&hits), "{hits} of 200");
    }

    /// First outputs of the reference implementation for seed 0.
    #[test]
    fn random_numbers_are_those_of_splitmix64() {
        let mut random = SplitMix64(0);
        assert_eq!(
            [random.next(), random.next()],
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]
        );
    }
}
