//! Load, and everything that happens to a server meanwhile: reloads, versions that are broken, programs that die,
//! guests that trap, certificates that change, clients that are slow, vanish or stop halfway. No request fails that is
//! not meant to, and nothing grows.
//!
//! `PALISADE_SOAK` is how many seconds it takes, and has a summary told; `PALISADE_SOAK_SAMPLES` is a file for what was
//! seen each second.

mod clients;
pub(crate) mod crowd;
pub(crate) mod http2;
mod samples;
pub(crate) mod tls;
mod trouble;

use crate::fixture::{Fixture, Places, fetched};
use crate::raw_http::{Answer, Request};
use clients::Kind;
use palisade_suite::guests::{Component, Filter, Program};
use palisade_suite::served;
pub(crate) use samples::growth_is_told_from_chance;
use std::{
    collections::BTreeMap,
    env, fs,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// How long it takes where nobody says it.
const SECONDS: u64 = 8;
/// The page that is served.
static PAGE: [u8; 100 << 10] = [b'a'; 100 << 10];

/// What clients have seen.
#[derive(Default)]
struct Seen {
    is_over: AtomicBool,
    counts: Mutex<Counts>,
}

/// By their kinds.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Requests that were answered as they must be.
    good: BTreeMap<&'static str, u64>,
    /// What was done to the server, and came out as it is documented.
    trouble: BTreeMap<&'static str, u64>,
    failures: Vec<String>,
}

impl Counts {
    fn all_good(&self) -> u64 {
        self.good.values().sum()
    }
}

impl Seen {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn counts(&self) -> Counts {
        self.counts.lock().expect("no panic").clone()
    }

    fn good(&self, kind: &'static str) {
        let mut counts = self.counts.lock().expect("no panic");
        *counts.good.entry(kind).or_default() += 1;
    }

    fn trouble(&self, kind: &'static str, times: u64) {
        let mut counts = self.counts.lock().expect("no panic");
        *counts.trouble.entry(kind).or_default() += times;
    }

    fn fail(&self, what: String) {
        let mut counts = self.counts.lock().expect("no panic");
        counts.failures.push(what);
    }
}

/// The guests that are put under load.
struct Guests {
    filter: PathBuf,
    component: PathBuf,
    /// What the component says.
    greeting: &'static str,
}

/// A filter and a component that nobody here wrote, where they could be had.
fn guests() -> Guests {
    let (filter, component) = (fetched("http_headers"), fetched("http_proxy_0.2.12"));
    match filter.is_file() && component.is_file() {
        true => Guests {
            filter,
            component,
            greeting: "Hello, WASI!",
        },
        false => Guests {
            filter: served::filter(Filter::Headers),
            component: served::component(Component::Hello),
            greeting: "Hello, world!\n",
        },
    }
}

/// Whether somebody says how long it takes, and how long it takes.
fn asked_seconds() -> (bool, u64) {
    let asked = env::var("PALISADE_SOAK").ok();
    let seconds = asked.as_ref().map_or(SECONDS, |text| {
        text.parse().expect("PALISADE_SOAK is a number of seconds")
    });
    (asked.is_some(), seconds)
}

pub(crate) fn no_request_fails_whatever_happens() {
    let (is_asked, seconds) = asked_seconds();
    let guests = guests();
    let issuer = tls::Issuer::new();
    let fixture = fixture(&guests, &issuer);
    let kinds = clients::kinds(guests.greeting);
    let mut server = fixture.serve();
    let seen = Seen::default();
    let mut trouble = trouble::Trouble::new(&fixture, server.places(), &issuer, &seen);
    // Each kind of trouble with each version before anything is measured: what is compiled then is in the cache later.
    for _ in 0..trouble::VERSIONS {
        trouble.all_once();
    }
    // It sees off whoever holds a connection.
    let before = samples::at_rest(server.places());
    let samples = under_load(server.places(), &issuer, &kinds, seconds, trouble);
    let after = samples::at_rest(server.places());
    let counts = seen.counts();
    let figures = server.admin("/metrics");
    if is_asked {
        samples::summarize(&samples, &counts, &figures);
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
    for kind in &kinds {
        let answered = counts.good.get(kind.name).copied().unwrap_or(0);
        assert!(answered > 0, "{} was never answered", kind.name);
    }
    assert!(counts.all_good() > seconds * 100, "too few to tell");
    for kind in trouble::KINDS {
        let times = counts.trouble.get(kind).copied().unwrap_or(0);
        assert!(times > 0, "{kind} never happened");
    }
    assert!(
        samples::figure(&figures, "palisade_timeouts_total") > 0,
        "slow clients were not seen off"
    );
    samples::assert_flat(&samples);
    samples::assert_given_back(before, after);
}

fn under_load(
    server: &Places,
    issuer: &tls::Issuer,
    kinds: &[Kind],
    seconds: u64,
    mut trouble: trouble::Trouble<'_>,
) -> Vec<samples::Sample> {
    let seen = trouble.seen();
    thread::scope(|scope| {
        // However this ends, the clients end too.
        let _over = Over(seen);
        for kind in kinds {
            for _ in 0..kind.clients {
                scope.spawn(|| clients::ask_until_over(server, issuer, kind, seen));
            }
        }
        scope.spawn(move || trouble.until_over());
        samples::watch(server, seen, Duration::from_secs(seconds))
    })
}

struct Over<'a>(&'a Seen);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

