//! Doubts about figures, each with what to do about it.

use crate::{
    conditions::Conditions,
    measure::Watched,
    sample::{Contender, Samples},
    statistics,
    subjects::{PEERS, Peer},
};
use serde::Serialize;
use std::{fmt, time::Duration};

/// An interval wider than this part of its ratio is doubtful.
const WIDE: f64 = 0.05;
/// Fewer rounds than these say little about the tails, whatever the interval.
const FEW_ROUNDS: usize = 10;
/// A first round this many times as long as the median was not warm.
const SLOW_FIRST: f64 = 1.5;
/// A processor that is busy for more than this part before the measuring begins.
const BUSY: f64 = 0.25;
/// More of the processors' time than this given to other machines shows in medians.
const STOLEN: f64 = 0.01;
/// A frequency that changed by more than this part shows in every figure.
const OTHER_FREQUENCY: f64 = 0.05;
/// Copies that take more than this part of the time leave little for rounds.
const COPIES: f64 = 0.5;
/// A copy that takes less than this is nobody's trouble.
const NOTICED: Duration = Duration::from_millis(5);

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
    TimeStolen {
        part: f64,
    },
    Swapped {
        pages: u64,
    },
    FrequencyChanged {
        part: f64,
    },
    Throttled {
        times: u64,
    },
    CopiesTakeLong {
        part: f64,
        each_ms: f64,
    },
    DebugBuild,
    Degraded {
        mechanisms: Vec<String>,
    },
    ProgramAbsent {
        program: &'static str,
        install: &'static str,
    },
    WasmLeftOut {
        reason: String,
    },
    HugePagesOff,
    PacedConnections,
    PeersAbsent {
        peers: Vec<&'static str>,
    },
    PeerFailed {
        peer: String,
        reason: String,
    },
    PeerHung {
        peer: String,
        seconds: u64,
    },
    PeersLack {
        peers: Vec<Lack>,
    },
}

/// What a peer leaves out of what palisade holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lack {
    /// Which.
    pub peer: &'static str,
    /// In words.
    pub lacks: &'static str,
}

impl Warning {
    /// Whether only one of the two should be said.
    pub(crate) fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::PeerFailed { peer, .. } | Self::PeerHung { peer, .. },
                Self::PeerFailed { peer: other, .. } | Self::PeerHung { peer: other, .. },
            ) => peer == other,
            (Self::PeersAbsent { .. }, Self::PeersAbsent { .. })
            | (Self::PeersLack { .. }, Self::PeersLack { .. })
            | (Self::WasmLeftOut { .. }, Self::WasmLeftOut { .. }) => true,
            _ => false,
        }
    }
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
                    "only {rounds} rounds: p10, p90 and p99 say little, and fewer than 4 decide nothing; give more --time"
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
            Self::TimeStolen { part } => write!(
                formatter,
                "{:.1} % of the processors' time went to other virtual machines: measure again, at another time or on a machine of your own",
                part * 100.0
            ),
            Self::Swapped { pages } => write!(
                formatter,
                "{pages} pages moved from or to swap meanwhile: stop what uses the memory and measure again"
            ),
            Self::FrequencyChanged { part } => write!(
                formatter,
                "a processor's frequency changed by {:.0} % from the beginning to the end: set a fixed one (cpupower frequency-set -g performance) and measure again",
                part * 100.0
            ),
            Self::Throttled { times } => write!(
                formatter,
                "processors were slowed down for heat {times} times: let the machine cool down and measure again"
            ),
            Self::CopiesTakeLong { part, each_ms } => write!(
                formatter,
                "{:.0} % of the time went to copies of the folder ({each_ms:.0} ms before each run, in no figure): --in-place makes none, and a run then finds what the last one left (--cleanup COMMAND takes it away)",
                part * 100.0
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
            Self::WasmLeftOut { reason } => {
                write!(formatter, "the wasm wall was left out: {reason}")
            }
            Self::HugePagesOff => formatter.write_str(
                "huge pages were left out, this machine gives none: as root, echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            ),
            Self::PacedConnections => formatter.write_str(
                "TCP sends by BBR here, whose pacing makes figures of a loopback scatter: as root, measure by tools/quiet-network",
            ),
            Self::PeersAbsent { peers } => write!(
                formatter,
                "not installed, so not compared with: {} (`palisade bench --list` says how to get them)",
                peers.join(", ")
            ),
            Self::PeerFailed { peer, reason } => write!(
                formatter,
                "{peer} was left out, it does not run here: {reason}"
            ),
            Self::PeerHung { peer, seconds } => write!(
                formatter,
                "left out: {peer} did not end within {seconds} s"
            ),
            Self::PeersLack { peers } => {
                formatter.write_str("peers hold less than palisade in this comparison: ")?;
                let each = peers
                    .iter()
                    .map(|one| format!("{}: {}", one.peer, one.lacks));
                formatter.write_str(&each.collect::<Vec<_>>().join("; "))
            }
        }
    }
}

