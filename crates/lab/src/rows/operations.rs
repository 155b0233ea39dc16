//! Rows of operations: one program measures each of them, batch by batch in turn, and the programs of
//! the contenders take turns too. Operations go down the table, walls across.

use super::{
    BARE, OTHER_PEERS, Prepared, Row, Tools, peers_among, ratio_cell, tables_of_peers, try_peers,
};
use crate::{
    Trial, Warning,
    figure::{Figure, Target},
    measure::{Schedule, Watched},
    notation::short,
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Peer, Subject},
    table::Table,
    trial::Program,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade::Domain;
use palisade_policy::Policy;
use palisade_wall::{Command, Level};
use std::time::Duration;

/// A row of this kind: all of it is data, but for what lies on disk.
pub(super) struct Operations {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// What the operations are called in common: the title of the table.
    pub(super) title: &'static str,
    /// Lays out the program and what it works on; gives its command.
    pub(super) lay_out: fn(&Workloads) -> anyhow::Result<Command>,
    /// What it runs in, besides no wall and peers.
    pub(super) walls: &'static [Wall],
    pub(super) operations: &'static [Operation],
    /// Of all figures.
    pub(super) unit: Unit,
    /// The most that the geometric mean of the ratios may be.
    pub(super) most_mean: Option<f64>,
    /// Where the figures of [`Operation::published`] come from: the title of their column.
    pub(super) original: Option<&'static str>,
    /// On one processor, so that the scheduler's choice of processors is in no figure.
    pub(super) pinned: bool,
    pub(super) budget: Duration,
}

/// One line of the table.
pub(super) struct Operation {
    /// What the program calls it.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    /// The most it may cost behind a wall, as a ratio to bare.
    pub(super) most: f64,
    /// What the original measured.
    pub(super) published: &'static str,
}

/// Palisade under one policy.
pub(super) struct Wall {
    /// The subject in samples.
    pub(super) subject: &'static str,
    /// The column's title.
    pub(super) title: &'static str,
    pub(super) policy: fn(&Workloads) -> Policy,
}

const MEAN: &str = "geometric mean";

impl Row for Operations {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn budget(&self) -> Duration {
        self.budget
    }

    fn prepare(&self, tools: &Tools) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let command = (self.lay_out)(&workloads)?;
        let mut prepared = Prepared {
            pinned: self.pinned,
            ..Prepared::new(self.schedule(), workloads)
        };
        let first_policy = (self.walls[0].policy)(&prepared.workloads);
        self.add(&mut prepared, BARE, &Bare, &first_policy, &command)?;
        for wall in self.walls {
            let policy = (wall.policy)(&prepared.workloads);
            prepared.warnings.extend(degraded_parts(&policy, &command)?);
            let subject = &tools.palisade;
            self.add(&mut prepared, wall.subject, subject, &policy, &command)?;
        }
        try_peers(&mut prepared, tools, self.name, &command, |peer| {
            self.trial(peer, &first_policy, &command)
        });
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders();
        let mut figures: Vec<Figure> = contenders
            .iter()
            .flat_map(|contender| self.figures_of(samples, contender))
            .collect();
        let walls = contenders.iter().filter(|one| one.subject != BARE);
        figures.extend(walls.map(|wall| self.mean_figure(samples, wall)));
        let (table, others) = tables_of_peers(
            &peers_among(contenders),
            |peers| self.table(&figures, peers),
            |peers| self.table_of_others(&figures, peers),
        );
        let others = others.map(|table| (OTHER_PEERS.to_owned(), table));
        let tables = [(self.title.to_owned(), table)].into_iter().chain(others);
        let tables = tables.collect();
        (figures, tables)
    }
}

impl Operations {
    fn add(
        &self,
        prepared: &mut Prepared,
        name: &str,
        subject: &dyn Subject,
        policy: &Policy,
        command: &Command,
    ) -> anyhow::Result<()> {
        let trial = self.trial(subject, policy, command)?;
        let contender = Contender::new(self.name, name);
        prepared.trials.push((contender, Box::new(trial)));
        Ok(())
    }

