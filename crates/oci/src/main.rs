//! `palisade-oci`: what engines call a runtime.
//!
//! ```text
//!  podman, containerd, Docker ──command line──▶ palisade-oci ──plan──▶ keeper ──▶ init ──▶ the image's program
//!                                config.json
//! ```
//!
//! A bundle's `config.json` is one more front end: it comes to a plan ([`palisade_process::container::Plan`]), every step of
//! which can be printed before anything is done. What a field cannot come to is refused with its name.

mod bundle;
mod cgroup;
mod cli;
mod commands;
mod console;
mod hooks;
mod log;
mod policy;
mod state;
mod surroundings;
mod sys;
mod wait;
mod wasm;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let log = log::Log::new(&cli.global);
    match commands::run(&cli, &log) {
        Ok(code) => code,
        Err(error) => {
            log.error(&format!("{error:#}"));
            failure(&cli.command)
        }
    }
}

/// A process that was to enter a container may end with 1 itself: what kept it out has a code that few programs end with.
fn failure(command: &cli::Command) -> ExitCode {
    match command {
        cli::Command::Exec(_) => ExitCode::from(255),
        _ => ExitCode::FAILURE,
    }
}
