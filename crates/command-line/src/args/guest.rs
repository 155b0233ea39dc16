//! The program to run.

use clap::{Args, ValueHint};
use std::ffi::{OsStr, OsString};

// The program to run.
#[derive(Debug, Args)]
pub struct GuestArgs {
    // One list: with a positional of its own for the program, what looks like a flag of palisade
    // right after the program would be taken for one.
    /// A path, or a name looked up in the guest's PATH; then its own arguments
    #[arg(
        value_names = ["PROGRAM", "ARGS"],
        required = true,
        num_args = 1..,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

impl GuestArgs {
    /// As it was typed.
    pub fn program(&self) -> &OsStr {
        self.command
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str)
    }
}

impl From<GuestArgs> for palisade_wall::Command {
    fn from(guest: GuestArgs) -> Self {
        let mut words = guest.command.into_iter();
        Self {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
        }
    }
}
