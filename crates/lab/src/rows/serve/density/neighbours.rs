//! `tenants`: what one tenant notices of another that floods, loops, fails, has slow filters, compiles or starts cold. The tenant that is
//! looked at is asked at a steady rate, a fifth of what the server's one processor can answer.

use super::{
    super::{
        asking::Asking,
        load::{Load, OFFERED_CONNECTIONS, Popularity},
        sites::{ANSWER, Layout, Module, Site, Who, at, quoted, server},
    },
    crowd::{Ground, MAPPINGS, name, nginx_settings},
    look::ask_admin,
};
use crate::{
    Trial,
    distinct::{Filling, distinct},
    figure::{Figure, Target, Verdict},
    measure::Schedule,
    network::{Port, Transport},
    notation::{four_figures, milliseconds},
    pin::{Apart, Pin},
    program::{Program, ending_with_the_lab},
    rows::{Extent, Method, Prepared, TO_BE_SET, Tools},
    sample::{Contender, Reading, Samples, Unit},
    statistics::{Summary, median},
    subjects::{named_version, server_program, version_by},
    table::Table,
    wasi,
    workloads::Workloads,
};
use anyhow::{Context, anyhow};
use std::{
    ffi::OsString,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

pub(in crate::rows) struct Neighbours;

const WORKLOAD: &str = "a tenant's neighbour";
const SERVE: &str = "palisade serve";
const SERVE_BOUNDED: &str = "palisade serve, quotas";
const NGINX: &str = "nginx, njs";

/// What is measured of the tenant that is looked at, before what the other does.
const USUAL: &str = "p50";
const SLOW: &str = "p99";
/// Requests of it that were not answered as they should have been.
const LOST: &str = "lost";
/// What the other one asked for in a second, answered or not.
const ASKED: &str = "asked";
/// Nobody else asks.
const QUIET: &str = "quiet";

/// What the other tenant does, in this order: what is compiled goes on being compiled for a while.
const OFFENCES: [(&str, &str); 6] = [
    ("flood", "all that come back"),
    ("loop", "endless loops"),
    ("trap", "faults"),
    ("dawdle", "a slow filter"),
    ("cold", "services not loaded"),
    ("compile", "services not compiled"),
];

/// It may be later by a fifth, or by this if that is more.
const MOST_TIMES: f64 = 1.2;
const MOST_OVER_US: f64 = 1_000.0;

/// What each tenant may have, where the server knows of it: as many requests as whoever is asked at a rate has connections,
/// or it would be refused for its own haste after a moment in which the machine did something else.
fn quotas() -> String {
    format!(
        "[tenants.quotas]\nrequests = {OFFERED_CONNECTIONS}\nprocessor = \"50%\"\nweight = 100\n\n"
    )
}

/// Everybody's requests end by then, and the loops of nginx.
const LOOP_MS: u32 = 100;
const OBJECT: &str = "/2258";
/// The same of the tenant that is looked at, and of nginx, which has no services.
const QUESTION: &[u8] = b"GET /0/2258 HTTP/1.1\r\nHost: s0.lab\r\nConnection: close\r\n\r\n";
const QUESTION_TO_NGINX: &[u8] = b"GET /2258 HTTP/1.1\r\nHost: s0.lab\r\nConnection: close\r\n\r\n";

impl Method for Neighbours {
    fn prepare(&self, tools: &Tools, _budget: Duration) -> anyhow::Result<Prepared> {
        let workloads = Workloads::new()?;
        let ground = Ground::new(tools, &workloads);
        ground.add_files([2_258].into_iter())?;
        let scale = Scale::of(tools.extent);
        let guests = Guests::lay_out(&ground, scale)?;
        let asking = Asking::by_ours(tools)?;
        let manner = Manner {
            load: Load {
                // Both clients have one processor: who spins there keeps the other from it.
                sleeps: true,
                ..asking.load
            },
            apart: asking.apart,
            time: scale.time,
        };
        let mut prepared = Prepared::new(schedule(), workloads);
        let ground = Ground::new(tools, &prepared.workloads);
        let mut trials: Vec<(Contender, Box<dyn Trial>)> = Vec::new();
        for (subject, quotas) in [(SERVE, String::new()), (SERVE_BOUNDED, quotas())] {
            let place = Place::served(&ground, scale, &quotas)?;
            let checked = place.check(&ground);
            // A server of before there were quotas takes the file for a mistake.
            if quotas.is_empty() {
                checked?;
            } else if checked.is_err() {
                continue;
            }
            let trial = Beside::new(place, Some(guests.clone()), &manner)?;
            trials.push((Contender::new(WORKLOAD, subject), Box::new(trial)));
        }
        let mut warnings = Vec::new();
        match Who::Nginx(Some(Module::Njs)).absent() {
            Some(absent) => warnings.push(absent),
            None => {
                let trial = Beside::new(Place::nginx(&ground)?, None, &manner)?;
                trials.push((Contender::new(WORKLOAD, NGINX), Box::new(trial)));
            }
        }
        prepared.trials = trials;
        prepared.warnings = warnings;
        Ok(prepared)
    }

    fn versions(&self) -> Vec<(&'static str, Option<String>)> {
        let nginx = server_program("nginx").and_then(|path| version_by(&path, "-v"));
        let nginx = nginx.map(|told| named_version("nginx", &told));
        vec![("nginx", nginx), wasi::version()]
    }

    fn present(&self, samples: &Samples) -> (Vec<Figure>, Vec<(String, Table)>) {
        let contenders = samples.contenders().iter();
        let figures: Vec<Figure> = contenders
            .flat_map(|contender| figures_of(samples, contender))
            .collect();
        let title = format!(
            "A tenant that is asked at a steady rate, a fifth of what one processor answers, while another\n\
             one of the server does something else; ms from when a request was due to its answer. Asked: the\n\
             other's requests in a second. Quotas, where the server knows them: {OFFERED_CONNECTIONS} requests in flight and\n\
             half a processor each. nginx's loops end after {LOOP_MS} ms by themselves, and it has nothing that\n\
             starts cold or is compiled:"
        );
        let table = table(&figures);
        (figures, vec![(title, table)])
    }
}

fn schedule() -> Schedule {
    Schedule {
        warm_up_rounds: 0,
        least_rounds: 5,
        most_rounds: 300,
        budget: TO_BE_SET,
        patience: TO_BE_SET,
        relative_width: 0.05,
        watched: Vec::new(),
    }
}

/// How much of everything.
#[derive(Clone, Copy)]
struct Scale {
    /// Services of a tenant that are compiled and not loaded: a file may hold a hundred.
    cold: usize,
    /// Services of another one that are new each time.
    new: usize,
    /// Of each offence.
    time: Duration,
}

impl Scale {
    fn of(extent: Extent) -> Self {
        let (cold, new, ms) = match extent {
            Extent::Full => (100, 100, 3_000),
            Extent::Quick => (50, 60, 1_000),
            Extent::Tiny => (3, 2, 60),
        };
        Self {
            cold,
            new,
            time: Duration::from_millis(ms),
        }
    }

    /// All that may be loaded: the first tenants, a filter, and a few of those that are cold.
    fn loaded(self) -> usize {
        4 + (self.cold / 8).max(1)
    }
}

/// Guests that are others each time.
#[derive(Clone)]
struct Guests {
    component: Vec<u8>,
    /// Their files.
    new: Vec<PathBuf>,
}

impl Guests {
    /// Those of all tenants.
    fn lay_out(ground: &Ground<'_>, scale: Scale) -> anyhow::Result<Self> {
        super::super::add_component(ground.layout.tools, ground.layout.workloads, "tenant")?;
        let component = ground.layout.component();
        let mut places: Vec<PathBuf> = Vec::new();
        for (tenant, services) in tenants(scale) {
            places.extend((0..services).map(|number| module_of(ground, &tenant, number)));
        }
        ground.add_distinct(&component, places.len(), |number| places[number].clone())?;
        let filter = ground.layout.workloads.add_slow_filter()?;
        fs::copy(filter, ground.tenant(DAWDLER).join("slow.wasm"))
            .context("host: cannot lay out a filter")?;
        let new = (0..scale.new).map(|number| module_of(ground, NEW, number));
        Ok(Self {
            component: fs::read(component).context("host: cannot read a guest")?,
            new: new.collect(),
        })
    }

    /// Puts others in the place of the new ones, which nobody has compiled.
    fn renew(&self) -> anyhow::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now
            .context("host: the clock stands before 1970")?
            .as_nanos() as u64;
        for (place, number) in self.new.iter().zip(now..) {
            let made = distinct(&self.component, number, Filling::default())?;
            let next = place.with_extension("next");
            fs::write(&next, made)
                .and_then(|()| fs::rename(&next, place))
                .context("host: cannot put a guest in its place")?;
        }
        Ok(())
    }
}

