//! `den-t2` and `den-f5`: services that nobody asks. What each holds in memory, beside domains of other tools, and what
//! many of them do with a processor.

use super::{
    super::{asking::Asking, load::Load, sites::Who},
    crowd::{Bounds, Crowd, Ground, Kind},
    look::{Doings, available_bytes, held_by, rest},
};
use crate::{
    Trial,
    figure::{Figure, Target},
    measure::Schedule,
    notation::{kibibytes, milliseconds, short},
    pin::{Apart, Pin},
    program::Program,
    rows::{BARE, Extent, Method, Prepared, TO_BE_SET, Tools, operations::target_cell, try_peers},
    sample::{Contender, Reading, Samples, Unit},
    server::Running,
    subjects::{Bare, Subject},
    table::Table,
    trial::microseconds,
    workloads::Workloads,
};
use anyhow::Context;
use palisade_policy::{Access, Policy};
use palisade_wall::Command;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

/// A row of idle services.
pub(in crate::rows) struct Idle(pub(in crate::rows) What);

/// What is looked at while nobody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rows) enum What {
    /// What one of them holds.
    Memory,
    /// What all of them do.
    Time,
}

const WORKLOAD: &str = "an idle service";

/// Memory of one, shared pages in proportion.
const HELD: &str = "held";
/// The part of it that one more would hold once more.
const PRIVATE: &str = "private";
/// What the machine has less for others, by the kernel's estimate: its own structures count.
const MACHINE: &str = "machine";
/// From its start until it is there.
const START: &str = "start";
/// Before how many there are: wake-ups in a second, and µs on a processor in a second.
const WAKE_UPS: &str = "wake-ups";
const RAN: &str = "ran";

/// Private memory of one that is a guest in the server's process.
const MOST_PRIVATE: f64 = 8_192.0;

const KINDS: [Kind; 4] = [
    Kind::Components,
    Kind::Filters,
    Kind::Programs,
    Kind::FrozenPrograms,
];
/// What a program that holds nothing says once it is up.
const HOLDING: &str = "holding";
const OBJECT_BYTES: usize = 2_258;

impl Method for Idle {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let counts = self.counts(tools.extent);
        let most = counts.iter().copied().max().unwrap_or(1);
        let ground = Ground::new(tools, &workloads);
        ground.add_files([OBJECT_BYTES].into_iter())?;
        let asking = Asking::by_ours(tools)?;
        let mut trials: Vec<(Contender, Box<dyn Trial>)> = Vec::new();
        for kind in KINDS {
            ground.add_guests(kind, most)?;
            let bounds = Bounds {
                programs: Some(most + 8),
                ..Bounds::default()
            };
            let mut crowds = Vec::new();
            for count in counts {
                let crowd = ground.crowd(kind, *count, bounds)?;
                let list = crowd.list(&ground, OBJECT_BYTES, 0..*count)?;
                crowds.push((crowd, list));
            }
            let checked = crowds.last().map(|(largest, _)| largest.check(&ground));
            // A server that knows of no frozen programs takes the word for a mistake.
            match checked.transpose() {
                Err(_) if kind == Kind::FrozenPrograms => continue,
                checked => checked?,
            };
            let trial = Resting {
                what: self.0,
                crowds,
                load: asking.load.clone(),
                apart: asking.apart,
                rest: rest_of(tools.extent),
                look: look_of(tools.extent),
            };
            trials.push((Contender::new(WORKLOAD, kind.subject()), Box::new(trial)));
        }
        let mut prepared = Prepared {
            trials,
            ..Prepared::new(schedule(), workloads)
        };
        if self.0 == What::Memory {
            add_others(tools, &mut prepared)?;
        }
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| self.figures_of(samples, contender))
            .collect();
        let table = match self.0 {
            What::Memory => memory_table(&figures),
            What::Time => time_table(&figures),
        };
        let title = match self.0 {
            What::Memory => {
                "KiB of a service that has answered and rests, or of a program that waits: shared pages in\n\
                 proportion; private, which one more holds once more; machine: what others have less of, the\n\
                 kernel's own included. Start: until it answers, one after the other. Denali: 8,472 B of a\n\
                 domain that is swapped out:"
            }
            What::Time => {
                "Services that have answered and that nobody asks: how often in a second one of their threads\n\
                 or the server's wakes up, and µs of a second that they are on a processor:"
            }
        };
        (figures, vec![(title.to_owned(), table)])
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 0,
        least_rounds: 4,
        most_rounds: 200,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.05,
        watched: Vec::new(),
    }
}

