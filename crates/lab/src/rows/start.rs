//! `start`: what it takes to start a guest and see it end.
//!
//! Three workloads: a static `true` behind an otherwise empty root, which is all wall and no guest; the
//! system's `true` with the system's files visible, which is what people do; and a WebAssembly module that
//! ends at once, behind the wasm wall and in other engines, its code compiled before, and once more with the
//! compiling.

use super::{
    BARE, Method, PALISADE, Prepared, TO_BE_SET, Tools, WASM, is_floor, policies, ratio_cell,
    try_one, try_peers, wasm::try_wasm, watch_all,
};
use crate::{
    Trial,
    figure::{FLOOR, Figure, Target},
    floor::Floor,
    library::{Library, Readiness},
    measure::Schedule,
    notation::{milliseconds, signed_milliseconds},
    program::{ParkedAhead, Program},
    sample::{Contender, Reading, Samples, Unit},
    statistics::median,
    subjects::{Bare, FloorProgram, Palisade, SameView, Subject},
    table::Table,
    trial::{TimedProgram, microseconds},
    workloads::Workloads,
};
use anyhow::Context;
use palisade_policy::Policy;
use palisade_wall::{Command, Phase, Report};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(super) struct Start;

const STATIC: &str = "static true";
const SYSTEM: &str = SYSTEM_TRUE;
const MODULE: &str = "WebAssembly true";
const COLD: &str = "palisade run, cold";
const WASMTIME: &str = "wasmtime";
const BUBBLEWRAP: &str = "bubblewrap";
const SAME_VIEW: &str = SameView::NAME;
const REPORTING: &str = "palisade run --report";
const LIBRARY: [(&str, Readiness); 4] = [
    ("library, cold", Readiness::Cold),
    ("library, keeper up", Readiness::KeeperUp),
    (PARKED, Readiness::Parked),
    (PLANNED, Readiness::Planned),
];
pub(super) const PARKED: &str = "library, parked";
pub(super) const PLANNED: &str = "library, planned";
const SYSTEM_TRUE: &str = "/usr/bin/true";

/// The whole time of a run.
const WALL: &str = "wall";
/// What of it lies outside the steps.
const REST: &str = "rest";

/// The floor of those that are parked.
pub(super) const PARKED_FLOOR: &str = "floor, parked";
/// The same with all of a domain made ahead: what is executed is confined then.
pub(super) const PARKED_WALL_FLOOR: &str = "floor, parked wall";
/// A launcher in C that makes all of a domain, and not its namespaces with one mount alone: what palisade's promises cost at
/// least. A target against the floor may lie below it.
pub(super) const WALL_FLOOR: &str = "floor, whole wall";
/// What a start by the command may take beside the floor, and one of a domain that is parked.
pub(super) const MOST_TIMES_FLOOR: f64 = 1.25;
pub(super) const MOST_TIMES_PARKED_FLOOR: f64 = 1.1;

impl Method for Start {
    fn floor(&self) -> Floor {
        Floor::Start
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let command = Command::new(workloads.add_true()?);
        let alone = policies::alone(&command);
        let mut prepared = Prepared::new(schedule(), workloads);
        add_programs(&mut prepared, tools, (STATIC, &alone, &command))?;
        add_reporting(&mut prepared, &tools.palisade, &alone, &command)?;
        add_grantable(&mut prepared, &tools.palisade, &alone, &command)?;
        for (name, readiness) in LIBRARY {
            let library = Library::new(readiness, alone.clone(), command.clone())?;
            prepared
                .trials
                .push((Contender::new(STATIC, name), Box::new(library)));
        }
        add_parked_floors(
            &mut prepared,
            tools,
            (STATIC, &alone, &command),
            ParkedFloor,
        )?;
        if Path::new(SYSTEM_TRUE).exists() {
            let (policy, command) = (Policy::default(), Command::new(SYSTEM_TRUE));
            add_programs(&mut prepared, tools, (SYSTEM, &policy, &command))?;
            add_same_view(&mut prepared, tools, &policy, &command);
        }
        add_module(&mut prepared, tools)?;
        prepared.schedule.watched =
            watch_all(prepared.trials.iter().map(|(contender, _)| contender), WALL);
        Ok(prepared.rested())
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures = contenders.map(|contender| wall_figure(samples, contender));
        let to_floor = samples.contenders().iter();
        let to_floor = to_floor.filter_map(|contender| floor_figure(samples, contender));
        let figures = figures.chain(other_figures(samples)).chain(to_floor);
        let figures: Vec<Figure> = figures.collect();
        let tables = vec![
            (
                "Wall-clock time in ms, and times bare with its 95 % interval:".to_owned(),
                wall_table(&figures),
            ),
            (
                "Where the time goes, median µs of each step, for the command with a report and the library:".to_owned(),
                step_table(samples),
            ),
        ];
        (figures, tables)
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 3,
        least_rounds: 50,
        most_rounds: 5000,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.02,
        watched: Vec::new(),
    }
}

