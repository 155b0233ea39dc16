//! `syscalls`: what single system calls cost once a guest runs.
//!
//! The shape of table 5 of the SVA-OS paper (2009): operations down, walls across. One process measures
//! every operation, in batches that take turns; the processes of the contenders take turns too, on
//! one processor, so that the scheduler's choice of processors is in no figure.

use super::{BARE, Prepared, Row, Tools, grant, program, try_peer};
use crate::{
    Trial, Warning,
    figure::{Figure, Target},
    measure::{Schedule, Watched},
    notation::{four_figures, short},
    sample::{Contender, Reading, Samples, Unit},
    subjects::{Bare, Subject},
    table::Table,
    trial::Program,
    workloads::Workloads,
};
use anyhow::{Context, ensure};
use palisade::Domain;
use palisade_policy::{Access, Capability, Limits, Policy};
use palisade_wall::{Command, Level};
use std::time::Duration;

pub(super) struct Syscalls;

const WORKLOAD: &str = "syscalls";
const PALISADE: &str = "palisade run";
const ALL_ON: &str = "palisade run, all on";
const BUBBLEWRAP: &str = "bubblewrap";
const WALLS: [&str; 3] = [PALISADE, ALL_ON, BUBBLEWRAP];

/// What `lab/workloads/syscalls.c` prints, what it is called in the table, and the most it may cost
/// behind the wall, as a ratio to bare.
const OPERATIONS: [(&str, &str, f64); 12] = [
    ("getpid", "getpid", 1.15),
    ("open+close", "open and close", 1.15),
    ("checked-open", "checked open", 1.05),
    ("read-64", "read 64 B", 1.15),
    ("write-64", "write 64 B", 1.15),
    ("stat", "stat", 1.15),
    ("pipe", "pipe round trip", 1.15),
    ("signal-handler", "signal handler", 1.15),
    ("signal-install", "signal install", 1.15),
    ("poll", "poll", 1.15),
    ("select", "select", 1.15),
    ("fork+exec", "fork, exec, wait", 1.15),
];
const MOST_MEAN: f64 = 1.05;

/// Length of a batch in µs, short beside the scheduler's time slice, and batches of each run.
const BATCH_US: &str = "1000";
const BATCHES: &str = "11";

impl Row for Syscalls {
    fn name(&self) -> &'static str {
        "syscalls"
    }

    fn about(&self) -> &'static str {
        "the cost of single system calls, once the guest runs (SVA-OS 2009, table 5)"
    }

    fn prepare(&self, tools: &Tools) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let command = Command {
            program: workloads.add_syscalls()?.into(),
            arguments: vec![workloads.folder().into(), BATCH_US.into(), BATCHES.into()],
        };
        let (policy, everything) = (default_policy(&workloads), everything_on(&workloads));
        let degraded = degraded_parts(&everything, &command)?;
        let subjects: [(&str, &dyn Subject, Policy); 3] = [
            (BARE, &Bare, policy.clone()),
            (PALISADE, &tools.palisade, policy.clone()),
            (ALL_ON, &tools.palisade, everything),
        ];
        let mut prepared = Prepared {
            trials: Vec::new(),
            schedule: schedule(),
            warnings: degraded.into_iter().collect(),
            workloads,
            pinned: true,
        };
        for (name, subject, policy) in subjects {
            let trial = MeasuringProgram(program(subject, &policy, &command)?);
            prepared
                .trials
                .push((Contender::new(WORKLOAD, name), Box::new(trial)));
        }
        try_peer(
            &mut prepared,
            Contender::new(WORKLOAD, BUBBLEWRAP),
            tools.bubblewrap.as_ref(),
            |bubblewrap| {
                Ok(Box::new(MeasuringProgram(program(
                    bubblewrap, &policy, &command,
                )?)))
            },
        );
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let mut figures: Vec<Figure> = samples
            .contenders()
            .iter()
            .flat_map(|contender| figures_of(samples, contender))
            .collect();
        let walls = samples
            .contenders()
            .iter()
            .filter(|contender| contender.subject != BARE);
        figures.extend(walls.map(|wall| mean_figure(samples, wall)));
        let title =
            "ns of one operation with no wall, and times as much behind each, with 95 % intervals:"
                .to_owned();
        let table = operation_table(&figures);
        (figures, vec![(title, table)])
    }
}

fn schedule() -> Schedule {
    let watched = [PALISADE, ALL_ON].into_iter().flat_map(|subject| {
        OPERATIONS.map(|(measure, ..)| Watched {
            measure: measure.to_owned(),
            contender: Contender::new(WORKLOAD, subject),
            baseline: Contender::new(WORKLOAD, BARE),
        })
    });
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 10,
        most_rounds: 200,
        budget: Duration::from_secs(60),
        relative_width: 0.02,
        watched: watched.collect(),
    }
}

