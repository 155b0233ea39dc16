//! Who is asked about what no grant covers: the person at the terminal, a program, or whoever listens at a socket.

use super::question::Desk;
use crate::{args::AskArgs, denial, say};
use anyhow::Context;
use palisade_wall::{Granted, Report, ask::Verdict};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::{
    ffi::OsString,
    io::{Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, Command, Stdio},
};

/// Whoever answers, ready before the guest is.
pub(super) struct Asker {
    /// Where the wall asks.
    channel: OwnedFd,
    program: Option<Child>,
    keeper: Option<AnswerKeeper>,
}

impl Asker {
    /// `None` where nobody is to be asked. With a desk where it is the person at the terminal.
    pub(super) fn begin(
        args: &AskArgs,
        asked: Option<&Path>,
        policy: Option<&Path>,
    ) -> anyhow::Result<Option<(Self, Option<Desk>)>> {
        if !args.is_wanted() {
            return Ok(None);
        }
        let (mut program, mut desk) = (None, None);
        let channel = if let Some(path) = &args.ask_socket {
            connect_local(path)
                .with_context(|| {
                    format!(
                        "host: nobody answers at {}: begin what listens there first",
                        path.display()
                    )
                })?
                .into()
        } else {
            let (ours, theirs) = UnixStream::pair().context("host: cannot make a socket")?;
            match asked {
                Some(path) => program = Some(start(path, theirs.into())?),
                None => desk = Some(Desk::open(theirs, policy)?),
            }
            ours.into()
        };
        let keeper = policy.map(AnswerKeeper::start).transpose()?;
        let asker = Self {
            channel,
            program,
            keeper,
        };
        Ok(Some((asker, desk)))
    }

    pub(super) fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Writes down what is to be granted always.
    pub(super) fn finish(mut self, report: &Report) -> anyhow::Result<()> {
        match self.keeper.take() {
            Some(keeper) => keeper.finish(report),
            None => {
                advise(report);
                Ok(())
            }
        }
    }
}

/// What was taken back since is not.
fn is_to_be_kept(granted: &Granted) -> bool {
    granted.verdict == Some(Verdict::Always) && granted.revoked_at_us.is_none()
}

/// What is to be granted always, where no policy is there to write it to.
fn advise(report: &Report) {
    let granted = report.granted.iter();
    let always = granted.filter(|granted| is_to_be_kept(granted));
    let flags: Vec<_> = always.map(|granted| denial::flag(&granted.grant)).collect();
    if !flags.is_empty() {
        say::line(&format!(
            "note: to be granted always, and not written to a policy: {}",
            flags.join(" ")
        ));
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if let Some(program) = &mut self.program {
            // It may have ended.
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Without waiting for one who takes nobody.
pub(super) fn connect_local(path: &Path) -> std::io::Result<UnixStream> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Questions are its input and answers its output. Keys of the terminal that end or stop the guest are not for it.
fn start(path: &Path, channel: OwnedFd) -> anyhow::Result<Child> {
    let input = channel.try_clone().context("host: cannot copy a socket")?;
    Command::new(path)
        .stdin(input)
        .stdout(channel)
        .process_group(0)
        .spawn()
        .with_context(|| format!("usage: cannot execute {}", path.display()))
}

/// Writes grants to the policy when the guest has ended: palisade itself may not, once it runs. It is a process that is begun
/// before, and waits for the report.
struct AnswerKeeper(Child);

impl AnswerKeeper {
    fn start(policy: &Path) -> anyhow::Result<Self> {
        let mut apply = OsString::from("--apply=");
        apply.push(policy);
        let command = Command::new("/proc/self/exe")
            .args(["why", "-", "--yes"])
            .arg(apply)
            .stdin(Stdio::piped())
            // In the background, where a terminal may stop who writes to it.
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        command
            .map(Self)
            .context("host: cannot begin what writes answers to the policy")
    }

    /// What cannot be written is told: the guest has ended as it has.
    fn finish(mut self, report: &Report) -> anyhow::Result<()> {
        let mut kept = report.clone();
        kept.denials.clear();
        kept.granted.retain(is_to_be_kept);
        let (input, output) = (self.0.stdin.take(), self.0.stderr.take());
        let Some((mut input, mut output)) = input.zip(output).filter(|_| !kept.granted.is_empty())
        else {
            return Ok(());
        };
        let text = serde_json::to_string(&kept)?;
        let written = input.write_all(text.as_bytes());
        drop(input);
        let mut said = String::new();
        let _ = output.read_to_string(&mut said);
        for line in said.lines() {
            say::line(line.strip_prefix("palisade: ").unwrap_or(line));
        }
        let ended = self.0.wait().context("host: lost what writes answers")?;
        if written.is_err() || !ended.success() {
            advise(report);
        }
        Ok(())
    }
}

impl Drop for AnswerKeeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
