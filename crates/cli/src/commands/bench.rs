//! `palisade bench`: what the wall costs on this machine.

use crate::{peer_args::PeerArgs, progress};
use anyhow::Context;
use clap::{Args, ValueHint, builder::PossibleValuesParser};
use palisade_lab::{
    Options, Outcome, bench as bench_row,
    rows::{Row, row, rows},
    subjects::{PEERS, Peer, find_peers},
};
use palisade_policy::value;
use std::{
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// `palisade bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure; without a name, all that --list shows
    #[arg(value_name = "ROW", value_parser = PossibleValuesParser::new(rows().map(Row::name)))]
    rows: Vec<String>,
    /// Print what can be measured and what it can be compared with, and stop
    #[arg(long)]
    list: bool,
    /// Print figures, machine and warnings as JSON
    #[arg(long)]
    json: bool,
    /// Take about this long for each row, as 30s
    #[arg(long, value_name = "TIME", value_parser = value::parse_duration)]
    time: Option<Duration>,
    #[command(flatten)]
    peers: PeerArgs,
    /// Keep samples below this folder, one folder a row
    #[arg(long, value_name = "DIR", default_value = "runs", value_hint = ValueHint::DirPath)]
    out: PathBuf,
    /// Measure this palisade rather than the one that is running
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    palisade: Option<PathBuf>,
}

/// Exit code of a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Measures rows and prints what came out. A target that is missed is a result, not a failure.
pub(crate) fn bench(args: BenchArgs) -> anyhow::Result<u8> {
    if args.list {
        return print(&list());
    }
    let interrupted = catch_interrupts()?;
    let options = Options {
        palisade: args.palisade.map_or_else(own_program, Ok)?,
        out: args.out,
        budget: args.time,
        peers: args.peers.resolve()?,
        command_line: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        interrupted: Arc::clone(&interrupted),
        progress: progress::bar(chosen(&args.rows).into_iter().map(Row::name).collect()),
    };
    let mut outcomes = Vec::new();
    for row in chosen(&args.rows) {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        let outcome = bench_row(row, &options)?;
        if !args.json {
            print(&format!("{outcome}\n"))?;
        }
        outcomes.push(outcome);
    }
    if args.json {
        print(&json(&outcomes)?)?;
    }
    let is_whole = !interrupted.load(Ordering::Relaxed);
    Ok(if is_whole { 0 } else { INTERRUPTED })
}

fn chosen(names: &[String]) -> Vec<&'static dyn Row> {
    match names {
        [] => rows().to_vec(),
        names => names.iter().filter_map(|name| row(name)).collect(),
    }
}

fn list() -> String {
    let rows = rows().map(|row| format!("{:<10} {}\n", row.name(), row.about()));
    let peers = PEERS.map(|peer| presence(peer) + "\n");
    format!("{}\nTo compare with:\n{}", rows.concat(), peers.concat())
}

/// Its version here, or how to get it.
fn presence(peer: &'static Peer) -> String {
    let (installed, _) = find_peers([peer]);
    match installed.first() {
        Some(here) => here.version().unwrap_or_else(|| peer.name.to_owned()),
        None => format!("{} is not installed: {}", peer.name, peer.install),
    }
}

fn json(outcomes: &[Outcome]) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(outcomes)? + "\n")
}

pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe()
        .context("host: cannot tell where palisade itself lies; name it with --palisade")
}

pub(crate) fn catch_interrupts() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("host: cannot catch signals")?;
    }
    Ok(interrupted)
}

pub(crate) fn print(text: &str) -> anyhow::Result<u8> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("host: cannot print the figures")?;
    Ok(0)
}
