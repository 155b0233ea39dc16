//! What only shows when the whole file is looked at.

use super::{
    Address, Config, ConfigProblem, Isolation, Program, Route, ServiceKind,
    error::Found,
    read::{Named, Parts, Reader},
    route::RouteParts,
};
use crate::{
    fields::{is_claim, is_of_connection},
    path::Ambiguities,
};
use palisade_policy::visible;
use std::{collections::BTreeSet, net::SocketAddr, ops::Range};

/// Names, addresses and routes that do not go together; notes what is probably not meant.
pub(super) fn check(parts: &Parts, reader: &Reader<'_>) -> Result<(), Found> {
    check_addresses(parts)?;
    check_names(parts)?;
    check_fields(parts)?;
    check_ambiguous_paths(parts)?;
    check_something_is_served(parts)?;
    warn_of_unreachable(parts, reader);
    warn_of_unused(parts, reader);
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

/// Whether it is impossible to listen on both.
fn clash(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Internet(one), Address::Internet(other)) => internet_clash(*one, *other),
        _ => one == other,
    }
}

fn internet_clash(one: SocketAddr, other: SocketAddr) -> bool {
    // A wildcard socket and one of an address can both be bound, but only with an option that palisade sets
    // for its own workers: then the more exact one is served. `[::]` has IPv4 too unless it is told not to.
    one.port() != 0 && one == other
}

/// Each address once, whether the server, a program or the admin socket listens there.
fn check_addresses(parts: &Parts) -> Result<(), Found> {
    let mut seen: Vec<&Address> = Vec::new();
    let listeners = parts.listeners.iter();
    let listeners = listeners.map(|(span, listener)| (span, &listener.address, "[[listen]]"));
    let direct = programs(parts)
        .filter_map(|(span, program)| Some((span, program.direct.as_ref()?, "`direct`")));
    let admin = parts
        .admin
        .iter()
        .map(|(span, admin)| (span, &admin.address, "`admin`"));
    for (span, address, place) in listeners.chain(direct).chain(admin) {
        if seen.iter().any(|earlier| clash(earlier, address)) {
            let problem = ConfigProblem::Twice {
                what: format!("the address of {place}, {address},"),
                advice: "a socket has one reader: `[[listen]]`, `direct` of a program and `admin` share none",
            };
            return Err(Found::at(span.clone(), problem));
        }
        seen.push(address);
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
                advice: "logs and figures tell routes apart by their names",
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
        (true, _) => (
            "there is no listener",
            "add [[listen]] with an address, as in address = \"127.0.0.1:8080\"",
        ),
        (false, true) => (
            "there is no route",
            "add [[route]] with a service, as in service = \"NAME\"",
        ),
    };
    Err(Found::nowhere(ConfigProblem::Nothing { missing, advice }))
}

fn warn_of_unreachable(parts: &Parts, reader: &Reader<'_>) {
    for (place, (span, later)) in parts.routes.iter().enumerate() {
        let earlier = parts.routes.iter().take(place);
        let mut covering = earlier.filter(|(_, earlier)| covers(&earlier.route, &later.route));
        if let Some((_, earlier)) = covering.next() {
            let text = format!(
                "no request reaches route `{}`: `{}` stands before it and takes all that it would",
                later.route.name, earlier.route.name
            );
            reader.warn(span, &text);
        }
    }
}

/// Whether every request that `later` fits also fits `earlier`.
fn covers(earlier: &Route, later: &Route) -> bool {
    covers_host(earlier.host.as_deref(), later.host.as_deref())
        && covers_path(&earlier.path, &later.path)
        && covers_methods(earlier, later)
        && earlier.headers.iter().all(|(name, value)| {
            let same = |(other, given): &(_, Option<_>)| {
                other == name && (value.is_none() || given == value)
            };
            later.headers.iter().any(same)
        })
}

fn covers_host(earlier: Option<&str>, later: Option<&str>) -> bool {
    let (Some(earlier), Some(later)) = (earlier, later) else {
        return earlier.is_none();
    };
    let below = |suffix: &str| {
        later
            .strip_suffix(suffix)
            .is_some_and(|head| head.ends_with('.'))
    };
    earlier == later || earlier.strip_prefix("*.").is_some_and(below)
}

fn covers_path(earlier: &str, later: &str) -> bool {
    let rest = later.strip_prefix(earlier);
    earlier == "/" || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
    for (name, (span, _)) in &parts.filters {
        if !routes().any(|route| route.filters.contains(name)) {
            reader.warn(span, &format!("no route has filter `{name}`"));
        }
    }
    for (name, (span, service)) in &parts.services {
        let is_direct =
            matches!(&service.kind, ServiceKind::Program(program) if program.direct.is_some());
        // A filter that may connect at all may mean this one.
        let may_be_called = matches!(service.kind, ServiceKind::Upstream(_))
            && parts
                .filters
                .values()
                .any(|(_, filter)| !filter.policy.grants.connect.is_empty());
        if !is_direct && !may_be_called && !routes().any(|route| route.service == *name) {
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
