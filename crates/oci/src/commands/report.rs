//! `report`: what a container asked for, beside what the kernel says of it.

use crate::{
    cgroup::Version,
    cli::Global,
    policy::Kept,
    state::{Folder, State},
};
use anyhow::{Context, bail};
use oci_spec::runtime::{LinuxNamespaceType, LinuxResources, Spec};
use palisade_process::container::{CAPABILITIES, Status};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::MetadataExt};

pub(super) fn run(global: &Global, id: &str) -> anyhow::Result<()> {
    let folder = Folder::of(global, id)?;
    let state = folder.read()?;
    if state.status() != Status::Running {
        bail!("policy: container not running: there is no program of which the kernel could tell");
    }
    let spec = folder.config()?;
    let init = state.pid().context("policy: container not running")?;
    let program = program_of(init)?;
    let mut rows = namespaces(&spec, init);
    rows.extend(process(&spec, program, &state.kept)?);
    rows.extend(limits(&spec, &state));
    rows.extend(network(&state));
    super::print(&json!({
        "id": state.id,
        "pid": init,
        "program": program,
        "keeper": state.keeper.map(|keeper| keeper.pid),
        "enforcement": rows,
        "denied": denied(&folder),
    }))
}

fn network(state: &State) -> Option<Value> {
    let broker = state.kept.broker.as_ref()?;
    let is_answered = state.kept.is_answered();
    let actual = match is_answered {
        true => "a supervisor answers",
        false => "nobody answers: nothing is reached",
    };
    let mechanism = "each call on an address is left to the supervisor, seccomp_unotify(2)";
    Some(row("network", broker.granted.clone(), actual, mechanism))
}

/// Each with what would have allowed it: as an engine's flags, and where it is one as an annotation.
pub(super) fn denied(folder: &Folder) -> Vec<Value> {
    let with_annotation = |mut denial: Value| {
        let grant = denial["grant"].as_str().unwrap_or_default().to_owned();
        let annotation = match grant.split_once(' ') {
            Some(("--connect", place)) => Some(format!("palisade.connect={place}")),
            Some(("--listen", place)) => Some(format!("palisade.listen={place}")),
            _ => None,
        };
        let flags = annotation
            .as_ref()
            .map(|annotation| format!("--annotation {annotation}"));
        let flags = flags.or_else(|| Some(grant).filter(|grant| !grant.is_empty()));
        denial["annotation"] = annotation.into();
        denial["flags"] = flags.into();
        denial
    };
    folder.denials().into_iter().map(with_annotation).collect()
}

/// The program is init's first child; what it left behind comes after.
fn program_of(init: u32) -> anyhow::Result<u32> {
    let children = fs::read_to_string(format!("/proc/{init}/task/{init}/children"))
        .context("host: the kernel does not tell of children (CONFIG_PROC_CHILDREN)")?;
    let first = children.split_ascii_whitespace().next();
    let first = first.and_then(|pid| pid.parse().ok());
    first.context("policy: container not running")
}

fn row(
    capability: &str,
    requested: impl Into<Value>,
    actual: impl Into<Value>,
    mechanism: &str,
) -> Value {
    json!({
        "capability": capability,
        "requested": requested.into(),
        "actual": actual.into(),
        "mechanism": mechanism,
    })
}

fn namespaces(spec: &Spec, init: u32) -> Vec<Value> {
    const KINDS: [(LinuxNamespaceType, &str); 7] = [
        (LinuxNamespaceType::User, "user"),
        (LinuxNamespaceType::Mount, "mnt"),
        (LinuxNamespaceType::Pid, "pid"),
        (LinuxNamespaceType::Network, "net"),
        (LinuxNamespaceType::Ipc, "ipc"),
        (LinuxNamespaceType::Uts, "uts"),
        (LinuxNamespaceType::Cgroup, "cgroup"),
    ];
    let linux = spec.linux().as_ref();
    let asked = linux
        .and_then(|linux| linux.namespaces().clone())
        .unwrap_or_default();
    let number = |path: String| fs::metadata(path).map(|about| about.ino());
    KINDS
        .iter()
        .map(|(kind, file)| {
            let requested = match asked.iter().find(|one| one.typ() == *kind) {
                None => "the host's",
                Some(one) if one.path().is_some() => "joined",
                Some(_) => "its own",
            };
            let own = number(format!("/proc/self/ns/{file}"));
            let actual = match (own, number(format!("/proc/{init}/ns/{file}"))) {
                (Ok(own), Ok(theirs)) if own == theirs => "the host's",
                (Ok(_), Ok(_)) => "not the host's",
                _ => "not to be told",
            };
            row(
                &format!("namespace {file}"),
                requested,
                actual,
                "namespaces(7)",
            )
        })
        .collect()
}

