//! What a container uses, as runc's `events` tells it.

use super::{Groups, Version};
use serde_json::{Value, json};
use std::{fs, path::Path};

pub(super) fn of(groups: &Groups) -> Value {
    match groups.version {
        Version::None => json!({}),
        Version::One => of_version_1(groups),
        Version::Two => groups.folder_of("").map_or_else(|| json!({}), of_version_2),
    }
}

fn number(folder: Option<&Path>, file: &str) -> u64 {
    let text = folder.and_then(|folder| fs::read_to_string(folder.join(file)).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Lines of a name and a number.
fn table(folder: Option<&Path>, file: &str) -> serde_json::Map<String, Value> {
    let text = folder.and_then(|folder| fs::read_to_string(folder.join(file)).ok());
    let text = text.unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((
                name.to_owned(),
                Value::from(value.trim().parse::<u64>().ok()?),
            ))
        })
        .collect()
}

pub(super) fn kills_for_memory(groups: &Groups) -> u64 {
    let file = match groups.version {
        Version::Two => "memory.events",
        _ => "memory.oom_control",
    };
    let counts = table(groups.folder_of("memory"), file);
    counts.get("oom_kill").and_then(Value::as_u64).unwrap_or(0)
}

fn of_version_1(groups: &Groups) -> Value {
    let memory = groups.folder_of("memory");
    let account = groups.folder_of("cpuacct");
    let pids = groups.folder_of("pids");
    let per_cpu = account
        .and_then(|folder| fs::read_to_string(folder.join("cpuacct.usage_percpu")).ok())
        .unwrap_or_default();
    let per_cpu: Vec<u64> = per_cpu
        .split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    let times = table(account, "cpuacct.stat");
    /// The kernel's ticks, of which there are 100 a second, in ns.
    const TICK_NS: u64 = 10_000_000;
    let time = |name: &str| times.get(name).and_then(Value::as_u64).unwrap_or(0) * TICK_NS;
    let throttled = table(groups.folder_of("cpu"), "cpu.stat");
    let kind = |prefix: &str| {
        json!({
            "limit": number(memory, &format!("memory.{prefix}limit_in_bytes")),
            "usage": number(memory, &format!("memory.{prefix}usage_in_bytes")),
            "max": number(memory, &format!("memory.{prefix}max_usage_in_bytes")),
            "failcnt": number(memory, &format!("memory.{prefix}failcnt")),
        })
    };
    let raw = table(memory, "memory.stat");
    json!({
        "cpu": {
            "usage": {
                "total": number(account, "cpuacct.usage"),
                "percpu": per_cpu,
                "kernel": time("system"),
                "user": time("user"),
            },
            "throttling": {
                "periods": throttled.get("nr_periods"),
                "throttledPeriods": throttled.get("nr_throttled"),
                "throttledTime": throttled.get("throttled_time"),
            },
        },
        "memory": {
            "cache": raw.get("cache"),
            "usage": kind(""),
            "swap": kind("memsw."),
            "kernel": kind("kmem."),
            "kernelTCP": kind("kmem.tcp."),
            "raw": raw,
        },
        "pids": {
            "current": number(pids, "pids.current"),
            "limit": number(pids, "pids.max"),
        },
        "blkio": {},
        "hugetlb": {},
        "intel_rdt": {},
        "network_interfaces": null,
    })
}

fn of_version_2(folder: &Path) -> Value {
    let folder = Some(folder);
    let cpu = table(folder, "cpu.stat");
    let us = |name: &str| cpu.get(name).and_then(Value::as_u64).unwrap_or(0) * 1000;
    let raw = table(folder, "memory.stat");
    json!({
        "cpu": {
            "usage": {
                "total": us("usage_usec"),
                "kernel": us("system_usec"),
                "user": us("user_usec"),
            },
            "throttling": {
                "periods": cpu.get("nr_periods"),
                "throttledPeriods": cpu.get("nr_throttled"),
                "throttledTime": us("throttled_usec"),
            },
        },
        "memory": {
            "cache": raw.get("file"),
            "usage": {
                "limit": number(folder, "memory.max"),
                "usage": number(folder, "memory.current"),
                "max": number(folder, "memory.peak"),
                "failcnt": 0,
            },
            "swap": {
                "limit": number(folder, "memory.swap.max"),
                "usage": number(folder, "memory.swap.current"),
                "failcnt": 0,
            },
            "raw": raw,
        },
        "pids": {
            "current": number(folder, "pids.current"),
            "limit": number(folder, "pids.max"),
        },
        "blkio": {},
        "hugetlb": {},
        "intel_rdt": {},
        "network_interfaces": null,
    })
}
