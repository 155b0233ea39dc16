//! Where another program comes for the first time, from its beginning to its end: what it is laid out by (`tools/layout`).

use crate::sys;
use anyhow::{Context, ensure};
use std::{collections::HashSet, process::Command};

/// Prints each address of the program's that is executed, once, in the order in which that happens first. What it starts is not
/// followed.
pub(crate) fn tell(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.args(arguments);
    let mut seen = HashSet::new();
    let mut first = Vec::new();
    let status = sys::step_through(&mut command, &mut |address| {
        if seen.insert(address) {
            first.push(format!("{address:x}"));
        }
    })
    .with_context(|| format!("host: cannot step through {program}"))?;
    ensure!(status.success(), "guest: {program} failed: {status}");
    println!("{}", first.join("\n"));
    Ok(())
}
