//! `palisade serve`: execute the server, or write what it can begin with.
//!
//! The server is a program of its own, so that the launcher links no engine.

mod init;

use crate::args::ServeArgs;
use anyhow::Context;
use palisade_wasm::programs;
use std::{os::unix::process::CommandExt, process::Command};

/// Executes the server in this process's place. Returns only if that fails.
pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<u8> {
    if let Some(folder) = &args.init {
        return init::init(folder);
    }
    let host = programs::find(programs::HOST, None)?;
    let mut command = Command::new(&host);
    if args.check {
        command.arg("--check");
    }
    if args.no_watch {
        command.arg("--no-watch");
    }
    if let Some(workers) = args.workers {
        command.args(["--workers", &workers.to_string()]);
    }
    // What looks like a flag is a file here.
    let file = match args.file.is_absolute() {
        true => args.file.clone(),
        false => std::path::Path::new(".").join(&args.file),
    };
    let error = command.arg(file).exec();
    Err(error).with_context(|| format!("host: cannot execute {}", host.display()))
}
