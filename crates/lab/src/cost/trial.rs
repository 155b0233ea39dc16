//! A run of the user's command, and one of a program that ends at once before it.

use super::{Options, grants::Task, present};
use crate::{
    program::{Program, Used},
    said::cause_in,
    sample::{Reading, Unit},
    subjects::Subject,
    trial::{Trial, microseconds},
};
use anyhow::{Context, bail};
use palisade_command_line::workplace::Workplace;
use palisade_policy::Policy;
use std::{
    cell::Cell,
    os::unix::process::ExitStatusExt,
    process::{Command, ExitStatus, Stdio},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// What all runs have in common.
pub(super) struct Circumstances {
    workplace: Rc<Workplace>,
    around: [Option<String>; 2],
    ignore_failure: bool,
    /// How the first run of all ended.
    first_code: Cell<Option<i32>>,
    interrupted: Arc<AtomicBool>,
}

impl Circumstances {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            workplace: Rc::clone(&options.workplace),
            around: options.around.clone(),
            ignore_failure: options.ignore_failure,
            first_code: Cell::new(None),
            interrupted: Arc::clone(&options.interrupted),
        }
    }

    /// Whether a failure counts. These codes of palisade's and many others' mean that the command did
    /// not even run, unless the command itself ends so with no wall.
    fn may_end_so(&self, code: i32) -> bool {
        let first = self.first_code.get().unwrap_or(code);
        self.first_code.set(Some(first));
        self.ignore_failure && (first == code || !(125..=127).contains(&code))
    }

    /// `--setup` or `--cleanup`: as the user, with no wall and the user's own variables.
    fn run_shell(&self, index: usize) -> anyhow::Result<()> {
        const FLAGS: [&str; 2] = ["--setup", "--cleanup"];
        let Some(script) = &self.around[index] else {
            return Ok(());
        };
        let output = Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(self.workplace.inside())
            .stdin(Stdio::null())
            .output()
            .context("host: cannot run /bin/sh")?;
        if !output.status.success() {
            let streams = [output.stderr, output.stdout];
            let said = streams.iter().find(|said| !said.trim_ascii().is_empty());
            let said = said.map(|said| String::from_utf8_lossy(said));
            let cause = cause_in(&said.unwrap_or_default());
            let flag = FLAGS[index];
            return Err(HookError(format!("{flag}: {}: {cause}", output.status)).into());
        }
        Ok(())
    }
}

/// As a shell shows it.
fn code_of(status: ExitStatus) -> i32 {
    let by_signal = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(by_signal)
}

/// A shell's command around the runs that failed.
#[derive(Debug, thiserror::Error)]
#[error("usage: {0}")]
pub(super) struct HookError(String);

/// One contender.
pub(super) struct CommandTrial {
    ending: Program,
    command: Program,
    circumstances: Rc<Circumstances>,
    /// Whether the process that is started waits for all others.
    waits_for_all: bool,
}

impl CommandTrial {
    pub(super) fn new(
        subject: &dyn Subject,
        policy: &Policy,
        task: &Task,
        circumstances: &Rc<Circumstances>,
    ) -> anyhow::Result<Self> {
        let program = |command| {
            let mut program = Program::in_subject(subject, policy, command)?;
            program.environment(&task.theirs);
            anyhow::Ok(program)
        };
        Ok(Self {
            ending: program(&task.ending)?,
            command: program(&task.command)?,
            circumstances: Rc::clone(circumstances),
            waits_for_all: subject.waits_for_all(),
        })
    }
}

impl CommandTrial {
    /// Runs it once before it is measured, and hears all that it says, to tell why it fails.
    pub(super) fn try_once(&mut self) -> anyhow::Result<()> {
        self.hear_output(true)?;
        self.run_once()?;
        self.hear_output(false)
    }

    fn hear_output(&mut self, hears: bool) -> anyhow::Result<()> {
        self.ending.hear_output(hears)?;
        self.command.hear_output(hears)
    }
}

impl Trial for CommandTrial {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let here = &self.circumstances;
        let start = self.ending.run_watched(&here.interrupted)?;
        if !start.status.success() {
            bail!("{}", start.failure());
        }
        here.workplace.refresh()?;
        here.run_shell(0)?;
        let used = self.command.run_watched(&here.interrupted)?;
        // Also after a failure: it is to take away what was left.
        here.run_shell(1)?;
        if here.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if !used.status.success() && !here.may_end_so(code_of(used.status)) {
            bail!("{}", used.failure());
        }
        Ok(self.readings(&start, &used))
    }
}

impl CommandTrial {
    fn readings(&self, start: &Used, used: &Used) -> Vec<Reading> {
        let mut readings = vec![
            Reading::one_us(present::START, microseconds(start.took)),
            Reading::one_us(present::WALL, microseconds(used.took)),
        ];
        if self.waits_for_all {
            let cpu = microseconds(used.resources.utime + used.resources.stime);
            readings.push(Reading::one_us(present::CPU, cpu));
            readings.push(Reading {
                measure: present::MEMORY.to_owned(),
                unit: Unit::Bytes,
                values: vec![used.resources.maxrss as f64],
            });
        }
        readings
    }
}
