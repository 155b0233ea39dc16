//! Requested and actual, per capability.

use super::{Plan, bounds};
use crate::{
    cgroup::{Controller, Version},
    machine::{Machine, Tier},
};
use palisade_policy::{Capability, Limits, Policy};
use palisade_wall::{Enforcement, Level};
use std::time::Duration;

pub(super) fn of_plan(plan: &Plan, policy: &Policy, machine: &Machine) -> Vec<Enforcement> {
    let mut all = vec![
        namespaces(plan),
        network(plan),
        landlock(plan),
        seccomp(plan),
        uid(plan),
    ];
    all.extend(protection(plan));
    all.extend(hiding(plan));
    all.extend(limits(plan, policy, machine));
    all
}

fn row(
    capability: &str,
    requested: impl Into<String>,
    actual: Level,
    mechanism: impl Into<String>,
) -> Enforcement {
    Enforcement {
        capability: capability.into(),
        requested: requested.into(),
        actual,
        mechanism: mechanism.into(),
    }
}

fn namespaces(plan: &Plan) -> Enforcement {
    let name = Capability::Namespaces.to_string();
    match plan.tier {
        Tier::Bare => row(
            &name,
            "private",
            Level::None,
            "none: Landlock confines files, seccomp what it leaves open",
        ),
        _ => {
            let root = match plan.root_is_granted() {
                true => "a granted folder for root",
                false => "root on tmpfs",
            };
            let mechanism = format!("user, mount, pid, ipc, uts and cgroup namespaces; {root}");
            row(&name, "private", Level::Full, &mechanism)
        }
    }
}

fn network(plan: &Plan) -> Enforcement {
    let name = Capability::Network.to_string();
    let (actual, wall) = match plan.tier {
        Tier::Bare => (Level::Degraded, "seccomp refuses internet sockets"),
        _ => (Level::Full, "an empty network namespace"),
    };
    let requested = match plan.seccomp.and_then(|groups| groups.host_network) {
        Some(network) if network.tcp || network.udp => "as granted",
        _ => "none",
    };
    if plan.has_brokered_network() {
        let mechanism = format!("a broker answers each call on an address; {wall} else");
        return row(&name, requested, actual, mechanism);
    }
    row(&name, "none", actual, wall)
}

fn landlock(plan: &Plan) -> Enforcement {
    let name = Capability::Landlock.to_string();
    match &plan.landlock {
        Some(landlock) if landlock.abi >= 6 => row(
            &name,
            "scopes, tcp, special files",
            Level::Full,
            format!("Landlock ABI {}", landlock.abi),
        ),
        Some(landlock) => row(
            &name,
            "scopes, tcp, special files",
            Level::Full,
            format!(
                "Landlock ABI {}; the namespaces hold what it lacks",
                landlock.abi
            ),
        ),
        None => row(
            &name,
            "scopes, tcp, special files",
            Level::None,
            "this kernel has no Landlock",
        ),
    }
}

fn seccomp(plan: &Plan) -> Enforcement {
    let name = Capability::Seccomp.to_string();
    match plan.seccomp {
        Some(_) => row(&name, "allow-list", Level::Full, "a seccomp filter"),
        None => row(
            &name,
            "allow-list",
            Level::None,
            "this kernel has no seccomp filters",
        ),
    }
}

fn uid(plan: &Plan) -> Enforcement {
    let name = Capability::Uid.to_string();
    match plan.tier {
        Tier::Privileged => row(
            &name,
            "own",
            Level::Full,
            "a host uid and gid of the domain's own",
        ),
        // Files that were granted belong to root, and no mount gives them another owner.
        Tier::Bare if plan.uid == 0 => row(
            &name,
            "own",
            Level::None,
            "root's, without capabilities: Landlock and seccomp alone hold it",
        ),
        _ => row(
            &name,
            "the starter's",
            Level::Full,
            "an ordinary user can give no other; no capabilities",
        ),
    }
}

/// What is read-only inside something writable.
fn protection(plan: &Plan) -> Option<Enforcement> {
    let count = plan.guarded().len();
    (count > 0).then(|| {
        row(
            "protect",
            format!("{count} paths and parents"),
            Level::Full,
            "mounts hold them against the guest; moved or replaced outside, the domain ends a moment later",
        )
    })
}

/// What is not found in folders that are granted.
fn hiding(plan: &Plan) -> Option<Enforcement> {
    let counts = plan.layout()?.hidden_counts();
    let is_asked_for = counts.paths + counts.patterns > 0;
    let requested = match counts.patterns {
        0 => format!("{} paths", counts.paths),
        patterns => format!("{} paths, of {patterns} patterns and others", counts.paths),
    };
    let (actual, mechanism) = match (counts.is_unheld, counts.has_mounts) {
        (false, false) => (Level::Full, "names of nothing over what is read"),
        (false, true) => (
            Level::Full,
            "names of nothing over what is read; mounts over folders in what is written to: moved or replaced outside, the \
             domain ends a moment later",
        ),
        (true, _) => (
            Level::Degraded,
            "as found at the start; what comes to match a pattern or is put in the place of a file may be seen",
        ),
    };
    is_asked_for.then(|| row(&Capability::Hide.to_string(), requested, actual, mechanism))
}

