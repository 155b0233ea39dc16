//! `den-f8` and `den-f4`: from one service to many on one server, and what each of them costs: until the first answer
//! of all, the first of each, and all others; resident memory at first, and once each was asked and rests.

use super::{
    super::{
        asking::Asking,
        load::{Load, Popularity},
    },
    Object,
    crowd::{Bounds, Crowd, Ground, Kind},
    look::{Handles, ask_admin, held_by, rest},
};
use crate::{
    Trial, Warning,
    figure::{Figure, Target},
    measure::Schedule,
    notation::{four_figures, kibibytes, milliseconds, short},
    pin::{Apart, Pin},
    rows::{Extent, Method, Prepared, TO_BE_SET, Tools, operations::target_cell},
    sample::{Contender, Reading, Samples, Unit},
    subjects::{named_version, server_program, version_by},
    table::Table,
    trial::microseconds,
    wasi,
    workloads::Workloads,
};
use anyhow::Context;
use std::{
    path::{Path, PathBuf},
    rc::Rc,
    time::Duration,
};

/// A row of this kind: all of it is data.
pub(in crate::rows) struct Services {
    pub(super) kinds: &'static [Kind],
    /// How many services, from few to many.
    pub(super) counts: fn(Extent) -> &'static [usize],
    pub(super) objects: &'static [Object],
    pub(super) popularity: Popularity,
    /// Programs that run at one time.
    pub(super) alive: usize,
    /// Whether components are asked with less and less room for their code too.
    pub(super) has_budgets: bool,
    /// What must be left of the rate of one service.
    pub(super) least_kept: f64,
}

const WORKLOAD: &str = "many services";
const BUDGETS: &str = "palisade serve, components, by budget";

/// From a start to the first answer of any service.
const FIRST: &str = "first";
/// Resident memory then.
const RESIDENT: &str = "resident";
/// The first answer of each other service: the median, all but a hundredth.
const COLD: &str = "cold";
const COLD_SLOW: &str = "cold p99";
/// Private memory that a service holds once it has answered and rests.
const RESTED: &str = "rested";
/// The same beyond what the budget of loaded code counts.
const BEYOND: &str = "beyond";
const DESCRIPTORS: &str = "descriptors";
const MAPPINGS: &str = "mappings";
const RELOAD: &str = "reload";
/// The same when nobody says whose file has changed.
const RELOAD_ALL: &str = "reload all";
/// Before how many of a hundred services may have their code loaded: requests in a second.
const BUDGET: &str = "budget";

/// Of a hundred services, whose code may be loaded.
const BUDGET_PARTS: [usize; 5] = [10, 25, 50, 75, 100];

/// What is promised is of so many services.
const PROMISED: usize = 10_000;

/// What is promised of a measure, and of whom.
struct Promise {
    measure: &'static str,
    title: &'static str,
    of: &'static [Kind],
    most: f64,
}

const WASM: &[Kind] = &[Kind::Components, Kind::Filters];
const OURS: &[Kind] = &[Kind::Components, Kind::Filters, Kind::Programs];
const PROMISES: [Promise; 9] = [
    promise(FIRST, "first answer after a start, µs", OURS, 1e6),
    promise(RESIDENT, "resident then, B", WASM, 100.0 * 1_048_576.0),
    promise(COLD, "first answer of each, median, µs", WASM, 300.0),
    promise(COLD_SLOW, "the same, p99, µs", WASM, 3_000.0),
    promise(
        COLD,
        "first answer of each, median, µs",
        &[Kind::Programs],
        3_000.0,
    ),
    promise(COLD_SLOW, "the same, p99, µs", &[Kind::Programs], 10_000.0),
    promise(
        BEYOND,
        "private memory at rest beyond the budget, B",
        WASM,
        8_192.0,
    ),
    promise(DESCRIPTORS, "descriptors", WASM, 20_000.0),
    promise(RELOAD, "reload, µs", &[Kind::Components], 50_000.0),
];

const fn promise(
    measure: &'static str,
    title: &'static str,
    of: &'static [Kind],
    most: f64,
) -> Promise {
    Promise {
        measure,
        title,
        of,
        most,
    }
}

