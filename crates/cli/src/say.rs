//! The one door to stdout and stderr, and the exit code that goes with what is said.
//!
//! Paths, policies, programs and guests choose part of nearly everything that is said. Nothing leaves here
//! that a terminal would act on, whether or not there is one: what is kept in a file is shown later. Only
//! what a guest itself prints passes as it is, by the relay.

use crate::denial;
use anyhow::Context;
use palisade_lab::cost::CommandError;
use palisade_policy::{PolicyError, TomlError, visible, visible_json, visible_lines};
use palisade_wall::{Cause, Ending, Error, Exit, Report};
use serde::Serialize;
use std::io::Write;

/// Prints a line on stderr, if there is still somebody to read it: a terminal that is gone is no
/// reason to fail.
pub(crate) fn line(text: &str) {
    write_stderr(&visible(text));
}

/// The same for what shows an excerpt of a file, and quotes the rest itself.
pub(crate) fn lines(text: &str) {
    write_stderr(&visible_lines(text));
}

fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(format!("palisade: {text}\n").as_bytes());
}

/// Prints lines on stdout; `what` they are is for the error.
pub(crate) fn print(text: &str, what: &str) -> anyhow::Result<u8> {
    print_own(visible_lines(text).as_bytes(), what)
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize, what: &str) -> anyhow::Result<u8> {
    print_own(json(value)?.as_bytes(), what)
}

/// A value as JSON that can be shown.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(visible_json(&text).into_owned() + "\n")
}

/// Prints what nobody but palisade has written.
pub(crate) fn print_own(bytes: &[u8], what: &str) -> anyhow::Result<u8> {
    let printed = std::io::stdout().write_all(bytes);
    printed.with_context(|| format!("host: cannot print {what}"))?;
    Ok(0)
}

/// Prints why palisade refused or failed. Causes that are not in the message follow it.
pub(crate) fn error(error: &anyhow::Error) {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    let shows_a_file = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<TomlError>() || matches!(cause.downcast_ref(), Some(PolicyError::Toml(_)))
    };
    let shows_a_file = error.chain().any(shows_a_file);
    match shows_a_file {
        true => lines(&line),
        false => self::line(&line),
    }
}

/// 126 and 127 are the guest's program that can't be executed or found, as in every shell; 124 is the limit
/// on time, which compiling may have used up.
pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    let cause = error.downcast_ref::<Error>().map(Error::cause);
    let looked_up = error.downcast_ref::<CommandError>();
    match (cause, looked_up) {
        (Some(Cause::TimeLimit), _) => Ending::TimeLimit.shell_code(Exit::Code(0)),
        (Some(Cause::NotFound), _) | (_, Some(CommandError::NotFound { .. })) => 127,
        (Some(Cause::CannotExecute), _) | (_, Some(CommandError::CannotExecute { .. })) => 126,
        _ => crate::FAILED,
    }
}

/// Prints why the guest ended, where its own output can't have told.
pub(crate) fn ending(report: &Report) {
    let line = match report.ending {
        Ending::TimeLimit => "limit: the guest ran longer than --time allows",
        Ending::CpuTimeLimit => "limit: the guest used more processor time than --cpu-time allows",
        Ending::OutputLimit => "limit: the guest wrote more than --output allows",
        Ending::MemoryLimit => "limit: the guest used more memory than --memory allows",
        Ending::Unprotected => return unprotected(report),
        Ending::Guest | Ending::Supervisor => return by_itself(report),
    };
    self::line(&format!("{line}; raise it if that was meant"));
}

/// Prints which limits a guest that failed by itself ran into, where a mechanism can tell: programs report these
/// as riddles, if at all.
pub(crate) fn limits(report: &Report) {
    if report.ending == Ending::Guest && report.exit_code != 0 {
        reached(report).iter().for_each(|text| line(text));
    }
}

fn reached(report: &Report) -> Vec<String> {
    let limits = report.denials.iter().filter_map(|denial| {
        let flag = denial.grant.as_deref()?;
        let is_known = ["--memory", "--processes", "--tmp-size"].contains(&flag);
        is_known.then(|| {
            let times =
                denial::times(denial).map_or_else(String::new, |times| format!(", {times}"));
            format!(
                "limit: the guest wanted {} than {flag} allows{times}; raise it if that was meant",
                denial.what
            )
        })
    });
    limits.collect()
}

fn unprotected(report: &Report) {
    let path = visible(report.lost.as_deref().unwrap_or("a protected path"));
    let of_git = match path.split('/').any(|name| name == ".git") {
        true => {
            ". What git executes is guarded unasked: --no-guard (guard = false) leaves it to the guest"
        }
        false => "",
    };
    line(&format!(
        "host: {path} was moved, replaced or removed outside, which takes its protection away, and the guest was ended; look \
         at what is there now. What lies in a protected folder may be replaced: protect the folder, or grant it with --read{of_git}"
    ));
}

fn by_itself(report: &Report) {
    match &report.trap {
        Some(trap) => line(&format!("guest: trap: {trap}")),
        None => by_signal(report),
    }
}

fn by_signal(report: &Report) {
    // Asked for from outside or by the end of a pipeline: nobody wonders about these.
    const EXPECTED: [u8; 4] = [1, 2, 13, 15];
    let Exit::Signal(signal) = report.exit else {
        return;
    };
    if EXPECTED.contains(&signal) {
        return;
    }
    let name = signal_name(signal);
    match signal {
        31 => line(&format!(
            "guest: ended by {name}: it made a system call of another architecture (32-bit)"
        )),
        25 => line("limit: the guest wrote a file larger than --file-size allows"),
        24 => line("limit: a process used more processor time than --cpu-time allows"),
        _ => line(&format!("guest: ended by {name}")),
    }
}

/// `SIGSEGV`, or the number where it has no name.
pub(crate) fn signal_name(number: u8) -> String {
    let name = signal_hook::low_level::signal_name(number.into());
    name.map_or_else(|| format!("signal {number}"), ToOwned::to_owned)
}
