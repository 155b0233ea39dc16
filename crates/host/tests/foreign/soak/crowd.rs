//! A crowd of tenants, of whom some are hostile, each in a way of its own, while one after the other gets a new file and
//! programs are killed. No request of the others fails or is answered by somebody else, and nothing is left.
//!
//! `PALISADE_SOAK` is how many seconds it takes, `PALISADE_SOAK_TENANTS` how many tenants there are.

use super::{Over, Seen, asked_seconds, samples};
use crate::density::another;
use crate::fixture::{Fixture, PATIENCE, Places};
use crate::raw_http::{Answer, Request, exchange};
use palisade_suite::guests::{Component, Filter, Program};
use palisade_suite::served;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    env, fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How many there are where nobody says it.
const TENANTS: usize = 120;
/// Who asks on behalf of tenants that harm nobody.
const ASKERS: usize = 3;
/// Different components; tenants have one of them each.
const COMPONENTS: usize = 16;
/// Programs of the one that has them started all the time: more than may run.
const COLD: usize = 6;
/// Programs that may run at one time.
const PROGRAMS: usize = 12;

/// What is done to the server; each must have happened.
const KINDS: [&str; 7] = [
    "another file of a tenant",
    "a killed program",
    "loops",
    "traps",
    "compilations",
    "cold starts",
    "load",
];

/// What a tenant has that harms nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Files,
    Filter,
    Component,
    Program,
}

impl Has {
    fn of(number: usize) -> Self {
        match number {
            _ if number % 40 == 3 => Self::Program,
            _ if number % 10 == 1 => Self::Component,
            _ if number % 10 == 2 => Self::Filter,
            _ => Self::Files,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Filter => "filter",
            Self::Component => "component",
            Self::Program => "program",
        }
    }

    fn file(self, folder: &Path) -> String {
        match self {
            Self::Files => "[services.it]\nfiles = \"site\"\n[[route]]\nservice = \"it\"\n".into(),
            Self::Filter => {
                "[filters.f]\nmodule = \"headers.wasm\"\n[services.it]\nfiles = \"site\"\n\
                 [[route]]\nfilters = [\"f\"]\nservice = \"it\"\n"
                    .into()
            }
            Self::Component => {
                "[services.it]\ncomponent = \"hello.wasm\"\n[[route]]\nservice = \"it\"\n".into()
            }
            Self::Program => {
                program("it", &folder.join("server")) + "[[route]]\nservice = \"it\"\n"
            }
        }
    }

    fn is_right(self, tenant: &str, answer: &Answer) -> bool {
        let text = answer.text();
        let body = match self {
            Self::Files | Self::Filter => tenant,
            Self::Component | Self::Program => "Hello, world!\n",
        };
        answer.status == 200 && text == body
    }
}

/// A service of the program at that path.
fn program(name: &str, path: &Path) -> String {
    format!(
        "[services.{name}]\nprogram = [{path:?}]\nback-off = \"1ms\"\nback-off-most = \"100ms\"\n\
         start-time = \"5m\"\npolicy.grants.read = [{path:?}]\n"
    )
}

fn name_of(number: usize) -> String {
    format!("t{number}")
}

struct Crowd<'a> {
    fixture: &'a Fixture,
    places: &'a Places,
    seen: &'a Seen,
    tenants: usize,
    /// Whom to ask next.
    next: AtomicUsize,
}

pub(crate) fn tenants_do_not_harm_each_other() {
    let tenants = env::var("PALISADE_SOAK_TENANTS").map_or(TENANTS, |text| {
        text.parse().expect("PALISADE_SOAK_TENANTS is a number")
    });
    let (is_asked, seconds) = asked_seconds();
    let fixture = fixture(tenants);
    let mut server = fixture.serve();
    let seen = Seen::default();
    let crowd = Crowd {
        fixture: &fixture,
        places: server.places(),
        seen: &seen,
        tenants,
        next: AtomicUsize::new(0),
    };
    // Each once, so that what the first request of a tenant leaves open is there before anything is measured.
    for number in 0..tenants {
        crowd.wait_for(number);
    }
    let before = samples::at_rest(crowd.places);
    let samples = crowd.under_load(seconds);
    let after = samples::at_rest(crowd.places);
    let counts = seen.counts();
    if is_asked {
        samples::summarize(&samples, &counts, &server.admin("/metrics"));
    }
    samples::keep(&samples);
    assert!(server.is_alive(), "{}", server.log());
    let failures = &counts.failures;
    assert!(
        failures.is_empty(),
        "{} failed:\n{}\n{}",
        failures.len(),
        failures.join("\n"),
        server.log()
    );
    for kind in [Has::Files, Has::Filter, Has::Component, Has::Program] {
        let answered = counts.good.get(kind.name()).copied().unwrap_or(0);
        assert!(answered > 0, "{} was never answered", kind.name());
    }
    for kind in KINDS {
        let times = counts.trouble.get(kind).copied().unwrap_or(0);
        assert!(times > 0, "{kind} never happened");
    }
    // Programs of tenants that have been asked run on.
    samples::assert_flat_but(&samples, PROGRAMS, tenants);
    samples::assert_given_back_but(before, after, PROGRAMS as u64);
    let below = samples::descendants(server.process());
    drop(server);
    let began = Instant::now();
    let is_there = |process: &u32| Path::new(&format!("/proc/{process}")).exists();
    while below.iter().any(is_there) {
        assert!(
            began.elapsed() < PATIENCE,
            "processes are left of {below:?}"
        );
        thread::sleep(Duration::from_millis(10));
    }
}

