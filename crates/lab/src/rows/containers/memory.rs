//! `container-memory`: what is held for an idle container, beside its program and what an engine has for it.

use super::{
    OURS, add_runtimes,
    bundle::{Asked, lay_out},
    figure_of,
    runtime::{Container, Runtime},
    subjects,
};
use crate::{
    Trial,
    figure::{Figure, Target},
    measure::Schedule,
    memory::{Held, Process, tree_of},
    notation::kibibytes,
    rows::{Method, Prepared, TO_BE_SET, Tools},
    sample::{Contender, Reading, Samples, Unit},
    table::Table,
    workloads::Workloads,
};
use anyhow::ensure;
use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

pub(in crate::rows) struct Memory;

const WORKLOAD: &str = "an idle container";
/// The workload's executable, as the kernel calls it.
const PROGRAM: &str = "idle";
/// All that stays with it, and its parts: the runtime's process outside, and its PID 1 inside.
const HELD: &str = "held";
const PRIVATE: &str = "private";
const PARTS: [&str; 2] = ["keeper", "init"];
const MOST_BYTES: f64 = 1.5 * 1024.0 * 1024.0;
/// How long a program may take to be executed once it was started.
const PATIENCE: Duration = Duration::from_secs(10);

impl Method for Memory {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let asked = Asked::alone(workloads.add_idle()?);
        let bundle = lay_out(&workloads, "bundle", &asked)?;
        let mut prepared = Prepared::new(schedule(), workloads);
        add_runtimes(&mut prepared, tools, WORKLOAD, |runtime| {
            Ok(Idle {
                runtime: runtime.clone(),
                bundle: bundle.clone(),
            })
        })?;
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| figures_of_one(samples, contender))
            .collect();
        let title = "KiB held for an idle container beside its program, shared pages in proportion; `private` is\n\
                     what one more container would hold. An engine's own monitor comes on top:";
        let table = table(samples, &figures);
        (figures, vec![(title.to_owned(), table)])
    }
}

/// Memory varies by a page or two from run to run, if at all.
fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 10,
        most_rounds: 300,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.02,
        watched: Vec::new(),
    }
}

struct Idle {
    runtime: Runtime,
    bundle: PathBuf,
}

impl Trial for Idle {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let container = self.runtime.create(&self.bundle)?;
        container.start()?;
        let inside = running(&container)?;
        let keeper = match container.keeper()? {
            Some(keeper) => tree_of(keeper)?,
            None => Vec::new(),
        };
        let init: Vec<_> = inside
            .into_iter()
            .filter(|process| process.command != PROGRAM)
            .collect();
        Ok(readings(&keeper, &init))
    }
}

/// The container's processes, once its program is executed.
fn running(container: &Container<'_>) -> anyhow::Result<Vec<Process>> {
    let began = Instant::now();
    loop {
        let tree = tree_of(container.pid())?;
        if tree.iter().any(|process| process.command == PROGRAM) {
            return Ok(tree);
        }
        ensure!(began.elapsed() < PATIENCE, "the program does not begin");
        thread::sleep(Duration::from_millis(1));
    }
}

fn readings(keeper: &[Process], init: &[Process]) -> Vec<Reading> {
    let sum = |processes: &[Process], part: fn(&Held) -> u64| -> u64 {
        processes.iter().map(|process| part(&process.held)).sum()
    };
    let both = |part: fn(&Held) -> u64| sum(keeper, part) + sum(init, part);
    vec![
        Reading::one_bytes(HELD, both(|held| held.bytes)),
        Reading::one_bytes(PRIVATE, both(|held| held.private_bytes)),
        Reading::one_bytes(PARTS[0], sum(keeper, |held| held.bytes)),
        Reading::one_bytes(PARTS[1], sum(init, |held| held.bytes)),
    ]
}

fn figures_of_one(samples: &Samples, contender: &Contender) -> Vec<Figure> {
    let measures = [HELD, PRIVATE, PARTS[0], PARTS[1]];
    let figure = |measure: &str| {
        let is_promised = contender.subject == OURS && measure == HELD;
        let target = is_promised.then_some(Target::AtMost(MOST_BYTES));
        Figure::of(samples, contender, None, (measure, Unit::Bytes), target)
    };
    measures.map(figure).into()
}

fn table(samples: &Samples, figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "held", "private", "keeper", "init", "target", ""]);
    for subject in subjects(samples) {
        let find = |measure: &str| figure_of(figures, measure, subject);
        let median = |measure: &str| {
            let summary = find(measure).and_then(|figure| figure.summary);
            summary.map_or_else(String::new, |summary| kibibytes(summary.median))
        };
        let judged = find(HELD).filter(|figure| figure.target.is_some());
        table.line([
            subject.to_owned(),
            median(HELD),
            median(PRIVATE),
            median(PARTS[0]),
            median(PARTS[1]),
            judged.map_or_else(String::new, |_| format!("≤ {}", kibibytes(MOST_BYTES))),
            judged.map_or_else(String::new, Figure::verdict_cell),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{RUNTIMES, samples},
        *,
    };
    use crate::rows::present_on_terminal;

    #[test]
    fn runtimes_stand_down_and_who_holds_it_across() {
        let samples = samples((WORKLOAD, RUNTIMES), |subject, round| {
            let kib = if subject == OURS { 100 } else { 0 };
            let pages = round as u64 * 4096 * u64::from(kib > 0);
            vec![
                Reading::one_bytes(HELD, (kib << 11) + pages),
                Reading::one_bytes(PRIVATE, (kib << 10) + pages),
                Reading::one_bytes(PARTS[0], kib << 10),
                Reading::one_bytes(PARTS[1], (kib << 10) + pages),
            ]
        });
        let (figures, text) = present_on_terminal(&Memory, &samples);
        insta::assert_snapshot!(text);
        let judged = figures.iter().filter(|one| one.verdict.is_some());
        assert_eq!(judged.count(), 1);
    }
}
