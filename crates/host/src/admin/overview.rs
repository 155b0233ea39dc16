//! What the page shows: the server, all of its guests together, and a few rows.
//!
//! ```text
//!  GET /overview?view=guests&sort=cpu&search=shop&from=25 ──▶ Asked ──▶ rows of all ──▶ those that fit, sorted, a page of them
//! ```
//!
//! However many guests there are and whatever they are called, the answer is small: rows are chosen here. Names and
//! messages act on no terminal and mark up nothing; they are bounded in length.

mod asked;
mod rows;

pub(super) use asked::Asked;

use super::{Now, Report, recent::Look, status::Told};
use crate::{edge::EdgeMetrics, log::Rfc3339, metrics::RouteSum};
use palisade_policy::visible;
use rows::Row;
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// Warnings and faults that are shown; more are counted.
const MOST_TOLD: usize = 20;
/// Characters of a message; a trap may tell a long story.
const MOST_MESSAGE: usize = 400;

/// What `GET /overview` answers.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Overview {
    server: Server,
    /// Seconds that rates, processor shares and latencies are of; null at the first look.
    window_s: Option<f64>,
    totals: Totals,
    warnings: Vec<String>,
    /// How many there are in all.
    all_warnings: usize,
    /// The last faults, the latest first.
    faults: Vec<FaultOf>,
    view: &'static str,
    sort: &'static str,
    rows: Vec<Row>,
    /// How many fit what was searched for.
    matching: usize,
    /// How many there are.
    all: usize,
    from: usize,
    /// Whether guests have tenants, and `view=tenants` has rows.
    has_tenants: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Server {
    version: &'static str,
    file: String,
    pid: u32,
    uptime_s: u64,
    generation: u64,
    serving_since: Option<String>,
    reloads: u64,
    failed_reloads: u64,
    last_failure: Option<Told>,
    workers: usize,
    listeners: Vec<String>,
    log_lines_dropped: u64,
}

/// All guests and routes together.
#[derive(Clone, Debug, Default, Serialize)]
struct Totals {
    connections: u64,
    /// Requests that clients began.
    requests: u64,
    /// Those of them that were refused before any route.
    refused: u64,
    /// Of routes: answers of 500 and above, and those that did not come to their end.
    errors: u64,
    requests_s: Option<f64>,
    errors_s: Option<f64>,
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    /// Of guests: processors that they keep busy.
    cpu: Option<f64>,
    memory_bytes: u64,
    denials: u64,
    faults: u64,
    restarts: u64,
    resting: usize,
}

/// A fault, and whose it was.
#[derive(Clone, Debug, Serialize)]
struct FaultOf {
    guest: String,
    kind: &'static str,
    time: String,
    message: String,
}

/// What is shown of this look to somebody who asked so.
pub(super) fn overview(report: &Report, look: &Look, asked: &Asked) -> Overview {
    let now = report.now().clone();
    let window = look.before.as_ref();
    let window = window.map(|before| look.now.at.saturating_duration_since(before.at));
    let guests = rows::guests(&now, look);
    let totals = totals(&now, look, &guests);
    let faults = faults(&guests);
    let has_tenants = guests.iter().any(|row| row.tenant().is_some());
    let rows = match asked.view {
        asked::View::Guests => guests,
        asked::View::Tenants => rows::tenants(look, guests),
        asked::View::Routes => rows::routes(&now, look),
    };
    let all = rows.len();
    let mut rows = asked.choose(rows);
    let matching = rows.len();
    let from = asked.from.min(matching);
    let rows: Vec<_> = rows.drain(..).skip(from).take(asked.count).collect();
    Overview {
        server: server(report, &now),
        window_s: window.map(|window| window.as_secs_f64()),
        totals,
        warnings: now
            .warnings
            .iter()
            .take(MOST_TOLD)
            .map(|text| shown(text))
            .collect(),
        all_warnings: now.warnings.len(),
        faults,
        view: asked.view.name(),
        sort: asked.sort.name(),
        rows,
        matching,
        all,
        from,
        has_tenants,
    }
}

fn server(report: &Report, now: &Now) -> Server {
    let failure = now.last_failure.as_ref();
    Server {
        version: env!("CARGO_PKG_VERSION"),
        file: shown(&report.file.to_string_lossy()),
        pid: std::process::id(),
        uptime_s: report.begun.elapsed().as_secs(),
        generation: now.generation,
        serving_since: now.since.map(time),
        reloads: now.reloads,
        failed_reloads: now.failed_reloads,
        last_failure: failure.map(|(when, message)| told(*when, message)),
        workers: now.edge.len(),
        listeners: now
            .listeners
            .iter()
            .take(MOST_TOLD)
            .map(|text| shown(text))
            .collect(),
        log_lines_dropped: report.log.dropped(),
    }
}

fn totals(now: &Now, look: &Look, guests: &[Row]) -> Totals {
    let edge = |metric: fn(&EdgeMetrics) -> u64| now.edge.iter().map(|edge| metric(edge)).sum();
    let (mut ever, mut recent) = (RouteSum::default(), RouteSum::default());
    for (name, sum) in &look.now.routes {
        ever.merge(sum);
        recent.merge(&rows::recent(look, name, sum));
    }
    let mut totals = Totals {
        connections: edge(|edge| edge.connections.get()),
        requests: edge(|edge| edge.requests.get()),
        refused: edge(|edge| edge.refused.get()),
        errors: ever.errors(),
        requests_s: rows::rate(look, recent.requests(), None),
        errors_s: rows::rate(look, recent.errors(), None),
        p50_s: recent.quantile(0.5),
        p99_s: recent.quantile(0.99),
        ..Totals::default()
    };
    for row in guests {
        add(&mut totals.cpu, row.cpu);
        totals.memory_bytes += row.memory_bytes.unwrap_or_default();
        totals.denials += row.denials.unwrap_or_default();
        totals.faults += row.faults.unwrap_or_default();
        totals.restarts += row.restarts.unwrap_or_default();
        totals.resting += row.resting;
    }
    totals
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}

/// The last fault of each guest that had one, the latest first.
fn faults(guests: &[Row]) -> Vec<FaultOf> {
    let mut faulty: Vec<_> = guests
        .iter()
        .filter_map(|row| Some((row.fault.as_ref()?, row)))
        .collect();
    faulty.sort_by_key(|(fault, _)| std::cmp::Reverse(fault.time));
    let last = faulty.into_iter().take(MOST_TOLD);
    last.map(|(fault, row)| FaultOf {
        guest: row.name.clone(),
        kind: row.kind,
        time: time(fault.time),
        message: shown(&fault.message),
    })
    .collect()
}

fn told(when: SystemTime, message: &str) -> Told {
    Told {
        time: time(when),
        message: shown(message),
    }
}

fn time(time: SystemTime) -> String {
    Rfc3339(time).to_string()
}

/// The beginning of a text, in which nothing acts on a terminal or turns the direction of what stands beside it.
fn shown(text: &str) -> String {
    let text = visible(text);
    match text.char_indices().nth(MOST_MESSAGE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.into_owned(),
    }
}

/// So much of a second's length in this time.
fn per_second(count: f64, window: Duration) -> f64 {
    count / window.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests;
