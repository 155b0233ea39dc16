//! `container-many`: many containers made at once, started at once, and ended at once.

use super::{
    CRUN, OURS, RUNC, add_floor, add_runtimes,
    bundle::{Asked, lay_out},
    figure_of, figures_of, launched, ratio_cells, ratio_lines,
    runtime::{Container, Runtime},
    subjects, watch_ours,
};
use crate::{
    Trial,
    figure::{FLOOR, Figure, Target},
    floor::Floor,
    measure::Schedule,
    notation::milliseconds,
    program::Program,
    rows::{Extent, Method, Prepared, TO_BE_SET, Tools},
    sample::{Contender, Reading, Samples, Unit},
    statistics::median,
    table::Table,
    trial::microseconds,
    workloads::Workloads,
};
use anyhow::ensure;
use std::{
    path::PathBuf,
    process::{Child, ExitStatus},
    time::{Duration, Instant},
};

pub(in crate::rows) struct Many;

/// From the first `create` to the last `delete`.
const ALL: &str = "all";
const STEPS: [&str; 3] = ["create", "start", "delete"];
/// Containers that were not made, did not start, or did not go.
const FAILURES: &str = "failures";
/// Whom it is shown beside: what is promised is that all of them come and go.
const OTHERS: [(&str, Option<Target>); 2] = [(RUNC, None), (CRUN, None)];
const COLUMNS: [&str; 9] = [
    "", "median", "create", "start", "delete", "failures", "95 %", "target", "",
];

impl Method for Many {
    fn floor(&self) -> Floor {
        Floor::Start
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let asked = Asked::alone(workloads.add_idle()?);
        let bundle = lay_out(&workloads, "bundle", &asked)?;
        let count = match tools.extent {
            Extent::Full => 100,
            Extent::Quick => 20,
            Extent::Tiny => 3,
        };
        let mut prepared = Prepared::new(schedule(), workloads);
        add_runtimes(&mut prepared, tools, &workload(count), |runtime| {
            Ok(Crowd {
                runtime: runtime.clone(),
                bundle: bundle.clone(),
                count,
            })
        })?;
        let ends = prepared.workloads.add_true()?;
        let programs = (0..count).map(|_| launched(&prepared.workloads, &ends));
        let programs = programs.collect::<anyhow::Result<_>>();
        add_floor(&mut prepared, &workload(count), || Ok(Launched(programs?)));
        prepared.schedule.watched = watch_ours(&prepared, ALL);
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let workload = samples.contenders().first().map_or("", |one| &one.workload);
        let mut figures = figures_of(samples, workload, (ALL, Unit::Microseconds), &OTHERS);
        let contenders = samples.contenders().iter();
        let counted = contenders.filter(|contender| contender.subject != FLOOR);
        figures.extend(counted.map(|contender| failures(samples, contender)));
        let title = format!(
            "{workload} by each runtime, no engine in between, ms: all made, then all\n\
             started, then all ended and deleted. A failure is one that was not made, does not run or did\n\
             not go, of all rounds:"
        );
        let table = table(samples, workload, &figures);
        (figures, vec![(title, table)])
    }
}

/// Figures of different extents are figures of different things.
fn workload(count: usize) -> String {
    format!("{count} containers at once")
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 4,
        most_rounds: 300,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.05,
        watched: Vec::new(),
    }
}

/// None may fail of palisade-oci's; of others it is told.
fn failures(samples: &Samples, contender: &Contender) -> Figure {
    let target = (contender.subject == OURS).then_some(Target::AtMost(0.0));
    Figure::of(samples, contender, None, (FAILURES, Unit::Count), target)
}

struct Crowd {
    runtime: Runtime,
    bundle: PathBuf,
    count: usize,
}

impl Trial for Crowd {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let began = Instant::now();
        let mut containers = self.create()?;
        let created = Instant::now();
        start(&self.runtime, &containers)?;
        let started = Instant::now();
        let running = containers
            .iter()
            .filter(|one| matches!(one.has_ended(), Ok(false)));
        let running = running.count();
        ensure!(running > 0, "no container runs");
        let deleting = Instant::now();
        let left = end(&self.runtime, &mut containers)?;
        let deleted = Instant::now();
        let us = |from: Instant, to: Instant| microseconds(to - from);
        let failures = (self.count - running + left) as u64;
        Ok(vec![
            Reading::one_us(ALL, us(began, started) + us(deleting, deleted)),
            Reading::one_us(STEPS[0], us(began, created)),
            Reading::one_us(STEPS[1], us(created, started)),
            Reading::one_us(STEPS[2], us(deleting, deleted)),
            Reading::one_count(FAILURES, failures),
        ])
    }
}

