//! `osv-boot`: from asking for a guest to the first instruction of its `main`.
//!
//! The guest takes the time first of all and prints it; the lab takes the same clock before it asks. No
//! wall here has a clock of its own: a time that does not lie within the run is an error. A WebAssembly guest
//! takes the time of day, as engines begin the monotonic clock where they like.

use super::{
    BARE, Method, PALISADE, Prepared, TO_BE_SET, Tools, WASM, is_floor, policies, ratio_cell,
    start::{
        MOST_TIMES_FLOOR, MOST_TIMES_PARKED_FLOOR, PARKED, PLANNED, add_floors, add_parked_floors,
        beside_wall, floor_of, least_of, target_cell,
    },
    try_peers,
    wasm::try_wasm,
    watch_all,
};
use crate::{
    Trial,
    figure::{Figure, Target},
    floor::Floor,
    library::{Library, Readiness},
    measure::Schedule,
    notation::{milliseconds, signed_milliseconds},
    program::{ParkedAhead, Program},
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Subject},
    table::Table,
    wasi,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade_wall::Command;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

pub(super) struct Boot;

const WORKLOAD: &str = "main";
const MAIN: &str = "main";

impl Method for Boot {
    fn floor(&self) -> Floor {
        Floor::Start
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let command = Command::new(workloads.add_boot()?);
        let alone = policies::alone(&command);
        let mut prepared = Prepared::new(schedule(), workloads);
        let subjects: [&dyn Subject; 2] = [&Bare, &tools.palisade];
        for subject in subjects {
            let trial = BootingProgram::native(Program::in_subject(subject, &alone, &command)?);
            let contender = Contender::new(WORKLOAD, subject.name());
            prepared.trials.push((contender, Box::new(trial)));
        }
        for (name, readiness) in [(PARKED, Readiness::Parked), (PLANNED, Readiness::Planned)] {
            let library = Library::printing(readiness, alone.clone(), command.clone())?;
            let contender = Contender::new(WORKLOAD, name);
            prepared
                .trials
                .push((contender, Box::new(BootingLibrary(library))));
        }
        add_floors(
            &mut prepared,
            tools,
            (WORKLOAD, &alone, &command),
            BootingProgram::native,
        )?;
        let of_boot = (WORKLOAD, &alone, &command);
        add_parked_floors(&mut prepared, tools, of_boot, BootingParked)?;
        try_peers(&mut prepared, tools, WORKLOAD, &command, |peer| {
            Program::in_subject(peer, &alone, &command).map(BootingProgram::native)
        });
        let module = prepared.workloads.add_wasm("boot").map(Command::new);
        try_wasm(
            &mut prepared,
            tools,
            WORKLOAD,
            module,
            |subject, command| {
                let alone = policies::alone(command);
                Ok(BootingProgram {
                    program: Program::in_subject(subject, &alone, command)?,
                    clock: ClockId::Realtime,
                })
            },
        );
        let contenders = prepared.trials.iter().map(|(contender, _)| contender);
        prepared.schedule.watched = watch_all(contenders, MAIN);
        Ok(prepared.rested())
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        vec![wasi::version()]
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures = contenders.clone().map(|one| figure(samples, one));
        let to_floor = contenders.filter_map(|one| floor_figure(samples, one));
        let figures: Vec<Figure> = figures.chain(to_floor).collect();
        let title = "ms from asking for the guest to the first instruction of its main:".to_owned();
        let table = table(&figures);
        (figures, vec![(title, table)])
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 3,
        least_rounds: 100,
        most_rounds: 5000,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.02,
        watched: Vec::new(),
    }
}

/// The time that `run`'s guest printed, counted from before it was asked for.
fn time_to_main(
    clock: ClockId,
    run: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<Vec<Reading>> {
    let asked_ns = now_ns(clock);
    let said = run()?;
    let over_ns = now_ns(clock);
    let main_ns: i128 = said
        .trim()
        .parse()
        .with_context(|| format!("it printed {said:?}"))?;
    ensure!(
        (asked_ns..over_ns).contains(&main_ns),
        "the guest's clock is not ours: {main_ns} ns is no time between {asked_ns} and {over_ns}"
    );
    let took_us = (main_ns - asked_ns) as f64 / 1000.0;
    Ok(vec![Reading::one_us(MAIN, took_us)])
}

fn now_ns(clock: ClockId) -> i128 {
    let now = clock_gettime(clock);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

struct BootingProgram {
    program: Program,
    /// The one that it prints.
    clock: ClockId,
}

impl BootingProgram {
    fn native(program: Program) -> Self {
        Self {
            program,
            clock: ClockId::Monotonic,
        }
    }
}

impl Trial for BootingProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        time_to_main(self.clock, || self.program.run_for_output())
    }
}

struct BootingLibrary(Library);

impl Trial for BootingLibrary {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let reading = time_to_main(ClockId::Monotonic, || self.0.run_for_output())?;
        // As in `start`: a pool is refilled between runs.
        self.0.get_ready()?;
        Ok(reading)
    }
}

