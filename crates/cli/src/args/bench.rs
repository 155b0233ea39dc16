//! What can be typed after `palisade bench`.

use crate::peer_args::PeerArgs;
use clap::{Args, ValueHint, builder::PossibleValuesParser};
use palisade_lab::rows::{Row, rows};
use palisade_policy::value;
use std::{path::PathBuf, time::Duration};

// `palisade bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; without a name, every row that takes no longer than 90 s
    #[arg(value_name = "ROW", value_parser = PossibleValuesParser::new(rows().map(Row::name)), hide_possible_values = true)]
    pub(crate) rows: Vec<String>,
    /// Measure every row, also those that take minutes
    #[arg(long, conflicts_with = "rows")]
    pub(crate) all: bool,
    /// Take a first look, at a tenth of the time; without a name, at every row
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print what can be measured, how long it takes at most and what it can be compared with, and stop
    #[arg(long)]
    pub(crate) list: bool,
    /// Take about this long for each row, as 30s
    #[arg(long, value_name = "TIME", value_parser = value::parse_duration)]
    pub(crate) time: Option<Duration>,
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    /// Print figures, machine and warnings as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print the tables as Markdown
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Keep samples and figures in a new folder below this one
    #[arg(long, value_name = "DIR", default_value = "runs", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub(crate) out: PathBuf,
    /// Write a page with charts of it all to FILE, for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Show a run that was kept in DIR, instead of measuring
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Kept runs",
        conflicts_with_all = ["rows", "all", "quick", "time", "out", "palisade"])]
    pub(crate) from: Option<PathBuf>,
    /// Say what got faster or slower from one kept run, or row of one, to another; the exit code is 1
    /// if something of palisade's got slower
    #[arg(long, num_args = 2, value_names = ["RUN_A", "RUN_B"], value_hint = ValueHint::DirPath,
        help_heading = "Kept runs", conflicts_with_all = ["from", "html", "markdown", "rows", "all", "quick", "time",
        "out", "palisade", "peers"])]
    pub(crate) compare: Vec<PathBuf>,
    /// Measure this palisade rather than the one that is running
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) palisade: Option<PathBuf>,
}
