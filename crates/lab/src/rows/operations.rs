//! Rows of operations: one program measures each of them, batch by batch in turn, and the programs of
//! the contenders take turns too. Operations go down the table, walls across.
//!
//! With two ends ([`Ends`]) an operation is what a client asks of a server, one of them behind the wall.

use super::{
    BARE, Extent, Method, OTHER_PEERS, Prepared, TO_BE_SET, Tools, WASM, engines_among,
    network::{Ends, TwoEnds},
    peers_among, ratio_cell,
    serve::Asking,
    tables_of_peers, try_peers, try_peers_on,
    wasm::try_wasm,
    watch_all,
};
use crate::{
    Trial, Warning,
    figure::{Figure, Target},
    measure::{Schedule, Watched},
    notation::{short, signed},
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Peer, Subject, named_version, server_program, version_by},
    table::Table,
    wasi,
    workloads::Workloads,
};
use anyhow::{Context, bail, ensure};
use palisade::Domain;
use palisade_policy::Policy;
use palisade_wall::{Command, Level};
use std::{cell::RefCell, rc::Rc, time::Duration};

/// A row of this kind: all of it is data, but for what lies on disk.
pub(super) struct Operations {
    pub(super) name: &'static str,
    /// What the operations are called in common: the title of the table.
    pub(super) title: &'static str,
    pub(super) workload: Workload,
    /// What it runs in, besides no wall and peers.
    pub(super) walls: &'static [Wall],
    pub(super) operations: &'static [Operation],
    /// Of all figures.
    pub(super) unit: Unit,
    /// Of the geometric mean of the ratios.
    pub(super) mean: Option<Target>,
    /// The least that each may be of the same through a container's network.
    pub(super) least_times_bridged: Option<f64>,
    /// Where the figures of [`Operation::published`] come from: the title of their column.
    pub(super) original: Option<&'static str>,
    /// On one processor, so that the scheduler's choice of processors is in no figure.
    pub(super) pinned: bool,
    /// The program as WebAssembly, which is run too.
    pub(super) through_wasi: Option<ThroughWasi>,
}

/// A workload that is also compiled to WebAssembly.
#[derive(Clone, Copy)]
pub(super) struct ThroughWasi {
    /// Its source's name.
    pub(super) program: &'static str,
    /// The keys of the operations that WASI has no calls for.
    pub(super) lacks: &'static [&'static str],
}

/// What is run.
#[derive(Clone, Copy)]
pub(super) enum Workload {
    /// Lays out a program and what it works on; gives its command.
    Alone(fn(&Workloads) -> anyhow::Result<Command>),
    /// The same of a server and its clients.
    TwoEnds(fn(&Workloads, Extent) -> anyhow::Result<Ends>, Needs),
    /// The same of servers alone, which the lab's own client asks in turn.
    InTurn(fn(&Workloads, Extent) -> anyhow::Result<Ends>, Needs),
}

/// Programs that are needed: name, Debian package, and the flag that prints a version of interest.
pub(super) type Needs = &'static [(&'static str, &'static str, &'static str)];

