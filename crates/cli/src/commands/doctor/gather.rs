//! Asking the machine. What can't be read is not there; nothing here fails.

use super::{
    container::{Traces, recognise},
    facts::{Call, Facts, LimitFact, Seccomp, Sysctls, Trial},
    trial,
};
use palisade_process::{
    Machine,
    cgroup::{self, Controller, Need, Survey},
};
use palisade_wasm::programs;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    mount::OpenTreeFlags,
    process::{PidfdFlags, PidfdGetfdFlags},
};
use std::{
    fs,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// All facts about this machine and this process.
pub(super) fn facts() -> Facts {
    let machine = Machine::probe();
    let seccomp = seccomp(&machine);
    let mounts = text("/proc/self/mountinfo");
    let trial = trial::try_domain(&machine, seccomp.available);
    let lacks_namespaces = trial != Trial::Stood;
    Facts {
        kernel: text("/proc/sys/kernel/osrelease").trim().into(),
        uid: machine.uid,
        tier: machine.tier,
        program: std::env::current_exe().unwrap_or_else(|_| "palisade".into()),
        trial,
        bare_trial: lacks_namespaces.then(|| trial::try_bare_domain(&machine)),
        folder: trial::try_folder(&machine, |folder| file_system_of(folder, &mounts)),
        network: trial::try_network(&machine, !lacks_namespaces),
        wasm: trial::try_wasm(&machine, !lacks_namespaces),
        no_server: programs::find(programs::HOST, None)
            .err()
            .map(|missing| missing.to_string()),
        pidfd_getfd: pidfd_getfd(),
        landlock_abi: machine.landlock_abi,
        security_modules: security_modules(),
        apparmor_profile: apparmor_profile(),
        seccomp,
        open_tree: answer(rustix::mount::open_tree(
            CWD,
            "/",
            OpenTreeFlags::OPEN_TREE_CLOEXEC,
        )),
        openat2: answer(rustix::fs::openat2(
            CWD,
            "/",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS,
        )),
        sysctls: sysctls(),
        container: recognise(&traces(&mounts)),
        covered_proc: covered_proc(&mounts),
        user_manager: has_user_manager(machine.uid),
        limits: limits(),
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn sysctl(name: &str) -> Option<u64> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    text(&path).trim().parse().ok()
}

fn sysctls() -> Sysctls {
    Sysctls {
        unprivileged_userns_clone: sysctl("kernel.unprivileged_userns_clone"),
        apparmor_restrict_unprivileged_userns: sysctl(
            "kernel.apparmor_restrict_unprivileged_userns",
        ),
        max_user_namespaces: sysctl("user.max_user_namespaces"),
        memfd_noexec: sysctl("vm.memfd_noexec"),
        ptrace_scope: sysctl("kernel.yama.ptrace_scope"),
        legacy_tiocsti: sysctl("dev.tty.legacy_tiocsti"),
    }
}

fn answer<T>(outcome: rustix::io::Result<T>) -> Call {
    match outcome {
        Err(Errno::NOSYS) => Call::Unknown,
        Err(Errno::PERM | Errno::ACCESS) => Call::Refused,
        _ => Call::Works,
    }
}

/// Of this process's own descriptor of its root folder, which is what it may always take.
fn pidfd_getfd() -> Call {
    let taken =
        rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).and_then(|root| {
            let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
            rustix::process::pidfd_getfd(own, root.as_raw_fd(), PidfdGetfdFlags::empty())
        });
    answer(taken)
}

/// `Seccomp:` in proc_pid_status(5) is 2 under a filter.
fn seccomp(machine: &Machine) -> Seccomp {
    let mode = |line: &str| line.strip_prefix("Seccomp:").map(|mode| mode.trim() == "2");
    Seccomp {
        available: machine.has_seccomp(),
        already_filtered: text("/proc/self/status")
            .lines()
            .find_map(mode)
            .unwrap_or(false),
    }
}

fn security_modules() -> Option<Vec<String>> {
    let names = fs::read_to_string("/sys/kernel/security/lsm").ok()?;
    Some(names.trim().split(',').map(Into::into).collect())
}

/// `docker-default (enforce)`. The second file is shared by all security modules, so it is only
/// asked where AppArmor is the one that answers.
fn apparmor_profile() -> Option<String> {
    let enabled = text("/sys/module/apparmor/parameters/enabled").starts_with('Y');
    let said = fs::read_to_string("/proc/self/attr/apparmor/current")
        .or_else(|_| fs::read_to_string("/proc/self/attr/current"))
        .ok()
        .filter(|_| enabled)?;
    let name = said.trim_end_matches(['\0', '\n']).split(" (").next()?;
    Some(name.into())
}

/// By the sockets that it listens at; a session's variable tells where.
fn has_user_manager(uid: u32) -> bool {
    let told = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = told.unwrap_or_else(|| format!("/run/user/{uid}").into());
    ["systemd/private", "bus"]
        .iter()
        .any(|socket| folder.join(socket).exists())
}

fn traces(mounts: &str) -> Traces {
    let exists = |path: &str| Path::new(path).exists();
    Traces {
        dockerenv: exists("/.dockerenv"),
        containerenv: exists("/run/.containerenv"),
        mounted_etc: has_mounted_etc(mounts),
        kubernetes_secrets: exists("/var/run/secrets/kubernetes.io"),
        systemd_says: text("/run/systemd/container"),
        cgroups: text("/proc/self/cgroup"),
    }
}

/// Mount points of proc_pid_mountinfo(5), field 5, in order.
fn mount_points(mounts: &str) -> impl Iterator<Item = (&Path, &str)> {
    mounts.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        Some((
            Path::new(before.split(' ').nth(4)?),
            after.split(' ').next()?,
        ))
    })
}

