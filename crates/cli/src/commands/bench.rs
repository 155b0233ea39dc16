//! `palisade bench`: what the wall costs on this machine.

use crate::{args::BenchArgs, progress};
use anyhow::Context;
use palisade_lab::{
    KeptRun, Options, Outcome, Outcomes, bench as bench_rows,
    compare::compare,
    markdown::markdown,
    page::page,
    rows::{Extent, Row, is_long, row, rows},
    subjects::{PEERS, Peer, find_peers},
};
use std::{
    fs::{self, OpenOptions},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Exit code where a row could not be measured.
const ROW_FAILED: u8 = 1;
/// Exit code where a comparison found something slower.
const GOT_WORSE: u8 = 1;
/// Exit code of a process that Ctrl-C ended.
pub(crate) const INTERRUPTED: u8 = 130;

/// Measures rows and prints what came out. A target that is missed is a result, not a failure.
pub(crate) fn bench(args: BenchArgs) -> anyhow::Result<u8> {
    if args.list {
        return print(&list());
    }
    if let [before, after] = &args.compare[..] {
        return show_comparison(&args, &KeptRun::read(before)?, &KeptRun::read(after)?);
    }
    match &args.from {
        Some(folder) => show_kept(&args, KeptRun::read(folder)?),
        None => measure(args),
    }
}

fn measure(args: BenchArgs) -> anyhow::Result<u8> {
    try_page(args.html.as_deref())?;
    let interrupted = catch_interrupts()?;
    let form = Form::of(&args);
    let options = Options {
        palisade: args.palisade.clone().map_or_else(own_program, Ok)?,
        out: args.out.clone(),
        budget: args.time,
        peers: args.peers.resolve()?,
        extent: match args.quick {
            true => Extent::Quick,
            false => Extent::Full,
        },
        command_line: command_line(),
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

/// That the page can be written shows before an hour of measuring, not after it. One that is there
/// stays until then.
pub(crate) fn try_page(file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).with_context(|| page_fault(file))
}

pub(crate) fn write_page(file: &Path, run: &KeptRun) -> anyhow::Result<()> {
    fs::write(file, page(run)).with_context(|| page_fault(file))?;
    crate::say::line(&format!("the page is {}", file.display()));
    Ok(())
}

fn page_fault(file: &Path) -> String {
    format!("host: --html: cannot write {}", file.display())
}

/// What is printed on stdout.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Markdown,
    Json,
}

impl Form {
    fn of(args: &BenchArgs) -> Self {
        match (args.json, args.markdown) {
            (true, _) => Self::Json,
            (false, true) => Self::Markdown,
            (false, false) => Self::Text,
        }
    }

    /// A row as soon as it is measured; JSON is one value at the end.
    fn show(self, outcome: &Outcome) -> anyhow::Result<()> {
        match self {
            Self::Text => print(&format!("{outcome}\n")).map(drop),
            Self::Markdown => print(&format!("{}\n", markdown(outcome))).map(drop),
            Self::Json => Ok(()),
        }
    }

    fn show_end(self, outcomes: &Outcomes) -> anyhow::Result<()> {
        match self {
            Self::Json => print_json(outcomes).map(drop),
            Self::Text | Self::Markdown => Ok(()),
        }
    }
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
        crate::say::line(&format!("bench: {row} failed: {reason}"));
        code = ROW_FAILED;
    }
    code
}

/// The rows to measure, in the order of the list.
fn chosen(args: &BenchArgs) -> Vec<&'static dyn Row> {
    let is_every = args.all || args.quick;
    match &args.rows[..] {
        [] => rows()
            .into_iter()
            .filter(|row| is_every || !is_long(*row))
            .collect(),
        names => {
            let mut rows: Vec<&dyn Row> = Vec::new();
            for row in names.iter().filter_map(|name| row(name)) {
                if !rows.iter().any(|known| known.name() == row.name()) {
                    rows.push(row);
                }
            }
            rows
        }
    }
}

fn list() -> String {
    let (long, short): (Vec<&dyn Row>, Vec<&dyn Row>) =
        rows().into_iter().partition(|row| is_long(*row));
    let lines = |rows: Vec<&dyn Row>| rows.into_iter().map(line_of).collect::<String>();
    let peers = PEERS.map(|peer| presence(peer) + "\n");
    format!(
        "{}\nOnly by name, with --all or with --quick:\n{}\nTo compare with:\n{}",
        lines(short),
        lines(long),
        peers.concat()
    )
}

/// `start        20 s  run …`, with the time that it takes at most.
fn line_of(row: &dyn Row) -> String {
    let seconds = row.budget().as_secs();
    let time = match seconds {
        0..=90 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    };
    format!("{:<15} {time:>6}  {}\n", row.name(), row.about())
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

pub(crate) fn own_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe()
        .context("host: cannot tell where palisade itself lies; name it with --palisade")
}

/// What was typed. Where palisade lies says nothing to who reads a published run.
pub(crate) fn command_line() -> Vec<String> {
    let typed = std::env::args_os().skip(1);
    let typed = typed.map(|word| word.to_string_lossy().into_owned());
    std::iter::once("palisade".to_owned())
        .chain(typed)
        .collect()
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
    crate::say::print(text, FIGURES)
}

pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<u8> {
    crate::say::print_json(value, FIGURES)
}

const FIGURES: &str = "the figures";
