//! The policies that rows are measured under.

use super::grant;
use crate::workloads::Workloads;
use palisade_policy::{Access, Capability, Grants, Limits, Policy};
use palisade_wall::Command;
use std::{ffi::OsString, path::Path, time::Duration};

/// A static program and nothing else: all wall and no guest.
pub(super) fn alone(command: &Command) -> Policy {
    Policy {
        grants: Grants {
            files: vec![grant(Access::Read, Path::new(&command.program))],
            ..Grants::nothing()
        },
        ..Policy::default()
    }
}

/// What the least wall does for a policy beside its filter: words for `floor-filter`.
pub(super) type FloorWords = fn(&Workloads) -> Vec<OsString>;

/// Of [`reading`]: no other's processes are seen, and one folder is.
pub(super) fn floor_of_reading(workloads: &Workloads) -> Vec<OsString> {
    vec![
        "--processes".into(),
        "--read".into(),
        workloads.folder().into(),
    ]
}

/// Of [`writing`].
pub(super) fn floor_of_writing(workloads: &Workloads) -> Vec<OsString> {
    let mut words = floor_of_reading(workloads);
    words.extend(["--write".into(), workloads.files_folder().into()]);
    words
}

/// Of [`everything_on`].
pub(super) fn floor_of_everything(workloads: &Workloads) -> Vec<OsString> {
    let mut words = floor_of_writing(workloads);
    let first = workloads.files_folder().join("0");
    words.extend(["--protect".into(), first.into()]);
    words
}

/// What people get who grant one folder and nothing else.
pub(super) fn reading(workloads: &Workloads) -> Policy {
    let mut policy = Policy::default();
    let folder = grant(Access::Read, workloads.folder());
    policy.grants.files.push(folder);
    policy
}

/// The same, and a folder to write to.
pub(super) fn writing(workloads: &Workloads) -> Policy {
    let mut policy = reading(workloads);
    let files = grant(Access::Write, &workloads.files_folder());
    policy.grants.files.push(files);
    policy
}

/// Every mechanism that could cost something while the guest runs: files opened below a writable
/// folder with a protected path, every limit.
pub(super) fn everything_on(workloads: &Workloads) -> Policy {
    let mut policy = writing(workloads);
    let first = grant(Access::Protect, &workloads.files_folder().join("0"));
    policy.grants.files.push(first);
    policy.limits = Limits {
        memory_bytes: Some(512 << 20),
        cpu_cores: None,
        processes: Some(256),
        files: Some(2048),
        file_size_bytes: Some(1 << 30),
        tmp_size_bytes: Some(64 << 20),
        time: Some(Duration::from_secs(600)),
        cpu_time: Some(Duration::from_secs(600)),
        output_bytes: Some(1 << 20),
    };
    // Without a writable cgroup the rest is still worth measuring.
    policy.allow_degraded.insert(Capability::Memory);
    policy.allow_degraded.insert(Capability::CpuTime);
    policy
}
