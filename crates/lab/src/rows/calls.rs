//! `kp-5`: a null call into a WebAssembly guest within one process, by the number of its arguments.
//!
//! The kernel plugins of 2004 timed 2001 calls each alone, left the first one out, and told the mean and the mean
//! of the fastest tenth. `palisade-lab-calls` does the same, with a native function for *bare*; the clock is in
//! all of its figures.
//!
//! What is done with such calls is told below: a whole request through a proxy-wasm filter that does nothing.

use super::{
    BARE, Method, Prepared, TO_BE_SET, Tools,
    operations::{comparison_cell, parse_lines, parse_output, target_cell},
    ratio_cell, watch_all,
};
use crate::{
    Trial,
    figure::{FLOOR, Figure, Target},
    floor::Floor,
    measure::Schedule,
    notation::{short, signed},
    program::Program,
    sample::{Contender, Reading, Samples, Unit},
    table::Table,
    workloads::Workloads,
};
use anyhow::ensure;
use std::{ffi::OsString, time::Duration};

pub(super) struct Calls;

const PROGRAM: &str = "palisade-lab-calls";
const WORKLOAD: &str = "null call";
/// A request that a filter sees, which does nothing with it.
const REQUEST: &str = "request through a null filter";
const REQUEST_MEAN: &str = "request-mean";
const REQUEST_FASTEST: &str = "request-fastest";
const MOST_WORDS: usize = 8;

/// A guest in the process of who calls it.
struct Lane {
    subject: &'static str,
    /// What the program is asked for.
    argument: &'static str,
    /// At the head of its column.
    title: &'static str,
    /// What a call may take more than a native one on average, in ns.
    most_ns: Option<f64>,
}

const LANES: [Lane; 3] = [
    Lane {
        subject: "library, kept guest",
        argument: "kept",
        title: "kept",
        most_ns: Some(50.0),
    },
    Lane {
        subject: "library, kept guest with a limit of time",
        argument: "timed",
        title: "timed",
        most_ns: None,
    },
    Lane {
        subject: "library, fresh guest",
        argument: "fresh",
        title: "fresh",
        most_ns: Some(5000.0),
    },
];

/// The engine alone, and whose floor that is.
const FLOORS: [(Lane, &str); 2] = [
    (
        Lane {
            subject: FLOOR,
            argument: "engine",
            title: "kept",
            most_ns: None,
        },
        "library, kept guest",
    ),
    (
        Lane {
            subject: "floor, fresh",
            argument: "engine-fresh",
            title: "fresh",
            most_ns: None,
        },
        "library, fresh guest",
    ),
];

/// The calls of a request by the engine alone, and whose floor they are.
const FILTER_FLOORS: [(Lane, &str); 2] = [
    (
        Lane {
            subject: FLOOR,
            argument: "engine-request",
            title: "kept",
            most_ns: None,
        },
        "library, kept filter",
    ),
    (
        Lane {
            subject: "floor, fresh",
            argument: "engine-fresh-request",
            title: "fresh",
            most_ns: None,
        },
        "library, fresh filter",
    ),
];

/// The filters of requests, as lanes are.
const FILTERS: [Lane; 2] = [
    Lane {
        subject: "library, kept filter",
        argument: "kept-request",
        title: "kept",
        most_ns: Some(300.0),
    },
    Lane {
        subject: "library, fresh filter",
        argument: "fresh-request",
        title: "fresh",
        most_ns: Some(3000.0),
    },
];

