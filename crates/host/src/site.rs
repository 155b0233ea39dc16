//! What the server serves with: a generation for all of it, and each worker's own part.
//!
//! ```text
//!  Config ──load──▶ Generation ──▶ Site (worker 0): routes, filters' leases, services
//!                   code, figures  Site (worker 1)
//! ```
//!
//! What a configuration has in common with the one before is taken over: code is not loaded twice, and a filter
//! that stays keeps its instances and what they know.

mod load;
mod programs;

pub use load::{LoadError, Tools, load};
use load::{LoadedService, Part};

use crate::{
    account::{Account, Sampler},
    body::Body,
    chain::Looks,
    component::{self, ComponentService},
    config::{Config, ServiceKind},
    figures::{GuestFigures, Registry, RouteFigures},
    files::{Files, Served},
    filters::{self, Lease},
    kinds::{GuestKind, Level},
    log::{Access, Line, Log},
    path::Ambiguities,
    program::ProgramService,
    request::{self as way, Later},
    responses,
    route::Routes,
    turns::{Share, Turn, Turns},
    upstream::{Client, Times, Upstream},
    worker::Serve,
};
use http::{Request, Response, StatusCode, Uri, request};
use palisade_filter::Peer;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// How long a program that runs may take to accept a connection.
const PROGRAM_CONNECT_TIME: Duration = Duration::from_secs(5);

/// A configuration, loaded: what all workers serve with.
#[derive(Debug)]
pub struct Generation {
    /// Counts from 1.
    pub number: u64,
    /// What was asked for.
    pub config: Arc<Config>,
    /// The server's log.
    pub log: Log,
    /// The figures of all guests.
    pub registry: Arc<Registry>,
    filters: BTreeMap<String, Arc<filters::Loaded>>,
    services: BTreeMap<String, LoadedService>,
    /// Folders of files; `None`: there are none.
    served: Option<Arc<Served>>,
    stamps: load::Stamps,
}

/// What one worker serves with.
pub struct Site {
    generation: Arc<Generation>,
    routes: Routes,
    ways: Vec<Way>,
    /// What requests are counted in that have no way.
    without_way: Arc<RouteFigures>,
    sampler: Sampler,
    /// The next request's number.
    next_number: Rc<Cell<u64>>,
}

/// What a route comes to.
pub(crate) struct Way {
    pub(crate) name: Rc<str>,
    pub(crate) filters: Box<[Rc<Lease>]>,
    pub(crate) looks: Looks,
    pub(crate) service: Rc<Service>,
    pub(crate) is_stripped: bool,
    /// What its paths may have that others read otherwise.
    pub(crate) ambiguous_paths: Ambiguities,
    figures: Arc<RouteFigures>,
}

impl Way {
    /// Where a client is sent that asks for the folder of a route that takes its path away and leaves this `rest`, and
    /// forgets the slash: what the folder's pages name would be looked for beside it.
    pub(crate) fn redirect_to_folder(&self, rest: &str, uri: &Uri) -> Option<String> {
        if !rest.is_empty() || !matches!(self.service.kind, Kind::Files(_)) {
            return None;
        }
        let (_, name) = uri.path().rsplit_once('/')?;
        let query = uri.query().map(|query| format!("?{query}"));
        (!name.is_empty()).then(|| format!("./{name}/{}", query.unwrap_or_default()))
    }
}

/// A service on one worker.
pub(crate) struct Service {
    pub(crate) name: Rc<str>,
    pub(crate) kind: Kind,
    figures: Arc<GuestFigures>,
    log: Log,
    share: Rc<Share>,
}

pub(crate) enum Kind {
    Files(Box<Files>),
    Upstream(Upstream),
    Program(Box<ProgramService>),
    Component(Rc<ComponentService>),
    /// It was there when the configuration was loaded, and is no more.
    Missing,
}

