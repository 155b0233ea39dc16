//! Rounds of runs, until the figures are certain enough or the time is up.

use crate::{
    order::order_of_round,
    sample::{Contender, Reading, Run, Samples},
    statistics::estimate_ratio,
};
use std::time::Duration;

/// Runs contenders. The real one starts programs; a mock gives back a script.
pub trait Executor {
    /// Who can be run.
    fn contenders(&self) -> Vec<Contender>;

    /// Runs one of them once, to its end.
    ///
    /// # Errors
    ///
    /// When the run failed: its time would mean nothing.
    fn run_once(&mut self, contender: usize) -> anyhow::Result<Vec<Reading>>;

    /// Takes one out that has failed, for good, if the others can go on without it.
    fn leave_out(&mut self, contender: usize, why: &anyhow::Error) -> bool;

    /// Is told of one that is run no more; its place is kept.
    fn sit_out(&mut self, _contender: usize) {}

    /// Time since the measuring began.
    fn elapsed(&self) -> Duration;
}

/// Sees every run, before the next one begins.
pub trait Observer {
    /// Takes a run down.
    ///
    /// # Errors
    ///
    /// When that is impossible; the measuring ends then.
    fn record(&mut self, run: &Run) -> anyhow::Result<()>;

    /// Whether to stop now, and keep what was measured.
    fn is_interrupted(&self) -> bool;

    /// Who has a target that these samples leave undecided and more of them may decide, and whom that is compared
    /// with: nobody if all are decided.
    fn undecided(&self, _samples: &Samples) -> Vec<Contender> {
        Vec::new()
    }
}

/// When to stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Rounds that are not counted: caches, lazily mapped pages, the first use of everything.
    pub warm_up_rounds: usize,
    /// Fewer rounds only if the time is up.
    pub least_rounds: usize,
    /// No more rounds than these.
    pub most_rounds: usize,
    /// No new round after this, where every target is decided; two rounds there are always.
    pub budget: Duration,
    /// No new round after this in any case. Past the budget those alone take turns who have an undecided target, and
    /// whom they are compared with.
    pub patience: Duration,
    /// Narrow enough: the width of the intervals, as a part of the ratio.
    pub relative_width: f64,
    /// The ratios that must be that narrow.
    pub watched: Vec<Watched>,
}

/// One ratio: a measure of one contender to that of another.
#[derive(Clone, Debug, PartialEq)]
pub struct Watched {
    /// What is compared.
    pub measure: String,
    /// Above the line.
    pub contender: Contender,
    /// Below the line.
    pub baseline: Contender,
}

/// One A and one B in both orders: less is no comparison.
const FEWEST_ROUNDS: usize = 2;

/// Runs rounds by the schedule. What an interruption leaves of a round is recorded, not counted.
///
/// # Errors
///
/// When a run fails of somebody who cannot be left out, when one cannot be recorded, or when there was
/// no time for a single round.
pub fn measure(
    executor: &mut dyn Executor,
    schedule: &Schedule,
    observer: &mut dyn Observer,
) -> anyhow::Result<Samples> {
    let mut samples = Samples::new(executor.contenders());
    for round in 0..schedule.warm_up_rounds {
        if next_round(executor, &mut samples, (round, true), observer)?.is_none() {
            break;
        }
    }
    let mut looks = Looks::new(schedule);
    loop {
        match looks.next(executor.elapsed(), &samples, schedule, observer) {
            Next::Nobody => break,
            Next::Everybody => {}
            Next::Only(these) => have_others_sit_out(&these, executor, &mut samples, observer)?,
        }
        let number = samples.rounds();
        let Some(round) = next_round(executor, &mut samples, (number, false), observer)? else {
            break;
        };
        samples.push_round(round);
    }
    anyhow::ensure!(
        samples.rounds() > 0,
        "interrupted before the first round was complete"
    );
    Ok(samples)
}

/// Who takes part in the next round, of those who have not sat out already.
enum Next {
    Everybody,
    Only(Vec<Contender>),
    /// It is over.
    Nobody,
}

/// Has those take part no more whom no undecided target is about. A run that told nothing says so to whoever reads
/// the samples.
fn have_others_sit_out(
    these: &[Contender],
    executor: &mut dyn Executor,
    samples: &mut Samples,
    observer: &mut dyn Observer,
) -> anyhow::Result<()> {
    for (index, contender) in executor.contenders().into_iter().enumerate() {
        if samples.sits_out(index) || these.contains(&contender) {
            continue;
        }
        executor.sit_out(index);
        samples.sit_out(index);
        observer.record(&Run {
            round: samples.rounds(),
            turn: 0,
            warm_up: false,
            contender,
            at_us: executor.elapsed().as_micros() as u64,
            readings: Vec::new(),
        })?;
    }
    Ok(())
}