impl Method for Calls {
    fn floor(&self) -> Floor {
        Floor::Engine
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let program = tools.palisade.companion(PROGRAM)?;
        let mut prepared = Prepared {
            pinned: true,
            ..Prepared::new(schedule(), Workloads::new()?)
        };
        let lanes = LANES.iter().chain(FLOORS.iter().map(|(lane, _)| lane));
        let lanes = lanes.map(|lane| (lane.subject, lane.argument));
        for (subject, argument) in [(BARE, "native")].into_iter().chain(lanes) {
            let line: [OsString; 2] = [program.clone().into(), argument.into()];
            let trial = CallingProgram(Program::new(&line)?);
            let contender = Contender::new(WORKLOAD, subject);
            prepared.trials.push((contender, Box::new(trial)));
        }
        let contenders = || prepared.trials.iter().map(|(contender, _)| contender);
        let watched = (0..=MOST_WORDS).flat_map(|words| watch_all(contenders(), &mean(words)));
        prepared.schedule.watched = watched.collect();
        prepared.workloads.add_filters()?;
        let filter = prepared.workloads.folder().join("null.wasm");
        let bare: Vec<OsString> = vec![program.clone().into(), "bare-request".into()];
        let lanes = FILTERS
            .iter()
            .chain(FILTER_FLOORS.iter().map(|(lane, _)| lane));
        let filters = lanes.map(|lane| {
            let line: [OsString; 3] = [
                program.clone().into(),
                lane.argument.into(),
                filter.clone().into(),
            ];
            (lane.subject, line.to_vec())
        });
        for (subject, line) in [(BARE, bare)].into_iter().chain(filters) {
            let trial = RequestingProgram(Program::new(&line)?);
            let contender = Contender::new(REQUEST, subject);
            prepared.trials.push((contender, Box::new(trial)));
        }
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let of_calls = FLOORS
            .iter()
            .filter_map(|(floor, subject)| call_to_floor(samples, subject, floor));
        let of_requests = FILTER_FLOORS
            .iter()
            .filter_map(|(floor, subject)| request_to_floor(samples, subject, floor));
        let to_floor = of_calls.chain(of_requests);
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| figures_of(samples, contender))
            .chain(to_floor)
            .collect();
        let title = "ns of a native call, on average and of the fastest tenth, and how many more of a guest's:";
        let mut tables = vec![(title.to_owned(), table(&figures))];
        let has_floor = |workload: &str| {
            let is_it = |one: &Figure| one.is_to_floor() && one.contender.workload == workload;
            figures.iter().any(is_it)
        };
        if has_floor(WORKLOAD) {
            let title = "ns more than a native call of one without arguments, by the engine alone and by the library:";
            let table = floor_table(&figures, (WORKLOAD, &mean(0)), &FLOORS);
            tables.push((title.to_owned(), table));
        }
        if figures
            .iter()
            .any(|figure| figure.contender.workload == REQUEST)
        {
            let title = "ns of a whole request that no filter sees, and how many more through a null filter:";
            tables.push((title.to_owned(), request_table(&figures)));
        }
        if has_floor(REQUEST) {
            let title = "ns more than nothing of the calls of such a request by the engine alone, and of the whole of it:";
            let table = floor_table(&figures, (REQUEST, REQUEST_MEAN), &FILTER_FLOORS);
            tables.push((title.to_owned(), table));
        }
        (figures, tables)
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 20,
        most_rounds: 2000,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.02,
        watched: Vec::new(),
    }
}

fn mean(words: usize) -> String {
    format!("mean-{words}")
}

fn fastest(words: usize) -> String {
    format!("fastest-{words}")
}

struct CallingProgram(Program);

impl Trial for CallingProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let readings = parse_lines(&self.0.run_for_output()?, Unit::Nanoseconds)?;
        let is_there = |key: String| readings.iter().any(|reading| reading.measure == key);
        let is_whole =
            (0..=MOST_WORDS).all(|words| is_there(mean(words)) && is_there(fastest(words)));
        ensure!(
            is_whole,
            "{PROGRAM} left some calls out: it is of another version"
        );
        Ok(readings)
    }
}

/// One through which requests pass.
struct RequestingProgram(Program);

impl Trial for RequestingProgram {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let keys = [REQUEST_MEAN, REQUEST_FASTEST];
        parse_output(&self.0.run_for_output()?, Unit::Nanoseconds, &keys)
    }
}

