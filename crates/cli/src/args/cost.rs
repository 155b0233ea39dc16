//! What can be typed after `palisade cost`.

use super::GuestArgs;
use crate::{peer_args::PeerArgs, policy_args::CostPolicyArgs};
use clap::{Args, ValueHint};
use palisade_policy::value;
use std::{path::PathBuf, time::Duration};

// `palisade cost`.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// Run this many rounds; without it, as many as give narrow intervals
    #[arg(long, value_name = "N", value_parser = parse_runs)]
    pub(crate) runs: Option<usize>,
    /// Take about this long, as 30s; a minute without it (a limit on the command's time comes from --policy)
    #[arg(long, value_name = "TIME", value_parser = value::parse_duration)]
    pub(crate) time: Option<Duration>,
    /// Run this many rounds first that do not count
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warm_up: usize,
    /// Run a shell command before each run, in its folder; its time does not count
    #[arg(long, value_name = "COMMAND")]
    pub(crate) setup: Option<String>,
    /// Run a shell command after each run
    #[arg(long, value_name = "COMMAND")]
    pub(crate) cleanup: Option<String>,
    /// Run in the folder itself rather than in a fresh copy for each run
    #[arg(long)]
    pub(crate) in_place: bool,
    /// Measure runs that fail, too
    #[arg(long)]
    pub(crate) ignore_failure: bool,
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    /// Print figures, machine and warnings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with charts of it all to FILE, for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) html: Option<PathBuf>,
    /// Keep samples in a folder below this one; without it, nothing is kept
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) out: Option<PathBuf>,
    /// Measure this palisade rather than the one that is running
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) palisade: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: CostPolicyArgs,
    #[command(flatten)]
    pub(crate) guest: GuestArgs,
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
