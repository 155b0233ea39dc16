//! The `palisade` command.
//!
//! `palisade run` starts making the domain before it even reads its flags: see [`early`].

mod args;
mod beside;
mod commands;
mod denial;
mod early;
mod foreign;
mod help;
mod say;
mod shell;
mod usage;

use clap::error::ErrorKind;
use palisade_command_line::FAILED;
use std::process::ExitCode;

fn main() -> ExitCode {
    let early = early::launcher();
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

/// Help goes to stdout and is a success; anything else is palisade's refusal.
fn print_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    match error.kind() {
        // Nothing was typed: the whole help says more than a line.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
        _ => say::line(&usage::describe(
            error,
            std::env::args_os().nth(1).as_deref(),
        )),
    }
    ExitCode::from(FAILED)
}
