//! Figures: what the samples say about a contender, and whether that reaches its target.

use crate::{
    notation::four_figures,
    sample::{Contender, Samples, Unit},
    statistics::{
        Estimate, Summary, estimate_difference, estimate_mean_ratio, estimate_median,
        estimate_ratio,
    },
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One measure of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Whose.
    #[serde(flatten)]
    pub contender: Contender,
    /// What was measured.
    pub measure: String,
    /// What tables and charts call it, where that is something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Of the summary and the difference.
    pub unit: Unit,
    /// The runs; `None` of a figure over several measures.
    #[serde(flatten)]
    pub summary: Option<Summary>,
    /// Whom it is compared with, where that is not the same workload with no wall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// To the same workload with no wall, or to whom it is compared with.
    pub ratio: Option<Estimate>,
    /// Over the same.
    pub difference: Option<Estimate>,
    /// What palisade promises.
    pub target: Option<Target>,
    /// What the row's floor reaches of that, where there is a floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Estimate>,
    /// Whether it holds.
    pub verdict: Option<Verdict>,
}

/// What a median must reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// At most this, in the measure's unit.
    AtMost(f64),
    /// At most this more than with no wall, in the measure's unit.
    AtMostOverBare(f64),
    /// At most this many times as much as with no wall.
    AtMostTimesBare(f64),
    /// At most this many times as much as a native program behind the process wall.
    AtMostTimesProcess(f64),
    /// At most this many times as much as in `wasmtime run`.
    AtMostTimesWasmtime(f64),
    /// At least this many times as much as with no wall, of a rate.
    AtLeastTimesBare(f64),
    /// At least this many times as much as through a container's network, of a rate.
    AtLeastTimesBridged(f64),
    /// At most this more than whom it is compared with, in the measure's unit.
    AtMostOverOther(f64),
    /// At most this many times as much as whom it is compared with.
    AtMostTimesOther(f64),
    /// At least this many times as much as whom it is compared with, of a rate.
    AtLeastTimesOther(f64),
    /// At most this many times as much as the floor.
    AtMostTimesFloor(f64),
    /// At least this many times as much as the floor, of a rate.
    AtLeastTimesFloor(f64),
    /// At most so many times as much as the floor, or this much more than it in the measure's unit, whichever is more.
    AtMostTimesFloorOrOver(f64, f64),
}

/// Whether a target is reached, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within it.
    Pass,
    /// The interval holds it and lies within a hundredth of it: on which side it is nobody would feel.
    Even,
    /// The interval holds it: more rounds or a quieter machine would tell.
    Unsure,
    /// It is not reached, and the row's floor does not reach it: the floor's whole interval is beyond it.
    BelowFloor,
    /// The whole interval is beyond it.
    Short,
}

impl Figure {
    /// A measure of `contender`, compared with `baseline` and judged by `target`.
    pub fn of(
        samples: &Samples,
        contender: &Contender,
        baseline: Option<&Contender>,
        (measure, unit): (&str, Unit),
        target: Option<Target>,
    ) -> Self {
        let series = samples.series(contender, measure);
        let bare = baseline.map(|baseline| samples.series(baseline, measure));
        Self::of_series(contender, (measure, unit), &series, bare.as_deref(), target)
    }

    /// The same of a series that has a value for each round, compared with another one of the same rounds.
    pub(crate) fn of_series(
        contender: &Contender,
        (measure, unit): (&str, Unit),
        series: &[f64],
        baseline: Option<&[f64]>,
        target: Option<Target>,
    ) -> Self {
        let ratio = baseline.map(|baseline| estimate_ratio(series, baseline));
        let difference = baseline.map(|baseline| estimate_difference(series, baseline));
        let verdict = target.and_then(|target| match target {
            Target::AtMostTimesFloorOrOver(most, most_over) => {
                let (ratio, over) = (ratio?, difference?);
                let is_within = ratio.high <= most || over.high <= most_over;
                let is_beyond = ratio.low > most && over.low > most_over;
                let floor = Summary::of(baseline?).median;
                let is_even = is_even(&ratio, most.max(1.0 + most_over / floor));
                Some(Verdict::of([is_within, is_even, is_beyond], series.len()))
            }
            _ => {
                let judged = target.judged(series, ratio, difference)?;
                Some(target.verdict(&judged, series.len()))
            }
        });
        Self {
            contender: contender.clone(),
            measure: measure.to_owned(),
            title: None,
            unit,
            summary: Some(Summary::of(series)),
            against: None,
            ratio,
            difference,
            target,
            floor: None,
            verdict,
        }
    }