fn fixture(tenants: usize) -> Fixture {
    let mut fixture = Fixture::new()
        .answer_time("5m")
        .quiet()
        .workers(2)
        .text(&format!("[programs]\nmost = {PROGRAMS}\n"))
        .text("[tenants]\nhosts = [\"{tenant}.test\"]\nfolder = \"tenants/{tenant}\"\nmay = [\"program\"]\n");
    fixture.edit(
        "workers = 2\n",
        "workers = 2\ninclude = [\"tenants.d/*.toml\"]\n",
    );
    fs::create_dir(fixture.folder().join("tenants.d")).expect("make a folder");
    let components: Vec<_> = (0..COMPONENTS)
        .map(|number| another(&served::component(Component::Hello), number))
        .collect();
    let filter = fs::read(served::filter(Filter::Headers)).expect("read the filter");
    let server = served::program(Program::Server);
    for number in 0..tenants {
        let (tenant, has) = (name_of(number), Has::of(number));
        let folder = fixture.folder().join("tenants").join(&tenant);
        fs::create_dir_all(folder.join("site")).expect("make folders");
        fs::write(folder.join("site/index.html"), &tenant).expect("write a page");
        match has {
            Has::Files => {}
            Has::Filter => fs::write(folder.join("headers.wasm"), &filter).expect("write a filter"),
            Has::Component => {
                let component = &components[number % COMPONENTS];
                fs::write(folder.join("hello.wasm"), component).expect("write a component");
            }
            Has::Program => {
                fs::copy(&server, folder.join("server")).expect("copy a program");
            }
        }
        fixture.put(&format!("tenants.d/{tenant}.toml"), has.file(&folder));
    }
    add_hostile(&fixture);
    fixture
}

/// A tenant for each way of being hostile, called by it.
fn add_hostile(fixture: &Fixture) {
    let folder = |tenant: &str| {
        let folder = fixture.folder().join("tenants").join(tenant);
        fs::create_dir_all(folder.join("site")).expect("make folders");
        folder
    };
    let put = |tenant: &str, text: &str| fixture.put(&format!("tenants.d/{tenant}.toml"), text);
    let most = "faults = { most = 1000000 }";
    fs::copy(
        served::filter(Filter::Hostile),
        folder("loops").join("hostile.wasm"),
    )
    .expect("copy");
    put(
        "loops",
        &format!(
            "[filters.f]\nmodule = \"hostile.wasm\"\nconfiguration = \"loop\"\n{most}\n\
             [services.it]\nfiles = \"site\"\n[[route]]\nfilters = [\"f\"]\nservice = \"it\"\n"
        ),
    );
    fs::copy(
        served::component(Component::Faulty),
        folder("traps").join("faulty.wasm"),
    )
    .expect("copy");
    put(
        "traps",
        &format!(
            "[services.it]\ncomponent = \"faulty.wasm\"\n{most}\n[[route]]\nservice = \"it\"\n"
        ),
    );
    let hello = another(&served::component(Component::Hello), COMPONENTS);
    fs::write(folder("compiles").join("hello.wasm"), hello).expect("write a component");
    put("compiles", &Has::Component.file(Path::new("")));
    fs::write(folder("load").join("site/index.html"), "load").expect("write a page");
    put("load", &Has::Files.file(Path::new("")));
    let cold = folder("cold");
    fs::copy(served::program(Program::Server), cold.join("server")).expect("copy a program");
    let services = (0..COLD).map(|number| {
        let service = program(&format!("p{number}"), &cold.join("server"));
        format!("{service}[[route]]\npath = \"/{number}\"\nstrip = true\nservice = \"p{number}\"\n")
    });
    put("cold", &services.collect::<String>());
}