/// `one, other, third and 2 more`.
pub(crate) fn list(names: &[String]) -> String {
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

/// A doubt about TCP, for a row whose ends meet by it.
pub(crate) fn about_connections(congestion_control: Option<&str>) -> Option<Warning> {
    (congestion_control == Some("bbr")).then_some(Warning::PacedConnections)
}

/// Doubts about what happened on the machine during the measuring.
pub(crate) fn about_conditions(conditions: &Conditions) -> Vec<Warning> {
    let stolen = conditions.stolen.filter(|part| *part > STOLEN);
    let swapped = conditions.swapped_pages.filter(|pages| *pages > 0);
    let changed = conditions.frequency_change;
    let changed = changed.filter(|part| *part > OTHER_FREQUENCY);
    let times = conditions.throttlings;
    stolen
        .map(|part| Warning::TimeStolen { part })
        .into_iter()
        .chain(swapped.map(|pages| Warning::Swapped { pages }))
        .chain(changed.map(|part| Warning::FrequencyChanged { part }))
        .chain((times > 0).then_some(Warning::Throttled { times }))
        .collect()
}

/// Doubts about so many copies of a folder, which took this long together out of all the time.
pub(crate) fn about_copies((count, took): (u32, Duration), of: Duration) -> Option<Warning> {
    let each = took.checked_div(count)?;
    let part = took.as_secs_f64() / of.as_secs_f64();
    let dominate = part > COPIES && each > NOTICED;
    dominate.then_some(Warning::CopiesTakeLong {
        part,
        each_ms: each.as_secs_f64() * 1e3,
    })
}

/// What is to know of a comparison with these, in one doubt each.
pub(crate) fn about_peers<'a>(
    contenders: impl Iterator<Item = &'a Contender> + Clone,
    absent: impl Iterator<Item = &'a &'static Peer>,
) -> Vec<Warning> {
    let takes_part = |peer: &&Peer| contenders.clone().any(|one| one.subject == peer.name);
    let lacks = PEERS.into_iter().filter(takes_part).map(|peer| Lack {
        peer: peer.name,
        lacks: peer.lacks,
    });
    let lacks: Vec<_> = lacks.collect();
    let absent: Vec<_> = absent.map(|peer| peer.name).collect();
    let lacks = (!lacks.is_empty()).then_some(Warning::PeersLack { peers: lacks });
    let absent = (!absent.is_empty()).then_some(Warning::PeersAbsent { peers: absent });
    lacks.into_iter().chain(absent).collect()
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
            [
                "only 3 rounds: p10, p90 and p99 say little, and fewer than 4 decide nothing; give more --time"
            ]
        );
    }

    #[test]
    fn what_happened_meanwhile_is_told_with_advice() {
        let noisy = Conditions {
            stolen: Some(0.034),
            swapped_pages: Some(12),
            frequency_change: Some(0.21),
            throttlings: 2,
        };
        let doubts = about_conditions(&noisy)
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        insta::assert_snapshot!(doubts.join("\n"));
        let quiet = Conditions {
            stolen: Some(0.004),
            swapped_pages: Some(0),
            frequency_change: Some(0.02),
            throttlings: 0,
        };
        assert_eq!(about_conditions(&quiet), []);
    }

    #[test]
    fn copies_that_leave_no_time_for_rounds_are_told() {
        let told = |count, took_ms| {
            let took = Duration::from_millis(took_ms);
            about_copies((count, took), Duration::from_secs(60)).map(|doubt| doubt.to_string())
        };
        assert_eq!(
            [told(0, 0), told(20, 29_000), told(10_000, 40_000)],
            [const { None }; 3]
        );
        insta::assert_snapshot!(told(20, 48_000).unwrap(), @"80 % of the time went to copies of the folder (2400 ms before each run, in no figure): --in-place makes none, and a run then finds what the last one left (--cleanup COMMAND takes it away)");
    }

    #[test]
    fn paced_connections_are_told() {
        assert_eq!([None, Some("cubic")].map(about_connections), [None, None]);
        let told = about_connections(Some("bbr")).map(|doubt| doubt.to_string());
        insta::assert_snapshot!(told.unwrap(), @"TCP sends by BBR here, whose pacing makes figures of a loopback scatter: as root, measure by tools/quiet-network");
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
