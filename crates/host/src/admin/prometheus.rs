//! Figures in the text format of Prometheus, version 0.0.4.
//!
//! Families are the server's own, whatever a filter calls its metrics: those names stand in a label. Series are bounded,
//! whatever the number of guests and routes: some have series of their own, and the rest together those of `(others)`.

mod defined;
mod guests;
mod page;
mod quotas;
mod routes;

use super::{Now, Report, code};
use crate::{edge::EdgeMetrics, kinds::GuestKind, metrics::Counter};
use std::{
    collections::BTreeSet,
    time::{Instant, UNIX_EPOCH},
};

pub(super) use defined::write_defined;
pub(super) use page::Page;

/// The media type.
pub const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of the workers' connections.
type EdgeFamily = (
    &'static str,
    &'static str,
    &'static str,
    fn(&EdgeMetrics) -> &Counter,
);

const EDGE_FAMILIES: &[EdgeFamily] = &[
    (
        "palisade_connections_total",
        "counter",
        "Connections accepted.",
        |edge| &edge.accepted,
    ),
    (
        "palisade_connections",
        "gauge",
        "Connections now.",
        |edge| &edge.connections,
    ),
    (
        "palisade_edge_requests_total",
        "counter",
        "Requests begun.",
        |edge| &edge.requests,
    ),
    (
        "palisade_edge_refused_total",
        "counter",
        "Requests refused before anything else saw them.",
        |edge| &edge.refused,
    ),
    (
        "palisade_timeouts_total",
        "counter",
        "Connections ended because the client was too slow.",
        |edge| &edge.timed_out,
    ),
    (
        "palisade_handshake_failures_total",
        "counter",
        "TLS handshakes that failed.",
        |edge| &edge.handshakes_failed,
    ),
    (
        "palisade_accept_waits_total",
        "counter",
        "Times that a worker waited for a descriptor or for room under the limit.",
        |edge| &edge.waits,
    ),
];

/// Everything there is, as it is now.
pub fn write(report: &Report) -> String {
    write_at(report, Instant::now())
}

/// The same at this moment, by which it is decided who has series of its own.
pub(super) fn write_at(report: &Report, moment: Instant) -> String {
    let mut page = Page::default();
    let now = report.now().clone();
    let limits = now.metrics;
    write_server(&mut page, report, &now);
    write_edge(&mut page, &now);
    for (family, kind, help, value) in report.code().iter().flat_map(code::families) {
        page.single(family, kind, help, value);
    }
    let guests = report.registry.guests_shown(limits.guests, moment);
    guests::write_guests(&mut page, &guests);
    let routes = report.registry.routes_shown(limits.routes, moment);
    routes::write_routes(&mut page, &routes);
    quotas::write_quotas(&mut page, &report.registry.quotas);
    let filters = guests
        .own
        .iter()
        .filter(|(id, _)| id.kind == GuestKind::Filter);
    let filters: BTreeSet<_> = filters.map(|(id, _)| &*id.name).collect();
    let has_place = |name: &str| filters.contains(name);
    let metrics = report.shared.metrics();
    write_defined(&mut page, &metrics, has_place, limits.filter_bytes);
    page.text
}

fn write_server(page: &mut Page, report: &Report, now: &Now) {
    page.family("palisade_info", "gauge", "The server's version.");
    let version = format!(r#"version="{}""#, env!("CARGO_PKG_VERSION"));
    page.sample("palisade_info", &version, 1);
    let started = report
        .started
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    page.single(
        "palisade_start_time_seconds",
        "gauge",
        "When the server began, since 1970.",
        started.as_secs_f64(),
    );
    page.single(
        "palisade_generation",
        "gauge",
        "The configuration that serves, counted from 1.",
        now.generation,
    );
    page.family(
        "palisade_reloads_total",
        "counter",
        "Reloads, by whether the new configuration serves.",
    );
    page.sample("palisade_reloads_total", r#"result="ok""#, now.reloads);
    page.sample(
        "palisade_reloads_total",
        r#"result="failed""#,
        now.failed_reloads,
    );
    page.single(
        "palisade_log_lines_dropped_total",
        "counter",
        "Lines that no log took in time.",
        report.log.dropped(),
    );
}

fn write_edge(page: &mut Page, now: &Now) {
    page.single(
        "palisade_workers",
        "gauge",
        "Threads that serve.",
        now.edge.len(),
    );
    for (family, kind, help, metric) in EDGE_FAMILIES {
        let sum: u64 = now.edge.iter().map(|edge| metric(edge).get()).sum();
        page.single(family, kind, help, sum);
    }
}