const OFFENDER: &str = "offender";
/// Has a filter, which does not yield as a component does.
const DAWDLER: &str = "dawdler";

/// Has services that nobody has loaded.
const COLD: &str = "cold";
/// Has services that nobody has compiled.
const NEW: &str = "new";

/// What tenants are called, and how many services each has.
fn tenants(scale: Scale) -> [(String, usize); 5] {
    [
        (name(0), 1),
        (OFFENDER.to_owned(), 1),
        (DAWDLER.to_owned(), 1),
        (COLD.to_owned(), scale.cold),
        (NEW.to_owned(), scale.new),
    ]
}

fn module_of(ground: &Ground<'_>, tenant: &str, number: usize) -> PathBuf {
    ground.tenant(tenant).join(format!("{number}.wasm"))
}

/// Each of a tenant's services, asked for its object.
fn each_of(tenant: &str, services: usize) -> Vec<(String, String)> {
    let address = |number| (tenant.to_owned(), format!("/{number}{OBJECT}"));
    (0..services).map(address).collect()
}

/// A server with both tenants, and what each is asked for.
struct Place {
    site: Site,
    settings: PathBuf,
    admin: Option<PathBuf>,
    /// The address of the tenant that is looked at.
    url: String,
    /// A list of addresses for each offence that can be committed here.
    lists: Vec<(&'static str, PathBuf)>,
}

impl Place {
    fn served(ground: &Ground<'_>, scale: Scale, quotas: &str) -> anyhow::Result<Self> {
        let reserved = Port::find(Transport::Tcp)?;
        let port = reserved.number;
        let admin = ground.folder().join(format!("admin-{port}"));
        let tenants = ground.folder().join(format!("tenants-{port}"));
        fs::create_dir(&tenants).context("host: cannot make a folder for tenants")?;
        for (name, services) in self::tenants(scale) {
            fs::write(
                tenants.join(format!("{name}.toml")),
                tenant_file(&name, services),
            )
            .context("host: cannot write a tenant's file")?;
        }
        let text = settings_of(ground, scale, (port, &admin), quotas)?;
        let settings = ground
            .layout
            .file(&format!("neighbours-{port}.toml"), &text)?;
        let program = ground.layout.palisade(&[settings.as_os_str()])?;
        let of_offender = |path: &str| vec![(OFFENDER.to_owned(), format!("/0{path}"))];
        let all = [
            ("flood", of_offender(OBJECT)),
            ("loop", of_offender("/loop")),
            ("trap", of_offender("/trap")),
            ("dawdle", each_of(DAWDLER, 1)),
            ("cold", each_of(COLD, scale.cold)),
            ("compile", each_of(NEW, scale.new)),
        ];
        let lists = all.map(|(offence, asked)| write_list(&ground.layout, port, offence, &asked));
        Ok(Self {
            site: site(program, reserved, QUESTION),
            settings,
            admin: Some(admin),
            url: format!("http://{}/0{OBJECT}", at(port)),
            lists: lists.into_iter().collect::<anyhow::Result<_>>()?,
        })
    }

