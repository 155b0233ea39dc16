//! Measuring rows one after the other, from their contenders to their tables.

use crate::{
    Warning,
    conditions::Moment,
    environment::Environment,
    figure::{BARE, Figure, Verdict},
    folder::{RowFolder, RunFolder},
    measure::{Executor, Observer, measure},
    outcome::{Doubt, Outcome},
    pin::Pin,
    rows::{self, Extent, Prepared, Row, Tools},
    sample::{Contender, Run, Samples},
    subjects::{InstalledPeer, PEERS, Palisade, Peer, find_peers},
    trial::Trials,
    warning,
};
use serde::Serialize;
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// How to measure.
pub struct Options {
    /// The `palisade` to measure.
    pub palisade: PathBuf,
    /// Folders of runs are made below this one.
    pub out: PathBuf,
    /// Time for each row; `None` takes what the row needs for narrow intervals on a quiet machine.
    pub budget: Option<Duration>,
    /// So many times that long a row may go on while a target of its is undecided.
    pub patience: u32,
    /// Who to compare with, where installed; `None` is everybody the lab knows, and bubblewrap, wasmtime
    /// and bridged alone in rows that take long.
    pub peers: Option<Vec<&'static Peer>>,
    /// How much of its work each row does. Less than all takes a tenth of the time.
    pub extent: Extent,
    /// The command that makes the figures again.
    pub command_line: Vec<String>,
    /// Set from outside to stop after the current run and keep what was measured.
    pub interrupted: Arc<AtomicBool>,
    /// Called after each run, and once at the end of each row.
    pub progress: Box<dyn Fn(Progress)>,
    /// Called with each row's outcome as soon as it is kept.
    pub show: Box<Show>,
}

/// Shows a row's outcome; an error ends the measuring.
pub type Show = dyn Fn(&Outcome) -> anyhow::Result<()>;

/// How far a row is, and all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The row's name.
    pub row: &'static str,
    /// The round it is in, counted from 1 on; 0 is the warm-up.
    pub round: usize,
    /// Time since the row began.
    pub elapsed: Duration,
    /// When the row ends at the latest, about.
    pub budget: Duration,
    /// The row's measuring is over.
    pub is_last: bool,
    /// Which row it is, counted from 1 on.
    pub number: usize,
    /// How many rows there are.
    pub rows: usize,
    /// Time since the first row began.
    pub elapsed_in_all: Duration,
    /// When all rows are over at the latest, about. It shrinks when a row needs less.
    pub budget_in_all: Duration,
}

/// What came out of all rows.
#[derive(Debug, Serialize)]
pub struct Outcomes {
    /// Where everything is kept.
    pub folder: PathBuf,
    /// The machine.
    pub environment: Environment,
    /// One for each row that was begun.
    pub rows: Vec<Outcome>,
}

/// Measures rows. One that fails does not keep the others from being measured:
/// [`Outcome::failed`] says why.
///
/// # Errors
///
/// When nothing can be kept or shown.
pub fn bench(chosen: &[&Row], options: &Options) -> anyhow::Result<Outcomes> {
    let (peers, absent) = find_peers(options.peers.clone().unwrap_or_else(|| PEERS.to_vec()));
    let tools = Tools {
        palisade: Palisade::new(options.palisade.clone()),
        peers,
        absent,
        extent: options.extent,
    };
    let environment = environment(chosen, &tools, &options.command_line);
    let date = crate::date::format_date(SystemTime::now());
    let folder = RunFolder::create(&options.out, &date, &environment.machine())?;
    folder.write_environment(&environment)?;
    let names: Vec<&str> = chosen.iter().map(|row| row.name).collect();
    folder.write_readme(&environment, &[], &names)?;
    let began = Instant::now();
    let mut outcomes = Vec::new();
    for index in 0..chosen.len() {
        if options.interrupted.load(Ordering::Relaxed) {
            break;
        }
        let place = Place::of(chosen, index, began.elapsed(), options);
        let outcome = bench_row(&place, &tools, &environment, &folder, options)?;
        (options.show)(&outcome)?;
        outcomes.push(outcome);
        folder.write_readme(&environment, &outcomes, &names[index + 1..])?;
    }
    Ok(Outcomes {
        folder: folder.path().to_owned(),
        environment,
        rows: outcomes,
    })
}

/// A row among the others, and the time that it and all of them have.
struct Place<'a> {
    row: &'a Row,
    number: usize,
    rows: usize,
    budget: Duration,
    /// The same where a target is undecided.
    patience: Duration,
    began_after: Duration,
    budget_in_all: Duration,
}

