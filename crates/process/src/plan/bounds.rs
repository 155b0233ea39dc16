//! Which limit is held by what: control groups first, each process's own limits for the rest.

use super::{PlanError, Rlimit};
use crate::{
    Tier,
    cgroup::{self, Limit, Need},
    machine::{Machine, Quotas},
};
use palisade_policy::{Capability, Limits, Policy};
use std::time::Duration;

/// Holds where the policy names no number: wide enough for any honest program, tight enough that a
/// bomb stays inside.
pub(super) const DEFAULT_PROCESSES: u32 = 4096;

/// Each takes some memory of the kernel's. Those of a user without limits are bounded all the same.
const MOST_SIGNALS: u64 = 1 << 16;
const MOST_QUEUE_BYTES: u64 = 1 << 20;

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
    /// Processor time of the domain, which init watches.
    pub(super) cpu_time: Option<Duration>,
    /// `RLIMIT_CPU` of each process, in seconds.
    pub(super) cpu_time_s: Option<u64>,
}

/// Finds control groups for what needs them, or the approximations that the user accepted. `own_threads` are those of a
/// runner, beside what the policy gives its guest. Whether it `can_freeze` is no limit and comes by the same groups.
pub(super) fn share(
    policy: &Policy,
    machine: &Machine,
    host_sockets: bool,
    own_threads: u64,
    can_freeze: bool,
) -> Result<Share, PlanError> {
    let limits = &policy.limits;
    let mut share = Share {
        // Init counts as a process of the domain.
        processes: 1
            + own_threads
            + match limits.processes {
                Some(processes) => processes.into(),
                None => at_most_half(DEFAULT_PROCESSES.into(), machine.quotas.processes),
            },
        cpu_time: limits.cpu_time,
        // For the moment in which init does not look; init holds the exact limit.
        cpu_time_s: limits.cpu_time.map(|time| time.as_secs() + 2),
        ..Share::default()
    };
    share.need.memory_bytes = limits.memory_bytes;
    share.need.host_sockets = host_sockets && limits.memory_bytes.is_some();
    share.need.cpu_cores = limits.cpu_cores;
    share.need.cpu_time = limits.cpu_time.is_some();
    share.need.freezer = can_freeze;
    if machine.tier == Tier::Bare {
        if can_freeze {
            return Err(PlanError::FrozenInit);
        }
        share.without_namespaces(limits, machine);
    }
    if share.need.is_empty() {
        return Ok(share);
    }
    let survey = machine.cgroups().map_err(not_surveyed)?;
    if let Err(refusal) = cgroup::plan(&share.need, survey) {
        for unmet in &refusal.unmet {
            let Some(capability) = capability(unmet.limit()) else {
                return Err(PlanError::NoFreezer(unmet.clone()));
            };
            let is_asked_for = unmet.limit() != Limit::Processes || limits.processes.is_some();
            if is_asked_for && !policy.allow_degraded.contains(&capability) {
                return Err(PlanError::Unenforceable {
                    capability,
                    why: unmet.to_string(),
                });
            }
            share.approximate(unmet.limit(), limits, machine.tier);
        }
    }
    share.have_refusals_counted(limits, machine);
    share.cgroup = cgroup::plan(&share.need, survey).map_err(PlanError::NoCgroup)?;
    Ok(share)
}

/// What a policy that does without it names. There is none for what only the starter wants.
fn capability(limit: Limit) -> Option<Capability> {
    match limit {
        Limit::Memory => Some(Capability::Memory),
        Limit::Cpu => Some(Capability::Cpu),
        Limit::Processes => Some(Capability::Processes),
        Limit::CpuTime => Some(Capability::CpuTime),
        Limit::Freezer => None,
    }
}

impl Share {
    /// Without a user namespace the kernel counts the processes of everything that its user runs,
    /// and root's not at all (`copy_process` in kernel/fork.c): a control group must do it.
    fn without_namespaces(&mut self, limits: &Limits, machine: &Machine) {
        if limits.processes.is_some() || machine.uid == 0 {
            self.need.processes = Some(self.processes);
            self.processes = self.processes.max(u64::from(DEFAULT_PROCESSES) + 1);
        }
    }

