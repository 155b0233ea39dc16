//! `kp-c`: what it takes to compile, link and unlink a small filter, and to put another in its place while requests
//! go through it. The kernel plugins of 2004 told the first three.

use super::{
    HEADER_KEPT,
    asking::Asking,
    load::Load,
    served::{Lane, open_lanes},
    sites::{Layout, Site, Who, quoted},
    turns::Shared,
};
use crate::{
    Trial,
    figure::{FLOOR, Figure, TO_FLOOR, Target, Verdict},
    floor::Floor,
    measure::Schedule,
    notation::four_figures,
    pin::{Apart, Pin},
    program::Program,
    rows::{
        Extent, Method, Prepared, TO_BE_SET, Tools,
        operations::{parse_output, target_cell},
        ratio_cell,
    },
    sample::{Contender, Reading, Samples, Unit},
    server::Running,
    statistics::Summary,
    table::Table,
    workloads::Workloads,
};
use anyhow::{Context, anyhow, ensure};
use rustix::process::Signal;
use std::{
    ffi::OsString,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

pub(in crate::rows) struct Swap;

const PROGRAM: &str = "palisade-lab-calls";
/// The filter by itself.
const ALONE: &str = "a small filter";
const LIBRARY: &str = "library";
/// The filter of a server that is kept busy.
const SERVED: &str = "a filter under load";

/// The steps of a filter's life, what tables call them, what the original took in µs, and what they may take.
const STEPS: [(&str, &str, &str, Option<Target>); 7] = [
    ("compile", "compile", "4000", None),
    ("load", "load code that was kept", "", None),
    ("register", "register, once a server", "", None),
    ("link", "link", "3.1", Some(Target::AtMost(10.0))),
    ("imports", "  its imports", "", None),
    ("start", "  its instance", "", None),
    ("unlink", "unlink", "1.6", None),
];
const KEYS: [&str; 7] = [
    "compile", "load", "register", "link", "imports", "start", "unlink",
];

/// The first of those that the engine has alone: before it a filter is compiled, loaded and registered once.
const LINKING: usize = 3;

/// From the signal until the first answer that the other filter has seen.
const SWAPPED: &str = "swap";
const ASKED: &str = "requests";
const LOST: &str = "lost";
/// None may be lost.
const NONE: Target = Target::AtMost(0.0);

static LANES: [Lane; 1] = [Lane {
    subject: HEADER_KEPT,
    title: "header filter",
    who: Who::Serve,
    path: "/1",
}];

impl Method for Swap {
    fn floor(&self) -> Floor {
        Floor::Engine
    }

    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        workloads.add_files(0)?;
        workloads.add_text("1", 1 << 10)?;
        workloads.add_filters()?;
        let filter = workloads.folder().join("header.wasm");
        let served = workloads.folder().join("served.wasm");
        fs::copy(&filter, &served).context("host: cannot lay out a filter")?;
        let program = tools.palisade.companion(PROGRAM)?;
        let mut prepared = Prepared::new(schedule(), workloads);
        for (subject, what, keys) in [
            (LIBRARY, "link", &KEYS[..]),
            (FLOOR, "engine-link", &KEYS[LINKING..]),
        ] {
            let line: [OsString; 3] = [program.clone().into(), what.into(), filter.clone().into()];
            let program = Program::new(&line)?;
            let steps = Steps { program, keys };
            let alone = Contender::new(ALONE, subject);
            prepared.trials.push((alone, Box::new(steps)));
        }
        let lanes = open_lanes(&LANES, tables, tools, &mut prepared)?;
        let mut load = Asking::by_ours(tools)?.load;
        // The lab looks on meanwhile, on the same processor.
        load.sleeps = true;
        for (lane, site) in lanes {
            let swapping = Swapping {
                url: format!("{}{}", site.borrow().base, lane.path),
                site,
                served: served.clone(),
                versions: ["null", "header"].map(|name| {
                    let name = format!("{name}.wasm");
                    prepared.workloads.folder().join(name)
                }),
                time: Duration::from_millis(match tools.extent {
                    Extent::Full | Extent::Quick => 2000,
                    Extent::Tiny => 400,
                }),
                load: load.clone(),
                apart: Apart::find()?,
            };
            let contender = Contender::new(SERVED, lane.subject);
            prepared.trials.push((contender, Box::new(swapping)));
        }
        Ok(prepared)
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let alone = Contender::new(ALONE, LIBRARY);
        let served = Contender::new(SERVED, HEADER_KEPT);
        let of = |contender, measure: &str, unit, target| {
            Figure::of(samples, contender, None, (measure, unit), target)
        };
        let us = Unit::Microseconds;
        let mut figures: Vec<Figure> = STEPS
            .iter()
            .map(|(key, title, _, target)| of(&alone, key, us, *target).titled(title.trim()))
            .collect();
        let floor = Contender::new(ALONE, FLOOR);
        for (key, title, ..) in &STEPS[LINKING..] {
            if let Some(figure) = Figure::to_own_floor(samples, &alone, (key, us), None) {
                figures.push(of(&floor, key, us, None).titled(title.trim()));
                figures.push(figure.titled(title.trim()));
            }
        }
        figures.push(of(&served, SWAPPED, us, None).titled("swap"));
        figures.push(of(&served, ASKED, Unit::Count, None).titled("requests answered"));
        figures.push(lost_figure(samples, &served).titled("requests lost"));
        let steps = "A small filter, µs:".to_owned();
        let swaps =
            "Another filter in its place, from the signal to the first answer that it has seen:"
                .to_owned();
        let tables = vec![
            (steps, steps_table(&figures)),
            (swaps, swaps_table(&figures)),
        ];
        (figures, tables)
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 1,
        least_rounds: 10,
        most_rounds: 300,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.05,
        watched: Vec::new(),
    }
}

