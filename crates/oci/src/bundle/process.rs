//! `process`: what runs in a container, and as whom.

use super::{home, seccomp};
use crate::{policy::Kept, surroundings::Surroundings};
use anyhow::{Context, bail};
use oci_spec::runtime::{
    Capabilities, IOPriorityClass, LinuxCapabilities, LinuxPersonalityDomain, LinuxSchedulerPolicy,
    PosixRlimitType, Process, Scheduler, Spec,
};
use palisade_process::{
    container::{self, CAPABILITIES, Credentials, Namespace, Namespaces},
    kernel_file,
    seccomp::{
        CompileError, Filter, attendant as seccomp_of_attendant, container as own_filter, watched,
    },
};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// `CAP_SYS_ADMIN`'s and its kind's are known by their names.
fn bits(names: Option<&Capabilities>) -> u64 {
    names.into_iter().flatten().fold(0, |bits, name| {
        let name = name.to_string();
        let name = name.trim_start_matches("CAP_");
        let at = CAPABILITIES.iter().position(|known| *known == name);
        bits | at.map_or(0, |at| 1 << at)
    })
}

/// Of what is asked for, what this process has not and so cannot give.
pub(super) fn lacking(process: &Process) -> Option<String> {
    let asked = bits(process.capabilities().as_ref()?.permitted().as_ref());
    let status = kernel_file::text("/proc/self/status").ok()?;
    let own = status
        .lines()
        .find_map(|line| line.strip_prefix("CapPrm:"))?;
    let own = u64::from_str_radix(own.trim(), 16).ok()?;
    let names: Vec<_> = CAPABILITIES
        .iter()
        .enumerate()
        .filter(|(bit, _)| asked & !own & 1 << bit != 0)
        .map(|(_, name)| *name)
        .collect();
    (!names.is_empty()).then(|| {
        format!(
            "host: process.capabilities: this process has no {}, and the container gets none",
            names.join(", ")
        )
    })
}

fn credentials(process: &Process) -> anyhow::Result<Credentials> {
    let user = process.user();
    let sets = process.capabilities();
    let set = |of: fn(&LinuxCapabilities) -> &Option<Capabilities>| {
        sets.as_ref().map_or(0, |sets| bits(of(sets).as_ref()))
    };
    Ok(Credentials {
        uid: user.uid(),
        gid: user.gid(),
        groups: user.additional_gids().clone().unwrap_or_default(),
        umask: user.umask().unwrap_or(0o022),
        no_new_privs: process.no_new_privileges().unwrap_or(false),
        bounding: set(LinuxCapabilities::bounding),
        effective: set(LinuxCapabilities::effective),
        permitted: set(LinuxCapabilities::permitted),
        inheritable: set(LinuxCapabilities::inheritable),
        ambient: set(LinuxCapabilities::ambient),
    })
}

/// The plan's part for a process of this container: its first, or a further one.
pub(crate) fn of_process(
    spec: &Spec,
    process: &Process,
    rootfs: &Path,
    namespaces: &Namespaces,
    surroundings: &Surroundings,
    kept: &Kept,
) -> anyhow::Result<container::Process> {
    let arguments = process.args().clone().unwrap_or_default();
    if arguments.first().is_none_or(String::is_empty) {
        bail!("policy: process.args is empty: there is nothing to execute");
    }
    let cwd = process.cwd();
    if !cwd.is_absolute() {
        bail!("policy: process.cwd {cwd:?} is not absolute");
    }
    if process.exec_cpu_affinity().is_some() {
        bail!("policy: process.execCPUAffinity is not supported: docs/containers.md has what is");
    }
    let mut environment = process.env().clone().unwrap_or_default();
    if let Some(variable) = environment.iter().find(|variable| !variable.contains('=')) {
        bail!("policy: process.env has {variable:?}, which is no NAME=VALUE");
    }
    let has_home = environment
        .iter()
        .any(|variable| variable.starts_with("HOME="));
    if !has_home {
        let home = home::of(rootfs, process.user().uid());
        environment.push(format!("HOME={home}"));
    }
    let mut credentials = credentials(process)?;
    if let Some(broker) = &kept.broker {
        environment.extend(broker.environment.iter().cloned());
        without_network(&mut credentials);
    }
    keep_last_of_each(&mut environment);
    let filters = filters(spec, &credentials, kept)?;
    Ok(container::Process {
        hooks: Vec::new(),
        candidates: candidates(&arguments[0], &environment),
        arguments,
        environment,
        cwd: cwd.clone(),
        credentials,
        limits: limits(process, &kept.limits)?,
        // Palisade's own is the last.
        asks: kept.asks().then_some(0),
        filters,
        landlock: landlock(namespaces, surroundings),
        labels: labels(process, surroundings)?,
        new_keyring: true,
        scheduler: process.scheduler().as_ref().map(scheduler).transpose()?,
        io_priority: io_priority(process)?,
        personality: personality(spec)?,
        affinity: None,
        executable: None,
        without_proc: false,
    })
}

