//! `palisade cost`: what the wall costs on a command of the user's own.

use super::bench::{
    INTERRUPTED, catch_interrupts, command_line, own_program, print, print_json, try_page,
    write_page,
};
use crate::{
    args::GuestArgs,
    env_files::EnvFiles,
    peer_args::PeerArgs,
    policy_args::{GrantArgs, LimitArgs},
    progress,
};
use anyhow::Context;
use clap::{Args, ValueHint};
use palisade_lab::cost::{Options, Workplace, cost as cost_of};
use palisade_policy::value;
use std::{
    path::PathBuf,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

// `palisade cost`.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    /// Run this many rounds; without it, as many as give narrow intervals
    #[arg(long, value_name = "N", value_parser = parse_runs)]
    runs: Option<usize>,
    /// Take about this long, as 30s; a minute without it (a limit on the command's time comes from --policy)
    #[arg(long, value_name = "TIME", value_parser = value::parse_duration)]
    time: Option<Duration>,
    /// Run this many rounds first that do not count
    #[arg(long, value_name = "N", default_value_t = 0)]
    warm_up: usize,
    /// Run a shell command before each run, in its folder; its time does not count
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Run a shell command after each run
    #[arg(long, value_name = "COMMAND")]
    cleanup: Option<String>,
    /// Run in the folder itself rather than in a fresh copy for each run
    #[arg(long)]
    in_place: bool,
    /// Measure runs that fail, too
    #[arg(long)]
    ignore_failure: bool,
    #[command(flatten)]
    peers: PeerArgs,
    /// Print figures, machine and warnings as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with charts of it all to FILE, for a browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Keep samples in a folder below this one; without it, nothing is kept
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Measure this palisade rather than the one that is running
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    palisade: Option<PathBuf>,
    #[command(flatten)]
    grants: GrantArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    guest: GuestArgs,
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

/// Measures a command and prints what came out.
pub(crate) fn cost(args: CostArgs) -> anyhow::Result<u8> {
    try_page(args.html.as_deref())?;
    let interrupted = catch_interrupts()?;
    let here = std::env::current_dir().context("host: cannot tell the working directory")?;
    let mut policy = args.grants.resolve_with(&args.limits)?;
    EnvFiles::take(&mut policy)?.add_to(&mut policy);
    let options = Options {
        command: args.guest.into(),
        policy,
        workplace: Rc::new(match args.in_place {
            true => Workplace::in_place(here),
            false => Workplace::copy_of(here)?,
        }),
        around: [args.setup, args.cleanup],
        ignore_failure: args.ignore_failure,
        palisade: args.palisade.map_or_else(own_program, Ok)?,
        peers: args.peers.resolve()?,
        warm_up_rounds: args.warm_up,
        rounds: args.runs,
        budget: args.time,
        out: args.out,
        command_line: command_line(),
        interrupted: Arc::clone(&interrupted),
        progress: progress::bar(),
    };
    let outcome = cost_of(&options);
    // With it goes what was drawn of the progress.
    drop(options);
    let was_interrupted = interrupted.load(Ordering::Relaxed);
    let outcome = match outcome {
        Err(_) if was_interrupted => {
            crate::say::line("interrupted before the first round was complete");
            return Ok(INTERRUPTED);
        }
        outcome => outcome?,
    };
    match args.json {
        true => print_json(&outcome)?,
        false => print(&outcome.to_string())?,
    };
    if let Some(file) = &args.html {
        write_page(file, &outcome.as_run())?;
    }
    Ok(if was_interrupted { INTERRUPTED } else { 0 })
}