    fn trial(
        &self,
        subject: &dyn Subject,
        policy: &Policy,
        command: &Command,
    ) -> anyhow::Result<MeasuringProgram> {
        Ok(MeasuringProgram {
            program: Program::in_subject(subject, policy, command)?,
            row: self.name,
            unit: self.unit,
            operations: self.operations,
        })
    }

    fn schedule(&self) -> Schedule {
        let watched = self.walls.iter().flat_map(|wall| {
            self.operations.iter().map(|operation| Watched {
                measure: operation.key.to_owned(),
                contender: Contender::new(self.name, wall.subject),
                baseline: Contender::new(self.name, BARE),
            })
        });
        Schedule {
            warm_up_rounds: 1,
            least_rounds: 10,
            most_rounds: 200,
            budget: self.budget,
            relative_width: 0.02,
            watched: watched.collect(),
        }
    }

    fn is_ours(&self, contender: &Contender) -> bool {
        self.walls
            .iter()
            .any(|wall| wall.subject == contender.subject)
    }

    fn figures_of(&self, samples: &Samples, contender: &Contender) -> Vec<Figure> {
        let bare = Contender::new(self.name, BARE);
        let baseline = (*contender != bare).then_some(&bare);
        let figure = |operation: &Operation| {
            let target = Target::AtMostTimesBare(operation.most);
            let target = self.is_ours(contender).then_some(target);
            let measure = (operation.key, self.unit);
            Figure::of(samples, contender, baseline, measure, target).titled(operation.title)
        };
        self.operations.iter().map(figure).collect()
    }

    fn mean_figure(&self, samples: &Samples, wall: &Contender) -> Figure {
        let keys: Vec<_> = self.operations.iter().map(|one| one.key).collect();
        let most = self.most_mean.filter(|_| self.is_ours(wall));
        let bare = Contender::new(self.name, BARE);
        Figure::mean_ratio(samples, wall, &bare, (&keys, self.unit), most)
    }

    fn table(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let mut table = Table::new(self.columns(peers));
        let most = |most: Option<f64>| most.map_or_else(String::new, |most| format!("≤ {most}"));
        for operation in self.operations {
            let lead = [
                operation.title.to_owned(),
                self.bare_cell(figures, operation.key),
                most(Some(operation.most)),
            ];
            let cells = self.wall_cells(figures, operation.key);
            let peers = peer_cells(figures, operation.key, peers);
            let published = self.original.map(|_| operation.published.to_owned());
            table.line(lead.into_iter().chain(cells).chain(peers).chain(published));
        }
        let lead = [MEAN.to_owned(), String::new(), most(self.most_mean)];
        let cells = self.wall_cells(figures, MEAN);
        table.line(
            lead.into_iter()
                .chain(cells)
                .chain(peer_cells(figures, MEAN, peers)),
        );
        table
    }

    fn table_of_others(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let titles = peers.iter().map(|peer| peer.title);
        let mut table = Table::new(["", self.bare_title()].into_iter().chain(titles));
        let lines = self.operations.iter().map(|one| (one.title, one.key));
        for (title, key) in lines.chain([(MEAN, MEAN)]) {
            let lead = [title.to_owned(), self.bare_cell(figures, key)];
            table.line(lead.into_iter().chain(peer_cells(figures, key, peers)));
        }
        table
    }

