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

/// Of a domain's memory, the part that version 1 gives to buffers of the host's sockets.
const SHARE_OF_SOCKETS: u64 = 4;

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
        Controller::Memory => {
            let sockets = |bytes| need.host_sockets.then_some(bytes / SHARE_OF_SOCKETS);
            let settings = |bytes| memory(version, bytes, sockets(bytes));
            need.memory_bytes.map(settings)
        }
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
///
/// Version 2 counts the buffers of sockets with the rest. Version 1 has a limit of its own for them, and counts none
/// without it; so they get a share, and the rest has that much less.
fn memory(version: Version, bytes: u64, of_sockets: Option<u64>) -> Vec<Value> {
    let rest = match version {
        Version::V1 => bytes - of_sockets.unwrap_or(0),
        Version::V2 => bytes,
    };
    let bytes = rest.to_string();
    match version {
        Version::V2 => vec![
            ("memory.max", bytes, false),
            ("memory.swap.max", "0".to_owned(), true),
            ("memory.oom.group", "1".to_owned(), true),
        ],
        Version::V1 => [
            ("memory.limit_in_bytes", bytes.clone(), false),
            ("memory.memsw.limit_in_bytes", bytes, true),
        ]
        .into_iter()
        .chain(of_sockets.map(|bytes| ("memory.kmem.tcp.limit_in_bytes", bytes.to_string(), false)))
        .collect(),
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
            host_sockets: false,
            cpu_cores: Some(1.5),
            processes: Some(20),
            cpu_time: true,
            freezer: false,
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
    fn buffers_of_sockets_are_within_the_limit() {
        let need = Need {
            memory_bytes: Some(64 << 20),
            host_sockets: true,
            ..Need::default()
        };
        let values = |version| {
            let settings = settings(version, Controller::Memory, &need);
            let lines = settings
                .iter()
                .map(|setting| format!("{}={}", setting.file, setting.value));
            lines.collect::<Vec<_>>()
        };
        let expected = [
            "memory.limit_in_bytes=50331648",
            "memory.memsw.limit_in_bytes=50331648",
            "memory.kmem.tcp.limit_in_bytes=16777216",
        ];
        assert_eq!(values(Version::V1), expected);
        assert_eq!(values(Version::V2)[0], "memory.max=67108864", "all in one");
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
