//! Run code you do not trust behind the thinnest wall that holds it, from inside your own program.
//!
//! [`Domain::builder`] works like [`std::process::Command`]: name a program, grant what it may
//! reach, limit what it may use, run it to its [`Report`], or [spawn](Builder::spawn) it and wait. Everything is denied that is not
//! granted, and a limit or wall that this machine can't enforce is an error, never a shrug.
//!
//! ```no_run
//! use palisade::Domain;
//! use std::time::Duration;
//!
//! let report = Domain::builder("python3")
//!     .arg("/work/job.py")
//!     .read_as("/srv/jobs/17", "/work")
//!     .write("/srv/results/17")
//!     .memory(512 << 20)
//!     .time(Duration::from_secs(10))
//!     .run()?;
//! println!("{} after {} µs of processor time", report.exit, report.usage.user_us);
//! # Ok::<(), palisade::Error>(())
//! ```
//!
//! It is synchronous and brings no runtime. A big multi-threaded host is never forked: a small
//! keeper process, started with the first domain, makes the domains and ends them should the host
//! die. Domains end with their [`Domain`] value.
//!
//! Starting many domains of one kind? Keep a [`Launcher`] that parks the next one ahead: see
//! [`Builder::launcher`], and [`Builder::prepare`] where they differ in nothing.
//!
//! Calling plugins rather than running programs? With the feature `wasm`, `palisade::wasm` has WebAssembly
//! guests inside your own process, for calls that take nanoseconds.

#![forbid(unsafe_code)]

mod domain;
mod error;
mod stdio;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use domain::{Builder, Domain, Output, Prepared};
pub use error::Error;
pub use palisade_policy::{Capability, ConnectGrant, ListenGrant, Policy, Profile};
pub use palisade_process::{Launcher, Machine};
pub use palisade_wall::{
    Cause, Denial, Ending, Enforcement, Error as WallError, Exit, Level, Phase, Plan, Process,
    Report, Usage, View,
    ask::{Question, Verdict},
};
pub use stdio::Stdio;
