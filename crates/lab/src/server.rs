//! A server for the time of a run: started, waited for until it answers, and ended.

use crate::{
    network::Transport,
    program::Program,
    said::{Tail, cause_in},
};
use anyhow::{Context, bail, ensure};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use std::{
    fs::File,
    io::{PipeReader, Read, Write},
    net::{SocketAddr, TcpStream, UdpSocket},
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

/// A server's command, and how it shows that it is there.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) program: Program,
    pub(crate) readiness: Readiness,
}

/// What a server does when clients can come.
#[derive(Clone, Debug)]
pub(crate) enum Readiness {
    /// It says this, on stdout or stderr.
    Says(&'static str),
    /// It answers.
    Answers(Answer),
}

/// A question to a server.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) transport: Transport,
    pub(crate) address: SocketAddr,
    /// The network namespace to ask from, if it is not the lab's.
    pub(crate) namespace: Option<PathBuf>,
    pub(crate) question: &'static [u8],
    /// How the answer begins.
    pub(crate) answer: &'static [u8],
}

/// A server that has not shown itself by then never will. It may have much to compile first, on a machine that has
/// much else to do.
const PATIENCE: Duration = Duration::from_secs(180);
/// Between two questions, unless the server ends or says something.
const PAUSE: Duration = Duration::from_millis(5);
/// How long an answer may take before it is asked for anew.
const ANSWER_TIME: Duration = Duration::from_secs(20);
/// How long a server may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(10);

impl Readiness {
    /// What was waited for in vain.
    fn absence(&self) -> String {
        match self {
            Self::Says(words) => format!("it did not say {words:?}"),
            Self::Answers(answer) => format!("it did not answer at {}", answer.address),
        }
    }
}

impl Server {
    /// Starts it and waits until clients can come.
    ///
    /// # Errors
    ///
    /// When it ends before, or does not answer.
    pub(crate) fn start(&mut self) -> anyhow::Result<Running> {
        let mut running = Running::spawn(self.program.command())?;
        let is_ready = running.wait_until_ready(&self.readiness);
        is_ready.context("the server")?;
        Ok(running)
    }
}

/// A server that runs. It is ended when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    process: Child,
    pidfd: OwnedFd,
    said: PipeReader,
    tail: Tail,
}

impl Running {
    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let (said, into_said) = std::io::pipe().context("host: cannot make a pipe")?;
        rustix::io::ioctl_fionbio(&said, true).context("host: cannot use a pipe")?;
        // Both are held by the command too: a server that closes them is not a pipe that ends.
        command.stdout(into_said.try_clone()?).stderr(into_said);
        let process = command.spawn();
        let process = process.with_context(|| format!("host: cannot run {command:?}"))?;
        let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty());
        Ok(Self {
            pidfd: pidfd.context("host: cannot watch a process")?,
            process,
            said,
            tail: Tail::default(),
        })
    }

    fn wait_until_ready(&mut self, readiness: &Readiness) -> anyhow::Result<()> {
        let began = Instant::now();
        while !self.is_ready(readiness)? {
            ensure!(
                began.elapsed() < PATIENCE,
                "{} within {} s: {}",
                readiness.absence(),
                PATIENCE.as_secs(),
                cause_in(&self.tail.text())
            );
        }
        Ok(())
    }

    /// Looks once, and waits for a moment if it is not.
    fn is_ready(&mut self, readiness: &Readiness) -> anyhow::Result<bool> {
        let is_ready = match readiness {
            Readiness::Says(words) => self.tail.text().contains(words),
            Readiness::Answers(answer) => answer.is_given()?,
        };
        if !is_ready && self.has_ended_within(PAUSE)? {
            bail!("it ended: {}", cause_in(&self.tail.text()));
        }
        Ok(is_ready)
    }

    /// Also takes what it says, and comes back early for that.
    fn has_ended_within(&mut self, time: Duration) -> anyhow::Result<bool> {
        let mut fds = [
            PollFd::new(&self.pidfd, PollFlags::IN),
            PollFd::new(&self.said, PollFlags::IN),
        ];
        let time = Timespec::try_from(time).context("host: cannot tell a time")?;
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("host: cannot watch a process"),
        }
        let has_ended = !fds[0].revents().is_empty();
        self.tail.take_from(&mut self.said);
        Ok(has_ended)
    }

    /// Tells it something.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        pidfd_send_signal(&self.pidfd, signal).context("host: cannot send a signal to the server")
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let _ = pidfd_send_signal(&self.pidfd, Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if self.has_ended_within(GRACE)? {
                break;
            }
        }
        // It may have ended by now, which is as good.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        self.process
            .wait()
            .context("host: cannot wait for a process")?;
        Ok(())
    }

    /// The last that it said, for who wants to know why a client failed.
    pub(crate) fn last_words(&mut self) -> String {
        self.tail.take_from(&mut self.said);
        cause_in(&self.tail.text())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nothing is left to do where it cannot be ended.
        let _ = self.end();
    }
}

impl Answer {
    /// Whether the server answers now, as it should.
    pub(crate) fn is_given(&self) -> anyhow::Result<bool> {
        match &self.namespace {
            None => Ok(self.ask().is_ok_and(|is_right| is_right)),
            Some(namespace) => {
                let namespace = File::open(namespace).context("host: a namespace is gone")?;
                self.ask_from(namespace.as_fd())
            }
        }
    }

    /// By a thread: a namespace cannot be left for one that belongs to somebody else.
    fn ask_from(&self, namespace: rustix::fd::BorrowedFd<'_>) -> anyhow::Result<bool> {
        let ask = || {
            move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
                .context("host: cannot enter a network namespace")?;
            Ok(self.ask().is_ok_and(|is_right| is_right))
        };
        let asked = thread::scope(|scope| scope.spawn(ask).join());
        asked.unwrap_or_else(|_| bail!("wall: the thread that asks failed"))
    }

    fn ask(&self) -> std::io::Result<bool> {
        let mut answer = vec![0; self.answer.len().max(1)];
        let length = match self.transport {
            Transport::Tcp => self.ask_by_stream(&mut answer)?,
            Transport::Udp => self.ask_by_datagram(&mut answer)?,
        };
        Ok(length > 0 && answer.starts_with(self.answer))
    }

    fn ask_by_stream(&self, answer: &mut [u8]) -> std::io::Result<usize> {
        let mut stream = TcpStream::connect_timeout(&self.address, ANSWER_TIME)?;
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        stream.set_write_timeout(Some(ANSWER_TIME))?;
        stream.write_all(self.question)?;
        stream.read_exact(answer)?;
        Ok(answer.len())
    }

    /// A datagram may be lost.
    fn ask_by_datagram(&self, answer: &mut [u8]) -> std::io::Result<usize> {
        const SHORT: Duration = Duration::from_millis(100);
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let socket = UdpSocket::bind(any)?;
        socket.connect(self.address)?;
        socket.set_read_timeout(Some(SHORT))?;
        socket.send(self.question)?;
        socket.recv(answer)
    }
}

#[cfg(test)]
mod tests;
