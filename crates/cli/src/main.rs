//! The `palisade` command.
//!
//! `palisade run` starts making the domain before it even reads its flags: see [`early`].

// Rust's own would read `/proc/self/maps` for a handler of overflowing stacks, while somebody waits for a guest.
#![cfg_attr(not(test), no_main)]

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

/// What the command does, and its exit code.
fn run() -> u8 {
    let early = early::launcher();
    let arguments = match args::Arguments::read() {
        Ok(arguments) => arguments,
        Err(error) => return print_usage(&error),
    };
    match commands::perform(arguments.command, early) {
        Ok(code) => code,
        Err(error) => {
            say::error(&error);
            say::exit_code(&error)
        }
    }
}

/// Help goes to stdout and is a success; anything else is palisade's refusal.
fn print_usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    match error.kind() {
        // Nothing was typed: the whole help says more than a line.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
        _ => say::line(&usage::describe(
            error,
            std::env::args_os().nth(1).as_deref(),
        )),
    }
    FAILED
}
