//! The process wall as one of many walls.

use crate::{
    Domain, DomainError, LaunchError, Launcher, Machine, Streams, ThisHost,
    plan::{Plan, PlanError, Surroundings, make_plan},
};
use palisade_policy::Policy;
use palisade_wall::{Command, Report, Wall};
use std::{io, os::fd::AsFd};

/// The process wall with a launcher of its own.
#[derive(Debug)]
pub struct ProcessWall {
    launcher: Launcher,
}

/// Anything that goes wrong behind this wall and is not the guest's end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "named after the operation that fails")]
pub enum ProcessError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Domain(#[from] DomainError),
}

impl ProcessWall {
    /// The wall on this machine.
    pub fn new() -> Self {
        Self {
            launcher: Launcher::new(Machine::probe()),
        }
    }
}

impl Default for ProcessWall {
    fn default() -> Self {
        Self::new()
    }
}

impl Wall for ProcessWall {
    type Plan = Plan;
    type Domain = Domain;
    type Error = ProcessError;

    fn plan(&self, policy: &Policy, command: &Command) -> Result<Plan, ProcessError> {
        Ok(make_plan(
            policy,
            command,
            self.launcher.machine(),
            &Surroundings::here(false),
            &ThisHost,
        )?)
    }

    fn launch(&self, plan: &Plan) -> Result<Domain, ProcessError> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let streams = Streams {
            stdin: stdin.as_fd(),
            stdout: stdout.as_fd(),
            stderr: stderr.as_fd(),
            terminal: None,
            passed: &[],
        };
        Ok(self.launcher.launch(plan, &streams)?)
    }
}

impl palisade_wall::Domain for Domain {
    type Error = ProcessError;

    fn wait(self) -> Result<Report, ProcessError> {
        Ok(Self::wait(self)?)
    }

    fn signal(&self, number: i32) -> Result<(), ProcessError> {
        Ok(Self::signal(self, number)?)
    }
}
