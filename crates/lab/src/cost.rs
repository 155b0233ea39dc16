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
mod folder;
mod grants;
mod present;
mod trial;

pub use advice::{Advice, Effect};
pub use folder::{MOST_BYTES, MOST_FILES, Workplace};
pub use grants::CommandError;

use crate::{
    bench::{Progress, Watcher, environment},
    conditions::{Conditions, Moment},
    environment::Environment,
    figure::Figure,
    folder::RunFolder,
    kept::{KeptRow, KeptRun},
    measure::{Executor, Schedule, measure},
    outcome::{Doubt, circumstances, wrapped_to},
    rows::{BARE, Extent, Tools, watch_all},
    sample::{Contender, Samples},
    subjects::{Bare, PEERS, Palisade, Peer, Subject, find_peers},
    table::Table,
    trial::{Trial, Trials},
    warning::{self, Warning},
    workloads::Workloads,
};
use anyhow::Context;
use grants::Task;
use palisade_policy::Policy;
use palisade_wall::Command;
use serde::Serialize;
use std::{
    fmt,
    path::{Path, PathBuf},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use trial::{Circumstances, CommandTrial};

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

/// What came out. Its `Display` is for people, its `Serialize` for programs.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The command, as it was typed.
    pub command: Vec<String>,
    /// What it was granted, and what else is to know of its runs.
    pub notes: Vec<String>,
    /// How many rounds were counted.
    pub rounds: usize,
    /// How long the measuring took, in s.
    pub took_s: f64,
    /// The figures: `wall`, `start`, `cpu` and `memory` of each contender.
    pub figures: Vec<Figure>,
    /// What follows from them; absent where nothing ran with no wall or behind palisade.
    pub advice: Option<Advice>,
    /// Doubts about them.
    pub warnings: Vec<Warning>,
    /// What else happened meanwhile.
    pub conditions: Conditions,
    /// The machine.
    pub environment: Environment,
    /// Where the samples are, if they are kept.
    pub folder: Option<PathBuf>,
    /// The figures, shown.
    #[serde(skip)]
    pub table: Table,
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
    let ending = workloads.add_true()?;
    let task = Task::resolve(options, &ending)?;
    let (peers, absent) = find_peers(options.peers.clone().unwrap_or_else(|| PEERS.to_vec()));
    let tools = Tools {
        palisade: Palisade::new(options.palisade.clone()),
        peers,
        absent,
        extent: Extent::Full,
    };
    let environment = environment(&[], &tools, &options.command_line);
    let mut warnings = warning::about_machine(environment.load, environment.processors);
    let contenders = Contenders::try_all(&tools, options, &task)?;
    warnings.extend(contenders.warnings);
    let schedule = schedule(options, &contenders.trials, contenders.round_took);

    let folder = match &options.out {
        Some(out) => Some(new_folder(out, &environment)?),
        None => None,
    };
    let mut row = match &folder {
        Some(folder) => Some(folder.create_row(ROW)?),
        None => None,
    };
    let before = Moment::now();
    let mut watcher = Watcher {
        folder: row.as_mut(),
        begun: Progress::of_one(ROW, schedule.budget.max(contenders.round_took * 2)),
        interrupted: &options.interrupted,
        progress: &*options.progress,
    };
    let mut trials = Trials::new(contenders.trials);
    let samples = measure(&mut trials, &schedule, &mut watcher);
    let took = trials.elapsed();
    watcher.tell(samples.as_ref().map_or(0, Samples::rounds), took, true);
    let samples = samples?;
    let conditions = before.until(&Moment::now());

    warnings.extend(warning::about_conditions(&conditions));
    let doubts = warning::about_samples(&samples, &schedule.watched).into_iter();
    // The advice says so itself.
    warnings.extend(doubts.filter(|doubt| !matches!(doubt, Warning::FewRounds { .. })));
    let outcome = Outcome {
        command: options.command.words(),
        notes: task.notes(),
        rounds: samples.rounds(),
        took_s: took.as_secs_f64(),
        figures: present::figures(&samples),
        advice: Advice::of(&samples, &task.name(), task.recommended()),
        warnings,
        conditions,
        environment,
        folder: row.as_ref().map(|row| row.path().to_owned()),
        table: present::table(&samples, peak_of_this_process()),
        samples,
    };
    if let (Some(folder), Some(row)) = (folder, row) {
        let as_row = outcome.as_row();
        row.write_summary(&as_row, &outcome.to_string())?;
        folder.write_readme(&outcome.environment, &[as_row], &[])?;
    }
    Ok(outcome)
}

fn new_folder(out: &Path, environment: &Environment) -> anyhow::Result<RunFolder> {
    let date = crate::date::format_date(SystemTime::now());
    let folder = RunFolder::create(out, &date, &environment.machine())?;
    folder.write_environment(environment)?;
    Ok(folder)
}

/// Everybody who ran the command once.
struct Contenders<'a> {
    /// Told how long it took so far, before each try.
    progress: Box<dyn Fn(Duration) + 'a>,
    trials: Vec<(Contender, Box<dyn Trial>)>,
    warnings: Vec<Warning>,
    /// How long they took together.
    round_took: Duration,
}