    /// Files, and JavaScript beside them.
    fn nginx(ground: &Ground<'_>) -> anyhow::Result<Self> {
        let reserved = Port::find(Transport::Tcp)?;
        let port = reserved.number;
        let program = server_program("nginx").context("host: nginx is gone")?;
        let folder = ground.folder().join(format!("nginx-{port}"));
        fs::create_dir(&folder).context("host: cannot make a folder for nginx")?;
        let settings = folder.join("nginx.conf");
        let text = nginx_text(&folder, port, &ground.layout.workloads.files_folder());
        fs::write(folder.join("trouble.js"), njs_trouble())
            .and_then(|()| fs::write(&settings, text))
            .context("host: cannot write the settings of nginx")?;
        let words = [
            program.as_os_str(),
            "-e".as_ref(),
            "stderr".as_ref(),
            "-c".as_ref(),
            settings.as_os_str(),
        ];
        let line = words.map(OsString::from).to_vec();
        let all = [("flood", OBJECT), ("loop", "/loop"), ("trap", "/trap")];
        let lists = all.map(|(offence, path)| {
            let asked = [(OFFENDER.to_owned(), path.to_owned())];
            write_list(&ground.layout, port, offence, &asked)
        });
        Ok(Self {
            site: site(
                Program::new(&ending_with_the_lab(line))?,
                reserved,
                QUESTION_TO_NGINX,
            ),
            settings,
            admin: None,
            url: format!("http://{}{OBJECT}", at(port)),
            lists: lists.into_iter().collect::<anyhow::Result<_>>()?,
        })
    }