fn add_programs(
    prepared: &mut Prepared,
    tools: &Tools,
    (workload, policy, command): (&str, &Policy, &Command),
) -> anyhow::Result<()> {
    let subjects: [&dyn Subject; 2] = [&Bare, &tools.palisade];
    for subject in subjects {
        let trial = TimedProgram(Program::in_subject(subject, policy, command)?);
        prepared
            .trials
            .push((Contender::new(workload, subject.name()), Box::new(trial)));
    }
    add_floors(prepared, tools, (workload, policy, command), TimedProgram)?;
    try_peers(prepared, tools, workload, command, |peer| {
        Program::in_subject(peer, policy, command).map(TimedProgram)
    });
    Ok(())
}

/// What a start takes at least, each timed by `trial`: the namespaces alone, and all that a domain is.
pub(super) fn add_floors<T: Trial + 'static>(
    prepared: &mut Prepared,
    tools: &Tools,
    (workload, policy, command): (&str, &Policy, &Command),
    trial: impl Fn(Program) -> T,
) -> anyhow::Result<()> {
    let floors = floors_of(prepared, tools, (policy, command))?;
    for (name, floor) in [FLOOR, WALL_FLOOR].into_iter().zip(floors) {
        let left_out = try_one(prepared, Contender::new(workload, name), || {
            Program::in_subject(&floor?, policy, command).map(&trial)
        });
        prepared.warnings.extend(left_out);
    }
    Ok(())
}

/// What is left of a start where a domain is parked, which then has all but the program.
pub(super) fn add_parked_floors<T: Trial + 'static>(
    prepared: &mut Prepared,
    tools: &Tools,
    (workload, policy, command): (&str, &Policy, &Command),
    trial: impl Fn(ParkedAhead) -> T,
) -> anyhow::Result<()> {
    let floors = floors_of(prepared, tools, (policy, command))?;
    for (name, floor) in [PARKED_FLOOR, PARKED_WALL_FLOOR].into_iter().zip(floors) {
        let left_out = try_one(prepared, Contender::new(workload, name), || {
            let program = Program::new(&floor?.parked(command));
            program.map(ParkedAhead::new).map(&trial)
        });
        prepared.warnings.extend(left_out);
    }
    Ok(())
}

fn floors_of(
    prepared: &Prepared,
    tools: &Tools,
    (policy, command): (&Policy, &Command),
) -> anyhow::Result<[anyhow::Result<FloorProgram>; 2]> {
    let workloads = &prepared.workloads;
    let alone = workloads.add_floor(Floor::Start)?;
    let alone = alone.context("starts have no floor");
    let whole = workloads.add_wall_floor(&tools.palisade, policy, command);
    Ok([alone, whole])
}

/// bubblewrap with no more of the system than palisade shows.
fn add_same_view(prepared: &mut Prepared, tools: &Tools, policy: &Policy, command: &Command) {
    let Some(bubblewrap) = tools.peers.iter().find(|peer| peer.name() == BUBBLEWRAP) else {
        return;
    };
    let left_out = try_one(prepared, Contender::new(SYSTEM, SAME_VIEW), || {
        let subject = SameView::of(bubblewrap, &tools.palisade, policy, command)?;
        Program::in_subject(&subject, policy, command).map(TimedProgram)
    });
    prepared.warnings.extend(left_out);
}

