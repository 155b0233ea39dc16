//! What a wall costs on a command of the user's own.
//!
//! ```text
//!  command, policy ──▶ tried once ──▶ rounds ──▶ figures ──▶ table, advice
//!                      with no wall    each run in a fresh copy of the folder,
//!                      and each wall   and a program that ends at once before it
//! ```
//!
//! Every contender runs the same program in the same folder, at the same path, with the same
//! variables. In each round it also runs a program of ours that ends at once, under the same policy:
//! that is its start, and stands in a column of its own.
//!
//! What it does not do: hold the command where there is no wall. That run has every right that the
//! user has, or there would be nothing to compare with.

mod advice;
mod contenders;
mod grants;
mod present;
mod trial;

pub use advice::{Advice, Effect};
pub use grants::CommandError;

use crate::{
    bench::{Progress, Watcher, environment},
    conditions::Moment,
    environment::Environment,
    folder::{RowFolder, RunFolder},
    kept::{KeptRow, KeptRun},
    measure::{Executor, Schedule, measure},
    outcome::{Doubt, wrapped_to},
    rows::{BARE, Extent, Tools, watch_all},
    sample::Samples,
    subjects::{PEERS, Palisade, Peer, find_peers, is_wasm},
    table::Table,
    trial::{Limits, Trials},
    warning::{self, Warning},
    workloads::Workloads,
};
use contenders::Contenders;
use grants::Task;
use palisade_command_line::workplace::Workplace;
use palisade_policy::Policy;
use palisade_wall::Command;
use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant, SystemTime},
};

/// What to measure, and how.
pub struct Options {
    /// The command, as it was typed.
    pub command: Command,
    /// What it may do besides what every command here may: see it and write in its folder.
    pub policy: Policy,
    /// Where it runs.
    pub workplace: Rc<Workplace>,
    /// A shell's command to run before each run, and one after it.
    pub around: [Option<String>; 2],
    /// Take runs that fail for runs.
    pub ignore_failure: bool,
    /// The `palisade` to measure.
    pub palisade: PathBuf,
    /// Who to compare with, where installed; `None` is everybody the lab knows.
    pub peers: Option<Vec<&'static Peer>>,
    /// Rounds that are not counted, after everybody has been tried once.
    pub warm_up_rounds: usize,
    /// This many rounds; `None` takes as many as make narrow intervals.
    pub rounds: Option<usize>,
    /// No new round after this.
    pub budget: Option<Duration>,
    /// Where to keep samples; `None` keeps none.
    pub out: Option<PathBuf>,
    /// The command that makes the figures again.
    pub command_line: Vec<String>,
    /// Set from outside to stop after the current run and keep what was measured.
    pub interrupted: Arc<AtomicBool>,
    /// Called after each run, and once at the end.
    pub progress: Box<dyn Fn(Progress)>,
}

/// What came out. Its `Display` is for people, its `Serialize` for programs; what is kept of it can be
/// read like a row's.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The figures: `wall`, `start`, `cpu` and `memory` of each contender.
    #[serde(flatten)]
    pub measured: crate::Outcome,
    /// The command, as it was typed.
    pub command: Vec<String>,
    /// What it was granted, and what else is to know of its runs.
    pub notes: Vec<String>,
    /// What follows from the figures; absent where nothing ran with no wall or behind palisade.
    pub advice: Option<Advice>,
    /// The machine.
    pub environment: Environment,
    #[serde(skip)]
    samples: Samples,
}

/// What this measurement is called among others.
const ROW: &str = "cost";
const DEFAULT_BUDGET: Duration = Duration::from_secs(60);
/// Of everything but a long command: newcomers have not made their terminals wider.
const COLUMNS: usize = 80;
const LEAST_ROUNDS: usize = 10;
const MOST_ROUNDS: usize = 500;

