//! Rows of SVA-OS (2009), a kernel compiled to a safe virtual instruction set, beside `syscalls`.

use super::{
    operations::{Operation, Operations, ThroughWasi, Wall, Workload, operation},
    policies,
    programs::{Job, Programs},
    sources::{BZIP2, LAME},
};
use crate::{floor::Floor, sample::Unit, workloads::Workloads};
use palisade_wall::Command;
use std::ffi::OsString;

/// A bandwidth of at least 0.99 is a time of at most that much more.
const MOST: f64 = 1.01;

const fn file(key: &'static str, title: &'static str, published: &'static str) -> Operation {
    operation(key, title, MOST, published)
}

pub(super) static BANDWIDTH: Operations = Operations {
    name: "sva-f4",
    title: "µs for a whole file with no wall, and times as much behind each, with 95 % intervals:",
    workload: Workload::Alone(lay_out),
    walls: &[Wall {
        subject: "palisade run",
        title: "palisade",
        policy: policies::writing,
        floor: policies::floor_of_writing,
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
    floor: Floor::Filter,
    mean: None,
    least_times_bridged: None,
    original: Some("SVA-OS"),
    pinned: true,
    through_wasi: Some(ThroughWasi {
        program: "bandwidth",
        lacks: &[],
    }),
};

fn lay_out(workloads: &Workloads) -> anyhow::Result<Command> {
    workloads.add_files(0)?;
    Ok(Command {
        program: workloads.add_bandwidth()?.into(),
        arguments: vec![workloads.files_folder().into(), "1000".into(), "7".into()],
    })
}

/// 1 / 0.995.
const MOST_TIME: f64 = 1.005;
/// 1 / 0.6.
const MOST_WASM_TIME: f64 = 1.667;

pub(super) static APPLICATIONS: Programs = Programs {
    programs: &[
        Job {
            program: "bzip2",
            input_mb: 64,
            published: "~0",
            lay_out: lay_out_bzip2,
            install: "apt-get install bzip2",
            source: Some(&BZIP2),
        },
        Job {
            program: "lame",
            input_mb: 206,
            published: "~0",
            lay_out: lay_out_lame,
            install: "apt-get install lame",
            source: Some(&LAME),
        },
        Job {
            program: "perl",
            input_mb: 16,
            published: "~0",
            lay_out: lay_out_perl,
            install: "apt-get install perl",
            source: None,
        },
    ],
    most: MOST_TIME,
    most_wasm: MOST_WASM_TIME,
    original: "SVA-OS",
};

fn lay_out_bzip2(workloads: &Workloads, bytes: usize) -> anyhow::Result<Vec<OsString>> {
    let input = workloads.add_text("text", bytes)?;
    Ok(vec!["-k".into(), "-f".into(), input.into()])
}

fn lay_out_lame(workloads: &Workloads, bytes: usize) -> anyhow::Result<Vec<OsString>> {
    let input = workloads.add_sound("sound.wav", bytes)?;
    let output = input.with_extension("mp3");
    Ok(vec!["--quiet".into(), input.into(), output.into()])
}

/// Words of a text counted and sorted, the kind of job that perl was made for.
fn lay_out_perl(workloads: &Workloads, bytes: usize) -> anyhow::Result<Vec<OsString>> {
    const COUNT: &str = "while (<>) { $seen{lc $_}++ for /\\w+/g } \
        print map { \"$seen{$_} $_\\n\" } sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;";
    let input = workloads.add_text("words", bytes)?;
    Ok(vec!["-e".into(), COUNT.into(), input.into()])
}