/// One line of the table.
#[derive(Debug)]
pub(super) struct Operation {
    /// What the program calls it.
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    /// What it may cost behind a wall.
    pub(super) target: Target,
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

/// An operation that may cost a wall so many times as much as with none.
pub(super) const fn operation(
    key: &'static str,
    title: &'static str,
    most: f64,
    published: &'static str,
) -> Operation {
    Operation {
        key,
        title,
        target: Target::AtMostTimesBare(most),
        published,
    }
}

/// A rate that must be at least so many times that with no wall.
pub(super) const fn rate(
    key: &'static str,
    title: &'static str,
    least: f64,
    published: &'static str,
) -> Operation {
    Operation {
        key,
        title,
        target: Target::AtLeastTimesBare(least),
        published,
    }
}

/// The title of the table of WebAssembly.
const THROUGH_WASI: &str =
    "The same program as WebAssembly, times as much as the native one with no wall:";
const MEAN: &str = "geometric mean";
const BRIDGED: &str = "bridged";
/// After the key of an operation, its rate to that through a container's network.
const TO_BRIDGED: &str = " to bridged";

impl Method for Operations {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        match self.workload {
            Workload::Alone(lay_out) => self.prepare_alone(tools, workloads, lay_out),
            Workload::TwoEnds(lay_out, needs) => {
                find_all(needs)?;
                let ends = lay_out(&workloads, tools.extent)?;
                self.prepare_ends(tools, workloads, &ends)
            }
            Workload::InTurn(lay_out, needs) => {
                find_all(needs)?;
                let ends = lay_out(&workloads, tools.extent)?;
                self.prepare_turns(tools, workloads, &ends)
            }
        }
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let needs = match self.workload {
            Workload::Alone(_) => &[],
            Workload::TwoEnds(_, needs) | Workload::InTurn(_, needs) => needs,
        };
        let version = |(program, _, flag): &(&'static str, &str, &str)| {
            let path = server_program(program);
            let told = path.and_then(|path| version_by(&path, flag));
            (*program, told.map(|told| named_version(program, &told)))
        };
        let is_told = |need: &&(&str, &str, &'static str)| !need.2.is_empty();
        let compiler = self.through_wasi.map(|_| wasi::version());
        let needs = needs.iter().filter(is_told).map(version);
        needs.chain(compiler).collect()
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders();
        let mut figures: Vec<Figure> = contenders
            .iter()
            .flat_map(|contender| self.figures_of(samples, contender))
            .collect();
        if self.has_mean() {
            let walls = contenders.iter().filter(|one| one.subject != BARE);
            figures.extend(walls.map(|wall| self.mean_figure(samples, wall)));
        }
        figures.extend(self.figures_to_bridged(samples));
        let (table, others) = tables_of_peers(
            &peers_among(contenders),
            |peers| self.table(&figures, peers),
            |peers| self.table_of_others(&figures, peers),
        );
        let others = others.map(|table| (OTHER_PEERS.to_owned(), table));
        let has_wasm = contenders.iter().any(|one| one.subject == WASM);
        let wasm = has_wasm.then(|| {
            let table = self.wasm_table(&figures, &engines_among(contenders));
            (THROUGH_WASI.to_owned(), table)
        });
        let tables = [(self.title.to_owned(), table)].into_iter();
        let tables = tables.chain(others).chain(wasm).collect();
        (figures, tables)
    }
}

impl Operations {
    fn prepare_alone(
        &self,
        tools: &Tools,
        workloads: Workloads,
        lay_out: fn(&Workloads) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Prepared> {
        let command = lay_out(&workloads)?;
        let trial = |subject: &dyn Subject, policy: &Policy| {
            let program = Program::in_subject(subject, policy, &command)?;
            Ok(self.measuring(program, self.keys()))
        };
        let walls = |prepared: &mut Prepared, policy: &Policy| {
            prepared.warnings.extend(degraded_parts(policy, &command)?);
            Ok(())
        };
        let mut prepared = self.prepare_walls(tools, workloads, trial, walls)?;
        let policy = (self.walls[0].policy)(&prepared.workloads);
        try_peers(&mut prepared, tools, self.name, &command, |peer| {
            trial(peer, &policy)
        });
        if let Some(through) = &self.through_wasi {
            self.add_wasm(tools, &mut prepared, through, &command);
        }
        Ok(prepared)
    }

    /// The same program as WebAssembly, with the same arguments and under the first wall's policy.
    fn add_wasm(
        &self,
        tools: &Tools,
        prepared: &mut Prepared,
        through: &ThroughWasi,
        native: &Command,
    ) {
        let policy = (self.walls[0].policy)(&prepared.workloads);
        let program = prepared.workloads.add_wasm(through.program);
        let command = program.map(|program| Command {
            program: program.into(),
            arguments: native.arguments.clone(),
        });
        let has_call = |key: &&str| !through.lacks.contains(key);
        let keys: Vec<_> = self.keys().into_iter().filter(has_call).collect();
        let is_run = try_wasm(prepared, tools, self.name, command, |subject, command| {
            let program = Program::in_subject(subject, &policy, command)?;
            Ok(self.measuring(program, keys.clone()))
        });
        if is_run {
            let wasm = Contender::new(self.name, WASM);
            let watched = keys
                .iter()
                .flat_map(|key| watch_all([&wasm].into_iter(), key));
            prepared.schedule.watched.extend(watched);
        }
    }

    fn measuring(&self, program: Program, keys: Vec<&'static str>) -> MeasuringProgram {
        MeasuringProgram {
            program,
            row: self.name,
            unit: self.unit,
            keys,
        }
    }

    fn keys(&self) -> Vec<&'static str> {
        self.operations.iter().map(|one| one.key).collect()
    }

