//! Doubts about figures, each with what to do about it.

use crate::{measure::Watched, sample::Samples, statistics};
use serde::Serialize;
use std::fmt;

/// An interval wider than this part of its ratio is doubtful.
const WIDE: f64 = 0.05;
/// Fewer rounds than these say little about the tails, whatever the interval.
const FEW_ROUNDS: usize = 10;
/// A first round this many times as long as the median was not warm.
const SLOW_FIRST: f64 = 1.5;
/// A processor that is busy for more than this part before the measuring begins.
const BUSY: f64 = 0.25;

/// Why a figure may mislead.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "warning", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum Warning {
    WideIntervals {
        of: Vec<String>,
        widest: f64,
    },
    FewRounds {
        rounds: usize,
    },
    FirstRoundSlow {
        of: Vec<String>,
    },
    MachineBusy {
        load: f64,
        processors: usize,
    },
    DebugBuild,
    Degraded {
        mechanisms: Vec<String>,
    },
    ProgramAbsent {
        program: &'static str,
        install: &'static str,
    },
    PeerAbsent {
        peer: &'static str,
        install: &'static str,
    },
    PeerFailed {
        peer: &'static str,
        reason: String,
    },
    PeerLacks {
        peer: &'static str,
        lacks: &'static str,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WideIntervals { of, widest } => write!(
                formatter,
                "intervals as wide as {:.0} % of the ratio ({}): something else uses this machine; close it, or give more --time",
                widest * 100.0,
                list(of)
            ),
            Self::FewRounds { rounds } => {
                write!(
                    formatter,
                    "only {rounds} rounds: p10, p90 and p99 say little; give more --time"
                )
            }
            Self::FirstRoundSlow { of } => {
                write!(
                    formatter,
                    "the first round was much slower ({}): look at p99, and measure again",
                    list(of)
                )
            }
            Self::MachineBusy { load, processors } => write!(
                formatter,
                "the machine was busy before it began (load {load:.2} on {processors} processors): stop other programs first"
            ),
            Self::DebugBuild => formatter.write_str(
                "this palisade is a debug build: its figures mean nothing; build with --release",
            ),
            Self::Degraded { mechanisms } => write!(
                formatter,
                "this machine holds only part of what `all on` asks for ({}): measure as root, or see palisade doctor",
                mechanisms.join("; ")
            ),
            Self::ProgramAbsent { program, install } => {
                write!(
                    formatter,
                    "{program} was left out, it is not installed: {install}"
                )
            }
            Self::PeerAbsent { peer, install } => {
                write!(formatter, "{peer} is not here to compare with: {install}")
            }
            Self::PeerFailed { peer, reason } => write!(
                formatter,
                "{peer} was left out, it does not run here: {reason}"
            ),
            Self::PeerLacks { peer, lacks } => write!(
                formatter,
                "{peer} holds less than palisade in this comparison: {lacks}"
            ),
        }
    }
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let mut text = names
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// Doubts about the machine before the measuring.
pub(crate) fn about_machine(load: Option<f64>, processors: usize) -> Vec<Warning> {
    let busy = load.filter(|load| *load > BUSY * processors as f64);
    let busy = busy.map(|load| Warning::MachineBusy { load, processors });
    busy.into_iter()
        .chain(cfg!(debug_assertions).then_some(Warning::DebugBuild))
        .collect()
}

/// Doubts about the samples themselves.
pub(crate) fn about_samples(samples: &Samples, watched: &[Watched]) -> Vec<Warning> {
    // Without a ratio to watch nothing hangs on percentiles.
    let few =
        (!watched.is_empty() && samples.rounds() < FEW_ROUNDS).then_some(Warning::FewRounds {
            rounds: samples.rounds(),
        });
    few.into_iter()
        .chain(wide_intervals(samples, watched))
        .chain(slow_first_rounds(samples, watched))
        .collect()
}

fn wide_intervals(samples: &Samples, watched: &[Watched]) -> Option<Warning> {
    let mut wide: Vec<(f64, String)> = watched
        .iter()
        .map(|watched| {
            let series = |contender| samples.series(contender, &watched.measure);
            let ratio =
                statistics::estimate_ratio(&series(&watched.contender), &series(&watched.baseline));
            (ratio.relative_width(), name_of(watched))
        })
        .filter(|(width, _)| *width > WIDE)
        .collect();
    wide.sort_by(|one, other| other.0.total_cmp(&one.0));
    let widest = wide.first()?.0;
    Some(Warning::WideIntervals {
        of: wide.into_iter().map(|(_, name)| name).collect(),
        widest,
    })
}

fn slow_first_rounds(samples: &Samples, watched: &[Watched]) -> Option<Warning> {
    let is_slow = |watched: &&Watched| {
        let series = samples.series(&watched.contender, &watched.measure);
        let first = series.first().copied().unwrap_or(f64::NAN);
        series.len() > 2
            && first > SLOW_FIRST * statistics::median(&series)
            && series.iter().all(|&value| value <= first)
    };
    let of: Vec<_> = watched.iter().filter(is_slow).map(name_of).collect();
    (!of.is_empty()).then_some(Warning::FirstRoundSlow { of })
}

fn name_of(watched: &Watched) -> String {
    match watched.measure.as_str() {
        "wall" => format!(
            "{}: {}",
            watched.contender.workload, watched.contender.subject
        ),
        measure => format!("{measure}: {}", watched.contender.subject),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubts(bare: &[f64], ours: &[f64]) -> Vec<String> {
        let (samples, [baseline, contender]) = Samples::of_two("palisade run", bare, ours);
        let watched = Watched {
            measure: "wall".into(),
            contender,
            baseline,
        };
        about_samples(&samples, &[watched])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn steady_samples_raise_no_doubt() {
        assert_eq!(doubts(&[1.0; 10], &[3.0; 10]), [""; 0]);
    }

    #[test]
    fn a_wide_interval_names_the_comparison() {
        let ours: Vec<f64> = (0..12).map(|round| 3.0 + f64::from(round % 2)).collect();
        insta::assert_snapshot!(doubts(&[1.0; 12], &ours).join("\n"), @"intervals as wide as 29 % of the ratio (true: palisade run): something else uses this machine; close it, or give more --time");
    }

    #[test]
    fn a_slow_first_round_is_noticed() {
        let ours: Vec<f64> = [9.0].into_iter().chain([3.0; 30]).collect();
        insta::assert_snapshot!(doubts(&[1.0; 31], &ours).join("\n"), @"the first round was much slower (true: palisade run): look at p99, and measure again");
    }

    #[test]
    fn few_rounds_are_said() {
        assert_eq!(
            doubts(&[1.0; 3], &[3.0; 3]),
            ["only 3 rounds: p10, p90 and p99 say little; give more --time"]
        );
    }

    #[test]
    fn load_counts_by_processor() {
        let is_busy = |load| {
            about_machine(load, 4)
                .iter()
                .any(|doubt| matches!(doubt, Warning::MachineBusy { .. }))
        };
        assert_eq!(
            [None, Some(0.9), Some(1.1)].map(is_busy),
            [false, false, true]
        );
    }
}
