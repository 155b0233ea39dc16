//! What is asked for at the door of a container's keeper, by whoever may trace it.

use super::{
    ContainerError,
    create::{failure, send},
};
use crate::{
    record::{receive_record, record_bytes},
    wire::{self, container},
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt},
    process::{Pid, PidfdFlags, PidfdGetfdFlags},
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, OwnedFd},
};

/// Starts the program of the container whose keeper has this pid. `is_it` is asked once the keeper is held, so that no other
/// process is taken for it.
///
/// # Errors
///
/// When it does not run any more, or its program cannot be executed.
pub fn start(keeper: u32, is_it: &dyn Fn() -> bool) -> Result<(), ContainerError> {
    match ask(keeper, is_it, container::START)? {
        Some((record, _)) if record.kind == container::STARTED => Ok(()),
        Some((record, _)) => Err(failure(&record, None, None)),
        None => Err(ContainerError::Gone),
    }
}

/// The namespaces that its container is in, each with its `CLONE_NEW*`.
pub(super) fn namespaces(
    keeper: u32,
    is_it: &dyn Fn() -> bool,
) -> Result<Vec<(u64, OwnedFd)>, ContainerError> {
    match ask(keeper, is_it, container::NAMESPACES)? {
        Some((record, fds)) if record.kind == container::NAMESPACES => {
            Ok(record.words[1..].iter().copied().zip(fds).collect())
        }
        _ => Err(ContainerError::Gone),
    }
}

fn ask(
    keeper: u32,
    is_it: &dyn Fn() -> bool,
    kind: u64,
) -> Result<Option<(wire::Record, VecDeque<OwnedFd>)>, ContainerError> {
    let door = door_of(keeper, is_it)?;
    let (session, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(ContainerError::Talk)?;
    send(&door, &record_bytes(kind, &[]), &[theirs.as_fd()])?;
    drop(theirs);
    match receive_record(session.as_fd()) {
        Err(Errno::CONNRESET) => Ok(None),
        heard => heard.map_err(ContainerError::Talk),
    }
}

fn door_of(keeper: u32, is_it: &dyn Fn() -> bool) -> Result<OwnedFd, ContainerError> {
    let pid = i32::try_from(keeper).ok().and_then(Pid::from_raw);
    let process =
        rustix::process::pidfd_open(pid.ok_or(ContainerError::Gone)?, PidfdFlags::empty())
            .map_err(|_| ContainerError::Gone)?;
    if !is_it() {
        return Err(ContainerError::Gone);
    }
    let door = rustix::process::pidfd_getfd(&process, wire::DOOR, PidfdGetfdFlags::empty())
        .map_err(|errno| match errno {
            Errno::SRCH | Errno::BADF => ContainerError::Gone,
            errno => ContainerError::Shut(errno),
        })?;
    match sockopt::socket_type(&door) {
        Ok(SocketType::SEQPACKET) => Ok(door),
        _ => Err(ContainerError::Gone),
    }
}
