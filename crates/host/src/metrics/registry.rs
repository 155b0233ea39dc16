//! The metrics of all guests.

use super::{
    Fault, GuestMetrics, RouteMetrics, RouteSum, State,
    places::{Member, Places},
    route,
};
use crate::{kinds::GuestKind, quota::Quotas};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Instant,
};

/// Counters of a guest; what goes up and down is none.
const GUEST_COUNTS: usize = 7;

/// Which guest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestId {
    /// Filter or service.
    pub kind: GuestKind,
    /// Its name in the configuration: `TENANT/NAME` for a tenant's.
    pub name: Arc<str>,
}

/// Every metric that the server has, by guest or route, and by worker.
#[derive(Debug, Default)]
pub struct Registry {
    guests: Mutex<BTreeMap<GuestId, Guest>>,
    routes: Mutex<BTreeMap<Arc<str>, Route>>,
    guest_places: Mutex<Places<GuestId, GUEST_COUNTS>>,
    route_places: Mutex<Places<Arc<str>, { route::COUNTS }>>,
    /// What tenants use, and were refused.
    pub(crate) quotas: Quotas,
}

impl Member for GuestId {
    type Group = GuestKind;

    fn group(&self) -> GuestKind {
        self.kind
    }

    fn activity(counts: &[u64]) -> u64 {
        counts[0]
    }
}

impl Member for Arc<str> {
    type Group = ();

    fn group(&self) {}

    fn activity(counts: &[u64]) -> u64 {
        route::requests(counts)
    }
}

/// A route's metrics by worker.
type Route = BTreeMap<usize, Arc<RouteMetrics>>;

/// Tells what a guest counts itself.
type Own = Arc<dyn Fn() -> GuestSum + Send + Sync>;

#[derive(Clone, Default)]
struct Guest {
    by_worker: BTreeMap<usize, Arc<GuestMetrics>>,
    /// What a guest counts that runs beside the workers.
    own: Option<Own>,
}

impl std::fmt::Debug for Guest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Guest")
            .field("by_worker", &self.by_worker)
            .finish_non_exhaustive()
    }
}

/// One guest's metrics, all workers together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields of GuestMetrics")]
pub struct GuestSum {
    pub requests: u64,
    pub errors: u64,
    pub cpu_ns: u64,
    pub memory_bytes: u64,
    pub crossings: u64,
    pub denials: u64,
    pub faults: u64,
    pub restarts: u64,
    pub state: State,
    pub last_fault: Option<Fault>,
}

/// What series show: some members each for itself, and the rest of them together.
#[derive(Clone, Debug)]
pub(crate) struct Shown<M, G, S> {
    /// Those that have series of their own, in order, each with what these have counted.
    pub(crate) own: Vec<(M, S)>,
    /// By group.
    pub(crate) others: Vec<(G, Others<S>)>,
}

/// Those of a group that have no series of their own.
#[derive(Clone, Debug)]
pub(crate) struct Others<S> {
    /// How many there are now.
    pub(crate) members: usize,
    /// How many of these rest.
    pub(crate) resting: usize,
    /// What their series have counted, and what they hold now.
    pub(crate) sum: S,
    /// Whether there were ever any: what has been shown once stays.
    pub(crate) is_shown: bool,
}

impl Registry {
    /// The metrics of a guest on a worker, made when first asked for.
    pub fn guest(&self, kind: GuestKind, name: &str, worker: usize) -> Arc<GuestMetrics> {
        let mut guests = self.guests();
        let guest = guests.entry(GuestId::new(kind, name)).or_default();
        guest.by_worker.entry(worker).or_default().clone()
    }

    /// Adds what a guest counts itself, beside the workers, until it is gone and `own` gives nothing.
    pub fn count_by(
        &self,
        kind: GuestKind,
        name: &str,
        own: impl Fn() -> GuestSum + Send + Sync + 'static,
    ) {
        let mut guests = self.guests();
        guests.entry(GuestId::new(kind, name)).or_default().own = Some(Arc::new(own));
    }

    /// The metrics of a route on a worker, made when first asked for. The route without a name is that of requests
    /// that have none.
    pub fn route(&self, name: &str, worker: usize) -> Arc<RouteMetrics> {
        let mut routes = self.routes();
        let route = routes.entry(name.into()).or_default();
        route.entry(worker).or_default().clone()
    }