/// A program of which all else is there before it is asked for.
struct ParkedFloor(ParkedAhead);

impl Trial for ParkedFloor {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let parked = self.0.take()?;
        let began = Instant::now();
        let ended = parked.begin()?.wait()?;
        let wall_us = microseconds(began.elapsed());
        ended.check()?;
        self.0.get_ready();
        Ok(vec![Reading::one_us(WALL, wall_us)])
    }
}

/// The module beside the static program that does the same.
fn add_module(prepared: &mut Prepared, tools: &Tools) -> anyhow::Result<()> {
    let native = Command::new(prepared.workloads.folder().join("true"));
    let module = Command::new(prepared.workloads.add_wasm_true()?);
    let alone = policies::alone(&module);
    let bare = Program::in_subject(&Bare, &alone, &native).map(TimedProgram)?;
    let is_run = try_wasm(
        prepared,
        tools,
        MODULE,
        Ok(module.clone()),
        |subject, command| Program::in_subject(subject, &alone, command).map(TimedProgram),
    );
    if is_run {
        let cold = Program::in_subject(&tools.palisade, &alone, &module).map(ColdProgram)?;
        let contender = |subject| Contender::new(MODULE, subject);
        prepared.trials.push((contender(COLD), Box::new(cold)));
        prepared.trials.push((contender(BARE), Box::new(bare)));
    }
    Ok(())
}

/// A WebAssembly program whose code was never compiled.
struct ColdProgram(Program);

impl Trial for ColdProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        self.0.forget_code()?;
        Ok(vec![Reading::one_us(WALL, microseconds(self.0.run()?))])
    }
}

/// The command once more, with a report: the steps come from it, and its own cost stays out of the
/// figure of the command without one.
fn add_reporting(
    prepared: &mut Prepared,
    palisade: &Palisade,
    policy: &Policy,
    command: &Command,
) -> anyhow::Result<()> {
    let report = prepared.workloads.folder().join("report.json");
    let subject = palisade.with_report(report.clone());
    let program = Program::in_subject(&subject, policy, command)?;
    prepared.trials.push((
        Contender::new(STATIC, REPORTING),
        Box::new(ReportingProgram { program, report }),
    ));
    Ok(())
}

/// With a process beside it that could mount more.
fn add_grantable(
    prepared: &mut Prepared,
    palisade: &Palisade,
    policy: &Policy,
    command: &Command,
) -> anyhow::Result<()> {
    let subject = palisade.grantable();
    let trial = TimedProgram(Program::in_subject(&subject, policy, command)?);
    let contender = Contender::new(STATIC, subject.name());
    prepared.trials.push((contender, Box::new(trial)));
    Ok(())
}

struct ReportingProgram {
    program: Program,
    report: PathBuf,
}

impl Trial for ReportingProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let wall_us = microseconds(self.program.run()?);
        let text = fs::read(&self.report).context("palisade run wrote no report")?;
        let report: Report = serde_json::from_slice(&text).context("the report is not one")?;
        Ok(readings(wall_us, &report.phases))
    }
}

impl Trial for Library {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let began = Instant::now();
        let report = self.run()?;
        let wall_us = microseconds(began.elapsed());
        // A pool is refilled between runs: its cost is in the lane without one, and in nobody else's run.
        self.get_ready()?;
        Ok(readings(wall_us, &report.phases))
    }
}

/// The time of a run, divided into the steps that the report knows and the rest.
fn readings(wall_us: f64, phases: &[Phase]) -> Vec<Reading> {
    let steps = steps_within(wall_us, phases);
    let rest_us = wall_us - steps.iter().map(|(_, took_us)| took_us).sum::<f64>();
    let mut readings = vec![Reading::one_us(WALL, wall_us)];
    readings.extend(
        steps
            .iter()
            .map(|(name, took_us)| Reading::one_us(name, *took_us)),
    );
    readings.push(Reading::one_us(REST, rest_us));
    readings
}