fn fixture(guests: &Guests, issuer: &tls::Issuer) -> Fixture {
    // A machine that does much else starts programs when it comes to it; under Linux 6.18 a new session, or control
    // group, has been seen to wait for more than a minute beside threads that are always busy.
    let fixture = Fixture::new()
        .answer_time("5m")
        .text("header-time = \"2s\"\nbody-time = \"4s\"\n")
        .backend("up", |_| Answer::new(200, "told"));
    let folder = fixture.folder().to_owned();
    fs::create_dir(folder.join("site")).expect("make a folder");
    fs::write(folder.join("site/page"), &PAGE[..]).expect("write a page");
    fs::copy(&guests.filter, folder.join("filter.wasm")).expect("copy the filter");
    fs::copy(&guests.component, folder.join("component.wasm")).expect("copy the component");
    issuer.certify(&fixture);
    let program = served::program(Program::Server);
    let policy = format!("policy = {{ grants = {{ read = [{program:?}] }} }}");
    fixture
        .quiet()
        .workers(2)
        .text("[[listen]]\naddress = \"unix:tls\"\ntls = { certificate = \"certificate.pem\", key = \"key.pem\" }\n")
        .text("[filters.foreign]\nmodule = \"filter.wasm\"\nisolation = \"kept\"\npolicy = { limits = { time = \"10s\" } }\n")
        .text("[services.site]\nfiles = \"site\"\n")
        .text("[services.component]\ncomponent = \"component.wasm\"\n")
        .text(&format!(
            "[services.program]\nprogram = [{program:?}]\nback-off = \"1ms\"\nback-off-most = \"1s\"\nstart-time = \"5m\"\n{policy}\n"
        ))
        .component(
            "faulty",
            &served::component(Component::Faulty),
            "faults = { most = 1000000 }",
        )
        .filter(
            "hostile",
            &served::filter(Filter::Hostile),
            "configuration = \"trap\"\nisolation = \"kept\"\nfaults = { most = 1000000 }\n\
             policy = { limits = { time = \"10s\" } }",
        )
        .route("/attack", &["hostile"], "up")
        .text("[[route]]\npath = \"/site\"\nstrip = true\nfilters = [\"foreign\"]\nservice = \"site\"\n")
        .route("/component", &["foreign"], "component")
        .route("/faulty", &["foreign"], "faulty")
        .text("[[route]]\npath = \"/program\"\nstrip = true\nfilters = [\"foreign\"]\nservice = \"program\"\n")
        .route("/up", &["foreign", "hostile"], "up")
}

/// What a server says whose log lies on a disk that is full.
pub(crate) fn a_full_disk_holds_nobody_up() {
    let fixture = Fixture::new()
        .log_to("/dev/full")
        .backend("up", |_| Answer::new(200, "told"))
        .route("/", &[], "up");
    let mut server = fixture.serve();
    for _ in 0..200 {
        let answer = server.ask(&Request::new("GET", "/"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "told"));
    }
    assert!(server.is_alive());
    let figures = server.admin("/metrics");
    let dropped = samples::figure(&figures, "palisade_log_lines_dropped_total");
    assert!(dropped >= 100, "{dropped} lines are known to be lost");
}