    fn prepare_ends(
        &self,
        tools: &Tools,
        workloads: Workloads,
        ends: &Ends,
    ) -> anyhow::Result<Prepared> {
        let trial = |subject: &dyn Subject, policy: &Policy| {
            let operations = self.operations.iter().map(|one| one.key).collect();
            TwoEnds::new(ends, subject, policy, operations)
        };
        self.prepare_all(tools, workloads, ends, trial)
    }

    /// All servers run at a time, each behind its wall.
    fn prepare_turns(
        &self,
        tools: &Tools,
        workloads: Workloads,
        ends: &Ends,
    ) -> anyhow::Result<Prepared> {
        let turns = Asking::by_ours(tools)?.turns();
        // One client asks all: it cannot be in several networks.
        let mut tools = tools.clone();
        tools.peers.retain(|peer| !peer.has_network_of_the_lab());
        let trial = |subject: &dyn Subject, policy: &Policy| {
            let site = ends.site(subject, policy)?;
            let url = format!("{}/1", site.base);
            Ok(turns.join(Rc::new(RefCell::new(site)), url))
        };
        let mut prepared = self.prepare_all(&tools, workloads, ends, trial)?;
        prepared.schedule.relative_width = 0.005;
        Ok(prepared)
    }

    fn prepare_all<T: Trial + 'static>(
        &self,
        tools: &Tools,
        workloads: Workloads,
        ends: &Ends,
        trial: impl Fn(&dyn Subject, &Policy) -> anyhow::Result<T>,
    ) -> anyhow::Result<Prepared> {
        let mut prepared = self.prepare_walls(tools, workloads, &trial, |_, _| Ok(()))?;
        let policy = (self.walls[0].policy)(&prepared.workloads);
        let (command, network) = ends.inside_for_example()?;
        let inside = (&command, &network);
        try_peers_on(&mut prepared, tools, self.name, inside, |peer| {
            trial(peer, &policy)
        });
        Ok(prepared)
    }