    /// A measure of `contender` beside the floor's, judged by `target`.
    pub fn to_floor(
        samples: &Samples,
        contender: &Contender,
        floor: &Contender,
        (measure, unit): (&str, Unit),
        target: Option<Target>,
    ) -> Self {
        Self {
            measure: format!("{measure}{TO_FLOOR}"),
            // It is the other figure's; only what it is compared with is another one.
            summary: None,
            ..Self::of(samples, contender, Some(floor), (measure, unit), target)
        }
        .against(FLOOR)
    }

    /// The same beside the floor of the contender's own workload; `None` of that itself, and where it was not measured.
    pub(crate) fn to_own_floor(
        samples: &Samples,
        contender: &Contender,
        measure: (&str, Unit),
        target: Option<Target>,
    ) -> Option<Self> {
        let floor = Contender::new(&contender.workload, FLOOR);
        let is_measured = samples.contenders().contains(&floor) && *contender != floor;
        is_measured.then(|| Self::to_floor(samples, contender, &floor, measure, target))
    }

    /// The same figure, its target judged beside what the floor reaches of it, compared with the same baseline.
    pub fn beside_floor(
        self,
        samples: &Samples,
        floor: &Contender,
        baseline: Option<&Contender>,
    ) -> Self {
        let measured = self.measure.strip_suffix(TO_FLOOR);
        let measured = measured.unwrap_or(&self.measure);
        let series = samples.series(floor, measured);
        let Some(target) = self.target.filter(|_| !series.is_empty()) else {
            return self;
        };
        let baseline = baseline.map(|baseline| samples.series(baseline, measured));
        let measure = (measured, self.unit);
        let theirs = Self::of_series(floor, measure, &series, baseline.as_deref(), Some(target));
        let reached = target.judged(&series, theirs.ratio, theirs.difference);
        self.beside(reached, theirs.verdict)
    }

    /// The same of a mean of ratios: the floor's mean was judged by the same target.
    pub fn beside_mean(self, floor: &Self) -> Self {
        self.beside(floor.ratio, floor.verdict)
    }

    fn beside(self, reached: Option<Estimate>, theirs: Option<Verdict>) -> Self {
        let judge = |verdict: Verdict| theirs.map_or(verdict, |theirs| verdict.beside(theirs));
        Self {
            floor: reached,
            verdict: self.verdict.map(judge),
            ..self
        }
    }

    /// Whether it is compared with the row's floor.
    pub fn is_to_floor(&self) -> bool {
        self.measure.ends_with(TO_FLOOR)
    }

    /// The geometric mean of a contender's ratios over several measures.
    pub fn mean_ratio(
        samples: &Samples,
        contender: &Contender,
        baseline: &Contender,
        (measures, unit): (&[&str], Unit),
        target: Option<Target>,
    ) -> Self {
        let pair = |measure: &&str| {
            (
                samples.series(contender, measure),
                samples.series(baseline, measure),
            )
        };
        let pairs: Vec<_> = measures.iter().map(pair).collect();
        Self::mean_of_pairs(contender.clone(), unit, &pairs, target)
    }

    /// The geometric mean of the ratios of pairs of series, each round by round.
    pub(crate) fn mean_of_pairs(
        contender: Contender,
        unit: Unit,
        pairs: &[(Vec<f64>, Vec<f64>)],
        target: Option<Target>,
    ) -> Self {
        let ratio = estimate_mean_ratio(pairs);
        let rounds = pairs.first().map_or(0, |(ours, _)| ours.len());
        Self {
            contender,
            measure: "geometric mean".to_owned(),
            title: None,
            unit,
            summary: None,
            against: None,
            ratio: Some(ratio),
            difference: None,
            target,
            floor: None,
            verdict: target.map(|target| target.verdict(&ratio, rounds)),
        }
    }

