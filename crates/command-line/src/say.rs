//! The one door to stdout and stderr.
//!
//! Paths, policies, programs and guests choose part of nearly everything that is said. Nothing leaves here
//! that a terminal would act on, whether or not there is one: what is kept in a file is shown later. Only
//! what a guest itself prints passes as it is, by the relay.

use anyhow::Context;
use palisade_policy::{PolicyError, TomlError, visible, visible_json, visible_lines};
use serde::Serialize;
use std::io::Write;

/// Prints a line on stderr, if there is still somebody to read it: a terminal that is gone is no
/// reason to fail.
pub fn line(text: &str) {
    write_stderr(&visible(text));
}

/// The same for what shows an excerpt of a file, and quotes the rest itself.
pub fn lines(text: &str) {
    write_stderr(&visible_lines(text));
}

fn write_stderr(text: &str) {
    let _ = std::io::stderr().write_all(format!("palisade: {text}\n").as_bytes());
}

/// Prints lines on stdout; `what` they are is for the error.
pub fn print(text: &str, what: &str) -> anyhow::Result<u8> {
    print_own(visible_lines(text).as_bytes(), what)
}

/// Prints a value as JSON.
pub fn print_json(value: &impl Serialize, what: &str) -> anyhow::Result<u8> {
    print_own(json(value)?.as_bytes(), what)
}

/// A value as JSON that can be shown.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    Ok(visible_json(&text).into_owned() + "\n")
}

/// Prints what nobody but palisade has written.
pub fn print_own(bytes: &[u8], what: &str) -> anyhow::Result<u8> {
    let printed = std::io::stdout().write_all(bytes);
    printed.with_context(|| format!("host: cannot print {what}"))?;
    Ok(0)
}

/// Prints why palisade refused or failed. Causes that are not in the message follow it.
pub fn error(error: &anyhow::Error) {
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