/// Until memory is looked at: the server gives back what clients took some seconds after they went.
fn rest_of(extent: Extent) -> Duration {
    Duration::from_millis(match extent {
        Extent::Full => 8_000,
        Extent::Quick => 3_000,
        Extent::Tiny => 10,
    })
}

/// How long nothing happens.
fn look_of(extent: Extent) -> Duration {
    Duration::from_millis(match extent {
        Extent::Full => 10_000,
        Extent::Quick => 2_000,
        Extent::Tiny => 50,
    })
}

impl Idle {
    fn counts(&self, extent: Extent) -> &'static [usize] {
        match (self.0, extent) {
            (What::Memory, Extent::Full) => &[500],
            (What::Memory, Extent::Quick) => &[50],
            (What::Time, Extent::Full) => &[1, 100, 1_000],
            (What::Time, Extent::Quick) => &[1, 50],
            (_, Extent::Tiny) => &[2],
        }
    }

    fn figures_of(&self, samples: &Samples, contender: &Contender) -> Vec<Figure> {
        let is_wasm = KINDS
            .iter()
            .any(|kind| kind.is_wasm() && kind.subject() == contender.subject);
        let figure = |measure: &&str| {
            let unit = match *measure {
                HELD | PRIVATE | MACHINE => Unit::Bytes,
                START => Unit::Microseconds,
                ran if ran.starts_with(RAN) => Unit::Microseconds,
                _ => Unit::Count,
            };
            let target = match *measure {
                PRIVATE if is_wasm => Some(Target::AtMost(MOST_PRIVATE)),
                wakes if wakes.starts_with(WAKE_UPS) => Some(Target::AtMost(0.0)),
                _ => None,
            };
            Figure::of(samples, contender, None, (measure, unit), target)
        };
        samples.measures(contender).iter().map(figure).collect()
    }
}

/// Domains of others around a program that holds nothing, and `wasmtime serve` with a component each.
fn add_others(tools: &Tools, prepared: &mut Prepared) -> anyhow::Result<()> {
    let count = match tools.extent {
        Extent::Full => 20,
        Extent::Quick => 5,
        Extent::Tiny => 2,
    };
    let workloads = &prepared.workloads;
    let command = Command {
        program: workloads.add_opens()?.into(),
        arguments: vec![workloads.folder().into(), "0".into(), "0".into()],
    };
    let mut policy = Policy::default();
    let folder = crate::rows::grant(Access::Read, workloads.folder());
    policy.grants.files.push(folder);
    let several = |subject: &dyn Subject| Several::new(subject, &policy, &command, count);
    let ours = &tools.palisade;
    for (name, subject) in [(BARE, &Bare as &dyn Subject), (crate::rows::PALISADE, ours)] {
        let contender = Contender::new(WORKLOAD, name);
        prepared
            .trials
            .push((contender, Box::new(several(subject)?)));
    }
    try_peers(prepared, tools, WORKLOAD, &command, |peer| several(peer));
    add_wasmtime(tools, prepared, count)
}

fn add_wasmtime(tools: &Tools, prepared: &mut Prepared, count: usize) -> anyhow::Result<()> {
    let ground = Ground::new(tools, &prepared.workloads);
    let who = Who::Wasmtime(super::super::sites::Isolation::Fresh);
    let mut servers = Vec::new();
    for _ in 0..count {
        match ground.layout.site(who)? {
            Ok(site) => servers.push(site),
            Err(absent) => {
                prepared.warnings.push(absent);
                return Ok(());
            }
        }
    }
    let contender = Contender::new(WORKLOAD, super::super::WASMTIME);
    prepared
        .trials
        .push((contender, Box::new(Engines(servers))));
    Ok(())
}