/// When to look at the figures.
struct Looks {
    /// After so many rounds: figures take a while to compute, and must have had a chance to change.
    after: usize,
    /// There was a look since the budget was used up.
    is_over_budget: bool,
}

impl Looks {
    fn new(schedule: &Schedule) -> Self {
        Self {
            after: schedule.least_rounds.max(FEWEST_ROUNDS),
            is_over_budget: false,
        }
    }

    /// Until every target is decided and the intervals are narrow, or the time is up.
    fn next(
        &mut self,
        elapsed: Duration,
        samples: &Samples,
        schedule: &Schedule,
        observer: &dyn Observer,
    ) -> Next {
        let rounds = samples.rounds();
        if rounds < FEWEST_ROUNDS {
            return Next::Everybody;
        }
        if rounds >= schedule.most_rounds || elapsed >= schedule.patience.max(schedule.budget) {
            return Next::Nobody;
        }
        let is_over_budget = elapsed >= schedule.budget;
        if rounds < self.after && is_over_budget == self.is_over_budget {
            return Next::Everybody;
        }
        self.after = self.after.max(rounds + rounds.div_ceil(4));
        self.is_over_budget = is_over_budget;
        let undecided = observer.undecided(samples);
        match (undecided.is_empty(), is_over_budget) {
            (false, true) => Next::Only(undecided),
            (false, false) => Next::Everybody,
            (true, false) if !is_certain(samples, schedule) => Next::Everybody,
            (true, _) => Next::Nobody,
        }
    }
}

/// A round without those who fail in it; `None` if it was interrupted.
fn next_round(
    executor: &mut dyn Executor,
    samples: &mut Samples,
    round: (usize, bool),
    observer: &mut dyn Observer,
) -> anyhow::Result<Option<Vec<Vec<Reading>>>> {
    loop {
        match run_round(executor, samples, round, observer)? {
            Round::Complete(readings) => return Ok(Some(readings)),
            Round::Interrupted => return Ok(None),
            Round::Failed(contender, why) if executor.leave_out(contender, &why) => {
                samples.leave_out(contender);
            }
            Round::Failed(_, why) => return Err(why),
        }
    }
}

/// How a round ended.
enum Round {
    /// The readings of each contender.
    Complete(Vec<Vec<Reading>>),
    Interrupted,
    /// Whose run failed, and why.
    Failed(usize, anyhow::Error),
}

fn run_round(
    executor: &mut dyn Executor,
    samples: &Samples,
    (round, warm_up): (usize, bool),
    observer: &mut dyn Observer,
) -> anyhow::Result<Round> {
    let contenders = executor.contenders();
    let taking_part = (0..contenders.len()).filter(|index| !samples.sits_out(*index));
    let taking_part: Vec<usize> = taking_part.collect();
    let mut readings = vec![Vec::new(); contenders.len()];
    let order = order_of_round(round, taking_part.len());
    for (turn, place) in order.into_iter().enumerate() {
        let index = taking_part[place];
        let outcome = executor.run_once(index);
        // Ctrl-C reaches the contender too: how it ended then tells nothing about it.
        if observer.is_interrupted() {
            return Ok(Round::Interrupted);
        }
        let (contender, at_us) = (
            contenders[index].clone(),
            executor.elapsed().as_micros() as u64,
        );
        let run = match outcome {
            Ok(readings) => Run {
                round,
                turn,
                warm_up,
                contender,
                at_us,
                readings,
            },
            Err(why) => return Ok(Round::Failed(index, why)),
        };
        observer.record(&run)?;
        readings[index] = run.readings;
    }
    Ok(Round::Complete(readings))
}

/// Whether every watched ratio is known well enough.
fn is_certain(samples: &Samples, schedule: &Schedule) -> bool {
    let takes_part = |watched: &&Watched| samples.contenders().contains(&watched.contender);
    schedule.watched.iter().filter(takes_part).all(|watched| {
        let series = |contender| samples.series(contender, &watched.measure);
        let ratio = estimate_ratio(&series(&watched.contender), &series(&watched.baseline));
        ratio.relative_width() <= schedule.relative_width
    })
}

#[cfg(test)]
mod tests;