    /// With no wall and behind each of ours.
    fn prepare_walls<T: Trial + 'static>(
        &self,
        tools: &Tools,
        workloads: Workloads,
        trial: impl Fn(&dyn Subject, &Policy) -> anyhow::Result<T>,
        look_at: impl Fn(&mut Prepared, &Policy) -> anyhow::Result<()>,
    ) -> anyhow::Result<Prepared> {
        let mut prepared = Prepared {
            pinned: self.pinned,
            ..Prepared::new(self.schedule(), workloads)
        };
        let add = |prepared: &mut Prepared, name, subject: &dyn Subject, policy: &Policy| {
            let trial = trial(subject, policy)?;
            let contender = Contender::new(self.name, name);
            prepared.trials.push((contender, Box::new(trial)));
            anyhow::Ok(())
        };
        let first_policy = (self.walls[0].policy)(&prepared.workloads);
        add(&mut prepared, BARE, &Bare, &first_policy)?;
        for wall in self.walls {
            let policy = (wall.policy)(&prepared.workloads);
            look_at(&mut prepared, &policy)?;
            add(&mut prepared, wall.subject, &tools.palisade, &policy)?;
        }
        Ok(prepared)
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
            budget: TO_BE_SET,
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
            let target = self.is_ours(contender).then_some(operation.target);
            let measure = (operation.key, self.unit);
            Figure::of(samples, contender, baseline, measure, target).titled(operation.title)
        };
        let measures = samples.measures(contender);
        let was_measured = |one: &&Operation| measures.contains(&one.key) || measures.is_empty();
        let operations = self.operations.iter().filter(was_measured);
        operations.map(figure).collect()
    }

    fn mean_figure(&self, samples: &Samples, wall: &Contender) -> Figure {
        let measures = samples.measures(wall);
        let mut keys = self.keys();
        keys.retain(|key| measures.contains(key));
        let target = self.mean.filter(|_| self.is_ours(wall));
        let bare = Contender::new(self.name, BARE);
        Figure::mean_ratio(samples, wall, &bare, (&keys, self.unit), target)
    }

    /// One operation is its own mean, and what is judged by a difference has no ratio that counts.
    fn has_mean(&self) -> bool {
        let is_ratio = |one: &Operation| !matches!(one.target, Target::AtMostOverBare(_));
        self.operations.len() > 1 && self.operations.iter().all(is_ratio)
    }

    /// Ours to those through a container's network, where they were measured.
    fn figures_to_bridged(&self, samples: &Samples) -> Vec<Figure> {
        let bridged = Contender::new(self.name, BRIDGED);
        let Some(least) = self
            .least_times_bridged
            .filter(|_| samples.contenders().contains(&bridged))
        else {
            return Vec::new();
        };
        let ours = samples.contenders().iter().filter(|one| self.is_ours(one));
        let figure = |ours: &Contender, operation: &Operation| {
            let target = Some(Target::AtLeastTimesBridged(least));
            let measure = (operation.key, self.unit);
            let figure = Figure::of(samples, ours, Some(&bridged), measure, target);
            Figure {
                measure: format!("{}{TO_BRIDGED}", operation.key),
                // It is the other figure's; only the ratio is another one.
                summary: None,
                difference: None,
                ..figure
            }
        };
        ours.flat_map(|ours| self.operations.iter().map(|one| figure(ours, one)))
            .collect()
    }

    fn table(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let mut table = Table::new(self.columns(peers));
        for operation in self.operations {
            let lead = [
                operation.title.to_owned(),
                self.bare_cell(figures, operation.key),
                target_cell(operation.target),
            ];
            let cells = self.wall_cells(figures, operation.key);
            let peers = self.peer_cells(figures, operation.key, peers);
            let published = self.original.map(|_| operation.published.to_owned());
            table.line(lead.into_iter().chain(cells).chain(peers).chain(published));
        }
        if self.has_mean() {
            let target = self.mean.map_or_else(String::new, target_cell);
            let lead = [MEAN.to_owned(), String::new(), target];
            let cells = self.wall_cells(figures, MEAN);
            let peers = self.peer_cells(figures, MEAN, peers);
            table.line(lead.into_iter().chain(cells).chain(peers));
        }
        self.add_lines_to_bridged(&mut table, figures);
        table
    }

    fn add_lines_to_bridged(&self, table: &mut Table, figures: &[Figure]) {
        for operation in self.operations {
            let key = format!("{}{TO_BRIDGED}", operation.key);
            let of_key = |figure: &&Figure| figure.measure == key;
            let Some(target) = figures.iter().find(of_key).and_then(|one| one.target) else {
                continue;
            };
            let title = "× bridged".to_owned();
            let lead = [title, String::new(), target_cell(target)];
            table.line(lead.into_iter().chain(self.wall_cells(figures, &key)));
        }
    }

    fn table_of_others(&self, figures: &[Figure], peers: &[&'static Peer]) -> Table {
        let titles = peers.iter().map(|peer| peer.title);
        let mut table = Table::new(["", self.bare_title()].into_iter().chain(titles));
        let lines = self.operations.iter().map(|one| (one.title, one.key));
        let mean = self.has_mean().then_some((MEAN, MEAN));
        for (title, key) in lines.chain(mean) {
            let lead = [title.to_owned(), self.bare_cell(figures, key)];
            table.line(lead.into_iter().chain(self.peer_cells(figures, key, peers)));
        }
        table
    }

    /// The same program as WebAssembly; what it costs is stated, not judged.
    fn wasm_table(&self, figures: &[Figure], engines: &[&'static Peer]) -> Table {
        let titles = engines.iter().map(|peer| peer.title);
        let lead = ["", self.bare_title(), "palisade", "95 %"];
        let mut table = Table::new(lead.into_iter().chain(titles));
        let lines = self.operations.iter().map(|one| (one.title, one.key));
        let mean = self.has_mean().then_some((MEAN, MEAN));
        for (title, key) in lines.chain(mean) {
            let Some(ours) = find(figures, WASM, key) else {
                continue;
            };
            let lead = [
                title.to_owned(),
                self.bare_cell(figures, key),
                ratio_cell(Some(ours)),
                ours.ratio_interval(),
            ];
            table.line(
                lead.into_iter()
                    .chain(self.peer_cells(figures, key, engines)),
            );
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
            Unit::PerSecond => "bare /s",
            Unit::MegabytesPerSecond => "bare MB/s",
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
                comparison_cell(figure, self.is_difference(measure)),
                figure.map_or_else(String::new, |it| self.interval_cell(it)),
                figure.map_or_else(String::new, Figure::verdict_cell),
            ]
        });
        ours.collect()
    }
}

