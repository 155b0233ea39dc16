//! `syscalls`: what single system calls cost once a guest runs.

use super::{
    operations::{Operations, ThroughWasi, Wall, Workload, operation},
    policies,
};
use crate::{figure::Target, floor::Floor, sample::Unit, workloads::Workloads};
use palisade_wall::Command;

/// Length of a batch in µs, short beside the scheduler's time slice, and batches of each run.
const BATCH_US: &str = "1000";
const BATCHES: &str = "11";

/// The shape of table 5 of the SVA-OS paper (2009), which compares kernels: its figures are not
/// shown, because no wall is in them.
pub(super) static SYSCALLS: Operations = Operations {
    name: "syscalls",
    title: "ns of one operation with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::Alone(lay_out),
    walls: &[
        Wall {
            subject: "palisade run",
            title: "palisade",
            policy: policies::reading,
            floor: policies::floor_of_reading,
        },
        Wall {
            subject: "palisade run, all on",
            title: "all on",
            policy: policies::everything_on,
            floor: policies::floor_of_everything,
        },
    ],
    operations: &[
        operation("getpid", "getpid", 1.15, ""),
        operation("open+close", "open and close", 1.15, ""),
        operation("checked-open", "checked open", 1.05, ""),
        operation("read-64", "read 64 B", 1.15, ""),
        operation("write-64", "write 64 B", 1.15, ""),
        operation("stat", "stat", 1.15, ""),
        operation("pipe", "pipe round trip", 1.15, ""),
        operation("signal-handler", "signal handler", 1.15, ""),
        operation("signal-install", "signal install", 1.15, ""),
        operation("poll", "poll", 1.15, ""),
        operation("select", "select", 1.15, ""),
        operation("fork+exec", "fork, exec, wait", 1.15, "").told_of(),
    ],
    unit: Unit::Nanoseconds,
    floor: Floor::Programs,
    mean: Some(Target::AtMostTimesBare(1.05)),
    least_times_bridged: None,
    original: None,
    pinned: true,
    through_wasi: Some(ThroughWasi {
        program: "syscalls",
        lacks: &[
            "pipe",
            "signal-handler",
            "signal-install",
            "select",
            "fork+exec",
        ],
    }),
};

fn lay_out(workloads: &Workloads) -> anyhow::Result<Command> {
    Ok(Command {
        program: workloads.add_syscalls()?.into(),
        arguments: vec![workloads.folder().into(), BATCH_US.into(), BATCHES.into()],
    })
}
