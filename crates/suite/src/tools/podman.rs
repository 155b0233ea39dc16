//! A container by podman, as root: the engine is the same, what it starts the container by is the wall.
//!
//! Two settings, for what an engine brings is most of a wall: podman's own (its system-call filter, eleven
//! capabilities), and those of a pod of Kubernetes' (no filter unless the pod says so, fourteen capabilities).
//! The policy's grants become podman's flags as far as it has words; [`refusal`] tells what it has none for.

use std::env;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use rustix::process::{Resource, getrlimit};

use super::{FilledGrant, Launch, on_path, palisade, text};
use crate::executable::copy_program;
use crate::policy::Policy;

/// What podman starts a container by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// `palisade-oci`.
    Palisade,
    /// `runc`.
    Runc,
    /// `crun`.
    Crun,
}

/// What podman is asked for besides the policy's grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Settings {
    /// Podman's defaults.
    Engine,
    /// The defaults of Kubernetes with containerd.
    Pod,
}

/// What containerd leaves a container beyond podman.
const POD_CAPABILITIES: &str = "AUDIT_WRITE,MKNOD,NET_RAW";
/// What an image has of the system: the host's own, read-only.
const SYSTEM: [&str; 5] = ["/usr", "/bin", "/sbin", "/lib", "/lib64"];
/// Folders of an image without files.
const FOLDERS: [&str; 8] = ["dev", "etc", "guest", "proc", "root", "run", "sys", "tmp"];
/// Files of an image: users, and where libraries are.
const FILES: [(&str, &str); 2] = [
    ("etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
    ("etc/group", "root:x:0:\n"),
];
const CGROUPS: &str = "/sys/fs/cgroup";

impl Runtime {
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Palisade => "palisade-oci",
            Self::Runc => "runc",
            Self::Crun => "crun",
        }
    }

    /// palisade-oci is `$PALISADE_OCI_BIN`, or lies beside the palisade under test or beside the suite.
    pub(super) fn find(self) -> Option<PathBuf> {
        match self {
            Self::Palisade => env::var_os("PALISADE_OCI_BIN")
                .map(PathBuf::from)
                .or_else(|| palisade::find_part(self.program()))
                .or_else(|| palisade::find_beside(self.program())),
            Self::Runc => on_path("runc").or_else(|| in_sbin("runc")),
            Self::Crun => on_path("crun"),
        }
    }
}

/// Debian's runc lies where an ordinary user's PATH does not lead.
fn in_sbin(name: &str) -> Option<PathBuf> {
    Some(Path::new("/usr/sbin").join(name)).filter(|path| path.is_file())
}

/// Why podman cannot be driven here, with any runtime.
pub(super) fn lacks() -> Option<String> {
    if on_path("podman").is_none() {
        return Some("there is no podman: apt-get install podman".to_owned());
    }
    if !Path::new(CGROUPS).join("memory/cgroup.procs").is_file() {
        return Some("an arena hands podman control groups of version 1 alone".to_owned());
    }
    (!rustix::process::geteuid().is_root()).then(|| "podman of root takes root".to_owned())
}

/// Podman makes control groups at the root of what it sees: that is the arena's own group, whose limits
/// then hold for containers too. The unified tree is left out: crun refuses to start where it is mounted beside
/// controllers of version 1.
pub(super) fn prepare_arena() -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/cgroup")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("arena", CGROUPS, c"tmpfs", flags, Some(c"mode=755"))?;
    for (folder, option) in table.lines().filter_map(hierarchy) {
        let place = Path::new(CGROUPS).join(folder);
        fs::create_dir(&place)?;
        mount("cgroup", &place, c"cgroup", flags, Some(option.as_c_str()))?;
    }
    Ok(())
}

/// The folder and the mount option of a hierarchy of version 1, from its line of `/proc/self/cgroup`.
fn hierarchy(line: &str) -> Option<(&str, CString)> {
    let controllers = line.split(':').nth(1).filter(|text| !text.is_empty())?;
    match controllers.strip_prefix("name=") {
        Some(name) => Some((name, CString::new(format!("none,{controllers}")).ok()?)),
        None => Some((controllers, CString::new(controllers).ok()?)),
    }
}

