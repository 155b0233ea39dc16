//! `kp-8`: requests offered at a rate that is swept upwards, and what comes back: how many, and how late. The kernel
//! plugins of 2004 drew this for a server with no extension, with one in the kernel and within a virtual machine.

use super::{
    ENGINE, ENGINE_NULL, FILTERS, HEADER_FRESH, HEADER_KEPT, NGINX, NGINX_LUA, NGINX_NJS,
    NULL_KEPT, PLAIN,
    asking::Asking,
    load::{Load, Offered},
    served::{Beside, Lane, open_lanes},
    sites::Site,
    turns::Shared,
};
use crate::{
    Trial,
    figure::{Figure, Target},
    floor::Floor,
    measure::{Schedule, Watched},
    notation::four_figures,
    pin::{Apart, Pin},
    rows::{Extent, Method, Prepared, TO_BE_SET, Tools, operations::target_cell, ratio_cell},
    sample::{Contender, Reading, Samples, Unit},
    table::Table,
    workloads::Workloads,
};
use anyhow::Context;
use std::time::Duration;

pub(in crate::rows) struct Rates;

const WORKLOAD: &str = "a file of 1 KB";
const PATH: &str = "/1";
/// Before the rate: right answers in a second.
const REPLIES: &str = "replies";
/// Before the rate: from the time at which a request was due to the end of its answer.
const LATENCY: &str = "p50";
/// The same, and all but a hundredth are below it.
const JITTER: &str = "p99";
/// The most replies in a second at any rate.
const SATURATION: &str = "saturation";

/// The lanes and what stands over their columns.
const TITLES: [(&str, &str); 9] = [
    (ENGINE, "engine"),
    (ENGINE_NULL, "its null"),
    (PLAIN, "plain"),
    (NULL_KEPT, "null"),
    (HEADER_KEPT, "header"),
    (HEADER_FRESH, "fresh"),
    (NGINX, "nginx"),
    (NGINX_NJS, "njs"),
    (NGINX_LUA, "Lua"),
];

/// Of what the server with no filter can answer.
const PARTS: [f64; 10] = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.3, 1.5];

const LEAST_OF_PLAIN: Target = Target::AtLeastTimesOther(0.95);
/// What the engine alone leaves of a server that does nothing else.
const LEAST: Beside = Beside {
    subject: ENGINE_NULL,
    against: ENGINE,
};

impl Method for Rates {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        (FILTERS.lay_out)(tools, &workloads)?;
        let mut prepared = Prepared::new(schedule(), workloads);
        let lanes = open_lanes(FILTERS.lanes, FILTERS.tables, tools, &mut prepared)?;
        let asking = Asking::by_ours(tools)?;
        let has_column = |lane: &Lane| TITLES.iter().any(|(subject, _)| *subject == lane.subject);
        let trials: Vec<(&Lane, Sweep)> = lanes
            .into_iter()
            .filter(|(lane, _)| has_column(lane))
            .map(|(lane, site)| {
                let url = format!("{}{}{PATH}", site.borrow().base, lane.path);
                let sweep = Sweep {
                    site,
                    url,
                    load: asking.load.clone(),
                    apart: asking.apart,
                    rates: Vec::new(),
                    time: time_of(tools.extent),
                };
                (lane, sweep)
            })
            .collect();
        let plain = trials.iter().find(|(lane, _)| lane.subject == PLAIN);
        let (_, plain) = plain.context("a row without the server")?;
        let rates = rates_for(plain.capacity()?, tools.extent);
        for (lane, sweep) in trials {
            let trial = Sweep {
                rates: rates.clone(),
                ..sweep
            };
            let contender = Contender::new(WORKLOAD, lane.subject);
            prepared.trials.push((contender, Box::new(trial)));
        }
        Ok(prepared)
    }

    fn floor(&self) -> Floor {
        Floor::Engine
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        FILTERS.versions()
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| figures_of(samples, contender))
            .collect();
        let rates = rates_of(&figures);
        let tables = [
            (
                "Replies in a second by requests offered in a second:",
                REPLIES,
                1.0,
            ),
            (
                "µs from when a request was due to its answer, median:",
                LATENCY,
                1.0,
            ),
            (
                "The same in ms, all but a hundredth below it:",
                JITTER,
                1e-3,
            ),
        ];
        let tables = tables.map(|(title, kind, scale)| {
            (
                title.to_owned(),
                table_of_rates(&figures, &rates, kind, scale),
            )
        });
        let saturation = (
            "The most replies in a second:".to_owned(),
            saturation_table(&figures),
        );
        (figures, [saturation].into_iter().chain(tables).collect())
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 6,
        most_rounds: 600,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.01,
        watched: vec![Watched {
            measure: SATURATION.to_owned(),
            contender: Contender::new(WORKLOAD, NULL_KEPT),
            baseline: Contender::new(WORKLOAD, PLAIN),
        }],
    }
}