    /// Reads everything as the server does, and compiles it.
    fn check(&self, ground: &Ground<'_>) -> anyhow::Result<()> {
        let words = ["--check".as_ref(), self.settings.as_os_str()];
        ground.layout.palisade(&words)?.run().map(|_| ())
    }

    fn list(&self, offence: &str) -> Option<&Path> {
        let list = self.lists.iter().find(|(known, _)| *known == offence);
        list.map(|(_, list)| list.as_path())
    }
}

fn site(program: Program, reserved: Port, question: &'static [u8]) -> Site {
    let port = reserved.number;
    Site {
        servers: vec![server(program, port, (question, ANSWER))],
        base: format!("http://{}", at(port)),
        _reserved: vec![reserved],
    }
}

fn write_list(
    layout: &Layout<'_>,
    port: u16,
    offence: &'static str,
    asked: &[(String, String)],
) -> anyhow::Result<(&'static str, PathBuf)> {
    let line = |(name, path): &(String, String)| format!("http://{}{path} {name}.lab\n", at(port));
    let lines: String = asked.iter().map(line).collect();
    let list = layout.file(&format!("{offence}-{port}"), &lines)?;
    Ok((offence, list))
}

/// Components, whose requests end when they have had their time.
fn tenant_file(tenant: &str, services: usize) -> String {
    let (mut text, filters) = match tenant {
        DAWDLER => (
            "[filters.slow]\nmodule = \"slow.wasm\"\n\n".to_owned(),
            "filters = [\"slow\"]\n",
        ),
        _ => (String::new(), ""),
    };
    for number in 0..services {
        text += &format!(
            "[services.s{number}]\ncomponent = \"{number}.wasm\"\npolicy.limits = {{ cpu-time = \"{LOOP_MS}ms\" }}\n\n\
             [[route]]\npath = \"/{number}\"\nstrip = true\n{filters}service = \"s{number}\"\n\n"
        );
    }
    text
}

fn settings_of(
    ground: &Ground<'_>,
    scale: Scale,
    (port, admin): (u16, &Path),
    quotas: &str,
) -> anyhow::Result<String> {
    let (tenants, admin) = (
        quoted(&ground.folder().join("tenants/{tenant}"))?,
        admin.display(),
    );
    let mappings = scale.loaded() * MAPPINGS;
    let mut text = format!("include = [\"tenants-{port}/*.toml\"]\n");
    write!(text, "workers = 1\nadmin = \"unix:{admin}\"\n\n")?;
    write!(text, "[[listen]]\naddress = \"{}\"\n\n", at(port))?;
    write!(text, "[code]\ndisk = \"64G\"\nmappings = {mappings}\n\n")?;
    write!(
        text,
        "[tenants]\nhosts = [\"{{tenant}}.lab\"]\nfolder = {tenants}\n\n{quotas}"
    )?;
    // Requests at a fixed rate name no host but the address.
    let first = name(0);
    write!(
        text,
        "[tenant.{first}]\nhosts = [\"{first}.lab\", \"127.0.0.1\"]\n"
    )?;
    Ok(text)
}

fn nginx_text(folder: &Path, port: u16, files: &Path) -> String {
    let modules = Module::Njs.files().into_iter().flatten();
    let modules: String = modules
        .map(|module| format!("load_module {};\n", module.display()))
        .collect();
    let (listen, files, scripts) = (at(port), files.display(), folder.display());
    let servers = format!(
        "js_path {scripts}; js_import trouble from trouble.js;\n\
         server {{ listen {listen} default_server; server_name s0.lab; root {files}; }}\n\
         server {{ listen {listen}; server_name {OFFENDER}.lab; root {files};\n\
         location /loop {{ js_content trouble.turn; }}\nlocation /trap {{ js_content trouble.fail; }} }}\n"
    );
    modules + &nginx_settings(folder, &servers)
}

fn njs_trouble() -> String {
    format!(
        "function turn(r) {{ let end = Date.now() + {LOOP_MS}; while (Date.now() < end); r.return(200, \"\"); }}\n\
         function fail(r) {{ throw new Error(\"trap\"); }}\n\
         export default {{ turn, fail }};\n"
    )
}

/// How both are asked.
#[derive(Clone)]
struct Manner {
    load: Load,
    apart: Apart,
    time: Duration,
}

/// One tenant beside another.
struct Beside {
    place: Place,
    guests: Option<Guests>,
    manner: Manner,
    /// Requests of the one that is looked at, in a second.
    rate: u32,
}

impl Beside {
    fn new(place: Place, guests: Option<Guests>, manner: &Manner) -> anyhow::Result<Self> {
        let mut beside = Self {
            place,
            guests,
            manner: manner.clone(),
            rate: 0,
        };
        beside.rate = beside.fifth()?;
        Ok(beside)
    }

