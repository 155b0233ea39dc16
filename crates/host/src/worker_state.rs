//! What one worker serves with, made from a generation on the worker's thread.
//!
//! ```text
//!  Generation ──▶ WorkerState: routes ──▶ RouteTarget: filters' handles, a service
//! ```
//!
//! What a generation has in common with the one before is taken over: a filter that stays keeps its instances and what
//! they know, and so does a component.

use crate::{
    client::{self, Client},
    filters::{self, FilterHandle},
    generation::Generation,
    kinds::GuestKind,
    metrics::GuestMetrics,
    path::Ambiguities,
    record::{Recorder, RouteRecorder},
    route::Routes,
    services::{Context, Service, component::ComponentService},
};
use http::{Uri, request};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// What one worker serves with.
pub struct WorkerState {
    generation: Arc<Generation>,
    routes: Routes,
    /// By the indices of `routes`.
    targets: Vec<RouteTarget>,
    pub(crate) recorder: Rc<Recorder>,
}

/// Where a route leads.
pub(crate) struct RouteTarget {
    pub(crate) name: Rc<str>,
    pub(crate) filters: Box<[Rc<FilterHandle>]>,
    pub(crate) service: Rc<Service>,
    pub(crate) is_stripped: bool,
    /// What its paths may have that others read otherwise.
    pub(crate) ambiguous_paths: Ambiguities,
}

impl RouteTarget {
    /// Where a client is sent that asks for the folder of a route that takes its path away and leaves this `rest`, and
    /// forgets the slash: what the folder's pages name would be looked for beside it.
    pub(crate) fn redirect_to_folder(&self, rest: &str, uri: &Uri) -> Option<String> {
        if !rest.is_empty() || !self.service.has_folders() {
            return None;
        }
        let (_, name) = uri.path().rsplit_once('/')?;
        let query = uri.query().map(|query| format!("?{query}"));
        (!name.is_empty()).then(|| format!("./{name}/{}", query.unwrap_or_default()))
    }
}

thread_local! {
    /// What a worker keeps from one generation to the next.
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

struct Kept {
    client: Client,
    next_number: Rc<Cell<u64>>,
    handles: Vec<Weak<FilterHandle>>,
    components: Vec<Weak<ComponentService>>,
}

impl WorkerState {
    /// The state of this worker, whose thread this is, for a generation.
    pub(crate) fn new(generation: &Arc<Generation>, worker: usize) -> Self {
        KEPT.with_borrow_mut(|kept| {
            let kept = kept.get_or_insert_with(Kept::new);
            let handles = make_handles(generation, worker, kept);
            let services = make_services(generation, worker, kept);
            kept.handles = handles.values().map(Rc::downgrade).collect();
            let components = services.values();
            kept.components = components
                .filter_map(|service| service.component())
                .collect();
            let targets = make_targets(generation, &handles, &services);
            Self {
                recorder: Rc::new(make_recorder(generation, worker, &targets, kept)),
                targets,
                routes: Routes::new(&generation.config.routes),
                generation: Arc::clone(generation),
            }
        })
    }

    /// The target of a request whose path is normal, and its index.
    pub(crate) fn find(&self, request: &request::Parts) -> Option<(usize, &RouteTarget)> {
        let at = self.routes.find(request)?;
        Some((at, self.targets.get(at)?))
    }

    /// Whether a request may go to this target though some would take its path for another one: the route says that its
    /// filters and its service know, and none of these readings leads elsewhere.
    pub(crate) fn takes(
        &self,
        (at, target): (usize, &RouteTarget),
        request: &request::Parts,
    ) -> bool {
        let path = request.uri.path();
        let ambiguities = Ambiguities::of(path);
        let leads_here = |reading: Option<String>| {
            reading.is_some_and(|path| self.routes.find_path(request, &path) == Some(at))
        };
        ambiguities.is_empty()
            || ambiguities.is_within(target.ambiguous_paths)
                && ambiguities.readings(path).all(leads_here)
    }

    /// What the route leaves of a normal path.
    pub(crate) fn rest<'path>(&self, at: usize, path: &'path str) -> &'path str {
        self.routes.rest(at, path)
    }

    /// How long a request may wait for its response.
    pub(crate) fn answer_time(&self) -> Duration {
        self.generation.config.limits.answer_time
    }

    /// The target of this index.
    pub(crate) fn target(&self, at: usize) -> Option<&RouteTarget> {
        self.targets.get(at)
    }
}

