//! `palisade bench`: what the wall costs on this machine.

use crate::{
    INTERRUPTED, Origin, catch_interrupts,
    page::{try_page, write_page},
    peers, progress,
    report::{Form, print, print_json},
};
use palisade_command_line::{args::BenchArgs, say};
use palisade_lab::{
    KeptRun, Options, Outcomes, bench as bench_rows,
    compare::compare,
    rows::{Extent, Row, row, rows},
    subjects::{PEERS, Peer, find_peers},
};
use std::sync::{Arc, atomic::Ordering};

/// How many times as long a row may take while a target is undecided, if it is asked for.
const PATIENT: u32 = 10;
/// Exit code where a row could not be measured.
const ROW_FAILED: u8 = 1;
/// Exit code where a comparison found something slower.
const GOT_WORSE: u8 = 1;

/// Measures rows and prints what came out. A target that is missed is a result, not a failure.
pub(crate) fn bench(args: BenchArgs, origin: &Origin) -> anyhow::Result<u8> {
    if args.list {
        return print(&list());
    }
    if let [before, after] = &args.compare[..] {
        return show_comparison(&args, &KeptRun::read(before)?, &KeptRun::read(after)?);
    }
    match &args.from {
        Some(folder) => show_kept(&args, KeptRun::read(folder)?),
        None => measure(args, origin),
    }
}

fn measure(args: BenchArgs, origin: &Origin) -> anyhow::Result<u8> {
    try_page(args.html.as_deref())?;
    let interrupted = catch_interrupts()?;
    let form = Form::of(&args);
    let options = Options {
        palisade: origin.measured(args.palisade.clone()),
        out: args.out.clone(),
        budget: args.time,
        patience: if args.patient { PATIENT } else { 1 },
        peers: peers::resolve(&args.peers)?,
        extent: match args.quick {
            true => Extent::Quick,
            false => Extent::Full,
        },
        command_line: origin.command_line(),
        interrupted: Arc::clone(&interrupted),
        progress: progress::bar(),
        show: Box::new(move |outcome| form.show(outcome)),
    };
    let outcomes = bench_rows(&chosen(&args), &options)?;
    form.show_end(&outcomes)?;
    if let Some(file) = &args.html {
        write_page(file, &KeptRun::read(&outcomes.folder)?)?;
    }
    Ok(exit_code(&outcomes, interrupted.load(Ordering::Relaxed)))
}

/// Two runs with nothing in common are a mistake, unless the machine is the reason.
fn show_comparison(args: &BenchArgs, before: &KeptRun, after: &KeptRun) -> anyhow::Result<u8> {
    let comparison = compare(before, after);
    let is_empty = comparison.compared.is_empty() && comparison.differences.is_empty();
    anyhow::ensure!(
        !is_empty,
        "{} and {} have no figure in common: {}",
        before.path.display(),
        after.path.display(),
        comparison
            .left_out
            .iter()
            .map(|(why, _)| why.as_str())
            .collect::<Vec<_>>()
            .join("; ")
    );
    match args.json {
        true => print_json(&comparison)?,
        false => print(&comparison.to_string())?,
    };
    Ok(if comparison.is_worse() { GOT_WORSE } else { 0 })
}

fn show_kept(args: &BenchArgs, kept: KeptRun) -> anyhow::Result<u8> {
    if let Some(file) = &args.html {
        write_page(file, &kept)?;
    }
    let form = Form::of(args);
    let outcomes = Outcomes {
        folder: kept.path,
        environment: kept.environment,
        rows: kept.rows.into_iter().map(|row| row.outcome).collect(),
    };
    for outcome in &outcomes.rows {
        form.show(outcome)?;
    }
    form.show_end(&outcomes)?;
    Ok(exit_code(&outcomes, false))
}

/// Says on stderr which rows failed: their words may be far up by now.
fn exit_code(outcomes: &Outcomes, is_interrupted: bool) -> u8 {
    if is_interrupted {
        return INTERRUPTED;
    }
    let failed = outcomes.rows.iter().filter_map(|row| {
        let reason = row.failed.as_ref()?;
        Some((&row.row, reason))
    });
    let mut code = 0;
    for (row, reason) in failed {
        say::line(&format!("bench: {row} failed: {reason}"));
        code = ROW_FAILED;
    }
    code
}

/// The rows to measure, in the order of the list.
fn chosen(args: &BenchArgs) -> Vec<&'static Row> {
    let is_every = args.all || args.quick;
    match &args.rows[..] {
        [] => rows()
            .iter()
            .filter(|row| is_every || !row.is_long())
            .collect(),
        names => {
            let mut rows: Vec<&Row> = Vec::new();
            for row in names.iter().filter_map(|name| row(name)) {
                if !rows.iter().any(|known| known.name == row.name) {
                    rows.push(row);
                }
            }
            rows
        }
    }
}

fn list() -> String {
    let (long, short): (Vec<&Row>, Vec<&Row>) = rows().iter().partition(|row| row.is_long());
    let lines = |rows: Vec<&Row>| rows.into_iter().map(line_of).collect::<String>();
    let peers = PEERS.map(|peer| presence(peer) + "\n");
    format!(
        "{}\nOnly by name, with --all or with --quick:\n{}\nTo compare with:\n{}",
        lines(short),
        lines(long),
        peers.concat()
    )
}

/// `start        20 s  run …`, with the time that it takes at most.
fn line_of(row: &Row) -> String {
    let seconds = row.budget.as_secs();
    let time = match seconds {
        0..=90 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    };
    format!("{:<15} {time:>6}  {}\n", row.name, row.about)
}

/// Its version here, or how to get it.
fn presence(peer: &'static Peer) -> String {
    let (installed, _) = find_peers([peer]);
    match installed.first() {
        Some(here) => {
            let version = here.version().unwrap_or_default();
            match version.starts_with(peer.name) {
                true => version,
                false => format!("{}: {version}", peer.name),
            }
        }
        None => format!("{} is not installed: {}", peer.name, peer.install),
    }
}