impl Operations {
    /// Whether a measure is judged by what it takes over bare.
    fn is_difference(&self, measure: &str) -> bool {
        let is_it = |one: &&Operation| one.key == measure;
        let operation = self.operations.iter().find(is_it);
        operation.is_some_and(|one| matches!(one.target, Target::AtMostOverBare(_)))
    }

    fn interval_cell(&self, figure: &Figure) -> String {
        match figure
            .difference
            .filter(|_| self.is_difference(&figure.measure))
        {
            Some(over) => format!("{}–{}", signed(over.low), signed(over.high)),
            None => figure.ratio_interval(),
        }
    }

    fn peer_cells(
        &self,
        figures: &[Figure],
        measure: &str,
        peers: &[&'static Peer],
    ) -> Vec<String> {
        let cell = |peer: &&Peer| {
            let figure = find(figures, peer.name, measure);
            comparison_cell(figure, self.is_difference(measure))
        };
        peers.iter().map(cell).collect()
    }
}

/// A ratio to bare, or what comes on top of it.
pub(super) fn comparison_cell(figure: Option<&Figure>, is_difference: bool) -> String {
    let difference = figure.and_then(|figure| figure.difference);
    match difference.filter(|_| is_difference) {
        Some(over) => signed(over.value),
        None => ratio_cell(figure),
    }
}

/// `≤ 1.01`, `≤ +12`, `≥ 0.99`.
pub(super) fn target_cell(target: Target) -> String {
    match target {
        Target::AtMost(most)
        | Target::AtMostTimesBare(most)
        | Target::AtMostTimesProcess(most)
        | Target::AtMostTimesWasmtime(most)
        | Target::AtMostTimesOther(most) => format!("≤ {most}"),
        Target::AtMostOverBare(most) | Target::AtMostOverOther(most) => format!("≤ +{most}"),
        Target::AtLeastTimesBare(least)
        | Target::AtLeastTimesBridged(least)
        | Target::AtLeastTimesOther(least) => format!("≥ {least}"),
    }
}

/// Where each program is, or the package of the first one that is not there.
pub(super) fn find_all(needs: Needs) -> anyhow::Result<()> {
    let missing = needs
        .iter()
        .find(|(program, ..)| server_program(program).is_none());
    match missing {
        Some((program, package, _)) => {
            bail!("host: {program} is not installed: apt-get install {package}")
        }
        None => Ok(()),
    }
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
        .domain()
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
    /// Of the operations that it measures.
    keys: Vec<&'static str>,
}

impl Trial for MeasuringProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let output = self.program.run_for_output()?;
        parse_output(&output, self.unit, &self.keys)
            .with_context(|| format!("the program of {}", self.row))
    }
}

/// `OPERATION NS NS …`, a line for each; one word alone is a remark.
pub(super) fn parse_output(text: &str, unit: Unit, keys: &[&str]) -> anyhow::Result<Vec<Reading>> {
    let readings = parse_lines(text, unit)?;
    let is_there = |key: &str| readings.iter().any(|reading| reading.measure == key);
    let missing = keys.iter().find(|key| !is_there(key));
    ensure!(
        missing.is_none(),
        "it left out {}",
        missing.copied().unwrap_or_default()
    );
    Ok(readings)
}

/// The same, whatever the operations are.
pub(super) fn parse_lines(text: &str, unit: Unit) -> anyhow::Result<Vec<Reading>> {
    let lines = text.lines().filter(|line| *line != HOLDING);
    lines.map(|line| parse_line(line, unit)).collect()
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
        Unit::Microseconds => 1e-3,
        _ => 1.0,
    };
    Ok(Reading {
        measure,
        unit,
        values: values.into_iter().map(|ns| ns * in_unit).collect(),
    })
}

#[cfg(test)]
mod tests;