/// Has the filters of this worker leave, and waits until they have.
pub(crate) async fn end() {
    let kept = KEPT.take();
    for handle in kept.iter().flat_map(|kept| &kept.handles) {
        if let Some(handle) = handle.upgrade() {
            handle.end();
        }
    }
    filters::left().await;
}

type Handles<'a> = BTreeMap<&'a str, Rc<FilterHandle>>;
type Services<'a> = BTreeMap<&'a str, Rc<Service>>;

fn make_handles<'a>(generation: &'a Generation, worker: usize, kept: &Kept) -> Handles<'a> {
    let registry = &generation.registry;
    let filters = generation.filters.iter();
    filters
        .map(|(name, loaded)| {
            let metrics = registry.guest(GuestKind::Filter, name, worker);
            (&**name, kept.handle(loaded, metrics))
        })
        .collect()
}

fn make_services<'a>(generation: &'a Generation, worker: usize, kept: &Kept) -> Services<'a> {
    let context = Context {
        client: &kept.client,
        answer_time: generation.config.limits.answer_time,
        components: &kept.components,
    };
    let registry = &generation.registry;
    let services = generation.services.iter();
    services
        .map(|(name, loaded)| {
            let metrics = registry.guest(GuestKind::Service, name, worker);
            let service = Service::new(name, loaded, metrics, &context);
            (&**name, Rc::new(service))
        })
        .collect()
}

fn make_targets(
    generation: &Generation,
    handles: &Handles<'_>,
    services: &Services<'_>,
) -> Vec<RouteTarget> {
    let routes = generation.config.routes.iter();
    routes
        .map(|route| {
            let filters = route.filters.iter();
            let filters: Box<[_]> = filters.map(|name| Rc::clone(&handles[&**name])).collect();
            RouteTarget {
                name: Rc::from(&*route.name),
                filters,
                service: Rc::clone(&services[&*route.service]),
                is_stripped: route.strip,
                ambiguous_paths: route.ambiguous_paths,
            }
        })
        .collect()
}

fn make_recorder(
    generation: &Generation,
    worker: usize,
    targets: &[RouteTarget],
    kept: &Kept,
) -> Recorder {
    let registry = &generation.registry;
    let routes = targets.iter().map(|target| RouteRecorder {
        name: Rc::clone(&target.name),
        metrics: registry.route(&target.name, worker),
        service: Some(Arc::clone(&target.service.metrics)),
    });
    let unrouted = RouteRecorder {
        name: Rc::from(""),
        metrics: registry.route("", worker),
        service: None,
    };
    let next_number = Rc::clone(&kept.next_number);
    Recorder::new(
        generation.log.clone(),
        routes.collect(),
        unrouted,
        next_number,
    )
}

/// Where a worker's requests are counted from: at random, so that a number is found once in the lines of all workers
/// and of all starts, and far enough from the numbers that readers of JSON take for inexact ones (2^53).
fn first_number() -> u64 {
    RandomState::new().hash_one(0) >> 12
}

impl Kept {
    fn new() -> Self {
        Self {
            client: Client::new(client::Settings::default()),
            next_number: Rc::new(Cell::new(first_number())),
            handles: Vec::new(),
            components: Vec::new(),
        }
    }

    /// The handle of a filter: the one that there is, if it is the same filter.
    fn handle(
        &self,
        loaded: &Arc<filters::Loaded>,
        metrics: Arc<GuestMetrics>,
    ) -> Rc<FilterHandle> {
        let mut handles = self.handles.iter().filter_map(Weak::upgrade);
        handles
            .find(|handle| Arc::ptr_eq(&handle.loaded, loaded))
            .unwrap_or_else(|| FilterHandle::new(loaded, metrics))
    }
}
