//! Running a contender once.

use crate::{
    sample::{Contender, Reading},
    subjects::Subject,
    workloads,
};
use anyhow::{Context, bail};
use palisade_policy::Policy;
use std::{
    ffi::OsString,
    fs::File,
    io::{BufRead, BufReader, PipeReader, Read},
    process::{Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

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
    /// What the command line names; see [`Subject::command_line`].
    _room: Option<TempDir>,
    /// What it says on stderr. A pipe: behind the wall a file would be a file of the host's, which costs
    /// a check on every open.
    errors: PipeReader,
}

impl Program {
    /// Prepares `subject` to run `command`, with nothing on stdin and an empty environment.
    pub(crate) fn in_subject(
        subject: &dyn Subject,
        policy: &Policy,
        command: &palisade_wall::Command,
    ) -> anyhow::Result<Self> {
        let room = workloads::new_room()?;
        let line = subject.command_line(policy, command, room.path())?;
        Ok(Self {
            _room: Some(room),
            ..Self::new(&line)?
        })
    }

    /// Prepares `command_line`, with nothing on stdin and an empty environment.
    pub(crate) fn new(command_line: &[OsString]) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = command_line else {
            bail!("an empty command line");
        };
        let (errors, into_errors) = std::io::pipe().context("host: cannot make a pipe")?;
        rustix::io::ioctl_fionbio(&errors, true).context("host: cannot use a pipe")?;
        // Opened once: the figures hold the spawn and nothing else of the lab's.
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.context("host: cannot open /dev/null")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(null.try_clone()?)
            .stdout(null)
            .stderr(into_errors);
        Ok(Self {
            command,
            _room: None,
            errors,
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

    /// Runs it until it says `word` on a line of its own, has `look` look at its process and what
    /// belongs to it, and then lets it end, by the end of its input.
    pub(crate) fn run_and_look<T>(
        &mut self,
        word: &str,
        look: impl FnOnce(u32) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let spawned = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = spawned.with_context(|| format!("host: cannot run {:?}", self.command))?;
        let said = child.stdout.take().map(BufReader::new);
        let mut lines = said.into_iter().flat_map(BufRead::lines);
        let has_said = lines.any(|line| line.is_ok_and(|line| line == word));
        let seen = has_said.then(|| look(child.id()));
        drop(child.stdin.take());
        let status = child.wait().context("host: cannot wait for a program")?;
        self.check(status)?;
        seen.with_context(|| format!("it never said {word:?}"))?
    }

    /// Empties the pipe too, which the next run writes into.
    fn check(&mut self, status: ExitStatus) -> anyhow::Result<()> {
        let errors = self.said_on_stderr();
        if status.success() {
            return Ok(());
        }
        bail!("{status}: {}", cause_in(&errors))
    }

    fn said_on_stderr(&mut self) -> String {
        let mut said = Vec::new();
        let mut part = [0; 4096];
        // It ends when there is no more for now: this process holds the other end open.
        while let Ok(length @ 1..) = self.errors.read(&mut part) {
            said.extend_from_slice(&part[..length]);
        }
        String::from_utf8_lossy(&said).into_owned()
    }
}

/// The line of `said` that tells why it failed: the last one, unless one calls itself an error.
fn cause_in(said: &str) -> &str {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().find(|line| line.starts_with("Error"));
    error
        .or_else(|| lines.next_back())
        .unwrap_or("it said nothing")
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

    fn shell(script: &str) -> Program {
        Program::new(&["/bin/sh", "-c", script].map(OsString::from)).unwrap()
    }

    #[test]
    fn a_failed_run_is_an_error_with_the_last_words() {
        let mut program = shell("echo first >&2; echo no such thing >&2; exit 3");
        assert_eq!(
            program.run().unwrap_err().to_string(),
            "exit status: 3: no such thing"
        );
    }

    #[test]
    fn a_cause_is_found_among_advice() {
        assert_eq!(
            cause_in("Error: not for you.\nSee the manual.\n\n"),
            "Error: not for you."
        );
        assert_eq!(cause_in("a\nb\n\n"), "b");
        assert_eq!(cause_in(" \n"), "it said nothing");
    }

    #[test]
    fn a_program_is_looked_at_while_it_holds_what_it_has() {
        let mut program = shell("echo first; echo holding; read line; exit 0");
        let looked = program.run_and_look("holding", Ok);
        assert!(looked.is_ok_and(|process| process > 1));
        let error = shell("exit 0").run_and_look("holding", |_| Ok(()));
        assert_eq!(error.unwrap_err().to_string(), "it never said \"holding\"");
        let error = shell("exit 4").run_and_look("holding", |_| Ok(()));
        assert_eq!(
            error.unwrap_err().to_string(),
            "exit status: 4: it said nothing"
        );
    }

    #[test]
    fn a_program_can_be_run_again() {
        let mut program = shell("echo $#");
        let outputs = [(); 3].map(|()| program.run_for_output().unwrap());
        assert_eq!(outputs, ["0\n"; 3]);
    }
}