impl Crowd<'_> {
    fn under_load(&self, seconds: u64) -> Vec<samples::Sample> {
        let hostile: [fn(&Self); 5] = [
            |crowd| crowd.ask("loops", "/attack", b"", "loops"),
            |crowd| crowd.ask("traps", "/", b"x", "traps"),
            Self::compile_anew,
            Self::start_cold,
            |crowd| crowd.ask("load", "/", b"", "load"),
        ];
        let done_over_and_over = |what: fn(&Self)| {
            while !self.seen.is_over() {
                what(self);
            }
        };
        thread::scope(|scope| {
            // However this ends, the others end too.
            let _over = Over(self.seen);
            for _ in 0..ASKERS {
                scope.spawn(|| done_over_and_over(Self::ask_the_next));
            }
            for what in hostile {
                scope.spawn(move || done_over_and_over(what));
            }
            scope.spawn(|| {
                let mut round = 0;
                while !self.seen.is_over() {
                    self.change_one(round);
                    self.kill_program();
                    round += 1;
                }
            });
            samples::watch(self.places, self.seen, Duration::from_secs(seconds))
        })
    }

    fn exchange(&self, tenant: &str, path: &str, body: &[u8]) -> std::io::Result<Answer> {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let host = format!("{tenant}.test");
        let request = Request::new(method, path).header("host", &host);
        let request = if body.is_empty() {
            request
        } else {
            request.body(body)
        };
        exchange(&self.places.socket, &request)
    }

    /// A tenant that harms nobody, once it is there: while its code is compiled it is told to come again.
    fn wait_for(&self, number: usize) {
        let (tenant, began) = (name_of(number), Instant::now());
        loop {
            let answer = self.exchange(&tenant, "/", b"").expect("an answer");
            if answer.status != 503 {
                assert!(
                    Has::of(number).is_right(&tenant, &answer),
                    "{tenant}: {}",
                    answer.status
                );
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{tenant} is not there");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask_the_next(&self) {
        // Most are asked seldom, and some often.
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let number = match turn % 2 {
            0 => turn / 2 % self.tenants,
            _ => turn / 2 % 40.min(self.tenants),
        };
        let (tenant, has) = (name_of(number), Has::of(number));
        match self.exchange(&tenant, "/", b"") {
            Ok(answer) if has.is_right(&tenant, &answer) => self.seen.good(has.name()),
            Ok(answer) => {
                let mut text = answer.text();
                text.truncate(200);
                self.seen.fail(format!(
                    "{tenant}, {}: {}: {text}",
                    has.name(),
                    answer.status
                ));
            }
            Err(error) => self.seen.fail(format!("{tenant}, {}: {error}", has.name())),
        }
    }

    /// However it is answered.
    fn ask(&self, tenant: &str, path: &str, body: &[u8], kind: &'static str) {
        let _ = self.exchange(tenant, path, body);
        self.seen.trouble(kind, 1);
    }

    fn compile_anew(&self) {
        let hello = another(&served::component(Component::Hello), COMPONENTS);
        self.fixture.put("tenants/compiles/hello.wasm", hello);
        self.fixture.put(
            "tenants.d/compiles.toml",
            Has::Component.file(Path::new("")),
        );
        self.reload();
        self.ask("compiles", "/", b"", "compilations");
    }

    fn start_cold(&self) {
        for number in 0..COLD {
            self.ask("cold", &format!("/{number}"), b"", "cold starts");
        }
    }

    /// The same with other letters: the tenant is loaded anew.
    fn change_one(&self, round: usize) {
        let number = round * 7 % self.tenants;
        let tenant = name_of(number);
        let folder = self.fixture.folder().join("tenants").join(&tenant);
        let text = format!("# {round}\n{}", Has::of(number).file(&folder));
        self.fixture.put(&format!("tenants.d/{tenant}.toml"), text);
        self.reload();
        self.seen.trouble("another file of a tenant", 1);
    }

    fn reload(&self) {
        match exchange(&self.places.admin, &Request::new("POST", "/reload")) {
            Ok(answer) if answer.status == 200 => {}
            answer => self.seen.fail(format!("a reload: {answer:?}")),
        }
    }

    /// One of the programs that run, as if the kernel had chosen it.
    fn kill_program(&self) {
        let is_program = |pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
            program.ends_with(b"/server")
        };
        let found = samples::descendants(self.places.process)
            .into_iter()
            .find(is_program);
        let Some(pid) = found.and_then(|pid| Pid::from_raw(pid.cast_signed())) else {
            return;
        };
        if kill_process(pid, Signal::KILL).is_ok() {
            self.seen.trouble("a killed program", 1);
        }
    }
}
