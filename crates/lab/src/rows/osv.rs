//! The row of OSv (2013), a library operating system for one program in one virtual machine: workloads for
//! Java's machine, of the kinds that SPECjvm2008 has.
//!
//! Each run is a JVM of its own for one workload, that of `lab/jvm`: what one workload taught the compiler
//! is in no figure of another's, and contenders take turns as in every row. A run warms up within itself,
//! so that no round of the row has to.

use super::{
    BARE, Method, PALISADE, Prepared, TO_BE_SET, Tools, grant, operations::parse_line, policies,
    ratio_cell, try_peers, watch_all,
};
use crate::{
    Trial, Warning,
    environment::Environment,
    figure::{Figure, Target},
    jvm::{self, Java},
    measure::Schedule,
    notation::short,
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Subject},
    table::Table,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade_policy::{Access, Policy};
use palisade_wall::Command;
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// The workloads, in the order of the original's.
const WORKLOADS: [&str; 21] = [
    "compiler.compiler",
    "compiler.geometry",
    "compress",
    "crypto.aes",
    "crypto.rsa",
    "crypto.signverify",
    "derby",
    "mpegaudio",
    "scimark.fft.large",
    "scimark.lu.large",
    "scimark.sor.large",
    "scimark.sparse.large",
    "scimark.fft.small",
    "scimark.lu.small",
    "scimark.sor.small",
    "scimark.sparse.small",
    "scimark.monte_carlo",
    "serial",
    "raytracer",
    "xml.transform",
    "xml.validation",
];

/// All of them.
pub static JVM: Jvm = Jvm::of(&WORKLOADS);

/// A row of workloads for Java's machine.
#[derive(Debug)]
pub struct Jvm {
    workloads: &'static [&'static str],
}

const UNIT: Unit = Unit::Microseconds;
const BUBBLEWRAP: &str = "bubblewrap";
const BARE_HUGE: &str = "bare, huge pages";
const PALISADE_HUGE: &str = "palisade run, huge pages";
const MEAN: &str = "geometric mean";

/// The most time one workload may take, as a ratio to bare: 1 / 0.99.
const MOST: f64 = 1.01;
/// The same of their geometric mean.
const MOST_MEAN: f64 = 1.0;
/// 1 / 1.0176: the original was 1.76 % faster than a Linux guest on average.
const PUBLISHED: f64 = 0.983;

/// Rounds that a run's time is reckoned for: in four, each order of two contenders comes up equally often.
const ROUNDS: u32 = 4;
/// What a run takes beside the time it is given, about, as a mean over all workloads: a JVM's start, the
/// workload's own, and operations that do not end with their time.
const BESIDE: Duration = Duration::from_millis(750);
const SHORTEST_RUN: Duration = Duration::from_millis(50);
/// So many times the rounds there are, at most, as long as a target is undecided.
const MORE: usize = 100;
/// With still more time there are more rounds.
const LONGEST_RUN: Duration = Duration::from_millis(2500);

/// A guest sees nothing of `/sys`, and a JVM that cannot read this takes no huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage";

impl Jvm {
    /// Some of the workloads of `lab/jvm`, by name.
    pub const fn of(workloads: &'static [&'static str]) -> Self {
        Self { workloads }
    }

    /// Their names.
    pub fn workloads(&self) -> &[&'static str] {
        self.workloads
    }
}

impl Method for Jvm {
    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let version = Java::find().ok().and_then(|java| java.version());
        vec![("java", version)]
    }

    fn prepare(&self, tools: &Tools, budget: Duration) -> anyhow::Result<Prepared> {
        let tools = &tools.for_long_row();
        let workloads = Workloads::new()?;
        let kit = Kit::lay_out(&workloads)?;
        let mut prepared = Prepared::new(schedule(), workloads);
        let with_peer = self.try_peer(&mut prepared, &kit, tools)?;
        let with_huge_pages = offers_huge_pages(&Environment::of_this_machine());
        if !with_huge_pages {
            prepared.warnings.push(Warning::HugePagesOff);
        }
        let mut ways = ways(tools);
        ways.retain(|way| match way.name {
            BUBBLEWRAP => with_peer,
            _ => with_huge_pages || !way.huge_pages,
        });
        let pace = Pace::of(budget, self.workloads.len() * ways.len());
        prepared.schedule.most_rounds = pace.most_rounds * MORE;
        for workload in self.workloads {
            for way in &ways {
                let contender = Contender::new(workload, way.name);
                let trial = kit.trial(workload, way, pace.run_time)?;
                prepared.trials.push((contender, Box::new(trial)));
            }
        }
        let contenders = prepared.trials.iter().map(|(contender, _)| contender);
        let watched = contenders.flat_map(|one| watch_all([one].into_iter(), &one.workload));
        prepared.schedule.watched = watched.collect();
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders();
        let mut figures: Vec<Figure> = contenders
            .iter()
            .map(|contender| figure(samples, contender))
            .collect();
        let subjects = contenders
            .iter()
            .take_while(|one| one.workload == contenders[0].workload)
            .map(|one| one.subject.as_str());
        let walls = subjects.filter(|&subject| subject != BARE);
        figures.extend(walls.map(|subject| self.mean_figure(samples, subject)));
        let mut tables = vec![(TITLE.to_owned(), self.table(&figures))];
        if find(&figures, MEAN, PALISADE_HUGE).is_some() {
            tables.push((TITLE_HUGE.to_owned(), self.table_of_huge_pages(&figures)));
        }
        (figures, tables)
    }
}

