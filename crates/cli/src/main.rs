//! The `palisade` command.
//!
//! `palisade run` starts making the domain before it even reads its flags: namespaces take the
//! kernel longer than flags take us.

mod args;
mod commands;
mod policy_args;
mod say;

use clap::Parser;
use palisade_process::{Launcher, Machine};
use std::process::ExitCode;

/// Exit code for everything that is palisade's refusal or failure, not the guest's end.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    // Not a reason to fail: whoever needs the launcher asks for it again and gets the error.
    let early = starts_a_guest().then(|| Launcher::start(Machine::probe()).ok()).flatten();
    let arguments = match args::Arguments::try_parse() {
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
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}