/// Services of a server that have answered once.
struct Resting {
    what: What,
    /// And the addresses of all.
    crowds: Vec<(Crowd, PathBuf)>,
    load: Load,
    apart: Apart,
    rest: Duration,
    look: Duration,
}

impl Trial for Resting {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let Self {
            what,
            crowds,
            load,
            apart,
            rest: rest_time,
            look,
        } = self;
        let mut readings = Vec::new();
        for (crowd, list) in crowds {
            let pin = Pin::to(&apart.inside)?;
            let server = crowd.server()?.start()?;
            drop(pin);
            let _pin = Pin::to(&apart.outside)?;
            // The server's own memory and what the first service brings along for all.
            rest(*rest_time);
            let fresh = (held_by(server.id())?, available_bytes()?);
            let began = Instant::now();
            load.ask_each(list)?;
            let took = began.elapsed();
            rest(*rest_time);
            match what {
                What::Memory => {
                    readings.extend(memory_readings(&server, fresh, took, crowd.count)?);
                }
                What::Time => readings.extend(time_readings(&server, *look, crowd.count)?),
            }
        }
        Ok(readings)
    }
}

/// Of each service but the first, which answered before.
fn memory_readings(
    server: &Running,
    (fresh, available): (crate::memory::Held, u64),
    took: Duration,
    count: usize,
) -> anyhow::Result<Vec<Reading>> {
    let others = (count - 1).max(1) as u64;
    let now = held_by(server.id())?;
    let each = |now: u64, before: u64| now.saturating_sub(before) / others;
    Ok(vec![
        Reading::one_bytes(HELD, each(now.bytes, fresh.bytes)),
        Reading::one_bytes(PRIVATE, each(now.private_bytes, fresh.private_bytes)),
        Reading::one_bytes(MACHINE, each(available, available_bytes()?)),
        Reading::one_us(START, microseconds(took) / count as f64),
    ])
}

fn time_readings(server: &Running, look: Duration, count: usize) -> anyhow::Result<Vec<Reading>> {
    let before = Doings::of(server.id())?;
    let time = rest(look).as_secs_f64();
    let done = Doings::of(server.id())?.since(before);
    Ok(vec![
        Reading {
            measure: format!("{WAKE_UPS}-{count}"),
            unit: Unit::Count,
            values: vec![done.wake_ups as f64 / time],
        },
        Reading::one_us(&format!("{RAN}-{count}"), done.ran_ns as f64 / 1e3 / time),
    ])
}

/// Programs that hold nothing and wait, each in a domain of its own, all at one time.
struct Several(Vec<Program>);

impl Several {
    fn new(
        subject: &dyn Subject,
        policy: &Policy,
        command: &Command,
        count: usize,
    ) -> anyhow::Result<Self> {
        let programs = (0..count).map(|_| Program::in_subject(subject, policy, command));
        Ok(Self(programs.collect::<anyhow::Result<_>>()?))
    }
}

impl Trial for Several {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let available = available_bytes()?;
        let began = Instant::now();
        let mut processes = Vec::new();
        hold(&mut self.0, &mut processes, &|all| {
            readings_of(all, available, began.elapsed())
        })
    }
}

/// Looks while all of them are up.
fn hold<T>(
    programs: &mut [Program],
    up: &mut Vec<u32>,
    look: &dyn Fn(&[u32]) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match programs {
        [] => look(up),
        [first, others @ ..] => first.run_and_look(HOLDING, |process| {
            up.push(process);
            hold(others, up, look)
        }),
    }
}

/// Servers with a component each.
struct Engines(Vec<super::super::sites::Site>);

impl Trial for Engines {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let available = available_bytes()?;
        let began = Instant::now();
        let mut servers = Vec::new();
        for site in &mut self.0 {
            servers.extend(site.start()?);
        }
        let took = began.elapsed();
        let processes: Vec<u32> = servers.iter().map(Running::id).collect();
        readings_of(&processes, available, took)
    }
}

