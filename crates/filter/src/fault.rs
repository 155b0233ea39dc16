//! Why a module is no filter, and how an instance comes to its end.

use palisade_engine::guest::{self, CallError, End, FunctionError};
use palisade_wall::Ending;
use std::{borrow::Cow, fmt};

/// A module is no filter.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It can't be run at all.
    #[error(transparent)]
    Guest(#[from] guest::LoadError),
    /// It does not say which version of the ABI it is made for.
    #[error(
        "guest: it is no proxy-wasm filter: it exports no `proxy_abi_version_0_2_1`, `…_0_2_0` or `…_0_1_0`"
    )]
    NoVersion,
    /// It has no allocator, which everything needs that the host gives it.
    #[error("guest: it exports neither `proxy_on_memory_allocate` nor `malloc`")]
    NoAllocator,
    /// A callback has parameters or results of its own.
    #[error("guest: a callback is not as proxy-wasm has it: {0}")]
    Callback(#[source] FunctionError),
}

/// An instance was ended, or never began: it is called no more. Exchanges can be taken out of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("guest: {kind} in {callback}: {message}")]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// The callback that was under way.
    pub callback: &'static str,
    /// What happened, and the functions that were running, the innermost first.
    pub message: Cow<'static, str>,
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The guest trapped.
    Trap,
    /// A callback took more than its time.
    Time,
    /// The guest asked for more memory than it may have.
    Memory,
    /// The guest ended itself: `proc_exit`, `abort`.
    Exit,
    /// The guest said that it can't start with this configuration.
    Refused,
    /// The host has no instance left, or too little stack: not the guest's fault.
    Host,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Trap => "a trap",
            Self::Time => "out of time",
            Self::Memory => "out of memory",
            Self::Exit => "it ended itself",
            Self::Refused => "it refused to start",
            Self::Host => "the host could not go on",
        })
    }
}

/// A guest's own end, passed through the engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Exited(pub(crate) String);

impl Fault {
    #[cold]
    pub(crate) fn new(
        kind: FaultKind,
        callback: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            kind,
            callback,
            message: message.into(),
        }
    }

    #[cold]
    pub(crate) fn of(error: CallError, callback: &'static str) -> Self {
        // One that a guest's allocator met while a host function called it.
        let error = match error {
            CallError::HostFunction(error) => match error.downcast::<CallError>() {
                Ok(inner) => return Self::of(inner, callback),
                Err(error) => CallError::HostFunction(error),
            },
            error => error,
        };
        let kind = match &error {
            CallError::Ended(End { ending, .. }) => match ending {
                Ending::TimeLimit => FaultKind::Time,
                Ending::MemoryLimit => FaultKind::Memory,
                _ => FaultKind::Trap,
            },
            CallError::HostFunction(error) if error.is::<Exited>() => FaultKind::Exit,
            _ => FaultKind::Host,
        };
        let message = match error {
            CallError::Ended(end) => end.message,
            CallError::HostFunction(error) => match error.downcast::<Exited>() {
                Ok(Exited(text)) => text,
                Err(error) => format!("{error:#}"),
            },
            error => error.to_string(),
        };
        Self::new(kind, callback, message)
    }
}
