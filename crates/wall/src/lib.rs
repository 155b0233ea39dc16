//! What every wall has in common.
//!
//! ```text
//!  Spec ──Wall::plan──▶ Plan ──prepare, launch──▶ Domain ──wait──▶ Report
//!   policy, command,     │ pure data                │ events, signals
//!   surroundings         └ View: what the guest     └ a guest's end is never an error
//!                          sees and can change
//! ```
//!
//! A front end makes a policy and a command; a [`Wall`] says whether the command is for it and makes the [`Plan`];
//! whoever drives them knows neither which wall it was nor how it works. This crate knows no mechanism: [`mock`] is a
//! wall of plain data for tests of whatever drives walls.

pub mod ask;
mod domain;
mod error;
mod exit;
pub mod journal;
pub mod mock;
mod plan;
mod process;
mod purpose;
mod report;
mod streams;
mod surroundings;

pub use domain::{Domain, Event, Freezer, InnerNetwork, MemoryMeter, TerminalPosition};
pub use error::{Cause, Error};
pub use exit::{Ending, Exit};
pub use plan::{ChromiumFlags, Plan, PlanResult, Prepared, Relied, Spec, View, Wall, WriteGrant};
pub use process::Process;
pub use purpose::Purpose;
pub use report::{
    Called, Denial, Enforcement, Granted, Had, HadFor, Level, Phase, REPORT_VERSION, Report, Usage,
    report_schema,
};
pub use streams::{Streams, Terminal};
pub use surroundings::{HandedListener, PASSED_ON, Surroundings};

use std::ffi::OsString;

/// A program and its arguments, as the user wrote them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program: a path, or a name that is looked up in the guest's `PATH`.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<OsString>,
}

impl Command {
    /// A command without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
        }
    }

    /// Program and arguments as one line for people, cut to the parts that are valid text.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(&self.program)
            .chain(&self.arguments)
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }
}
