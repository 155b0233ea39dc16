//! Measuring one row, from its contenders to its table.

use crate::{
    conditions::{Conditions, Moment},
    environment::Environment,
    figure::Figure,
    folder::RunFolder,
    measure::{Executor, Observer, measure},
    rows::{Prepared, Row, Tools},
    sample::{Run, Samples},
    subjects::{InstalledPeer, PEERS, Palisade, Peer, find_peers},
    table::{MOST_COLUMNS, Table},
    trial::Trials,
    warning::{self, Warning},
};
use anyhow::Context;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::{
    fmt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

/// How to measure.
pub struct Options {
    /// The `palisade` to measure.
    pub palisade: PathBuf,
    /// Folders of runs are made below this one.
    pub out: PathBuf,
    /// Time for the row; `None` takes what the row needs for narrow intervals on a quiet machine.
    pub budget: Option<Duration>,
    /// Who to compare with, where installed; `None` is everybody the lab knows.
    pub peers: Option<Vec<&'static Peer>>,
    /// The command that makes the figures again.
    pub command_line: Vec<String>,
    /// Set from outside to stop after the current run and keep what was measured.
    pub interrupted: Arc<AtomicBool>,
    /// Called after each run, and once at the end.
    pub progress: Box<dyn Fn(Progress)>,
}

/// How far a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The row's name.
    pub row: &'static str,
    /// The round it is in, counted from 1 on; 0 is the warm-up.
    pub round: usize,
    /// Time since it began.
    pub elapsed: Duration,
    /// When it ends at the latest, about.
    pub budget: Duration,
    /// The measuring is over.
    pub is_last: bool,
}

/// What came out. Its `Display` is for people, its `Serialize` for programs.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The row's name.
    pub row: &'static str,
    /// What it runs.
    pub about: &'static str,
    /// How many rounds were counted.
    pub rounds: usize,
    /// How long the measuring took, in s.
    pub took_s: f64,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Doubts about them.
    pub warnings: Vec<Warning>,
    /// What else happened meanwhile.
    pub conditions: Conditions,
    /// The machine.
    pub environment: Environment,
    /// Where the samples are.
    pub folder: PathBuf,
    /// The figures, shown.
    #[serde(skip)]
    pub tables: Vec<(String, Table)>,
}

/// Measures a row.
///
/// # Errors
///
/// When palisade does not run here, a run fails, or the samples can't be kept.
pub fn bench(row: &dyn Row, options: &Options) -> anyhow::Result<Outcome> {
    let (peers, absent) = find_peers(options.peers.clone().unwrap_or_else(|| PEERS.to_vec()));
    let tools = Tools {
        palisade: Palisade::new(options.palisade.clone()),
        peers,
        absent,
    };
    let mut environment = environment(&tools, &options.command_line);
    let mut warnings = warning::about_machine(environment.load, environment.processors);
    let mut prepared = row.prepare(&tools)?;
    prepared.schedule.budget = options.budget.unwrap_or(prepared.schedule.budget);
    warnings.append(&mut prepared.warnings);

    let pin = prepared.pinned.then(Pin::to_last_processor).transpose()?;
    environment.pinned_to = pin.as_ref().map(|pin| pin.processor);
    let date = crate::date::format_date(SystemTime::now());
    let mut folder = RunFolder::create(&options.out, &date, row.name())?;
    folder.write_environment(&environment)?;
    let watched = prepared.schedule.watched.clone();
    let before = Moment::now();
    let (samples, took) = take_samples(row, prepared, &mut folder, options)?;
    drop(pin);
    let conditions = before.until(&Moment::now());

    warnings.extend(warning::about_conditions(&conditions));
    warnings.extend(warning::about_samples(&samples, &watched));
    let (figures, tables) = row.present(&samples);
    let outcome = Outcome {
        row: row.name(),
        about: row.about(),
        rounds: samples.rounds(),
        took_s: took.as_secs_f64(),
        figures,
        warnings,
        conditions,
        environment,
        folder: folder.path().to_owned(),
        tables,
    };
    folder.write_summary(&outcome, &outcome.to_string())?;
    Ok(outcome)
}

/// Measures by the schedule; gives the time it took too. The workload's files are gone afterwards.
fn take_samples(
    row: &dyn Row,
    prepared: Prepared,
    folder: &mut RunFolder,
    options: &Options,
) -> anyhow::Result<(Samples, Duration)> {
    let mut watcher = Watcher {
        folder: Some(folder),
        row: row.name(),
        budget: prepared.schedule.budget,
        interrupted: &options.interrupted,
        progress: &*options.progress,
    };
    let mut trials = Trials::new(prepared.trials);
    let samples = measure(&mut trials, &prepared.schedule, &mut watcher);
    let took = trials.elapsed();
    watcher.tell(samples.as_ref().map_or(0, Samples::rounds), took, true);
    Ok((samples?, took))
}