/// What people get who grant one folder and nothing else.
fn default_policy(workloads: &Workloads) -> Policy {
    let mut policy = Policy::default();
    policy
        .grants
        .files
        .push(grant(Access::Read, workloads.folder()));
    policy
}

/// Every mechanism that could cost something while the guest runs: files opened below a writable
/// folder with a protected path, every limit.
fn everything_on(workloads: &Workloads) -> Policy {
    let mut policy = default_policy(workloads);
    let files = workloads.files_folder();
    policy.grants.files.extend([
        grant(Access::Write, &files),
        grant(Access::Protect, &files.join("0")),
    ]);
    policy.limits = Limits {
        memory_bytes: Some(512 << 20),
        cpu_cores: None,
        processes: Some(64),
        files: Some(1024),
        file_size_bytes: Some(1 << 30),
        tmp_size_bytes: Some(64 << 20),
        time: Some(Duration::from_secs(600)),
        cpu_time: Some(Duration::from_secs(600)),
        output_bytes: Some(1 << 20),
    };
    // Without a writable cgroup the rest is still worth measuring.
    policy.allow_degraded.insert(Capability::Memory);
    policy
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

/// A run of `syscalls`, whichever wall is around it.
struct MeasuringProgram(Program);

impl Trial for MeasuringProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        parse_output(&self.0.run_for_output()?)
    }
}

/// `OPERATION NS NS …`, a line for each.
fn parse_output(text: &str) -> anyhow::Result<Vec<Reading>> {
    let readings: Vec<Reading> = text
        .lines()
        .map(parse_line)
        .collect::<anyhow::Result<_>>()?;
    let is_there = |name| readings.iter().any(|reading| reading.measure == name);
    let missing = OPERATIONS.iter().find(|(name, ..)| !is_there(*name));
    ensure!(
        missing.is_none(),
        "syscalls left out {}",
        missing.map_or("", |(name, ..)| name)
    );
    Ok(readings)
}

fn parse_line(line: &str) -> anyhow::Result<Reading> {
    let mut words = line.split(' ');
    let measure = words.next().unwrap_or_default().to_owned();
    let values: Result<Vec<f64>, _> = words.map(str::parse).collect();
    let values = values.with_context(|| format!("syscalls printed {line:?}"))?;
    ensure!(!values.is_empty(), "syscalls printed {line:?}");
    Ok(Reading {
        measure,
        unit: Unit::Nanoseconds,
        values,
    })
}

fn figures_of(samples: &Samples, contender: &Contender) -> Vec<Figure> {
    let bare = Contender::new(WORKLOAD, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let figure = |(name, _, most): (&str, &str, f64)| {
        let target = is_ours(contender).then_some(Target::AtMostTimesBare(most));
        Figure::of(
            samples,
            contender,
            baseline,
            (name, Unit::Nanoseconds),
            target,
        )
    };
    OPERATIONS.into_iter().map(figure).collect()
}

fn mean_figure(samples: &Samples, wall: &Contender) -> Figure {
    let names = OPERATIONS.map(|(name, ..)| name);
    let most = is_ours(wall).then_some(MOST_MEAN);
    Figure::mean_ratio(
        samples,
        wall,
        &Contender::new(WORKLOAD, BARE),
        (&names, Unit::Nanoseconds),
        most,
    )
}

fn is_ours(contender: &Contender) -> bool {
    [PALISADE, ALL_ON].contains(&contender.subject.as_str())
}

fn operation_table(figures: &[Figure]) -> Table {
    let find = |subject: &str, measure: &str| {
        figures
            .iter()
            .find(|figure| figure.contender.subject == subject && figure.measure == measure)
    };
    let mut table = Table::new([
        "", "bare ns", "target", "palisade", "95 %", "", "all on", "95 %", "", "bwrap",
    ]);
    let mean = ("geometric mean", "geometric mean", MOST_MEAN);
    for (measure, title, most) in OPERATIONS.into_iter().chain([mean]) {
        let bare = find(BARE, measure).and_then(|figure| figure.summary);
        let [ours, all_on, bubblewrap] = WALLS.map(|subject| find(subject, measure));
        table.line([
            title.to_owned(),
            bare.map_or_else(String::new, |summary| short(summary.median)),
            format!("≤ {most}"),
            ratio_cell(ours),
            ours.map_or_else(String::new, Figure::ratio_interval),
            verdict_cell(ours),
            ratio_cell(all_on),
            all_on.map_or_else(String::new, Figure::ratio_interval),
            verdict_cell(all_on),
            ratio_cell(bubblewrap),
        ]);
    }
    table
}

fn ratio_cell(figure: Option<&Figure>) -> String {
    figure
        .and_then(|figure| figure.ratio)
        .map_or_else(String::new, |ratio| four_figures(ratio.value))
}

fn verdict_cell(figure: Option<&Figure>) -> String {
    figure
        .and_then(|figure| figure.verdict)
        .map_or_else(String::new, |verdict| verdict.to_string())
}

#[cfg(test)]
mod tests;