impl Method for Services {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let counts = (self.counts)(tools.extent);
        let most = counts.iter().copied().max().unwrap_or(1);
        let ground = Ground::new(tools, &workloads);
        ground.add_files(self.objects.iter().map(|object| object.bytes).chain(
            // What servers are asked for until they answer.
            (!self.objects.iter().any(|one| one.bytes == 2_258)).then_some(2_258),
        ))?;
        let asking = Rc::new(Manner::new(self, tools)?);
        let mut trials: Vec<(Contender, Box<dyn Trial>)> = Vec::new();
        let mut warnings = Vec::new();
        for kind in self.kinds {
            if *kind == Kind::Nginx && server_program("nginx").is_none() {
                warnings.push(Warning::ProgramAbsent {
                    program: "nginx",
                    install: "apt-get install nginx-light",
                });
                continue;
            }
            ground.add_guests(*kind, most)?;
            let bounds = Bounds {
                programs: Some(self.alive),
                ..Bounds::default()
            };
            let mut asked = Vec::new();
            for count in counts {
                let crowd = ground.crowd(*kind, *count, bounds)?;
                asked.push(self.asked(&ground, crowd)?);
            }
            if let Some(largest) = asked.last() {
                largest.crowd.check(&ground)?;
            }
            let trial = Growing {
                asked,
                manner: Rc::clone(&asking),
            };
            trials.push((Contender::new(WORKLOAD, kind.subject()), Box::new(trial)));
        }
        if self.has_budgets {
            let trial = self.by_budget(&ground, most, &asking)?;
            trials.push((Contender::new(WORKLOAD, BUDGETS), Box::new(trial)));
        }
        Ok(Prepared {
            trials,
            warnings,
            ..Prepared::new(schedule(), workloads)
        })
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let nginx = server_program("nginx").and_then(|path| version_by(&path, "-v"));
        let nginx = nginx.map(|told| named_version("nginx", &told));
        vec![("nginx", nginx), wasi::version()]
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .clone()
            .flat_map(|contender| self.figures_of(samples, contender))
            .collect();
        let mut tables = vec![(
            "By how many services there are. A length: requests for it in a second, by 16 connections;\n\
             first: from a start to the first answer, and MiB held then; cold: the first answer of each\n\
             other service, µs, median and p99; KiB: private memory of each once it has answered and\n\
             rests; reload: after a tenant's file has changed, whose is told, or not (all); fds, maps:\n\
             descriptors and mappings:"
                .to_owned(),
            self.table(&figures),
        )];
        let budgets: Vec<&Figure> = figures.iter().filter(|one| is_budget(one)).collect();
        if !budgets.is_empty() {
            let title =
                "Components, with room for the code of so many of a hundred, requests in a second:";
            tables.push((title.to_owned(), budget_table(&budgets)));
        }
        let kept = "What is left of the rate of one service, and other promises of ten thousand:";
        tables.push((kept.to_owned(), promise_table(&figures)));
        (figures, tables)
    }
}

/// A round takes a minute with ten thousand services.
fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 0,
        least_rounds: 4,
        most_rounds: 400,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.05,
        watched: Vec::new(),
    }
}

/// How servers are asked.
struct Manner {
    load: Load,
    apart: Apart,
    popularity: Popularity,
    /// For each object.
    time: Duration,
    /// Until memory is looked at again.
    rest: Duration,
}

impl Manner {
    fn new(services: &Services, tools: &Tools) -> anyhow::Result<Self> {
        let asking = Asking::by_ours(tools)?;
        let (time, rest) = match tools.extent {
            Extent::Full => (2_000, 6_000),
            Extent::Quick => (500, 3_000),
            Extent::Tiny => (20, 10),
        };
        Ok(Self {
            load: asking.load,
            apart: asking.apart,
            popularity: services.popularity,
            time: Duration::from_millis(time),
            rest: Duration::from_millis(rest),
        })
    }
}