/// How long each step took, in the order in which the steps ended. What a parked domain did ahead,
/// and its wait up to the first step within the run, are no part of the run.
fn steps_within(wall_us: f64, phases: &[Phase]) -> Vec<(&str, f64)> {
    let mut ended: Vec<_> = phases
        .iter()
        .map(|phase| (phase.name.as_str(), phase.done_us))
        .collect();
    ended.sort_by(|one, other| one.1.total_cmp(&other.1));
    let began = std::iter::once(0.0).chain(ended.iter().map(|(_, done_us)| *done_us));
    let steps: Vec<_> = ended
        .iter()
        .zip(began)
        .map(|((name, done_us), began_us)| (*name, done_us - began_us))
        .collect();
    let within = steps.iter().rev().scan(0.0, |sum_us, (_, took_us)| {
        *sum_us += took_us;
        (*sum_us <= wall_us).then_some(())
    });
    let ahead = steps.len() - within.count();
    steps[ahead..].to_vec()
}

fn wall_figure(samples: &Samples, contender: &Contender) -> Figure {
    let baseline = Contender::new(&contender.workload, BARE);
    let baseline = (*contender != baseline).then_some(&baseline);
    Figure::of(
        samples,
        contender,
        baseline,
        (WALL, Unit::Microseconds),
        target_of(contender),
    )
    .beside_floor(samples, &least_of(samples, contender), baseline)
}

/// What a target is judged beside: all that a domain is, or the least of it where the machine has no such floor.
pub(super) fn least_of(samples: &Samples, contender: &Contender) -> Contender {
    let subject = match contender.subject.as_str() {
        PARKED | PLANNED => PARKED_WALL_FLOOR,
        _ => WALL_FLOOR,
    };
    let whole = Contender::new(&contender.workload, subject);
    match samples.contenders().contains(&whole) {
        true => whole,
        false => floor_of(contender),
    }
}

/// What is compared with the floor, judged beside what all of the wall takes.
pub(super) fn beside_wall(figure: Figure, samples: &Samples, floor: &Contender) -> Figure {
    let least = least_of(samples, &figure.contender);
    figure.beside_floor(samples, &least, Some(floor))
}

/// Of starts that find all but the program there, the one that does too.
pub(super) fn floor_of(contender: &Contender) -> Contender {
    let subject = match contender.subject.as_str() {
        PARKED | PLANNED => PARKED_FLOOR,
        _ => FLOOR,
    };
    Contender::new(&contender.workload, subject)
}

/// A start of a native program beside the floor's.
fn floor_figure(samples: &Samples, contender: &Contender) -> Option<Figure> {
    let floor = floor_of(contender);
    let is_measured = samples.contenders().contains(&floor);
    if !is_measured || contender.subject == BARE || is_floor(contender) {
        return None;
    }
    let most = match contender.subject.as_str() {
        PALISADE => Some(MOST_TIMES_FLOOR),
        PARKED | PLANNED => Some(MOST_TIMES_PARKED_FLOOR),
        _ => None,
    };
    let target = most.map(Target::AtMostTimesFloor);
    let measure = (WALL, Unit::Microseconds);
    let figure = Figure::to_floor(samples, contender, &floor, measure, target);
    Some(beside_wall(figure, samples, &floor))
}

