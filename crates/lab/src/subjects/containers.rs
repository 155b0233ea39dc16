//! Container runtimes by the OCI's specification: crun, runc and gVisor's runsc. They run what a
//! bundle on disk says, a root folder and `config.json`, without an engine above them.
//!
//! ```text
//! room/
//!   bundle/config.json   the policy, in the specification's words
//!   bundle/rootfs/       what mounts are made over, and links into /usr
//!   state/               the runtime's own, so that no other container is in its way
//! ```
//!
//! The runtimes are asked for all seven namespaces. Their user namespace maps whoever runs the lab to
//! root inside, which runc wants without privilege; that root has no capability. gVisor without
//! privilege brings one of its own.

use super::{
    bubblewrap::BESIDE_USR,
    peer::{Peer, Request, takes_programs},
    variables, words_of,
};
use anyhow::Context;
use palisade_policy::{Access, FileGrant, Limits, Policy};
use palisade_wall::Command;
use rustix::process::{getegid, geteuid};
use serde_json::{Value, json};
use std::{
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

const LACKS: &str = "no Landlock, no system-call filter without an engine's";

pub(super) static CRUN: Peer = Peer {
    name: "crun",
    title: "crun",
    program: "crun",
    lacks: LACKS,
    install: "apt-get install crun",
    waits_for_all: true,
    takes: takes_programs,
    line: crun,
    line_to_end: Some(delete),
};

pub(super) static RUNC: Peer = Peer {
    name: "runc",
    title: "runc",
    program: "runc",
    lacks: LACKS,
    install: "apt-get install runc",
    waits_for_all: true,
    takes: takes_programs,
    line: runc,
    line_to_end: Some(delete),
};

pub(super) static RUNSC: Peer = Peer {
    name: "runsc",
    title: "runsc",
    program: "runsc",
    lacks: "no Landlock; a kernel of its own in user space serves the guest's system calls",
    install: "https://gvisor.dev/docs/user_guide/install",
    // The sandbox is a child of nobody's.
    waits_for_all: false,
    takes: takes_programs,
    line: runsc,
    line_to_end: Some(delete),
};

/// Without a limit there is nothing for a control group to hold, and making one takes time.
fn crun(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let needs_group = resources(&request.policy.limits) != json!({});
    let flags: &[&str] = match needs_group {
        true => &[],
        false => &["--cgroup-manager=disabled"],
    };
    run(request, flags)
}

fn runc(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    run(request, &[])
}

/// Flags as `runsc help flags` describes them.
fn runsc(request: &Request<'_>) -> anyhow::Result<Vec<OsString>> {
    let mut flags = vec!["--network=none"];
    if !geteuid().is_root() {
        flags.push("--rootless");
    }
    if resources(&request.policy.limits) == json!({}) {
        flags.push("--ignore-cgroups");
    }
    lay_out(request, geteuid().is_root())?;
    Ok(words(request, &flags))
}

fn run(request: &Request<'_>, flags: &[&str]) -> anyhow::Result<Vec<OsString>> {
    lay_out(request, true)?;
    Ok(words(request, flags))
}

fn bundle(request: &Request<'_>) -> PathBuf {
    request.room.join("bundle")
}

fn words(request: &Request<'_>, flags: &[&str]) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![request.program.into(), "--root".into()];
    words.push(request.room.join("state").into());
    words.extend(flags.iter().map(OsString::from));
    words.extend(["run".into(), "--bundle".into(), bundle(request).into()]);
    words.push(new_id().into());
    words
}

/// A container outlives a runtime that is killed: `PROGRAM --root STATE delete --force ID`.
fn delete(killed: &[OsString]) -> Vec<OsString> {
    let mut words: Vec<OsString> = killed.iter().take(3).cloned().collect();
    words.extend(["delete", "--force"].map(OsString::from));
    words.extend(killed.last().cloned());
    words
}

/// Each command line has an id of its own. One line's runs can share it: a container is gone when its
/// `run` is over.
fn new_id() -> String {
    static LINES: AtomicUsize = AtomicUsize::new(0);
    let line = LINES.fetch_add(1, Ordering::Relaxed);
    format!("palisade-lab-{}-{line}", std::process::id())
}

fn lay_out(request: &Request<'_>, with_users: bool) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        let root = bundle(request).join("rootfs");
        fs::create_dir_all(&root)?;
        let is_shown = request.policy.grants.system;
        for folder in BESIDE_USR.into_iter().filter(|_| is_shown) {
            if let Ok(target) = fs::read_link(folder) {
                symlink(target, root.join(&folder[1..]))?;
            }
        }
        let mut config = config(request.policy, request.command);
        if !with_users {
            leave_users_out(&mut config["linux"]);
        }
        let text = serde_json::to_vec_pretty(&config)?;
        fs::write(bundle(request).join("config.json"), text)
    };
    write().with_context(|| {
        format!(
            "host: cannot lay out a bundle in {}",
            request.room.display()
        )
    })
}

