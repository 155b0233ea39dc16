//! Which limit is held by what: control groups first, each process's own limits for the rest.

use super::{PlanError, Rlimit};
use crate::{
    Tier,
    cgroup::{self, Limit, Need},
    machine::Machine,
};
use palisade_policy::{Capability, Limits, Policy};

/// Holds where the policy names no number: wide enough for any honest program, tight enough that a
/// bomb stays inside.
const DEFAULT_PROCESSES: u32 = 4096;

/// How the limits on shares of the machine are held.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) cgroup: cgroup::Plan,
    pub(super) need: Need,
    /// Run on this many processors at most.
    pub(super) affinity: Option<usize>,
    /// `RLIMIT_DATA` of each process.
    pub(super) data_bytes: Option<u64>,
}

/// Finds control groups for what needs them, or the approximations that the user accepted.
pub(super) fn share(policy: &Policy, machine: &Machine) -> Result<Share, PlanError> {
    let limits = &policy.limits;
    let mut share = Share::default();
    share.need.memory_bytes = limits.memory_bytes;
    share.need.cpu_cores = limits.cpu_cores;
    if machine.tier == Tier::Bare {
        share.need.processes = limits.processes.map(u64::from);
    }
    if share.need.is_empty() {
        return Ok(share);
    }
    let survey = machine.cgroups().map_err(PlanError::Cgroups)?;
    if let Err(refusal) = cgroup::plan(&share.need, survey) {
        for unmet in &refusal.unmet {
            if !policy.allow_degraded.contains(&capability(unmet.limit())) {
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
            Limit::Processes => self.need.processes = None,
            Limit::CpuTime => self.need.cpu_time = false,
        }
    }
}

/// Limits of each process, setrlimit(2). `RLIMIT_DATA` counts memory that can be written and was
/// not shared, so it lets Go, Java and Node reserve what they never use.
pub(super) fn rlimits(limits: &Limits, data_bytes: Option<u64>) -> Vec<Rlimit> {
    let rlimit = |resource, name, value| Rlimit {
        resource,
        name,
        value,
    };
    // Init counts as a process of the domain.
    let processes = u64::from(limits.processes.unwrap_or(DEFAULT_PROCESSES)) + 1;
    let mut all = vec![
        rlimit(libc::RLIMIT_NPROC, "NPROC", processes),
        rlimit(libc::RLIMIT_CORE, "CORE", 0),
        rlimit(libc::RLIMIT_MEMLOCK, "MEMLOCK", 8 << 20),
    ];
    let given = [
        (libc::RLIMIT_NOFILE, "NOFILE", limits.files),
        (libc::RLIMIT_FSIZE, "FSIZE", limits.file_size_bytes),
        (libc::RLIMIT_DATA, "DATA", data_bytes),
        // For the moment in which init does not look; init holds the exact limit.
        (
            libc::RLIMIT_CPU,
            "CPU",
            limits.cpu_time.map(|time| time.as_secs() + 2),
        ),
    ];
    all.extend(
        given
            .into_iter()
            .filter_map(|(resource, name, value)| Some(rlimit(resource, name, value?))),
    );
    all
}