fn figures_of(samples: &Samples, contender: &Contender) -> Vec<Figure> {
    let bare = Contender::new(&contender.workload, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let mut lanes = LANES.iter().chain(&FILTERS);
    let lane = lanes.find(|lane| lane.subject == contender.subject);
    let target = lane
        .and_then(|lane| lane.most_ns)
        .map(Target::AtMostOverBare);
    let figure = |measure: String, target| {
        let measure = (measure.as_str(), Unit::Nanoseconds);
        Figure::of(samples, contender, baseline, measure, target)
    };
    if contender.workload == REQUEST {
        let mean = figure(REQUEST_MEAN.to_owned(), target);
        let mut floors = FILTER_FLOORS.iter();
        let floor = floors.find(|(_, subject)| *subject == contender.subject);
        let mean = match floor {
            Some((floor, _)) => {
                let floor = Contender::new(REQUEST, floor.subject);
                mean.beside_floor(samples, &floor, baseline)
            }
            None => mean,
        };
        return vec![mean, figure(REQUEST_FASTEST.to_owned(), None)];
    }
    (0..=MOST_WORDS)
        .flat_map(|words| [figure(mean(words), target), figure(fastest(words), None)])
        .collect()
}

/// A guest's call without arguments beside the engine's. Their number changes what both take by a ns or two.
fn call_to_floor(samples: &Samples, subject: &str, floor: &Lane) -> Option<Figure> {
    to_floor(samples, WORKLOAD, (subject, floor.subject), &mean(0))
}

/// The calls of a request in an exchange, with limits, beside those alone.
fn request_to_floor(samples: &Samples, subject: &str, floor: &Lane) -> Option<Figure> {
    to_floor(samples, REQUEST, (subject, floor.subject), REQUEST_MEAN)
}

fn to_floor(
    samples: &Samples,
    workload: &str,
    (subject, floor): (&str, &str),
    measure: &str,
) -> Option<Figure> {
    let [ours, floor] = [subject, floor].map(|one| Contender::new(workload, one));
    let is_measured = samples.contenders().contains(&floor);
    let measure = (measure, Unit::Nanoseconds);
    is_measured.then(|| Figure::to_floor(samples, &ours, &floor, measure, None))
}

/// Kept and fresh instances down.
fn request_table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "",
        "no filter",
        "more",
        "95 %",
        "target",
        "",
        "fastest",
        "more",
    ]);
    let find = |subject: &str, measure: &str| {
        let is_it = |one: &&Figure| {
            one.contender.workload == REQUEST
                && one.contender.subject == subject
                && one.measure == measure
        };
        figures.iter().find(is_it)
    };
    let bare = |measure: &str| {
        let summary = find(BARE, measure).and_then(|figure| figure.summary);
        summary.map_or_else(String::new, |summary| short(summary.median))
    };
    for lane in &FILTERS {
        let average = find(lane.subject, REQUEST_MEAN);
        let over = average.and_then(|figure| figure.difference);
        let interval = over.map(|over| format!("{}–{}", signed(over.low), signed(over.high)));
        let target = lane
            .most_ns
            .map(|most| target_cell(Target::AtMostOverBare(most)));
        table.line([
            lane.title.to_owned(),
            bare(REQUEST_MEAN),
            comparison_cell(average, true),
            interval.unwrap_or_default(),
            target.unwrap_or_default(),
            average.map_or_else(String::new, Figure::verdict_cell),
            bare(REQUEST_FASTEST),
            comparison_cell(find(lane.subject, REQUEST_FASTEST), true),
        ]);
    }
    table
}

/// Kept and fresh instances down.
fn floor_table(
    figures: &[Figure],
    (workload, measure): (&str, &str),
    floors: &[(Lane, &str)],
) -> Table {
    let mut table = Table::new(["", "engine", "library", "× engine", "95 %"]);
    for (floor, subject) in floors {
        let is_of = |one: &Figure, subject: &str| {
            one.contender.workload == workload && one.contender.subject == subject
        };
        let of = |subject: &str| {
            let is_it = |one: &&Figure| is_of(one, subject) && one.measure == measure;
            comparison_cell(figures.iter().find(is_it), true)
        };
        let is_to_floor = |one: &&Figure| one.is_to_floor() && is_of(one, subject);
        let to_floor = figures.iter().find(is_to_floor);
        table.line([
            floor.title.to_owned(),
            of(floor.subject),
            of(subject),
            ratio_cell(to_floor),
            to_floor.map_or_else(String::new, Figure::ratio_interval),
        ]);
    }
    table
}