/// The whole command line. `runtime` is the copy of the runtime that may be lost.
pub(super) fn command_line(runtime: &Path, settings: Settings, launch: &Launch) -> Vec<String> {
    let folder = &launch.folder;
    let root = folder.join("rootfs");
    // Without an image podman says so itself, and the run counts as refused.
    let _ = make_image(&root);
    let mut words = vec![text(&on_path("podman").unwrap_or_else(|| "podman".into()))];
    words.extend(engine(runtime, folder));
    words.extend(owned(&[
        "run",
        "--rm",
        "--interactive",
        "--no-hosts",
        "--read-only",
    ]));
    if launch.has_terminal {
        words.push("--tty".to_owned());
    }
    if settings == Settings::Pod {
        words.extend(owned(&["--security-opt", "seccomp=unconfined"]));
        words.extend(owned(&["--cap-add", POD_CAPABILITIES]));
    }
    words.extend(network(&launch.grants));
    words.extend(system(launch));
    words.extend(told_once(&launch.grants).flat_map(flags));
    words.extend(["--rootfs".to_owned(), text(&root)]);
    words.extend(launch.guest_at("/guest"));
    words
}

/// Everything of podman's is in the arena and goes with it.
fn engine(runtime: &Path, folder: &Path) -> Vec<String> {
    let at = |name: &str| text(&folder.join(name));
    let mut words = owned(&["--log-level", "error", "--cgroup-manager", "cgroupfs"]);
    words.extend(owned(&[
        "--storage-driver",
        "vfs",
        "--events-backend",
        "none",
    ]));
    for (flag, value) in [
        ("--root", at("storage")),
        ("--runroot", at("run")),
        ("--tmpdir", at("tmp")),
        ("--network-config-dir", at("networks")),
        ("--runtime-flag", format!("root={}", at("state"))),
        ("--runtime", text(runtime)),
    ] {
        words.extend([flag.to_owned(), value]);
    }
    words
}

/// Podman has no part of a network to give: it is none, or all of the launcher's.
fn network(grants: &[FilledGrant]) -> [String; 2] {
    let reaches = |grant| matches!(grant, &FilledGrant::Connect(_) | &FilledGrant::Listen(_));
    let kind = if grants.iter().any(reaches) {
        "host"
    } else {
        "none"
    };
    ["--network", kind].map(str::to_owned)
}

fn system(launch: &Launch) -> Vec<String> {
    if !launch.has_system() {
        return Vec::new();
    }
    let folders = SYSTEM
        .into_iter()
        .filter(|folder| Path::new(folder).exists());
    folders
        .flat_map(|folder| volume(folder, folder, "ro"))
        .collect()
}

/// A place is mounted once: the last grant of it says how.
fn told_once(grants: &[FilledGrant]) -> impl Iterator<Item = &FilledGrant> {
    let is_told_again = |(index, grant): &(usize, &FilledGrant)| {
        let place = place_of(grant);
        let mut later = grants[index + 1..].iter().map(place_of);
        place.is_some() && later.any(|other| other == place)
    };
    let all = grants.iter().enumerate();
    all.filter(move |one| !is_told_again(one))
        .map(|(_, grant)| grant)
}

fn place_of(grant: &FilledGrant) -> Option<&str> {
    match grant {
        FilledGrant::Read { guest, .. } | FilledGrant::Write { guest, .. } => Some(guest),
        FilledGrant::Exec(path) => Some(path),
        _ => None,
    }
}

fn flags(grant: &FilledGrant) -> Vec<String> {
    match grant {
        FilledGrant::Read { host, guest } => volume(host, guest, "ro"),
        FilledGrant::Write { host, guest } => volume(host, guest, "rw,noexec"),
        FilledGrant::Exec(path) => volume(path, path, "rw,exec"),
        FilledGrant::Hide(path) => owned(&["--security-opt", &format!("mask={path}")]),
        FilledGrant::Env(entry) => owned(&["--env", entry]),
        FilledGrant::Cwd(path) => owned(&["--workdir", path]),
        FilledGrant::Limit(name, value) => limit(name, value),
        _ => Vec::new(),
    }
}

fn limit(name: &str, value: &str) -> Vec<String> {
    let rlimit = |kind: &str, most: String| owned(&["--ulimit", &format!("{kind}={most}:{most}")]);
    match name {
        "memory" => owned(&["--memory", value, "--memory-swap", value]),
        "processes" => owned(&["--pids-limit", value]),
        "files" => [
            rlimit("nofile", value.to_owned()),
            kept("nproc", Resource::Nproc),
        ]
        .concat(),
        "file-size" => [
            rlimit("fsize", bytes(value).to_string()),
            kept("nproc", Resource::Nproc),
            kept("nofile", Resource::Nofile),
        ]
        .concat(),
        "tmp-size" => owned(&[
            "--tmpfs",
            &format!("/tmp:size={value}"),
            "--shm-size",
            value,
        ]),
        _ => Vec::new(),
    }
}

