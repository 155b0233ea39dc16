//! A run of the user's command, and one of a program that ends at once before it.

use super::{Options, folder::Workplace, grants::Task, present};
use crate::{
    sample::{Reading, Unit},
    subjects::Subject,
    trial::{Program, Trial, Used, microseconds},
};
use anyhow::{Context, bail};
use palisade_policy::Policy;
use std::{
    process::{Command, Stdio},
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
    interrupted: Arc<AtomicBool>,
}

impl Circumstances {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            workplace: Rc::clone(&options.workplace),
            around: options.around.clone(),
            ignore_failure: options.ignore_failure,
            interrupted: Arc::clone(&options.interrupted),
        }
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
            let said = String::from_utf8_lossy(&output.stderr);
            let cause = crate::trial::cause_in(&said);
            bail!("usage: {}: {}: {cause}", FLAGS[index], output.status);
        }
        Ok(())
    }
}

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

impl Trial for CommandTrial {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let here = &self.circumstances;
        let start = self.ending.run_watched(&here.interrupted)?;
        if !start.status.success() {
            bail!("a program that ends at once: {}", start.failure());
        }
        here.workplace.refresh()?;
        here.run_shell(0)?;
        let used = self.command.run_watched(&here.interrupted)?;
        // Also after a failure: it is to take away what was left.
        here.run_shell(1)?;
        if here.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        if !used.status.success() && !here.ignore_failure {
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