fn tables(layout: &Layout<'_>) -> anyhow::Result<String> {
    let files = quoted(&layout.workloads.files_folder())?;
    let module = quoted(&layout.workloads.folder().join("served.wasm"))?;
    Ok(format!(
        "[services.files]\nfiles = {files}\n\n[filters.served]\nmodule = {module}\nisolation = \"kept\"\n\n\
         [[route]]\npath = \"/\"\nfilters = [\"served\"]\nservice = \"files\"\n"
    ))
}

struct Steps {
    program: Program,
    keys: &'static [&'static str],
}

impl Trial for Steps {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let said = self.program.run_for_output()?;
        parse_output(&said, Unit::Microseconds, self.keys)
    }
}

/// A server that is kept busy while its filter changes.
struct Swapping {
    site: Shared<Site>,
    url: String,
    /// The module that the server is told of.
    served: PathBuf,
    /// What is put there: one that does nothing, and one that adds a field.
    versions: [PathBuf; 2],
    /// How long it is kept busy.
    time: Duration,
    load: Load,
    apart: Apart,
}

/// Between two swaps.
const PAUSE: Duration = Duration::from_millis(50);
/// A swap takes no longer, nor does an answer meanwhile, however much else the machine has to do.
const PATIENCE: Duration = Duration::from_secs(60);

impl Trial for Swapping {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let pin = Pin::to(&self.apart.inside)?;
        self.put(1)?;
        let servers = self.site.borrow_mut().start()?;
        drop(pin);
        let server = servers.last().context("a site without a server")?;
        let _pin = Pin::to(&self.apart.outside)?;
        let (load, url, time) = (&self.load, &self.url, self.time);
        let is_over = AtomicBool::new(false);
        let (kept_busy, swapped_us) = thread::scope(|scope| {
            let clients = scope.spawn(|| KeptBusy::until(&is_over, load, url, time));
            let swapped_us = self.swap_for(server, time);
            is_over.store(true, Ordering::Relaxed);
            (clients.join(), swapped_us)
        });
        let kept_busy = kept_busy.map_err(|_| anyhow!("the thread of the clients failed"))??;
        ensure!(kept_busy.answers > 0, "nothing was answered");
        Ok(vec![
            Reading {
                measure: SWAPPED.to_owned(),
                unit: Unit::Microseconds,
                values: swapped_us?,
            },
            Reading::one_count(ASKED, kept_busy.answers),
            Reading::one_count(LOST, kept_busy.lost),
        ])
    }
}

/// Requests that were answered, and those that were not.
#[derive(Default)]
struct KeptBusy {
    answers: u64,
    lost: u64,
}

impl KeptBusy {
    /// Asks for so long, and again if the swaps are not over by then: each is to meet requests.
    fn until(is_over: &AtomicBool, load: &Load, url: &str, time: Duration) -> anyhow::Result<Self> {
        let mut sum = Self::default();
        loop {
            let busy = load.keep_busy(time, url)?;
            sum.answers += busy.answers;
            sum.lost += busy.lost();
            if is_over.load(Ordering::Relaxed) {
                return Ok(sum);
            }
        }
    }
}

impl Swapping {
    /// Puts one of the versions where the server finds it, whole.
    fn put(&self, version: usize) -> anyhow::Result<()> {
        let next = self.served.with_extension("next");
        fs::copy(&self.versions[version], &next)
            .and_then(|_| fs::rename(&next, &self.served))
            .context("host: cannot put a filter in its place")
    }

    /// Swaps as long as the clients ask; gives what each took, in µs. One there is at least.
    fn swap_for(&self, server: &Running, time: Duration) -> anyhow::Result<Vec<f64>> {
        let began = Instant::now();
        let mut swapped_us = Vec::new();
        while swapped_us.is_empty() || began.elapsed() + PAUSE * 2 < time {
            let version = swapped_us.len() % 2;
            let took = self.swap(server, version)?;
            swapped_us.push(took.as_nanos() as f64 / 1e3);
            thread::sleep(PAUSE);
        }
        Ok(swapped_us)
    }

    /// Until the field is there, or is not any more.
    fn swap(&self, server: &Running, version: usize) -> anyhow::Result<Duration> {
        self.put(version)?;
        let began = Instant::now();
        server.signal(Signal::HUP)?;
        while self.has_field()? != (version == 1) {
            ensure!(
                began.elapsed() < PATIENCE,
                "the server still has the filter that it had after {} s",
                PATIENCE.as_secs()
            );
        }
        Ok(began.elapsed())
    }

