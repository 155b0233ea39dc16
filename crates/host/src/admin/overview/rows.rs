//! Rows of the page: a guest, a tenant or a route each.

use super::{MOST_TOLD, per_second, shown, told};
use crate::{
    admin::{
        Now, Route,
        recent::Look,
        status::{Told, state_of},
    },
    kinds::GuestKind,
    metrics::{Fault, GuestId, GuestSum, RouteSum, State},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

/// A row. What it has none of is null.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    /// `filter`, `component`, `program`, `files`, `upstream`, `tenant` or `route`.
    pub(super) kind: &'static str,
    state: Option<&'static str>,
    /// Guests of a tenant; of a route its filters and its service.
    guests: Option<usize>,
    leads_to: Option<String>,
    pub(super) requests: u64,
    pub(super) errors: u64,
    pub(super) requests_s: Option<f64>,
    pub(super) errors_s: Option<f64>,
    /// Of requests of its routes, from their heads to their answers' ends.
    pub(super) p50_s: Option<f64>,
    pub(super) p99_s: Option<f64>,
    /// Processors that it keeps busy.
    pub(super) cpu: Option<f64>,
    pub(super) cpu_us: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) denials: Option<u64>,
    pub(super) faults: Option<u64>,
    pub(super) restarts: Option<u64>,
    /// How many of those in it rest.
    pub(super) resting: usize,
    last_fault: Option<Told>,
    #[serde(skip)]
    pub(super) fault: Option<Fault>,
}

impl Row {
    /// Whose guest it is: what stands before the first slash of its name.
    pub(super) fn tenant(&self) -> Option<&str> {
        self.name.split_once('/').map(|(tenant, _)| tenant)
    }

    /// Whether a name, a kind or a state has this in it.
    pub(super) fn has(&self, word: &str) -> bool {
        let is_named = self.name.to_lowercase().contains(word);
        is_named || self.kind == word || self.state.is_some_and(|state| state == word)
    }

    fn set_times(&mut self, times: Option<&RouteSum>) {
        self.p50_s = times.and_then(|times| times.quantile(0.5));
        self.p99_s = times.and_then(|times| times.quantile(0.99));
    }
}

/// What a route has counted since the look before, or since it is there.
pub(super) fn recent(look: &Look, name: &str, sum: &RouteSum) -> RouteSum {
    let before = look.before.as_ref();
    let before = before.and_then(|before| before.route(name));
    before.map_or_else(|| sum.clone(), |before| sum.since(before))
}

fn recent_routes(look: &Look) -> impl Iterator<Item = (&Arc<str>, RouteSum)> {
    let routes = look.now.routes.iter();
    routes.map(|(name, sum)| (name, recent(look, name, sum)))
}

fn window(look: &Look) -> Option<Duration> {
    let before = look.before.as_ref()?;
    Some(look.now.at.saturating_duration_since(before.at))
}

/// How often a second, by what was counted now and before.
pub(super) fn rate(look: &Look, now: u64, before: Option<u64>) -> Option<f64> {
    let grown = now.saturating_sub(before.unwrap_or_default());
    Some(per_second(grown as f64, window(look)?))
}

/// A row for each guest of the configuration.
pub(super) fn guests(now: &Now, look: &Look) -> Vec<Row> {
    let routes: Vec<_> = now.each_route().collect();
    let times = times_of_guests(&routes, look);
    let guests = now.each_guest().map(|guest| {
        let id = GuestId::new(guest.kind, &guest.name);
        let sum = look.now.guest(&id).cloned().unwrap_or_default();
        let before = look.before.as_ref();
        let before = before.and_then(|before| before.guest(&id));
        let mut row = row_of_guest(guest.what, &guest.name, look, &sum, before);
        row.set_times(times.get(&(guest.kind, guest.name.as_str())));
        row
    });
    guests.collect()
}

fn row_of_guest(
    what: &'static str,
    name: &str,
    look: &Look,
    sum: &GuestSum,
    before: Option<&GuestSum>,
) -> Row {
    let cpu_s = rate(look, sum.cpu_ns, before.map(|before| before.cpu_ns));
    let fault = sum.last_fault.as_ref();
    Row {
        name: shown(name),
        kind: what,
        state: Some(state_of(what, sum.state)),
        requests: sum.requests,
        errors: sum.errors,
        requests_s: rate(look, sum.requests, before.map(|before| before.requests)),
        errors_s: rate(look, sum.errors, before.map(|before| before.errors)),
        cpu: cpu_s.map(|ns| ns / 1e9),
        cpu_us: Some(sum.cpu_ns / 1000),
        memory_bytes: Some(sum.memory_bytes),
        denials: Some(sum.denials),
        faults: Some(sum.faults),
        restarts: Some(sum.restarts),
        resting: usize::from(sum.state == State::Resting),
        last_fault: fault.map(|fault| told(fault.time, &fault.message)),
        fault: sum.last_fault.clone(),
        ..Row::default()
    }
}

