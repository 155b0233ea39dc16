//! A command line that is run again and again.

use crate::{
    network::Network,
    said::{Said, Tail, cause_in, take_all},
    subjects::{LIBEXEC, Subject, is_wasm, variables},
    workloads,
};
use anyhow::{Context, bail, ensure};
use palisade_policy::Policy;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, waitpid,
    },
};
use std::{
    env,
    ffi::OsString,
    fs::{self, DirBuilder, File},
    io::{BufRead, BufReader, IoSlice, PipeReader, PipeWriter},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{fs::DirBuilderExt, net::UnixStream},
    },
    path::Path,
    process::{Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use wait4::{ResourceUsage, Wait4};

/// Where an engine keeps compiled code, in a program's room.
const CACHE: &str = "cache";
/// A command line that is run from the lab: by posix_spawn(3), which copies no address space, so that
/// the size of the lab is in no figure.
#[derive(Debug)]
pub(crate) struct Program {
    command: Command,
    /// What ends the rest of it when it was killed.
    line_to_end: Option<Vec<OsString>>,
    /// What the command line names; see [`Subject::command_line`].
    room: Option<TempDir>,
    /// What it says on stderr. A pipe: behind the wall a file would be a file of the host's, which costs
    /// a check on every open.
    errors: PipeReader,
    null: File,
    /// What it says on stdout, if somebody wants to know.
    output: Option<PipeReader>,
}

impl Program {
    /// Prepares `subject` to run `command`, with nothing on stdin and an empty environment.
    pub(crate) fn in_subject(
        subject: &dyn Subject,
        policy: &Policy,
        command: &palisade_wall::Command,
    ) -> anyhow::Result<Self> {
        Self::with_network(subject, policy, command, &Network::None)
    }

    /// The same with something of the network.
    pub(crate) fn with_network(
        subject: &dyn Subject,
        policy: &Policy,
        command: &palisade_wall::Command,
        network: &Network,
    ) -> anyhow::Result<Self> {
        let room = workloads::new_room()?;
        let mut line = subject.command_line(policy, command, network, room.path())?;
        if network.is_some() {
            line = ending_with_the_lab(line);
        }
        let mut program = Self {
            line_to_end: subject.line_to_end(&line),
            ..Self::new(&line)?
        };
        if is_wasm(command) {
            program.keep_code_in(room.path())?;
        }
        program.room = Some(room);
        Ok(program)
    }

    /// Gives an engine a place for compiled code that is nobody else's, and palisade its worker.
    fn keep_code_in(&mut self, room: &Path) -> anyhow::Result<()> {
        let cache = room.join(CACHE);
        let made = DirBuilder::new().mode(0o700).create(&cache);
        made.with_context(|| format!("host: cannot make {}", cache.display()))?;
        self.command.env("XDG_CACHE_HOME", cache);
        let libexec = env::var_os(LIBEXEC).map(|folder| (LIBEXEC, folder));
        self.command.envs(libexec);
        Ok(())
    }

    /// Has an engine compile its program anew.
    pub(crate) fn forget_code(&self) -> anyhow::Result<()> {
        let cache = self.room.as_ref().map(|room| room.path().join(CACHE));
        let cache = cache.context("it has no place for code")?;
        fs::remove_dir_all(&cache)
            .and_then(|()| DirBuilder::new().mode(0o700).create(&cache))
            .with_context(|| format!("host: cannot empty {}", cache.display()))
    }

    /// Prepares `command_line`, with nothing on stdin and an empty environment.
    pub(crate) fn new(command_line: &[OsString]) -> anyhow::Result<Self> {
        let [program, arguments @ ..] = command_line else {
            bail!("an empty command line");
        };
        let (errors, into_errors) = pipe_to_look_into()?;
        // Opened once: the figures hold the spawn and nothing else of the lab's.
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.context("host: cannot open /dev/null")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .stdin(null.try_clone()?)
            .stdout(null.try_clone()?)
            .stderr(into_errors);
        Ok(Self {
            command,
            line_to_end: None,
            room: None,
            errors,
            null,
            output: None,
        })
    }

    /// Gives it a policy's variables and working directory.
    pub(crate) fn environment(&mut self, policy: &Policy) {
        self.command.envs(variables(policy));
        if let Some(cwd) = &policy.grants.cwd {
            self.command.current_dir(cwd);
        }
    }

    /// Has its stdout read too, which else is thrown away: many a program tells there what it lacks. Not while it
    /// is measured: a pipe takes more time.
    pub(crate) fn hear_output(&mut self, hears: bool) -> anyhow::Result<()> {
        self.output = None;
        if hears {
            let (output, into_output) = pipe_to_look_into()?;
            self.command.stdout(into_output);
            self.output = Some(output);
        } else {
            self.command.stdout(self.null.try_clone()?);
        }
        Ok(())
    }

    /// Runs it and takes away what it says meanwhile, however much that is. Ends it when the flag is
    /// set: politely, then with force.
    pub(crate) fn run_watched(&mut self, interrupted: &AtomicBool) -> anyhow::Result<Used> {
        const GRACE: Duration = Duration::from_secs(2);
        let mut said = Said::default();
        let began = Instant::now();
        let child = self.command.spawn();
        let child = child.with_context(|| format!("host: cannot run {:?}", self.command))?;
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("host: cannot watch a process")?;
        let mut asked: Option<Instant> = None;
        let mut was_killed = false;
        while !self.has_ended(&pidfd, &mut said)? {
            if !interrupted.load(Ordering::Relaxed) {
                continue;
            }
            let is_first = asked.is_none();
            was_killed |= asked.get_or_insert_with(Instant::now).elapsed() > GRACE;
            let signal = if was_killed {
                Signal::KILL
            } else {
                Signal::TERM
            };
            if is_first || was_killed {
                // It may have ended by now, which is as good.
                let _ = pidfd_send_signal(&pidfd, signal);
            }
        }
        let took = began.elapsed();
        let used = child.wait4().context("host: cannot wait for a process")?;
        if was_killed {
            self.end_the_rest();
        }
        self.listen(&mut said);
        Ok(Used {
            took,
            status: used.status,
            resources: used.rusage,
            said,
            was_heard: self.output.is_some(),
        })
    }

    /// Waits for its end or its words, a signal, or a second: a signal may come just before the wait.
    fn has_ended(&mut self, pidfd: &OwnedFd, said: &mut Said) -> anyhow::Result<bool> {
        let streams = [Some(&self.errors), self.output.as_ref()];
        let has_ended = wait_for(pidfd, streams.into_iter().flatten())?;
        self.listen(said);
        Ok(has_ended)
    }

    fn listen(&mut self, said: &mut Said) {
        said.errors.take_from(&mut self.errors);
        if let Some(output) = &mut self.output {
            said.output.take_from(output);
        }
    }

    fn end_the_rest(&self) {
        if let Some([program, arguments @ ..]) = self.line_to_end.as_deref() {
            // Nothing to do where it fails: there is nothing left, or nobody can end it.
            let _ = Command::new(program).args(arguments).output();
        }
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

    /// The same, and ends it where it takes too long: who talks with somebody may wait for ever.
    pub(crate) fn run_for_output_within(&mut self, limit: Duration) -> anyhow::Result<String> {
        let (mut said, into_said) = pipe_to_look_into()?;
        let began = Instant::now();
        let child = self.command.stdout(into_said.try_clone()?).spawn();
        let mut child = child.with_context(|| format!("host: cannot run {:?}", self.command))?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let pidfd = pidfd.context("host: cannot watch a process")?;
        let mut output = Vec::new();
        while !wait_for(&pidfd, [&said])? {
            take_all(&mut said, &mut output);
            if began.elapsed() > limit {
                let _ = pidfd_send_signal(&pidfd, Signal::KILL);
                child.wait().context("host: cannot wait for a process")?;
                self.end_the_rest();
                let said = self.said_on_stderr();
                bail!(
                    "it did not end within {} s: {}",
                    limit.as_secs(),
                    cause_in(&said)
                );
            }
        }
        let status = child.wait().context("host: cannot wait for a process")?;
        take_all(&mut said, &mut output);
        self.check(status)?;
        String::from_utf8(output).context("the output is not text")
    }

    /// What starts it, for those who do more with that.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
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

    /// Runs it until a sibling that it leaves behind is [`HOLDING`] and waits for its streams: see
    /// `lab/workloads/parked.h`.
    fn park(&mut self) -> anyhow::Result<Parked> {
        let (socket, its_own) = UnixStream::pair().context("host: cannot make sockets")?;
        let spawned = self
            .command
            .stdin(OwnedFd::from(its_own))
            .stdout(Stdio::piped())
            .spawn();
        let mut child = spawned.with_context(|| format!("host: cannot run {:?}", self.command))?;
        // It holds the other end.
        self.command.stdin(Stdio::null());
        let mut output = child
            .stdout
            .take()
            .map(BufReader::new)
            .context("no output")?;
        let status = child.wait().context("host: cannot wait for a process")?;
        self.check(status)?;
        // In either order.
        let mut lines = [String::new(), String::new()];
        for line in &mut lines {
            output.read_line(line).context("host: cannot read a pipe")?;
        }
        let pid = lines.iter().find_map(|line| line.trim().parse().ok());
        let is_holding = lines.iter().any(|line| line.trim() == HOLDING);
        let pid = pid.and_then(Pid::from_raw).filter(|_| is_holding);
        let pid = pid.with_context(|| {
            let said = self.said_on_stderr();
            format!("it is not parked: {}", cause_in(&said))
        })?;
        Ok(Parked(Begun {
            pid,
            socket,
            null: self.null.try_clone()?,
            _namespaces: namespaces_of(pid)?,
        }))
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
        let mut said = Tail::default();
        said.take_from(&mut self.errors);
        said.text()
    }
}

/// What a program says that keeps what it has.
const HOLDING: &str = "holding";

/// A process that is no child of a program's, and has yet to execute one.
#[derive(Debug)]
pub(crate) struct Parked(Begun);

impl Parked {
    /// Lets it execute, and say what it likes to nobody.
    pub(crate) fn begin(self) -> anyhow::Result<Begun> {
        self.hand_over(self.0.null.as_fd())?;
        Ok(self.0)
    }

    /// The same; gives what is read of its output.
    pub(crate) fn begin_heard(self) -> anyhow::Result<(Begun, PipeReader)> {
        let (output, into_output) = std::io::pipe().context("host: cannot make a pipe")?;
        self.hand_over(into_output.as_fd())?;
        Ok((self.0, output))
    }

    fn hand_over(&self, output: BorrowedFd<'_>) -> anyhow::Result<()> {
        let null = self.0.null.as_fd();
        let streams = [null, output, null];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut attached = SendAncillaryBuffer::new(&mut space);
        attached.push(SendAncillaryMessage::ScmRights(&streams));
        let byte = [IoSlice::new(&[0])];
        let sent = sendmsg(&self.0.socket, &byte, &mut attached, SendFlags::NOSIGNAL);
        sent.context("host: what was parked is gone").map(drop)
    }
}

/// A program that is parked for its next run as soon as one has ended, as a launcher's next domain is.
#[derive(Debug)]
pub(crate) struct ParkedAhead {
    program: Program,
    next: Option<Parked>,
}

impl ParkedAhead {
    pub(crate) fn new(program: Program) -> Self {
        Self {
            program,
            next: None,
        }
    }

    /// What is parked.
    pub(crate) fn take(&mut self) -> anyhow::Result<Parked> {
        match self.next.take() {
            Some(parked) => Ok(parked),
            None => self.program.park(),
        }
    }

    /// Parks the next. Not part of a run: if it fails, the next says so.
    pub(crate) fn get_ready(&mut self) {
        self.next = self.program.park().ok();
    }
}

impl Drop for ParkedAhead {
    /// The last is let run, for else nobody would wait for it.
    fn drop(&mut self) {
        if let Some(Ok(begun)) = self.next.take().map(Parked::begin) {
            let _ = begun.wait();
        }
    }
}

/// The same after that.
#[derive(Debug)]
pub(crate) struct Begun {
    pid: Pid,
    /// Closed when the end was told, as all of this: that is no part of a start.
    socket: UnixStream,
    null: File,
    _namespaces: Vec<File>,
}

impl Begun {
    /// Waits for its end.
    pub(crate) fn wait(self) -> anyhow::Result<Ended> {
        let waited = waitpid(Some(self.pid), WaitOptions::empty());
        let waited = waited.context("host: cannot wait for a process")?;
        let (_, status) = waited.context("it has not ended")?;
        Ok(Ended {
            status,
            _begun: self,
        })
    }
}

/// The same after its end.
pub(crate) struct Ended {
    status: WaitStatus,
    _begun: Begun,
}

impl Ended {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.status.exit_status() == Some(0),
            "the parked program failed: {:?}",
            self.status
        );
        Ok(())
    }
}