    /// Forgets routes that `is_kept` says are gone, once no request is under way there any more. Gives the number of
    /// those for which there is one.
    pub fn retain_routes(&self, is_kept: impl Fn(&str) -> bool) -> usize {
        let is_kept = |name: &Arc<str>| is_kept(name);
        let (forgotten, leaving) = forget(&mut self.routes(), is_kept, |route: &Route| {
            let in_use = |metrics: &Arc<RouteMetrics>| Arc::strong_count(metrics) > 1;
            route.values().any(in_use)
        });
        let mut places = lock(&self.route_places);
        for (name, route) in forgotten {
            places.leave(&name, &sum_of_route(&route).counts());
        }
        leaving
    }

    /// Every route's metrics as they are now, in order.
    pub fn routes_now(&self) -> Vec<(Arc<str>, RouteSum)> {
        let routes = self.routes();
        let now = routes.iter();
        now.map(|(name, route)| (Arc::clone(name), sum_of_route(route)))
            .collect()
    }

    /// What the series of routes show, of which `most` have some of their own.
    pub(crate) fn routes_shown(&self, most: usize, now: Instant) -> Shown<Arc<str>, (), RouteSum> {
        let routes = self.routes_now();
        let counts = routes
            .iter()
            .map(|(name, sum)| (Arc::clone(name), sum.counts()));
        let counts: Vec<_> = counts.collect();
        let mut places = lock(&self.route_places);
        places.observe(&counts, most, now);
        let own = routes.iter().filter_map(|(name, _)| {
            let own = places.own(name)?;
            Some((Arc::clone(name), RouteSum::of_counts(own)))
        });
        let own: Vec<_> = own.collect();
        let members = routes.len() - own.len();
        let counted = places.others(());
        let others = Others {
            members,
            resting: 0,
            sum: counted.map(RouteSum::of_counts).unwrap_or_default(),
            is_shown: members > 0 || counted.is_some(),
        };
        Shown {
            own,
            others: vec![((), others)],
        }
    }

    /// Forgets guests that `is_kept` says are gone, once nothing counts for them any more. Gives the number of those for
    /// which something does.
    pub fn retain(&self, is_kept: impl Fn(&GuestId) -> bool) -> usize {
        let (forgotten, leaving) = forget(&mut self.guests(), is_kept, |guest: &Guest| {
            let in_use = |metrics: &Arc<GuestMetrics>| Arc::strong_count(metrics) > 1;
            guest.by_worker.values().any(in_use)
        });
        let mut places = lock(&self.guest_places);
        for (id, guest) in forgotten {
            places.leave(&id, &sum(&guest).counts());
        }
        leaving
    }

    /// What the series of guests show, of which `most` have some of their own.
    pub(crate) fn guests_shown(
        &self,
        most: usize,
        now: Instant,
    ) -> Shown<GuestId, GuestKind, GuestSum> {
        let guests = self.guests_now();
        let counts: Vec<_> = guests
            .iter()
            .map(|(id, sum)| (id.clone(), sum.counts()))
            .collect();
        let mut places = lock(&self.guest_places);
        places.observe(&counts, most, now);
        let mut own = Vec::new();
        let mut others = [GuestKind::Filter, GuestKind::Service].map(|kind| {
            let counted = places.others(kind);
            let mut sum = GuestSum::default();
            sum.set_counts(counted.unwrap_or(&[0; GUEST_COUNTS]));
            let others = Others {
                members: 0,
                resting: 0,
                sum,
                is_shown: counted.is_some(),
            };
            (kind, others)
        });
        for (id, mut sum) in guests {
            if let Some(counts) = places.own(&id) {
                sum.set_counts(counts);
                own.push((id, sum));
            } else if let Some((_, others)) = others.iter_mut().find(|(kind, _)| *kind == id.kind) {
                others.add(&sum);
            }
        }
        Shown {
            own,
            others: others.into(),
        }
    }

    /// Every guest's metrics as they are now, in order.
    pub fn guests_now(&self) -> Vec<(GuestId, GuestSum)> {
        // Some look at processes: whoever registers a guest meanwhile must not wait for that.
        let guests: Vec<_> = {
            let guests = self.guests();
            let now = guests.iter();
            now.map(|(id, guest)| (id.clone(), guest.clone())).collect()
        };
        let sums = guests.into_iter();
        sums.map(|(id, guest)| (id, sum(&guest))).collect()
    }