/// Without privilege gVisor makes a user namespace of its own, and fails in a second one.
fn leave_users_out(linux: &mut Value) {
    if let Some(namespaces) = linux["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["type"] != "user");
    }
    if let Some(linux) = linux.as_object_mut() {
        linux.retain(|key, _| !key.ends_with("Mappings"));
    }
}

/// The policy in the words of the runtime specification, version 1.0.2.
fn config(policy: &Policy, command: &Command) -> Value {
    let text = |word: OsString| word.to_string_lossy().into_owned();
    let environment = variables(policy)
        .into_iter()
        .map(|(name, value)| format!("{name}={}", text(value)));
    let namespaces = ["user", "pid", "network", "ipc", "uts", "mount", "cgroup"];
    let sets = [
        "bounding",
        "effective",
        "inheritable",
        "permitted",
        "ambient",
    ];
    let none = sets.map(|set| (set.to_owned(), json!([])));
    let id = |host: u32| json!([{ "containerID": 0, "hostID": host, "size": 1 }]);
    json!({
        "ociVersion": "1.0.2",
        "hostname": "lab",
        "root": { "path": "rootfs", "readonly": true },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": words_of(command).map(text).collect::<Vec<_>>(),
            "env": environment.collect::<Vec<_>>(),
            "cwd": policy.grants.cwd.as_deref().unwrap_or(Path::new("/")),
            "capabilities": none.into_iter().collect::<serde_json::Map<_, _>>(),
            "rlimits": rlimits(&policy.limits),
            "noNewPrivileges": true,
        },
        "mounts": mounts(policy),
        "linux": {
            "namespaces": namespaces.map(|kind| json!({ "type": kind })),
            "uidMappings": id(geteuid().as_raw()),
            "gidMappings": id(getegid().as_raw()),
            "resources": resources(&policy.limits),
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sysrq-trigger"],
            "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"],
        },
    })
}

fn mounts(policy: &Policy) -> Vec<Value> {
    let new = |at: &str, kind: &str, options: &[&str]| json!({ "destination": at, "type": kind, "source": kind, "options": options });
    let mut mounts = vec![
        new("/proc", "proc", &["nosuid", "noexec", "nodev"]),
        new("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755"]),
        new("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
    ];
    if policy.grants.system {
        let folders = ["/usr", "/etc"].into_iter().chain(BESIDE_USR);
        let real = folders.filter(|at| Path::new(at).is_dir() && !Path::new(at).is_symlink());
        mounts.extend(real.map(|at| bind(at.as_ref(), at.as_ref(), "ro")));
    }
    mounts.extend(policy.grants.files.iter().filter_map(grant_mount));
    mounts
}

fn grant_mount(grant: &FileGrant) -> Option<Value> {
    let access = match grant.access {
        Access::Read | Access::ReadIfThere => "ro",
        Access::Write => "rw",
        Access::Protect | Access::Hide | Access::Exec | Access::Ipc => return None,
    };
    Some(bind(&grant.host, grant.guest_path(), access))
}

fn bind(host: &Path, guest: &Path, access: &str) -> Value {
    json!({
        "destination": guest,
        "type": "bind",
        "source": host,
        "options": ["rbind", access, "nosuid", "nodev"],
    })
}

fn rlimits(limits: &Limits) -> Vec<Value> {
    let seconds = limits.cpu_time.map(|time| time.as_secs().max(1));
    let limits = [
        ("RLIMIT_NOFILE", limits.files),
        ("RLIMIT_FSIZE", limits.file_size_bytes),
        ("RLIMIT_CPU", seconds),
    ];
    let rlimit = |(kind, most): (&str, Option<u64>)| {
        most.map(|most| json!({ "type": kind, "soft": most, "hard": most }))
    };
    limits.into_iter().filter_map(rlimit).collect()
}

/// What a control group holds; without privilege there mostly is none to give.
fn resources(limits: &Limits) -> Value {
    let mut resources = serde_json::Map::new();
    if !geteuid().is_root() {
        return resources.into();
    }
    if let Some(bytes) = limits.memory_bytes {
        resources.insert("memory".into(), json!({ "limit": bytes }));
    }
    if let Some(count) = limits.processes {
        resources.insert("pids".into(), json!({ "limit": count }));
    }
    if let Some(cores) = limits.cpu_cores {
        const PERIOD_US: f64 = 100_000.0;
        let quota = (cores * PERIOD_US) as u64;
        resources.insert(
            "cpu".into(),
            json!({ "quota": quota, "period": PERIOD_US as u64 }),
        );
    }
    resources.into()
}
