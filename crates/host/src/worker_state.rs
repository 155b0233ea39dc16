//! What one worker serves with, made from a generation on the worker's thread.
//!
//! ```text
//!  Generation ──▶ WorkerState: Part (the main file) ──▶ RouteTarget: filters' handles, a service
//!                              Part, Part … (tenants) ──▶ …
//! ```
//!
//! A tenant's part is made when the first request comes for it, and stays while the tenant is the same one. What a part has
//! in common with the one before is taken over: a filter that stays keeps its instances and what they know, and so does a
//! component.

use crate::{
    aside::Aside,
    body::Body,
    client::{self, Client},
    filters::{self, FilterHandle},
    generation::{Generation, Place, Tenant, Whereto},
    kinds::GuestKind,
    lookup::{rest, segments},
    path::Ambiguities,
    record::{Recorder, RouteRecorder},
    responses,
    services::{Context, Service, component::ComponentService},
    turns::Party,
};
use http::{Response, Uri, request};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
    mem,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// Makes a response.
pub(crate) type Answer = fn() -> Response<Body>;

/// What one worker serves with.
pub struct WorkerState {
    generation: Arc<Generation>,
    worker: usize,
    main: Rc<Part>,
    /// By the generation's indices of tenants: made when the first request comes for one.
    tenants: RefCell<Vec<Option<Rc<Part>>>>,
    pub(crate) recorder: Rc<Recorder>,
}

/// What one worker has of one tenant.
struct Part {
    tenant: Arc<Tenant>,
    /// By the places of its routes.
    targets: Vec<Rc<RouteTarget>>,
    handles: Vec<Weak<FilterHandle>>,
    components: Vec<Weak<ComponentService>>,
    party: Rc<Party>,
}

/// Where a route leads.
pub(crate) struct RouteTarget {
    pub(crate) name: Rc<str>,
    pub(crate) filters: Box<[Rc<FilterHandle>]>,
    pub(crate) service: Rc<Service>,
    pub(crate) is_stripped: bool,
    /// Segments of the route's path.
    segments: usize,
    /// What its paths may have that others read otherwise.
    pub(crate) ambiguous_paths: Ambiguities,
    /// Where its requests are recorded.
    pub(crate) recorder: Rc<RouteRecorder>,
    /// Whose it is.
    pub(crate) party: Rc<Party>,
}

impl RouteTarget {
    /// What the route leaves of a normal path.
    pub(crate) fn rest<'path>(&self, path: &'path str) -> &'path str {
        rest(path, self.segments)
    }

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
    /// Those of the generation that serves, by their tenants' names.
    parts: BTreeMap<Arc<str>, Weak<Part>>,
}

impl WorkerState {
    /// The state of this worker, whose thread this is, for a generation.
    pub(crate) fn new(generation: &Arc<Generation>, worker: usize) -> Self {
        KEPT.with_borrow_mut(|kept| {
            let kept = kept.get_or_insert_with(Kept::new);
            // They are the present state's, which is still there.
            let before = mem::take(&mut kept.parts).into_iter();
            let mut before: BTreeMap<_, _> = before
                .filter_map(|(name, part)| Some((name, part.upgrade()?)))
                .collect();
            let known = before.remove(&generation.main.name);
            let main = Part::new(&generation.main, known.as_deref(), generation, worker, kept);
            kept.keep(&main);
            let mut tenants = vec![None; generation.tenants.len()];
            for (name, part) in before {
                let at = generation
                    .tenants
                    .binary_search_by(|tenant| tenant.name.cmp(&name));
                let Ok(at) = at else { continue };
                let tenant = &generation.tenants[at];
                // Of another one it is what filters and components go on with.
                let part = match Arc::ptr_eq(tenant, &part.tenant) {
                    true => part,
                    false => Part::new(tenant, Some(&part), generation, worker, kept),
                };
                kept.keep(&part);
                tenants[at] = Some(part);
            }
            Self {
                recorder: Rc::new(make_recorder(generation, worker, kept)),
                main,
                tenants: RefCell::new(tenants),
                worker,
                generation: Arc::clone(generation),
            }
        })
    }

    /// The target of a request whose path is normal, and its place.
    ///
    /// # Errors
    /// What is to be answered where there is none.
    pub(crate) fn find(
        &self,
        request: &request::Parts,
    ) -> Result<(Place, Rc<RouteTarget>), Answer> {
        let place = match self.generation.find(request, request.uri.path()) {
            Whereto::Route(place) => place,
            Whereto::Nowhere => return Err(responses::no_route),
            Whereto::Unavailable => return Err(responses::tenant_unavailable),
        };
        let target = self.target(place);
        let target = target.ok_or(responses::no_route as Answer)?;
        Ok((place, target))
    }

    fn target(&self, place: Place) -> Option<Rc<RouteTarget>> {
        let target = match place.tenant {
            None => self.main.targets.get(place.route)?.clone(),
            Some(at) => self.part(at)?.targets.get(place.route)?.clone(),
        };
        Some(target)
    }

    /// Whether a request may go to this target though some would take its path for another one: the route says that its
    /// filters and its service know, and none of these readings leads elsewhere.
    pub(crate) fn takes(
        &self,
        (place, target): (Place, &RouteTarget),
        request: &request::Parts,
    ) -> bool {
        let path = request.uri.path();
        let ambiguities = Ambiguities::of(path);
        let leads_here = |reading: Option<String>| {
            reading
                .is_some_and(|path| self.generation.find(request, &path) == Whereto::Route(place))
        };
        ambiguities.is_empty()
            || ambiguities.is_within(target.ambiguous_paths)
                && ambiguities.readings(path).all(leads_here)
    }

