//! Rows of whole programs: each is run to its end, with no wall and behind each, and its time counts.

use super::{
    BARE, Extent, OTHER_PEERS, PALISADE, Prepared, Row, Tools, peers_among, policies, ratio_cell,
    tables_of_peers, try_peers, watch_all,
};
use crate::{
    Warning,
    figure::{Figure, Target},
    measure::Schedule,
    notation::milliseconds,
    sample::{Contender, Samples, Unit},
    subjects::{Bare, Peer, Subject, on_path},
    table::Table,
    trial::{Program, TimedProgram},
    workloads::Workloads,
};
use palisade_wall::Command;
use std::{ffi::OsString, time::Duration};

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
    /// The executable's name.
    pub(super) program: &'static str,
    /// What it works on when the row is run in full.
    pub(super) input_mb: usize,
    /// What the original measured.
    pub(super) published: &'static str,
    /// Lays out an input of so many bytes; gives the arguments.
    pub(super) lay_out: fn(&Workloads, usize) -> anyhow::Result<Vec<OsString>>,
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

    fn budget(&self) -> Duration {
        self.budget
    }

    fn prepare(&self, tools: &Tools) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        let mut prepared = Prepared::new(self.schedule(), workloads);
        for job in self.programs {
            let Some(program) = on_path(job.program) else {
                prepared.warnings.push(Warning::ProgramAbsent {
                    program: job.program,
                    install: job.install,
                });
                continue;
            };
            let command = Command {
                program: program.into(),
                arguments: (job.lay_out)(&prepared.workloads, job.input_bytes(tools.extent))?,
            };
            add(&mut prepared, tools, &job.title(tools.extent), &command)?;
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
            |peers| Self::table_of_others(&figures, peers),
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

impl Job {
    /// Less than in full only by a factor: what the program does with each byte stays the same.
    fn input_bytes(&self, extent: Extent) -> usize {
        let part = match extent {
            Extent::Full => 1,
            Extent::Quick => 16,
            Extent::Tiny => 256,
        };
        (self.input_mb << 20) / part
    }

    /// What was run: `bzip2 of 64 MB`, or `bzip2 of 256 KB`.
    fn title(&self, extent: Extent) -> String {
        match self.input_bytes(extent) {
            bytes if bytes < 1 << 20 => format!("{} of {} KB", self.program, bytes >> 10),
            bytes => format!("{} of {} MB", self.program, bytes >> 20),
        }
    }

    fn is_what_ran(&self, title: &str) -> bool {
        title.split(' ').next() == Some(self.program)
    }
}

impl Programs {
    /// As the originals did: one priming run; four at least that count, where they took three.
    fn schedule(&self) -> Schedule {
        Schedule {
            warm_up_rounds: 1,
            least_rounds: 4,
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
        for (title, bare_us) in measured(figures) {
            let job = self.programs.iter().find(|job| job.is_what_ran(title));
            let ours = find(figures, title, PALISADE);
            let lead = [
                title.to_owned(),
                milliseconds(bare_us),
                format!("≤ {}", self.most),
                ratio_cell(ours),
                ours.map_or_else(String::new, Figure::ratio_interval),
                ours.map_or_else(String::new, Figure::verdict_cell),
            ];
            let peers = peer_cells(figures, title, peers);
            let published = job.map_or("", |job| job.published).to_owned();
            table.line(lead.into_iter().chain(peers).chain([published]));
        }
        table
    }

    fn table_of_others(figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let titles = peers.iter().map(|peer| peer.title);
        let mut table = Table::new(["", "bare ms"].into_iter().chain(titles));
        for (title, bare_us) in measured(figures) {
            let lead = [title.to_owned(), milliseconds(bare_us)];
            table.line(lead.into_iter().chain(peer_cells(figures, title, peers)));
        }
        table
    }
}

/// What was run, and what it takes with no wall.
fn measured(figures: &[Figure]) -> impl Iterator<Item = (&str, f64)> {
    let bare = figures.iter().filter(|one| one.contender.subject == BARE);
    bare.filter_map(|one| Some((one.contender.workload.as_str(), one.summary?.median)))
}

fn find<'a>(figures: &'a [Figure], workload: &str, subject: &str) -> Option<&'a Figure> {
    let contender = Contender::new(workload, subject);
    figures.iter().find(|figure| figure.contender == contender)
}

fn peer_cells(figures: &[Figure], workload: &str, peers: &[&'static Peer]) -> Vec<String> {
    let cell = |peer: &&Peer| ratio_cell(find(figures, workload, peer.name));
    peers.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{present_on_terminal, sva::APPLICATIONS};

    #[test]
    fn the_table_fits_a_terminal() {
        let row = &APPLICATIONS;
        let titles = row.programs[..2].iter().map(|job| job.title(Extent::Full));
        let contenders: Vec<_> = titles
            .flat_map(|title| [BARE, PALISADE, "bubblewrap"].map(|one| Contender::new(&title, one)))
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

    #[test]
    fn titles_say_what_was_run() {
        let titles = |extent| {
            APPLICATIONS
                .programs
                .iter()
                .map(move |job| job.title(extent))
        };
        let all = [Extent::Full, Extent::Quick, Extent::Tiny].into_iter();
        let all: Vec<_> = all.flat_map(titles).collect();
        assert_eq!(
            all,
            [
                "bzip2 of 64 MB",
                "lame of 206 MB",
                "perl of 16 MB",
                "bzip2 of 4 MB",
                "lame of 12 MB",
                "perl of 1 MB",
                "bzip2 of 256 KB",
                "lame of 824 KB",
                "perl of 64 KB",
            ]
        );
    }
}
