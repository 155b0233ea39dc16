//! Running a contender once.

use crate::{
    Executor, Warning,
    figure::{BARE, FLOOR},
    limit::{Hung, within},
    program::Program,
    sample::{Contender, Reading},
    subjects::peer,
};
use anyhow::Context;
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Something that can be run again and again.
pub trait Trial {
    /// Runs it once, to its end.
    ///
    /// # Errors
    ///
    /// When it failed: its figures would mean nothing.
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>>;

    /// Whether it ends in time by itself, whoever it runs.
    fn is_bounded(&self) -> bool {
        false
    }
}

/// How long runs of others may take.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// At least.
    least: Duration,
    /// Of a workload whose runs with no wall are not known yet, or that has none.
    unknown: Duration,
    /// The longest run with no wall, by workload.
    bare: HashMap<String, Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            least: LEAST,
            unknown: UNKNOWN,
            bare: HashMap::new(),
        }
    }
}

/// Of [`Limits::least`].
const LEAST: Duration = Duration::from_secs(10);
/// Of [`Limits::unknown`].
const UNKNOWN: Duration = Duration::from_secs(60);
/// So many times as long as with no wall: the slowest peers take 30 times as long for a call, and none so long for
/// a run of seconds.
const TIMES_BARE: u32 = 5;

/// How long somebody else's may take of what took so long with no wall, at most.
pub(crate) fn longest_beside(bare: Option<Duration>) -> Duration {
    bare.map_or(UNKNOWN, |bare| LEAST.max(bare * TIMES_BARE))
}

impl Limits {
    /// Runs a contender, within what it may take where it is somebody else's.
    pub(crate) fn run(
        &mut self,
        contender: &Contender,
        trial: &mut dyn Trial,
    ) -> anyhow::Result<Vec<Reading>> {
        let has_limit = is_of_others(&contender.subject) && !trial.is_bounded();
        let limit = has_limit.then(|| self.of(&contender.workload));
        let began = Instant::now();
        let readings = within(limit, || trial.run_once())?;
        if contender.subject == BARE {
            self.note(&contender.workload, began.elapsed());
        }
        Ok(readings)
    }

    /// Takes down how long a run with no wall took.
    fn note(&mut self, workload: &str, took: Duration) {
        let longest = self.bare.entry(workload.to_owned()).or_default();
        *longest = took.max(*longest);
    }

    /// Whether a run with no wall was seen.
    pub(crate) fn knows(&self, workload: &str) -> bool {
        self.bare.contains_key(workload)
    }

    fn of(&self, workload: &str) -> Duration {
        let bare = self.bare.get(workload);
        bare.map_or(self.unknown, |bare| self.least.max(*bare * TIMES_BARE))
    }
}

/// What is to tell of one who cannot take part.
pub(crate) fn left_out(peer: &str, why: &anyhow::Error) -> Warning {
    let peer = peer.to_owned();
    match why.downcast_ref::<Hung>() {
        Some(hung) => Warning::PeerHung {
            peer,
            seconds: hung.limit.as_secs(),
        },
        None => Warning::PeerFailed {
            peer,
            reason: format!("{why:#}"),
        },
    }
}

/// Trials of a row, and a clock.
pub(crate) struct Trials {
    trials: Vec<(Contender, Box<dyn Trial>)>,
    limits: Limits,
    began: Instant,
    left_out: Vec<Warning>,
}

impl Trials {
    pub(crate) fn new(trials: Vec<(Contender, Box<dyn Trial>)>, limits: Limits) -> Self {
        Self {
            trials,
            limits,
            began: Instant::now(),
            left_out: Vec::new(),
        }
    }

    /// Who failed on the way, and why.
    pub(crate) fn left_out(self) -> Vec<Warning> {
        self.left_out
    }
}

impl Executor for Trials {
    fn contenders(&self) -> Vec<Contender> {
        self.trials
            .iter()
            .map(|(contender, _)| contender.clone())
            .collect()
    }

    fn run_once(&mut self, contender: usize) -> anyhow::Result<Vec<Reading>> {
        let (contender, trial) = &mut self.trials[contender];
        self.limits
            .run(contender, trial.as_mut())
            .with_context(|| format!("{} with {}", contender.workload, contender.subject))
    }

    /// Another tool may fail; what it is compared with may not.
    fn leave_out(&mut self, contender: usize, why: &anyhow::Error) -> bool {
        if !is_of_others(&self.trials[contender].0.subject) {
            return false;
        }
        let (contender, _) = self.trials.remove(contender);
        self.left_out.push(left_out(&contender.subject, why));
        true
    }