/// Of each rate.
fn time_of(extent: Extent) -> Duration {
    Duration::from_millis(match extent {
        Extent::Full => 400,
        Extent::Quick => 200,
        Extent::Tiny => 20,
    })
}

/// Round numbers around what a server can answer.
fn rates_for(capacity: f64, extent: Extent) -> Vec<u32> {
    let every = match extent {
        Extent::Full | Extent::Quick => 1,
        Extent::Tiny => 4,
    };
    let mut rates: Vec<u32> = PARTS
        .iter()
        .step_by(every)
        .map(|part| two_figures(capacity * part))
        .collect();
    rates.dedup();
    rates
}

/// `47,300` is 47,000.
fn two_figures(rate: f64) -> u32 {
    let unit = 10f64.powf(rate.max(10.0).log10().floor() - 1.0);
    ((rate / unit).round() * unit).max(1.0) as u32
}

/// All rates offered to one server.
struct Sweep {
    site: Shared<Site>,
    url: String,
    load: Load,
    apart: Apart,
    rates: Vec<u32>,
    /// Of each.
    time: Duration,
}

impl Sweep {
    /// What it answers to as many as it can.
    fn capacity(&self) -> anyhow::Result<f64> {
        let time = self.time;
        let busy = self.ask(|load, url| {
            let busy = load.keep_busy(time, url)?;
            busy.check()?;
            Ok(busy)
        });
        Ok(busy?.replies_per_s)
    }

    fn ask<T>(&self, ask: impl FnOnce(&Load, &str) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let pin = Pin::to(&self.apart.inside)?;
        let _servers = self.site.borrow_mut().start()?;
        drop(pin);
        let _pin = Pin::to(&self.apart.outside)?;
        ask(&self.load, &self.url)
    }
}

impl Trial for Sweep {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let offered = self.ask(|load, url| load.offer(&self.rates, self.time, url))?;
        let mut readings = Vec::new();
        for rate in &offered {
            readings.extend(readings_of(rate)?);
        }
        let replies = offered.iter().map(|rate| rate.replies_per_s);
        let most = replies.fold(0.0, f64::max);
        readings.push(reading(SATURATION.to_owned(), Unit::PerSecond, most));
        Ok(readings)
    }
}

fn readings_of(rate: &Offered) -> anyhow::Result<[Reading; 3]> {
    let at = |kind: &str| format!("{kind}-{}", rate.offered_per_s);
    let latency = rate.latency.context("nothing was answered")?;
    Ok([
        reading(at(REPLIES), Unit::PerSecond, rate.replies_per_s),
        reading(at(LATENCY), Unit::Microseconds, latency.p50_ns / 1e3),
        reading(at(JITTER), Unit::Microseconds, latency.p99_ns / 1e3),
    ])
}

fn reading(measure: String, unit: Unit, value: f64) -> Reading {
    Reading {
        measure,
        unit,
        values: vec![value],
    }
}

fn figures_of(samples: &Samples, contender: &Contender) -> Vec<Figure> {
    let without = match contender.subject.as_str() {
        ENGINE_NULL => ENGINE,
        _ => PLAIN,
    };
    let is_alone = [ENGINE, PLAIN].contains(&contender.subject.as_str());
    let without = Contender::new(WORKLOAD, without);
    let is_compared = !is_alone && samples.contenders().contains(&without);
    let measures = samples.measures(contender).into_iter();
    let figure = |measure: &str| {
        let unit = match kind_and_rate(measure) {
            Some((LATENCY | JITTER, _)) => Unit::Microseconds,
            _ => Unit::PerSecond,
        };
        if measure != SATURATION || !is_compared {
            return Figure::of(samples, contender, None, (measure, unit), None);
        }
        let is_judged = contender.subject == NULL_KEPT;
        let target = is_judged.then_some(LEAST_OF_PLAIN);
        let figure = Figure::of(samples, contender, Some(&without), (measure, unit), target);
        let figure = figure.against(&without.subject);
        match is_judged {
            true => LEAST.beside(samples, figure),
            false => figure,
        }
    };
    measures.map(figure).collect()
}