const TITLE: &str =
    "µs of one operation with no wall, and times as much behind each, with 95 % intervals:";
const TITLE_HUGE: &str =
    "times as much as with no wall, when the heap is of huge pages (-XX:+UseTransparentHugePages):";

impl Jvm {
    /// Whether the peer runs here; a short run tells. It takes part in nothing yet.
    fn try_peer(&self, prepared: &mut Prepared, kit: &Kit, tools: &Tools) -> anyhow::Result<bool> {
        let first = self.workloads.first().context("no workload")?;
        let command = kit.command(first, false, SHORTEST_RUN);
        try_peers(prepared, tools, first, &command, |peer| {
            let way = Way {
                name: BUBBLEWRAP,
                subject: peer,
                huge_pages: false,
            };
            kit.trial(first, &way, SHORTEST_RUN)
        });
        Ok(prepared.trials.pop().is_some())
    }

    fn mean_figure(&self, samples: &Samples, subject: &str) -> Figure {
        let series = |workload: &str, subject: &str| {
            samples.series(&Contender::new(workload, subject), workload)
        };
        let pairs: Vec<_> = self
            .workloads
            .iter()
            .map(|workload| (series(workload, subject), series(workload, BARE)))
            .collect();
        let most = match subject {
            PALISADE => Some(MOST_MEAN),
            PALISADE_HUGE => Some(PUBLISHED),
            _ => None,
        };
        let target = most.map(Target::AtMostTimesBare);
        Figure::mean_of_pairs(Contender::new(MEAN, subject), UNIT, &pairs, target)
    }

    fn table(&self, figures: &[Figure]) -> Table {
        let mut table = Table::new([
            "", "bare µs", "target", "palisade", "95 %", "", "bwrap", "OSv",
        ]);
        for workload in self.workloads {
            let bare = find(figures, workload, BARE).and_then(|figure| figure.summary);
            let bare = bare.map_or_else(String::new, |summary| short(summary.median));
            table.line(self.cells(figures, workload, &bare, MOST));
        }
        let published = format!("{PUBLISHED}");
        let cells = self.cells(figures, MEAN, "", MOST_MEAN);
        table.line(cells.into_iter().chain([published]));
        table
    }

    fn cells(&self, figures: &[Figure], workload: &str, bare: &str, most: f64) -> Vec<String> {
        let ours = find(figures, workload, PALISADE);
        vec![
            workload.to_owned(),
            bare.to_owned(),
            format!("≤ {most:.2}"),
            ratio_cell(ours),
            interval(ours),
            ours.map_or_else(String::new, Figure::verdict_cell),
            ratio_cell(find(figures, workload, BUBBLEWRAP)),
        ]
    }

    fn table_of_huge_pages(&self, figures: &[Figure]) -> Table {
        let mut table = Table::new(["", "bare", "95 %", "target", "palisade", "95 %", ""]);
        for workload in self.workloads.iter().chain([&MEAN]) {
            let bare = find(figures, workload, BARE_HUGE);
            let ours = find(figures, workload, PALISADE_HUGE);
            let target = match *workload {
                MEAN => format!("≤ {PUBLISHED}"),
                _ => String::new(),
            };
            table.line([
                (*workload).to_owned(),
                ratio_cell(bare),
                interval(bare),
                target,
                ratio_cell(ours),
                interval(ours),
                ours.map_or_else(String::new, Figure::verdict_cell),
            ]);
        }
        table
    }
}

fn figure(samples: &Samples, contender: &Contender) -> Figure {
    let bare = Contender::new(&contender.workload, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let is_ours = contender.subject == PALISADE;
    let target = is_ours.then_some(Target::AtMostTimesBare(MOST));
    let measure = (contender.workload.as_str(), UNIT);
    Figure::of(samples, contender, baseline, measure, target)
}

fn find<'a>(figures: &'a [Figure], workload: &str, subject: &str) -> Option<&'a Figure> {
    let is_it =
        |one: &&Figure| one.contender.workload == workload && one.contender.subject == subject;
    figures.iter().find(is_it)
}

