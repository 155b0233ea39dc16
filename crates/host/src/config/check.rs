//! What only shows when the whole file is looked at.

use super::{
    Address, Config, ConfigProblem, Filter, Isolation, Program, Route, ServiceKind, Tenancy,
    error::Found,
    read::{Named, Parts, Reader},
    route::RouteParts,
};
use crate::{
    fields::{is_claim, is_of_connection},
    lookup::{HostMap, PathMap, covers_host, covers_path},
    path::Ambiguities,
};
use palisade_policy::visible;
use std::{collections::BTreeSet, ops::Range};

/// Names, addresses and routes that do not go together; notes what is probably not meant.
pub(super) fn check(parts: &Parts, reader: &Reader<'_>) -> Result<(), Found> {
    check_addresses(parts)?;
    check_tenants(parts)?;
    check_names(parts)?;
    check_fields(parts)?;
    check_ambiguous_paths(parts)?;
    check_something_is_served(parts)?;
    warn_of_unreachable(parts, reader);
    warn_of_unused(parts, reader);
    Ok(())
}

/// The same of a tenant's file.
pub(super) fn check_routes(parts: &Parts, reader: &Reader<'_>) -> Result<(), Found> {
    if parts.routes.is_empty() {
        return Err(nothing_is_routed());
    }
    check_names(parts)?;
    check_fields(parts)?;
    check_ambiguous_paths(parts)?;
    warn_of_unreachable(parts, reader);
    warn_of_unused(parts, reader);
    Ok(())
}

/// What can be said of tenants without their files.
fn check_tenants(parts: &Parts) -> Result<(), Found> {
    let tenancy = Tenancy {
        each: parts
            .tenants
            .iter()
            .map(|(name, (_, share))| (name.clone(), share.clone()))
            .collect(),
        ..parts.config.tenancy.clone()
    };
    if let Some(folders) = tenancy.overlapping_folders() {
        let problem = ConfigProblem::Exclusive {
            first: "folders of tenants that lie in each other".into(),
            second: format!("what each has alone: {folders}"),
            advice: "give each tenant a folder in which no other one's lies",
        };
        return Err(Found::nowhere(problem));
    }
    for (name, (span, _)) in &parts.tenants {
        if let Err(reason) = tenancy.bounds(name) {
            return Err(Found::at(span.clone(), ConfigProblem::Tenant(reason)));
        }
    }
    Ok(())
}

fn programs(parts: &Parts) -> impl Iterator<Item = (&Range<usize>, &Program)> {
    parts
        .services
        .values()
        .filter_map(|(span, service)| match &service.kind {
            ServiceKind::Program(program) => Some((span, program)),
            _ => None,
        })
}

/// Whether it is impossible to listen twice on this one.
fn can_clash(address: &Address) -> bool {
    // A wildcard socket and one of an address can both be bound, but only with an option that palisade sets
    // for its own workers: then the more exact one is served. `[::]` has IPv4 too unless it is told not to.
    !matches!(address, Address::Internet(address) if address.port() == 0)
}

/// Each address once, whether the server, a program or the admin socket listens there.
fn check_addresses(parts: &Parts) -> Result<(), Found> {
    let mut seen = BTreeSet::new();
    let listeners = parts.listeners.iter();
    let listeners = listeners.map(|(span, listener)| (span, &listener.address, "[[listen]]"));
    let direct = programs(parts)
        .filter_map(|(span, program)| Some((span, program.direct.as_ref()?, "`direct`")));
    let admin = parts
        .admin
        .iter()
        .map(|(span, admin)| (span, &admin.address, "`admin`"));
    for (span, address, place) in listeners.chain(direct).chain(admin) {
        if !seen.insert(address) && can_clash(address) {
            let problem = ConfigProblem::Twice {
                what: format!("the address of {place}, {address},"),
                advice: "a socket has one reader: `[[listen]]`, `direct` of a program and `admin` share none",
            };
            return Err(Found::at(span.clone(), problem));
        }
    }
    Ok(())
}

fn check_names(parts: &Parts) -> Result<(), Found> {
    let mut seen = BTreeSet::new();
    for (span, route) in &parts.routes {
        let RouteParts {
            route,
            filters,
            service,
        } = route;
        for (name, span) in route.filters.iter().zip(filters) {
            known("filter", name, span, &parts.filters)?;
        }
        check_fresh_once(route, filters, parts)?;
        known("service", &route.service, service, &parts.services)?;
        if !seen.insert(&route.name) {
            let problem = ConfigProblem::Twice {
                what: format!("the route `{}`", route.name),
                advice: "logs and metrics tell routes apart by their names",
            };
            return Err(Found::at(span.clone(), problem));
        }
    }
    Ok(())
}