impl<'a> Place<'a> {
    fn of(rows: &[&'a Row], index: usize, elapsed: Duration, options: &Options) -> Self {
        let patience = |row| budget_of(row, options) * options.patience;
        let ahead = rows[index..].iter().map(|row| patience(row));
        Self {
            row: rows[index],
            number: index + 1,
            rows: rows.len(),
            budget: budget_of(rows[index], options),
            patience: patience(rows[index]),
            began_after: elapsed,
            budget_in_all: elapsed + ahead.sum::<Duration>(),
        }
    }
}

/// The time that a row has at most, about.
fn budget_of(row: &Row, options: &Options) -> Duration {
    const LEAST_QUICK: Duration = Duration::from_secs(3);
    let whole = row.budget;
    let usual = if options.extent != Extent::Full {
        (whole / 10).max(LEAST_QUICK)
    } else {
        whole
    };
    options.budget.unwrap_or(usual)
}

/// Measures a row and keeps what came out.
fn bench_row(
    place: &Place<'_>,
    tools: &Tools,
    environment: &Environment,
    folder: &RunFolder,
    options: &Options,
) -> anyhow::Result<Outcome> {
    let mut folder = folder.create_row(place.row.name)?;
    let measured = measure_row(place, tools, environment, &mut folder, options);
    let failed = |error: anyhow::Error| Outcome {
        failed: Some(format!("{error:#}")),
        ..Outcome::default()
    };
    let outcome = Outcome {
        row: place.row.name.to_owned(),
        about: place.row.about.to_owned(),
        chart: rows::chart_facts(place.row.name),
        floor: Some(place.row.method.floor().to_string()),
        environment: environment.clone(),
        folder: folder.path().to_owned(),
        ..measured.unwrap_or_else(failed)
    };
    folder.finish(&outcome, &outcome.to_string())?;
    Ok(outcome)
}

/// What the row itself tells.
fn measure_row(
    place: &Place<'_>,
    tools: &Tools,
    environment: &Environment,
    folder: &mut RowFolder,
    options: &Options,
) -> anyhow::Result<Outcome> {
    let mut warnings = warning::about_machine(environment.load, environment.processors);
    let few = tools.for_long_row();
    let tools = match &options.peers {
        None if place.row.is_long() => &few,
        _ => tools,
    };
    let mut prepared = place.row.method.prepare(tools, place.budget)?;
    prepared.schedule.budget = place.budget;
    prepared.schedule.patience = place.patience;
    warnings.append(&mut prepared.warnings);
    let pin = prepared.pinned.then(Pin::to_last_processor).transpose()?;
    let pinned_to = pin.as_ref().map(|(_, processor)| *processor);
    let watched = prepared.schedule.watched.clone();
    let before = Moment::now();
    let (samples, took, left_out) = take_samples(place, prepared, folder, options)?;
    drop(pin);
    let conditions = before.until(&Moment::now());

    warnings.extend(left_out);
    warnings.extend(warning::about_conditions(&conditions));
    warnings.extend(warning::about_samples(&samples, &watched));
    let (figures, tables) = place.row.method.present(&samples);
    Ok(Outcome {
        rounds: samples.rounds(),
        sat_out: samples.who_sat_out(),
        took_s: took.as_secs_f64(),
        pinned_to,
        figures,
        warnings: warnings.iter().map(Doubt::from).collect(),
        conditions,
        tables,
        ..Outcome::default()
    })
}

/// Whose targets more rounds may decide, and whom these are compared with.
fn undecided(row: &Row, samples: &Samples) -> Vec<Contender> {
    let (figures, _) = row.method.present(samples);
    let is_undecided = |figure: &&Figure| figure.verdict == Some(Verdict::Unsure);
    let figures: Vec<_> = figures.iter().filter(is_undecided).collect();
    let needs = |figure: &&Figure, contender: &Contender| {
        let is_baseline = contender.subject == BARE || rows::is_floor(contender);
        let is_other = figure.against.as_ref() == Some(&contender.subject);
        is_baseline || is_other || figure.contender == *contender
    };
    let is_needed = |one: &&Contender| figures.iter().any(|figure| needs(figure, one));
    let contenders = samples.contenders().iter();
    contenders.filter(is_needed).cloned().collect()
}

/// Measures by the schedule; gives the time it took and who was left out too. The workload's files are gone afterwards.
fn take_samples(
    place: &Place<'_>,
    prepared: Prepared,
    folder: &mut RowFolder,
    options: &Options,
) -> anyhow::Result<(Samples, Duration, Vec<Warning>)> {
    let mut watcher = Watcher {
        folder: Some(folder),
        interrupted: &options.interrupted,
        tell: &|round, elapsed, is_last| tell(place, options, round, elapsed, is_last),
        undecided: &|samples| undecided(place.row, samples),
    };
    let mut trials = Trials::new(prepared.trials, prepared.limits);
    let samples = measure(&mut trials, &prepared.schedule, &mut watcher);
    let took = trials.elapsed();
    (watcher.tell)(samples.as_ref().map_or(0, Samples::rounds), took, true);
    Ok((samples?, took, trials.left_out()))
}

/// The machine, the tools, what the rows are made with, and the command.
pub(crate) fn environment(rows: &[&Row], tools: &Tools, command_line: &[String]) -> Environment {
    let version = |peer: &InstalledPeer| (peer.peer.name, peer.version());
    let versions = tools.peers.iter().map(version);
    Environment {
        tools: versions
            .chain([("palisade", tools.palisade.version())])
            .chain(rows.iter().flat_map(|row| row.method.versions()))
            .filter_map(|(name, version)| Some((name.to_owned(), version?)))
            .collect(),
        command_line: command_line.to_owned(),
        ..Environment::of_this_machine()
    }
}

/// Writes runs down and tells how far it is.
pub(crate) struct Watcher<'a> {
    /// Absent where nothing is kept.
    pub(crate) folder: Option<&'a mut RowFolder>,
    pub(crate) interrupted: &'a AtomicBool,
    /// Takes the round, the time since the measuring began, and whether it is over.
    pub(crate) tell: &'a dyn Fn(usize, Duration, bool),
    /// See [`Observer::undecided`].
    pub(crate) undecided: &'a dyn Fn(&Samples) -> Vec<Contender>,
}