/// Measures a command.
///
/// # Errors
///
/// When there is no such command, when its folder can't be copied, when a run fails with no wall or
/// behind palisade's, or when samples can't be kept.
pub fn cost(options: &Options) -> anyhow::Result<Outcome> {
    let workloads = Workloads::new()?;
    let ending = match is_wasm(&options.command) {
        true => workloads.add_wasm_true()?,
        false => workloads.add_true()?,
    };
    let task = Task::resolve(options, &ending)?;
    let tools = tools(options);
    let environment = environment(&[], &tools, &options.command_line);
    let mut warnings = warning::about_machine(environment.load, environment.processors);
    let (began, first) = (Instant::now(), options.workplace.copying());
    let mut contenders = Contenders::try_all(&tools, options, &task)?;
    warnings.append(&mut contenders.warnings);
    let schedule = schedule(options, &contenders);
    let folder = options.out.as_deref();
    let mut folder = folder
        .map(|out| open_folder(out, &environment))
        .transpose()?;
    let before = Moment::now();
    let kept = folder.as_mut().map(|(_, row)| row);
    let (samples, took, left_out) = take_samples(options, contenders, &schedule, kept)?;
    let conditions = before.until(&Moment::now());

    let copies = options.workplace.copying();
    let copies = (copies.0 - first.0, copies.1 - first.1);
    warnings.extend(left_out);
    warnings.extend(warning::about_copies(copies, began.elapsed()));
    warnings.extend(warning::about_conditions(&conditions));
    let doubts = warning::about_samples(&samples, &schedule.watched).into_iter();
    // The advice says so itself.
    warnings.extend(doubts.filter(|doubt| !matches!(doubt, Warning::FewRounds { .. })));
    let table = present::table(&samples, peak_of_this_process());
    let command = options.command.words();
    let outcome = Outcome {
        measured: crate::Outcome {
            row: ROW.to_owned(),
            about: command.join(" "),
            rounds: samples.rounds(),
            took_s: took.as_secs_f64(),
            figures: present::figures(&samples),
            warnings: warnings.iter().map(Doubt::from).collect(),
            conditions,
            tables: vec![(present::TITLE.to_owned(), table)],
            environment: environment.clone(),
            folder: folder
                .as_ref()
                .map_or_else(PathBuf::new, |(run, _)| run.path().to_owned()),
            ..crate::Outcome::default()
        },
        command,
        notes: task.notes(),
        advice: Advice::of(&samples, &task.name(), task.recommended()),
        environment,
        samples,
    };
    if let Some((run, row)) = &folder {
        row.finish(&outcome, &outcome.to_string())?;
        run.write_readme(
            &outcome.environment,
            std::slice::from_ref(&outcome.measured),
            &[],
        )?;
    }
    Ok(outcome)
}

fn tools(options: &Options) -> Tools {
    let wanted = options.peers.clone();
    let (peers, absent) = find_peers(wanted.unwrap_or_else(|| PEERS.to_vec()));
    Tools {
        palisade: Palisade::new(options.palisade.clone()),
        peers,
        absent,
        extent: Extent::Full,
    }
}

fn open_folder(out: &Path, machine: &Environment) -> anyhow::Result<(RunFolder, RowFolder)> {
    let date = crate::date::format_date(SystemTime::now());
    let run = RunFolder::create(out, &date, &machine.machine())?;
    run.write_environment(machine)?;
    let row = run.create_row(ROW)?;
    Ok((run, row))
}

fn schedule(options: &Options, contenders: &Contenders) -> Schedule {
    let all = || contenders.trials.iter().map(|(one, _)| one);
    let has_bare = all().any(|one| one.subject == BARE);
    let watched = has_bare.then(|| watch_all(all(), present::WALL));
    // Who asked for a number of rounds gets it, unless there is a time too.
    let unasked = match options.rounds {
        Some(_) => Duration::MAX,
        None => DEFAULT_BUDGET,
    };
    Schedule {
        warm_up_rounds: options.warm_up_rounds,
        least_rounds: options.rounds.unwrap_or(LEAST_ROUNDS),
        most_rounds: options.rounds.unwrap_or(MOST_ROUNDS),
        budget: options.budget.unwrap_or(unasked),
        patience: options.budget.unwrap_or(unasked),
        relative_width: 0.02,
        watched: watched.unwrap_or_default(),
    }
}

