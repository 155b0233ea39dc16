//! Which limit is held by what: control groups first, each process's own limits for the rest.

use super::{PlanError, Rlimit};
use crate::{
    Tier,
    cgroup::{self, Limit, Need},
    machine::Machine,
};
use palisade_policy::{Capability, Limits, Policy};
use std::time::Duration;

/// Holds where the policy names no number: wide enough for any honest program, tight enough that a
/// bomb stays inside.
pub(super) const DEFAULT_PROCESSES: u32 = 4096;

/// How the limits on shares of the machine are held.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) cgroup: cgroup::Plan,
    pub(super) need: Need,
    /// Run on this many processors at most.
    pub(super) affinity: Option<usize>,
    /// `RLIMIT_DATA` of each process.
    pub(super) data_bytes: Option<u64>,
    /// `RLIMIT_NPROC` of the guest's user, init included.
    pub(super) processes: u64,
    /// Processor time that init adds up.
    pub(super) cpu_time: Option<Duration>,
    /// `RLIMIT_CPU` of each process, in seconds.
    pub(super) cpu_time_s: Option<u64>,
}

/// Finds control groups for what needs them, or the approximations that the user accepted.
pub(super) fn share(policy: &Policy, machine: &Machine) -> Result<Share, PlanError> {
    let limits = &policy.limits;
    let mut share = Share {
        // Init counts as a process of the domain.
        processes: u64::from(limits.processes.unwrap_or(DEFAULT_PROCESSES)) + 1,
        cpu_time: limits.cpu_time,
        // For the moment in which init does not look; init holds the exact limit.
        cpu_time_s: limits.cpu_time.map(|time| time.as_secs() + 2),
        ..Share::default()
    };
    share.need.memory_bytes = limits.memory_bytes;
    share.need.cpu_cores = limits.cpu_cores;
    if machine.tier == Tier::Bare {
        share.without_namespaces(policy, machine)?;
    }
    if share.need.is_empty() {
        return Ok(share);
    }
    let survey = machine.cgroups().map_err(PlanError::Cgroups)?;
    if let Err(refusal) = cgroup::plan(&share.need, survey) {
        for unmet in &refusal.unmet {
            let is_asked_for = unmet.limit() != Limit::Processes || limits.processes.is_some();
            if is_asked_for && !policy.allow_degraded.contains(&capability(unmet.limit())) {
                return Err(PlanError::Unenforceable {
                    capability: capability(unmet.limit()),
                    why: unmet.to_string(),
                });
            }
            share.approximate(unmet.limit(), limits);
        }
    }
    share.cgroup = cgroup::plan(&share.need, survey).map_err(PlanError::NoCgroup)?;
    Ok(share)
}

fn capability(limit: Limit) -> Capability {
    match limit {
        Limit::Memory => Capability::Memory,
        Limit::Cpu => Capability::Cpu,
        Limit::Processes => Capability::Processes,
        Limit::CpuTime => Capability::CpuTime,
    }
}

impl Share {
    /// Without a user namespace the kernel counts the processes of everything that its user runs,
    /// and root's not at all (`copy_process` in kernel/fork.c): a control group must do it. Without a
    /// pid namespace init cannot tell the domain's processes from others.
    fn without_namespaces(&mut self, policy: &Policy, machine: &Machine) -> Result<(), PlanError> {
        let limits = &policy.limits;
        if limits.processes.is_some() || machine.uid == 0 {
            self.need.processes = Some(self.processes);
            self.processes = u64::from(DEFAULT_PROCESSES) + 1;
        }
        let Some(time) = limits.cpu_time else {
            return Ok(());
        };
        if !policy.allow_degraded.contains(&Capability::CpuTime) {
            return Err(PlanError::Unenforceable {
                capability: Capability::CpuTime,
                why: "without namespaces each process can only be bounded by itself".into(),
            });
        }
        self.cpu_time = None;
        self.cpu_time_s = Some(time.as_secs_f64().ceil() as u64);
        Ok(())
    }

    /// Takes a limit away from the control groups.
    fn approximate(&mut self, limit: Limit, limits: &Limits) {
        match limit {
            Limit::Memory => {
                self.need.memory_bytes = None;
                self.data_bytes = limits.memory_bytes;
            }
            Limit::Cpu => {
                self.need.cpu_cores = None;
                self.affinity = limits.cpu_cores.map(|cores| cores.ceil().max(1.0) as usize);
            }
            Limit::Processes => {
                self.processes = self.need.processes.take().unwrap_or(self.processes);
            }
            Limit::CpuTime => self.need.cpu_time = false,
        }
    }
}

/// Limits of each process, setrlimit(2). `RLIMIT_DATA` counts memory that can be written and was
/// not shared, so it lets Go, Java and Node reserve what they never use.
pub(super) fn rlimits(limits: &Limits, share: &Share) -> Vec<Rlimit> {
    let rlimit = |resource, name, value| Rlimit {
        resource,
        name,
        value,
    };
    let mut all = vec![
        rlimit(libc::RLIMIT_NPROC, "NPROC", share.processes),
        rlimit(libc::RLIMIT_CORE, "CORE", 0),
        rlimit(libc::RLIMIT_MEMLOCK, "MEMLOCK", 8 << 20),
    ];
    let given = [
        (libc::RLIMIT_NOFILE, "NOFILE", limits.files),
        (libc::RLIMIT_FSIZE, "FSIZE", limits.file_size_bytes),
        (libc::RLIMIT_DATA, "DATA", share.data_bytes),
        (libc::RLIMIT_CPU, "CPU", share.cpu_time_s),
    ];
    all.extend(
        given
            .into_iter()
            .filter_map(|(resource, name, value)| Some(rlimit(resource, name, value?))),
    );
    all
}