/// A crowd, and lists of what is asked for.
struct Asked {
    crowd: Crowd,
    /// Every object's key, and its address at each service.
    objects: Vec<(&'static str, PathBuf)>,
    /// The first object's at each service but the first one, and how many these are.
    cold: Option<(PathBuf, usize)>,
}

/// Programs start one after the other: not all of ten thousand are asked for their first answer.
const MOST_COLD_PROGRAMS: usize = 1_000;

impl Services {
    fn asked(&self, ground: &Ground<'_>, crowd: Crowd) -> anyhow::Result<Asked> {
        let count = crowd.count;
        let objects = self.objects.iter().map(|object| {
            let list = crowd.list(ground, object.bytes, 0..count)?;
            anyhow::Ok((object.key, list))
        });
        let objects = objects.collect::<anyhow::Result<Vec<_>>>()?;
        let others = count - 1;
        let step = match crowd.kind {
            Kind::Programs => others.div_ceil(MOST_COLD_PROGRAMS).max(1),
            _ => 1,
        };
        let cold = (1..count).step_by(step);
        let cold_count = cold.clone().count();
        let first = self.objects.first().map_or(0, |object| object.bytes);
        let cold = match cold_count {
            0 => None,
            _ => Some((crowd.list(ground, first, cold)?, cold_count)),
        };
        Ok(Asked {
            crowd,
            objects,
            cold,
        })
    }

    fn by_budget(
        &self,
        ground: &Ground<'_>,
        count: usize,
        manner: &Rc<Manner>,
    ) -> anyhow::Result<ByBudget> {
        let object = self.objects.first().context("a row without an object")?;
        let crowd = |part: usize| {
            let bounds = Bounds {
                modules: Some((count * part).div_ceil(100).max(1)),
                ..Bounds::default()
            };
            let crowd = ground.crowd(Kind::Components, count, bounds)?;
            let list = crowd.list(ground, object.bytes, 0..count)?;
            anyhow::Ok((part, crowd, list))
        };
        let crowds = BUDGET_PARTS.map(crowd).into_iter();
        Ok(ByBudget {
            crowds: crowds.collect::<anyhow::Result<_>>()?,
            manner: Rc::clone(manner),
        })
    }
}

/// From few services to many.
struct Growing {
    asked: Vec<Asked>,
    manner: Rc<Manner>,
}

impl Trial for Growing {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let manner = Rc::clone(&self.manner);
        let mut readings = Vec::new();
        for asked in &mut self.asked {
            let (count, title) = (asked.crowd.count, asked.crowd.kind.title());
            let told = asked.run(&manner);
            readings.extend(told.with_context(|| format!("{count} {title}"))?);
        }
        Ok(readings)
    }
}

impl Asked {
    fn run(&mut self, manner: &Manner) -> anyhow::Result<Vec<Reading>> {
        let is_ours = self.crowd.kind != Kind::Nginx;
        let count = self.crowd.count;
        let named = |measure: &str| format!("{measure}-{count}");
        let pin = Pin::to(&manner.apart.inside)?;
        let began = std::time::Instant::now();
        let server = self.crowd.server()?.start()?;
        let first = began.elapsed();
        drop(pin);
        let _pin = Pin::to(&manner.apart.outside)?;
        let fresh = held_by(server.id())?;
        let mut readings = vec![
            Reading::one_us(&named(FIRST), microseconds(first)),
            Reading::one_bytes(&named(RESIDENT), fresh.bytes),
        ];
        if let Some((cold, asked)) = &self.cold {
            let each = manner.load.ask_each(cold)?;
            readings.extend(cold_readings(&each.latencies_ns, count));
            rest(manner.rest);
            let rested = held_by(server.id())?.private_bytes;
            let grown = rested.saturating_sub(fresh.private_bytes);
            let each = |bytes| bytes / *asked as u64;
            readings.push(Reading::one_bytes(&named(RESTED), each(grown)));
            if self.crowd.kind.is_wasm() {
                // What an engine keeps beside a filter's code is a guess.
                let heap = match self.crowd.kind {
                    Kind::Components => heap_of_code(&self.crowd.admin)?,
                    _ => 0,
                };
                let beyond = grown.saturating_sub(heap);
                readings.push(Reading::one_bytes(&named(BEYOND), each(beyond)));
            }
        }
        for (object, list) in &self.objects {
            let busy = manner
                .load
                .keep_busy_among(manner.time, manner.popularity, list)?;
            busy.check()?;
            readings.push(rate(&named(object), busy.replies_per_s));
        }
        let handles = Handles::of(server.id())?;
        readings.push(Reading::one_count(&named(DESCRIPTORS), handles.descriptors));
        readings.push(Reading::one_count(&named(MAPPINGS), handles.mappings));
        if is_ours {
            for (measure, is_of_all) in [(RELOAD, false), (RELOAD_ALL, true)] {
                let took = self.crowd.reload(is_of_all)?;
                readings.push(Reading::one_us(&named(measure), microseconds(took)));
            }
        }
        Ok(readings)
    }
}

