//! Starting guests from within this process, as a program that embeds palisade does.

use anyhow::{Context, ensure};
use palisade::{Domain, Launcher, Machine, Policy, Report, Stdio};
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
}

/// Starts one command again and again.
#[derive(Debug)]
pub struct Library {
    policy: Policy,
    command: Command,
    /// Absent while it is cold.
    launcher: Option<Arc<Launcher>>,
}

impl Library {
    /// Makes everything that shall be there beforehand.
    ///
    /// # Errors
    ///
    /// When this machine can't hold a domain.
    pub fn new(readiness: Readiness, policy: Policy, command: Command) -> anyhow::Result<Self> {
        let launcher = || Launcher::new(Machine::probe());
        let library = Self {
            policy,
            command,
            launcher: match readiness {
                Readiness::Cold => None,
                Readiness::KeeperUp => Some(Arc::new(launcher())),
                Readiness::Parked => Some(Arc::new(launcher().park_ahead())),
            },
        };
        library.run()?;
        Ok(library)
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
        let report = self.builder().spawn()?.wait()?;
        check(&report)?;
        Ok(report)
    }

    /// The same; gives what the guest printed.
    ///
    /// # Errors
    ///
    /// When the start fails or the guest does, or when it printed no text.
    pub fn run_for_output(&self) -> anyhow::Result<String> {
        let guest = self.builder().stdout(Stdio::piped()).spawn()?;
        let output = guest.wait_with_output()?;
        check(&output.report)?;
        String::from_utf8(output.stdout).context("the output is not text")
    }

    fn builder(&self) -> palisade::Builder {
        let new = || Arc::new(Launcher::new(Machine::probe()));
        Domain::builder(&self.command.program)
            .args(&self.command.arguments)
            .policy(self.policy.clone())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .launcher(self.launcher.clone().unwrap_or_else(new))
    }
}

fn check(report: &Report) -> anyhow::Result<()> {
    ensure!(
        report.exit_code == 0,
        "the guest ended with {}",
        report.exit
    );
    Ok(())
}
