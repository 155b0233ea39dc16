//! The lab as a program, which `palisade bench` and `palisade cost` execute.
//!
//! ```text
//! palisade-lab PALISADE bench|cost …
//! ```
//!
//! PALISADE is the command that executes it, and is measured unless `--palisade` names another one. The other words are
//! what was typed after `palisade`.

mod bench;
mod cost;
mod page;
mod peers;
mod progress;
mod report;

use anyhow::Context;
use clap::Parser;
use palisade_command_line::{
    FAILED,
    args::{BenchArgs, CostArgs},
    say,
};
use palisade_lab::cost::CommandError;
use std::{
    ffi::OsString,
    path::PathBuf,
    process::ExitCode,
    sync::{Arc, atomic::AtomicBool},
};

/// Exit code of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

const USAGE: &str =
    "usage: palisade-lab PALISADE bench|cost …, as `palisade bench` and `palisade cost` do";

/// What was typed.
#[derive(Debug, Parser)]
#[command(
    name = "palisade",
    bin_name = "palisade",
    disable_help_subcommand = true
)]
enum Verb {
    Bench(BenchArgs),
    Cost(Box<CostArgs>),
}

/// Where the figures come from.
struct Origin {
    /// The palisade that executes this program.
    palisade: PathBuf,
    /// What was typed.
    words: Vec<OsString>,
    /// What it was run by, in an environment of its own making.
    by: Option<OsString>,
}

/// The variable that tells it.
const BY: &str = "PALISADE_LAB_BY";

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let origin = Origin {
        palisade: words.next().unwrap_or_default().into(),
        words: words.collect(),
        by: std::env::var_os(BY),
    };
    let typed = ["palisade".into()].into_iter().chain(origin.words.clone());
    let Ok(verb) = Verb::try_parse_from(typed) else {
        // `palisade` has read the same words before, and says what is wrong with them.
        say::line(USAGE);
        return ExitCode::from(FAILED);
    };
    let done = match verb {
        Verb::Bench(args) => bench::bench(args, &origin),
        Verb::Cost(args) => cost::cost(*args, &origin),
    };
    ExitCode::from(done.unwrap_or_else(|error| {
        say::error(&error);
        exit_code(&error)
    }))
}

/// 126 and 127 are a command that can't be executed or found, as in every shell.
fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(CommandError::NotFound { .. }) => 127,
        Some(CommandError::CannotExecute { .. }) => 126,
        _ => FAILED,
    }
}

impl Origin {
    /// The palisade to measure.
    fn measured(&self, named: Option<PathBuf>) -> PathBuf {
        named.unwrap_or_else(|| self.palisade.clone())
    }

    /// The command that makes the figures again. Where palisade lies says nothing to who reads a published run.
    fn command_line(&self) -> Vec<String> {
        let palisade = OsString::from("palisade");
        let words = self.by.iter().chain([&palisade]).chain(&self.words);
        let words = words.map(|word| word.to_string_lossy().into_owned());
        words.collect()
    }
}

fn catch_interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("host: cannot catch signals")?;
    }
    Ok(interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use palisade_command_line::args::{PEER_NAMES, ROW_NAMES};
    use palisade_lab::{rows::rows, subjects::PEERS};

    #[test]
    fn the_arguments_are_consistent() {
        Verb::command().debug_assert();
    }

    #[test]
    fn every_row_and_every_peer_can_be_typed() {
        let names: Vec<_> = rows().iter().map(|row| row.name).collect();
        assert_eq!(names, ROW_NAMES);
        assert_eq!(PEERS.map(|peer| peer.name), PEER_NAMES);
    }

    #[test]
    fn the_executing_palisade_is_measured_and_not_told() {
        let origin = Origin {
            palisade: "/opt/palisade".into(),
            words: vec!["bench".into(), "start".into()],
            by: None,
        };
        assert_eq!(origin.command_line(), ["palisade", "bench", "start"]);
        assert_eq!(origin.measured(None), PathBuf::from("/opt/palisade"));
        assert_eq!(origin.measured(Some("x".into())), PathBuf::from("x"));
    }

    #[test]
    fn what_it_was_run_by_belongs_to_the_command_that_makes_figures_again() {
        let origin = Origin {
            palisade: PathBuf::new(),
            words: vec!["bench".into()],
            by: Some("tools/quiet-network".into()),
        };
        assert_eq!(
            origin.command_line(),
            ["tools/quiet-network", "palisade", "bench"]
        );
    }
}
