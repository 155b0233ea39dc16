//! `kp-x`: colour pictures that become grey, by a guest in the server's process and natively. The kernel plugins of
//! 2004 had such a filter as their example of a service.

use super::{
    BARE, Method, Prepared, TO_BE_SET, Tools,
    operations::{comparison_cell, parse_output, target_cell},
    ratio_cell, watch_all,
};
use crate::{
    Trial,
    figure::{FLOOR, Figure, Target},
    floor::Floor,
    measure::Schedule,
    notation::short,
    program::Program,
    rows::Extent,
    sample::{Contender, Reading, Samples, Unit},
    table::Table,
    wasi,
    workloads::Workloads,
};
use std::{ffi::OsString, time::Duration};

pub(super) struct Pictures;

const WORKLOAD: &str = "colour to grey";
const GUEST: &str = "library, kept guest";
const PROGRAM: &str = "palisade-lab-calls";
/// The keys and what tables call them.
const SIZES: [(&str, &str); 4] = [
    ("picture-9", "9 KB"),
    ("picture-99", "99 KB"),
    ("picture-270", "270 KB"),
    ("picture-3300", "3.3 MB"),
];
const KEYS: [&str; 4] = [SIZES[0].0, SIZES[1].0, SIZES[2].0, SIZES[3].0];
const TARGET: Target = Target::AtMostTimesBare(1.5);

impl Method for Pictures {
    fn floor(&self) -> Floor {
        Floor::Engine
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let native = workloads.add_mono()?;
        let module = workloads.add_wasm_mono()?;
        let calls = tools.palisade.companion(PROGRAM)?;
        let batches = match tools.extent {
            Extent::Full | Extent::Quick => "5",
            Extent::Tiny => "1",
        };
        let by_calls = |what: &str| -> Vec<OsString> {
            let module = module.clone().into();
            vec![calls.clone().into(), what.into(), module, batches.into()]
        };
        let lines: [(&str, Vec<OsString>); 3] = [
            (BARE, vec![native.into(), batches.into()]),
            (GUEST, by_calls("pictures")),
            (FLOOR, by_calls("engine-pictures")),
        ];
        let mut prepared = Prepared {
            pinned: true,
            ..Prepared::new(schedule(), workloads)
        };
        for (subject, line) in lines {
            let trial = Drawing(Program::new(&line)?);
            let contender = Contender::new(WORKLOAD, subject);
            prepared.trials.push((contender, Box::new(trial)));
        }
        let contenders = || prepared.trials.iter().map(|(contender, _)| contender);
        let watched = KEYS.iter().flat_map(|key| watch_all(contenders(), key));
        prepared.schedule.watched = watched.collect();
        Ok(prepared)
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        vec![wasi::version()]
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let to_floor = SIZES.iter().filter_map(|size| to_floor(samples, *size));
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| SIZES.map(|size| figure(samples, contender, size)))
            .chain(to_floor)
            .collect();
        let title =
            "µs for a picture by gcc -O2, and times as much as a guest of the same process:";
        let tables = vec![(title.to_owned(), table(&figures))];
        (figures, tables)
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 10,
        most_rounds: 2000,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.02,
        watched: Vec::new(),
    }
}

struct Drawing(Program);

impl Trial for Drawing {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        parse_output(&self.0.run_for_output()?, Unit::Microseconds, &KEYS)
    }
}

fn figure(samples: &Samples, contender: &Contender, (key, title): (&str, &str)) -> Figure {
    let bare = Contender::new(WORKLOAD, BARE);
    let baseline = (*contender != bare).then_some(&bare);
    let target = baseline.map(|_| TARGET);
    let measure = (key, Unit::Microseconds);
    Figure::of(samples, contender, baseline, measure, target).titled(title)
}

fn to_floor(samples: &Samples, (key, title): (&str, &str)) -> Option<Figure> {
    let guest = Contender::new(WORKLOAD, GUEST);
    let measure = (key, Unit::Microseconds);
    Figure::to_own_floor(samples, &guest, measure, None).map(|figure| figure.titled(title))
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "gcc µs", "target", "guest", "95 %", "", "× floor"]);
    for (key, title) in SIZES {
        let find = |subject: &str| {
            let is_it = |one: &&Figure| one.contender.subject == subject && one.measure == key;
            figures.iter().find(is_it)
        };
        let native = find(BARE).and_then(|figure| figure.summary);
        let guest = find(GUEST);
        table.line([
            title.to_owned(),
            native.map_or_else(String::new, |native| short(native.median)),
            target_cell(TARGET),
            comparison_cell(guest, false),
            guest.map_or_else(String::new, Figure::ratio_interval),
            guest.map_or_else(String::new, Figure::verdict_cell),
            ratio_cell(
                figures
                    .iter()
                    .find(|one| one.is_to_floor() && one.title() == title),
            ),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    #[test]
    fn sizes_stand_down() {
        let contenders = [BARE, GUEST, FLOOR].map(|subject| Contender::new(WORKLOAD, subject));
        let mut samples = Samples::new(contenders.to_vec());
        for round in 0..6 {
            let of = |times: f64| {
                let reading = |(place, key): (usize, &&str)| {
                    let us = 3.0 * 10f64.powi(place as i32) * times + 0.01 * f64::from(round % 3);
                    Reading::one_us(key, us)
                };
                KEYS.iter().enumerate().map(reading).collect::<Vec<_>>()
            };
            samples.push_round([1.0, 1.25, 1.2].map(of).to_vec());
        }
        let (figures, text) = present_on_terminal(&Pictures, &samples);
        insta::assert_snapshot!(text);
        assert_eq!(figures.len(), 16);
    }
}
