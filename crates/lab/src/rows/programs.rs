//! Rows of whole programs: each is run to its end, with no wall and behind each, and its time counts.

use super::{
    BARE, OTHER_PEERS, PALISADE, Prepared, Row, Tools, peers_among, policies, ratio_cell,
    tables_of_peers, try_peers, watch_all,
};
use crate::{
    Warning,
    figure::{Figure, Target},
    measure::Schedule,
    notation::milliseconds,
    sample::{Contender, Samples, Unit},
    subjects::{Bare, Peer, Subject},
    table::Table,
    trial::{Program, TimedProgram},
    workloads::Workloads,
};
use palisade_wall::Command;
use std::time::Duration;

/// A row of this kind.
pub(super) struct Programs {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) programs: &'static [Job],
    /// The most a program may take, as a ratio to bare.
    pub(super) most: f64,
    /// Where the figures of [`Job::published`] come from: the title of their column.
    pub(super) original: &'static str,
    pub(super) budget: Duration,
}

/// One line of the table.
pub(super) struct Job {
    pub(super) title: &'static str,
    /// What the original measured.
    pub(super) published: &'static str,
    /// Lays out its input; gives its command, or `None` where it is not installed.
    pub(super) lay_out: fn(&Workloads) -> anyhow::Result<Option<Command>>,
    /// How to install it.
    pub(super) install: &'static str,
}

const WALL: &str = "wall";

impl Row for Programs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn prepare(&self, tools: &Tools) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        let mut prepared = Prepared {
            trials: Vec::new(),
            schedule: self.schedule(),
            warnings: Vec::new(),
            workloads,
            pinned: false,
        };
        for job in self.programs {
            match (job.lay_out)(&prepared.workloads)? {
                Some(command) => add(&mut prepared, tools, job.title, &command)?,
                None => prepared.warnings.push(Warning::ProgramAbsent {
                    program: job.title,
                    install: job.install,
                }),
            }
        }
        anyhow::ensure!(
            !prepared.trials.is_empty(),
            "none of the row's programs is installed"
        );
        prepared.schedule.watched =
            watch_all(prepared.trials.iter().map(|(contender, _)| contender), WALL);
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let figures: Vec<Figure> = samples
            .contenders()
            .iter()
            .map(|contender| self.figure(samples, contender))
            .collect();
        let title = "ms with no wall, and times as much behind each, with 95 % intervals:";
        let (table, others) = tables_of_peers(
            &peers_among(samples.contenders()),
            |peers| self.table(&figures, peers),
            |peers| self.table_of_others(&figures, peers),
        );
        let others = others.map(|table| (OTHER_PEERS.to_owned(), table));
        let tables = [(title.to_owned(), table)].into_iter().chain(others);
        let tables = tables.collect();
        (figures, tables)
    }
}

fn add(
    prepared: &mut Prepared,
    tools: &Tools,
    workload: &str,
    command: &Command,
) -> anyhow::Result<()> {
    let policy = policies::writing(&prepared.workloads);
    let subjects: [&dyn Subject; 2] = [&Bare, &tools.palisade];
    for subject in subjects {
        let trial = TimedProgram(Program::in_subject(subject, &policy, command)?);
        let contender = Contender::new(workload, subject.name());
        prepared.trials.push((contender, Box::new(trial)));
    }
    try_peers(prepared, tools, workload, command, |peer| {
        Program::in_subject(peer, &policy, command).map(TimedProgram)
    });
    Ok(())
}

impl Programs {
    /// As the originals did: one priming run, and three at least that count.
    fn schedule(&self) -> Schedule {
        Schedule {
            warm_up_rounds: 1,
            least_rounds: 3,
            most_rounds: 50,
            budget: self.budget,
            relative_width: 0.005,
            watched: Vec::new(),
        }
    }

    fn figure(&self, samples: &Samples, contender: &Contender) -> Figure {
        let bare = Contender::new(&contender.workload, BARE);
        let baseline = (*contender != bare).then_some(&bare);
        let is_ours = contender.subject == PALISADE;
        let target = is_ours.then_some(Target::AtMostTimesBare(self.most));
        Figure::of(
            samples,
            contender,
            baseline,
            (WALL, Unit::Microseconds),
            target,
        )
    }

    fn table(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let headings = ["", "bare ms", "target", "palisade", "95 %", ""].into_iter();
        let headings = headings.chain(peers.iter().map(|peer| peer.title));
        let mut table = Table::new(headings.chain([self.original]));
        for (job, bare_us) in self.measured(figures) {
            let ours = find(figures, job, PALISADE);
            let lead = [
                job.title.to_owned(),
                milliseconds(bare_us),
                format!("≤ {}", self.most),
                ratio_cell(ours),
                ours.map_or_else(String::new, Figure::ratio_interval),
                ours.map_or_else(String::new, Figure::verdict_cell),
            ];
            let peers = peer_cells(figures, job, peers);
            table.line(
                lead.into_iter()
                    .chain(peers)
                    .chain([job.published.to_owned()]),
            );
        }
        table
    }

    fn table_of_others(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let titles = peers.iter().map(|peer| peer.title);
        let mut table = Table::new(["", "bare ms"].into_iter().chain(titles));
        for (job, bare_us) in self.measured(figures) {
            let lead = [job.title.to_owned(), milliseconds(bare_us)];
            table.line(lead.into_iter().chain(peer_cells(figures, job, peers)));
        }
        table
    }

    /// The programs that are installed, and what each takes with no wall.
    fn measured<'a>(&'a self, figures: &'a [Figure]) -> impl Iterator<Item = (&'a Job, f64)> {
        self.programs.iter().filter_map(|job| {
            let summary = find(figures, job, BARE)?.summary?;
            Some((job, summary.median))
        })
    }
}

fn find<'a>(figures: &'a [Figure], job: &Job, subject: &str) -> Option<&'a Figure> {
    let contender = Contender::new(job.title, subject);
    figures.iter().find(|figure| figure.contender == contender)
}

fn peer_cells(figures: &[Figure], job: &Job, peers: &[&'static Peer]) -> Vec<String> {
    let cell = |peer: &&Peer| ratio_cell(find(figures, job, peer.name));
    peers.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{present_on_terminal, sva::APPLICATIONS};

    #[test]
    fn the_table_fits_a_terminal() {
        let row = &APPLICATIONS;
        let titles = row.programs[..2].iter().map(|job| job.title);
        let contenders: Vec<_> = titles
            .flat_map(|title| [BARE, PALISADE, "bubblewrap"].map(|one| Contender::new(title, one)))
            .collect();
        let mut samples = Samples::new(contenders.clone());
        for round in 0..4 {
            let of_round = (0..contenders.len()).map(|index| {
                let value_us = 5e6 + 1e3 * (index * 10 + round) as f64;
                vec![crate::sample::Reading::one_us(WALL, value_us)]
            });
            samples.push_round(of_round.collect());
        }
        let (figures, text) = present_on_terminal(row, &samples);
        assert_eq!(figures.len(), contenders.len());
        insta::assert_snapshot!(text);
    }
}