fn tell(place: &Place<'_>, options: &Options, round: usize, elapsed: Duration, is_last: bool) {
    (options.progress)(Progress {
        row: place.row.name,
        round,
        elapsed,
        budget: place.patience,
        is_last,
        number: place.number,
        rows: place.rows,
        elapsed_in_all: place.began_after + elapsed,
        budget_in_all: place.budget_in_all,
    });
}

impl Observer for Watcher<'_> {
    fn record(&mut self, run: &Run) -> anyhow::Result<()> {
        let round = if run.warm_up { 0 } else { run.round + 1 };
        (self.tell)(round, Duration::from_micros(run.at_us), false);
        match &mut self.folder {
            Some(folder) => folder.record(run),
            None => Ok(()),
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn undecided(&self, samples: &Samples) -> Vec<Contender> {
        (self.undecided)(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(budget: Option<Duration>, extent: Extent) -> Options {
        Options {
            palisade: PathBuf::new(),
            out: PathBuf::new(),
            budget,
            patience: 1,
            peers: None,
            extent,
            command_line: Vec::new(),
            interrupted: Arc::default(),
            progress: Box::new(|_| {}),
            show: Box::new(|_| Ok(())),
        }
    }

    #[test]
    fn a_quick_look_takes_a_tenth() {
        let start = rows::row("start").unwrap();
        let long = rows::row("sva-t3").unwrap();
        let seconds = |row, budget, quick| budget_of(row, &options(budget, quick)).as_secs_f64();
        assert_eq!(seconds(start, None, Extent::Full), 20.0);
        assert_eq!(seconds(start, None, Extent::Quick), 3.0, "never less");
        assert_eq!(
            seconds(long, None, Extent::Quick),
            long.budget.as_secs_f64() / 10.0
        );
        assert_eq!(
            seconds(long, Some(Duration::from_secs(1)), Extent::Quick),
            1.0
        );
    }

    #[test]
    fn what_is_left_of_all_shrinks_with_each_row() {
        let rows = ["start", "start", "start"].map(|name| rows::row(name).unwrap());
        let minute = options(Some(Duration::from_secs(60)), Extent::Full);
        let at = |index, elapsed| Place::of(&rows, index, Duration::from_secs(elapsed), &minute);
        assert_eq!(at(0, 0).budget_in_all.as_secs(), 180);
        let last = at(2, 70);
        assert_eq!(last.budget_in_all.as_secs(), 130);
        assert_eq!((last.number, last.rows), (3, 3));
        let patient = Options {
            patience: 10,
            ..options(None, Extent::Full)
        };
        let start = Place::of(&rows[..1], 0, Duration::ZERO, &patient);
        let seconds = [start.budget, start.patience, start.budget_in_all];
        assert_eq!(seconds.map(|time| time.as_secs()), [20, 200, 200]);
    }
}
