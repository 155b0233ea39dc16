//! Limits of a policy, laid over the specification's: the stricter holds.

use anyhow::Context;
use oci_spec::runtime::{
    LinuxCpu, LinuxMemory, LinuxPids, LinuxResources, PosixRlimit, PosixRlimitBuilder,
    PosixRlimitType, Spec,
};
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
    groups(limits, &mut resources);
    linux.set_resources(Some(resources));
    spec.set_linux(Some(linux));
    let process = spec.process().clone();
    if let Some(mut process) = process {
        let mut all = process.rlimits().clone().unwrap_or_default();
        resource(&mut all, PosixRlimitType::RlimitNofile, limits.files)?;
        resource(
            &mut all,
            PosixRlimitType::RlimitFsize,
            limits.file_size_bytes,
        )?;
        process.set_rlimits(Some(all));
        spec.set_process(Some(process));
    }
    Ok(true)
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

fn resource(
    all: &mut Vec<PosixRlimit>,
    kind: PosixRlimitType,
    most: Option<u64>,
) -> anyhow::Result<()> {
    let Some(most) = most else { return Ok(()) };
    match all.iter_mut().find(|limit| limit.typ() == kind) {
        Some(limit) => {
            *limit = of(kind, limit.soft().min(most), limit.hard().min(most))?;
        }
        None => {
            all.push(of(kind, most, most)?);
        }
    }
    Ok(())
}

fn of(kind: PosixRlimitType, soft: u64, hard: u64) -> anyhow::Result<PosixRlimit> {
    let limit = PosixRlimitBuilder::default()
        .typ(kind)
        .soft(soft)
        .hard(hard);
    Ok(limit.build()?)
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
    fn limits_of_a_process_are_narrowed_or_added() {
        let mut all = Vec::new();
        resource(&mut all, PosixRlimitType::RlimitNofile, Some(64)).unwrap();
        resource(&mut all, PosixRlimitType::RlimitNofile, Some(128)).unwrap();
        resource(&mut all, PosixRlimitType::RlimitFsize, None).unwrap();
        let found: Vec<_> = all
            .iter()
            .map(|limit| (limit.soft(), limit.hard()))
            .collect();
        assert_eq!(found, [(64, 64)]);
    }
}
