//! The `palisade` command.
//!
//! `palisade run` starts making the domain before it even reads its flags: namespaces take the
//! kernel longer than flags take us.

mod args;
mod commands;
mod denial;
mod help;
mod peer_args;
mod policy_args;
mod progress;
mod read;
mod say;
mod usage;

use clap::error::ErrorKind;
use palisade_process::Launcher;
use std::process::ExitCode;

/// Exit code for everything that is palisade's refusal or failure, not the guest's end.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    // Not a reason to fail: whoever needs the launcher asks for it again and gets the error.
    let early = starts_a_guest()
        .then(|| Launcher::for_one_guest().ok())
        .flatten();
    let arguments = match args::Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return print_usage(&error),
    };
    match commands::perform(arguments.command, early) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say::error(&error);
            ExitCode::from(say::exit_code(&error))
        }
    }
}

fn starts_a_guest() -> bool {
    std::env::args_os().nth(1).is_some_and(|verb| verb == "run")
}

/// Help goes to stdout and is a success; anything else is palisade's refusal.
fn print_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    match error.kind() {
        // Nothing was typed: the whole help says more than a line.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
        _ => say::line(&usage::describe(error)),
    }
    ExitCode::from(FAILED)
}
