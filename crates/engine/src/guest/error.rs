//! What can go wrong, and how a call ends that the guest did not finish.

use super::limits::OverLimit;
use crate::ended::{describe, signal};
use palisade_wall::{Ending, Exit};
use std::fmt;
use wasmtime::{PoolConcurrencyLimitError, Trap};

/// SIGKILL: what a limit of the process wall ends a guest by.
const KILL: u8 = 9;

/// A guest can't be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is no module, or uses what no guest here may.
    #[error("guest: the module can't be compiled: {0:#}")]
    Compile(#[source] wasmtime::Error),
    /// The code is no compiled module of this version and these settings.
    #[error("host: the compiled code does not fit this engine; compile the module anew: {0:#}")]
    Stale(#[source] wasmtime::Error),
    /// The file of compiled code can't be opened.
    #[error(transparent)]
    Open(#[from] palisade_wasm::launch::StartError),
    /// It imports what the host has not registered.
    #[error("guest: it imports {name:?} of {module:?}, which the host does not register")]
    Import {
        /// The import's module.
        module: String,
        /// The import's name.
        name: String,
    },
    /// It imports something under another type than the host registered.
    #[error("guest: an import is of another type than the host's: {0:#}")]
    ImportType(#[source] wasmtime::Error),
    /// It can't even begin within its limits.
    #[error("policy: the guest begins with {needed} {of}, its limit is {limit}: raise the limit")]
    Limit {
        /// What is limited, and in which unit.
        of: &'static str,
        /// What the guest begins with.
        needed: u64,
        /// What it may have.
        limit: u64,
    },
    /// A limit is more than any instance of the engine can have.
    #[error(
        "policy: a limit of {limit} {of} is more than the engine's {most}: make an engine with larger options"
    )]
    Engine {
        /// What is limited, and in which unit.
        of: &'static str,
        /// What was asked for.
        limit: usize,
        /// What the engine has for each instance.
        most: usize,
    },
    /// No engine can be made.
    #[error(
        "host: no engine can be made: {0:#}; fewer instances need less address space, and protection keys need a processor that has them"
    )]
    Pool(#[source] wasmtime::Error),
    /// No thread for the limit on time.
    #[error("host: no thread can be started to keep guests to their time: {0}")]
    Thread(#[source] std::io::Error),
    /// A host function is registered in a way that can't be.
    #[error("host: the function {name:?} of {module:?} can't be registered: {source:#}")]
    Register {
        /// The import's module.
        module: String,
        /// The import's name.
        name: String,
        /// Why.
        #[source]
        source: wasmtime::Error,
    },
}

/// A guest has no such function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// It exports nothing of this name, or no function.
    #[error("guest: it exports no function {name:?}; it exports {exports}")]
    Missing {
        /// The name asked for.
        name: String,
        /// The names that there are.
        exports: String,
    },
    /// The function has another type.
    #[error("host: {name:?} was asked for as {asked}, but the guest's is {found}")]
    Type {
        /// The function's name.
        name: String,
        /// The type asked for.
        asked: String,
        /// The type that it has.
        found: String,
    },
}

/// An access to a guest's memory from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The guest exports no memory under the name `memory`.
    #[error("guest: it exports no memory")]
    Missing,
    /// Outside of the memory.
    #[error("guest: {length} bytes at {at} are not within its memory of {memory_bytes} bytes")]
    Bounds {
        /// Where the access begins.
        at: u32,
        /// Its length, in bytes.
        length: usize,
        /// The memory's size.
        memory_bytes: usize,
    },
}

/// How a call ended that the guest did not finish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// What the same fault is behind the process wall: the signal of a trap; SIGKILL for a limit.
    pub exit: Exit,
    /// Who brought it about.
    pub ending: Ending,
    /// The fault and the functions that were running, the innermost first: `unreachable; at parse; at main`.
    pub message: String,
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.message)
    }
}

/// A call gave no result. The instance is gone where the guest was running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The guest was ended: it trapped, or met a limit.
    #[error("guest: the call was ended: {0}")]
    Ended(End),
    /// A host function said no, with this error.
    #[error("host: a host function ended the call: {0:#}")]
    HostFunction(#[source] wasmtime::Error),
    /// The function is another guest's.
    #[error("host: the function was looked up in another guest; ask this one for it")]
    OtherGuest,
    /// The instance was ended by an earlier call.
    #[error("host: the instance was ended by an earlier call; make a new one")]
    Gone,
    /// The calling thread has less stack left than a guest may use.
    #[error(
        "host: the thread has {left_bytes} bytes of stack left, a call needs {needed_bytes}: call from a thread with more, or make an engine with less `stack_bytes`"
    )]
    Stack {
        /// What is left.
        left_bytes: usize,
        /// What a guest may use, and what the host needs below it.
        needed_bytes: usize,
    },
    /// All slots of the engine are taken, or all memory of the pool.
    #[error("host: no instance can be made: {0:#}; drop some, or make an engine with more")]
    Full(#[source] wasmtime::Error),
}

impl CallError {
    /// Of an instance that did not come to be: where its owner's memory is in use, the guest has had no chance.
    #[cold]
    pub(super) fn of_start(error: wasmtime::Error) -> Self {
        match error.downcast_ref() {
            Some(OverLimit::Pool) => Self::Full(error),
            _ => Self::of(error),
        }
    }

    #[cold]
    pub(super) fn of(error: wasmtime::Error) -> Self {
        let (exit, ending) = match (error.downcast_ref::<OverLimit>(), error.downcast_ref()) {
            (Some(_), _) => (Exit::Signal(KILL), Ending::MemoryLimit),
            (None, Some(Trap::Interrupt)) => (Exit::Signal(KILL), Ending::TimeLimit),
            (None, Some(trap)) => (Exit::Signal(signal(*trap) as u8), Ending::Guest),
            (None, None) if error.is::<PoolConcurrencyLimitError>() => return Self::Full(error),
            (None, None) => return Self::HostFunction(error),
        };
        Self::Ended(End {
            exit,
            ending,
            message: describe(&error),
        })
    }
}
