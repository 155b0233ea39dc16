//! Requests for a file of 1 KB, as a busy worker meets them.

use crate::{Tell, Work, beside};
use anyhow::{Context, ensure};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use palisade_engine::guest::Engine;
use palisade_filter::{Peer, Shared};
use palisade_host::{
    body::Body,
    code::CodeStore,
    config::Config,
    generation::{Generation, Suspects, Tools, load},
    log::Log,
    metrics::Registry,
    record::RequestRecord,
    serve::Serve,
    services::program::Supervisor,
    worker_state::WorkerState,
};
use palisade_process::{Launcher, Machine};
use palisade_wasm::programs::Programs;
use std::{
    fs,
    num::NonZeroUsize,
    path::Path,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll, Waker},
};

const NULL: &str = include_str!("../../../lab/workloads/filter-null.wat");
const HEADER: &str = include_str!("../../../lab/workloads/filter-header.wat");

/// Steps take a thousand times as long as instructions.
const CONFIG: &str = r#"
    [[listen]]
    address = "127.0.0.1:0"
    [services.site]
    files = "site"
    [filters.null]
    module = "null.wasm"
    isolation = "kept"
    policy.limits.time = "10m"
    [filters.header]
    module = "header.wasm"
    isolation = "kept"
    policy.limits.time = "10m"
    [filters.fresh]
    module = "null.wasm"
    isolation = "fresh"
    policy.limits.time = "10m"
    [[route]]
    path = "/null"
    filters = ["null"]
    service = "site"
    [[route]]
    path = "/header"
    filters = ["header"]
    service = "site"
    [[route]]
    path = "/fresh"
    filters = ["fresh"]
    service = "site"
    [[route]]
    path = "/"
    service = "site"
"#;

/// What is counted, and the path that is asked for.
const REQUESTS: [(&str, &str); 4] = [
    ("request", "/none/1k"),
    ("request-null-filter", "/null/1k"),
    ("request-header-filter", "/header/1k"),
    ("request-fresh-filter", "/fresh/1k"),
];

/// What there is.
pub(crate) fn names() -> [&'static str; REQUESTS.len()] {
    REQUESTS.map(|(name, _)| name)
}

/// Tells of one.
pub(crate) fn run(name: &str, tell: Tell) -> anyhow::Result<()> {
    let found = REQUESTS.iter().find(|(found, _)| *found == name);
    let (_, path) =
        found.with_context(|| format!("usage: {name:?} is nothing that can be counted"))?;
    let folder = tempfile::tempdir().context("host: no folder can be made")?;
    lay_out(folder.path())?;
    let generation = Arc::new(generation(folder.path())?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = tokio::task::LocalSet::new();
    let state = tasks.block_on(&runtime, async { WorkerState::state(&generation, 0) });
    let peer = Rc::new(Peer::default());
    let wait = || tasks.block_on(&runtime, ask_and_wait(&state, &peer, path));
    // It reads the file and starts the filter.
    let status = wait();
    ensure!(status.is_success(), "host: {path} is answered {status}");
    let told = {
        let (_runtime, _tasks) = (runtime.enter(), tasks.enter());
        let fields = fields();
        tell(Work {
            before: &mut || _ = wait(),
            pass: &mut || ask(&state, &peer, path, &fields),
        })
    };
    // Its filters leave on tasks.
    tasks.block_on(&runtime, async { drop(state) });
    told
}

async fn ask_and_wait(state: &Rc<WorkerState>, peer: &Rc<Peer>, path: &'static str) -> StatusCode {
    let mut request = Request::new(Body::Empty);
    *request.uri_mut() = http::Uri::from_static(path);
    let mut record = RequestRecord::default();
    let response = Rc::clone(state).respond(peer, request, &mut record);
    response.await.status()
}

/// Whether the answer was there at the first look.
fn ask(state: &Rc<WorkerState>, peer: &Rc<Peer>, path: &'static str, fields: &HeaderMap) -> bool {
    let (mut head, body) = Request::new(Body::Empty).into_parts();
    head.uri = http::Uri::from_static(path);
    head.headers = fields.clone();
    // There is no end of requests in this quarter of a second.
    let mut record = state.open(peer, &head, 1);
    let request = Request::from_parts(head, body);
    let mut response = pin!(Rc::clone(state).respond(peer, request, &mut record));
    let mut context = TaskContext::from_waker(Waker::noop());
    match response.as_mut().poll(&mut context) {
        Poll::Ready(response) => response.status().is_success(),
        Poll::Pending => false,
    }
}

/// What a client's library sends.
fn fields() -> HeaderMap {
    let fields = [
        (header::HOST, "example.com"),
        (header::USER_AGENT, "lab/1"),
        (header::ACCEPT, "*/*"),
    ];
    let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
    fields.into_iter().collect()
}

fn lay_out(folder: &Path) -> anyhow::Result<()> {
    for (name, text) in [("null", NULL), ("header", HEADER)] {
        fs::write(
            folder.join(name).with_extension("wasm"),
            wat::parse_str(text)?,
        )?;
    }
    for name in ["none", "null", "header", "fresh"] {
        let path = folder.join("site").join(name);
        fs::create_dir_all(&path)?;
        fs::write(path.join("1k"), [b'x'; 1024])?;
    }
    Ok(())
}

fn generation(folder: &Path) -> anyhow::Result<Generation> {
    let config = Config::from_toml(CONFIG, "host.toml", folder)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    let launcher = Arc::new(Launcher::new(Machine::probe()));
    let programs = Programs::find(Some(&beside()?))?;
    let caches = folder.join("caches");
    let code = CodeStore::start(&programs, launcher.machine(), Some(&caches))?;
    let tools = Tools {
        programs,
        code: Arc::new(code),
        machine: launcher.machine().clone(),
        workers: NonZeroUsize::MIN,
        supervisor: Supervisor::start(launcher, config.programs)?,
        caches: Some(caches),
        engine: Engine::shared()?,
        shared: Arc::new(Shared::default()),
        registry: Arc::new(Registry::default()),
        aside: Arc::default(),
        log: Log::start(&config.log)?,
    };
    Ok(load(config, Vec::new(), None, &Suspects::All, &tools)?)
}