struct BootingParked(ParkedAhead);

impl Trial for BootingParked {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let parked = self.0.take()?;
        let reading = time_to_main(ClockId::Monotonic, || {
            let (begun, output) = parked.begin_heard()?;
            let said = std::io::read_to_string(output).context("the output is not text")?;
            begun.wait()?.check()?;
            Ok(said)
        })?;
        self.0.get_ready();
        Ok(reading)
    }
}

/// A native program's start beside the floor's.
fn floor_figure(samples: &Samples, contender: &Contender) -> Option<Figure> {
    let floor = floor_of(contender);
    let is_native = ![BARE, WASM].contains(&contender.subject.as_str()) && !is_floor(contender);
    let is_measured = samples.contenders().contains(&floor);
    let target = match contender.subject.as_str() {
        PALISADE => Some(Target::AtMostTimesFloor(MOST_TIMES_FLOOR)),
        PARKED | PLANNED => Some(Target::AtMostTimesFloor(MOST_TIMES_PARKED_FLOOR)),
        _ => None,
    };
    let measure = (MAIN, Unit::Microseconds);
    let figure = || Figure::to_floor(samples, contender, &floor, measure, target);
    let figure = (is_native && is_measured).then(figure)?;
    Some(beside_wall(figure, samples, &floor))
}

fn figure(samples: &Samples, contender: &Contender) -> Figure {
    let bare = Contender::new(WORKLOAD, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let target = match contender.subject.as_str() {
        PALISADE => Some(Target::AtMost(1500.0)),
        PARKED => Some(Target::AtMostOverBare(200.0)),
        _ => None,
    };
    Figure::of(
        samples,
        contender,
        baseline,
        (MAIN, Unit::Microseconds),
        target,
    )
    .beside_floor(samples, &least_of(samples, contender), baseline)
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "",
        "p50",
        "p99",
        "× bare",
        "95 %",
        "over bare",
        "× floor",
        "target",
        "",
    ]);
    for figure in figures.iter().filter(|figure| !figure.is_to_floor()) {
        let quantile = |of: fn(&crate::statistics::Summary) -> f64| {
            let summary = figure.summary.as_ref();
            summary.map_or_else(String::new, |summary| milliseconds(of(summary)))
        };
        let over = figure.difference;
        let is_whose = |one: &&Figure| one.is_to_floor() && one.contender == figure.contender;
        let to_floor = figures.iter().find(is_whose);
        table.line([
            figure.contender.subject.clone(),
            quantile(|summary| summary.median),
            quantile(|summary| summary.p99),
            ratio_cell(Some(figure)),
            figure.ratio_interval(),
            over.map_or_else(String::new, |over| signed_milliseconds(over.value)),
            ratio_cell(to_floor),
            figure.target.map_or_else(String::new, target_cell),
            figure.verdict_cell(),
        ]);
        if let Some(judged) = to_floor.filter(|to_floor| to_floor.target.is_some()) {
            table.line([
                "  × floor".to_owned(),
                String::new(),
                String::new(),
                String::new(),
                judged.ratio_interval(),
                String::new(),
                ratio_cell(Some(judged)),
                judged.target.map_or_else(String::new, target_cell),
                judged.verdict_cell(),
            ]);
        }
    }
    table.line(["OSv, a virtual machine", "about 5"]);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        figure::FLOOR,
        rows::{
            present_on_terminal,
            start::{PARKED_FLOOR, PARKED_WALL_FLOOR, WALL_FLOOR},
        },
    };

    #[test]
    fn the_table_fits_a_terminal() {
        let contenders = [
            BARE,
            PALISADE,
            PARKED,
            PLANNED,
            FLOOR,
            PARKED_FLOOR,
            PARKED_WALL_FLOOR,
            WALL_FLOOR,
            "bubblewrap",
            WASM,
        ]
        .map(|one| Contender::new(WORKLOAD, one));
        let mut samples = Samples::new(contenders.to_vec());
        for round in 0..20 {
            let of_round = [
                150.0, 900.0, 350.0, 340.0, 700.0, 320.0, 330.0, 890.0, 1100.0, 1250.0,
            ]
            .map(|value_us| vec![Reading::one_us(MAIN, value_us + f64::from(round))]);
            samples.push_round(of_round.to_vec());
        }
        let (_, text) = present_on_terminal(&Boot, &samples);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_clock_of_its_own_is_noticed() {
        let clock = ClockId::Monotonic;
        let time_to_main = |said: String| time_to_main(clock, || Ok(said));
        for shifted_ns in [-3_600_000_000_000, 3_600_000_000_000] {
            let said = format!("{}\n", now_ns(clock) + shifted_ns);
            let error = time_to_main(said).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("the guest's clock is not ours"),
                "{error}"
            );
        }
        assert!(time_to_main(String::new()).is_err());
        let readings = super::time_to_main(clock, || Ok(format!("{}\n", now_ns(clock)))).unwrap();
        assert!((0.0..1e6).contains(&readings[0].values[0]));
    }
}
