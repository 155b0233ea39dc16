//! A further process in a container that runs.

use super::{
    ContainerError, Process, Terminal,
    create::{First, Given, failure},
    encode::Encoder,
    namespaces::{Namespace, is_own},
    start,
};
use crate::wire::container;
use std::os::fd::{AsFd, OwnedFd};

/// A process that runs its program. It is this process's child.
#[derive(Debug)]
pub struct Entered {
    /// On the host.
    pub pid: u32,
    /// The other end of its terminal.
    pub terminal: Option<OwnedFd>,
}

/// Starts a process in the container whose keeper has this pid, of which `is_it` is asked as by [`super::start()`]. It becomes a
/// child of this process.
///
/// # Errors
///
/// When the container is gone, or the program cannot be executed.
pub fn enter(
    (keeper, is_it): (u32, &dyn Fn() -> bool),
    process: &Process,
    terminal: Option<Terminal>,
    given: Given<'_>,
) -> Result<Entered, ContainerError> {
    let mut joined = start::namespaces(keeper, is_it)?;
    let supervisor = joined
        .iter()
        .position(|(kind, _)| *kind == container::SUPERVISOR)
        .map(|at| joined.remove(at).1);
    // Every container has its files: without them it would be the host's.
    let has_files = |(kind, _): &(u64, OwnedFd)| *kind == Namespace::Mount.flag();
    if !joined.iter().any(has_files) {
        return Err(ContainerError::Gone);
    }
    joined.retain(|(kind, namespace)| !is_own(*kind, namespace));
    let supervisor = supervisor.as_ref().map(AsFd::as_fd);
    if process.asks.is_some() && supervisor.is_none() {
        return Err(ContainerError::Gone);
    }
    let mut encoder = Encoder::new(&given.streams, given.groups, supervisor);
    encoder.entrant(process, terminal)?;
    let message = encoder.finish();
    let first = First::enter(joined)?;
    first.send(&message)?;
    let mut master = None;
    loop {
        match first.hear()? {
            Some((record, mut fds)) if record.kind == container::PAUSED => master = fds.pop_front(),
            Some((record, _)) => {
                let program = process.arguments.first();
                return Err(failure(&record, None, program.map(String::as_str)));
            }
            // Its channel has closed with the execution. One that ended before it said so was ended by somebody.
            None => break,
        }
    }
    Ok(Entered {
        pid: first.leave(),
        terminal: master,
    })
}