    /// The same figure, called so in tables and charts.
    pub fn titled(self, title: &str) -> Self {
        Self {
            title: Some(title.to_owned()),
            ..self
        }
    }

    /// The same figure, compared with this subject.
    pub fn against(self, subject: &str) -> Self {
        Self {
            against: Some(subject.to_owned()),
            ..self
        }
    }

    /// What to call it: its title, the workload of a whole run, else the measure.
    pub(crate) fn title(&self) -> &str {
        let name = match self.measure.as_str() {
            "wall" => &self.contender.workload,
            _ => &self.measure,
        };
        self.title.as_ref().unwrap_or(name)
    }

    /// `1.108–1.117`, the interval of the ratio.
    pub(crate) fn ratio_interval(&self) -> String {
        self.ratio.map_or_else(String::new, |ratio| {
            format!("{}–{}", four_figures(ratio.low), four_figures(ratio.high))
        })
    }

    /// `open 500 files, palisade run: ≤ 1.01 × bare, floor 1.101 (1.100–1.102)`, where the target lies below the floor.
    pub(crate) fn below_floor(&self) -> Option<String> {
        let is_below = self.verdict == Some(Verdict::BelowFloor);
        let (target, floor) = self.target.zip(self.floor).filter(|_| is_below)?;
        let [value, low, high] = [floor.value, floor.low, floor.high].map(four_figures);
        Some(format!(
            "{}, {}: {}, floor {value} ({low}–{high})",
            self.title(),
            self.contender.subject,
            target.in_words(self.unit)
        ))
    }

    /// The verdict as a cell; empty without a target.
    pub(crate) fn verdict_cell(&self) -> String {
        self.verdict
            .map_or_else(String::new, |verdict| verdict.word().to_owned())
    }
}

/// The subject that all others are compared with.
pub(crate) const BARE: &str = "bare";
/// The subject that is a row's floor.
pub(crate) const FLOOR: &str = "floor";
/// After what was measured, where it is compared with the floor.
pub(crate) const TO_FLOOR: &str = " to floor";

/// Whether a subject is palisade in one of its forms.
pub(crate) fn is_ours(subject: &str) -> bool {
    subject.starts_with("palisade") || subject.starts_with("library")
}

impl Target {
    /// What of a figure it is about; none of it alone where there are two.
    fn judged(
        self,
        series: &[f64],
        ratio: Option<Estimate>,
        difference: Option<Estimate>,
    ) -> Option<Estimate> {
        match self {
            Self::AtMost(_) => Some(estimate_median(series)),
            Self::AtMostOverBare(_) | Self::AtMostOverOther(_) => difference,
            Self::AtMostTimesBare(_)
            | Self::AtMostTimesProcess(_)
            | Self::AtMostTimesWasmtime(_)
            | Self::AtMostTimesOther(_)
            | Self::AtLeastTimesBare(_)
            | Self::AtLeastTimesBridged(_)
            | Self::AtLeastTimesOther(_)
            | Self::AtMostTimesFloor(_)
            | Self::AtLeastTimesFloor(_)
            | Self::AtMostTimesFloorOrOver(..) => ratio,
        }
    }

