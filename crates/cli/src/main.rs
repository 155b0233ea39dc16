//! The `palisade` command.
//!
//! `palisade run` starts making the domain before it even reads its flags: namespaces take the
//! kernel longer than flags take us.

mod args;
mod beside;
mod commands;
mod denial;
mod foreign;
mod help;
mod say;
mod shell;
mod usage;

use clap::error::ErrorKind;
use palisade_command_line::FAILED;
use palisade_policy::Capability;
use palisade_process::{Launcher, plan::forbids_early_start};
use std::{ffi::OsStr, process::ExitCode};

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

/// Whether it does, and no flag forbids that it begins before all of them are read.
fn starts_a_guest() -> bool {
    let mut words = std::env::args_os().skip(1);
    words.next().is_some_and(|verb| verb == "run")
        && !words
            .take_while(|word| word != "--")
            .any(|word| limit_of(&word).is_some_and(forbids_early_start))
}

/// What a flag that has the name of a limit bounds.
fn limit_of(word: &OsStr) -> Option<Capability> {
    let flag = word.as_encoded_bytes().strip_prefix(b"--")?;
    let name = flag.split(|byte| *byte == b'=').next()?;
    let mut all = Capability::ALL.iter().copied();
    all.find(|capability| capability.name().as_bytes() == name)
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