/// Measures by the schedule; gives the time it took and who was left out too.
fn take_samples(
    options: &Options,
    contenders: Contenders,
    schedule: &Schedule,
    folder: Option<&mut RowFolder>,
) -> anyhow::Result<(Samples, Duration, Vec<Warning>)> {
    let budget = at_most(schedule, contenders.round_took);
    let mut watcher = Watcher {
        folder,
        interrupted: &options.interrupted,
        tell: &|round, elapsed, is_last| tell(options, round, elapsed, budget, is_last),
        undecided: &|_| Vec::new(),
    };
    let mut trials = Trials::new(contenders.trials, Limits::default());
    let samples = measure(&mut trials, schedule, &mut watcher);
    let took = trials.elapsed();
    (watcher.tell)(samples.as_ref().map_or(0, Samples::rounds), took, true);
    Ok((samples?, took, trials.left_out()))
}

/// The only row there is.
fn tell(options: &Options, round: usize, elapsed: Duration, budget: Duration, is_last: bool) {
    (options.progress)(Progress {
        row: ROW,
        round,
        elapsed,
        budget,
        is_last,
        number: 1,
        rows: 1,
        elapsed_in_all: elapsed,
        budget_in_all: budget,
    });
}

/// How long the rounds take, about, by what one round took.
fn at_most(schedule: &Schedule, round_took: Duration) -> Duration {
    let rounds = |count: usize| round_took.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
    let all = rounds(schedule.warm_up_rounds.saturating_add(schedule.most_rounds));
    all.min(schedule.budget).max(rounds(2))
}

/// The largest memory of the lab itself, in bytes. A child's peak begins with that of the process that
/// started it (`exec_mmap` in fs/exec.c keeps it), so smaller ones can't be told.
fn peak_of_this_process() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or(0.0) * 1024.0
}

/// `text` after `lead`, no wider than the table mostly is.
fn wrapped(lead: &str, text: &str) -> String {
    wrapped_to(COLUMNS, lead, text)
}

impl Outcome {
    /// The same as a run with one row, for whoever shows runs.
    pub fn as_run(&self) -> KeptRun {
        let mut outcome = self.measured.clone();
        let words = self.notes.iter().cloned();
        let advice = self.advice.iter().flat_map(|advice| {
            let text = advice.to_string();
            text.lines().map(ToOwned::to_owned).collect::<Vec<_>>()
        });
        let words = words.chain(advice).map(|line| (line, Table::default()));
        outcome.tables.extend(words);
        KeptRun {
            path: self.measured.folder.clone(),
            environment: self.environment.clone(),
            rows: vec![KeptRow {
                outcome,
                samples: self.samples.clone(),
            }],
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = &self.measured;
        writeln!(formatter, "{}", wrapped("cost:", &measured.about))?;
        writeln!(formatter, "{}", measured.circumstances(COLUMNS))?;
        for note in &self.notes {
            writeln!(formatter, "{}", wrapped("", note))?;
        }
        for (_, table) in &measured.tables {
            write!(formatter, "\n{table}{}\n", present::LEGEND)?;
        }
        if let Some(advice) = &self.advice {
            writeln!(formatter, "{advice}\n")?;
        }
        for warning in &measured.warnings {
            writeln!(formatter, "{}", wrapped("warning:", &warning.text))?;
        }
        match measured.folder.as_os_str().is_empty() {
            true => Ok(()),
            false => writeln!(formatter, "samples: {}", measured.folder.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_is_left_is_told_by_the_first_round() {
        let schedule = |budget, most_rounds| Schedule {
            warm_up_rounds: 1,
            least_rounds: 2,
            most_rounds,
            budget,
            patience: budget,
            relative_width: 0.02,
            watched: Vec::new(),
        };
        let seconds = Duration::from_secs;
        let told = |budget, rounds, took| at_most(&schedule(budget, rounds), took);
        assert_eq!(told(seconds(60), 500, seconds(1)), seconds(60));
        assert_eq!(told(seconds(60), 9, seconds(1)), seconds(10));
        assert_eq!(told(seconds(60), 500, seconds(100)), seconds(200));
        assert_eq!(
            told(Duration::MAX, usize::MAX, Duration::MAX),
            Duration::MAX
        );
    }
}
