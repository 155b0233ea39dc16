//! The `palisade` command.
//!
//! `palisade run` starts making the domain before it even reads its flags: namespaces take the
//! kernel longer than flags take us.

mod args;
mod commands;
mod denial;
mod foreign;
mod help;
mod say;
mod shell;
mod usage;

use clap::error::ErrorKind;
use palisade_command_line::FAILED;
use palisade_process::Launcher;
use std::{ffi::OsString, process::ExitCode};

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

/// Whether it does, and with a domain that can be made ahead: one with a limit on memory or processors
/// is born in its control group.
fn starts_a_guest() -> bool {
    let mut words = std::env::args_os().skip(1);
    let is_limit = |word: &OsString| {
        let flag = word.as_encoded_bytes().split(|byte| *byte == b'=').next();
        flag.is_some_and(|flag| flag == b"--memory" || flag == b"--cpu")
    };
    words.next().is_some_and(|verb| verb == "run")
        && !words
            .take_while(|word| word != "--")
            .any(|word| is_limit(&word))
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
