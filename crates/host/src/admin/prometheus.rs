//! Figures in the text format of Prometheus, version 0.0.4.
//!
//! Families are the server's own, whatever a filter calls its metrics: those names stand in a label.

use super::{Now, Report, code};
use crate::{
    edge::EdgeMetrics,
    kinds::GuestKind,
    metrics::{Counter, GuestId, GuestSum, RouteSum, State},
};
use palisade_filter::{Histogram, Metric, MetricValue};
use palisade_policy::visible;
use std::{
    fmt::{Display, Write},
    sync::Arc,
    time::UNIX_EPOCH,
};

/// The media type.
pub const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric of each guest: its family, its type, what it means, and how to find it.
type GuestFamily = (
    &'static str,
    &'static str,
    &'static str,
    fn(&GuestSum) -> Value,
);

/// A metric of the workers' connections.
type EdgeFamily = (
    &'static str,
    &'static str,
    &'static str,
    fn(&EdgeMetrics) -> &Counter,
);

enum Value {
    Count(u64),
    Seconds(f64),
}

impl Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Seconds(seconds) => seconds.fmt(f),
        }
    }
}

const GUEST_FAMILIES: &[GuestFamily] = &[
    (
        "palisade_requests_total",
        "counter",
        "Requests that the guest was asked about.",
        |sum| Value::Count(sum.requests),
    ),
    (
        "palisade_errors_total",
        "counter",
        "Requests that it did not answer as it should have.",
        |sum| Value::Count(sum.errors),
    ),
    (
        "palisade_cpu_seconds_total",
        "counter",
        "Time in the guest's code and its host functions; of a filter, an instance's first 64 calls are all timed, after those one in 17 stands for the others.",
        |sum| Value::Seconds(sum.cpu_ns as f64 / 1e9),
    ),
    (
        "palisade_memory_bytes",
        "gauge",
        "Memory that its instances hold.",
        |sum| Value::Count(sum.memory_bytes),
    ),
    (
        "palisade_denials_total",
        "counter",
        "What it asked for and was not granted.",
        |sum| Value::Count(sum.denials),
    ),
    (
        "palisade_faults_total",
        "counter",
        "Times that it trapped, took too long or too much, or died.",
        |sum| Value::Count(sum.faults),
    ),
    (
        "palisade_restarts_total",
        "counter",
        "Instances or processes started in place of one that ended.",
        |sum| Value::Count(sum.restarts),
    ),
    (
        "palisade_resting",
        "gauge",
        "1 from when it is left alone because it failed too often, or while a program waits for its next start, to when it is asked again.",
        |sum| Value::Count(u64::from(sum.state == State::Resting)),
    ),
];

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
    let mut page = Page::default();
    let now = report.now().clone();
    write_server(&mut page, report, &now);
    write_edge(&mut page, &now);
    for (family, kind, help, value) in report.code().iter().flat_map(code::families) {
        page.single(family, kind, help, value);
    }
    let guests = report.registry.guests_now();
    for (family, kind, help, metric) in GUEST_FAMILIES {
        page.family(family, kind, help);
        for (id, sum) in &guests {
            page.sample(family, &labels_of(id.kind, &id.name), metric(sum));
        }
    }
    write_crossings(&mut page, &guests);
    write_routes(&mut page, &report.registry.routes_now());
    write_defined(&mut page, &report.shared.metrics());
    page.text
}

/// The page, as far as it is written.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.text, "{name} {value}"),
            _ => writeln!(self.text, "{name}{{{labels}}} {value}"),
        };
    }

    /// A histogram's samples. Buckets count what is not above their bounds, those below included.
    fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        buckets: impl Iterator<Item = (impl Display, u64)>,
        count: u64,
        sum: impl Display,
    ) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in buckets {
            self.sample(&bucket, &format!(r#"{labels},le="{bound}""#), count);
        }
        self.sample(&bucket, &format!(r#"{labels},le="+Inf""#), count);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count);
    }

    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, "", value);
    }
}

/// A label's value: the three characters that the format has escapes for, and none that act on a terminal.
fn label(value: &str) -> String {
    let value = visible(value);
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Which guest. Whose it is will be a label beside these.
fn labels_of(kind: GuestKind, name: &str) -> String {
    format!(r#"kind="{}",guest="{}""#, kind.name(), label(name))
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

/// Of filters alone: nothing counts how a component and its host functions call each other, and what else
/// serves has no such border.
fn write_crossings(page: &mut Page, guests: &[(GuestId, GuestSum)]) {
    const CROSSINGS: &str = "palisade_crossings_total";
    page.family(CROSSINGS, "counter", "Calls into the filter and out of it.");
    for (id, sum) in guests.iter().filter(|(id, _)| id.kind == GuestKind::Filter) {
        page.sample(CROSSINGS, &labels_of(id.kind, &id.name), sum.crossings);
    }
}

fn write_routes(page: &mut Page, routes: &[(Arc<str>, RouteSum)]) {
    let label_of = |name: &str| format!(r#"route="{}""#, label(name));
    const REQUESTS: &str = "palisade_route_requests_total";
    page.family(
        REQUESTS,
        "counter",
        "Requests that are over, by their route and the class of the status that they were answered with.",
    );
    for (name, sum) in routes {
        for (class, count) in sum.responses() {
            page.sample(
                REQUESTS,
                &format!(r#"{},code="{class}""#, label_of(name)),
                count,
            );
        }
    }
    const BROKEN: &str = "palisade_route_broken_off_total";
    page.family(
        BROKEN,
        "counter",
        "Those of them that did not come to their end, by who broke them off.",
    );
    for (name, sum) in routes {
        for (by, count) in sum.broken() {
            page.sample(BROKEN, &format!(r#"{},by="{by}""#, label_of(name)), count);
        }
    }
    const TIME: &str = "palisade_route_duration_seconds";
    page.family(
        TIME,
        "histogram",
        "From a request's head to its answer's end. Of many requests one in 16 is timed, and counts for them.",
    );
    for (name, sum) in routes {
        let (count, seconds) = sum.times_sum();
        page.histogram(TIME, &label_of(name), sum.times(), count, seconds);
    }
}

/// Metrics that filters defined.
pub(super) fn write_defined(page: &mut Page, metrics: &[Metric]) {
    let labels = |metric: &Metric| {
        let guest = labels_of(GuestKind::Filter, &metric.filter);
        format!(r#"{guest},metric="{}""#, label(&metric.name))
    };
    const COUNTER: &str = "palisade_filter_counter_total";
    page.family(COUNTER, "counter", "Counters that filters define.");
    for metric in metrics {
        if let MetricValue::Counter(value) = metric.value {
            page.sample(COUNTER, &labels(metric), value);
        }
    }
    const GAUGE: &str = "palisade_filter_gauge";
    page.family(GAUGE, "gauge", "Gauges that filters define.");
    for metric in metrics {
        if let MetricValue::Gauge(value) = metric.value {
            page.sample(GAUGE, &labels(metric), value);
        }
    }
    const HISTOGRAM: &str = "palisade_filter_histogram";
    page.family(HISTOGRAM, "histogram", "Histograms that filters define.");
    for metric in metrics {
        if let MetricValue::Histogram(histogram) = &metric.value {
            let Histogram {
                buckets,
                count,
                sum,
            } = histogram;
            let buckets = buckets.iter().map(|(bound, count)| (*bound, *count));
            page.histogram(HISTOGRAM, &labels(metric), buckets, *count, *sum);
        }
    }
}
