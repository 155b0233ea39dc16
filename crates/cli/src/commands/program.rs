//! Programs of palisade's own that do a verb's work: executed in this process's place, so that the launcher links
//! neither the engine of one nor the workloads of another.

use anyhow::Context;
use palisade_wasm::programs;
use std::{ffi::OsString, os::unix::process::CommandExt, process::Command};

/// Executes the program of that name, which lies beside this one. Returns only if that fails.
pub(super) fn execute(
    name: &'static str,
    arguments: impl IntoIterator<Item = OsString>,
) -> anyhow::Result<u8> {
    let program = programs::find(name, None)?;
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("host: cannot execute {}", program.display()))
}