/// The wide bound that is there without a flag is told of where it may not hold.
fn bounded_processes(plan: &Plan, limits: &Limits) -> Option<u32> {
    let may_not_hold = plan.tier == Tier::Bare && plan.uid == 0;
    limits
        .processes
        .or(may_not_hold.then_some(bounds::DEFAULT_PROCESSES))
}

fn processes(plan: &Plan, count: u32) -> Enforcement {
    let (actual, mechanism) = match plan.tier {
        Tier::Bare if plan.held_by_cgroup.processes.is_some() => (Level::Full, "a pids cgroup"),
        Tier::Bare if plan.uid == 0 => (Level::None, "RLIMIT_NPROC does not bound root"),
        Tier::Bare => (
            Level::Degraded,
            "RLIMIT_NPROC, counted over all processes of the user",
        ),
        _ if plan.held_by_cgroup.processes.is_some() => (
            Level::Full,
            "a pids cgroup, which counts what is refused; RLIMIT_NPROC",
        ),
        _ => (
            Level::Full,
            "RLIMIT_NPROC, counted in the domain's user namespace",
        ),
    };
    row("processes", count.to_string(), actual, mechanism)
}

fn cpu_time(plan: &Plan, time: Duration) -> Enforcement {
    let (actual, mechanism) = match plan.cpu_time {
        Some(_) if plan.held_by_cgroup.cpu_time => {
            (Level::Full, "a cgroup counts it, init watches; RLIMIT_CPU")
        }
        Some(_) => (
            Level::Degraded,
            "init adds up what it sees, not children that nobody waits for; RLIMIT_CPU",
        ),
        None => (
            Level::Degraded,
            "RLIMIT_CPU of each process, in whole seconds",
        ),
    };
    row("cpu-time", format!("{time:?}"), actual, mechanism)
}

/// Version 1 bounds buffers of sockets apart, and a socket that is out of bounds may still hold a little
/// (`__sk_mem_raise_allocated` in net/core/sock.c).
fn memory_group(plan: &Plan) -> &'static str {
    let mut placements = plan.cgroup.placements.iter();
    let is_of_version_1 = placements.any(|placement| {
        placement.version == Version::V1 && placement.controllers.contains(&Controller::Memory)
    });
    match (plan.held_by_cgroup.host_sockets, is_of_version_1) {
        (false, _) => "a memory cgroup",
        (true, false) => "a memory cgroup, buffers of sockets included",
        (true, true) => {
            "a memory cgroup; a quarter is for buffers of sockets, each may hold 16 KiB beyond"
        }
    }
}

fn limits(plan: &Plan, policy: &Policy, machine: &Machine) -> Vec<Enforcement> {
    let limits = &policy.limits;
    let mut rows = Vec::new();
    if let Some(bytes) = limits.memory_bytes {
        rows.push(match plan.held_by_cgroup.memory_bytes {
            Some(_) => row(
                "memory",
                format!("{bytes} bytes"),
                Level::Full,
                memory_group(plan),
            ),
            None => row(
                "memory",
                format!("{bytes} bytes"),
                Level::Degraded,
                "RLIMIT_DATA of each process, an approximation",
            ),
        });
    }
    if let Some(cores) = limits.cpu_cores {
        rows.push(match (plan.held_by_cgroup.cpu_cores, plan.affinity) {
            (Some(_), _) => row("cpu", format!("{cores} cores"), Level::Full, "a cpu cgroup"),
            (None, Some(processors)) => row(
                "cpu",
                format!("{cores} cores"),
                Level::Degraded,
                format!(
                    "affinity to {processors} of {} processors",
                    machine.processors
                ),
            ),
            (None, None) => row(
                "cpu",
                format!("{cores} cores"),
                Level::None,
                "nothing here limits it",
            ),
        });
    }
    rows.extend(bounded_processes(plan, limits).map(|count| processes(plan, count)));
    let held = |name: &str, value: Option<String>, mechanism: &str| {
        value.map(|value| row(name, value, Level::Full, mechanism))
    };
    rows.extend(held(
        "files",
        limits.files.map(|files| files.to_string()),
        "RLIMIT_NOFILE",
    ));
    rows.extend(held(
        "file-size",
        limits.file_size_bytes.map(|bytes| format!("{bytes} bytes")),
        "RLIMIT_FSIZE",
    ));
    rows.extend(held(
        "tmp-size",
        limits.tmp_size_bytes.map(|bytes| format!("{bytes} bytes")),
        match plan.tier {
            Tier::Bare => "there is no private folder that could grow",
            _ => "size of the tmpfs",
        },
    ));
    rows.extend(held(
        "time",
        limits.time.map(|time| format!("{time:?}")),
        "init's clock",
    ));
    rows.extend(limits.cpu_time.map(|time| cpu_time(plan, time)));
    rows.extend(held(
        "output",
        limits.output_bytes.map(|bytes| format!("{bytes} bytes")),
        "palisade counts what it passes on",
    ));
    rows
}