/// The machine, the tools and the command.
pub(crate) fn environment(tools: &Tools, command_line: &[String]) -> Environment {
    let version = |peer: &InstalledPeer| (peer.peer.name, peer.version());
    let versions = tools.peers.iter().map(version);
    Environment {
        tools: versions
            .chain([("palisade", tools.palisade.version())])
            .filter_map(|(name, version)| Some((name.to_owned(), version?)))
            .collect(),
        command_line: command_line.to_owned(),
        ..Environment::of_this_machine()
    }
}

/// Writes runs down and tells how far it is.
pub(crate) struct Watcher<'a> {
    /// Absent where nothing is kept.
    pub(crate) folder: Option<&'a mut RunFolder>,
    pub(crate) row: &'static str,
    pub(crate) budget: Duration,
    pub(crate) interrupted: &'a AtomicBool,
    pub(crate) progress: &'a dyn Fn(Progress),
}

impl Watcher<'_> {
    pub(crate) fn tell(&self, round: usize, elapsed: Duration, is_last: bool) {
        (self.progress)(Progress {
            row: self.row,
            round,
            elapsed,
            budget: self.budget,
            is_last,
        });
    }
}

impl Observer for Watcher<'_> {
    fn record(&mut self, run: &Run) -> anyhow::Result<()> {
        let round = if run.warm_up { 0 } else { run.round + 1 };
        self.tell(round, Duration::from_micros(run.at_us), false);
        match &mut self.folder {
            Some(folder) => folder.record(run),
            None => Ok(()),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Keeps this thread, and what it starts, on one processor until it is dropped.
struct Pin {
    processor: usize,
    before: CpuSet,
}

impl Pin {
    /// The last one that this thread may use: the first one takes most interrupts.
    fn to_last_processor() -> anyhow::Result<Self> {
        let before = sched_getaffinity(None).context("host: cannot tell the processors")?;
        let usable = (0..CpuSet::MAX_CPU)
            .rev()
            .find(|&processor| before.is_set(processor));
        let processor = usable.context("host: no processor to run on")?;
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only).context("host: cannot keep to one processor")?;
        Ok(Self { processor, before })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // It was allowed before; should it not be now, nothing worse than a slow rest follows.
        let _ = sched_setaffinity(None, &self.before);
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}: {}", self.row, self.about)?;
        let circumstances =
            circumstances(&self.environment, self.rounds, self.took_s, MOST_COLUMNS);
        writeln!(formatter, "{circumstances}")?;
        for (title, table) in &self.tables {
            write!(formatter, "\n{title}\n{table}")?;
        }
        writeln!(formatter)?;
        for warning in &self.warnings {
            writeln!(formatter, "{}", wrapped("warning:", &warning.to_string()))?;
        }
        writeln!(formatter, "samples: {}", self.folder.display())
    }
}

/// How, where and with what was measured, in two lines or more.
pub(crate) fn circumstances(
    machine: &Environment,
    rounds: usize,
    took_s: f64,
    columns: usize,
) -> String {
    let processor = machine.processor.as_deref().unwrap_or(machine.architecture);
    let kernel = machine
        .kernel
        .as_deref()
        .and_then(|kernel| kernel.split(' ').next())
        .unwrap_or("?");
    let tools = machine.tools.values();
    let tools: Vec<_> = tools.map(|tool| tool.replace(" version ", " ")).collect();
    format!(
        "{rounds} rounds in {took_s:.0} s, in turn · Linux {kernel} · {} × {processor}\n{}",
        machine.processors,
        wrapped_to(columns, "", &tools.join(" · "))
    )
}

/// `text` after `lead`, in lines that are no wider than a table.
fn wrapped(lead: &str, text: &str) -> String {
    wrapped_to(MOST_COLUMNS, lead, text)
}

/// `text` after `lead`, in lines of so many columns.
pub(crate) fn wrapped_to(columns: usize, lead: &str, text: &str) -> String {
    let width_of = |text: &str| text.chars().count();
    let mut lines = vec![lead.to_owned()];
    for word in text.split(' ') {
        let fits = |line: &String| width_of(line) + 1 + width_of(word) <= columns;
        if !lines.last().is_some_and(fits) {
            lines.push(" ".repeat(lead.len()));
        }
        if let Some(line) = lines.last_mut() {
            let gap = if line.is_empty() { "" } else { " " };
            line.push_str(gap);
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_warnings_are_wrapped_under_their_lead() {
        let text = ["word"; 25].join(" ");
        let wrapped = wrapped("warning:", &text);
        let widths: Vec<_> = wrapped.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [98, 43]);
        assert!(wrapped.lines().all(|line| line[8..].starts_with(" word")));
    }

    #[test]
    fn a_pin_holds_one_processor_and_lets_go() {
        let before = sched_getaffinity(None).unwrap();
        let pin = Pin::to_last_processor().unwrap();
        let during = sched_getaffinity(None).unwrap();
        assert!(during.count() == 1 && during.is_set(pin.processor));
        drop(pin);
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
