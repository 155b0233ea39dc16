//! What can be typed after `palisade bench`.

use super::PeerArgs;
use clap::{Args, ValueHint, builder::PossibleValuesParser};
use palisade_policy::value;
use std::{path::PathBuf, time::Duration};

/// What the lab can measure, in the order of its list. A test of the lab holds that these are all.
pub const ROW_NAMES: [&str; 47] = [
    "start",
    "syscalls",
    "mk-1",
    "mk-2",
    "mk-3",
    "mk-6",
    "mk-7",
    "mk-8",
    "mk-9",
    "sva-f4",
    "sva-t3",
    "watch",
    "learn",
    "osv-boot",
    "kp-5",
    "counts",
    "osv-jvm",
    "broker",
    "mk-4",
    "mk-5",
    "den-tcp",
    "den-f3",
    "redis",
    "sva-f2",
    "sva-f3",
    "osv-mc",
    "pgbench",
    "kp-c",
    "kp-x",
    "kp-6",
    "kp-7",
    "kp-8",
    "serve-filter",
    "serve-files",
    "serve-component",
    "serve-program",
    "serve-pictures",
    "den-f4",
    "den-f5",
    "den-f8",
    "den-f12",
    "den-t2",
    "tenants",
    "container-start",
    "container-memory",
    "container-requests",
    "container-many",
];

// `palisade bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure; without a name, every row that takes no longer than 90 s
    #[arg(value_name = "ROW", value_parser = PossibleValuesParser::new(ROW_NAMES), hide_possible_values = true)]
    pub rows: Vec<String>,
    /// Measure every row, also those that take minutes
    #[arg(long, conflicts_with = "rows")]
    pub all: bool,
    /// Take a first look, at a tenth of the time; without a name, at every row
    #[arg(long)]
    pub quick: bool,
    /// Print what can be measured, how long it takes at most and what it can be compared with, and stop
    #[arg(long)]
    pub list: bool,
    /// Take about this long for each row, as 30s
    #[arg(long, value_name = "TIME", value_parser = value::parse_duration)]
    pub time: Option<Duration>,
    /// Give a row up to ten times its time, as long as a target of its is undecided
    #[arg(long)]
    pub patient: bool,
    #[command(flatten)]
    pub peers: PeerArgs,
    /// Print figures, machine and warnings as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print the tables as Markdown
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub markdown: bool,
    /// Keep samples and figures in a new folder below this one
    #[arg(long, value_name = "DIR", default_value = "runs", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub out: PathBuf,
    /// Write a page with charts of it all to FILE, for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Show a run that was kept in DIR, instead of measuring
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Kept runs",
        conflicts_with_all = ["rows", "all", "quick", "time", "patient", "out", "palisade"])]
    pub from: Option<PathBuf>,
    /// Say what got faster or slower from one kept run, or row of one, to another; the exit code is 1
    /// if something of palisade's got slower
    #[arg(long, num_args = 2, value_names = ["RUN_A", "RUN_B"], value_hint = ValueHint::DirPath,
        help_heading = "Kept runs", conflicts_with_all = ["from", "html", "markdown", "rows", "all", "quick", "time", "patient",
        "out", "palisade", "peers"])]
    pub compare: Vec<PathBuf>,
    /// Measure this palisade rather than the one that is running
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub palisade: Option<PathBuf>,
}