fn interval(figure: Option<&Figure>) -> String {
    figure.map_or_else(String::new, Figure::ratio_interval)
}

/// One of the ways in which each workload is run.
struct Way<'a> {
    name: &'static str,
    subject: &'a dyn Subject,
    huge_pages: bool,
}

fn ways(tools: &Tools) -> Vec<Way<'_>> {
    let way = |name, subject, huge_pages| Way {
        name,
        subject,
        huge_pages,
    };
    let peer = tools.peers.iter();
    let peer = peer.map(|bubblewrap| way(BUBBLEWRAP, bubblewrap, false));
    let first = [
        way(BARE, &Bare, false),
        way(PALISADE, &tools.palisade, false),
    ];
    let last = [
        way(BARE_HUGE, &Bare, true),
        way(PALISADE_HUGE, &tools.palisade, true),
    ];
    first.into_iter().chain(peer).chain(last).collect()
}

fn offers_huge_pages(machine: &Environment) -> bool {
    matches!(machine.huge_pages.as_deref(), Some("madvise" | "always"))
}

/// How long a run measures, and how many rounds there are in the time given.
#[derive(Debug, PartialEq, Eq)]
struct Pace {
    run_time: Duration,
    most_rounds: usize,
}

impl Pace {
    /// Short runs rather than fewer than [`ROUNDS`] rounds, and more rounds rather than long runs.
    fn of(budget: Duration, contenders: usize) -> Self {
        let of_contender = budget / contenders.max(1) as u32;
        let run_time = (of_contender / ROUNDS)
            .saturating_sub(BESIDE)
            .clamp(SHORTEST_RUN, LONGEST_RUN);
        let rounds = of_contender.as_millis() / (run_time + BESIDE).as_millis();
        Self {
            run_time,
            most_rounds: (rounds as usize).max(ROUNDS as usize),
        }
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 0,
        least_rounds: ROUNDS as usize,
        most_rounds: ROUNDS as usize,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.01,
        watched: Vec::new(),
    }
}

/// What all runs have in common.
struct Kit {
    java: Java,
    jar: PathBuf,
    scratch: PathBuf,
    policy: Policy,
}

impl Kit {
    fn lay_out(workloads: &Workloads) -> anyhow::Result<Self> {
        let java = Java::find()?;
        workloads.add_files(0)?;
        let jar = workloads.add_copy("benchmarks.jar", &jvm::jar()?)?;
        let mut policy = policies::writing(workloads);
        let libraries = java.own_folder().map(|folder| grant(Access::Read, folder));
        policy.grants.files.extend(libraries);
        Ok(Self {
            java,
            jar,
            scratch: workloads.files_folder(),
            policy,
        })
    }

    fn trial(&self, workload: &'static str, way: &Way<'_>, time: Duration) -> anyhow::Result<Run> {
        let mut policy = self.policy.clone();
        if way.huge_pages {
            let files = &mut policy.grants.files;
            files.push(grant(Access::Read, Path::new(HUGE_PAGES)));
        }
        let command = self.command(workload, way.huge_pages, time);
        let program = Program::in_subject(way.subject, &policy, &command)?;
        Ok(Run { program, workload })
    }

    /// The heap has one size from start to end, so that no wall's view of the machine decides on it.
    fn command(&self, workload: &str, huge_pages: bool, time: Duration) -> Command {
        let mut arguments: Vec<OsString> = ["-Xms1g", "-Xmx1g"].map(Into::into).into();
        if huge_pages {
            arguments.push("-XX:+UseTransparentHugePages".into());
        }
        arguments.extend([
            "-jar".into(),
            self.jar.clone().into(),
            "run".into(),
            workload.into(),
            time.as_millis().to_string().into(),
            self.scratch.clone().into(),
        ]);
        Command {
            program: self.java.program.clone().into(),
            arguments,
        }
    }
}

/// A JVM with one workload, whichever wall is around it.
struct Run {
    program: Program,
    workload: &'static str,
}

impl Trial for Run {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let output = self.program.run_for_output()?;
        Ok(vec![parse_output(&output, self.workload)?])
    }
}

/// `WORKLOAD NS NS NS` and nothing else: a JVM also warns on stdout, that it has no huge pages for one.
fn parse_output(text: &str, workload: &str) -> anyhow::Result<Reading> {
    let line = text.strip_suffix('\n').unwrap_or(text);
    let first = line.lines().next().unwrap_or_default();
    ensure!(line == first, "the JVM printed {first:?}");
    let reading = parse_line(line, UNIT)?;
    ensure!(
        reading.measure == workload,
        "the JVM ran {:?}",
        reading.measure
    );
    Ok(reading)
}

#[cfg(test)]
mod tests;