    /// `≤ 1.01 × bare`, `≤ 12 µs over bare`.
    fn in_words(self, unit: Unit) -> String {
        let unit = unit.symbol();
        match self {
            Self::AtMost(most) => format!("≤ {most} {unit}"),
            Self::AtMostOverBare(most) => format!("≤ {most} {unit} over bare"),
            Self::AtMostTimesBare(most) => format!("≤ {most} × bare"),
            Self::AtLeastTimesBare(least) => format!("≥ {least} × bare"),
            Self::AtMostTimesProcess(most) => format!("≤ {most} × the process wall"),
            Self::AtMostTimesWasmtime(most) => format!("≤ {most} × wasmtime"),
            Self::AtLeastTimesBridged(least) => format!("≥ {least} × bridged"),
            Self::AtMostOverOther(most) => format!("≤ {most} {unit} over the other"),
            Self::AtMostTimesOther(most) => format!("≤ {most} × the other"),
            Self::AtLeastTimesOther(least) => format!("≥ {least} × the other"),
            Self::AtMostTimesFloor(most) => format!("≤ {most} × floor"),
            Self::AtLeastTimesFloor(least) => format!("≥ {least} × floor"),
            Self::AtMostTimesFloorOrOver(most, over) => {
                format!("≤ {most} × floor or {over} {unit} over it")
            }
        }
    }

    /// Whether an estimate of so many rounds reaches it.
    fn verdict(self, estimate: &Estimate, rounds: usize) -> Verdict {
        let (target, is_within, is_beyond) = match self {
            Self::AtMost(most)
            | Self::AtMostOverBare(most)
            | Self::AtMostTimesBare(most)
            | Self::AtMostTimesProcess(most)
            | Self::AtMostTimesWasmtime(most)
            | Self::AtMostOverOther(most)
            | Self::AtMostTimesOther(most)
            | Self::AtMostTimesFloor(most)
            | Self::AtMostTimesFloorOrOver(most, _) => {
                (most, estimate.high <= most, estimate.low > most)
            }
            Self::AtLeastTimesBare(least)
            | Self::AtLeastTimesBridged(least)
            | Self::AtLeastTimesFloor(least)
            | Self::AtLeastTimesOther(least) => {
                (least, estimate.low >= least, estimate.high < least)
            }
        };
        let is_even = is_even(estimate, target);
        Verdict::of([is_within, is_even, is_beyond], rounds)
    }
}

/// Whether the whole interval lies within a hundredth of a target.
fn is_even(estimate: &Estimate, target: f64) -> bool {
    const SHARE: f64 = 0.01;
    let room = target.abs() * SHARE;
    estimate.low >= target - room && estimate.high <= target + room
}

impl Verdict {
    /// All of them, from good to bad.
    pub const ALL: [Self; 5] = [
        Self::Pass,
        Self::Even,
        Self::Unsure,
        Self::BelowFloor,
        Self::Short,
    ];

