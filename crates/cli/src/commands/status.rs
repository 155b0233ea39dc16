//! `palisade status`: a server and its guests, as a table.

use super::server;
use crate::{args::StatusArgs, say};
use anyhow::Context;
use palisade_policy::{visible, visible_json};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

/// What the server answers, as far as the table shows it.
#[derive(Deserialize)]
struct Status {
    version: String,
    file: String,
    pid: u32,
    uptime_s: u64,
    generation: u64,
    reloads: u64,
    failed_reloads: u64,
    last_failure: Option<Told>,
    warnings: Vec<String>,
    workers: usize,
    listeners: Vec<String>,
    connections: u64,
    requests: u64,
    log_lines_dropped: u64,
    guests: Vec<Guest>,
    // A server that was started before this command was installed may say nothing of tenants.
    #[serde(default)]
    tenants: usize,
    #[serde(default)]
    quotas: Vec<QuotaUsed>,
    #[serde(default)]
    broken_tenants: Vec<BrokenTenant>,
    #[serde(default)]
    broken_tenants_total: usize,
}

/// A tenant that was refused something because of its quotas.
#[derive(Deserialize)]
struct QuotaUsed {
    tenant: String,
    requests: u32,
    cpu_us: u64,
    memory_bytes: u64,
    refused: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct BrokenTenant {
    tenant: String,
    message: String,
    serves_on: bool,
}

#[derive(Deserialize)]
struct Told {
    time: String,
    message: String,
}

#[derive(Deserialize)]
struct Guest {
    name: String,
    kind: String,
    state: String,
    requests: u64,
    errors: u64,
    cpu_us: u64,
    memory_bytes: u64,
    denials: u64,
    faults: u64,
    restarts: u64,
    last_fault: Option<Told>,
}

/// Prints how the server is.
pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<u8> {
    let answer = server::ask(&args.server, "GET", "/status")?;
    let unreadable = || {
        format!(
            "host: the server answered {}: {}",
            answer.status,
            answer.body.trim()
        )
    };
    let status: Status = serde_json::from_str(&answer.body).with_context(unreadable)?;
    match args.json {
        true => say::print_own(visible_json(&answer.body).as_bytes(), "the status"),
        false => say::print(&status.to_string(), "the status"),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: &str| writeln!(f, "{name:<11}{}", visible(text));
        line("serves", &self.file)?;
        line("at", &self.listeners.join(", "))?;
        line(
            "process",
            &format!(
                "{}, palisade {}, up {}, {} workers",
                self.pid,
                self.version,
                duration(self.uptime_s),
                self.workers
            ),
        )?;
        line(
            "generation",
            &format!(
                "{} ({} reloads, {} failed)",
                self.generation, self.reloads, self.failed_reloads
            ),
        )?;
        line(
            "requests",
            &format!("{}, {} connections now", self.requests, self.connections),
        )?;
        if self.log_lines_dropped > 0 {
            line("log", &format!("{} lines dropped", self.log_lines_dropped))?;
        }
        if let Some(failure) = &self.last_failure {
            line("failed", &format!("{} {}", failure.time, failure.message))?;
        }
        for warning in &self.warnings {
            line("warning", warning)?;
        }
        if self.tenants + self.broken_tenants_total > 0 {
            let (tenants, broken) = (self.tenants, self.broken_tenants_total);
            line(
                "tenants",
                &format!("{tenants} serve, {broken} files cannot be served"),
            )?;
        }
        for used in &self.quotas {
            line("refused", &used.to_string())?;
        }
        for broken in &self.broken_tenants {
            let state = match broken.serves_on {
                true => "serves on as it was before",
                false => "is not there",
            };
            let first = broken.message.lines().next().unwrap_or_default();
            line("broken", &format!("{} {state}: {first}", broken.tenant))?;
        }
        if !self.guests.is_empty() {
            write!(f, "\n{}", table(&self.guests))?;
        }
        for guest in &self.guests {
            if let Some(fault) = &guest.last_fault {
                let text = format!("{}: {} {}", guest.name, fault.time, fault.message);
                writeln!(f, "fault      {}", visible(&text))?;
            }
        }
        Ok(())
    }
}

/// `shop: requests 12, rate 3; has 2 requests under way, 1.500 s of processors, 640 KiB`
impl fmt::Display for QuotaUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let refused = self.refused.iter();
        let refused = refused.map(|(quota, count)| format!("{quota} {count}"));
        write!(
            f,
            "{}: {}; has {} requests under way, {} of processors, {} KiB",
            self.tenant,
            refused.collect::<Vec<_>>().join(", "),
            self.requests,
            seconds(self.cpu_us),
            self.memory_bytes >> 10
        )
    }
}