/// Programs take the first variable of a name, and who adds one (`exec --env`) means to replace what was there.
fn keep_last_of_each(environment: &mut Vec<String>) {
    let name = |variable: &String| variable.split('=').next().unwrap_or_default().to_owned();
    let mut seen = HashSet::new();
    environment.reverse();
    environment.retain(|variable| seen.insert(name(variable)));
    environment.reverse();
}

/// Where a program of this name may lie: itself if it has a slash, else each folder of `PATH`.
pub(crate) fn candidates(program: &str, environment: &[String]) -> Vec<String> {
    if program.contains('/') {
        return vec![program.into()];
    }
    let path = environment
        .iter()
        .rev()
        .find_map(|variable| variable.strip_prefix("PATH="))
        .unwrap_or("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    path.split(':')
        .map(|folder| match folder {
            "" => format!("./{program}"),
            folder => format!("{folder}/{program}"),
        })
        .collect()
}

/// `SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`, where the kernel has it (Linux 5.19).
const WAIT_KILLABLE: u32 = 1 << 5;

fn filters(
    spec: &Spec,
    credentials: &Credentials,
    kept: &Kept,
) -> anyhow::Result<Vec<(Vec<u8>, u32)>> {
    let engines = engines_filter(spec)?;
    let own = || own_of(credentials, kept);
    if kept.watches_calls {
        let of_engine = engines.as_ref().map_or(0, |(_, flags)| *flags);
        let engines = engines.map(|(filter, _)| filter);
        // Palisade's own does without no mitigation.
        let mut flags = of_engine & !seccomp::SPEC_ALLOW;
        if kept.broker.is_none() {
            // No signal takes a filter's error number back, and so none that of a call that was seen; what a broker answers may have to be.
            flags |= WAIT_KILLABLE;
        }
        return Ok(vec![(watched(&own(), engines.as_ref()).program()?, flags)]);
    }
    // The engine's may refuse that another one is loaded.
    let own = (!kept.without_own_filter).then(|| (own(), 0));
    let all = own.into_iter().chain(engines);
    all.map(|(filter, flags)| Ok((filter.program()?, flags)))
        .collect()
}

/// The filters whose refusals are told of.
pub(crate) fn refusals(
    spec: &Spec,
    process: &container::Process,
    kept: &Kept,
) -> anyhow::Result<Option<container::Filters>> {
    if !kept.watches_calls {
        return Ok(None);
    }
    Ok(Some(container::Filters {
        own: own_of(&process.credentials, kept),
        engines: engines_filter(spec)?.map(|(filter, _)| filter),
    }))
}

/// Palisade's own.
fn own_of(credentials: &Credentials, kept: &Kept) -> Filter {
    let decides = kept.broker.as_ref().map(|broker| broker.decides);
    own_filter(credentials.bounding, decides)
}

/// With the flags that it is loaded with.
fn engines_filter(spec: &Spec) -> anyhow::Result<Option<(Filter, u32)>> {
    let linux = spec.linux().as_ref();
    let asked = linux.and_then(|linux| linux.seccomp().as_ref());
    asked.map(seccomp::filter).transpose()
}

/// Of sockets in the host's network nobody may ask what takes these there: they would be the host's to change.
const OF_NETWORK: u64 = bit("NET_ADMIN") | bit("NET_RAW") | bit("NET_BROADCAST");
/// With these somebody who is nobody else in a user namespace reaches what is not the container's.
const OF_HOST: u64 =
    bit("SYS_ADMIN") | bit("SYS_MODULE") | bit("SYS_RAWIO") | bit("SYS_PTRACE") | bit("BPF");

/// By its name, which there is.
const fn bit(name: &str) -> u64 {
    let mut at = 0;
    while at < CAPABILITIES.len() {
        if same(CAPABILITIES[at].as_bytes(), name.as_bytes()) {
            return 1 << at;
        }
        at += 1;
    }
    panic!("no such capability")
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    one.len() == other.len()
}

fn without_network(credentials: &mut Credentials) {
    for set in [
        &mut credentials.bounding,
        &mut credentials.effective,
        &mut credentials.permitted,
        &mut credentials.inheritable,
        &mut credentials.ambient,
    ] {
        *set &= !OF_NETWORK;
    }
}

/// What cannot be held where a container has sockets of the host's network.
pub(super) fn check_broker(process: &Process, namespaces: &Namespaces) -> anyhow::Result<()> {
    if !namespaces.owns(Namespace::Pid) {
        bail!(
            "policy: palisade.network=broker takes a pid namespace of the container's own: who sees processes of others gets at their sockets"
        );
    }
    check_rights(process, namespaces.has(Namespace::User))
}

/// The same of one process.
pub(crate) fn check_rights(process: &Process, has_users: bool) -> anyhow::Result<()> {
    let credentials = credentials(process)?;
    let any = credentials.bounding
        | credentials.permitted
        | credentials.effective
        | credentials.inheritable
        | credentials.ambient;
    if any & OF_HOST != 0 && !has_users {
        bail!(
            "policy: palisade.network=broker keeps nobody who has SYS_ADMIN, SYS_PTRACE, SYS_MODULE, SYS_RAWIO or BPF on the machine: drop them, or give the container a user namespace"
        );
    }
    Ok(())
}

/// As whom calls on local sockets are carried out for all of a container's processes: one who may become each of them.
pub(crate) fn attendant(
    spec: &Spec,
    process: &container::Process,
) -> anyhow::Result<container::Process> {
    const BECOMES: u64 = bit("SETUID") | bit("SETGID") | bit("SYS_CHROOT");
    let mut credentials = process.credentials.clone();
    credentials.bounding |= BECOMES;
    credentials.permitted = credentials.bounding;
    let own = (seccomp_of_attendant(credentials.bounding), 0);
    let filters = engines_filter(spec)?.into_iter().chain([own]);
    let filters: Result<Vec<_>, _> = filters
        .map(|(filter, flags)| Ok::<_, CompileError>((filter.program()?, flags)))
        .collect();
    let labels = process
        .labels
        .iter()
        .map(|(file, text)| at_once(file, text));
    Ok(container::Process {
        credentials,
        filters: filters?,
        labels: labels.collect(),
        without_proc: process.without_proc,
        ..container::Process::default()
    })
}

/// The label of a program that is executed, as that of a process which executes none.
fn at_once(file: &Path, text: &str) -> (PathBuf, String) {
    let text = match text.strip_prefix("exec ") {
        Some(profile) => format!("changeprofile {profile}"),
        None => text.to_owned(),
    };
    (file.with_file_name("current"), text)
}

/// Of the host's network, abstract sockets are everybody's, whatever the container may see of files (CVE-2020-15257).
fn landlock(namespaces: &Namespaces, surroundings: &Surroundings) -> Option<[u64; 3]> {
    const ABSTRACT_SOCKETS: u64 = 1;
    const SCOPES_FROM: u32 = 6;
    let is_needed = !namespaces.has(Namespace::Network);
    (is_needed && surroundings.landlock_abi >= SCOPES_FROM).then_some([0, 0, ABSTRACT_SOCKETS])
}

fn limits(process: &Process, most: &[(u32, u64)]) -> anyhow::Result<Vec<(u32, u64, u64)>> {
    let mut limits: Vec<(u32, u64, u64)> = Vec::new();
    for limit in process.rlimits().iter().flatten() {
        let resource = resource(limit.typ());
        if limits.iter().any(|(known, ..)| *known == resource) {
            bail!("policy: process.rlimits has {:?} twice", limit.typ());
        }
        if limit.soft() > limit.hard() {
            bail!(
                "policy: process.rlimits: of {:?} soft is more than hard",
                limit.typ()
            );
        }
        limits.push((resource, limit.soft(), limit.hard()));
    }
    // A policy's hold for whatever process.
    for (resource, most) in most {
        match limits.iter_mut().find(|(known, ..)| known == resource) {
            Some((_, soft, hard)) => (*soft, *hard) = ((*soft).min(*most), (*hard).min(*most)),
            None => limits.push((*resource, *most, *most)),
        }
    }
    Ok(limits)
}

fn resource(kind: PosixRlimitType) -> u32 {
    match kind {
        PosixRlimitType::RlimitCpu => libc::RLIMIT_CPU,
        PosixRlimitType::RlimitFsize => libc::RLIMIT_FSIZE,
        PosixRlimitType::RlimitData => libc::RLIMIT_DATA,
        PosixRlimitType::RlimitStack => libc::RLIMIT_STACK,
        PosixRlimitType::RlimitCore => libc::RLIMIT_CORE,
        PosixRlimitType::RlimitRss => libc::RLIMIT_RSS,
        PosixRlimitType::RlimitNproc => libc::RLIMIT_NPROC,
        PosixRlimitType::RlimitNofile => libc::RLIMIT_NOFILE,
        PosixRlimitType::RlimitMemlock => libc::RLIMIT_MEMLOCK,
        PosixRlimitType::RlimitAs => libc::RLIMIT_AS,
        PosixRlimitType::RlimitLocks => libc::RLIMIT_LOCKS,
        PosixRlimitType::RlimitSigpending => libc::RLIMIT_SIGPENDING,
        PosixRlimitType::RlimitMsgqueue => libc::RLIMIT_MSGQUEUE,
        PosixRlimitType::RlimitNice => libc::RLIMIT_NICE,
        PosixRlimitType::RlimitRtprio => libc::RLIMIT_RTPRIO,
        PosixRlimitType::RlimitRttime => libc::RLIMIT_RTTIME,
    }
}

/// What a security module is told. Without the module a label would hold nothing.
fn labels(
    process: &Process,
    surroundings: &Surroundings,
) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let given = |label: &Option<String>| label.clone().filter(|label| !label.is_empty());
    let mut labels = Vec::new();
    if let Some(profile) = given(process.apparmor_profile()) {
        match surroundings.has_apparmor {
            true => labels.push((apparmor_file(), format!("exec {profile}"))),
            false if profile == "unconfined" => {}
            false => bail!(
                "policy: process.apparmorProfile is {profile:?}, and this kernel has no AppArmor"
            ),
        }
    }
    if let Some(label) = given(process.selinux_label()) {
        match surroundings.has_selinux {
            true => labels.push(("/proc/self/attr/exec".into(), label)),
            false => {
                bail!("policy: process.selinuxLabel is {label:?}, and this kernel has no SELinux")
            }
        }
    }
    Ok(labels)
}