impl Crowd {
    /// Those that could be made.
    fn create(&self) -> anyhow::Result<Vec<Container<'_>>> {
        let begin = |_| {
            let id = self.runtime.new_id();
            let child = self.runtime.begin_create(&self.bundle, &id)?;
            Ok((id, child))
        };
        let begun: Vec<(String, Child)> =
            (0..self.count).map(begin).collect::<anyhow::Result<_>>()?;
        let made = begun
            .into_iter()
            .map(|(id, child)| self.runtime.created(id, child));
        let (made, failed): (Vec<_>, Vec<_>) = made.partition(Result::is_ok);
        match failed.into_iter().find_map(Result::err) {
            Some(reason) if made.is_empty() => Err(reason),
            _ => made.into_iter().collect(),
        }
    }
}

/// As many programs at once that end by themselves, and nothing that knows of containers.
struct Launched(Vec<Program>);

impl Trial for Launched {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let began = Instant::now();
        let begun = self.0.iter_mut().map(|program| program.command().spawn());
        let begun: Vec<Child> = begun.collect::<Result<_, _>>()?;
        let ended = begun.into_iter().map(|mut child| child.wait());
        let failures = ended.filter(|ended| !ended.as_ref().is_ok_and(ExitStatus::success));
        let failures = failures.count();
        ensure!(failures == 0, "{failures} did not run");
        Ok(vec![Reading::one_us(ALL, microseconds(began.elapsed()))])
    }
}

/// One that does not start ends, or is seen not to run.
fn start(runtime: &Runtime, containers: &[Container<'_>]) -> anyhow::Result<()> {
    let begun = containers.iter().map(Container::begin_start);
    let begun: Vec<Child> = begun.collect::<anyhow::Result<_>>()?;
    for (container, child) in containers.iter().zip(begun) {
        let _ = runtime.finish(container.id(), child);
    }
    Ok(())
}

/// How many are left.
fn end(runtime: &Runtime, containers: &mut [Container<'_>]) -> anyhow::Result<usize> {
    let begun = containers.iter_mut().map(Container::begin_end);
    let begun: Vec<Child> = begun.collect::<anyhow::Result<_>>()?;
    let ended = containers.iter().zip(begun);
    let left = ended.filter_map(|(one, child)| runtime.finish(one.id(), child).err());
    Ok(left.count())
}

fn table(samples: &Samples, workload: &str, figures: &[Figure]) -> Table {
    let mut table = Table::new(COLUMNS);
    for subject in subjects(samples) {
        let contender = Contender::new(workload, subject);
        let of = |measure: &str| median(&samples.series(&contender, measure));
        let mut cells = vec![subject.to_owned(), milliseconds(of(ALL))];
        let failures = samples.series(&contender, FAILURES);
        if failures.is_empty() {
            table.line(cells);
            continue;
        }
        cells.extend(STEPS.map(|step| milliseconds(of(step))));
        cells.push(format!("{:.0}", failures.iter().sum::<f64>()));
        if let Some(promised) = figure_of(figures, FAILURES, subject) {
            let [_, _, judged @ ..] = ratio_cells(promised);
            cells.push(String::new());
            cells.extend(judged);
        }
        table.line(cells);
    }
    ratio_lines(&mut table, figures, ALL, COLUMNS.len());
    table
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{WITH_FLOOR, samples},
        *,
    };
    use crate::rows::present_on_terminal;

    #[test]
    fn failures_of_all_rounds_stand_beside_the_times() {
        let samples = samples((&workload(100), WITH_FLOOR), |subject, round| {
            let times = if subject == OURS { 1.0 } else { 3.5 };
            let us = |us: f64| us * times + round;
            if subject == FLOOR {
                return vec![Reading::one_us(ALL, 60_000.0 + round)];
            }
            vec![
                Reading::one_us(ALL, us(900_000.0)),
                Reading::one_us("create", us(500_000.0)),
                Reading::one_us("start", us(100_000.0)),
                Reading::one_us("delete", us(300_000.0)),
                Reading::one_count(FAILURES, u64::from(subject == CRUN)),
            ]
        });
        let (figures, text) = present_on_terminal(&Many, &samples);
        insta::assert_snapshot!(text);
        let judged = figures.iter().filter(|one| one.verdict.is_some());
        assert_eq!(judged.count(), 1);
    }
}