/// What the server's budget counts of loaded code that is private to it; nothing where an older one does not say.
fn heap_of_code(admin: &Path) -> anyhow::Result<u64> {
    let told = ask_admin(admin, "GET", "/status")?;
    let (_, body) = told.split_once("\r\n\r\n").unwrap_or_default();
    let told: serde_json::Value = serde_json::from_str(body).context("host: no status")?;
    Ok(told["code"]["heap_bytes"].as_u64().unwrap_or(0))
}

/// All of them, whose median stands for the run, and the p99.
fn cold_readings(latencies_ns: &[f64], count: usize) -> [Reading; 2] {
    let mut sorted_us: Vec<f64> = latencies_ns.iter().map(|ns| ns / 1e3).collect();
    sorted_us.sort_by(f64::total_cmp);
    let slow = sorted_us
        .get((sorted_us.len().saturating_sub(1) * 99).div_ceil(100))
        .copied();
    [
        Reading {
            measure: format!("{COLD}-{count}"),
            unit: Unit::Microseconds,
            values: sorted_us,
        },
        Reading::one_us(&format!("{COLD_SLOW}-{count}"), slow.unwrap_or_default()),
    ]
}

fn rate(measure: &str, per_second: f64) -> Reading {
    Reading {
        measure: measure.to_owned(),
        unit: Unit::PerSecond,
        values: vec![per_second],
    }
}

/// The most services, with less and more room for their code.
struct ByBudget {
    crowds: Vec<(usize, Crowd, PathBuf)>,
    manner: Rc<Manner>,
}

impl Trial for ByBudget {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let Manner {
            load,
            apart,
            popularity,
            time,
            ..
        } = &*self.manner;
        let mut readings = Vec::new();
        for (part, crowd, list) in &mut self.crowds {
            let pin = Pin::to(&apart.inside)?;
            let _server = crowd.server()?.start()?;
            drop(pin);
            let _pin = Pin::to(&apart.outside)?;
            // What there is room for is loaded before.
            load.ask_each(list)?;
            let busy = load.keep_busy_among(*time, *popularity, list)?;
            busy.check()?;
            readings.push(rate(&format!("{BUDGET}-{part}"), busy.replies_per_s));
        }
        Ok(readings)
    }
}

fn is_budget(figure: &Figure) -> bool {
    figure.contender.subject == BUDGETS
}

/// A measure without how many services it is of.
fn kind_and_count(measure: &str) -> Option<(&str, usize)> {
    let (kind, count) = measure.rsplit_once('-')?;
    Some((kind, count.parse().ok()?))
}

impl Services {
    /// Each measure; rates also as a part of the rate of one service, or with room for all code.
    fn figures_of(&self, samples: &Samples, contender: &Contender) -> Vec<Figure> {
        let kind = self
            .kinds
            .iter()
            .find(|kind| kind.subject() == contender.subject);
        let measures = samples.measures(contender);
        let sized = measures.iter().filter_map(|measure| {
            let (name, count) = kind_and_count(measure)?;
            Some((*measure, name, count))
        });
        let figure = |(measure, name, count): (&str, &str, usize)| {
            let unit = unit_of(name, self.objects);
            let series = samples.series(contender, measure);
            if !unit.is_rate() {
                let target = kind.and_then(|kind| target_of(name, *kind, count));
                return Figure::of_series(contender, (measure, unit), &series, None, target);
            }
            let of_all = name == BUDGET;
            let (base, base_title) = match of_all {
                true => (format!("{BUDGET}-100"), "all code loaded"),
                false => (format!("{name}-1"), "one service"),
            };
            let baseline = (base != measure).then(|| samples.series(contender, &base));
            let is_ours = kind.is_some_and(|kind| *kind != Kind::Nginx);
            let least = Target::AtLeastTimesOther(self.least_kept);
            let target = (baseline.is_some() && is_ours).then_some(least);
            let baseline = baseline.as_deref();
            let figure = Figure::of_series(contender, (measure, unit), &series, baseline, target);
            match baseline {
                Some(_) => figure.against(base_title),
                None => figure,
            }
        };
        sized.map(figure).collect()
    }

