//! Rows of containers as an engine has them: palisade-oci beside runc and crun, each asked by the commands of the
//! runtime specification's command line, with one bundle and no engine in between.

mod bundle;
mod many;
mod memory;
mod requests;
mod runtime;
mod start;

pub(super) use many::Many;
pub(super) use memory::Memory;
pub(super) use requests::Requests;
pub(super) use start::Start;

use super::{Prepared, Tools, operations::target_cell, ratio_cell, try_one};
use crate::{
    Trial, Warning,
    figure::{FLOOR, Figure, TO_FLOOR, Target},
    floor::Floor,
    measure::Watched,
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    table::Table,
    workloads::Workloads,
};
use anyhow::Context;
use palisade_wall::Command;
use runtime::Runtime;
use std::path::Path;

/// The runtime that is measured.
const OURS: &str = runtime::OURS;
const RUNC: &str = "runc";
const CRUN: &str = "crun";

/// Adds each runtime that runs `make`'s trial here. Of another one that does not the reason is told.
fn add_runtimes<T: Trial + 'static>(
    prepared: &mut Prepared,
    tools: &Tools,
    workload: &str,
    make: impl Fn(&Runtime) -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    runtime::ensure_root()?;
    let runtimes = runtime::find(tools, &prepared.workloads, &mut prepared.warnings)?;
    for runtime in runtimes {
        let ran = make(&runtime).and_then(|mut trial| trial.run_once().map(|_| trial));
        match ran {
            Ok(trial) => {
                let contender = Contender::new(workload, runtime.name);
                prepared.trials.push((contender, Box::new(trial)));
            }
            Err(error) if runtime.name == OURS => return Err(error),
            Err(error) => {
                let doubt = Warning::PeerFailed {
                    peer: runtime.name.to_owned(),
                    reason: format!("{error:#}"),
                };
                // Of a row with several workloads it is told once.
                prepared
                    .warnings
                    .retain(|known| !known.is_about_the_same(&doubt));
                prepared.warnings.push(doubt);
            }
        }
    }
    Ok(())
}

/// Adds the floor of a workload; where it does not run, the reason is told.
fn add_floor<T: Trial + 'static>(
    prepared: &mut Prepared,
    workload: &str,
    make: impl FnOnce() -> anyhow::Result<T>,
) {
    let left_out = try_one(prepared, Contender::new(workload, FLOOR), make);
    prepared.warnings.extend(left_out);
}

/// A program in the namespaces that containers of root's have, launched by as little as does it.
fn launched(workloads: &Workloads, program: &Path) -> anyhow::Result<Program> {
    let floor = workloads.add_floor(Floor::Start)?;
    let floor = floor.context("no floor of starts")?;
    let command = Command::new(program);
    Program::new(&floor.with(vec!["--as-root".into()]).line(&command))
}

/// Watches `measure` of palisade-oci, as many times as runc's.
fn watch_ours(prepared: &Prepared, measure: &str) -> Vec<Watched> {
    let contenders = prepared.trials.iter().map(|(contender, _)| contender);
    let ours = contenders.filter(|contender| contender.subject == OURS);
    ours.map(|contender| Watched {
        measure: measure.to_owned(),
        contender: contender.clone(),
        baseline: Contender::new(&contender.workload, RUNC),
    })
    .collect()
}

/// What each took, and of palisade-oci how many times as much as of each other.
fn figures_of(
    samples: &Samples,
    workload: &str,
    (measure, unit): (&str, Unit),
    targets: &[(&str, Option<Target>)],
) -> Vec<Figure> {
    let here = |subject: &str| {
        let contender = Contender::new(workload, subject);
        samples
            .contenders()
            .contains(&contender)
            .then_some(contender)
    };
    let all = samples.contenders().iter();
    let mut figures: Vec<Figure> = all
        .filter(|contender| contender.workload == workload)
        .map(|contender| Figure::of(samples, contender, None, (measure, unit), None))
        .collect();
    for (other, target) in targets {
        if let (Some(ours), Some(baseline)) = (here(OURS), here(other)) {
            figures.push(ratio(samples, &ours, &baseline, (measure, unit), *target));
        }
    }
    let to_floor =
        here(OURS).and_then(|ours| Figure::to_own_floor(samples, &ours, (measure, unit), None));
    figures.extend(to_floor);
    figures
}

/// The values are the other figure's; only the ratio is another one.
fn ratio(
    samples: &Samples,
    ours: &Contender,
    other: &Contender,
    (measure, unit): (&str, Unit),
    target: Option<Target>,
) -> Figure {
    let figure = Figure::of(samples, ours, Some(other), (measure, unit), target);
    Figure {
        measure: format!("{measure}, × {}", other.subject),
        summary: None,
        difference: None,
        ..figure.against(&other.subject)
    }
}

/// The cells of a ratio: itself, its interval, its target and whether that holds.
fn ratio_cells(figure: &Figure) -> [String; 4] {
    [
        ratio_cell(Some(figure)),
        figure.ratio_interval(),
        figure.target.map_or_else(String::new, target_cell),
        figure.verdict_cell(),
    ]
}

/// A line for each of palisade-oci's ratios of this measure, in the table's last columns.
fn ratio_lines(table: &mut Table, figures: &[Figure], measure: &str, columns: usize) {
    let to_others = [RUNC, CRUN].map(|other| (other, format!("{measure}, × {other}")));
    let to_floor = (FLOOR, format!("{measure}{TO_FLOOR}"));
    for (other, measure) in to_others.into_iter().chain([to_floor]) {
        if let Some(ratio) = figure_of(figures, &measure, OURS) {
            let [value, judged @ ..] = ratio_cells(ratio);
            let mut cells = vec![format!("palisade × {other}"), value];
            cells.resize(columns - judged.len(), String::new());
            cells.extend(judged);
            table.line(cells);
        }
    }
}

/// The figure of this measure and subject.
fn figure_of<'a>(figures: &'a [Figure], measure: &str, subject: &str) -> Option<&'a Figure> {
    figures
        .iter()
        .find(|one| one.measure == measure && one.contender.subject == subject)
}

/// Who was measured, each once.
fn subjects(samples: &Samples) -> Vec<&str> {
    let mut subjects = Vec::new();
    for contender in samples.contenders() {
        if !subjects.contains(&contender.subject.as_str()) {
            subjects.push(&contender.subject);
        }
    }
    subjects
}

/// Of a rate.
fn per_second(measure: &str, value: f64) -> Reading {
    Reading {
        measure: measure.to_owned(),
        unit: Unit::PerSecond,
        values: vec![value],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The three runtimes, and those beside the floor.
    pub(super) const RUNTIMES: &[&str] = &[OURS, RUNC, CRUN];
    pub(super) const WITH_FLOOR: &[&str] = &[OURS, RUNC, CRUN, FLOOR];

    /// Rounds of these with these readings, a little more in each.
    pub(super) fn samples(
        (workload, subjects): (&str, &[&str]),
        of: impl Fn(&str, f64) -> Vec<Reading>,
    ) -> Samples {
        let contenders = subjects.iter().map(|one| Contender::new(workload, one));
        let mut samples = Samples::new(contenders.collect());
        for round in 0..6 {
            let readings = subjects.iter().map(|one| of(one, f64::from(round)));
            samples.push_round(readings.collect());
        }
        samples
    }
}