fn apparmor_file() -> PathBuf {
    let own = Path::new("/proc/self/attr/apparmor/exec");
    match own.exists() {
        true => own.into(),
        false => "/proc/self/attr/exec".into(),
    }
}

fn scheduler(scheduler: &Scheduler) -> anyhow::Result<Vec<u8>> {
    let policy: u32 = match scheduler.policy() {
        LinuxSchedulerPolicy::SchedOther => 0,
        LinuxSchedulerPolicy::SchedFifo => 1,
        LinuxSchedulerPolicy::SchedRr => 2,
        LinuxSchedulerPolicy::SchedBatch => 3,
        LinuxSchedulerPolicy::SchedIso => 4,
        LinuxSchedulerPolicy::SchedIdle => 5,
        LinuxSchedulerPolicy::SchedDeadline => 6,
    };
    let flags = scheduler
        .flags()
        .iter()
        .flatten()
        .try_fold(0u64, |all, flag| {
            let bit = match flag.to_string().as_str() {
                "SCHED_FLAG_RESET_ON_FORK" => 0x01,
                "SCHED_FLAG_RECLAIM" => 0x02,
                "SCHED_FLAG_DL_OVERRUN" => 0x04,
                "SCHED_FLAG_KEEP_POLICY" => 0x08,
                "SCHED_FLAG_KEEP_PARAMS" => 0x10,
                "SCHED_FLAG_UTIL_CLAMP_MIN" => 0x20,
                "SCHED_FLAG_UTIL_CLAMP_MAX" => 0x40,
                other => bail!("policy: process.scheduler: the flag {other} is not known"),
            };
            Ok(all | bit)
        })?;
    // `struct sched_attr` as it was first (sched_setattr(2)).
    const BYTES: u32 = 48;
    let mut bytes = Vec::with_capacity(BYTES as usize);
    bytes.extend(BYTES.to_ne_bytes());
    bytes.extend(policy.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(scheduler.nice().unwrap_or(0).to_ne_bytes());
    bytes.extend(scheduler.priority().unwrap_or(0).to_ne_bytes());
    for time in [
        scheduler.runtime(),
        scheduler.deadline(),
        scheduler.period(),
    ] {
        bytes.extend(time.unwrap_or(0).to_ne_bytes());
    }
    Ok(bytes)
}

fn io_priority(process: &Process) -> anyhow::Result<Option<u32>> {
    let Some(priority) = process.io_priority() else {
        return Ok(None);
    };
    let class = match priority.class() {
        IOPriorityClass::IoprioClassRt => 1,
        IOPriorityClass::IoprioClassBe => 2,
        IOPriorityClass::IoprioClassIdle => 3,
    };
    let level = u32::try_from(priority.priority())
        .ok()
        .filter(|level| *level <= 7)
        .with_context(|| {
            format!(
                "policy: process.ioPriority.priority is {}, which is not from 0 to 7",
                priority.priority()
            )
        })?;
    Ok(Some(class << 13 | level))
}

fn personality(spec: &Spec) -> anyhow::Result<Option<u32>> {
    let asked = spec
        .linux()
        .as_ref()
        .and_then(|linux| linux.personality().as_ref());
    let Some(asked) = asked else { return Ok(None) };
    if asked
        .flags()
        .as_ref()
        .is_some_and(|flags| !flags.is_empty())
    {
        bail!("policy: linux.personality.flags is not supported: the specification has none yet");
    }
    Ok(Some(match asked.domain() {
        LinuxPersonalityDomain::PerLinux => 0,
        LinuxPersonalityDomain::PerLinux32 => 8,
    }))
}
