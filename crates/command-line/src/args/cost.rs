//! What can be typed after `palisade cost`.

use super::{CostPolicyArgs, GuestArgs, PeerArgs};
use clap::{Args, ValueHint};
use palisade_policy::value;
use std::{path::PathBuf, time::Duration};

// `palisade cost`.
#[derive(Debug, Args)]
pub struct CostArgs {
    /// Run this many rounds; without it, as many as give narrow intervals
    #[arg(long, value_name = "N", value_parser = parse_runs)]
    pub runs: Option<usize>,
    /// Take about this long, as 30s; a minute without it (a limit on the command's time comes from --policy)
    #[arg(long, value_name = "TIME", value_parser = value::parse_duration)]
    pub time: Option<Duration>,
    /// Run this many rounds first that do not count
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub warm_up: usize,
    /// Run a shell command before each run, in its folder; its time does not count
    #[arg(long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Run a shell command after each run
    #[arg(long, value_name = "COMMAND")]
    pub cleanup: Option<String>,
    /// Run in the folder itself rather than in a fresh copy for each run
    #[arg(long)]
    pub in_place: bool,
    /// Measure runs that fail, too
    #[arg(long)]
    pub ignore_failure: bool,
    #[command(flatten)]
    pub peers: PeerArgs,
    /// Print figures, machine and warnings as JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts of it all to FILE, for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Keep samples in a folder below this one; without it, nothing is kept
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Measure this palisade rather than the one that is running
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub palisade: Option<PathBuf>,
    #[command(flatten)]
    pub policy: CostPolicyArgs,
    #[command(flatten)]
    pub guest: GuestArgs,
}

/// A comparison needs both orders of its contenders.
fn parse_runs(text: &str) -> anyhow::Result<usize> {
    let runs: usize = value::parse_count(text)?;
    anyhow::ensure!(
        runs >= 2,
        "`{text}` is too few: 2 is the least that can be compared"
    );
    Ok(runs)
}
