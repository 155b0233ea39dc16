//! `palisade exec`: a further process in a running domain.

mod pipes;
mod relay;

use super::{domains, run::terminal::Outer};
use crate::{args::ExecArgs, say};
use anyhow::Context;
use palisade_process::running::{Further, OperateError};
use palisade_wall::Terminal;
use pipes::Pipes;
use std::ffi::OsString;

/// Starts it and relays until it has ended; gives its exit code.
pub(crate) fn exec(args: &ExecArgs) -> anyhow::Result<u8> {
    let domain = domains::find(&args.domain)?;
    let outer = Outer::find().context("host: cannot use the terminal")?;
    let terminal = outer.as_ref().map(|outer| Terminal {
        // Nobody else is on this terminal.
        in_front: true,
        ..outer.order()
    });
    let replaced = terminal
        .as_ref()
        .map_or([false; 3], |terminal| terminal.replaces);
    let (pipes, ends) = Pipes::make(replaced).context("host: cannot make pipes")?;
    let started = domain.exec(&Further {
        arguments: &args.command,
        variables: &variables(terminal.is_some()),
        streams: ends.streams(),
        terminal: terminal.as_ref(),
    });
    drop(ends);
    match started {
        Ok(session) => relay::relay(session, outer, pipes),
        Err(error) => refuse(error),
    }
}

/// As a shell tells of a program that it could not start.
fn refuse(error: OperateError) -> anyhow::Result<u8> {
    let code = match &error {
        OperateError::NotFound(_) => 127,
        OperateError::CannotExecute { .. } => 126,
        _ => return Err(error.into()),
    };
    say::error(&error.into());
    Ok(code)
}

/// What a program needs to know of the terminal, where the guest was started without one.
fn variables(has_terminal: bool) -> Vec<OsString> {
    let kind = std::env::var_os("TERM").filter(|_| has_terminal);
    let variable = |kind: OsString| {
        let mut variable = OsString::from("TERM=");
        variable.push(kind);
        variable
    };
    kind.into_iter().map(variable).collect()
}