    /// Of what it can answer alone.
    fn fifth(&mut self) -> anyhow::Result<u32> {
        let Manner { load, apart, time } = self.manner.clone();
        let pin = Pin::to(&apart.inside)?;
        let _servers = self.place.site.start()?;
        drop(pin);
        let _pin = Pin::to(&apart.outside)?;
        let busy = load.keep_busy(time, &self.place.url)?;
        busy.check()?;
        Ok((busy.replies_per_s / 5.0).max(10.0) as u32)
    }

    /// The tenant's figures while the other does this.
    fn look(&self, offence: &str) -> anyhow::Result<Vec<Reading>> {
        let Some(list) = self.place.list(offence) else {
            return self.ask(offence);
        };
        if offence == "compile" {
            self.renew()?;
        }
        let mut other = self.manner.load.clone();
        other.yields = true;
        let time = self.manner.time;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let busy = scope.spawn(|| Offence::until(&is_over, &other, time, list));
            let readings = self.ask(offence);
            is_over.store(true, Ordering::Relaxed);
            let committed = busy
                .join()
                .map_err(|_| anyhow!("the other's thread failed"))??;
            let mut readings = readings?;
            readings.push(Reading {
                measure: format!("{ASKED}-{offence}"),
                unit: Unit::Count,
                values: vec![committed.requests as f64 / committed.time.as_secs_f64()],
            });
            Ok(readings)
        })
    }

    fn renew(&self) -> anyhow::Result<()> {
        if let Some(guests) = &self.guests {
            guests.renew()?;
        }
        if let Some(admin) = &self.place.admin {
            ask_admin(admin, "POST", "/reload")?;
        }
        Ok(())
    }

    /// At the rate, first for a moment that counts for nothing: the other one may begin a little later.
    fn ask(&self, offence: &str) -> anyhow::Result<Vec<Reading>> {
        let Manner { load, time, .. } = &self.manner;
        let offer = |time| load.offer_in_vain(&[self.rate], time, &self.place.url);
        offer(*time / 5)?;
        let told = offer(*time)?;
        let told = told.first().context("no rate was offered")?;
        let mut readings = vec![Reading::one_count(
            &format!("{LOST}-{offence}"),
            told.lost(),
        )];
        if let Some(spread) = told.latency {
            let [usual, slow] = [spread.p50_ns, spread.p99_ns].map(|ns| ns / 1e3);
            readings.push(Reading::one_us(&format!("{USUAL}-{offence}"), usual));
            readings.push(Reading::one_us(&format!("{SLOW}-{offence}"), slow));
        }
        Ok(readings)
    }
}

