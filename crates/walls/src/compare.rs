//! What each wall does with one policy, side by side.

use palisade_policy::{Access, Policy};
use palisade_wall::View;
use palisade_wasm::plan;
use serde::Serialize;
use std::fmt;

/// One capability behind both walls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What is held or granted.
    pub capability: String,
    /// What the process wall does.
    pub process: String,
    /// What the wasm wall does.
    pub wasm: String,
}

/// A table of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Comparison {
    /// In the order in which they are shown.
    pub rows: Vec<Row>,
}

const SAME: &str = "the same";

fn row(capability: &str, process: &str, wasm: &str) -> Row {
    Row {
        capability: capability.into(),
        process: process.into(),
        wasm: wasm.into(),
    }
}

/// Compares the walls for a policy, whichever of them the plan is of which this is the view.
pub fn compare(view: &dyn View, policy: &Policy) -> Comparison {
    let engine = plan::enforcement(view.is_of_host());
    let mut rows: Vec<_> = view
        .process_wall()
        .iter()
        .map(|held| of_capability(&held.capability, &held.mechanism))
        .collect();
    rows.push(row(
        "isolation",
        "an address space of its own",
        &engine[0].mechanism,
    ));
    rows.push(row(
        "host-calls",
        "system calls, by the filter",
        &engine[1].mechanism,
    ));
    rows.extend(of_grants(policy));
    if let Err(refusal) = plan::refuse(policy) {
        let why = refusal.to_string();
        let why = why.strip_prefix("policy: ").unwrap_or(&why);
        rows.push(row(
            "this policy",
            "is carried out",
            &format!("is refused: {why}"),
        ));
    }
    Comparison { rows }
}

fn of_capability(capability: &str, mechanism: &str) -> Row {
    let wasm = match capability {
        "seccomp" => "the same, around the worker; the guest makes no system calls",
        "processes" => "one, without threads; the same around the worker",
        "files" => "the worker counts the guest's; the same around the worker",
        _ => SAME,
    };
    row(capability, mechanism, wasm)
}

fn of_grants(policy: &Policy) -> Vec<Row> {
    let grants = &policy.grants;
    let has = |access| grants.files.iter().any(|grant| grant.access == access);
    let candidates = [
        (
            has(Access::Read) || has(Access::ReadIfThere) || has(Access::Write),
            row(
                "read, write",
                "mounts",
                "the same mounts, opened below each folder of the root",
            ),
        ),
        (
            has(Access::Exec),
            row(
                "exec",
                "a mount without noexec",
                "nothing: it executes nothing",
            ),
        ),
        (
            has(Access::Ipc),
            row(
                "ipc",
                "a Landlock rule",
                "nothing: WASI makes no socket files, no FIFOs",
            ),
        ),
        (
            !grants.devices.is_empty(),
            row(
                "device",
                "mounts",
                "the same mounts: reading and writing only",
            ),
        ),
        (
            !grants.connect.is_empty(),
            row(
                "connect",
                "the broker",
                "the same for a component; a module has no call for it",
            ),
        ),
        (
            !grants.listen.is_empty(),
            row(
                "listen",
                "the broker, or open sockets",
                "the same for a component; open sockets for a module",
            ),
        ),
    ];
    let granted = candidates.into_iter().filter(|(applies, _)| *applies);
    granted.map(|(_, row)| row).collect()
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = row("", "process wall", "wasm wall");
        let rows = || std::iter::once(&head).chain(&self.rows);
        let width = rows().map(|row| row.process.chars().count()).max();
        let width = width.unwrap_or_default();
        for row in rows() {
            writeln!(
                formatter,
                "walls     {:<11} {:<width$}  {}",
                row.capability, row.process, row.wasm
            )?;
        }
        Ok(())
    }
}