    /// What it holds goes: others that are asked together with it are asked without.
    fn sit_out(&mut self, contender: usize) {
        self.trials[contender].1 = Box::new(SittingOut);
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// In the place of one that is run no more.
struct SittingOut;

impl Trial for SittingOut {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        Ok(Vec::new())
    }
}

/// Servers of others, which rows of servers are compared with.
const OTHER_SERVERS: [&str; 2] = ["nginx", "wasmtime serve"];

/// Whether a subject is another tool, with flags and faults of its own, or the floor, which may ask for what a machine
/// does not give.
pub(crate) fn is_of_others(subject: &str) -> bool {
    let is_floor = subject.starts_with(FLOOR);
    is_floor || peer(subject).is_some() || OTHER_SERVERS.iter().any(|one| subject.starts_with(one))
}

/// A program whose time from start to end is what counts.
#[derive(Debug)]
pub(crate) struct TimedProgram(pub(crate) Program);

impl Trial for TimedProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        Ok(vec![Reading::one_us("wall", microseconds(self.0.run()?))])
    }
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        measure::{Observer, measure},
        sample::Run,
    };
    use anyhow::bail;
    use std::ffi::OsString;

    /// Somebody else's server fails; what palisade is compared with, and palisade, may not.
    #[test]
    fn a_server_of_others_that_fails_is_left_out() {
        struct Failing;
        impl Trial for Failing {
            fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
                bail!("no such flag")
            }
        }
        let subjects = ["no wall", "wasmtime serve, kept instance", "palisade serve"];
        let trials = subjects.map(|subject| {
            let trial: Box<dyn Trial> = Box::new(Failing);
            (Contender::new("a greeting", subject), trial)
        });
        let mut trials = Trials::new(trials.into(), Limits::default());
        let left_out = [2, 1, 0].map(|contender| {
            let failed = Executor::run_once(&mut trials, contender).unwrap_err();
            Executor::leave_out(&mut trials, contender, &failed)
        });
        assert_eq!(left_out, [false, true, false]);
        let told = trials.left_out()[0].to_string();
        let expected = "wasmtime serve, kept instance was left out";
        assert!(
            told.starts_with(expected) && told.contains("no such flag"),
            "{told}"
        );
    }

    /// A peer that never ends is left out, and the row goes on.
    #[test]
    fn a_peer_that_hangs_is_left_out() {
        let trial = |script: &str| -> Box<dyn Trial> {
            let line = ["/bin/sh", "-c", script].map(OsString::from);
            Box::new(TimedProgram(Program::new(&line).unwrap()))
        };
        let scripts = [
            (BARE, ":"),
            ("palisade run", "sleep 1"),
            ("bubblewrap", "setsid sleep 600 & wait"),
            ("floor", "sleep 600"),
        ];
        let trials =
            scripts.map(|(subject, script)| (Contender::new("true", subject), trial(script)));
        let limits = Limits {
            least: Duration::from_millis(300),
            ..Limits::default()
        };
        let mut trials = Trials::new(trials.into(), limits);
        let schedule = crate::measure::Schedule {
            warm_up_rounds: 1,
            least_rounds: 2,
            most_rounds: 2,
            budget: Duration::ZERO,
            patience: Duration::ZERO,
            relative_width: 0.1,
            watched: Vec::new(),
        };
        let samples = measure(&mut trials, &schedule, &mut Unwatched).unwrap();
        let took = trials.elapsed();
        assert!(took < Duration::from_secs(60), "{took:?}");
        let subjects: Vec<_> = samples
            .contenders()
            .iter()
            .map(|one| one.subject.as_str())
            .collect();
        assert_eq!(subjects, [BARE, "palisade run"], "ours may take its time");
        let told: Vec<_> = trials.left_out().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "left out: bubblewrap did not end within 0 s",
                "left out: floor did not end within 0 s"
            ]
        );
    }

    struct Unwatched;

    impl Observer for Unwatched {
        fn record(&mut self, _run: &Run) -> anyhow::Result<()> {
            Ok(())
        }

        fn is_interrupted(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_run_may_take_some_times_as_long_as_with_no_wall() {
        let seconds = |bare: Option<u64>| {
            let mut limits = Limits::default();
            if let Some(bare) = bare {
                limits.note("lame", Duration::from_secs(bare));
                limits.note("lame", Duration::ZERO);
            }
            limits.of("lame").as_secs()
        };
        assert_eq!([Some(0), Some(12), None].map(seconds), [10, 60, 60]);
    }
}
