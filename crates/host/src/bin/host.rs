//! The server, which `palisade serve` executes.

use palisade_host::server::{read_arguments, say, serve};
use std::process::ExitCode;

/// Everything that is palisade's refusal or failure.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let options = match read_arguments(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(wrong) => {
            say(&format!("usage: {wrong}"));
            return ExitCode::from(FAILED);
        }
    };
    serve(&options).unwrap_or_else(|error| {
        say(&error.to_string());
        ExitCode::from(FAILED)
    })
}