impl<'a> Contenders<'a> {
    /// A peer that fails is left out; palisade or no wall must not.
    fn try_all(tools: &Tools, options: &'a Options, task: &Task) -> anyhow::Result<Self> {
        let circumstances = Rc::new(Circumstances::new(options));
        let mut all = Self {
            progress: Box::new(|elapsed| {
                (options.progress)(Progress {
                    elapsed,
                    ..Progress::of_one(ROW, options.budget.unwrap_or(DEFAULT_BUDGET))
                });
            }),
            trials: Vec::new(),
            warnings: Vec::new(),
            round_took: Duration::ZERO,
        };
        if !task.is_wasm() {
            let bare = CommandTrial::new(&Bare, &task.theirs, task, &circumstances)?;
            all.try_one(&Bare, bare, task).with_context(|| {
                format!("guest: {} fails with no wall at all, so there is nothing to compare; --ignore-failure measures it nevertheless", task.name())
            })?;
            let palisade = &tools.palisade;
            let trial = CommandTrial::new(palisade, &task.ours, task, &circumstances)?;
            all.try_one(palisade, trial, task).with_context(|| {
                format!("guest: {} runs with no wall and fails behind palisade's; grant what it lacks (--read, --write, --exec, --env)", task.name())
            })?;
        }
        let able = |peer: &Peer| peer.takes(&task.command);
        for peer in tools.peers.iter().filter(|one| able(one.peer)) {
            let trial = CommandTrial::new(peer, &task.theirs, task, &circumstances);
            let tried = trial.and_then(|trial| all.try_one(peer, trial, task));
            if let Err(error) = tried {
                anyhow::ensure!(!options.interrupted.load(Ordering::Relaxed), "interrupted");
                all.warnings.push(Warning::PeerFailed {
                    peer: peer.name(),
                    reason: format!("{error:#}"),
                });
            }
        }
        anyhow::ensure!(
            !all.trials.is_empty(),
            "host: a WebAssembly file is run by wasmtime, which is not installed or failed: cargo install wasmtime-cli"
        );
        let absent = tools.absent.iter().filter(|one| able(one));
        let about_peers = warning::about_peers(all.trials.iter().map(|(one, _)| one), absent);
        all.warnings.extend(about_peers);
        Ok(all)
    }

    fn try_one(
        &mut self,
        subject: &dyn Subject,
        mut trial: CommandTrial,
        task: &Task,
    ) -> anyhow::Result<()> {
        (self.progress)(self.round_took);
        let began = Instant::now();
        trial.run_once()?;
        self.round_took += began.elapsed();
        let contender = Contender::new(&task.name(), subject.name());
        self.trials.push((contender, Box::new(trial)));
        Ok(())
    }
}

fn schedule(
    options: &Options,
    trials: &[(Contender, Box<dyn Trial>)],
    round_took: Duration,
) -> Schedule {
    let watched = watch_all(trials.iter().map(|(one, _)| one), present::WALL);
    // Who asked for a number of rounds gets it, unless there is a time too.
    let wanted = |rounds: usize| round_took * 4 * u32::try_from(rounds).unwrap_or(u32::MAX / 8);
    let budget = match (options.budget, options.rounds) {
        (Some(budget), _) => budget,
        (None, Some(rounds)) => wanted(rounds).max(DEFAULT_BUDGET),
        (None, None) => DEFAULT_BUDGET,
    };
    Schedule {
        warm_up_rounds: options.warm_up_rounds,
        least_rounds: options.rounds.unwrap_or(LEAST_ROUNDS),
        most_rounds: options.rounds.unwrap_or(MOST_ROUNDS),
        budget,
        relative_width: 0.02,
        watched: match trials.iter().any(|(one, _)| one.subject == BARE) {
            true => watched,
            false => Vec::new(),
        },
    }
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
        KeptRun {
            path: self.folder.clone().unwrap_or_default(),
            environment: self.environment.clone(),
            rows: vec![KeptRow {
                outcome: self.as_row(),
                samples: self.samples.clone(),
            }],
        }
    }

    fn as_row(&self) -> crate::Outcome {
        let mut tables = vec![(self.notes.join("\n"), self.table.clone())];
        if let Some(advice) = &self.advice {
            tables.push((advice.to_string(), Table::default()));
        }
        crate::Outcome {
            row: ROW.to_owned(),
            about: self.command.join(" "),
            rounds: self.rounds,
            took_s: self.took_s,
            figures: self.figures.clone(),
            warnings: self.warnings.iter().map(Doubt::from).collect(),
            conditions: self.conditions.clone(),
            tables,
            environment: self.environment.clone(),
            folder: self.folder.clone().unwrap_or_default(),
            ..crate::Outcome::default()
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{}", wrapped("cost:", &self.command.join(" ")))?;
        let circumstances = circumstances(&self.environment, self.rounds, self.took_s, COLUMNS);
        writeln!(formatter, "{circumstances}")?;
        for note in &self.notes {
            writeln!(formatter, "{}", wrapped("", note))?;
        }
        write!(formatter, "\n{}{}\n", self.table, present::LEGEND)?;
        if let Some(advice) = &self.advice {
            writeln!(formatter, "{advice}\n")?;
        }
        for warning in &self.warnings {
            writeln!(formatter, "{}", wrapped("warning:", &warning.to_string()))?;
        }
        match &self.folder {
            Some(folder) => writeln!(formatter, "samples: {}", folder.display()),
            None => Ok(()),
        }
    }
}
