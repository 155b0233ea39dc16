//! `palisade completions`: a shell's completion script.

use crate::args::Arguments;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::Write;

/// Prints the script for `shell`.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "palisade", &mut script);
    // Written in one piece: the generator itself panics where nobody reads.
    std::io::stdout()
        .write_all(&script)
        .context("host: cannot print the script")?;
    Ok(0)
}