    fn routes(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Route>> {
        lock(&self.routes)
    }

    fn guests(&self) -> MutexGuard<'_, BTreeMap<GuestId, Guest>> {
        lock(&self.guests)
    }
}

/// Takes out what is neither kept nor in use, and counts what is in use alone.
fn forget<K: Ord, V>(
    all: &mut BTreeMap<K, V>,
    is_kept: impl Fn(&K) -> bool,
    is_in_use: impl Fn(&V) -> bool,
) -> (Vec<(K, V)>, usize) {
    let mut leaving = 0;
    let forgotten = all.extract_if(.., |key, value| {
        let is_kept = is_kept(key);
        let is_leaving = !is_kept && is_in_use(value);
        leaving += usize::from(is_leaving);
        !is_kept && !is_leaving
    });
    let forgotten = forgotten.collect();
    (forgotten, leaving)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Others<GuestSum> {
    /// One more, with what it holds now. What it has counted is among the counts already.
    fn add(&mut self, sum: &GuestSum) {
        self.members += 1;
        self.is_shown = true;
        self.resting += usize::from(sum.state == State::Resting);
        self.sum.memory_bytes += sum.memory_bytes;
    }
}

impl GuestId {
    /// The guest of this kind and name.
    pub(crate) fn new(kind: GuestKind, name: &str) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

impl GuestSum {
    fn counts(&self) -> [u64; GUEST_COUNTS] {
        [
            self.requests,
            self.errors,
            self.cpu_ns,
            self.crossings,
            self.denials,
            self.faults,
            self.restarts,
        ]
    }

    fn set_counts(&mut self, counts: &[u64; GUEST_COUNTS]) {
        [
            self.requests,
            self.errors,
            self.cpu_ns,
            self.crossings,
            self.denials,
            self.faults,
            self.restarts,
        ] = *counts;
    }

    /// Adds a worker's. Counts add up; the state is the one that asks for most attention, the fault the latest.
    fn add(&mut self, metrics: &GuestMetrics) {
        self.requests += metrics.requests.get();
        self.errors += metrics.errors.get();
        self.cpu_ns += metrics.cpu_ns.get();
        self.memory_bytes += metrics.memory_bytes.get();
        self.crossings += metrics.crossings.get();
        self.denials += metrics.denials.get();
        self.faults += metrics.faults.get();
        self.restarts += metrics.restarts.get();
        self.state = self.state.max(metrics.state());
        let is_later = |fault: &Fault| {
            let last = self.last_fault.as_ref();
            last.is_none_or(|last| last.time < fault.time)
        };
        if let Some(fault) = metrics.last_fault().filter(is_later) {
            self.last_fault = Some(fault);
        }
    }
}

fn sum_of_route(route: &Route) -> RouteSum {
    let mut sum = RouteSum::default();
    route.values().for_each(|metrics| sum.add(metrics));
    sum
}

/// Its workers' and its own.
fn sum(guest: &Guest) -> GuestSum {
    let own = guest.own.as_ref();
    let mut sum = own.map_or_else(GuestSum::default, |own| own());
    for metrics in guest.by_worker.values() {
        sum.add(metrics);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up_and_counts_outlive_reloads() {
        let registry = Registry::default();
        registry.guest(GuestKind::Filter, "auth", 0).requests.add(2);
        let second = registry.guest(GuestKind::Filter, "auth", 1);
        second.requests.add(3);
        second.fault("it trapped");
        second.set_state(State::Resting);
        let (id, sum) = registry.guests_now().remove(0);
        assert_eq!((id.kind, &*id.name), (GuestKind::Filter, "auth"));
        assert_eq!(
            (sum.requests, sum.faults, sum.state),
            (5, 1, State::Resting)
        );
        assert_eq!(sum.last_fault.unwrap().message, "it trapped");
    }

    #[test]
    fn a_guest_that_is_gone_is_forgotten_once_nobody_counts() {
        let registry = Registry::default();
        let metrics = registry.guest(GuestKind::Service, "api", 0);
        registry.retain(|_| false);
        assert_eq!(registry.guests_now().len(), 1, "its last request goes on");
        drop(metrics);
        registry.retain(|_| false);
        assert_eq!(registry.guests_now().len(), 0);
    }
}