/// `replies-20000` is `replies` at 20,000.
fn kind_and_rate(measure: &str) -> Option<(&str, u32)> {
    let (kind, rate) = measure.rsplit_once('-')?;
    Some((kind, rate.parse().ok()?))
}

fn rates_of(figures: &[Figure]) -> Vec<u32> {
    let rates = figures
        .iter()
        .filter_map(|figure| kind_and_rate(&figure.measure));
    let mut rates: Vec<u32> = rates.map(|(_, rate)| rate).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

fn find<'a>(figures: &'a [Figure], subject: &str, measure: &str) -> Option<&'a Figure> {
    let is_it = |figure: &&Figure| figure.contender.subject == subject && figure.measure == measure;
    figures.iter().find(is_it)
}

/// Rates down, lanes across.
fn table_of_rates(figures: &[Figure], rates: &[u32], kind: &str, scale: f64) -> Table {
    let titles = TITLES.iter().map(|(_, title)| *title);
    let mut table = Table::new(["offered /s"].into_iter().chain(titles));
    for rate in rates {
        let cell = |(subject, _): &(&str, &str)| {
            let figure = find(figures, subject, &format!("{kind}-{rate}"));
            let summary = figure.and_then(|figure| figure.summary);
            summary.map_or_else(String::new, |summary| match kind {
                REPLIES => format!("{:.0}", summary.median),
                _ => four_figures(summary.median * scale),
            })
        };
        let lead = [rate.to_string()].into_iter();
        table.line(lead.chain(TITLES.iter().map(cell)));
    }
    table
}

fn saturation_table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "/s", "×", "95 %", "target", "", "of"]);
    for (subject, _) in TITLES {
        let Some(figure) = find(figures, subject, SATURATION) else {
            continue;
        };
        let summary = figure.summary;
        table.line([
            subject.to_owned(),
            summary.map_or_else(String::new, |summary| format!("{:.0}", summary.median)),
            ratio_cell(Some(figure)),
            figure.ratio_interval(),
            figure.target.map_or_else(String::new, target_cell),
            figure.verdict_cell(),
            figure.against.clone().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    #[test]
    fn rates_are_round() {
        assert_eq!(
            [47_300.0, 9_960.0, 123_456.0, 31.4, 4.0].map(two_figures),
            [47_000, 10_000, 120_000, 31, 4]
        );
        let rates = rates_for(50_000.0, Extent::Full);
        assert_eq!((rates.len(), rates[0], rates[9]), (10, 10_000, 75_000));
        assert_eq!(rates_for(50_000.0, Extent::Tiny).len(), 3);
    }

    /// A server that answers 50,000, filters that cost it 0.5, 2 and 10 %, the engine alone, and nginx.
    #[test]
    fn rates_stand_down_and_lanes_across() {
        let lanes = TITLES.map(|(subject, _)| Contender::new(WORKLOAD, subject));
        let mut samples = Samples::new(lanes.to_vec());
        for round in 0..6 {
            let of = |part: f64| {
                let most = 50_000.0 * part + f64::from(round % 3);
                let at = |offered: u32| {
                    let replies = f64::from(offered).min(most);
                    let waits = if replies < f64::from(offered) {
                        4e6
                    } else {
                        30.0
                    };
                    let spread = |kind: &str, value| {
                        reading(format!("{kind}-{offered}"), Unit::Microseconds, value)
                    };
                    [
                        reading(format!("{REPLIES}-{offered}"), Unit::PerSecond, replies),
                        spread(LATENCY, waits),
                        spread(JITTER, waits * 3.0),
                    ]
                };
                let rates = [20_000, 45_000, 50_000, 60_000].into_iter().flat_map(at);
                let saturation = reading(SATURATION.to_owned(), Unit::PerSecond, most);
                rates.chain([saturation]).collect::<Vec<_>>()
            };
            samples.push_round(
                [1.4, 1.38, 1.0, 0.995, 0.98, 0.9, 1.3, 1.1, 1.2]
                    .map(of)
                    .to_vec(),
            );
        }
        let (figures, text) = present_on_terminal(&Rates, &samples);
        insta::assert_snapshot!(text);
        let judged: Vec<_> = figures.iter().filter(|one| one.verdict.is_some()).collect();
        assert_eq!(judged.len(), 1);
        assert_eq!(judged[0].contender.subject, NULL_KEPT);
    }
}