thread_local! {
    /// What a worker keeps from one generation to the next.
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

struct Kept {
    client: Client,
    next_number: Rc<Cell<u64>>,
    leases: Vec<Weak<Lease>>,
    components: Vec<Weak<ComponentService>>,
}

impl Serve for Site {
    type Generation = Generation;

    fn site(generation: &Arc<Generation>, worker: usize) -> Rc<Self> {
        KEPT.with_borrow_mut(|kept| {
            let kept = kept.get_or_insert_with(|| Kept {
                client: Client::new(crate::upstream::Settings::default()),
                next_number: Rc::new(Cell::new(first_number())),
                leases: Vec::new(),
                components: Vec::new(),
            });
            Rc::new(Self::new(generation, worker, kept))
        })
    }

    fn open(self: Rc<Self>, peer: &Peer, head: &request::Parts, tick: u32) -> Account {
        let line = self.generation.log.wants_access().then(|| {
            let client = peer.address.map(|address| address.ip());
            let method = head.method.clone();
            Box::new(Access::new(self.number(), client, method, head.uri.path()))
        });
        let weight = self.sampler.weight(tick);
        Account::open(self, line, weight)
    }

    async fn answer(
        self: Rc<Self>,
        peer: &Rc<Peer>,
        request: Request<Body>,
        account: &mut Account,
    ) -> Response<Body> {
        match way::answer_at_once(&self, peer, request, account) {
            Ok(answer) => answer,
            Err(later) => match self.turn(&later) {
                Some(turn) => {
                    account.holds(turn);
                    Box::pin(way::answer_later(&self, peer, later)).await
                }
                None => responses::busy(),
            },
        }
    }

    async fn end() {
        let kept = KEPT.take();
        for lease in kept.iter().flat_map(|kept| &kept.leases) {
            if let Some(lease) = lease.upgrade() {
                lease.end();
            }
        }
        filters::left().await;
    }
}

impl Site {
    fn new(generation: &Arc<Generation>, worker: usize, kept: &mut Kept) -> Self {
        let registry = &generation.registry;
        let leases: BTreeMap<_, _> = generation
            .filters
            .iter()
            .map(|(name, loaded)| {
                let figures = registry.guest(GuestKind::Filter, name, worker);
                (name, kept.lease(loaded, figures))
            })
            .collect();
        let services: BTreeMap<_, _> = generation
            .services
            .iter()
            .map(|(name, loaded)| {
                let figures = registry.guest(GuestKind::Service, name, worker);
                let kind = Kind::new(generation, name, loaded, kept, &figures);
                let service = Service {
                    name: Rc::from(&**name),
                    kind,
                    figures,
                    log: loaded.log.clone(),
                    share: Rc::default(),
                };
                (name, Rc::new(service))
            })
            .collect();
        kept.leases = leases.values().map(Rc::downgrade).collect();
        let kinds = services.values().map(|service| &service.kind);
        kept.components = kinds.filter_map(Kind::component).collect();
        let routes = &generation.config.routes;
        let ways = routes.iter().map(|route| {
            let filters = route.filters.iter().map(|name| Rc::clone(&leases[name]));
            let filters: Box<[_]> = filters.collect();
            Way {
                name: Rc::from(&*route.name),
                looks: Looks::of(&filters),
                filters,
                service: Rc::clone(&services[&route.service]),
                is_stripped: route.strip,
                ambiguous_paths: route.ambiguous_paths,
                figures: registry.route(&route.name, worker),
            }
        });
        Self {
            ways: ways.collect(),
            routes: Routes::new(routes),
            generation: Arc::clone(generation),
            without_way: registry.route("", worker),
            sampler: Sampler::default(),
            next_number: Rc::clone(&kept.next_number),
        }
    }

    /// The way of a request whose path is normal, and its place.
    pub(crate) fn find(&self, request: &request::Parts) -> Option<(usize, &Way)> {
        let at = self.routes.find(request)?;
        Some((at, self.ways.get(at)?))
    }

    /// Whether a request may go by this way though some would take its path for another one: the way says that its
    /// filters and its service know, and none of these readings leads elsewhere.
    pub(crate) fn takes(&self, (at, way): (usize, &Way), request: &request::Parts) -> bool {
        let path = request.uri.path();
        let ambiguities = Ambiguities::of(path);
        let leads_here = |reading: Option<String>| {
            reading.is_some_and(|path| self.routes.find_path(request, &path) == Some(at))
        };
        ambiguities.is_empty()
            || ambiguities.is_within(way.ambiguous_paths)
                && ambiguities.readings(path).all(leads_here)
    }

    /// What the route leaves of a normal path.
    pub(crate) fn rest<'path>(&self, at: usize, path: &'path str) -> &'path str {
        self.routes.rest(at, path)
    }

    /// How long a request may wait for its answer.
    pub(crate) fn answer_time(&self) -> Duration {
        self.generation.config.limits.answer_time
    }

    pub(crate) fn way(&self, at: usize) -> Option<&Way> {
        self.ways.get(at)
    }

    /// What requests of this way are counted in.
    pub(crate) fn route_figures(&self, way: Option<usize>) -> &RouteFigures {
        let way = way.and_then(|at| self.way(at));
        way.map_or(&self.without_way, |way| &way.figures)
    }

    /// The route's name, empty without one.
    pub(crate) fn route_name(&self, way: Option<usize>) -> &str {
        let way = way.and_then(|at| self.way(at));
        way.map_or("", |way| &way.name)
    }

    /// Writes a request's line.
    pub(crate) fn write_line(&self, line: Access) {
        self.generation.log.access(line);
    }

    /// A place at its service for a request that waits; `None`: the service has as many as are left for all.
    fn turn(&self, later: &Later) -> Option<Turn> {
        let service = &self.way(later.way)?.service;
        let turn = Turns::here().pass_on(&service.share);
        if turn.is_none() {
            service.count_late();
        }
        turn
    }

    fn number(&self) -> u64 {
        let number = self.next_number.get();
        self.next_number.set(number.wrapping_add(1));
        number
    }
}

/// Where a worker's requests are counted from: at random, so that a number is found once in the lines of all workers
/// and of all starts, and far enough from the numbers that readers of JSON take for inexact ones (2^53).
fn first_number() -> u64 {
    RandomState::new().hash_one(0) >> 12
}

