//! Starting guests from within this process, as a program that embeds palisade does.

use anyhow::{Context, ensure};
use palisade_policy::Policy;
use palisade_process::{
    Launcher, Machine, Streams, ThisHost,
    plan::{Plan, Surroundings, make_plan},
};
use palisade_wall::{Command, Report};
use std::{
    fs::{File, OpenOptions},
    os::fd::AsFd,
};

/// How much is there before a guest is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Nothing: a keeper is started for this guest alone.
    Cold,
    /// A keeper runs; the domain's namespaces are made when the guest is asked for.
    KeeperUp,
    /// A domain is parked ahead: its file system is built, and it waits for its guest.
    Parked,
}

/// Starts one command again and again.
#[derive(Debug)]
pub struct Library {
    readiness: Readiness,
    /// Absent while it is cold.
    launcher: Option<Launcher>,
    policy: Policy,
    command: Command,
    null: File,
}

impl Library {
    /// Makes everything that shall be there beforehand.
    ///
    /// # Errors
    ///
    /// When this machine can't hold a domain.
    pub fn new(readiness: Readiness, policy: Policy, command: Command) -> anyhow::Result<Self> {
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .context("host: cannot open /dev/null")?;
        let launcher = (readiness != Readiness::Cold)
            .then(|| Launcher::start(Machine::probe()))
            .transpose()?;
        let mut library = Self {
            readiness,
            launcher,
            policy,
            command,
            null,
        };
        if readiness != Readiness::Cold {
            // A new launcher has parked a domain that knows no plan yet: use it up.
            library.run()?;
            library.get_ready()?;
        }
        Ok(library)
    }

    /// Starts the guest and waits until nothing of its domain is left.
    ///
    /// # Errors
    ///
    /// When the start fails or the guest does.
    pub fn run(&mut self) -> anyhow::Result<Report> {
        match &self.launcher {
            Some(launcher) => self.launch(launcher),
            None => self.launch(&Launcher::start(Machine::probe())?),
        }
    }

    /// Makes ready for the next run what shall be ready beforehand.
    ///
    /// # Errors
    ///
    /// When the keeper is gone.
    pub fn get_ready(&mut self) -> anyhow::Result<()> {
        if let (Some(launcher), Readiness::Parked) = (&self.launcher, self.readiness) {
            launcher.park(&self.plan(launcher.machine())?)?;
        }
        Ok(())
    }

    /// The plan of a run.
    ///
    /// # Errors
    ///
    /// When the policy can't be carried out here.
    pub fn plan(&self, machine: &Machine) -> anyhow::Result<Plan> {
        Ok(make_plan(
            &self.policy,
            &self.command,
            machine,
            &Surroundings::here(false),
            &ThisHost,
        )?)
    }

    fn launch(&self, launcher: &Launcher) -> anyhow::Result<Report> {
        let null = self.null.as_fd();
        let streams = Streams {
            stdin: null,
            stdout: null,
            stderr: null,
            terminal: None,
        };
        let report = launcher
            .launch(&self.plan(launcher.machine())?, &streams)?
            .wait()?;
        ensure!(
            report.exit_code == 0,
            "the guest ended with {}",
            report.exit
        );
        Ok(report)
    }
}
