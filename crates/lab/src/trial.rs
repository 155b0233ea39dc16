//! Running a contender once.

use crate::{
    Executor, Warning,
    program::Program,
    sample::{Contender, Reading},
    subjects::peer,
};
use anyhow::Context;
use std::time::{Duration, Instant};

/// Something that can be run again and again.
pub trait Trial {
    /// Runs it once, to its end.
    ///
    /// # Errors
    ///
    /// When it failed: its figures would mean nothing.
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>>;
}

/// Trials of a row, and a clock.
pub(crate) struct Trials {
    trials: Vec<(Contender, Box<dyn Trial>)>,
    began: Instant,
    left_out: Vec<Warning>,
}

impl Trials {
    pub(crate) fn new(trials: Vec<(Contender, Box<dyn Trial>)>) -> Self {
        Self {
            trials,
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
        trial
            .run_once()
            .with_context(|| format!("{} with {}", contender.workload, contender.subject))
    }

    /// Another tool may fail; what it is compared with may not.
    fn leave_out(&mut self, contender: usize, why: &anyhow::Error) -> bool {
        if !is_of_others(&self.trials[contender].0.subject) {
            return false;
        }
        let (contender, _) = self.trials.remove(contender);
        self.left_out.push(Warning::PeerFailed {
            peer: contender.subject,
            reason: format!("{why:#}"),
        });
        true
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Servers of others, which rows of servers are compared with.
const OTHER_SERVERS: [&str; 2] = ["nginx", "wasmtime serve"];

/// Whether a subject is another tool, with flags and faults of its own.
fn is_of_others(subject: &str) -> bool {
    peer(subject).is_some() || OTHER_SERVERS.iter().any(|one| subject.starts_with(one))
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
    use anyhow::bail;

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
        let mut trials = Trials::new(trials.into());
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
}
