//! What is printed on stdout.

use palisade_command_line::{args::BenchArgs, say};
use palisade_lab::{Outcome, Outcomes, markdown::markdown};

const FIGURES: &str = "the figures";

pub(crate) fn print(text: &str) -> anyhow::Result<u8> {
    say::print(text, FIGURES)
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<u8> {
    say::print_json(value, FIGURES)
}

/// How rows are printed.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    Text,
    Markdown,
    Json,
}

impl Form {
    pub(crate) fn of(args: &BenchArgs) -> Self {
        match (args.json, args.markdown) {
            (true, _) => Self::Json,
            (false, true) => Self::Markdown,
            (false, false) => Self::Text,
        }
    }

    /// A row as soon as it is measured; JSON is one value at the end.
    pub(crate) fn show(self, outcome: &Outcome) -> anyhow::Result<()> {
        match self {
            Self::Text => print(&format!("{outcome}\n")).map(drop),
            Self::Markdown => print(&format!("{}\n", markdown(outcome))).map(drop),
            Self::Json => Ok(()),
        }
    }

    pub(crate) fn show_end(self, outcomes: &Outcomes) -> anyhow::Result<()> {
        match self {
            Self::Json => print_json(outcomes).map(drop),
            Self::Text | Self::Markdown => Ok(()),
        }
    }
}
