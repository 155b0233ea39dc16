//! The metrics of all guests.

use super::{Fault, GuestMetrics, RouteMetrics, RouteSum, State};
use crate::kinds::GuestKind;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

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
        let mut leaving = 0;
        self.routes().retain(|name, route| {
            let in_use = |metrics: &Arc<RouteMetrics>| Arc::strong_count(metrics) > 1;
            let is_kept = is_kept(name);
            let is_leaving = !is_kept && route.values().any(in_use);
            leaving += usize::from(is_leaving);
            is_kept || is_leaving
        });
        leaving
    }

    /// Every route's metrics as they are now, in order.
    pub fn routes_now(&self) -> Vec<(Arc<str>, RouteSum)> {
        let routes = self.routes();
        let sum = |route: &Route| {
            let mut sum = RouteSum::default();
            route.values().for_each(|metrics| sum.add(metrics));
            sum
        };
        let now = routes.iter();
        now.map(|(name, route)| (Arc::clone(name), sum(route)))
            .collect()
    }

    /// Forgets guests that `is_kept` says are gone, once nothing counts for them any more. Gives the number of those for
    /// which something does.
    pub fn retain(&self, is_kept: impl Fn(&GuestId) -> bool) -> usize {
        let mut leaving = 0;
        self.guests().retain(|id, guest| {
            let in_use = |metrics: &Arc<GuestMetrics>| Arc::strong_count(metrics) > 1;
            let is_kept = is_kept(id);
            let is_leaving = !is_kept && guest.by_worker.values().any(in_use);
            leaving += usize::from(is_leaving);
            is_kept || is_leaving
        });
        leaving
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
        self.routes
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    fn guests(&self) -> MutexGuard<'_, BTreeMap<GuestId, Guest>> {
        self.guests
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

impl GuestId {
    fn new(kind: GuestKind, name: &str) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }
}

impl GuestSum {
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