/// What a container runtime writes for each container lies outside the container's own file system.
pub(super) fn has_mounted_etc(mounts: &str) -> bool {
    const WRITTEN: [&str; 3] = ["/etc/resolv.conf", "/etc/hostname", "/etc/hosts"];
    mount_points(mounts).any(|(point, _)| WRITTEN.iter().any(|file| point == Path::new(file)))
}

/// A mount on a folder that is always empty covers nothing; `binfmt_misc` is the one that is common.
pub(super) fn covered_proc(mounts: &str) -> Vec<PathBuf> {
    mount_points(mounts)
        .map(|(point, _)| point)
        .filter(|point| point.starts_with("/proc") && *point != Path::new("/proc"))
        .filter(|point| *point != Path::new("/proc/sys/fs/binfmt_misc"))
        .map(Into::into)
        .collect()
}

/// The type of the file system that `folder` lies on: the deepest mount around it, the last of
/// those stacked there.
pub(super) fn file_system_of(folder: &Path, mounts: &str) -> String {
    mount_points(mounts)
        .filter(|(point, _)| folder.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())
        .map_or_else(|| "unknown".into(), |(_, kind)| kind.into())
}

fn limits() -> Vec<LimitFact> {
    let survey = Survey::of_this_process().unwrap_or_default();
    [
        (
            "memory",
            Controller::Memory,
            Need {
                memory_bytes: Some(1 << 30),
                ..Need::default()
            },
        ),
        (
            "cpu",
            Controller::Cpu,
            Need {
                cpu_cores: Some(1.0),
                ..Need::default()
            },
        ),
    ]
    .map(|(limit, controller, need)| {
        let hierarchy = survey
            .hierarchies
            .iter()
            .find(|hierarchy| hierarchy.controllers.contains(&controller));
        let refusal = cgroup::plan(&need, &survey).err();
        let obstacle = refusal.and_then(|refusal| refusal.unmet.into_iter().next());
        LimitFact {
            limit,
            version: hierarchy.map(|hierarchy| hierarchy.version),
            obstacle: obstacle.map(|unmet| unmet.obstacle),
        }
    })
    .into()
}