fn namespaces_of(pid: Pid) -> anyhow::Result<Vec<File>> {
    let names = ["user", "mnt", "pid", "ipc", "uts", "cgroup", "net"].into_iter();
    let open = |name| File::open(format!("/proc/{pid}/ns/{name}"));
    let opened: Result<_, _> = names.map(open).collect();
    opened.context("host: cannot open a process's namespaces")
}

/// A command line whose process ends when the lab does, even where the lab is killed: a server would go on
/// for ever.
pub(crate) fn ending_with_the_lab(line: Vec<OsString>) -> Vec<OsString> {
    let lead = ["setpriv", "--pdeathsig", "TERM", "--"];
    lead.into_iter().map(OsString::from).chain(line).collect()
}

/// A pipe whose reader takes what is there and does not wait for more.
fn pipe_to_look_into() -> anyhow::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = std::io::pipe().context("host: cannot make a pipe")?;
    rustix::io::ioctl_fionbio(&reader, true).context("host: cannot use a pipe")?;
    Ok((reader, writer))
}

/// Waits for a process's end, its words, a signal, or a second; whether it has ended.
fn wait_for<'a>(
    pidfd: &OwnedFd,
    said: impl IntoIterator<Item = &'a PipeReader>,
) -> anyhow::Result<bool> {
    const SECOND: Timespec = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
    fds.extend(
        said.into_iter()
            .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
    );
    match poll(&mut fds, Some(&SECOND)) {
        Ok(_) => Ok(!fds[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("host: cannot watch a process"),
    }
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Used {
    pub(crate) took: Duration,
    pub(crate) status: ExitStatus,
    /// Of the process and all that it waited for.
    pub(crate) resources: ResourceUsage,
    said: Said,
    /// Whether its stdout was read as well.
    was_heard: bool,
}

impl Used {
    /// How it ended, and what it said last.
    pub(crate) fn failure(&self) -> String {
        format!("{}: {}", self.status, self.said.cause(self.was_heard))
    }
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
    fn a_program_that_says_much_does_not_wait_for_a_reader() {
        let mut program = shell(
            "head -c 300000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo the end >&2; exit 3",
        );
        let used = program.run_watched(&AtomicBool::new(false)).unwrap();
        assert_eq!(used.failure(), "exit status: 3: the end");
    }

    /// Compilers and test runners tell on stdout what is wrong.
    #[test]
    fn a_cause_on_stdout_is_heard_where_somebody_listens() {
        let script = "echo no such module; exit 3";
        let failure = |hears| {
            let mut program = shell(script);
            program.hear_output(true).unwrap();
            program.hear_output(hears).unwrap();
            let used = program.run_watched(&AtomicBool::new(false)).unwrap();
            used.failure()
        };
        assert_eq!(failure(true), "exit status: 3: no such module");
        let expected = "exit status: 3: it said nothing on stderr, and its stdout is thrown away";
        assert_eq!(failure(false), expected);
        let mut program = shell("echo on stdout; echo on stderr >&2; exit 3");
        program.hear_output(true).unwrap();
        let used = program.run_watched(&AtomicBool::new(false)).unwrap();
        assert_eq!(used.failure(), "exit status: 3: on stderr");
    }

    #[test]
    fn what_a_program_used_is_known_with_its_children() {
        let mut program = shell("head -c 30000000 /dev/zero | tr x y | wc -c; :");
        let used = program.run_watched(&AtomicBool::new(false)).unwrap();
        assert!(used.status.success());
        assert!(used.resources.utime + used.resources.stime > Duration::from_millis(1));
    }

    /// A program that does not heed the polite signal.
    #[test]
    fn an_interruption_ends_whatever_runs() {
        let mut program = shell("trap '' TERM; exec sleep 600");
        let used = program.run_watched(&AtomicBool::new(true)).unwrap();
        assert!(!used.status.success() && used.took < Duration::from_secs(60));
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
