//! Rows of memory: what a program holds that has many files open, and what the wall around it holds
//! meanwhile. Walls go down the table.

use super::{BARE, Method, Prepared, TO_BE_SET, Tools, policies, ratio_cell, try_peers};
use crate::{
    Trial,
    figure::{Figure, Target},
    measure::{Schedule, Watched},
    memory::{Held, Process, tree_of},
    notation::kibibytes,
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Palisade, Subject},
    table::Table,
    workloads::Workloads,
};
use anyhow::ensure;
use palisade_policy::Policy;
use palisade_wall::Command;
use std::time::Duration;

/// A row of this kind.
pub(super) struct Memory {
    pub(super) name: &'static str,
    /// How many files the program has open.
    pub(super) files: usize,
}

/// What the program itself holds.
const GUEST: &str = "guest";
/// What all others of the tree hold.
const WALL: &str = "wall";
/// What of it would be held once more by a second run: no pages of files.
const PRIVATE: &str = "wall, private";
/// Before the name of each of them.
const PART: &str = "wall: ";

const PALISADE: &str = "palisade run, all on";

/// The most that the program may hold behind a wall, as a ratio to bare. What the wall holds beside it has
/// no target: it does not grow with the program.
const MOST: f64 = 1.05;

/// The workload's executable, as the kernel calls it.
const PROGRAM: &str = "opens";
/// What the program says when it has what it needs.
const HOLDING: &str = "holding";

impl Method for Memory {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let command = self.lay_out(&workloads)?;
        let policy = policies::everything_on(&workloads);
        // Others may run the same executable: a copy shares no page with them.
        let palisade = Palisade::new(workloads.add_copy("palisade", tools.palisade.program())?);
        let mut prepared = Prepared::new(self.schedule(), workloads);
        for (name, subject) in [(BARE, &Bare as &dyn Subject), (PALISADE, &palisade)] {
            let trial = Holding::new(subject, &policy, &command)?;
            let contender = Contender::new(self.name, name);
            prepared.trials.push((contender, Box::new(trial)));
        }
        try_peers(&mut prepared, tools, self.name, &command, |peer| {
            Holding::new(peer, &policy, &command)
        });
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| self.figures_of(samples, contender))
            .collect();
        let title = format!(
            "KiB held while {} files are open, by the program and by the wall around it; `private` is what a\n\
             second run would hold once more. Without what the kernel keeps; µKVM's figures are not known:",
            self.files
        );
        let who = "Who holds it beside the program, KiB:".to_owned();
        let tables = vec![(title, table(&figures)), (who, parts_table(&figures))];
        (figures, tables)
    }
}

impl Memory {
    fn lay_out(&self, workloads: &Workloads) -> anyhow::Result<Command> {
        workloads.add_files(self.files)?;
        Ok(Command {
            program: workloads.add_opens()?.into(),
            arguments: vec![
                workloads.folder().into(),
                self.files.to_string().into(),
                "0".into(),
            ],
        })
    }

    /// Memory varies by a page or two from run to run, if at all.
    fn schedule(&self) -> Schedule {
        Schedule {
            warm_up_rounds: 1,
            least_rounds: 10,
            most_rounds: 500,
            budget: TO_BE_SET,
            patience: TO_BE_SET,
            relative_width: 0.02,
            watched: vec![Watched {
                measure: GUEST.to_owned(),
                contender: Contender::new(self.name, PALISADE),
                baseline: Contender::new(self.name, BARE),
            }],
        }
    }

    fn figures_of(&self, samples: &Samples, contender: &Contender) -> Vec<Figure> {
        let bare = Contender::new(self.name, BARE);
        let figure = |measure: &&str| {
            let is_guest = *measure == GUEST;
            let baseline = (is_guest && *contender != bare).then_some(&bare);
            let is_promised = is_guest && contender.subject == PALISADE;
            let target = is_promised.then_some(Target::AtMostTimesBare(MOST));
            Figure::of(samples, contender, baseline, (measure, Unit::Bytes), target)
        };
        samples.measures(contender).iter().map(figure).collect()
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "", "program", "× bare", "95 %", "target", "", "wall", "private", "µKVM",
    ]);
    let guests = figures.iter().filter(|figure| figure.measure == GUEST);
    for guest in guests {
        let of_wall = |measure: &str| {
            let is_it = |one: &&Figure| one.contender == guest.contender && one.measure == measure;
            median_cell(figures.iter().find(is_it))
        };
        table.line([
            guest.contender.subject.clone(),
            median_cell(Some(guest)),
            ratio_cell(Some(guest)),
            guest.ratio_interval(),
            guest
                .target
                .map_or_else(String::new, |_| format!("≤ {MOST}")),
            guest.verdict_cell(),
            of_wall(WALL),
            of_wall(PRIVATE),
        ]);
    }
    table
}

fn parts_table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "KiB"]);
    let mut of = None;
    for (figure, part) in figures
        .iter()
        .filter_map(|one| Some((one, one.measure.strip_prefix(PART)?)))
    {
        let subject = &figure.contender.subject;
        if of.replace(subject) != Some(subject) {
            table.section(subject);
        }
        table.line([format!("  {part}"), median_cell(Some(figure))]);
    }
    table
}

fn median_cell(figure: Option<&Figure>) -> String {
    let summary = figure.and_then(|figure| figure.summary);
    summary.map_or_else(String::new, |summary| kibibytes(summary.median))
}

/// A run that is looked at while the program holds its files.
struct Holding(Program);

impl Holding {
    fn new(subject: &dyn Subject, policy: &Policy, command: &Command) -> anyhow::Result<Self> {
        Ok(Self(Program::in_subject(subject, policy, command)?))
    }
}

impl Trial for Holding {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        readings(&self.0.run_and_look(HOLDING, tree_of)?)
    }
}

/// The program's memory and everybody else's.
fn readings(tree: &[Process]) -> anyhow::Result<Vec<Reading>> {
    let (guests, wall): (Vec<_>, Vec<_>) = tree.iter().partition(|one| one.command == PROGRAM);
    ensure!(
        guests.len() == 1,
        "the program is no descendant of what was started: its memory cannot be told"
    );
    let mut readings = vec![Reading::one_bytes(GUEST, guests[0].held.bytes)];
    if !wall.is_empty() {
        let sum_bytes = |part: fn(&Held) -> u64| wall.iter().map(|one| part(&one.held)).sum();
        readings.push(Reading::one_bytes(WALL, sum_bytes(|held| held.bytes)));
        readings.push(Reading::one_bytes(
            PRIVATE,
            sum_bytes(|held| held.private_bytes),
        ));
    }
    let mut name = String::new();
    for part in wall {
        // A process that forks without a new program keeps its name.
        let has_parent_s = name.starts_with(&format!("{PART}{}", part.called));
        name = match has_parent_s {
            true => format!("{name}, its child"),
            false => format!("{PART}{}", part.called),
        };
        readings.push(Reading::one_bytes(&name, part.held.bytes));
    }
    Ok(readings)
}

#[cfg(test)]
mod tests;
