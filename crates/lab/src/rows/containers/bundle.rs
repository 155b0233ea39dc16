//! The bundle that all runtimes get: what an engine asks for by default, but for its filter.

use crate::workloads::Workloads;
use anyhow::Context;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What is run in it, and in what.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The program and its arguments.
    pub(super) words: Vec<String>,
    /// The program lies in the root by itself; else the host's own files are its root's.
    pub(super) program: Option<PathBuf>,
    /// A folder of the host's that is written to, at the same place.
    pub(super) writable: Option<PathBuf>,
    /// It shares the host's network.
    pub(super) shares_network: bool,
}

impl Asked {
    /// This program, by itself.
    pub(super) fn alone(program: PathBuf) -> Self {
        let name = program.file_name().unwrap_or_default();
        Self {
            words: vec![format!("/{}", name.to_string_lossy())],
            program: Some(program),
            writable: None,
            shares_network: false,
        }
    }
}

/// As Podman and containerd have them.
const CAPABILITIES: [&str; 11] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
];
const MASKED: [&str; 6] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];
/// What servers of the host's are made of.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];
/// Places of mounts.
const FOLDERS: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];

/// Lays it out in a folder of this name.
pub(super) fn lay_out(workloads: &Workloads, name: &str, asked: &Asked) -> anyhow::Result<PathBuf> {
    let bundle = workloads.folder().join(name);
    let write = || -> std::io::Result<()> {
        let root = bundle.join("rootfs");
        for folder in FOLDERS {
            fs::create_dir_all(root.join(folder))?;
        }
        if let Some(program) = &asked.program {
            let name = program.file_name().unwrap_or_default();
            fs::copy(program, root.join(name))?;
        }
        fs::write(bundle.join("config.json"), config(asked).to_string())
    };
    write().with_context(|| format!("host: cannot lay out a bundle in {}", bundle.display()))?;
    Ok(bundle)
}

fn config(asked: &Asked) -> Value {
    let shared = asked.shares_network.then_some("network");
    let kinds = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
    let kinds = kinds.into_iter().filter(|kind| Some(*kind) != shared);
    json!({
        "ociVersion": "1.0.2",
        "hostname": "lab",
        "root": { "path": "rootfs", "readonly": true },
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": asked.words,
            "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "cwd": "/",
            "capabilities": {
                "bounding": CAPABILITIES,
                "effective": CAPABILITIES,
                "permitted": CAPABILITIES,
            },
            "noNewPrivileges": true,
        },
        "mounts": mounts(asked),
        "linux": {
            "namespaces": kinds.map(|kind| json!({ "type": kind })).collect::<Vec<_>>(),
            "resources": {
                "devices": [{ "allow": false, "access": "rwm" }],
                "pids": { "limit": 2048 },
            },
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
        },
    })
}

fn mounts(asked: &Asked) -> Vec<Value> {
    let new = |at: &str, kind: &str, options: &[&str]| json!({ "destination": at, "type": kind, "source": kind, "options": options });
    let private = ["nosuid", "noexec", "nodev"];
    let mut mounts = vec![
        new("/proc", "proc", &private),
        new(
            "/dev",
            "tmpfs",
            &["nosuid", "strictatime", "mode=755", "size=65536k"],
        ),
        new(
            "/dev/pts",
            "devpts",
            &[
                "nosuid",
                "noexec",
                "newinstance",
                "ptmxmode=0666",
                "mode=0620",
            ],
        ),
        new("/dev/mqueue", "mqueue", &private),
        new(
            "/dev/shm",
            "tmpfs",
            &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"],
        ),
        new("/tmp", "tmpfs", &["nosuid", "nodev", "mode=1777"]),
        new("/run", "tmpfs", &["nosuid", "nodev", "mode=755"]),
    ];
    // A mount of sysfs is of a network namespace's owner.
    mounts.push(match asked.shares_network {
        true => bind("/sys".as_ref(), "ro"),
        false => new("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
    });
    if asked.program.is_none() {
        let there = SYSTEM.into_iter().filter(|at| Path::new(at).is_dir());
        mounts.extend(there.map(|at| bind(at.as_ref(), "ro")));
    }
    mounts.extend(asked.writable.as_deref().map(|folder| bind(folder, "rw")));
    mounts
}

fn bind(folder: &Path, access: &str) -> Value {
    json!({
        "destination": folder,
        "type": "bind",
        "source": folder,
        "options": ["rbind", access, "nosuid", "nodev"],
    })
}