    fn columns(&self, peers: &[&'static Peer]) -> Vec<&'static str> {
        let walls = self.walls.iter().flat_map(|wall| [wall.title, "95 %", ""]);
        ["", self.bare_title(), "target"]
            .into_iter()
            .chain(walls)
            .chain(peers.iter().map(|peer| peer.title))
            .chain(self.original)
            .collect()
    }

    fn bare_title(&self) -> &'static str {
        match self.unit {
            Unit::Nanoseconds => "bare ns",
            Unit::Microseconds => "bare µs",
            Unit::Bytes => "bare B",
            Unit::Count | Unit::Outcome => "bare",
        }
    }

    fn bare_cell(&self, figures: &[Figure], measure: &str) -> String {
        find(figures, BARE, measure)
            .and_then(|figure| figure.summary)
            .map_or_else(String::new, |summary| short(summary.median))
    }

    fn wall_cells(&self, figures: &[Figure], measure: &str) -> Vec<String> {
        let ours = self.walls.iter().flat_map(|wall| {
            let figure = find(figures, wall.subject, measure);
            [
                ratio_cell(figure),
                figure.map_or_else(String::new, Figure::ratio_interval),
                figure.map_or_else(String::new, Figure::verdict_cell),
            ]
        });
        ours.collect()
    }
}

fn peer_cells(figures: &[Figure], measure: &str, peers: &[&'static Peer]) -> Vec<String> {
    let cell = |peer: &&Peer| ratio_cell(find(figures, peer.name, measure));
    peers.iter().map(cell).collect()
}

fn find<'a>(figures: &'a [Figure], subject: &str, measure: &str) -> Option<&'a Figure> {
    figures
        .iter()
        .find(|figure| figure.contender.subject == subject && figure.measure == measure)
}

/// A doubt, where this machine can't hold all of `policy`.
fn degraded_parts(policy: &Policy, command: &Command) -> anyhow::Result<Option<Warning>> {
    let builder = Domain::builder(&command.program).policy(policy.clone());
    let plan = builder.plan()?;
    let parts = plan
        .enforcement
        .iter()
        .filter(|part| part.actual != Level::Full);
    let mechanisms: Vec<_> = parts
        .map(|part| format!("{}: {}", part.capability, part.mechanism))
        .collect();
    Ok((!mechanisms.is_empty()).then_some(Warning::Degraded { mechanisms }))
}

/// A run of the program, whichever wall is around it.
struct MeasuringProgram {
    program: Program,
    row: &'static str,
    unit: Unit,
    operations: &'static [Operation],
}

impl Trial for MeasuringProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let output = self.program.run_for_output()?;
        parse_output(&output, self.unit, self.operations)
            .with_context(|| format!("the program of {}", self.row))
    }
}

/// `OPERATION NS NS …`, a line for each; one word alone is a remark.
pub(super) fn parse_output(
    text: &str,
    unit: Unit,
    operations: &[Operation],
) -> anyhow::Result<Vec<Reading>> {
    let lines = text.lines().filter(|line| *line != HOLDING);
    let readings: Vec<Reading> = lines
        .map(|line| parse_line(line, unit))
        .collect::<anyhow::Result<_>>()?;
    let is_there = |key| readings.iter().any(|reading| reading.measure == key);
    let missing = operations.iter().find(|one| !is_there(one.key));
    ensure!(
        missing.is_none(),
        "it left out {}",
        missing.map_or("", |one| one.key)
    );
    Ok(readings)
}

/// What a program says that keeps what it has until its input ends.
const HOLDING: &str = "holding";

pub(super) fn parse_line(line: &str, unit: Unit) -> anyhow::Result<Reading> {
    let mut words = line.split(' ');
    let measure = words.next().unwrap_or_default().to_owned();
    let values: Result<Vec<f64>, _> = words.map(str::parse).collect();
    let values = values.with_context(|| format!("it printed {line:?}"))?;
    ensure!(!values.is_empty(), "it printed {line:?}");
    let in_unit = match unit {
        Unit::Nanoseconds | Unit::Bytes | Unit::Count | Unit::Outcome => 1.0,
        Unit::Microseconds => 1e-3,
    };
    Ok(Reading {
        measure,
        unit,
        values: values.into_iter().map(|ns| ns * in_unit).collect(),
    })
}

#[cfg(test)]
mod tests;
