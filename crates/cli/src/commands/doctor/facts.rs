//! What is true of a machine and a user: plain data, so that tests can make machines up.

use super::container::Container;
use palisade_process::{
    Tier,
    cgroup::{Obstacle, Version},
};
use serde::Serialize;
use std::path::PathBuf;

/// Everything a diagnosis is made from.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Facts {
    /// `6.1.0-28-amd64`.
    pub(super) kernel: String,
    /// Effective user id of palisade.
    pub(super) uid: u32,
    /// The tier that palisade's identity would give.
    pub(super) tier: Tier,
    /// Where palisade's own program lies.
    pub(super) program: PathBuf,
    /// A domain as `run` makes it.
    pub(super) trial: Trial,
    /// One with Landlock and seccomp alone; `None` if the first stood.
    pub(super) bare_trial: Option<Trial>,
    /// The same with the working directory granted for writing; `None` if that was not tried.
    pub(super) folder: Option<FolderTrial>,
    /// A domain with a network grant.
    pub(super) network: Trial,
    /// A WebAssembly guest, compiled and run.
    pub(super) wasm: Trial,
    /// Why `palisade serve` has no server to execute.
    pub(super) no_server: Option<String>,
    /// pidfd_getfd(2), by which a guest's socket is taken hold of.
    pub(super) pidfd_getfd: Call,
    pub(super) landlock_abi: Option<u32>,
    /// Names in `/sys/kernel/security/lsm`, if it can be read.
    pub(super) security_modules: Option<Vec<String>>,
    /// The AppArmor profile that palisade runs under.
    pub(super) apparmor_profile: Option<String>,
    pub(super) seccomp: Seccomp,
    pub(super) open_tree: Call,
    pub(super) openat2: Call,
    pub(super) sysctls: Sysctls,
    pub(super) container: Option<Container>,
    /// Mounts on top of parts of `/proc`: the kernel refuses a fresh `/proc` beside them.
    pub(super) covered_proc: Vec<PathBuf>,
    /// A systemd of the user's own answers, which makes groups for programs.
    pub(super) user_manager: bool,
    /// The limits that need a cgroup.
    pub(super) limits: Vec<LimitFact>,
}

/// Linux 5.12 brought mount_setattr(2), 5.13 Landlock.
pub(super) const OLDEST_KERNEL: (u32, u32) = (5, 13);

impl Facts {
    /// The wall as `run` makes it can be had here.
    pub(super) fn stood(&self) -> bool {
        self.trial == Trial::Stood
    }

    pub(super) fn best_tier(&self) -> Option<Tier> {
        let bare = self.bare_trial == Some(Trial::Stood);
        if self.stood() {
            Some(self.tier)
        } else {
            bare.then_some(Tier::Bare)
        }
    }

    /// Major and minor number of `6.1.0-28-amd64`.
    pub(super) fn kernel_version(&self) -> (u32, u32) {
        let numbers = self
            .kernel
            .split(|character: char| !character.is_ascii_digit());
        let mut numbers = numbers.map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// How a trial domain went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Trial {
    /// It was built, its guest ran, and nothing of it is left.
    Stood,
    Failed {
        at: Stage,
        message: String,
    },
}

/// How far a trial came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// The keeper is started from a memory file.
    Keeper,
    /// Its namespaces are made.
    Namespaces,
    /// Its root file system is built.
    Root,
    /// Its `/proc` is mounted.
    Proc,
    /// Anything later.
    Guest,
}

/// Whether a folder can be granted so that its files are the guest's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FolderTrial {
    pub(super) folder: PathBuf,
    pub(super) file_system: String,
    /// Why not.
    pub(super) refusal: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Seccomp {
    /// The kernel takes filters.
    pub(super) available: bool,
    /// Palisade itself runs under somebody else's filter.
    pub(super) already_filtered: bool,
}

/// The kernel's answer to a harmless use of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Call {
    Works,
    /// The kernel is too old for it, or a filter says so.
    Unknown,
    /// Something forbids it, as container runtimes' filters do.
    Refused,
}

/// Kernel settings; `None` where this kernel has no such setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Sysctls {
    /// `kernel.unprivileged_userns_clone`: Debian's kernels before 11.
    pub(super) unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns`: Ubuntu from 23.10.
    pub(super) apparmor_restrict_unprivileged_userns: Option<u64>,
    /// `user.max_user_namespaces`.
    pub(super) max_user_namespaces: Option<u64>,
    /// `vm.memfd_noexec`.
    pub(super) memfd_noexec: Option<u64>,
    /// `kernel.yama.ptrace_scope`.
    pub(super) ptrace_scope: Option<u64>,
    /// `dev.tty.legacy_tiocsti`.
    pub(super) legacy_tiocsti: Option<u64>,
}

/// A limit that needs a cgroup, and whether one can hold it here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LimitFact {
    /// As in `--memory`.
    pub(super) limit: &'static str,
    /// The cgroup version that has its controller.
    pub(super) version: Option<Version>,
    /// What stands in the way.
    pub(super) obstacle: Option<Obstacle>,
}
