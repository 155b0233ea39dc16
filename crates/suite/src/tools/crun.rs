//! crun with a bundle: every namespace, no capability, masked and read-only paths as the
//! container engines write them. No seccomp filter: engines bring their own.

use std::fs;
use std::path::Path;

use rustix::mount::{UnmountFlags, unmount};
use serde_json::{Value, json};

use super::{FilledGrant, Launch, text};

const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"];
const NAMESPACES: [&str; 6] = ["pid", "network", "ipc", "uts", "mount", "cgroup"];
const MASKED: [&str; 6] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/sys/firmware",
    "/proc/scsi",
];
const READ_ONLY: [&str; 5] = [
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
];

/// crun refuses to start where a v2 tree is mounted beside v1 controllers, even if it is told
/// to leave cgroups alone.
pub(super) fn prepare_arena() {
    // Where there is no such tree there is nothing to take away.
    let _ = unmount("/sys/fs/cgroup/unified", UnmountFlags::DETACH);
}

pub(super) fn command_line(program: &Path, launch: &Launch) -> Vec<String> {
    let bundle = &launch.folder;
    let state = bundle.join("state");
    // Without a bundle crun says so itself, and the run counts as refused.
    let _ = fs::create_dir_all(bundle.join("rootfs"));
    let _ = fs::create_dir_all(&state);
    let _ = fs::write(bundle.join("config.json"), config(launch).to_string());
    let words = [
        "--root",
        &text(&state),
        "--cgroup-manager",
        "disabled",
        "run",
        "--bundle",
        &text(bundle),
        "suite",
    ];
    std::iter::once(text(program))
        .chain(words.map(str::to_owned))
        .collect()
}

fn config(launch: &Launch) -> Value {
    let mut environment = vec!["PATH=/usr/bin:/bin".to_owned()];
    environment.extend(launch.grants.iter().filter_map(|grant| match grant {
        FilledGrant::Env(entry) => Some(entry.clone()),
        _ => None,
    }));
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": { "uid": 0, "gid": 0 },
            "args": launch.guest_at("/guest"),
            "env": environment,
            "cwd": "/",
            "noNewPrivileges": true,
            "capabilities": {},
        },
        "root": { "path": "rootfs", "readonly": true },
        "mounts": mounts(launch),
        "linux": linux(launch.uid),
    })
}

/// An ordinary user needs a user namespace, with the one id that may be mapped.
fn linux(uid: u32) -> Value {
    let rootless = uid != 0;
    let kinds = NAMESPACES.into_iter().chain(rootless.then_some("user"));
    let mut linux = json!({
        "namespaces": kinds.map(|kind| json!({ "type": kind })).collect::<Vec<_>>(),
        "maskedPaths": MASKED,
        "readonlyPaths": READ_ONLY,
    });
    if rootless {
        let mapping = json!([{ "containerID": 0, "hostID": uid, "size": 1 }]);
        linux["uidMappings"] = mapping.clone();
        linux["gidMappings"] = mapping;
    }
    linux
}

fn mounts(launch: &Launch) -> Vec<Value> {
    let mut mounts = vec![
        json!({ "destination": "/proc", "type": "proc", "source": "proc" }),
        json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"] }),
        json!({ "destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "noexec"] }),
        json!({ "destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"] }),
    ];
    if launch.has_system() {
        let folders = SYSTEM
            .into_iter()
            .filter(|folder| Path::new(folder).exists());
        mounts.extend(folders.map(|folder| bind(folder, folder, "ro")));
    }
    mounts.extend(launch.grants.iter().filter_map(|grant| match grant {
        FilledGrant::Read { host, guest } => Some(bind(host, guest, "ro")),
        FilledGrant::Write { host, guest } => Some(bind(host, guest, "rw")),
        _ => None,
    }));
    mounts
}

fn bind(host: &str, guest: &str, access: &str) -> Value {
    json!({ "destination": guest, "type": "bind", "source": host, "options": ["rbind", access, "nosuid", "nodev"] })
}
