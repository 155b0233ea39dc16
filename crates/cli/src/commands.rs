//! One module a verb.

mod explain;
mod run;

use crate::args::Command;
use palisade_process::Launcher;

/// Does what was asked for; gives the exit code.
pub(crate) fn perform(command: Command, early: Option<Launcher>) -> anyhow::Result<u8> {
    match command {
        Command::Run(args) => run::run(args, early),
        Command::Explain(args) => explain::explain(args),
    }
}
