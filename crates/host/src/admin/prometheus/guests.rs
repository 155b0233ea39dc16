//! Series of filters and services.

use super::page::{Page, label};
use crate::{
    kinds::GuestKind,
    metrics::{GuestId, GuestSum, Shown, State},
};
use std::fmt::Display;

/// A metric of each guest: its family, its type, what it means, and how to find it in its sums and in how many of those
/// who share the series rest.
type GuestFamily = (
    &'static str,
    &'static str,
    &'static str,
    fn(&GuestSum, usize) -> Value,
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
        |sum, _| Value::Count(sum.requests),
    ),
    (
        "palisade_errors_total",
        "counter",
        "Requests that it did not answer as it should have.",
        |sum, _| Value::Count(sum.errors),
    ),
    (
        "palisade_cpu_seconds_total",
        "counter",
        "Time in the guest's code and its host functions; of a filter, an instance's first 64 calls are all timed, after those one in 17 stands for the others.",
        |sum, _| Value::Seconds(sum.cpu_ns as f64 / 1e9),
    ),
    (
        "palisade_memory_bytes",
        "gauge",
        "Memory that its instances hold.",
        |sum, _| Value::Count(sum.memory_bytes),
    ),
    (
        "palisade_denials_total",
        "counter",
        "What it asked for and was not granted.",
        |sum, _| Value::Count(sum.denials),
    ),
    (
        "palisade_faults_total",
        "counter",
        "Times that it trapped, took too long or too much, or died.",
        |sum, _| Value::Count(sum.faults),
    ),
    (
        "palisade_restarts_total",
        "counter",
        "Instances or processes started in place of one that ended.",
        |sum, _| Value::Count(sum.restarts),
    ),
    (
        "palisade_resting",
        "gauge",
        "1 from when it is left alone because it failed too often, or while a program waits for its next start, to when it is asked again; of (others), how many are.",
        |_, resting| Value::Count(resting as u64),
    ),
];

/// What a series of those is called that have none of their own. No name of a guest or route has such characters.
pub(super) const OTHERS: &str = "(others)";

/// Which guest. Whose it is stands in its name.
pub(super) fn labels_of(kind: GuestKind, name: &str) -> String {
    format!(r#"kind="{}",guest="{}""#, kind.name(), label(name))
}

/// The figures of all guests.
pub(super) fn write_guests(page: &mut Page, shown: &Shown<GuestId, GuestKind, GuestSum>) {
    write_numbers(page, shown);
    let series: Vec<_> = series(shown).collect();
    for (family, kind, help, metric) in GUEST_FAMILIES {
        page.family(family, kind, help);
        for Series {
            labels,
            sum,
            resting,
            ..
        } in &series
        {
            page.sample(family, labels, metric(sum, *resting));
        }
    }
    // Of filters alone: nothing counts how a component and its host functions call each other, and what else serves
    // has no such border.
    const CROSSINGS: &str = "palisade_crossings_total";
    page.family(CROSSINGS, "counter", "Calls into the filter and out of it.");
    let filters = series
        .iter()
        .filter(|series| series.kind == GuestKind::Filter);
    for Series { labels, sum, .. } in filters {
        page.sample(CROSSINGS, labels, sum.crossings);
    }
}

/// What is the same for all series of one guest, or of those that have none of their own.
struct Series<'a> {
    kind: GuestKind,
    labels: String,
    sum: &'a GuestSum,
    resting: usize,
}

fn series(shown: &Shown<GuestId, GuestKind, GuestSum>) -> impl Iterator<Item = Series<'_>> {
    let own = shown.own.iter().map(|(id, sum)| Series {
        kind: id.kind,
        labels: labels_of(id.kind, &id.name),
        sum,
        resting: usize::from(sum.state == State::Resting),
    });
    let others = shown.others.iter().filter(|(_, others)| others.is_shown);
    let others = others.map(|(kind, others)| Series {
        kind: *kind,
        labels: labels_of(*kind, OTHERS),
        sum: &others.sum,
        resting: others.resting,
    });
    own.chain(others)
}

fn write_numbers(page: &mut Page, shown: &Shown<GuestId, GuestKind, GuestSum>) {
    const GUESTS: &str = "palisade_guests";
    page.family(
        GUESTS,
        "gauge",
        "Filters and services, by whether they have series of their own or share those of (others).",
    );
    for (kind, others) in &shown.others {
        let own = shown.own.iter().filter(|(id, _)| id.kind == *kind).count();
        for (series, count) in [("own", own), ("others", others.members)] {
            let labels = format!(r#"kind="{}",series="{series}""#, kind.name());
            page.sample(GUESTS, &labels, count);
        }
    }
}