/// As it is: where podman is asked for one limit it asks for more of these than root may have everywhere, and runc and crun
/// refuse to start then.
fn kept(kind: &str, resource: Resource) -> Vec<String> {
    let most = getrlimit(resource).maximum;
    let most = most.map_or_else(|| "-1".to_owned(), |most| most.to_string());
    owned(&["--ulimit", &format!("{kind}={most}:{most}")])
}

/// `8M`, `100G`, in bytes.
fn bytes(size: &str) -> u64 {
    let (digits, unit) = size.split_at(size.len().saturating_sub(1));
    let shift = match unit {
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    digits.parse::<u64>().unwrap_or(0) << shift
}

fn volume(host: &str, guest: &str, options: &str) -> Vec<String> {
    owned(&[
        "--volume",
        &format!("{host}:{guest}:{options},nosuid,nodev"),
    ])
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Why podman has no words for this grant, if so.
///
/// A socket of one address is all or nothing with it: only a control may have all.
pub(super) fn refusal(grant: &FilledGrant, policy: Policy) -> Option<&'static str> {
    match grant {
        FilledGrant::Connect(_) | FilledGrant::Listen(_) if policy != Policy::Control => {
            Some("a network is the whole of one or none")
        }
        FilledGrant::Protect(_) => Some("a path that need not be there cannot be protected"),
        FilledGrant::PolicyFile(_) => Some("there is no policy file"),
        FilledGrant::Read { guest, .. } | FilledGrant::Write { guest, .. } if guest == "/" => {
            Some("the root is the image's")
        }
        FilledGrant::Read { host, .. } | FilledGrant::Write { host, .. }
            if host.contains([':', '\n', ',']) =>
        {
            Some("the path cannot be written in a volume's flag")
        }
        FilledGrant::Limit("time", _) => Some("a time limit is of whole seconds"),
        FilledGrant::Limit("cpu-time", _) => {
            Some("processor time is limited for each process alone")
        }
        FilledGrant::Limit("output", _) => Some("output has no limit"),
        _ => None,
    }
}

fn make_image(root: &Path) -> io::Result<()> {
    for folder in FOLDERS.into_iter().chain(["var/tmp"]) {
        fs::create_dir_all(root.join(folder))?;
    }
    for (name, content) in FILES {
        fs::write(root.join(name), content)?;
    }
    // Programs with libraries of their own find them here.
    let _ = fs::copy("/etc/ld.so.cache", root.join("etc/ld.so.cache"));
    symlink("/proc/self/mounts", root.join("etc/mtab"))
}

/// A copy of the runtime that an attack may overwrite, called as engines know it.
pub(super) fn copy_runtime(
    runtime: Runtime,
    installed: &Path,
    folder: &Path,
) -> io::Result<PathBuf> {
    fs::create_dir(folder)?;
    let copy = folder.join(runtime.program());
    copy_program(installed, &copy)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::{FilledGrant, Policy, bytes, hierarchy, refusal, told_once};

    #[test]
    fn a_place_that_is_granted_twice_is_mounted_once() {
        let place = || "/a".to_owned();
        let read = FilledGrant::Read {
            host: place(),
            guest: place(),
        };
        let write = FilledGrant::Write {
            host: place(),
            guest: place(),
        };
        let grants = [read, FilledGrant::NoGuard, write.clone()];
        let told: Vec<_> = told_once(&grants).collect();
        assert_eq!(told, [&FilledGrant::NoGuard, &write]);
    }

    #[test]
    fn a_hierarchy_is_mounted_by_its_controllers_or_its_name() {
        let option =
            |line| hierarchy(line).map(|(folder, option)| (folder, option.into_string().unwrap()));
        assert_eq!(
            option("4:cpu,cpuacct:/a"),
            Some(("cpu,cpuacct", "cpu,cpuacct".to_owned()))
        );
        assert_eq!(
            option("9:name=systemd:/"),
            Some(("systemd", "none,name=systemd".to_owned()))
        );
        assert_eq!(option("0::/user.slice"), None);
    }

    #[test]
    fn a_network_is_whole_for_a_control_and_refused_else() {
        let grant = FilledGrant::Connect("tcp://127.0.0.1:1".to_owned());
        assert!(refusal(&grant, Policy::Generous).is_some());
        assert!(refusal(&grant, Policy::Control).is_none());
    }

    #[test]
    fn sizes_are_bytes() {
        assert_eq!(bytes("8M"), 8 << 20);
        assert_eq!(bytes("100G"), 100 << 30);
    }
}
