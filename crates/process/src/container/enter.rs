//! A further process in a container that runs.

use super::{
    ContainerError, Process, Terminal,
    create::{First, Given, failure},
    encode::Encoder,
    namespaces::Namespaces,
};
use crate::wire::container;
use std::os::fd::OwnedFd;

/// A process that runs its program. It is this process's child.
#[derive(Debug)]
pub struct Entered {
    /// On the host.
    pub pid: u32,
    /// The other end of its terminal.
    pub terminal: Option<OwnedFd>,
}

/// Starts a process in the namespaces of the process `pid`. It becomes a child of this process.
///
/// # Errors
///
/// When the container is gone, or the program cannot be executed.
pub fn enter(
    pid: u32,
    process: &Process,
    terminal: Option<Terminal>,
    given: Given<'_>,
) -> Result<Entered, ContainerError> {
    let namespaces = Namespaces::of_process(pid)?;
    let mut encoder = Encoder::new(&given.streams, given.groups);
    encoder.entrant(process, terminal);
    let message = encoder.finish();
    let first = First::make(&namespaces, container::ENTRANT)?;
    first.send(&message)?;
    let mut master = None;
    loop {
        match first.hear()? {
            Some((record, fd)) if record.kind == container::PAUSED => master = fd,
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