    /// Where requests of slow filters are answered.
    pub(crate) fn aside(&self) -> &Aside<Generation> {
        &self.generation.aside
    }

    /// How long a request may wait for its response.
    pub(crate) fn answer_time(&self) -> Duration {
        self.generation.config.limits.answer_time
    }

    /// What this worker has of the tenant of this index.
    fn part(&self, at: usize) -> Option<Rc<Part>> {
        if let Some(part) = self.tenants.borrow().get(at)? {
            return Some(Rc::clone(part));
        }
        let tenant = self.generation.tenants.get(at)?;
        let part = KEPT.with_borrow_mut(|kept| {
            let kept = kept.get_or_insert_with(Kept::new);
            let part = Part::new(tenant, None, &self.generation, self.worker, kept);
            kept.keep(&part);
            part
        });
        self.tenants.borrow_mut()[at] = Some(Rc::clone(&part));
        Some(part)
    }
}

/// Has the filters of this worker leave, and waits until they have.
pub(crate) async fn end() {
    let kept = KEPT.take();
    let parts = kept.iter().flat_map(|kept| kept.parts.values());
    for part in parts.filter_map(Weak::upgrade) {
        for handle in part.handles.iter().filter_map(Weak::upgrade) {
            handle.end();
        }
    }
    filters::left().await;
}

type Handles<'a> = BTreeMap<&'a str, Rc<FilterHandle>>;
type Services<'a> = BTreeMap<&'a str, Rc<Service>>;

impl Part {
    /// What this worker has of a tenant; filters and components that are those of `before` go on.
    fn new(
        tenant: &Arc<Tenant>,
        before: Option<&Self>,
        generation: &Generation,
        worker: usize,
        kept: &Kept,
    ) -> Rc<Self> {
        // One that was there has its place in the queue.
        let party = before.map_or_else(|| Party::new(&tenant.quota), |part| Rc::clone(&part.party));
        let handles = make_handles(tenant, &party, before, generation, worker);
        let services = make_services(tenant, &party, before, generation, worker, kept);
        let components = services.values();
        let components = components
            .filter_map(|service| service.component())
            .collect();
        Rc::new(Self {
            tenant: Arc::clone(tenant),
            targets: make_targets(tenant, &party, &handles, &services, generation, worker),
            party,
            handles: handles.values().map(Rc::downgrade).collect(),
            components,
        })
    }
}

fn make_handles<'a>(
    tenant: &'a Tenant,
    party: &Rc<Party>,
    before: Option<&Part>,
    generation: &Generation,
    worker: usize,
) -> Handles<'a> {
    let known = before.into_iter().flat_map(|part| &part.handles);
    let known = known.filter_map(Weak::upgrade);
    let known: HashMap<_, _> = known
        .map(|handle| (Arc::as_ptr(&handle.loaded), handle))
        .collect();
    let filters = tenant.filters.iter();
    filters
        .map(|(name, loaded)| {
            let handle = known.get(&Arc::as_ptr(loaded)).cloned();
            let handle = handle.unwrap_or_else(|| {
                let name = tenant.full_name(name);
                let metrics = generation.registry.guest(GuestKind::Filter, &name, worker);
                FilterHandle::new(loaded, metrics, party)
            });
            (&**name, handle)
        })
        .collect()
}

fn make_services<'a>(
    tenant: &'a Tenant,
    party: &Rc<Party>,
    before: Option<&Part>,
    generation: &Generation,
    worker: usize,
    kept: &Kept,
) -> Services<'a> {
    let context = Context {
        client: &kept.client,
        answer_time: generation.config.limits.answer_time,
        components: before.map_or(&[], |part| &part.components),
        party,
    };
    let services = tenant.services.iter();
    services
        .map(|(name, loaded)| {
            let full = tenant.full_name(name);
            let metrics = generation.registry.guest(GuestKind::Service, &full, worker);
            let service = Service::new(&full, loaded, metrics, &context);
            (&**name, Rc::new(service))
        })
        .collect()
}

fn make_targets(
    tenant: &Tenant,
    party: &Rc<Party>,
    handles: &Handles<'_>,
    services: &Services<'_>,
    generation: &Generation,
    worker: usize,
) -> Vec<Rc<RouteTarget>> {
    let routes = tenant.config.routes.iter();
    routes
        .map(|route| {
            let filters = route.filters.iter();
            let filters: Box<[_]> = filters.map(|name| Rc::clone(&handles[&**name])).collect();
            let service = Rc::clone(&services[&*route.service]);
            let name: Rc<str> = tenant.full_name(&route.name).into();
            Rc::new(RouteTarget {
                recorder: Rc::new(RouteRecorder {
                    name: Rc::clone(&name),
                    metrics: generation.registry.route(&name, worker),
                    service: Some(Arc::clone(&service.metrics)),
                }),
                name,
                filters,
                service,
                is_stripped: route.strip,
                segments: segments(&route.path).len(),
                ambiguous_paths: route.ambiguous_paths,
                party: Rc::clone(party),
            })
        })
        .collect()
}

fn make_recorder(generation: &Generation, worker: usize, kept: &Kept) -> Recorder {
    let unrouted = RouteRecorder {
        name: Rc::from(""),
        metrics: generation.registry.route("", worker),
        service: None,
    };
    let next_number = Rc::clone(&kept.next_number);
    Recorder::new(generation.log.clone(), Rc::new(unrouted), next_number)
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
            parts: BTreeMap::new(),
        }
    }

    fn keep(&mut self, part: &Rc<Part>) {
        let name = Arc::clone(&part.tenant.name);
        self.parts.insert(name, Rc::downgrade(part));
    }
}
