//! Rows of whole programs: each is run to its end, with no wall and behind each, and its time counts.

use super::{
    BARE, Extent, Method, OTHER_PEERS, PALISADE, Prepared, TO_BE_SET, Tools, WASM, engines_among,
    peers_among, policies, ratio_cell,
    sources::Source,
    tables_of_peers, try_peers,
    wasm::{leave_out, try_wasm},
    watch_all,
};
use crate::{
    Warning,
    figure::{Figure, Target},
    measure::Schedule,
    notation::milliseconds,
    program::Program,
    sample::{Contender, Samples, Unit},
    subjects::{Bare, Peer, Subject, on_path},
    table::Table,
    trial::TimedProgram,
    wasi::{self, Target as CompiledFor, Toolchain},
    workloads::Workloads,
};
use palisade_wall::Command;
use std::{ffi::OsString, time::Duration};

/// A row of this kind.
pub(super) struct Programs {
    pub(super) programs: &'static [Job],
    /// The most a program may take, as a ratio to bare.
    pub(super) most: f64,
    /// The same of a WebAssembly program, to the native one of the same source.
    pub(super) most_wasm: f64,
    /// Where the figures of [`Job::published`] come from: the title of their column.
    pub(super) original: &'static str,
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
    /// What it is compiled from here, to WebAssembly and to a native program.
    pub(super) source: Option<&'static Source>,
}

const WALL: &str = "wall";
/// In the title of what was compiled by the lab.
const COMPILED: &str = ", compiled here,";
/// The title of the table of WebAssembly.
const SAME_SOURCE: &str = "One source by clang-19: ms of the native program (-O2), times as much as WebAssembly (-O3, SIMD):";

impl Method for Programs {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        let mut prepared = Prepared::new(self.schedule(), workloads);
        for job in self.programs {
            let arguments = (job.lay_out)(&prepared.workloads, job.input_bytes(tools.extent))?;
            match on_path(job.program) {
                Some(program) => {
                    let command = Command {
                        program: program.into(),
                        arguments: arguments.clone(),
                    };
                    add(&mut prepared, tools, &job.title(tools.extent), &command)?;
                }
                None => prepared.warnings.push(Warning::ProgramAbsent {
                    program: job.program,
                    install: job.install,
                }),
            }
            if let Some(source) = job.source {
                let title = job.compiled_title(tools.extent);
                let added = add_compiled(&mut prepared, tools, &title, source, arguments);
                added.unwrap_or_else(|error| leave_out(&mut prepared, &error));
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

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let is_compiled = self.programs.iter().any(|job| job.source.is_some());
        is_compiled.then(wasi::version).into_iter().collect()
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
        let has_wasm = figures.iter().any(|one| one.contender.subject == WASM);
        let wasm = has_wasm.then(|| {
            let table = self.wasm_table(&figures, &engines_among(samples.contenders()));
            (SAME_SOURCE.to_owned(), table)
        });
        let tables = [(title.to_owned(), table)].into_iter();
        let tables = tables.chain(others).chain(wasm).collect();
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

/// The native program with no wall, and the WebAssembly program behind palisade and in other engines.
fn add_compiled(
    prepared: &mut Prepared,
    tools: &Tools,
    workload: &str,
    source: &Source,
    arguments: Vec<OsString>,
) -> anyhow::Result<()> {
    let toolchain = Toolchain::find()?;
    let compile = |target, ending| {
        let name = format!("{}.{ending}", source.program);
        let into = prepared.workloads.folder().join(name);
        source.compile(&toolchain, target, &into)?;
        anyhow::Ok(Command {
            program: into.into(),
            arguments: arguments.clone(),
        })
    };
    let native = compile(CompiledFor::Native, "native")?;
    let wasm = compile(CompiledFor::Wasi, "wasm")?;
    let policy = policies::writing(&prepared.workloads);
    let bare = TimedProgram(Program::in_subject(&Bare, &policy, &native)?);
    let is_run = try_wasm(prepared, tools, workload, Ok(wasm), |subject, command| {
        Program::in_subject(subject, &policy, command).map(TimedProgram)
    });
    if is_run {
        let contender = Contender::new(workload, BARE);
        prepared.trials.push((contender, Box::new(bare)));
    }
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
        format!("{} of {}", self.program, self.size(extent))
    }

    /// The same of what the lab compiled.
    fn compiled_title(&self, extent: Extent) -> String {
        format!("{}{COMPILED} of {}", self.program, self.size(extent))
    }

    fn size(&self, extent: Extent) -> String {
        match self.input_bytes(extent) {
            bytes if bytes < 1 << 20 => format!("{} KB", bytes >> 10),
            bytes => format!("{} MB", bytes >> 20),
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
            most_rounds: 500,
            budget: TO_BE_SET,
            patience: TO_BE_SET,
            relative_width: 0.005,
            watched: Vec::new(),
        }
    }

    fn figure(&self, samples: &Samples, contender: &Contender) -> Figure {
        let bare = Contender::new(&contender.workload, BARE);
        let baseline = (*contender != bare).then_some(&bare);
        let target = match contender.subject.as_str() {
            PALISADE => Some(Target::AtMostTimesBare(self.most)),
            WASM => Some(Target::AtMostTimesBare(self.most_wasm)),
            _ => None,
        };
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
        for (title, bare_us) in installed(figures) {
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

    fn wasm_table(&self, figures: &[Figure], engines: &[&'static Peer]) -> Table {
        let lead = ["", "native ms", "target", "palisade", "95 %", ""];
        let titles = engines.iter().map(|peer| peer.title);
        let mut table = Table::new(lead.into_iter().chain(titles));
        for (title, native_us) in compiled(figures) {
            let ours = find(figures, title, WASM);
            let lead = [
                title.replace(COMPILED, ""),
                milliseconds(native_us),
                format!("≤ {}", self.most_wasm),
                ratio_cell(ours),
                ours.map_or_else(String::new, Figure::ratio_interval),
                ours.map_or_else(String::new, Figure::verdict_cell),
            ];
            table.line(lead.into_iter().chain(peer_cells(figures, title, engines)));
        }
        table
    }

    fn table_of_others(figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let titles = peers.iter().map(|peer| peer.title);
        let mut table = Table::new(["", "bare ms"].into_iter().chain(titles));
        for (title, bare_us) in installed(figures) {
            let lead = [title.to_owned(), milliseconds(bare_us)];
            table.line(lead.into_iter().chain(peer_cells(figures, title, peers)));
        }
        table
    }
}

/// What was run of what was installed, and what it takes with no wall.
fn installed(figures: &[Figure]) -> impl Iterator<Item = (&str, f64)> {
    measured(figures).filter(|(title, _)| !title.contains(COMPILED))
}

/// The same of what the lab compiled.
fn compiled(figures: &[Figure]) -> impl Iterator<Item = (&str, f64)> {
    measured(figures).filter(|(title, _)| title.contains(COMPILED))
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
        let compiled = row.programs[0].compiled_title(Extent::Full);
        let titles = row.programs[..2].iter().map(|job| job.title(Extent::Full));
        let contenders: Vec<_> = titles
            .flat_map(|title| [BARE, PALISADE, "bubblewrap"].map(|one| Contender::new(&title, one)))
            .chain([BARE, WASM, "wasmtime", "node"].map(|one| Contender::new(&compiled, one)))
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