fn table(figures: &[Figure]) -> Table {
    let lanes = LANES.iter().flat_map(|lane| match lane.most_ns {
        Some(most_ns) => vec![
            format!("{} ≤ +{most_ns}", lane.title),
            String::new(),
            "fastest".to_owned(),
        ],
        None => vec![lane.title.to_owned()],
    });
    let lead = ["words", "native", "fastest"].map(str::to_owned);
    let lead = lead.into_iter();
    let mut table = Table::new(lead.chain(lanes).chain(["plugins".to_owned()]));
    for words in 0..=MOST_WORDS {
        let find = |subject: &str, measure: String| {
            let is_it = |one: &&Figure| one.contender.subject == subject && one.measure == measure;
            figures.iter().find(is_it)
        };
        // Measures of requests have other names.
        let bare = |measure| {
            let summary = find(BARE, measure).and_then(|figure| figure.summary);
            summary.map_or_else(String::new, |summary| short(summary.median))
        };
        let mut cells = vec![words.to_string(), bare(mean(words)), bare(fastest(words))];
        for lane in &LANES {
            let [average, least] = [mean(words), fastest(words)].map(|one| find(lane.subject, one));
            cells.push(comparison_cell(average, true));
            if lane.most_ns.is_some() {
                cells.push(average.map_or_else(String::new, Figure::verdict_cell));
                cells.push(comparison_cell(least, true));
            }
        }
        // Of all numbers of arguments, in all.
        cells.push(if words == 0 { "450–620" } else { "" }.to_owned());
        table.line(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    #[test]
    fn the_table_fits_a_terminal() {
        let subjects = [BARE]
            .into_iter()
            .chain(LANES.iter().map(|lane| lane.subject))
            .chain(FLOORS.iter().map(|(lane, _)| lane.subject));
        let contenders = subjects.map(|one| Contender::new(WORKLOAD, one));
        let filters = [BARE]
            .into_iter()
            .chain(FILTERS.iter().map(|lane| lane.subject))
            .chain(FILTER_FLOORS.iter().map(|(lane, _)| lane.subject));
        let requests = filters.map(|one| Contender::new(REQUEST, one));
        let mut samples = Samples::new(contenders.chain(requests).collect());
        for round in 0..10 {
            let of = |more_ns: f64| {
                let reading = |measure, ns| Reading {
                    measure,
                    unit: Unit::Nanoseconds,
                    values: vec![ns + more_ns + f64::from(round % 3)],
                };
                let both = |words| {
                    let ns = 20.0 + words as f64;
                    [reading(mean(words), ns), reading(fastest(words), ns - 2.0)]
                };
                (0..=MOST_WORDS).flat_map(both).collect::<Vec<_>>()
            };
            let request = |ns: f64| {
                let reading = |measure: &str, ns| Reading {
                    measure: measure.to_owned(),
                    unit: Unit::Nanoseconds,
                    values: vec![ns + f64::from(round % 3)],
                };
                vec![
                    reading(REQUEST_MEAN, ns + 8.0),
                    reading(REQUEST_FASTEST, ns),
                ]
            };
            let calls = [0.0, 25.0, 54.0, 2600.0, 18.0, 1900.0].map(of).into_iter();
            let requests = [30.0, 270.0, 9400.0, 150.0, 4100.0].map(request);
            samples.push_round(calls.chain(requests).collect());
        }
        let (figures, text) = present_on_terminal(&Calls, &samples);
        insta::assert_snapshot!(text);
        assert_eq!(figures.len(), 6 * 18 + 5 * 2 + 4);
        let judged = figures.iter().filter(|figure| figure.verdict.is_some());
        assert_eq!(judged.count(), 2 * 9 + 2);
    }
}