    /// Whether the filter that adds a field has seen an answer, by a connection of its own.
    fn has_field(&self) -> anyhow::Result<bool> {
        let (address, path) = self.address()?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE);
        let mut stream = stream.context("the server takes no connection")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_string(&mut answer))
            .context("the server did not answer")?;
        ensure!(
            answer.starts_with("HTTP/1.1 200"),
            "it answered {answer:.40}"
        );
        Ok(answer
            .to_ascii_lowercase()
            .contains("\r\nx-filter: palisade\r\n"))
    }

    fn address(&self) -> anyhow::Result<(SocketAddr, &str)> {
        let rest = self.url.strip_prefix("http://");
        let parts = rest.and_then(|rest| Some(rest.split_at(rest.find('/')?)));
        let (address, path) = parts.context("an address without a path")?;
        Ok((address.parse()?, path))
    }
}

/// All that were lost in all rounds: one is too many, and no median may hide it.
fn lost_figure(samples: &Samples, contender: &Contender) -> Figure {
    let series = samples.series(contender, LOST);
    let lost: f64 = series.iter().sum();
    let verdict = match series.is_empty() {
        true => Verdict::Unsure,
        false if lost == 0.0 => Verdict::Pass,
        false => Verdict::Short,
    };
    Figure {
        summary: Some(Summary::of(&[lost])),
        target: Some(NONE),
        verdict: Some(verdict),
        ..Figure::of(samples, contender, None, (LOST, Unit::Count), None)
    }
}

/// Of whoever is no floor.
fn find<'a>(figures: &'a [Figure], measure: &str) -> Option<&'a Figure> {
    let is_it = |one: &&Figure| one.measure == measure && one.contender.subject != FLOOR;
    figures.iter().find(is_it)
}

fn steps_table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "", "median", "p10", "p90", "× floor", "target", "", "plugins",
    ]);
    for (key, title, published, _) in STEPS {
        let figure = find(figures, key);
        let summary = figure.and_then(|figure| figure.summary);
        let cell = |value: Option<f64>| value.map_or_else(String::new, four_figures);
        table.line([
            title.to_owned(),
            cell(summary.map(|one| one.median)),
            cell(summary.map(|one| one.p10)),
            cell(summary.map(|one| one.p90)),
            ratio_cell(find(figures, &format!("{key}{TO_FLOOR}"))),
            figure
                .and_then(|one| one.target)
                .map_or_else(String::new, target_cell),
            figure.map_or_else(String::new, Figure::verdict_cell),
            published.to_owned(),
        ]);
    }
    table
}

fn swaps_table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "a run", "target", ""]);
    for (key, title, divisor) in [
        (SWAPPED, "ms", 1e3),
        (ASKED, "requests answered meanwhile", 1.0),
        (LOST, "requests lost, in all", 1.0),
    ] {
        let figure = find(figures, key);
        let summary = figure.and_then(|figure| figure.summary);
        let median = summary.map(|summary| match key {
            SWAPPED => four_figures(summary.median / divisor),
            _ => format!("{:.0}", summary.median),
        });
        table.line([
            title.to_owned(),
            median.unwrap_or_default(),
            figure
                .and_then(|one| one.target)
                .map_or_else(String::new, target_cell),
            figure.map_or_else(String::new, Figure::verdict_cell),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    fn samples(lost: [u64; 4]) -> Samples {
        let contenders = [
            Contender::new(ALONE, LIBRARY),
            Contender::new(ALONE, FLOOR),
            Contender::new(SERVED, HEADER_KEPT),
        ];
        let mut samples = Samples::new(contenders.to_vec());
        for lost in lost {
            let steps = [3900.0, 42.0, 180.0, 7.0, 5.0, 2.0, 2.0];
            let steps = KEYS
                .iter()
                .zip(steps)
                .map(|(key, us)| Reading::one_us(key, us));
            let engine = [6.0, 4.0, 2.0, 1.0];
            let engine = KEYS[LINKING..].iter().zip(engine);
            let engine = engine.map(|(key, us)| Reading::one_us(key, us));
            let swaps = vec![
                Reading::one_us(SWAPPED, 5200.0),
                Reading::one_count(ASKED, 61_000),
                Reading::one_count(LOST, lost),
            ];
            samples.push_round(vec![steps.collect(), engine.collect(), swaps]);
        }
        samples
    }

    #[test]
    fn steps_and_swaps_have_tables_of_their_own() {
        let (_, text) = present_on_terminal(&Swap, &samples([0; 4]));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn one_lost_request_is_too_many() {
        for (lost, expected) in [([0; 4], Verdict::Pass), ([0, 0, 1, 0], Verdict::Short)] {
            let (figures, _) = Swap.present(&samples(lost));
            assert_eq!(find(&figures, LOST).unwrap().verdict, Some(expected));
        }
    }
}