impl Kept {
    /// The lease of a filter: the one that there is, if it is the same filter.
    fn lease(&self, loaded: &Arc<filters::Loaded>, figures: Arc<GuestFigures>) -> Rc<Lease> {
        let mut leases = self.leases.iter().filter_map(Weak::upgrade);
        leases
            .find(|lease| Arc::ptr_eq(&lease.loaded, loaded))
            .unwrap_or_else(|| Lease::new(loaded, figures))
    }

    /// A component: the one that there is, if it is the same. Its bounds hold for what it still has under way, too.
    fn component(
        &self,
        loaded: &Arc<component::Loaded>,
        figures: &Arc<GuestFigures>,
    ) -> Result<Rc<ComponentService>, palisade_service::LoadError> {
        let mut components = self.components.iter().filter_map(Weak::upgrade);
        match components.find(|component| component.is_of(loaded)) {
            Some(component) => Ok(component),
            None => ComponentService::new(loaded, Arc::clone(figures)).map(Rc::new),
        }
    }
}

impl Kind {
    fn new(
        generation: &Generation,
        name: &str,
        loaded: &LoadedService,
        kept: &Kept,
        figures: &Arc<GuestFigures>,
    ) -> Self {
        let config = &generation.config;
        match (&config.services[name].kind, &loaded.shared) {
            (ServiceKind::Files(files), _) => {
                let served = generation.served.as_ref();
                match served.map(|served| Files::new(files, served)) {
                    Some(Ok(files)) => Self::Files(Box::new(files)),
                    Some(Err(error)) => {
                        loaded.log.write(Line::new(Level::Error, error.to_string()));
                        Self::Missing
                    }
                    None => Self::Missing,
                }
            }
            (ServiceKind::Upstream(upstream), _) => {
                Self::Upstream(Upstream::new(upstream, &kept.client))
            }
            (ServiceKind::Program(_), Part::Program(program)) => {
                let times = Times {
                    connect: PROGRAM_CONNECT_TIME,
                    answer: config.limits.answer_time,
                };
                Self::Program(Box::new(ProgramService::new(program, &kept.client, times)))
            }
            (ServiceKind::Component(_), Part::Component(component)) => {
                match kept.component(component, figures) {
                    Ok(component) => Self::Component(component),
                    Err(error) => {
                        loaded.log.write(Line::new(Level::Error, error.to_string()));
                        Self::Missing
                    }
                }
            }
            _ => Self::Missing,
        }
    }

    fn component(&self) -> Option<Weak<ComponentService>> {
        match self {
            Self::Component(component) => Some(Rc::downgrade(component)),
            _ => None,
        }
    }
}

impl Service {
    /// Answers, whatever comes: a file that [`Service::answer_at_once`] has no answer with is not looked for again.
    pub(crate) async fn answer(
        &self,
        parts: request::Parts,
        body: Body,
        peer: &Rc<Peer>,
    ) -> Response<Body> {
        self.figures.requests.add(1);
        // Boxes: the largest of them would be every one's size.
        let answer = match &self.kind {
            Kind::Files(files) => Ok(Box::pin(files.answer_later(&parts)).await),
            Kind::Upstream(upstream) => {
                Box::pin(upstream.answer(Request::from_parts(parts, body), peer)).await
            }
            Kind::Program(program) => {
                Box::pin(program.answer(Request::from_parts(parts, body), peer)).await
            }
            Kind::Component(component) => {
                let answer = component.answer(Request::from_parts(parts, body), peer);
                let answer = Box::pin(answer)
                    .await
                    .unwrap_or_else(|error| error.response());
                self.count(&answer);
                return answer;
            }
            Kind::Missing => return responses::service_missing(),
        };
        let answer = answer.unwrap_or_else(|error| {
            self.log.write(Line::new(Level::Warn, error.to_string()));
            error.response()
        });
        self.count(&answer);
        answer
    }

    /// The same, for files that are known and in memory; `None`: it has to be waited for.
    pub(crate) fn answer_at_once(
        &self,
        files: &Files,
        parts: &request::Parts,
    ) -> Option<Response<Body>> {
        let answer = files.answer_at_once(parts)?;
        self.figures.requests.add(1);
        self.count(&answer);
        Some(answer)
    }

    /// The same, where [`Service::answer_at_once`] has none. Files look at the head and no more.
    pub(crate) async fn answer_lent(
        &self,
        files: &Files,
        parts: &request::Parts,
    ) -> Response<Body> {
        self.figures.requests.add(1);
        let answer = files.answer_later(parts).await;
        self.count(&answer);
        answer
    }

    /// Its answer was given up.
    pub(crate) fn count_late(&self) {
        self.figures.errors.add(1);
    }

    /// Its answer, whose head has gone out with this status, broke off. One of an error is counted already.
    pub(crate) fn count_broken(&self, status: Option<StatusCode>) {
        if !status.is_some_and(|status| status.is_server_error()) {
            self.figures.errors.add(1);
        }
    }

    fn count(&self, answer: &Response<Body>) {
        if answer.status().is_server_error() {
            self.figures.errors.add(1);
        }
    }
}
