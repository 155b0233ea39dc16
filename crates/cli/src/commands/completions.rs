//! `palisade completions`: a shell's completion script.

use crate::{args::Arguments, say};
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the script for `shell`.
pub(crate) fn completions(shell: Shell) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    let mut command = Arguments::command();
    command.build();
    clap_complete::generate(shell, &mut command, "palisade", &mut script);
    // Written in one piece: the generator itself panics where nobody reads.
    say::print_own(&script, "the script")
}
