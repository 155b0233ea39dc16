//! Running a contender once.

use crate::{
    sample::{Contender, Reading},
    workloads::Workloads,
};
use anyhow::{Context, bail};
use std::{
    ffi::OsString,
    fs::{self, File},
    path::PathBuf,
    process::{Command, ExitStatus, Output, Stdio},
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
}

/// Trials of a row, and a clock.
pub(crate) struct Trials {
    trials: Vec<(Contender, Box<dyn Trial>)>,
    began: Instant,
}

impl Trials {
    pub(crate) fn new(trials: Vec<(Contender, Box<dyn Trial>)>) -> Self {
        Self {
            trials,
            began: Instant::now(),
        }
    }
}

impl crate::Executor for Trials {
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

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A command line that is run from the lab: by posix_spawn(3), which copies no address space, so that
/// the size of the lab is in no figure.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    errors_path: PathBuf,
}

impl Program {
    /// Prepares `command_line`, with nothing on stdin and an empty environment.
    pub(crate) fn new(command_line: &[OsString], workloads: &Workloads) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = command_line else {
            bail!("an empty command line");
        };
        let (errors_path, errors) = workloads.errors_file()?;
        // Opened once: the figures hold the spawn and nothing else of the lab's.
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.context("host: cannot open /dev/null")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(null.try_clone()?)
            .stdout(null)
            .stderr(errors);
        Ok(Self {
            command,
            errors_path,
        })
    }

    /// Runs it; gives the time from before its spawn until it has been waited for.
    pub(crate) fn run(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let status = self.command.spawn().and_then(|mut child| child.wait());
        let took = began.elapsed();
        self.check(status.with_context(|| format!("host: cannot run {:?}", self.command))?)?;
        Ok(took)
    }

    /// Runs it; gives what it printed.
    pub(crate) fn run_for_output(&mut self) -> anyhow::Result<String> {
        let child = self.command.stdout(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output);
        let Output { status, stdout, .. } =
            output.with_context(|| format!("host: cannot run {:?}", self.command))?;
        self.check(status)?;
        String::from_utf8(stdout).context("the output is not text")
    }

    fn check(&self, status: ExitStatus) -> anyhow::Result<()> {
        if status.success() {
            return Ok(());
        }
        let errors = fs::read_to_string(&self.errors_path).unwrap_or_default();
        let last = errors.lines().last().unwrap_or("it said nothing");
        bail!("{status}: {last}")
    }
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

    fn shell(script: &str) -> (Workloads, Program) {
        let workloads = Workloads::new().unwrap();
        let words = ["/bin/sh", "-c", script].map(OsString::from);
        let program = Program::new(&words, &workloads).unwrap();
        (workloads, program)
    }

    #[test]
    fn a_failed_run_is_an_error_with_the_last_words() {
        let (_workloads, mut program) = shell("echo first >&2; echo no such thing >&2; exit 3");
        assert_eq!(
            program.run().unwrap_err().to_string(),
            "exit status: 3: no such thing"
        );
    }

    #[test]
    fn a_program_can_be_run_again() {
        let (_workloads, mut program) = shell("echo $#");
        let outputs = [(); 3].map(|()| program.run_for_output().unwrap());
        assert_eq!(outputs, ["0\n"; 3]);
    }
}
