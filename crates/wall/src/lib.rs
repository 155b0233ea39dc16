//! What every wall has in common.
//!
//! A [`Wall`] turns a policy and a command into a plan (pure data, printable) and a plan into a
//! [`Domain`] (a running guest). However a guest ends, the domain gives a [`Report`]: a guest's end
//! is never an error of palisade's.
//!
//! This crate knows no mechanism. [`mock`] is a wall of plain data for tests of whatever drives walls.

mod exit;
pub mod mock;
mod report;

pub use exit::{Ending, Exit};
pub use report::{
    Denial, Enforcement, Level, Phase, Process, REPORT_VERSION, Report, Usage, report_schema,
};

use palisade_policy::Policy;
use serde::Serialize;
use std::{ffi::OsString, fmt::Display};

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

/// A mechanism around guests.
pub trait Wall {
    /// What this wall would do: pure data, for people by `Display` and for programs by `Serialize`.
    type Plan: Display + Serialize;
    /// A running guest.
    type Domain: Domain<Error = Self::Error>;
    /// What can go wrong that is not the guest's end.
    type Error: std::error::Error;

    /// Works out every step that this policy means on this machine. Changes nothing.
    ///
    /// # Errors
    ///
    /// When the policy names what does not exist, or asks for what can't be enforced here.
    fn plan(&self, policy: &Policy, command: &Command) -> Result<Self::Plan, Self::Error>;

    /// Carries a plan out, with this process's standard streams for the guest.
    ///
    /// # Errors
    ///
    /// When a step fails; nothing of the domain is left behind then.
    fn launch(&self, plan: &Self::Plan) -> Result<Self::Domain, Self::Error>;
}

/// A guest behind a wall.
pub trait Domain {
    /// See [`Wall::Error`].
    type Error;

    /// Waits for the guest's end.
    ///
    /// # Errors
    ///
    /// When the wall itself failed while the guest ran; the guest is ended then.
    fn wait(self) -> Result<Report, Self::Error>;

    /// Sends the guest's process group a signal, by its number.
    ///
    /// # Errors
    ///
    /// When the domain can't be reached any more.
    fn signal(&self, number: i32) -> Result<(), Self::Error>;
}