/// The mean of each of so many, which took so long to start one after the other.
fn readings_of(processes: &[u32], available: u64, took: Duration) -> anyhow::Result<Vec<Reading>> {
    let count = processes.len().max(1) as u64;
    let held: Vec<_> = processes
        .iter()
        .map(|process| held_by(*process))
        .collect::<anyhow::Result<_>>()?;
    let sum = |part: fn(&crate::memory::Held) -> u64| held.iter().map(part).sum::<u64>() / count;
    let less = available.saturating_sub(available_bytes().context("the machine's memory")?);
    Ok(vec![
        Reading::one_bytes(HELD, sum(|one| one.bytes)),
        Reading::one_bytes(PRIVATE, sum(|one| one.private_bytes)),
        Reading::one_bytes(MACHINE, less / count),
        Reading::one_us(START, microseconds(took) / count as f64),
    ])
}

fn memory_table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "KiB", "private", "target", "", "machine", "start ms"]);
    for held in figures.iter().filter(|one| one.measure == HELD) {
        let find = |measure: &str| {
            let is_it = |one: &&Figure| one.contender == held.contender && one.measure == measure;
            figures.iter().find(is_it)
        };
        let cell = |measure: &str, write: fn(f64) -> String| {
            let summary = find(measure).and_then(|one| one.summary);
            summary.map_or_else(String::new, |one| write(one.median))
        };
        let private = find(PRIVATE);
        let kib = |bytes: f64| short(bytes / 1024.0);
        table.line([
            held.contender.subject.clone(),
            cell(HELD, kib),
            cell(PRIVATE, kib),
            private
                .and_then(|one| one.target)
                .map_or_else(String::new, |_| format!("≤ {}", kibibytes(MOST_PRIVATE))),
            private.map_or_else(String::new, Figure::verdict_cell),
            cell(MACHINE, kib),
            cell(START, milliseconds),
        ]);
    }
    table
}

fn time_table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "services", "wake-ups", "target", "", "µs"]);
    for woken in figures {
        let Some(count) = woken.measure.strip_prefix(&format!("{WAKE_UPS}-")) else {
            continue;
        };
        let ran = format!("{RAN}-{count}");
        let is_it = |one: &&Figure| one.contender == woken.contender && one.measure == ran;
        let median = |figure: Option<&Figure>| {
            let summary = figure.and_then(|one| one.summary);
            summary.map_or_else(String::new, |one| short(one.median))
        };
        table.line([
            woken.contender.subject.clone(),
            count.to_owned(),
            median(Some(woken)),
            woken.target.map_or_else(String::new, target_cell),
            woken.verdict_cell(),
            median(figures.iter().find(is_it)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    fn samples(readings: &[(&str, Unit, f64)]) -> Samples {
        let subjects = [Kind::Components.subject(), Kind::Programs.subject()];
        let contenders = subjects.map(|subject| Contender::new(WORKLOAD, subject));
        let mut samples = Samples::new(contenders.to_vec());
        for round in 0..6 {
            let of = |times: f64| {
                let readings = readings.iter().map(|(measure, unit, value)| Reading {
                    measure: (*measure).to_owned(),
                    unit: *unit,
                    values: vec![value * times + f64::from(round % 2) * value / 100.0],
                });
                readings.collect::<Vec<_>>()
            };
            samples.push_round(vec![of(1.0), of(40.0)]);
        }
        samples
    }

    #[test]
    fn memory_stands_across() {
        let samples = samples(&[
            (HELD, Unit::Bytes, 9_000.0),
            (PRIVATE, Unit::Bytes, 6_000.0),
            (MACHINE, Unit::Bytes, 12_000.0),
            (START, Unit::Microseconds, 200.0),
        ]);
        let (figures, text) = present_on_terminal(&Idle(What::Memory), &samples);
        insta::assert_snapshot!(text);
        let judged = figures.iter().filter(|one| one.verdict.is_some());
        assert_eq!(judged.count(), 1, "a program has no such promise");
    }

    #[test]
    fn wake_ups_stand_by_how_many_there_are() {
        let samples = samples(&[
            ("wake-ups-1", Unit::Count, 0.0),
            ("ran-1", Unit::Microseconds, 0.0),
            ("wake-ups-100", Unit::Count, 0.5),
            ("ran-100", Unit::Microseconds, 3.0),
        ]);
        let (_, text) = present_on_terminal(&Idle(What::Time), &samples);
        insta::assert_snapshot!(text);
    }
}
