//! What a request costs between its head and its answer's: the route, filters there and back, a file of 1 KB.
//! No socket, no HTTP.
//!
//! Wants `palisade-compiler` and `palisade-worker` of the same profile built before.

use criterion::{Criterion, criterion_group, criterion_main};
use http::{HeaderMap, HeaderValue, Request, header};
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
use std::{env, fs, num::NonZeroUsize, path::Path, pin::pin, rc::Rc, sync::Arc, task::Poll};

/// Two callbacks that do nothing.
const NULL: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 0))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 0)))"#;

/// Every callback of a header filter, none of which does anything.
const ALL: &str = r#"(module
    (memory (export "memory") 1)
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_context_create") (param i32 i32))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 0))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 0))
    (func (export "proxy_on_done") (param i32) (result i32) (i32.const 1))
    (func (export "proxy_on_log") (param i32))
    (func (export "proxy_on_delete") (param i32)))"#;

/// Reads a field, adds one to the request and one to the answer.
const HEADERS: &str = r#"(module
    (import "env" "proxy_get_header_map_value"
      (func $get (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_add_header_map_value"
      (func $add (param i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 64) "user-agent" "x-filter" "palisade")
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
      (drop (call $get (i32.const 0) (i32.const 64) (i32.const 10) (i32.const 8) (i32.const 12)))
      (call $add (i32.const 0) (i32.const 74) (i32.const 8) (i32.const 82) (i32.const 8)))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
      (call $add (i32.const 2) (i32.const 74) (i32.const 8) (i32.const 82) (i32.const 8))))"#;

const CONFIG: &str = r#"
    [[listen]]
    address = "127.0.0.1:0"
    [services.site]
    files = "site"
    [filters.null]
    module = "null.wasm"
    isolation = "kept"
    [filters.all]
    module = "all.wasm"
    isolation = "kept"
    [filters.headers]
    module = "headers.wasm"
    isolation = "kept"
    [filters.fresh]
    module = "null.wasm"
    isolation = "fresh"
    [[route]]
    path = "/null"
    filters = ["null"]
    service = "site"
    [[route]]
    path = "/all"
    filters = ["all"]
    service = "site"
    [[route]]
    path = "/headers"
    filters = ["headers"]
    service = "site"
    [[route]]
    path = "/fresh"
    filters = ["fresh"]
    service = "site"
    [[route]]
    path = "/"
    service = "site"
"#;

const FOLDERS: [&str; 5] = ["none", "null", "all", "headers", "fresh"];

fn write_site(folder: &Path) {
    for (name, text) in [("null", NULL), ("all", ALL), ("headers", HEADERS)] {
        let binary = wat::parse_str(text).expect("read the guest's text");
        fs::write(folder.join(name).with_extension("wasm"), binary).expect("write the guest");
    }
    for name in FOLDERS {
        let path = folder.join("site").join(name);
        fs::create_dir_all(&path).expect("make a folder");
        fs::write(path.join("1k"), [b'x'; 1024]).expect("write a file");
    }
}

fn generation(folder: &Path) -> Generation {
    let config = Config::from_toml(CONFIG, "host.toml", folder).expect("a configuration");
    let own = env::current_exe().expect("a path of this program");
    let built = own.ancestors().nth(2).expect("target/TRIPLE/PROFILE/deps");
    let launcher = Arc::new(Launcher::new(Machine::probe()));
    let programs = Programs::find(Some(built)).expect("the compiler");
    let caches = folder.join("caches");
    let code = CodeStore::start(&programs, launcher.machine(), Some(&caches));
    let tools = Tools {
        programs,
        code: Arc::new(code.expect("threads that compile")),
        machine: launcher.machine().clone(),
        workers: NonZeroUsize::MIN,
        supervisor: Supervisor::start(launcher, config.programs).expect("a supervisor"),
        caches: Some(caches),
        engine: Engine::shared().expect("an engine"),
        shared: Arc::new(Shared::default()),
        registry: Arc::new(Registry::default()),
        aside: Arc::default(),
        log: Log::start(&config.log).expect("a log"),
    };
    load(config, Vec::new(), None, &Suspects::All, &tools).expect("a generation")
}

/// What a client like `wrk` or a browser's library sends.
fn fields() -> HeaderMap {
    let fields = [
        (header::HOST, "example.com"),
        (header::USER_AGENT, "bench/1"),
        (header::ACCEPT, "*/*"),
    ];
    let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
    fields.into_iter().collect()
}

/// A request whose answer is there at the first look.
fn ask(state: &Rc<WorkerState>, peer: &Rc<Peer>, path: &'static str, fields: &HeaderMap) -> usize {
    let (mut head, body) = Request::new(Body::Empty).into_parts();
    head.uri = http::Uri::from_static(path);
    head.headers = fields.clone();
    // As on a busy worker: there is no end of requests in this quarter of a second.
    let mut record = state.open(peer, &head, 1);
    let request = Request::from_parts(head, body);
    let response = Rc::clone(state).respond(peer, request, &mut record);
    let mut response = pin!(response);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match response.as_mut().poll(&mut context) {
        Poll::Ready(response) => {
            assert_eq!(response.status(), http::StatusCode::OK);
            response.headers().len()
        }
        Poll::Pending => unreachable!("a small file is read at the first request"),
    }
}

fn requests(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    write_site(folder.path());
    let generation = Arc::new(generation(folder.path()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    let state = tasks.block_on(&runtime, async { WorkerState::state(&generation, 0) });
    let peer = Rc::new(Peer::default());
    let fields = fields();
    for path in [
        "/none/1k",
        "/null/1k",
        "/all/1k",
        "/headers/1k",
        "/fresh/1k",
    ] {
        // The first reads the file.
        let mut request = Request::new(Body::Empty);
        *request.uri_mut() = http::Uri::from_static(path);
        let mut record = RequestRecord::default();
        let first = Rc::clone(&state).respond(&peer, request, &mut record);
        let first = tasks.block_on(&runtime, first);
        assert_eq!(first.status(), http::StatusCode::OK, "{path}");
        drop(first);
        criterion.bench_function(path, |bencher| {
            let measured = async {
                bencher.iter(|| ask(&state, &peer, path, &fields));
            };
            tasks.block_on(&runtime, measured);
        });
    }
    // Its filters leave on tasks.
    tasks.block_on(&runtime, async { drop(state) });
}

criterion_group!(benches, requests);
criterion_main!(benches);
