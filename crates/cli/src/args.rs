//! What can be typed.

use crate::policy_args::PolicyArgs;
use clap::{Args, Parser, Subcommand};
use std::{ffi::OsString, path::PathBuf};

/// Run code you do not trust behind the thinnest wall that holds it.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program behind the wall
    Run(RunArgs),
    /// Print what `run` would do, without doing it
    Explain(ExplainArgs),
}

/// `palisade run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Write a report in JSON to FILE, or to stdout
    #[arg(long, value_name = "FILE|-", help_heading = "Report")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
}

/// `palisade explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
}

/// The program to run.
#[derive(Debug, Args)]
pub(crate) struct GuestArgs {
    /// The program: a path, or a name looked up in the guest's PATH
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: OsString,
    /// Its arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

impl From<GuestArgs> for palisade_wall::Command {
    fn from(guest: GuestArgs) -> Self {
        Self { program: guest.program, arguments: guest.arguments }
    }
}