/// What the other one asked for, and in what time.
#[derive(Default)]
struct Offence {
    requests: u64,
    time: Duration,
}

impl Offence {
    /// Asks for so long, and again as long as the tenant is looked at: its requests may wait for long.
    fn until(
        is_over: &AtomicBool,
        load: &Load,
        time: Duration,
        list: &Path,
    ) -> anyhow::Result<Self> {
        let mut sum = Self::default();
        loop {
            let began = Instant::now();
            let busy = load.keep_busy_among(time, Popularity::Even, list)?;
            sum.requests += busy.answers + busy.lost();
            sum.time += began.elapsed();
            if is_over.load(Ordering::Relaxed) {
                return Ok(sum);
            }
        }
    }
}

impl Trial for Beside {
    fn run_once(&mut self) -> anyhow::Result<Vec<Reading>> {
        let apart = self.manner.apart;
        let pin = Pin::to(&apart.inside)?;
        let _servers = self.place.site.start()?;
        drop(pin);
        let _pin = Pin::to(&apart.outside)?;
        let mut readings = self.look(QUIET)?;
        for (offence, _) in OFFENCES {
            if self.place.list(offence).is_some() {
                readings.extend(self.look(offence).with_context(|| offence.to_owned())?);
            }
        }
        Ok(readings)
    }
}

/// What each offence makes of the tenant's p99, of its median, and what was lost.
fn figures_of(samples: &Samples, contender: &Contender) -> Vec<Figure> {
    let is_ours = contender.subject.starts_with(SERVE);
    let series =
        |measure: &str, offence: &str| samples.series(contender, &format!("{measure}-{offence}"));
    let us = Unit::Microseconds;
    let mut figures = Vec::new();
    for offence in [QUIET]
        .into_iter()
        .chain(OFFENCES.map(|(offence, _)| offence))
    {
        for measure in [SLOW, USUAL] {
            let own = series(measure, offence);
            if own.is_empty() {
                continue;
            }
            let quiet = (offence != QUIET).then(|| series(measure, QUIET));
            let is_judged = is_ours && measure == SLOW;
            let target = quiet.as_deref().filter(|_| is_judged).map(target_beside);
            let name = format!("{measure}-{offence}");
            let figure = Figure::of_series(contender, (&name, us), &own, quiet.as_deref(), target);
            figures.push(match quiet {
                Some(_) => figure.against(QUIET),
                None => figure,
            });
        }
        let lost = series(LOST, offence);
        if !lost.is_empty() {
            figures.push(lost_figure(contender, offence, &lost, is_ours));
        }
        let asked = series(ASKED, offence);
        if !asked.is_empty() {
            let name = format!("{ASKED}-{offence}");
            figures.push(Figure::of_series(
                contender,
                (&name, Unit::Count),
                &asked,
                None,
                None,
            ));
        }
    }
    figures
}

/// A fifth or a millisecond, the larger.
fn target_beside(quiet_us: &[f64]) -> Target {
    match median(quiet_us) * (MOST_TIMES - 1.0) > MOST_OVER_US {
        true => Target::AtMostTimesOther(MOST_TIMES),
        false => Target::AtMostOverOther(MOST_OVER_US),
    }
}

