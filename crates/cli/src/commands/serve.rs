//! `palisade serve`: execute the server, or write what it can begin with.

mod init;

use super::program::execute;
use crate::args::ServeArgs;
use palisade_wasm::programs;
use std::ffi::OsString;

/// Executes the server in this process's place. Returns only if that fails.
pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<u8> {
    if let Some(folder) = &args.init {
        return init::init(folder);
    }
    let mut arguments: Vec<OsString> = Vec::new();
    if args.check {
        arguments.push("--check".into());
    }
    if args.no_watch {
        arguments.push("--no-watch".into());
    }
    if let Some(workers) = args.workers {
        arguments.extend(["--workers".into(), workers.to_string().into()]);
    }
    // What looks like a flag is a file here.
    let file = match args.file.is_absolute() {
        true => args.file.clone(),
        false => std::path::Path::new(".").join(&args.file),
    };
    arguments.push(file.into());
    execute(programs::HOST, arguments)
}