/// Starts beside others' of the same rounds: the module's beside that of a native program behind the process wall and beside
/// wasmtime's, the command's beside bubblewrap's, and native ones beside the floor of the whole wall. What bubblewrap shows of the system is more than palisade's view, all of `/etc`.
fn other_figures(samples: &Samples) -> Vec<Figure> {
    let module = (MODULE, WASM);
    let of_command = Some(Target::AtMostTimesOther(MOST_TIMES_FLOOR));
    let of_parked = Some(Target::AtMostTimesOther(MOST_TIMES_PARKED_FLOOR));
    let others = [
        (
            module,
            (STATIC, PALISADE),
            Some(Target::AtMostTimesProcess(1.5)),
        ),
        (
            module,
            (MODULE, WASMTIME),
            Some(Target::AtMostTimesWasmtime(1.0)),
        ),
        (
            (STATIC, PALISADE),
            (STATIC, BUBBLEWRAP),
            Some(Target::AtMostTimesOther(0.6)),
        ),
        ((STATIC, PALISADE), (STATIC, WALL_FLOOR), of_command),
        ((STATIC, PARKED), (STATIC, PARKED_WALL_FLOOR), of_parked),
        ((STATIC, PLANNED), (STATIC, PARKED_WALL_FLOOR), of_parked),
        ((SYSTEM, PALISADE), (SYSTEM, BUBBLEWRAP), None),
        ((SYSTEM, PALISADE), (SYSTEM, WALL_FLOOR), of_command),
        (
            (SYSTEM, PALISADE),
            (SYSTEM, SAME_VIEW),
            Some(Target::AtMostTimesOther(0.6)),
        ),
    ];
    let figure = |(ours, other, target): ((&str, &str), (&str, &str), Option<Target>)| {
        let [ours, other] =
            [ours, other].map(|(workload, subject)| Contender::new(workload, subject));
        let take_part = [&ours, &other]
            .iter()
            .all(|one| samples.contenders().contains(one));
        let measure = (WALL, Unit::Microseconds);
        take_part.then(|| Figure {
            measure: format!("{WALL} to {}", other.subject),
            // They are the other figure's; only the ratio is another one.
            summary: None,
            difference: None,
            ..Figure::of(samples, &ours, Some(&other), measure, target).against(&other.subject)
        })
    };
    others.into_iter().filter_map(figure).collect()
}

/// In µs. The library's counts with a domain parked ahead: its empty network namespace alone takes
/// the kernel some 270 µs, so it is pooled.
fn target_of(contender: &Contender) -> Option<Target> {
    match (contender.workload.as_str(), contender.subject.as_str()) {
        (STATIC, PALISADE) => Some(Target::AtMost(1500.0)),
        (STATIC, PARKED) => Some(Target::AtMostOverBare(200.0)),
        (STATIC, PLANNED) => Some(Target::AtMostOverBare(0.0)),
        _ => None,
    }
}

fn wall_table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "",
        "median",
        "p99",
        "× bare",
        "95 %",
        "over bare",
        "× floor",
        "target",
        "",
    ]);
    for (workload, title) in [
        (STATIC, "static true, nothing else visible"),
        (SYSTEM, "/usr/bin/true, the system's files visible"),
        (MODULE, "a WebAssembly module that does nothing"),
    ] {
        let mut of_workload = figures
            .iter()
            .filter(|figure| figure.contender.workload == workload)
            .peekable();
        if of_workload.peek().is_some() {
            table.section(title);
        }
        for figure in of_workload.filter(|figure| figure.contender.subject != REPORTING) {
            let to_floor = to_floor_of(figures, &figure.contender);
            match figure.measure.as_str() {
                WALL => {
                    table.line(wall_cells(figure, to_floor));
                    let judged = to_floor.filter(|to_floor| to_floor.target.is_some());
                    table_lines(&mut table, judged.map(floor_cells));
                }
                _ if figure.is_to_floor() => {}
                measure => table.line(other_cells(figure, measure)),
            }
        }
    }
    table
}

fn table_lines(table: &mut Table, lines: impl IntoIterator<Item = Vec<String>>) {
    lines.into_iter().for_each(|line| table.line(line));
}

fn to_floor_of<'a>(figures: &'a [Figure], contender: &Contender) -> Option<&'a Figure> {
    let is_whose = |figure: &&Figure| figure.is_to_floor() && figure.contender == *contender;
    figures.iter().find(is_whose)
}

/// What is judged beside the floor, in a line below the start.
fn floor_cells(figure: &Figure) -> Vec<String> {
    let mut cells = vec!["    × floor".to_owned()];
    cells.resize(4, String::new());
    cells.extend([figure.ratio_interval(), String::new()]);
    cells.push(ratio_cell(Some(figure)));
    cells.push(figure.target.map_or_else(String::new, target_cell));
    cells.push(figure.verdict_cell());
    cells
}