/// All that were lost in all rounds: no median may hide one.
fn lost_figure(contender: &Contender, offence: &str, lost: &[f64], is_ours: bool) -> Figure {
    let name = format!("{LOST}-{offence}");
    let sum: f64 = lost.iter().sum();
    let verdict = match sum == 0.0 {
        true => Verdict::Pass,
        false => Verdict::Short,
    };
    Figure {
        summary: Some(Summary::of(&[sum])),
        target: is_ours.then_some(Target::AtMost(0.0)),
        verdict: is_ours.then_some(verdict),
        ..Figure::of_series(contender, (&name, Unit::Count), lost, None, None)
    }
}

fn table(figures: &[Figure]) -> Table {
    let mut table = Table::new([
        "", "asked", "p50 ms", "p99 ms", "more", "×", "target", "", "lost",
    ]);
    let mut of = None;
    for slow in figures {
        let Some(offence) = slow.measure.strip_prefix(&format!("{SLOW}-")) else {
            continue;
        };
        if of.replace(&slow.contender) != Some(&slow.contender) {
            table.section(&slow.contender.subject);
        }
        let value = |measure: &str| {
            let measure = format!("{measure}-{offence}");
            let is_it = |one: &&Figure| one.contender == slow.contender && one.measure == measure;
            let summary = figures.iter().find(is_it).and_then(|one| one.summary);
            summary.map(|one| one.median)
        };
        let count = |measure| value(measure).map_or_else(String::new, |one| format!("{one:.0}"));
        let title = OFFENCES.iter().find(|(known, _)| *known == offence);
        let more = slow.difference.map(|more| milliseconds(more.value));
        let times = slow.ratio.map(|ratio| four_figures(ratio.value));
        table.line([
            format!("  {}", title.map_or("nothing", |(_, title)| title)),
            count(ASKED),
            value(USUAL).map_or_else(String::new, milliseconds),
            value(SLOW).map_or_else(String::new, milliseconds),
            more.unwrap_or_default(),
            times.unwrap_or_default(),
            slow.target.map_or_else(String::new, target_words),
            slow.verdict_cell(),
            count(LOST),
        ]);
    }
    table
}

fn target_words(target: Target) -> String {
    match target {
        Target::AtMostTimesOther(most) => format!("× ≤ {most}"),
        _ => "≤ +1".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::present_on_terminal;

    #[test]
    fn what_a_neighbour_does_stands_down() {
        let contenders = [SERVE, NGINX].map(|subject| Contender::new(WORKLOAD, subject));
        let mut samples = Samples::new(contenders.to_vec());
        for round in 0..6 {
            let of = |offence: &str, p99_us: f64, lost| {
                vec![
                    Reading::one_us(&format!("p50-{offence}"), 100.0 + f64::from(round)),
                    Reading::one_us(&format!("p99-{offence}"), p99_us + f64::from(round)),
                    Reading::one_count(&format!("lost-{offence}"), lost),
                    Reading::one_count(&format!("asked-{offence}"), 1000),
                ]
            };
            let ours = [
                of(QUIET, 400.0, 0),
                of("flood", 900.0, 0),
                of("loop", 8_000.0, 1),
            ];
            let theirs = [of(QUIET, 400.0, 0), of("loop", 1_600_000.0, 0)];
            samples.push_round(vec![ours.concat(), theirs.concat()]);
        }
        let (figures, text) = present_on_terminal(&Neighbours, &samples);
        insta::assert_snapshot!(text);
        let short = |one: &&Figure| one.verdict == Some(Verdict::Short);
        assert_eq!(
            figures.iter().filter(short).count(),
            2,
            "later, and one lost"
        );
    }

    #[test]
    fn a_fifth_or_a_millisecond_whichever_is_more() {
        assert_eq!(target_beside(&[400.0]), Target::AtMostOverOther(1_000.0));
        assert_eq!(target_beside(&[50_000.0]), Target::AtMostTimesOther(1.2));
    }
}
