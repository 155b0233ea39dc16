//! Rows of SVA-OS (2009), a kernel compiled to a safe virtual instruction set, beside `syscalls`.

use super::{
    operations::{Operation, Operations, Wall},
    policies,
};
use crate::{sample::Unit, workloads::Workloads};
use palisade_wall::Command;
use std::time::Duration;

/// A bandwidth of at least 0.99 is a time of at most that much more.
const MOST: f64 = 1.01;

const fn file(key: &'static str, title: &'static str, published: &'static str) -> Operation {
    Operation {
        key,
        title,
        most: MOST,
        published,
    }
}

pub(super) static BANDWIDTH: Operations = Operations {
    name: "sva-f4",
    about: "read and write whole files of 4 KB to 4 MB (SVA-OS 2009, figure 4)",
    title: "µs for a whole file with no wall, and times as much behind each, with 95 % intervals:",
    lay_out,
    walls: &[Wall {
        subject: "palisade run",
        title: "palisade",
        policy: policies::writing,
    }],
    operations: &[
        file("read-4", "read 4 KB", "+5 … 25 %"),
        file("read-16", "read 16 KB", "+5 … 25 %"),
        file("read-64", "read 64 KB", ""),
        file("read-256", "read 256 KB", ""),
        file("read-1024", "read 1 MB", ""),
        file("read-4096", "read 4 MB", ""),
        file("write-4", "write 4 KB", "+5 … 25 %"),
        file("write-16", "write 16 KB", "+5 … 25 %"),
        file("write-64", "write 64 KB", ""),
        file("write-256", "write 256 KB", ""),
        file("write-1024", "write 1 MB", ""),
        file("write-4096", "write 4 MB", ""),
    ],
    unit: Unit::Microseconds,
    most_mean: None,
    original: Some("SVA-OS"),
    pinned: true,
    budget: Duration::from_secs(40),
};

fn lay_out(workloads: &Workloads) -> anyhow::Result<Command> {
    workloads.add_files(0)?;
    Ok(Command {
        program: workloads.add_bandwidth()?.into(),
        arguments: vec![workloads.files_folder().into(), "1000".into(), "7".into()],
    })
}
