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
}

/// Whether a target is reached, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within it.
    Pass,
    /// The interval holds it: more rounds or a quieter machine would tell.
    Unsure,
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
        let judged = target.and_then(|target| match target {
            Target::AtMost(_) => Some(estimate_median(series)),
            Target::AtMostOverBare(_) | Target::AtMostOverOther(_) => difference,
            Target::AtMostTimesBare(_)
            | Target::AtMostTimesProcess(_)
            | Target::AtMostTimesWasmtime(_)
            | Target::AtMostTimesOther(_)
            | Target::AtLeastTimesBare(_)
            | Target::AtLeastTimesBridged(_)
            | Target::AtLeastTimesOther(_) => ratio,
        });
        let verdict = target.zip(judged);
        let verdict = verdict.map(|(target, judged)| target.verdict(&judged, series.len()));
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
            verdict,
        }
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

    /// The verdict as a cell; empty without a target.
    pub(crate) fn verdict_cell(&self) -> String {
        self.verdict
            .map_or_else(String::new, |verdict| verdict.to_string())
    }
}

/// Whether a subject is palisade in one of its forms.
pub(crate) fn is_ours(subject: &str) -> bool {
    subject.starts_with("palisade") || subject.starts_with("library")
}

impl Target {
    /// Whether an estimate of so many rounds reaches it.
    fn verdict(self, estimate: &Estimate, rounds: usize) -> Verdict {
        let (is_within, is_beyond) = match self {
            Self::AtMost(most)
            | Self::AtMostOverBare(most)
            | Self::AtMostTimesBare(most)
            | Self::AtMostTimesProcess(most)
            | Self::AtMostTimesWasmtime(most)
            | Self::AtMostOverOther(most)
            | Self::AtMostTimesOther(most) => (estimate.high <= most, estimate.low > most),
            Self::AtLeastTimesBare(least)
            | Self::AtLeastTimesBridged(least)
            | Self::AtLeastTimesOther(least) => (estimate.low >= least, estimate.high < least),
        };
        Verdict::of(is_within, is_beyond, rounds)
    }
}

impl Verdict {
    /// Of so few rounds that chance alone may put all of them on one side, nothing can be said: an
    /// interval cannot be wider than what was seen.
    fn of(is_within: bool, is_beyond: bool, rounds: usize) -> Self {
        const FEWEST_ROUNDS: usize = 4;
        if rounds < FEWEST_ROUNDS {
            Self::Unsure
        } else if is_within {
            Self::Pass
        } else if is_beyond {
            Self::Short
        } else {
            Self::Unsure
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Pass => "pass",
            Self::Short => "short",
            Self::Unsure => "unsure",
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
        ] {
            assert_eq!(verdict(&bare, &ours, target), Some(expected), "{target:?}");
        }
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
