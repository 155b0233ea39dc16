//! The files of a leaf and what a limit writes into them.

use serde::Serialize;

use super::{
    detect::{Controller, Version},
    plan::Need,
};

/// The kernel's default period, in which a domain may use its share of processor time.
const PERIOD_US: u64 = 100_000;

/// The longest period the kernel takes, for shares too small for the shortest quota.
const LONG_PERIOD_US: u64 = 1_000_000;

/// The shortest quota the kernel takes.
const MIN_QUOTA_US: u64 = 1_000;

/// One file of a leaf and what is written into it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The controller that reads it.
    pub controller: Controller,
    /// The file's name.
    pub file: &'static str,
    /// What is written.
    pub value: String,
    /// Whether a kernel without the file can be used all the same.
    pub optional: bool,
}

/// What one controller is told, in the order in which the kernel accepts it.
pub(super) fn settings(version: Version, controller: Controller, need: &Need) -> Vec<Setting> {
    let values = match controller {
        Controller::Memory => need.memory_bytes.map(|bytes| memory(version, bytes)),
        Controller::Cpu => need.cpu_cores.map(|cores| cpu(version, cores)),
        Controller::Pids => need.processes.map(pids),
        Controller::Cpuacct | Controller::Freezer => None,
    };
    let setting = |(file, value, optional)| Setting {
        controller,
        file,
        value,
        optional,
    };
    values.into_iter().flatten().map(setting).collect()
}

/// A file, its value, and whether the file may be missing.
type Value = (&'static str, String, bool);

/// No swap, or the limit would only move memory to the disk. Version 1 bounds memory and swap
/// together and refuses a sum below the memory limit, so that one is written second; its file is
/// there only if the kernel counts swap (`swapaccount=1`).
///
/// When memory runs out, version 2 ends all processes of the leaf together (`memory.oom.group`,
/// Linux 4.19); version 1 ends one, and whoever counts on the others must end them.
/// `memory.use_hierarchy` is not needed: a leaf has no groups below it.
fn memory(version: Version, bytes: u64) -> Vec<Value> {
    let bytes = bytes.to_string();
    match version {
        Version::V2 => vec![
            ("memory.max", bytes, false),
            ("memory.swap.max", "0".to_owned(), true),
            ("memory.oom.group", "1".to_owned(), true),
        ],
        Version::V1 => vec![
            ("memory.limit_in_bytes", bytes.clone(), false),
            ("memory.memsw.limit_in_bytes", bytes, true),
        ],
    }
}

fn cpu(version: Version, cores: f64) -> Vec<Value> {
    let (quota_us, period_us) = quota_and_period_us(cores);
    match version {
        Version::V2 => vec![("cpu.max", format!("{quota_us} {period_us}"), false)],
        Version::V1 => vec![
            ("cpu.cfs_period_us", period_us.to_string(), false),
            ("cpu.cfs_quota_us", quota_us.to_string(), false),
        ],
    }
}

fn quota_and_period_us(cores: f64) -> (u64, u64) {
    let quota_us = |period_us: u64| (cores * period_us as f64).round() as u64;
    match quota_us(PERIOD_US) {
        quota if quota >= MIN_QUOTA_US => (quota, PERIOD_US),
        _ => (quota_us(LONG_PERIOD_US).max(MIN_QUOTA_US), LONG_PERIOD_US),
    }
}

fn pids(processes: u64) -> Vec<Value> {
    vec![("pids.max", processes.to_string(), false)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(version: Version, controller: Controller) -> Vec<String> {
        let need = Need {
            memory_bytes: Some(64 << 20),
            cpu_cores: Some(1.5),
            processes: Some(20),
            cpu_time: true,
        };
        settings(version, controller, &need)
            .into_iter()
            .map(|setting| format!("{}={}", setting.file, setting.value))
            .collect()
    }

    #[test]
    fn files_of_version_2() {
        let memory = lines(Version::V2, Controller::Memory);
        let expected = [
            "memory.max=67108864",
            "memory.swap.max=0",
            "memory.oom.group=1",
        ];
        assert_eq!(memory, expected);
        assert_eq!(
            lines(Version::V2, Controller::Cpu),
            ["cpu.max=150000 100000"]
        );
        assert_eq!(lines(Version::V2, Controller::Pids), ["pids.max=20"]);
        assert!(lines(Version::V2, Controller::Cpuacct).is_empty());
    }

    #[test]
    fn files_of_version_1() {
        let memory = lines(Version::V1, Controller::Memory);
        let expected = [
            "memory.limit_in_bytes=67108864",
            "memory.memsw.limit_in_bytes=67108864",
        ];
        assert_eq!(memory, expected);
        let cpu = lines(Version::V1, Controller::Cpu);
        assert_eq!(cpu, ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=150000"]);
        assert_eq!(lines(Version::V1, Controller::Pids), ["pids.max=20"]);
    }

    #[test]
    fn small_shares_get_a_longer_period() {
        assert_eq!(quota_and_period_us(0.5), (50_000, 100_000));
        assert_eq!(quota_and_period_us(0.01), (1_000, 100_000));
        assert_eq!(quota_and_period_us(0.005), (5_000, 1_000_000));
        assert_eq!(quota_and_period_us(0.0001), (1_000, 1_000_000));
        assert_eq!(quota_and_period_us(64.0), (6_400_000, 100_000));
    }
}