    /// In a cell: one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Even => "even",
            Self::Unsure => "unsure",
            Self::BelowFloor => "floor",
            Self::Short => "short",
        }
    }

    /// The same beside how the floor does by the same target. What the floor may or may not reach is decided for
    /// nobody who does not reach it.
    fn beside(self, floor: Self) -> Self {
        match (self, floor) {
            (Self::Pass | Self::Even, _) | (_, Self::Pass | Self::Even) => self,
            (_, Self::Short) => Self::BelowFloor,
            (_, Self::Unsure | Self::BelowFloor) => Self::Unsure,
        }
    }

    /// Of so few rounds that chance alone may put all of them on one side, nothing can be said: an
    /// interval cannot be wider than what was seen.
    fn of([is_within, is_even, is_beyond]: [bool; 3], rounds: usize) -> Self {
        const FEWEST_ROUNDS: usize = 4;
        if rounds < FEWEST_ROUNDS {
            Self::Unsure
        } else if is_within {
            Self::Pass
        } else if is_beyond {
            Self::Short
        } else if is_even {
            Self::Even
        } else {
            Self::Unsure
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::BelowFloor => "below the floor",
            verdict => verdict.word(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(bare: &[f64], ours: &[f64], target: Target) -> Option<Verdict> {
        let (samples, [bare, ours]) = Samples::of_two("palisade", bare, ours);
        Figure::of(
            &samples,
            &ours,
            Some(&bare),
            ("wall", Unit::Microseconds),
            Some(target),
        )
        .verdict
    }

    #[test]
    fn each_target_is_judged_by_its_own_estimate() {
        let (bare, ours) = ([400.0; 5], [700.0; 5]);
        for (target, expected) in [
            (Target::AtMost(700.0), Verdict::Pass),
            (Target::AtMost(699.0), Verdict::Short),
            (Target::AtMostOverBare(300.0), Verdict::Pass),
            (Target::AtMostOverBare(299.0), Verdict::Short),
            (Target::AtMostTimesBare(1.75), Verdict::Pass),
            (Target::AtMostTimesBare(1.7), Verdict::Short),
            (Target::AtMostTimesProcess(1.75), Verdict::Pass),
            (Target::AtMostTimesWasmtime(1.7), Verdict::Short),
            (Target::AtLeastTimesBare(1.75), Verdict::Pass),
            (Target::AtLeastTimesBare(1.8), Verdict::Short),
            (Target::AtLeastTimesBridged(1.4), Verdict::Pass),
            (Target::AtMostOverOther(299.0), Verdict::Short),
            (Target::AtMostTimesOther(1.75), Verdict::Pass),
            (Target::AtLeastTimesOther(1.8), Verdict::Short),
            (Target::AtMostTimesFloor(1.75), Verdict::Pass),
            (Target::AtMostTimesFloor(1.7), Verdict::Short),
            (Target::AtMostTimesFloorOrOver(1.75, 0.0), Verdict::Pass),
            (Target::AtMostTimesFloorOrOver(1.0, 300.0), Verdict::Pass),
            (Target::AtMostTimesFloorOrOver(1.7, 299.0), Verdict::Short),
        ] {
            assert_eq!(verdict(&bare, &ours, target), Some(expected), "{target:?}");
        }
    }

    /// Of bare, ours and the floor: how ours does by `≤ 1.1 × bare`.
    fn beside_floor(ours: [f64; 5], floor: [f64; 5]) -> Figure {
        let contenders = ["bare", "palisade", FLOOR].map(|one| Contender::new("true", one));
        let mut samples = Samples::new(contenders.to_vec());
        for round in 0..5 {
            let values = [100.0, ours[round], floor[round]];
            let reading = |value_us| vec![crate::sample::Reading::one_us("wall", value_us)];
            samples.push_round(values.map(reading).to_vec());
        }
        let [bare, ours, floor] = contenders;
        let measure = ("wall", Unit::Microseconds);
        let target = Some(Target::AtMostTimesBare(1.1));
        Figure::of(&samples, &ours, Some(&bare), measure, target).beside_floor(
            &samples,
            &floor,
            Some(&bare),
        )
    }

    #[test]
    fn a_target_that_the_floor_misses_is_below_it() {
        const WITHIN: [f64; 5] = [105.0; 5];
        const BEYOND: [f64; 5] = [115.0; 5];
        const AROUND: [f64; 5] = [105.0, 115.0, 105.0, 115.0, 110.0];
        for (ours, floor, expected) in [
            (WITHIN, BEYOND, Verdict::Pass),
            (BEYOND, BEYOND, Verdict::BelowFloor),
            (AROUND, BEYOND, Verdict::BelowFloor),
            (BEYOND, WITHIN, Verdict::Short),
            (AROUND, WITHIN, Verdict::Unsure),
            (BEYOND, AROUND, Verdict::Unsure),
        ] {
            let figure = beside_floor(ours, floor);
            assert_eq!(figure.verdict, Some(expected), "{ours:?} {floor:?}");
            let is_told = figure.below_floor().is_some();
            assert_eq!(is_told, expected == Verdict::BelowFloor);
            let reached = figure.floor.map(|floor| floor.value);
            assert!((reached.unwrap() - floor[4] / 100.0).abs() < 1e-9);
        }
    }

    #[test]
    fn what_is_below_the_floor_is_told_with_both_figures() {
        let told = beside_floor([115.0; 5], [120.0; 5]).below_floor();
        let expected = "true, palisade: ≤ 1.1 × bare, floor 1.200 (1.200–1.200)";
        assert_eq!(told.as_deref(), Some(expected));
    }

    #[test]
    fn without_a_floor_there_is_no_word_of_it() {
        let (samples, [bare, ours]) = Samples::of_two("palisade", &[100.0; 5], &[115.0; 5]);
        let measure = ("wall", Unit::Microseconds);
        let target = Some(Target::AtMostTimesBare(1.1));
        let figure = Figure::of(&samples, &ours, Some(&bare), measure, target);
        let floor = Contender::new("true", FLOOR);
        let beside = figure.clone().beside_floor(&samples, &floor, Some(&bare));
        assert_eq!((beside.verdict, beside.floor), (Some(Verdict::Short), None));
        let text = serde_json::to_string(&figure).unwrap();
        assert!(!text.contains("floor"), "{text}");
    }

    #[test]
    fn a_figure_to_the_floor_is_its_own() {
        let (samples, [floor, ours]) = Samples::of_two("palisade", &[50.0; 5], &[54.0; 5]);
        let to_floor = |most, over| {
            let target = Some(Target::AtMostTimesFloorOrOver(most, over));
            Figure::to_floor(&samples, &ours, &floor, ("wall", Unit::Nanoseconds), target)
        };
        let figure = to_floor(1.02, 5.0);
        assert_eq!(
            figure.verdict,
            Some(Verdict::Pass),
            "4 ns more are within 5"
        );
        assert_eq!(to_floor(1.02, 3.0).verdict, Some(Verdict::Short));
        assert!(figure.is_to_floor() && figure.summary.is_none());
        assert_eq!(
            (figure.measure.as_str(), figure.against.as_deref()),
            ("wall to floor", Some(FLOOR))
        );
    }

    #[test]
    fn a_target_within_the_interval_is_not_judged() {
        let ours = [600.0, 800.0, 600.0, 800.0, 700.0];
        assert_eq!(
            verdict(&[400.0; 5], &ours, Target::AtMost(700.0)),
            Some(Verdict::Unsure)
        );
    }

    #[test]
    fn what_lies_within_a_hundredth_of_its_target_is_even() {
        let around = |wide: f64| [-wide, wide, -wide, wide, 0.0].map(|more| 700.0 + more);
        let of = |wide| verdict(&[400.0; 5], &around(wide), Target::AtMost(700.0));
        assert_eq!(
            [of(6.9), of(7.1)],
            [Verdict::Even, Verdict::Unsure].map(Some)
        );
        // Of two bounds the larger one counts: 5 ns are a tenth of these.
        let to_floor = |wide: f64| {
            let ours = [-wide, wide, -wide, wide, 0.0].map(|more| 55.0 + more);
            let (samples, [floor, ours]) = Samples::of_two("palisade", &[50.0; 5], &ours);
            let target = Some(Target::AtMostTimesFloorOrOver(1.02, 5.0));
            let measure = ("wall", Unit::Nanoseconds);
            Figure::to_floor(&samples, &ours, &floor, measure, target).verdict
        };
        assert_eq!(
            [to_floor(0.5), to_floor(0.6)],
            [Verdict::Even, Verdict::Unsure].map(Some)
        );
    }

    #[test]
    fn three_rounds_decide_nothing() {
        for (ours, target) in [([100.0; 3], 700.0), ([900.0; 3], 700.0)] {
            let verdict = verdict(&[400.0; 3], &ours, Target::AtMost(target));
            assert_eq!(verdict, Some(Verdict::Unsure));
        }
    }

    #[test]
    fn no_figures_are_never_a_pass() {
        assert_eq!(
            verdict(&[], &[], Target::AtMost(700.0)),
            Some(Verdict::Unsure)
        );
    }

    #[test]
    fn without_a_baseline_there_is_no_comparison() {
        let (samples, [bare, _]) = Samples::of_two("palisade", &[400.0; 3], &[700.0; 3]);
        let figure = Figure::of(&samples, &bare, None, ("wall", Unit::Microseconds), None);
        assert_eq!(
            (figure.ratio, figure.difference, figure.verdict),
            (None, None, None)
        );
        assert_eq!(figure.summary.map(|summary| summary.median), Some(400.0));
    }
}