    /// The kernel tells nobody that it refused a process for the user namespace's limit; a group counts. So where
    /// other limits make one anyway, a limit that was asked for is the group's too, and the namespace's lies one behind
    /// it. For this alone none is made: a start took 0.9 ms longer. Where sockets count as memory, who makes them is in
    /// the group, too, and would count as the guest's.
    fn have_refusals_counted(&mut self, limits: &Limits, machine: &Machine) {
        let is_theirs_alone = !self.need.is_empty() && !self.need.host_sockets;
        if limits.processes.is_none() || self.need.processes.is_some() || !is_theirs_alone {
            return;
        }
        let counted = Need {
            processes: Some(self.processes),
            ..self.need
        };
        let planned = machine
            .cgroups()
            .map(|survey| cgroup::plan(&counted, survey));
        if let Ok(Ok(_)) = planned {
            self.need = counted;
            self.processes += 1;
        }
    }

    /// Takes a limit away from the control groups.
    fn approximate(&mut self, limit: Limit, limits: &Limits, tier: Tier) {
        match limit {
            Limit::Memory => {
                self.need.memory_bytes = None;
                self.need.host_sockets = false;
                self.data_bytes = limits.memory_bytes;
            }
            Limit::Cpu => {
                self.need.cpu_cores = None;
                self.affinity = limits.cpu_cores.map(|cores| cores.ceil().max(1.0) as usize);
            }
            Limit::Processes => {
                self.processes = self.need.processes.take().unwrap_or(self.processes);
            }
            Limit::CpuTime => {
                self.need.cpu_time = false;
                // Without a pid namespace init cannot tell the domain's processes from others.
                if let Some(time) = self.cpu_time.take_if(|_| tier == Tier::Bare) {
                    self.cpu_time_s = Some(time.as_secs_f64().ceil() as u64);
                }
            }
            // Nothing comes near it: it was refused.
            Limit::Freezer => {}
        }
    }
}

/// A bound of ours, or half of the starter's: what is counted for a user, the guest's uid outside and the owner of
/// its namespaces, shall not run out for the starter's other programs.
fn at_most_half(most: u64, of_starter: Option<u64>) -> u64 {
    of_starter.map_or(most, |all| most.min(all / 2))
}

/// Which groups there are is said in `/proc`.
fn not_surveyed(error: std::io::Error) -> PlanError {
    match error.kind() {
        std::io::ErrorKind::NotFound => PlanError::NoProc,
        _ => PlanError::Cgroups(error),
    }
}

/// Limits of each process, setrlimit(2). `RLIMIT_DATA` counts memory that can be written and was
/// not shared, so it lets Go, Java and Node reserve what they never use.
pub(super) fn rlimits(limits: &Limits, share: &Share, quotas: &Quotas) -> Vec<Rlimit> {
    let rlimit = |resource, name, value| Rlimit {
        resource,
        name,
        value,
    };
    let mut all = vec![
        rlimit(libc::RLIMIT_NPROC, "NPROC", share.processes),
        rlimit(libc::RLIMIT_CORE, "CORE", 0),
        // Shared segments that are locked, and pages of sockets that are sent without a copy.
        rlimit(
            libc::RLIMIT_MEMLOCK,
            "MEMLOCK",
            at_most_half(8 << 20, quotas.locked_bytes),
        ),
        rlimit(
            libc::RLIMIT_SIGPENDING,
            "SIGPENDING",
            at_most_half(MOST_SIGNALS, quotas.pending_signals),
        ),
        rlimit(
            libc::RLIMIT_MSGQUEUE,
            "MSGQUEUE",
            at_most_half(MOST_QUEUE_BYTES, quotas.message_queue_bytes),
        ),
        // Whoever may run before all others, or was given better nice values, gives neither away.
        rlimit(libc::RLIMIT_RTPRIO, "RTPRIO", 0),
        rlimit(libc::RLIMIT_NICE, "NICE", 0),
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