fn seconds(us: u64) -> String {
    format!("{}.{:03} s", us / 1_000_000, us / 1000 % 1000)
}

/// Names to the left, numbers to the right, each column as wide as it must be, one blank apart: a terminal has 80
/// columns.
fn table(guests: &[Guest]) -> String {
    let head = [
        "name", "kind", "state", "requests", "errors", "cpu", "memory", "denials", "faults",
        "restarts",
    ];
    let rows = guests.iter().map(|guest| {
        [
            visible(&guest.name).into_owned(),
            guest.kind.clone(),
            guest.state.clone(),
            guest.requests.to_string(),
            guest.errors.to_string(),
            seconds(guest.cpu_us),
            format!("{} KiB", guest.memory_bytes >> 10),
            guest.denials.to_string(),
            guest.faults.to_string(),
            guest.restarts.to_string(),
        ]
    });
    let rows: Vec<_> = std::iter::once(head.map(ToOwned::to_owned))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0..3 => write!(line, "{cell:<width$} "),
                _ => write!(line, "{cell:>width$} "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// `3d 4h`, `5m 6s`: the two largest units.
fn duration(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)];
    let first = units
        .iter()
        .position(|(_, unit)| seconds >= *unit)
        .unwrap_or(3);
    let mut rest = seconds;
    let shown = units.iter().skip(first).take(2).map(|(name, unit)| {
        let count = rest / unit;
        rest %= unit;
        format!("{count}{name}")
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (seconds, shown) in [(0, "0s"), (59, "59s"), (61, "1m 1s"), (90_061, "1d 1h")] {
            assert_eq!(duration(seconds), shown);
        }
    }

    #[test]
    fn the_table_has_what_the_server_says() {
        let text = r#"{
            "version": "0.1.0", "file": "/srv/host.toml", "pid": 7, "started": "2026-11-22T00:00:00.000Z",
            "uptime_s": 3700, "generation": 3, "serving_since": null, "reloads": 2, "failed_reloads": 1,
            "last_failure": {"time": "2026-11-22T01:00:00.000Z", "message": "unknown key\n  here"},
            "warnings": ["line 3: no route has filter `old`"], "workers": 2,
            "listeners": ["http://127.0.0.1:8080"], "connections": 1, "requests": 12345,
            "log_lines_dropped": 0, "tenants": 3,
            "quotas": [{"tenant": "shop", "requests": 2, "cpu_us": 1500000, "memory_bytes": 655360,
                        "refused": {"rate": 3, "requests": 12}}],
            "broken_tenants": [{"tenant": "blog", "message": "tenant.toml:3: unknown key\nhere", "serves_on": true}],
            "broken_tenants_total": 1,
            "guests": [
                {"name": "headers", "kind": "filter", "state": "ready", "requests": 12345, "errors": 0,
                 "cpu_us": 1234567, "memory_bytes": 131072, "crossings": 5, "denials": 0, "faults": 2,
                 "restarts": 2, "last_fault": {"time": "2026-11-22T00:30:00.000Z", "message": "it trapped\u001b[2J"}},
                {"name": "site", "kind": "files", "state": "ready", "requests": 1, "errors": 0, "cpu_us": 0,
                 "memory_bytes": 0, "crossings": 0, "denials": 0, "faults": 0, "restarts": 0, "last_fault": null}
            ]
        }"#;
        let status: Status = serde_json::from_str(text).unwrap();
        insta::assert_snapshot!(status);
    }
}