fn process(spec: &Spec, program: u32, kept: &Kept) -> anyhow::Result<Vec<Value>> {
    let without_own = kept.without_own_filter;
    let path = format!("/proc/{program}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("host: cannot read {path}"))?;
    let line = |name: &str| {
        let mut lines = status.lines();
        let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.map_or("", str::trim).to_owned()
    };
    let asked = spec.process().as_ref();
    let sets = asked.and_then(|process| process.capabilities().as_ref());
    let bounding = sets
        .and_then(|sets| sets.bounding().clone())
        .unwrap_or_default();
    let mut requested: Vec<String> = bounding
        .iter()
        .map(|name| name.to_string().trim_start_matches("CAP_").to_owned())
        .collect();
    requested.sort();
    let bits = u64::from_str_radix(&line("CapBnd"), 16).unwrap_or(0);
    let mut actual: Vec<&str> = CAPABILITIES
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits & 1 << bit != 0)
        .map(|(_, name)| *name)
        .collect();
    actual.sort_unstable();
    let engines = spec
        .linux()
        .as_ref()
        .is_some_and(|linux| linux.seccomp().is_some());
    // Where calls are watched all that is asked for is in one.
    let filters = match kept.watches_calls {
        true => 1,
        false => u32::from(engines) + u32::from(!without_own),
    };
    let has_filter = line("Seccomp") == "2";
    Ok(vec![
        row(
            "capabilities",
            requested,
            actual,
            "the bounding set, capabilities(7)",
        ),
        row(
            "no new privileges",
            asked
                .and_then(|process| process.no_new_privileges())
                .unwrap_or(false),
            line("NoNewPrivs") == "1",
            "prctl(2)",
        ),
        row(
            "system calls",
            match (engines, without_own) {
                (true, true) => "the engine's filter",
                (true, false) => "the engine's filter and palisade's",
                (false, false) => "palisade's filter",
                (false, true) => "none",
            },
            match (has_filter, line("Seccomp_filters").parse::<u32>()) {
                (false, _) => "no filter".to_owned(),
                (true, Ok(count)) if count >= filters => format!("filters: {count}"),
                (true, Ok(count)) => format!("filters: {count} of {filters}"),
                (true, Err(_)) => "filters".to_owned(),
            },
            "seccomp(2), the stricter of all",
        ),
        row(
            "refused calls",
            if kept.watches_calls {
                "told of"
            } else {
                "not told of"
            },
            match (kept.watches_calls, kept.is_answered()) {
                (false, _) => "refused by the filters",
                (true, true) => "refused by a supervisor",
                (true, false) => "nobody answers: they fail",
            },
            "seccomp_unotify(2)",
        ),
        row(
            "user",
            asked.map_or(0, |process| process.user().uid()),
            line("Uid")
                .split_ascii_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
            "the host's number of it",
        ),
    ])
}

fn limits(spec: &Spec, state: &State) -> Vec<Value> {
    let linux = spec.linux().as_ref();
    let Some(resources) = linux.and_then(|linux| linux.resources().as_ref()) else {
        return Vec::new();
    };
    let is_two = state.groups.version == Version::Two;
    let held = |controller: &str, files: (&str, &str)| {
        let file = if is_two { files.1 } else { files.0 };
        let folder = state.groups.folder_of(controller);
        let text = folder.and_then(|folder| fs::read_to_string(folder.join(file)).ok());
        text.map_or("not held".to_owned(), |text| text.trim().to_owned())
    };
    let given = |number: Option<i64>| number.filter(|number| *number > 0);
    let memory = |of: fn(&oci_spec::runtime::LinuxMemory) -> Option<i64>| {
        given(resources.memory().as_ref().and_then(of))
    };
    let mut rows = Vec::new();
    if let Some(limit) = memory(|memory| memory.limit()) {
        let actual = held("memory", ("memory.limit_in_bytes", "memory.max"));
        rows.push(row("memory", limit, actual, "control group"));
    }
    if let Some(limit) = given(pids_of(resources)) {
        let actual = held("pids", ("pids.max", "pids.max"));
        rows.push(row("processes", limit, actual, "control group"));
    }
    if let Some(quota) = given(resources.cpu().as_ref().and_then(|cpu| cpu.quota())) {
        let actual = held("cpu", ("cpu.cfs_quota_us", "cpu.max"));
        rows.push(row(
            "processor time in a period",
            quota,
            actual,
            "control group",
        ));
    }
    rows
}

fn pids_of(resources: &LinuxResources) -> Option<i64> {
    resources.pids().as_ref().map(|pids| pids.limit())
}