/// A ratio to something else than bare, in the columns of the ratios to bare.
fn other_cells(figure: &Figure, measure: &str) -> Vec<String> {
    let other = measure.strip_prefix("wall to ").unwrap_or(measure);
    let title = match other {
        PALISADE => "  wasm × process wall".to_owned(),
        BUBBLEWRAP => "  palisade × bubblewrap".to_owned(),
        SAME_VIEW => "  palisade × same view".to_owned(),
        WALL_FLOOR => "  palisade × whole wall".to_owned(),
        PARKED_WALL_FLOOR => format!("  {} × whole wall", readiness(&figure.contender)),
        other => format!("  wasm × {other}"),
    };
    let mut cells = vec![title];
    cells.resize(3, String::new());
    cells.extend([ratio_cell(Some(figure)), figure.ratio_interval()]);
    cells.extend([String::new(), String::new()]);
    cells.push(figure.target.map_or_else(String::new, target_cell));
    cells.push(figure.verdict_cell());
    cells
}

/// How much is there before one of the library's is asked for. Their titles say elsewhere whose they are.
fn readiness(contender: &Contender) -> &str {
    let named = contender.subject.split_once(", ");
    named.map_or(&contender.subject, |(_, readiness)| readiness)
}

fn wall_cells(figure: &Figure, to_floor: Option<&Figure>) -> Vec<String> {
    let mut cells = vec![format!("  {}", figure.contender.subject)];
    if let Some(summary) = figure.summary {
        cells.extend([summary.median, summary.p99].map(milliseconds));
    }
    cells.push(ratio_cell(Some(figure)));
    cells.push(figure.ratio_interval());
    cells.push(figure.difference.map_or_else(String::new, |difference| {
        signed_milliseconds(difference.value)
    }));
    cells.push(ratio_cell(to_floor));
    cells.push(figure.target.map_or_else(String::new, target_cell));
    cells.push(figure.verdict_cell());
    cells
}

/// A limit in ms; with a plus sign, one on what comes on top of bare.
pub(super) fn target_cell(target: Target) -> String {
    match target {
        Target::AtMost(us) => format!("≤ {}", us / 1000.0),
        Target::AtMostOverBare(0.0) => "≤ bare".to_owned(),
        Target::AtMostOverBare(us) | Target::AtMostOverOther(us) => {
            format!("≤ +{}", us / 1000.0)
        }
        Target::AtMostTimesBare(times)
        | Target::AtMostTimesProcess(times)
        | Target::AtMostTimesWasmtime(times)
        | Target::AtMostTimesOther(times)
        | Target::AtMostTimesFloor(times)
        | Target::AtMostTimesFloorOrOver(times, _) => format!("≤ {times} ×"),
        Target::AtLeastTimesBare(times)
        | Target::AtLeastTimesBridged(times)
        | Target::AtLeastTimesFloor(times)
        | Target::AtLeastTimesOther(times) => format!("≥ {times} ×"),
    }
}

/// Steps down, contenders across. What is in no step is the lab's or the launcher's own: its exec
/// and exit, its flags, the plan, the keeper.
fn step_table(samples: &Samples) -> Table {
    let stepped: Vec<&Contender> = samples
        .contenders()
        .iter()
        .filter(|contender| samples.measures(contender).contains(&REST))
        .collect();
    let mut steps: Vec<&str> = Vec::new();
    for measure in stepped
        .iter()
        .flat_map(|contender| samples.measures(contender))
    {
        if !steps.contains(&measure) && ![WALL, REST].contains(&measure) {
            steps.push(measure);
        }
    }
    let title_of = |contender: &&Contender| match contender.subject.as_str() {
        REPORTING => "command".to_owned(),
        _ => readiness(contender).to_owned(),
    };
    let mut table = Table::new(std::iter::once(String::new()).chain(stepped.iter().map(title_of)));
    for (measure, title) in steps
        .iter()
        .map(|step| (*step, *step))
        .chain([(REST, "outside these steps"), (WALL, "all")])
    {
        let cell = |contender: &&Contender| {
            let series = samples.series(contender, measure);
            if series.is_empty() {
                String::new()
            } else {
                format!("{:.0}", median(&series))
            }
        };
        table.line(std::iter::once(format!("  {title}")).chain(stepped.iter().map(cell)));
    }
    table
}

#[cfg(test)]
mod tests;