/// A request that has one instance of a filter and waits for another one could wait for itself.
fn check_fresh_once(route: &Route, spans: &[Range<usize>], parts: &Parts) -> Result<(), Found> {
    let is_fresh = |name: &String| {
        let (_, filter) = &parts.filters[name];
        filter.isolation == Isolation::Fresh
    };
    for (at, name) in route.filters.iter().enumerate() {
        if route.filters[..at].contains(name) && is_fresh(name) {
            let problem = ConfigProblem::Twice {
                what: format!("the filter `{name}` of the route `{}`", route.name),
                advice: "a request that has one of a filter's `instances` would wait for another one that only it gives back; \
                         let the filter be `kept`, or give its module a second [filters.NAME]",
            };
            return Err(Found::at(spans[at].clone(), problem));
        }
    }
    Ok(())
}

fn known<T>(
    kind: &'static str,
    name: &str,
    span: &Range<usize>,
    named: &Named<T>,
) -> Result<(), Found> {
    if named.contains_key(name) {
        return Ok(());
    }
    let problem = ConfigProblem::UnknownName {
        kind,
        name: name.into(),
        known: named.keys().cloned().collect(),
    };
    Err(Found::at(span.clone(), problem))
}

/// What is taken out of every request decides about none: it would go on to the next route, which may have no
/// filters.
fn check_fields(parts: &Parts) -> Result<(), Found> {
    for (span, RouteParts { route, .. }) in &parts.routes {
        let names = route.headers.iter().map(|(name, _)| name);
        for name in names {
            let (second, advice) = if is_claim(name) {
                let advice = "servers believe it of a proxy in front of them, and here it would be the client's word";
                ("its being taken out of every request", advice)
            } else if is_of_connection(name) {
                let advice = "it belongs to the client's connection: no request has it any more when routes are looked for";
                ("its being taken out of every request", advice)
            } else if name.as_str().contains('_') && !parts.config.limits.underscores {
                let advice = "name a field with hyphens, or set `limits.underscores` to true";
                ("`limits.underscores = false`", advice)
            } else {
                continue;
            };
            let problem = ConfigProblem::Exclusive {
                first: format!("the header field `{name}` of a route"),
                second: second.into(),
                advice,
            };
            return Err(Found::at(span.clone(), problem));
        }
    }
    Ok(())
}

/// Nor does a route whose own path would be refused.
fn check_ambiguous_paths(parts: &Parts) -> Result<(), Found> {
    for (span, RouteParts { route, .. }) in &parts.routes {
        if !Ambiguities::of(&route.path).is_within(route.ambiguous_paths) {
            let problem = ConfigProblem::Exclusive {
                first: format!("the path `{}` of a route", visible(&route.path)),
                second: "its `ambiguous-paths`".into(),
                advice: "other readers could take it for another path, and such requests are refused: name what it has in `ambiguous-paths`",
            };
            return Err(Found::at(span.clone(), problem));
        }
    }
    Ok(())
}

fn check_something_is_served(parts: &Parts) -> Result<(), Found> {
    let has_direct = programs(parts).any(|(_, program)| program.direct.is_some());
    let (missing, advice) = match (parts.listeners.is_empty(), parts.routes.is_empty()) {
        (true, true) if has_direct => return Ok(()),
        (false, false) => return Ok(()),
        // Its tenants' files have them.
        (false, true) if !parts.config.tenancy.include.is_empty() => return Ok(()),
        (true, _) => (
            "there is no listener",
            "add [[listen]] with an address, as in address = \"127.0.0.1:8080\"",
        ),
        (false, true) => return Err(nothing_is_routed()),
    };
    Err(Found::nowhere(ConfigProblem::Nothing { missing, advice }))
}

fn nothing_is_routed() -> Found {
    Found::nowhere(ConfigProblem::Nothing {
        missing: "there is no route",
        advice: "add [[route]] with a service, as in service = \"NAME\"",
    })
}

/// Routes of one host and path that a later one is compared with.
const MOST_COMPARED: usize = 32;

/// Places of routes for one host and path that others may stand behind in vain.
#[derive(Default)]
struct Earlier {
    /// The first that takes every method and all fields.
    whole: Option<usize>,
    /// The first of the others. A file with more of them is read as quickly, and some of its warnings are left out.
    others: Vec<usize>,
}

