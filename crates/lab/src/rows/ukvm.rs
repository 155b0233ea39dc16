//! The rows of µKVM (2006), a microkernel Java machine whose libraries reach the system through
//! connectors only: what opening files, moving blocks and starting threads cost behind the wall.

use super::{
    memory::Memory,
    operations::{Operations, ThroughWasi, Wall, Workload, operation},
    policies,
};
use crate::{floor::Floor, sample::Unit, workloads::Workloads};
use palisade_wall::Command;

/// Of the file that `mk-3` reads and writes. The original had ten times as much: the same calls more often, in runs of
/// seconds, which are compared with others of another second.
const BYTES: u32 = 512 << 10;

const ORIGINAL: Option<&str> = Some("µKVM");
const READING: Wall = Wall {
    subject: "palisade run",
    title: "palisade",
    policy: policies::reading,
    floor: policies::floor_of_reading,
};
const WRITING: Wall = Wall {
    subject: "palisade run",
    title: "palisade",
    policy: policies::writing,
    floor: policies::floor_of_writing,
};
const EVERYTHING_ON: Wall = Wall {
    subject: "palisade run, all on",
    title: "all on",
    policy: policies::everything_on,
    floor: policies::floor_of_everything,
};

/// Its table compares with plain Java, as all of them do.
pub(super) static OPENS: Operations = Operations {
    name: "mk-2",
    title: "µs to open all of them with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::Alone(lay_out_opens),
    walls: &[READING],
    operations: &[
        operation("open-500", "open 500 files", 1.01, "+2.98 %").of_calls(500),
        operation("open-1000", "open 1000 files", 1.01, "+3.33 %").of_calls(1000),
    ],
    unit: Unit::Microseconds,
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: None,
    original: ORIGINAL,
    pinned: true,
    through_wasi: Some(ThroughWasi {
        program: "opens",
        lacks: &[],
    }),
};

/// The same with every mechanism on that palisade has.
pub(super) static CHECKED_OPENS: Operations = Operations {
    name: "mk-7",
    walls: &[EVERYTHING_ON],
    operations: &[
        operation("open-500", "open 500 files", 1.05, "+68.55 %").of_calls(500),
        operation("open-1000", "open 1000 files", 1.05, "+39.89 %").of_calls(1000),
    ],
    ..OPENS
};

/// What opening them takes of memory: the originals measured that too, their figures are not known to us.
pub(super) static MEMORY_500: Memory = Memory {
    name: "mk-8",
    files: 500,
};

/// The same with twice as many.
pub(super) static MEMORY_1000: Memory = Memory {
    name: "mk-9",
    files: 1000,
};

pub(super) static BLOCKS: Operations = Operations {
    name: "mk-3",
    title: "µs for 512 KB with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::Alone(lay_out_blocks),
    walls: &[WRITING],
    operations: &[
        operation("read-64", "read by 64 B", 1.05, "−1.41 …").of_calls(BYTES / 64),
        operation("read-128", "read by 128 B", 1.05, "+0.71 %").of_calls(BYTES / 128),
        operation("read-256", "read by 256 B", 1.05, "in all").of_calls(BYTES / 256),
        operation("read-512", "read by 512 B", 1.01, "").of_calls(BYTES / 512),
        operation("read-1024", "read by 1024 B", 1.01, "").of_calls(BYTES / 1024),
        operation("write-64", "write by 64 B", 1.05, "").of_calls(BYTES / 64),
        operation("write-128", "write by 128 B", 1.05, "").of_calls(BYTES / 128),
        operation("write-256", "write by 256 B", 1.05, "").of_calls(BYTES / 256),
        operation("write-512", "write by 512 B", 1.01, "").of_calls(BYTES / 512),
        operation("write-1024", "write by 1024 B", 1.01, "").of_calls(BYTES / 1024),
    ],
    through_wasi: Some(ThroughWasi {
        program: "blocks",
        lacks: &[],
    }),
    ..OPENS
};

pub(super) static THREADS: Operations = Operations {
    name: "mk-6",
    title: "µs until the last one runs with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::Alone(lay_out_threads),
    operations: &[
        operation("threads-10", "10 threads", 1.01, "≤ +14.29 %").of_calls(10),
        operation("threads-30", "30 threads", 1.01, "≤ +14.29 %").of_calls(30),
        operation("threads-60", "60 threads", 1.01, "≤ +14.29 %").of_calls(60),
        operation("threads-100", "100 threads", 1.01, "≤ +14.29 %").of_calls(100),
    ],
    pinned: false,
    through_wasi: None,
    ..OPENS
};

fn lay_out_opens(workloads: &Workloads) -> anyhow::Result<Command> {
    const FILES: usize = 1000;
    workloads.add_files(FILES)?;
    Ok(Command {
        program: workloads.add_opens()?.into(),
        arguments: vec![workloads.folder().into(), "0".into(), "25".into()],
    })
}

fn lay_out_blocks(workloads: &Workloads) -> anyhow::Result<Command> {
    let file = workloads.add_large_file(BYTES as usize)?;
    Ok(Command {
        program: workloads.add_blocks()?.into(),
        arguments: vec![file.into(), "1".into()],
    })
}

fn lay_out_threads(workloads: &Workloads) -> anyhow::Result<Command> {
    workloads.add_files(0)?;
    Ok(Command {
        program: workloads.add_threads()?.into(),
        arguments: vec!["15".into()],
    })
}
