//! `container-start`: from `create` to the return of `delete`, of a container whose program ends at once.

use super::{
    CRUN, RUNC, add_floor, add_runtimes,
    bundle::{Asked, lay_out},
    figure_of, figures_of, launched, ratio_lines,
    runtime::Runtime,
    subjects, watch_ours,
};
use crate::{
    Trial,
    figure::{Figure, Target},
    floor::Floor,
    measure::Schedule,
    notation::milliseconds,
    program::Program,
    rows::{Method, Prepared, TO_BE_SET, Tools},
    sample::{Contender, Reading, Samples, Unit},
    statistics::median,
    table::Table,
    trial::microseconds,
    workloads::Workloads,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

pub(in crate::rows) struct Start;

const WORKLOAD: &str = "static true";
const ALL: &str = "create, start, delete";
/// Its parts; between the last two the program ends.
const STEPS: [&str; 4] = ["create", "start", "end", "delete"];
const TARGETS: [(&str, Option<Target>); 2] = [
    (RUNC, Some(Target::AtMostTimesOther(0.25))),
    (CRUN, Some(Target::AtMostTimesOther(0.7))),
];
const COLUMNS: [&str; 11] = [
    "", "median", "p10", "p90", "create", "start", "end", "delete", "95 %", "target", "",
];

impl Method for Start {
    fn floor(&self) -> Floor {
        Floor::Start
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let program = workloads.add_true()?;
        let asked = Asked::alone(program.clone());
        let bundle = lay_out(&workloads, "bundle", &asked)?;
        let mut prepared = Prepared::new(schedule(), workloads);
        add_runtimes(&mut prepared, tools, WORKLOAD, |runtime| {
            Ok(Life {
                runtime: runtime.clone(),
                bundle: bundle.clone(),
            })
        })?;
        let floor = launched(&prepared.workloads, &program);
        add_floor(&mut prepared, WORKLOAD, || Ok(Launched(floor?)));
        prepared.schedule.watched = watch_ours(&prepared, ALL);
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let figures = figures_of(samples, WORKLOAD, (ALL, Unit::Microseconds), &TARGETS);
        let title = "A container of a static `true` by each runtime, no engine in between, ms: create, start, the\n\
                     program's end and delete:";
        let table = table(samples, &figures);
        (figures, vec![(title.to_owned(), table)])
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 2,
        least_rounds: 20,
        most_rounds: 5000,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.03,
        watched: Vec::new(),
    }
}

/// A container's whole life.
struct Life {
    runtime: Runtime,
    bundle: PathBuf,
}

impl Trial for Life {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let began = Instant::now();
        let container = self.runtime.create(&self.bundle)?;
        let created = Instant::now();
        container.start()?;
        let started = Instant::now();
        container.wait()?;
        let ended = Instant::now();
        container.delete()?;
        let deleted = Instant::now();
        let ends = [created, started, ended, deleted];
        let begins = [began, created, started, ended];
        let steps = STEPS.iter().zip(begins.iter().zip(ends));
        let mut readings = vec![Reading::one_us(ALL, microseconds(deleted - began))];
        readings.extend(
            steps.map(|(step, (begin, end))| Reading::one_us(step, microseconds(end - *begin))),
        );
        Ok(readings)
    }
}

/// The program's life, and nothing that knows of containers.
struct Launched(Program);

impl Trial for Launched {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        Ok(vec![Reading::one_us(ALL, microseconds(self.0.run()?))])
    }
}

fn table(samples: &Samples, figures: &[Figure]) -> Table {
    let mut table = Table::new(COLUMNS);
    for subject in subjects(samples) {
        table.line(cells_of(samples, figures, subject));
    }
    ratio_lines(&mut table, figures, ALL, COLUMNS.len());
    table
}

fn cells_of(samples: &Samples, figures: &[Figure], subject: &str) -> Vec<String> {
    let mut cells = vec![subject.to_owned()];
    let summary = figure_of(figures, ALL, subject).and_then(|figure| figure.summary);
    if let Some(summary) = summary {
        cells.extend([summary.median, summary.p10, summary.p90].map(milliseconds));
    }
    let contender = Contender::new(WORKLOAD, subject);
    let steps = STEPS.map(|step| samples.series(&contender, step));
    let steps = steps.iter().filter(|series| !series.is_empty());
    cells.extend(steps.map(|series| milliseconds(median(series))));
    cells
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            OURS,
            tests::{WITH_FLOOR, samples},
        },
        *,
    };
    use crate::{figure::FLOOR, rows::present_on_terminal};

    #[test]
    fn runtimes_stand_down_and_steps_across() {
        let samples = samples((WORKLOAD, WITH_FLOOR), |subject, round| {
            let times = if subject == OURS { 1.0 } else { 4.5 };
            let us = |us: f64| us * times + round;
            if subject == FLOOR {
                return vec![Reading::one_us(ALL, 600.0 + round)];
            }
            vec![
                Reading::one_us(ALL, us(9_000.0)),
                Reading::one_us("create", us(5_000.0)),
                Reading::one_us("start", us(1_500.0)),
                Reading::one_us("end", us(500.0)),
                Reading::one_us("delete", us(2_000.0)),
            ]
        });
        let (figures, text) = present_on_terminal(&Start, &samples);
        insta::assert_snapshot!(text);
        let judged = figures.iter().filter(|one| one.verdict.is_some());
        assert_eq!(judged.count(), 2);
    }
}
