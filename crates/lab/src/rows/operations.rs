//! Rows of operations: one program measures each of them, batch by batch in turn, and the programs of
//! the contenders take turns too. Operations go down the table, walls across.
//!
//! With two ends ([`Ends`]) an operation is what a client asks of a server, one of them behind the wall.

mod figures;
mod table;
mod trial;

pub(super) use table::{comparison_cell, target_cell};
pub(super) use trial::{parse_line, parse_lines, parse_output};

use super::{
    BARE, Extent, Method, OTHER_PEERS, Prepared, TO_BE_SET, Tools, WASM, engines_among,
    network::{Ends, Meeting},
    peers_among,
    policies::FloorWords,
    serve::Asking,
    tables_of_peers, try_one, try_peers, try_peers_on,
    wasm::try_wasm,
    watch_all,
};
use crate::{
    Trial, Warning,
    figure::{FLOOR, Figure, Target},
    floor::Floor,
    measure::{Schedule, Watched},
    network::{Endpoint, Transport, congestion_control},
    program::Program,
    sample::{Contender, Samples, Unit},
    subjects::{Bare, Subject, named_version, server_program, version_by},
    table::Table,
    warning::about_connections,
    wasi,
    workloads::Workloads,
};
use anyhow::bail;
use palisade::Domain;
use palisade_policy::Policy;
use palisade_wall::{Command, Level};
use std::{cell::RefCell, rc::Rc, time::Duration};
use trial::MeasuringProgram;

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
    /// The least that the kernel charges for them.
    pub(super) floor: Floor,
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
    /// What it may cost beside the floor.
    pub(super) beside_floor: Allowance,
    /// What the original measured.
    pub(super) published: &'static str,
}

/// What an operation may cost beside the floor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Allowance {
    /// A part of it, or a little for each of so many calls that it is made of, whichever is more.
    Calls(u32),
    /// So many times as much.
    Times(f64),
    /// The same part of a rate.
    Rate,
}

impl Allowance {
    /// The part.
    const TIMES: f64 = 1.02;
    /// The little.
    const OVER_NS: f64 = 5.0;
    /// What takes the part longer is done this much as often.
    const LEAST_OF_RATE: f64 = 0.98;

    /// As a target of figures in this unit.
    fn target(self, unit: Unit) -> Target {
        match self {
            Self::Times(times) => Target::AtMostTimesFloor(times),
            Self::Rate => Target::AtLeastTimesFloor(Self::LEAST_OF_RATE),
            Self::Calls(calls) => {
                let over_ns = Self::OVER_NS * f64::from(calls);
                let over = match unit {
                    Unit::Microseconds => over_ns / 1000.0,
                    _ => over_ns,
                };
                Target::AtMostTimesFloorOrOver(Self::TIMES, over)
            }
        }
    }
}

/// Palisade under one policy.
pub(super) struct Wall {
    /// The subject in samples.
    pub(super) subject: &'static str,
    /// The column's title.
    pub(super) title: &'static str,
    pub(super) policy: fn(&Workloads) -> Policy,
    /// What the floor's program is told, for what the kernel charges for this policy.
    pub(super) floor: FloorWords,
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
        beside_floor: Allowance::Calls(1),
        published,
    }
}

impl Operation {
    /// The same of an operation that somebody else is told of: two changes of process are in the floor, and what is
    /// done with what was told is not.
    pub(super) const fn told_of(self) -> Self {
        Self {
            beside_floor: Allowance::Times(1.25),
            ..self
        }
    }

    /// The same of an operation that is so many calls.
    pub(super) const fn of_calls(self, calls: u32) -> Self {
        Self {
            beside_floor: Allowance::Calls(calls),
            ..self
        }
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
        beside_floor: Allowance::Rate,
        published,
    }
}

/// The title of the table of WebAssembly.
const THROUGH_WASI: &str = "The same program as WebAssembly, times as much as the native one; the floor is wasmtime alone:";
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

    fn floor(&self) -> Floor {
        self.floor
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
            figures.extend(walls.map(|wall| self.mean_beside_floor(samples, wall)));
        }
        figures.extend(self.figures_to_bridged(samples));
        figures.extend(self.figures_to_floor(samples));
        figures.extend(self.figures_to_engine(samples));
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
        let meeting = Meeting::new(ends, self.keys());
        let trial = |subject: &dyn Subject, policy: &Policy| meeting.join(subject, policy);
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
        let is_tcp = |end: &&Endpoint| end.transport == Transport::Tcp;
        let tcp = network.endpoint().filter(is_tcp);
        let rule = tcp.and_then(|_| congestion_control().ok());
        prepared.warnings.extend(about_connections(rule.as_deref()));
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
        if let Some(floor) = prepared.workloads.add_floor(self.floor)? {
            for wall in self.walls {
                let floor = floor.with((wall.floor)(&prepared.workloads));
                let contender = self.floor_of(wall.subject);
                let left_out = try_one(&mut prepared, contender, || trial(&floor, &first_policy));
                prepared.warnings.extend(left_out);
            }
        }
        Ok(prepared)
    }

    /// The floor that a subject is compared with: that of the first wall, but for another wall, which has one of its own.
    fn floor_of(&self, subject: &str) -> Contender {
        let mut others = self.walls.iter().skip(1);
        match others.find(|wall| wall.subject == subject) {
            Some(wall) => Contender::new(self.name, &format!("{FLOOR}, {}", wall.title)),
            None => Contender::new(self.name, FLOOR),
        }
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
            most_rounds: 2000,
            budget: TO_BE_SET,
            patience: TO_BE_SET,
            relative_width: 0.02,
            watched: watched.collect(),
        }
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

/// A doubt, where this machine can't hold all of `policy`.
fn degraded_parts(policy: &Policy, command: &Command) -> anyhow::Result<Option<Warning>> {
    let builder = Domain::builder(&command.program).policy(policy.clone());
    let plan = builder.plan()?;
    let parts = plan
        .view()
        .enforcement()
        .iter()
        .filter(|part| part.actual != Level::Full);
    let mechanisms: Vec<_> = parts
        .map(|part| format!("{}: {}", part.capability, part.mechanism))
        .collect();
    Ok((!mechanisms.is_empty()).then_some(Warning::Degraded { mechanisms }))
}

#[cfg(test)]
mod tests;
