//! Starting guests from within this process, as a program that embeds palisade does.

use anyhow::{Context, ensure};
use palisade::{Builder, Domain, Launcher, Machine, Policy, Prepared, Report, Stdio};
use palisade_wall::Command;
use std::sync::Arc;

/// How much is there before a guest is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing: a keeper is started for this guest alone, and ended with it.
    Cold,
    /// A keeper runs; the domain is made when the guest is asked for.
    KeeperUp,
    /// Domains are parked ahead: as much as can be done for a plan is done, and they wait for guests.
    Parked,
    /// The same, and the plan is made once for all guests.
    Planned,
}

/// Starts one command again and again.
#[derive(Debug)]
pub struct Library {
    start: Start,
    /// What becomes of its output.
    stdout: fn() -> Stdio,
    /// Absent while it is cold.
    launcher: Option<Arc<Launcher>>,
}

/// What there is of the next guest.
#[derive(Debug)]
enum Start {
    Wanted(Box<Policy>, Command),
    Planned(Box<Prepared>),
}

impl Library {
    /// Makes everything that shall be there beforehand.
    ///
    /// # Errors
    ///
    /// When this machine can't hold a domain.
    pub fn new(readiness: Readiness, policy: Policy, command: Command) -> anyhow::Result<Self> {
        let library = Self::starting(readiness, policy, command, Stdio::null)?;
        library.run()?;
        library.get_ready()?;
        Ok(library)
    }

    /// The same for a command whose output is read: see [`Library::run_for_output`].
    ///
    /// # Errors
    ///
    /// As those of [`Library::new`].
    pub fn printing(
        readiness: Readiness,
        policy: Policy,
        command: Command,
    ) -> anyhow::Result<Self> {
        let library = Self::starting(readiness, policy, command, Stdio::piped)?;
        library.run_for_output()?;
        library.get_ready()?;
        Ok(library)
    }

    fn starting(
        readiness: Readiness,
        policy: Policy,
        command: Command,
        stdout: fn() -> Stdio,
    ) -> anyhow::Result<Self> {
        let launcher = || Launcher::new(Machine::probe());
        let launcher = match readiness {
            Readiness::Cold => None,
            Readiness::KeeperUp => Some(Arc::new(launcher())),
            Readiness::Parked | Readiness::Planned => Some(Arc::new(launcher().park_ahead())),
        };
        let start = match readiness {
            Readiness::Planned => {
                let builder = builder(&policy, &command, launcher.clone()).stdout(stdout());
                Start::Planned(Box::new(builder.prepare()?))
            }
            _ => Start::Wanted(Box::new(policy), command),
        };
        Ok(Self {
            start,
            stdout,
            launcher,
        })
    }

    /// Waits for what shall be there before the next guest is asked for. Not part of a start.
    ///
    /// # Errors
    ///
    /// When the next domain can't be made.
    pub fn get_ready(&self) -> anyhow::Result<()> {
        match &self.launcher {
            Some(launcher) => Ok(launcher.wait_until_parked()?),
            None => Ok(()),
        }
    }

    /// Starts the guest and waits until nothing of its domain is left.
    ///
    /// # Errors
    ///
    /// When the start fails or the guest does.
    pub fn run(&self) -> anyhow::Result<Report> {
        let report = match &self.start {
            Start::Planned(prepared) => prepared.run()?,
            Start::Wanted(policy, command) => self.builder(policy, command).run()?,
        };
        check(&report)?;
        Ok(report)
    }

    /// The same; gives what the guest printed.
    ///
    /// # Errors
    ///
    /// When the start fails or the guest does, or when it printed no text.
    pub fn run_for_output(&self) -> anyhow::Result<String> {
        let guest = match &self.start {
            Start::Planned(prepared) => prepared.spawn()?,
            Start::Wanted(policy, command) => self.builder(policy, command).spawn()?,
        };
        let output = guest.wait_with_output()?;
        check(&output.report)?;
        String::from_utf8(output.stdout).context("the output is not text")
    }

    fn builder(&self, policy: &Policy, command: &Command) -> Builder {
        builder(policy, command, self.launcher.clone()).stdout((self.stdout)())
    }
}

/// With a launcher of its own where there is none yet.
fn builder(policy: &Policy, command: &Command, launcher: Option<Arc<Launcher>>) -> Builder {
    Domain::builder(&command.program)
        .args(&command.arguments)
        .policy(policy.clone())
        .stderr(Stdio::null())
        .launcher(launcher.unwrap_or_else(|| Arc::new(Launcher::new(Machine::probe()))))
}

fn check(report: &Report) -> anyhow::Result<()> {
    ensure!(
        report.exit_code == 0,
        "the guest ended with {}",
        report.exit
    );
    Ok(())
}
