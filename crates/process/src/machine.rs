//! What this machine offers, asked once and cheaply.

use crate::{cgroup::Survey, standing::Standing, sys};

pub use crate::standing::Tier;
use rustix::process::Resource;
use rustix::thread::{SecureComputingMode, secure_computing_mode};
use std::{io, path::Path, sync::OnceLock};

/// Facts about this machine and this process that a plan depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The best tier that this process's identity allows. Whether the kernel lets it have
    /// namespaces shows when the domain is made.
    pub tier: Tier,
    /// Effective user id of this process.
    pub uid: u32,
    /// Effective group id of this process.
    pub gid: u32,
    /// Newest Landlock interface; `None` without Landlock.
    pub landlock_abi: Option<u32>,
    /// A pid namespace can be kept from executing memory files (`vm.memfd_noexec`, Linux 6.3).
    pub memfd_noexec: bool,
    /// What this process may have of things that the kernel counts for each user.
    pub quotas: Quotas,
    /// Processors this process may run on.
    pub processors: usize,
    /// Control groups, looked at only when a limit needs one.
    pub cgroups: OnceLock<Survey>,
    /// This process is under somebody's system-call filter with which it can answer no calls itself; looked
    /// at only when that matters.
    pub filtered: OnceLock<bool>,
    /// This kernel has system-call filters; looked at only when a policy could do without.
    pub seccomp: OnceLock<bool>,
    /// A call that is attended to stays until it is answered; looked at only when somebody is to be asked.
    pub stays: OnceLock<bool>,
}

/// Limits of a process whose counts all processes of its user share: getrlimit(2). `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// `RLIMIT_NPROC`.
    pub processes: Option<u64>,
    /// `RLIMIT_SIGPENDING`: queued signals and timers.
    pub pending_signals: Option<u64>,
    /// `RLIMIT_MSGQUEUE`.
    pub message_queue_bytes: Option<u64>,
    /// `RLIMIT_MEMLOCK`.
    pub locked_bytes: Option<u64>,
}

impl Quotas {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        let soft = |resource| rustix::process::getrlimit(resource).current;
        Self {
            processes: soft(Resource::Nproc),
            pending_signals: soft(Resource::Sigpending),
            message_queue_bytes: soft(Resource::Msgqueue),
            locked_bytes: soft(Resource::Memlock),
        }
    }
}

/// Why a second supervisor cannot look at a process.
pub(crate) const ANOTHER_LOOKS: &str =
    "the kernel lets one supervisor look at a process, and here another one may";

impl Machine {
    /// Asks the kernel.
    pub fn probe() -> Self {
        Self::probe_for(Standing::of_this_process())
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing {
            tier: self.tier,
            uid: self.uid,
            gid: self.gid,
        }
    }

    /// Asks the kernel for the rest.
    pub(crate) fn probe_for(Standing { tier, uid, gid }: Standing) -> Self {
        Self {
            tier,
            uid,
            gid,
            landlock_abi: sys::landlock_abi(),
            memfd_noexec: Path::new("/proc/sys/vm/memfd_noexec").exists(),
            quotas: Quotas::of_this_process(),
            processors: rustix::thread::sched_getaffinity(None)
                .map_or(1, |set| set.count() as usize),
            cgroups: OnceLock::new(),
            filtered: OnceLock::new(),
            seccomp: OnceLock::new(),
            stays: OnceLock::new(),
        }
    }

    /// Whether this process is under a system-call filter that refuses another supervisor, as palisade's
    /// own does: one around it may answer calls already.
    pub fn is_filtered(&self) -> bool {
        *self.filtered.get_or_init(|| {
            let mode = secure_computing_mode();
            mode.is_ok_and(|mode| mode == SecureComputingMode::Filter) && !sys::may_have_listener()
        })
    }

    /// Whether this kernel has system-call filters.
    pub fn has_seccomp(&self) -> bool {
        let look = || Path::new("/proc/sys/kernel/seccomp/actions_avail").exists();
        *self.seccomp.get_or_init(look)
    }

    /// Whether a call that is attended to can be kept from being taken back by a signal
    /// (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, Linux 5.19).
    pub fn keeps_calls(&self) -> bool {
        *self.stays.get_or_init(sys::keeps_calls)
    }

    /// Whether a guest's calls can be held here until somebody has answered, as long as no profile of its policy is against it.
    pub fn holds_calls(&self) -> bool {
        self.why_unattended().is_none() && self.keeps_calls()
    }

    /// Why nobody can attend to calls of a guest's here.
    pub(crate) fn why_unattended(&self) -> Option<&'static str> {
        if self.tier == Tier::Bare {
            Some("that takes namespaces, see `palisade doctor`")
        } else if !self.has_seccomp() {
            Some("this kernel has no seccomp filters")
        } else if self.is_filtered() {
            Some(ANOTHER_LOOKS)
        } else {
            None
        }
    }

    /// Which control groups can hold a limit here.
    ///
    /// # Errors
    ///
    /// When `/proc` can't tell.
    pub fn cgroups(&self) -> io::Result<&Survey> {
        if let Some(survey) = self.cgroups.get() {
            return Ok(survey);
        }
        let survey = Survey::of_this_process()?;
        Ok(self.cgroups.get_or_init(|| survey))
    }
}
