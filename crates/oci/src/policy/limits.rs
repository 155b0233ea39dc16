//! Limits of a policy, laid over the specification's: the stricter holds.

use anyhow::{Context, bail};
use oci_spec::runtime::{LinuxCpu, LinuxMemory, LinuxPids, LinuxResources, Spec};
use palisade_policy::Limits;

/// Where a share of a processor counts anew, in µs.
const PERIOD_US: u64 = 100_000;

/// Tells whether it changed anything.
pub(super) fn narrow(limits: &Limits, spec: &mut Spec) -> anyhow::Result<bool> {
    if *limits == Limits::default() {
        return Ok(false);
    }
    let mut linux = spec.linux().clone().context("policy: there is no linux")?;
    let mut resources = linux.resources().clone().unwrap_or_default();
    check_files(limits, &resources)?;
    groups(limits, &mut resources);
    linux.set_resources(Some(resources));
    spec.set_linux(Some(linux));
    Ok(true)
}

/// Files of control groups are written as they are asked for, after all else.
fn check_files(limits: &Limits, resources: &LinuxResources) -> anyhow::Result<()> {
    let limited = [
        ("memory.", limits.memory_bytes.is_some()),
        ("pids.", limits.processes.is_some()),
        ("cpu.", limits.cpu_cores.is_some()),
    ];
    let files = resources.unified().iter().flat_map(|files| files.keys());
    for file in files {
        let is_limited = |(prefix, given): &(&str, bool)| *given && file.starts_with(prefix);
        if limited.iter().any(is_limited) {
            bail!(
                "policy: linux.resources.unified has {file:?}, which the policy of palisade.policy limits"
            );
        }
    }
    Ok(())
}

fn groups(limits: &Limits, resources: &mut LinuxResources) {
    if let Some(most) = limits.memory_bytes.map(signed) {
        let mut memory: LinuxMemory = (*resources.memory()).unwrap_or_default();
        memory.set_limit(Some(stricter(memory.limit(), most)));
        // Both together, in version 1: no more of it by swapping.
        memory.set_swap(Some(stricter(memory.swap(), most)));
        resources.set_memory(Some(memory));
    }
    if let Some(most) = limits.processes.map(i64::from) {
        let mut pids: LinuxPids = (*resources.pids()).unwrap_or_default();
        let given = Some(pids.limit()).filter(|given| *given > 0);
        pids.set_limit(stricter(given, most));
        resources.set_pids(Some(pids));
    }
    if let Some(cores) = limits.cpu_cores {
        let mut cpu: LinuxCpu = resources.cpu().clone().unwrap_or_default();
        let period = cpu
            .period()
            .filter(|period| *period > 0)
            .unwrap_or(PERIOD_US);
        let most = (cores * period as f64) as i64;
        cpu.set_period(Some(period));
        cpu.set_quota(Some(stricter(cpu.quota(), most)));
        resources.set_cpu(Some(cpu));
    }
}

/// 0 and less is no limit.
fn stricter(given: Option<i64>, most: i64) -> i64 {
    given
        .filter(|given| *given > 0)
        .map_or(most, |given| given.min(most))
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Limits of each process, by setrlimit(2)'s number.
pub(super) fn of_processes(limits: &Limits) -> Vec<(u32, u64)> {
    let all = [
        (libc::RLIMIT_NOFILE, limits.files),
        (libc::RLIMIT_FSIZE, limits.file_size_bytes),
    ];
    let given = all.into_iter();
    given
        .filter_map(|(resource, most)| Some((resource, most?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_holds() {
        let mut resources = LinuxResources::default();
        let mut memory = LinuxMemory::default();
        memory.set_limit(Some(1 << 20));
        resources.set_memory(Some(memory));
        let limits = Limits {
            memory_bytes: Some(1 << 30),
            processes: Some(7),
            cpu_cores: Some(0.5),
            ..Limits::default()
        };
        groups(&limits, &mut resources);
        let limit = resources.memory().and_then(|memory| memory.limit());
        assert_eq!(limit, Some(1 << 20));
        assert_eq!(resources.pids().map(|pids| pids.limit()), Some(7));
        let cpu = resources.cpu().clone().unwrap();
        assert_eq!((cpu.quota(), cpu.period()), (Some(50_000), Some(100_000)));
    }

    #[test]
    fn what_a_policy_limits_is_not_unlimited_by_a_file() {
        let limits = Limits {
            processes: Some(7),
            ..Limits::default()
        };
        let unified = |file: &str| [(file.to_owned(), "max".to_owned())].into_iter().collect();
        let mut resources = LinuxResources::default();
        resources.set_unified(Some(unified("pids.max")));
        assert!(check_files(&limits, &resources).is_err());
        resources.set_unified(Some(unified("memory.max")));
        assert!(check_files(&limits, &resources).is_ok());
    }
}
