//! The server's state, for `palisade status` and for programs.

use super::{CodeStatus, Report, guests_of};
use crate::{
    kinds::GuestKind,
    log::Rfc3339,
    metrics::{GuestSum, State},
    quota::{Quotas, What},
};
use serde::Serialize;
use std::{collections::BTreeMap, time::SystemTime};

/// What `GET /status` answers. Keys are added, none changes its meaning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Of palisade.
    pub version: &'static str,
    /// The configuration's file.
    pub file: String,
    /// The server's process.
    pub pid: u32,
    /// When it began.
    pub started: String,
    /// Seconds since then.
    pub uptime_s: u64,
    /// The configuration that serves, counted from 1.
    pub generation: u64,
    /// Since when.
    pub serving_since: Option<String>,
    /// Reloads that led to a new generation.
    pub reloads: u64,
    /// Reloads that left the old one serving.
    pub failed_reloads: u64,
    /// Why the last reload failed; null once one has succeeded.
    pub last_failure: Option<Told>,
    /// What in the configuration is probably not meant.
    pub warnings: Vec<String>,
    /// Threads that serve.
    pub workers: usize,
    /// Where requests come in.
    pub listeners: Vec<String>,
    /// Connections now.
    pub connections: u64,
    /// Requests since the start.
    pub requests: u64,
    /// Lines that no log took in time.
    pub log_lines_dropped: u64,
    /// Loaded code of filters and components.
    pub code: Option<CodeStatus>,
    /// Filters and services: those of the main file, and of the first tenants.
    pub guests: Vec<GuestStatus>,
    /// Tenants that serve.
    pub tenants: usize,
    /// Those of them that were refused something because of their quotas: the first of them.
    pub quotas: Vec<QuotaStatus>,
    /// Tenants whose files are not served as they stand: the first of them.
    pub broken_tenants: Vec<BrokenStatus>,
    /// How many there are.
    pub broken_tenants_total: usize,
}

/// What a tenant uses, and was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaStatus {
    /// Its name.
    pub tenant: String,
    /// Requests under way.
    pub requests: u32,
    /// Time of processors that its filters and components used, in µs.
    pub cpu_us: u64,
    /// Memory of their instances.
    pub memory_bytes: u64,
    /// How often it was refused something, by the quota's key.
    pub refused: BTreeMap<&'static str, u64>,
}

/// A tenant whose file is not served as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BrokenStatus {
    /// Its name.
    pub tenant: String,
    /// Why.
    pub message: String,
    /// What its file was before serves on.
    pub serves_on: bool,
}

/// Guests of tenants that are told of.
const MOST_GUESTS: usize = 1000;
/// Tenants that were refused something that are told of.
const MOST_QUOTAS: usize = 100;
/// Broken tenants that are told of.
const MOST_BROKEN: usize = 100;

/// Something that went wrong, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// When.
    pub time: String,
    /// What.
    pub message: String,
}

/// A filter or service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuestStatus {
    /// Its name.
    pub name: String,
    /// `filter`, `component`, `program`, `files` or `upstream`.
    pub kind: &'static str,
    /// `idle`, `ready`, `starting`, `resting` or `broken`.
    pub state: &'static str,
    /// Requests that it was asked about.
    pub requests: u64,
    /// Those that it did not answer as it should have.
    pub errors: u64,
    /// Time in its code and its host functions, in µs.
    pub cpu_us: u64,
    /// Memory that its instances hold.
    pub memory_bytes: u64,
    /// Calls into it and out of it; of filters alone.
    pub crossings: Option<u64>,
    /// What it asked for and was not granted.
    pub denials: u64,
    /// Times that it trapped, took too long or too much, or died.
    pub faults: u64,
    /// Instances or processes started in place of one that ended.
    pub restarts: u64,
    /// The last of its faults.
    pub last_fault: Option<Told>,
}

/// The state as it is now.
pub fn status(report: &Report) -> Status {
    let now = report.now().clone();
    let sums = report.registry.guests_now();
    let of_tenants = now
        .tenants
        .iter()
        .flat_map(|(name, config)| guests_of(name, config));
    let all = now
        .guests
        .iter()
        .cloned()
        .chain(of_tenants.take(MOST_GUESTS));
    let guests = all.map(|guest| {
        let wanted = (guest.kind, guest.name.as_str());
        let known = sums.binary_search_by(|(id, _)| (id.kind, &*id.name).cmp(&wanted));
        let sum = known.ok().and_then(|at| sums.get(at));
        let sum = sum.map(|(_, sum)| sum.clone()).unwrap_or_default();
        guest_status(&guest.name, guest.what, sum)
    });
    let broken = now
        .broken
        .iter()
        .take(MOST_BROKEN)
        .map(|broken| BrokenStatus {
            tenant: broken.name.to_string(),
            message: broken.message.to_string(),
            serves_on: broken.is_served,
        });
    let edge = |metric: fn(&crate::edge::EdgeMetrics) -> u64| {
        now.edge.iter().map(|edge| metric(edge)).sum()
    };
    Status {
        version: env!("CARGO_PKG_VERSION"),
        file: report.file.display().to_string(),
        pid: std::process::id(),
        started: time(report.started),
        uptime_s: report.begun.elapsed().as_secs(),
        generation: now.generation,
        serving_since: now.since.map(time),
        reloads: now.reloads,
        failed_reloads: now.failed_reloads,
        workers: now.edge.len(),
        connections: edge(|edge| edge.connections.get()),
        requests: edge(|edge| edge.requests.get()),
        log_lines_dropped: report.log.dropped(),
        code: report.code(),
        guests: guests.collect(),
        tenants: now.tenants.len(),
        quotas: quotas(&report.registry.quotas),
        broken_tenants: broken.collect(),
        broken_tenants_total: now.broken.len(),
        last_failure: now.last_failure.map(|(when, message)| Told {
            time: time(when),
            message,
        }),
        warnings: now.warnings,
        listeners: now.listeners,
    }
}

fn quotas(quotas: &Quotas) -> Vec<QuotaStatus> {
    let standings = quotas.standings().into_iter();
    let refused = standings.filter(|standing| standing.refused.iter().any(|count| *count > 0));
    refused
        .take(MOST_QUOTAS)
        .map(|standing| QuotaStatus {
            tenant: standing.tenant.to_string(),
            requests: standing.requests,
            cpu_us: standing.used_ns / 1000,
            memory_bytes: standing.memory_bytes,
            refused: What::ALL
                .iter()
                .map(|what| what.name())
                .zip(standing.refused)
                .filter(|(_, count)| *count > 0)
                .collect(),
        })
        .collect()
}

fn time(time: SystemTime) -> String {
    Rfc3339(time).to_string()
}

fn guest_status(name: &str, kind: &'static str, sum: GuestSum) -> GuestStatus {
    GuestStatus {
        name: name.into(),
        kind,
        state: state_of(kind, sum.state),
        requests: sum.requests,
        errors: sum.errors,
        cpu_us: sum.cpu_ns / 1000,
        memory_bytes: sum.memory_bytes,
        crossings: (kind == GuestKind::Filter.name()).then_some(sum.crossings),
        denials: sum.denials,
        faults: sum.faults,
        restarts: sum.restarts,
        last_fault: sum.last_fault.map(|fault| Told {
            time: time(fault.time),
            message: fault.message,
        }),
    }
}

/// The word for how a guest of this kind is.
pub(super) fn state_of(kind: &str, state: State) -> &'static str {
    match state {
        // Only programs are started when they are asked for; the rest is loaded.
        State::Idle if kind != "program" => State::Ready.name(),
        state => state.name(),
    }
}