    fn table(&self, figures: &[Figure]) -> Table {
        let objects = self.objects.iter().map(|object| object.title.to_owned());
        let headings = ["".to_owned()].into_iter().chain(objects).chain(
            [
                "first ms",
                "MiB",
                "cold",
                "p99",
                "KiB",
                "reload ms",
                "all",
                "fds",
                "maps",
            ]
            .map(ToOwned::to_owned),
        );
        let headings: Vec<String> = headings.collect();
        let mut table = Table::new(headings.iter().map(String::as_str));
        for kind in self.kinds {
            let own: Vec<&Figure> = figures
                .iter()
                .filter(|one| one.contender.subject == kind.subject())
                .collect();
            if own.is_empty() {
                continue;
            }
            table.section(kind.title());
            let first = format!("{FIRST}-");
            let counts = own
                .iter()
                .filter_map(|one| one.measure.strip_prefix(&first));
            for count in counts {
                table.line(self.cells(&own, count));
            }
        }
        table
    }

    fn cells(&self, own: &[&Figure], count: &str) -> Vec<String> {
        let cell = |measure: &str, write: fn(f64) -> String| {
            let measure = format!("{measure}-{count}");
            let figure = own.iter().find(|one| one.measure == measure);
            let summary = figure.and_then(|one| one.summary);
            summary.map_or_else(String::new, |one| write(one.median))
        };
        let rates = self.objects.iter().map(|object| cell(object.key, whole));
        let others = [
            cell(FIRST, milliseconds),
            cell(RESIDENT, mebibytes),
            cell(COLD, short),
            cell(COLD_SLOW, short),
            cell(RESTED, |bytes| short(bytes / 1024.0)),
            cell(RELOAD, milliseconds),
            cell(RELOAD_ALL, milliseconds),
            cell(DESCRIPTORS, whole),
            cell(MAPPINGS, whole),
        ];
        let lead = [format!("  {count}")].into_iter();
        lead.chain(rates).chain(others).collect()
    }
}

fn unit_of(name: &str, objects: &[Object]) -> Unit {
    match name {
        RESIDENT | RESTED | BEYOND => Unit::Bytes,
        DESCRIPTORS | MAPPINGS => Unit::Count,
        BUDGET => Unit::PerSecond,
        name if objects.iter().any(|object| object.key == name) => Unit::PerSecond,
        _ => Unit::Microseconds,
    }
}

fn target_of(name: &str, kind: Kind, count: usize) -> Option<Target> {
    let is_it = |one: &&Promise| one.measure == name && one.of.contains(&kind);
    let promise = PROMISES.iter().find(is_it)?;
    (count == PROMISED).then_some(Target::AtMost(promise.most))
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn mebibytes(bytes: f64) -> String {
    let kib: f64 = kibibytes(bytes).parse().unwrap_or(0.0);
    four_figures(kib / 1024.0)
}

fn budget_table(budgets: &[&Figure]) -> Table {
    let mut table = Table::new(["of a hundred", "/s", "× all loaded", "95 %"]);
    for figure in budgets {
        let (_, part) = kind_and_count(&figure.measure).unwrap_or_default();
        let median = figure
            .summary
            .map_or_else(String::new, |one| whole(one.median));
        let ratio = figure.ratio.map(|ratio| four_figures(ratio.value));
        table.line([
            part.to_string(),
            median,
            ratio.unwrap_or_default(),
            figure.ratio_interval(),
        ]);
    }
    table
}

fn promise_table(figures: &[Figure]) -> Table {
    let mut table = Table::new(["", "what", "services", "is", "target", ""]);
    for figure in figures.iter().filter(|one| one.target.is_some()) {
        let Some((name, count)) = kind_and_count(&figure.measure) else {
            continue;
        };
        let promise = PROMISES.iter().find(|one| one.measure == name);
        let what = promise.map_or_else(
            || format!("{name}, × one service"),
            |promise| promise.title.to_owned(),
        );
        let is = match (promise, figure.ratio, figure.summary) {
            (None, Some(ratio), _) => four_figures(ratio.value),
            (_, _, Some(summary)) => short(summary.median),
            _ => String::new(),
        };
        let subject = figure.contender.subject.rsplit(", ").next();
        table.line([
            subject.unwrap_or_default().to_owned(),
            what,
            count.to_string(),
            is,
            figure.target.map_or_else(String::new, target_cell),
            figure.verdict_cell(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