/// How long requests took that a guest was asked about: those of its routes.
fn times_of_guests<'a>(
    routes: &'a [Route],
    look: &Look,
) -> HashMap<(GuestKind, &'a str), RouteSum> {
    let recent: HashMap<_, _> = recent_routes(look)
        .map(|(name, sum)| (&**name, sum))
        .collect();
    let mut times: HashMap<_, RouteSum> = HashMap::new();
    for route in routes {
        let Some(sum) = recent.get(&*route.name) else {
            continue;
        };
        let filters = route
            .filters
            .iter()
            .map(|name| (GuestKind::Filter, name.as_str()));
        for guest in filters.chain([(GuestKind::Service, route.service.as_str())]) {
            times.entry(guest).or_default().merge(sum);
        }
    }
    times
}

/// A row for each route, and one for requests that have none.
pub(super) fn routes(now: &Now, look: &Look) -> Vec<Row> {
    let known: HashMap<_, _> = now
        .each_route()
        .map(|route| (route.name.clone(), route))
        .collect();
    let rows = look
        .now
        .routes
        .iter()
        .zip(recent_routes(look))
        .map(|((name, sum), (_, recent))| {
            let route = known.get(&**name);
            let since = window(look).map(|_| &recent);
            let mut row = Row {
                name: if name.is_empty() {
                    "(no route)".into()
                } else {
                    shown(name)
                },
                kind: "route",
                guests: route.map(|route| route.filters.len() + 1),
                leads_to: route.map(leads_to),
                requests: sum.requests(),
                errors: sum.errors(),
                requests_s: since.and_then(|sum| rate(look, sum.requests(), None)),
                errors_s: since.and_then(|sum| rate(look, sum.errors(), None)),
                ..Row::default()
            };
            row.set_times(Some(&recent));
            row
        });
    rows.collect()
}

fn leads_to(route: &Route) -> String {
    let filters = route
        .filters
        .iter()
        .take(MOST_TOLD)
        .map(|name| format!("{name} → "));
    shown(&format!("{}{}", filters.collect::<String>(), route.service))
}

/// A row for each tenant: what its guests did and hold, and what its routes' requests came to.
pub(super) fn tenants(look: &Look, guests: Vec<Row>) -> Vec<Row> {
    let mut tenants: BTreeMap<String, Row> = BTreeMap::new();
    for guest in guests {
        let Some(name) = guest.tenant() else {
            continue;
        };
        let tenant = tenants.entry(name.to_owned()).or_default();
        *tenant.guests.get_or_insert_default() += 1;
        tenant.resting += guest.resting;
        super::add(&mut tenant.cpu, guest.cpu);
        let sums = [
            (&mut tenant.cpu_us, guest.cpu_us),
            (&mut tenant.memory_bytes, guest.memory_bytes),
            (&mut tenant.denials, guest.denials),
            (&mut tenant.faults, guest.faults),
            (&mut tenant.restarts, guest.restarts),
        ];
        for (sum, more) in sums {
            *sum.get_or_insert_default() += more.unwrap_or_default();
        }
        let is_later = |fault: &Fault| {
            tenant
                .fault
                .as_ref()
                .is_none_or(|last| last.time < fault.time)
        };
        if guest.fault.as_ref().is_some_and(is_later) {
            (tenant.fault, tenant.last_fault) = (guest.fault, guest.last_fault);
        }
    }
    add_routes(&mut tenants, look);
    let rows = tenants.into_iter().map(|(name, row)| Row {
        name,
        kind: "tenant",
        ..row
    });
    rows.collect()
}

/// Requests of a tenant are those of its routes: each of its filters and services may have been asked about one.
fn add_routes(tenants: &mut BTreeMap<String, Row>, look: &Look) {
    let mut times: HashMap<&str, RouteSum> = HashMap::new();
    for ((name, sum), (_, recent)) in look.now.routes.iter().zip(recent_routes(look)) {
        let Some((tenant, _)) = name.split_once('/') else {
            continue;
        };
        let Some(row) = tenants.get_mut(tenant) else {
            continue;
        };
        row.requests += sum.requests();
        row.errors += sum.errors();
        times.entry(tenant).or_default().merge(&recent);
    }
    for (tenant, recent) in times {
        if let Some(row) = tenants.get_mut(tenant) {
            if window(look).is_some() {
                row.requests_s = rate(look, recent.requests(), None);
                row.errors_s = rate(look, recent.errors(), None);
            }
            row.set_times(Some(&recent));
        }
    }
}