impl Earlier {
    fn add(&mut self, place: usize, route: &Route) {
        if route.methods.is_empty() && route.headers.is_empty() {
            self.whole.get_or_insert(place);
        } else if self.others.len() < MOST_COMPARED {
            self.others.push(place);
        }
    }

    /// The first that takes all that `later` would.
    fn first_covering(&self, later: &Route, parts: &Parts) -> Option<usize> {
        let covers = |place: &&usize| covers(&parts.routes[**place].1.route, later);
        let of_whole = self.whole.iter().find(covers);
        let of_others = self.others.iter().find(covers);
        of_whole.into_iter().chain(of_others).min().copied()
    }
}

fn warn_of_unreachable(parts: &Parts, reader: &Reader<'_>) {
    let mut by_host: HostMap<PathMap<Earlier>> = HostMap::default();
    let mut for_any_host: PathMap<Earlier> = PathMap::default();
    for (place, (span, RouteParts { route: later, .. })) in parts.routes.iter().enumerate() {
        let host = later.host.as_deref();
        let of_hosts = host.map(|host| by_host.fitting(host));
        let mut first: Option<usize> = None;
        for by_path in of_hosts.into_iter().flatten().chain([&for_any_host]) {
            by_path.for_each_fitting(&later.path, |earlier| {
                let found = earlier.first_covering(later, parts);
                first = first.into_iter().chain(found).min();
            });
        }
        if let Some(earlier) = first {
            let text = format!(
                "no request reaches route `{}`: `{}` stands before it and takes all that it would",
                later.name, parts.routes[earlier].1.route.name
            );
            reader.warn(span, &text);
            // What stands behind this one in vain stands behind that one, too.
            continue;
        }
        let by_path = match host {
            Some(host) => by_host.entry(host),
            None => &mut for_any_host,
        };
        by_path.entry(&later.path).add(place, later);
    }
}

/// Whether every request that `later` fits also fits `earlier`.
fn covers(earlier: &Route, later: &Route) -> bool {
    let is_of_host = match (&earlier.host, &later.host) {
        (Some(earlier), Some(later)) => covers_host(earlier, later),
        (earlier, _) => earlier.is_none(),
    };
    is_of_host
        && covers_path(&earlier.path, &later.path)
        && covers_methods(earlier, later)
        && earlier.headers.iter().all(|(name, value)| {
            let same = |(other, given): &(_, Option<_>)| {
                other == name && (value.is_none() || given == value)
            };
            later.headers.iter().any(same)
        })
}

fn covers_methods(earlier: &Route, later: &Route) -> bool {
    let all = |route: &Route| route.methods.is_empty();
    all(earlier)
        || (!all(later)
            && later
                .methods
                .iter()
                .all(|method| earlier.methods.contains(method)))
}

fn warn_of_unused(parts: &Parts, reader: &Reader<'_>) {
    let routes = || parts.routes.iter().map(|(_, parts)| &parts.route);
    let filters: BTreeSet<_> = routes().flat_map(|route| &route.filters).collect();
    let services: BTreeSet<_> = routes().map(|route| &route.service).collect();
    // A filter that may connect at all may mean any server.
    let may_call = |(_, filter): &(_, Filter)| !filter.policy.grants.connect.is_empty();
    let has_caller = parts.filters.values().any(may_call);
    for (name, (span, _)) in &parts.filters {
        if !filters.contains(name) {
            reader.warn(span, &format!("no route has filter `{name}`"));
        }
    }
    for (name, (span, service)) in &parts.services {
        let is_direct =
            matches!(&service.kind, ServiceKind::Program(program) if program.direct.is_some());
        let may_be_called = has_caller && matches!(service.kind, ServiceKind::Upstream(_));
        if !is_direct && !may_be_called && !services.contains(name) {
            reader.warn(span, &format!("no route leads to service `{name}`"));
        }
    }
}

impl Config {
    /// Addresses at which the server itself takes requests, as people write them.
    pub fn addresses(&self) -> impl Iterator<Item = String> {
        self.listeners.iter().map(|listener| {
            let scheme = match listener.tls.is_empty() {
                true => "http",
                false => "https",
            };
            match &listener.address {
                Address::Internet(address) => format!("{scheme}://{address}"),
                unix => format!("{scheme} at {unix}"),
            }
        })
    }
}
