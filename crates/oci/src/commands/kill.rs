//! `kill`: a signal for a container's program.

use super::signal;
use crate::{
    cli::{self, Global},
    state::{Folder, State},
};
use anyhow::{Context, bail};
use palisade_process::container::{Identity, Status};
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal},
};
use std::os::fd::OwnedFd;

pub(super) fn run(global: &Global, asked: &cli::Kill) -> anyhow::Result<()> {
    let number = signal::number(&asked.signal)?;
    let state = Folder::of(global, &asked.id)?.read()?;
    if asked.all {
        return to_all(&state, number);
    }
    if state.status() == Status::Stopped {
        bail!("policy: container not running");
    }
    send_number(&state, number)
}

/// Init hands a signal on to the program; SIGKILL ends it and with it all of the container.
pub(super) fn send(state: &State, signal: Signal) -> anyhow::Result<()> {
    send_number(state, signal.as_raw())
}

fn send_number(state: &State, number: i32) -> anyhow::Result<()> {
    let init = state.init.context("policy: container not running")?;
    let process = hold(&init)?;
    match crate::sys::send_signal(&process, number) {
        Ok(()) => {}
        Err(Errno::SRCH) => bail!("policy: container not running"),
        Err(errno) => bail!("host: cannot send the signal: {errno}"),
    }
    // What is frozen hears of its end when it goes on.
    if number == Signal::KILL.as_raw() && state.groups.is_frozen() {
        state.groups.freeze(false)?;
    }
    Ok(())
}

/// A descriptor of the process that was the container's first, and of no later one of its pid.
pub(super) fn hold(init: &Identity) -> anyhow::Result<OwnedFd> {
    let pid = i32::try_from(init.pid).ok().and_then(Pid::from_raw);
    let pid = pid.context("policy: container not running")?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        .map_err(|_| anyhow::anyhow!("policy: container not running"))?;
    match init.runs() {
        true => Ok(process),
        false => bail!("policy: container not running"),
    }
}

/// All of its processes, where groups tell which they are.
fn to_all(state: &State, number: i32) -> anyhow::Result<()> {
    let pids = state.groups.processes()?;
    if pids.is_empty() && state.status() != Status::Stopped {
        return send_number(state, number);
    }
    for pid in pids {
        if let Some(pid) = Pid::from_raw(pid as i32)
            && let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        {
            let _ = crate::sys::send_signal(&process, number);
        }
    }
    Ok(())
}
