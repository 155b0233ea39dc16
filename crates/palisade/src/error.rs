//! What can go wrong that is not the guest's end.

use palisade_policy::ValueError;
use palisade_wall::Error as WallError;

/// Palisade refused or failed. How a guest ended is never an error: it is in the
/// [`Report`](crate::Report).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A grant's path is not one.
    #[error("policy: {0}")]
    Grant(#[from] ValueError),
    /// The policy can't be carried out on this machine, or the program is none that a wall runs.
    #[error(transparent)]
    Plan(WallError),
    /// The guest could not be started. Nothing of the domain is left.
    #[error(transparent)]
    Launch(WallError),
    /// The wall failed while the guest ran. The guest is ended.
    #[error(transparent)]
    Domain(WallError),
    /// The guest cannot be granted that, or never was.
    #[error(transparent)]
    NotGranted(WallError),
    /// Nobody could be made to answer questions.
    #[error("host: cannot make a thread or a socket for questions: {0}")]
    Asks(#[source] std::io::Error),
    /// A standard stream could not be prepared or read.
    #[error("host: cannot prepare or read a standard stream: {0}")]
    Stream(#[from] std::io::Error),
    /// The guest would have read this process's terminal.
    #[error(
        "policy: stdin is a terminal, which a guest must not have: use Stdio::null() or Stdio::piped()"
    )]
    StdinIsTerminal,
    /// A stream goes where nobody counts, under a limit on output.
    #[error(
        "policy: `output` limits stdout and stderr together, and nobody counts what goes to {0}: give it Stdio::piped() or \
         Stdio::null(), or leave the limit out"
    )]
    OutputNotCounted(&'static str),
}
