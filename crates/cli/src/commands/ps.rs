//! `palisade ps`: the running domains of this user.

use super::domains::{self, age, command, name, short_bytes, short_duration};
use crate::{args::PsArgs, say};
use palisade_process::running::RunningDomain;
use serde::Serialize;
use std::time::UNIX_EPOCH;

/// One domain, as JSON has it. What is here stays; more may come.
#[derive(Serialize)]
struct Row<'a> {
    id: u32,
    name: Option<&'a str>,
    wall: &'a str,
    supervisor: u32,
    started_unix_ms: u64,
    age_ms: u64,
    processes: usize,
    cpu_us: u64,
    memory_bytes: u64,
    command: &'a [String],
}

/// Prints them.
pub(crate) fn ps(args: &PsArgs) -> anyhow::Result<u8> {
    let all = domains::list()?;
    match args.json {
        true => say::print_json(&all.iter().map(row).collect::<Vec<_>>(), "the domains"),
        false => say::print(&table(&all), "the domains"),
    }
}

fn row(domain: &RunningDomain) -> Row<'_> {
    let started = domain
        .started
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Row {
        id: domain.id,
        name: domain.name.as_deref(),
        wall: &domain.wall,
        supervisor: domain.supervisor,
        started_unix_ms: u64::try_from(started.as_millis()).unwrap_or(u64::MAX),
        age_ms: u64::try_from(age(domain).as_millis()).unwrap_or(u64::MAX),
        processes: domain.usage.processes,
        cpu_us: u64::try_from(domain.usage.cpu.as_micros()).unwrap_or(u64::MAX),
        memory_bytes: domain.usage.memory_bytes,
        command: &domain.command,
    }
}

fn table(all: &[RunningDomain]) -> String {
    let head = [
        "ID", "NAME", "WALL", "AGE", "PROCS", "CPU", "MEMORY", "COMMAND",
    ];
    let rows = all.iter().map(|domain| {
        [
            domain.id.to_string(),
            name(domain),
            domain.wall.clone(),
            short_duration(age(domain)),
            domain.usage.processes.to_string(),
            format!("{:.2}s", domain.usage.cpu.as_secs_f64()),
            short_bytes(domain.usage.memory_bytes),
            command(domain),
        ]
    });
    domains::table(head, rows.collect(), 3)
}
