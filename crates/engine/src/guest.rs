//! Guests inside this process: loaded once, called many times.
//!
//! ```text
//!  Engine ──compile──▶ Program ──link──▶ Guest ──instantiate──▶ Instance
//!  pool of slots       checked,           imports,               memory, tables,
//!  for instances       shared             limits                 globals
//! ```
//!
//! For plugins of a server: core modules that import nothing but what the host registers. A guest reaches
//! no file, socket, clock or environment of its own.
//!
//! # What holds a guest
//!
//! | a guest that | is held by |
//! |---|---|
//! | reads or writes past its memory | addresses of 32 bits within a reservation that they cannot leave, or bounds checks; memory protection keys beside it, where they are on |
//! | jumps somewhere | control flow of WebAssembly: functions and types are checked when it is compiled |
//! | loops | [`Limits::time`], by a counter that loops and functions look at |
//! | recurses | [`EngineOptions::stack_bytes`] |
//! | grows | [`Limits::memory_bytes`], [`Limits::table_elements`] |
//! | traps | its call ends; so does its instance |
//!
//! Each ends the *call*, with [`CallError::Ended`]; the next call gets a new instance. What nothing here
//! limits is time within host functions, and memory that these allocate for a guest.
//!
//! The first engine of a process takes over its handlers of SIGSEGV, SIGILL, SIGFPE and SIGBUS: some traps
//! are faults of the processor. Those that are no guest's go to the handlers that were there before.
//!
//! One wall only: who breaks out of the engine is in the host. Programs that need no call within a
//! microsecond belong behind `palisade run`, where the process wall stands round the engine.
//!
//! # Prices
//!
//! [`Isolation::Kept`] costs a call and no more; what a call leaves in memory, the next one finds.
//! [`Isolation::Fresh`] adds an instance's making and unmaking, a few µs for a small module, more for
//! each page that the call before wrote to. A time limit adds two atomic operations and a look at the clock to a call.
//! `benches/guest.rs` measures them.

mod engine;
mod error;
mod function;
mod imports;
mod instance;
mod limits;
mod linked;
mod program;
#[allow(
    unsafe_code,
    reason = "compiled code is loaded, which nothing but trust in its maker can check, and called by numbers whose types are checked once"
)]
mod sys;
mod ticker;

pub use crate::{growth::MemoryPool, sys::fill_randomly};
pub use engine::{Engine, EngineOptions, ProtectionKeys};
pub use error::{CallError, End, FunctionError, LoadError, MemoryError};
pub use function::Function;
pub use imports::{Caller, HostFunction, Imports};
pub use instance::{Calls, Instance};
pub use linked::{Guest, Linked};
pub use program::Program;
pub use sys::{Compiled, Values};
pub use ticker::{Running, Timer, stretch, tick_finely, ticked_ns};
pub use wasmtime::{Error as HostError, WasmRet, WasmTy};

use std::{sync::Arc, time::Duration};

/// What a call finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The instance that the call before left, with all that it wrote. The cheapest call.
    #[default]
    Kept,
    /// A new instance, which is given back after the call. Nothing of one call is left for another.
    Fresh,
}

/// Bounds of a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of an instance's memory and tables together.
    pub memory_bytes: usize,
    /// Elements of each table.
    pub table_elements: usize,
    /// Wall-clock time of one call, and as much again for an instance's start function. It is ended within
    /// 2 ms after that on a machine with a free processor. `None`: for ever.
    pub time: Option<Duration>,
    /// What all instances of one owner have their memory of, beside the bound of each.
    pub pool: Option<Arc<MemoryPool>>,
}

impl Default for Limits {
    /// 64 MiB, 10,000 elements, no bound on time.
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 10_000,
            time: None,
            pool: None,
        }
    }
}

/// How a guest is to be run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What a call finds.
    pub isolation: Isolation,
    /// Bounds of each instance and each call.
    pub limits: Limits,
}
