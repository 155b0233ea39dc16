//! What a policy comes to for a service in the process of its server.

use palisade_network::{Gate, Network, NetworkError, Refresh, Resolve, SystemResolver};
use palisade_policy::{
    Access, ConnectGrant, FileGrant, HostPattern, Limits, Policy, Transport, WallKind,
};
use palisade_process::{Host, Kind, ThisHost};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use wasmtime_wasi::FsPerms;

/// File systems of the kernel's, which lead to the server's own memory and settings.
const KERNEL_FILE_SYSTEMS: [&str; 6] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "cgroup",
    "cgroup2",
    "securityfs",
];
/// What the paths of these begin with.
const KERNEL_FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];
/// Memory of an instance without a limit of its own.
const MEMORY_BYTES: u64 = 128 << 20;
/// Processor time of a request without a limit of its own. Responses may stream for as long as they like.
const CPU_TIME: Duration = Duration::from_secs(30);
/// What a request may write to stdout and stderr without a limit of its own.
const OUTPUT_BYTES: u64 = 1 << 20;

/// What a service may reach and use, checked and looked up.
#[derive(Debug)]
pub struct Reach {
    pub(crate) folders: Vec<Folder>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) cwd: Option<String>,
    pub(crate) gate: Arc<Gate>,
    /// Keeps names up to date.
    _refresh: Option<Refresh>,
    pub(crate) memory_bytes: usize,
    pub(crate) time: Option<Duration>,
    pub(crate) cpu_time: Duration,
    pub(crate) output_bytes: u64,
}

/// A folder that a guest finds open.
#[derive(Debug)]
pub(crate) struct Folder {
    /// The folder itself: whatever comes to lie at its path is not granted.
    pub(crate) descriptor: OwnedFd,
    pub(crate) guest: String,
    pub(crate) permissions: FsPerms,
}

/// Whether the folders of a policy may be named by links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// They are followed.
    Followed,
    /// They are refused, whenever they came to lie there: whoever writes there is not trusted with what lies elsewhere.
    Refused,
}

/// The policy can't be carried out for a service.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum ReachError {
    #[error("policy: a component that serves cannot have {what}: {advice}")]
    NotOffered { what: String, advice: &'static str },
    #[error("policy: {} cannot be granted: {source}", path.display())]
    Missing {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("policy: a link leads to {}, and links may lead out of what a tenant has: grant the folder without one", path.display())]
    ByLink { path: PathBuf },
    #[error("policy: {} is no folder, and a component is granted folders: grant the one it lies in", path.display())]
    NotAFolder { path: PathBuf },
    #[error(
        "policy: {} cannot be granted to a component: {} is the kernel's own and leads to the server's memory and \
         settings", path.display(), mount.display()
    )]
    Kernel { path: PathBuf, mount: PathBuf },
    #[error("policy: a component can only be told what is Unicode, not {}: name it otherwise", path.display())]
    NotUnicode { path: PathBuf },
    #[error("host: what is mounted cannot be told: {0}")]
    Mounts(#[source] Errno),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("host: no thread can be started to keep names up to date: {0}")]
    Thread(#[source] std::io::Error),
}

impl Reach {
    /// Looks at this machine. Granted names are looked up now, and again when their time is up, as long as
    /// this lives.
    ///
    /// # Errors
    ///
    /// When the policy names what does not exist or what no service can have.
    pub fn of(policy: &Policy, links: Links) -> Result<Self, ReachError> {
        Self::resolve(policy, links, Arc::new(SystemResolver::default()))
    }

    fn resolve(
        policy: &Policy,
        links: Links,
        resolver: Arc<dyn Resolve>,
    ) -> Result<Self, ReachError> {
        refuse_what_is_not_offered(policy)?;
        let grants = &policy.grants;
        let network = Network::resolve(&grants.connect, &[], &*resolver)?;
        let gate = Arc::new(Gate::new(network));
        let refresh = Refresh::start(Arc::clone(&gate), resolver, |_, _, _| {})
            .map_err(ReachError::Thread)?;
        let Limits {
            memory_bytes,
            time,
            cpu_time,
            output_bytes,
            ..
        } = policy.limits;
        Ok(Self {
            folders: folders(&grants.files, links)?,
            variables: variables(policy),
            cwd: grants.cwd.as_deref().map(text).transpose()?,
            gate,
            _refresh: refresh,
            memory_bytes: usize::try_from(memory_bytes.unwrap_or(MEMORY_BYTES))
                .unwrap_or(usize::MAX),
            time,
            cpu_time: cpu_time.unwrap_or(CPU_TIME),
            output_bytes: output_bytes.unwrap_or(OUTPUT_BYTES),
        })
    }

    /// The verdicts on its requests to others. Names stand for what is pinned there.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }
}

fn not_offered<T>(what: impl Into<String>, advice: &'static str) -> Result<T, ReachError> {
    let what = what.into();
    Err(ReachError::NotOffered { what, advice })
}

fn refuse_what_is_not_offered(policy: &Policy) -> Result<(), ReachError> {
    const AS_PROGRAM: &str = "leave it out, or serve a native program";
    if policy.wall == Some(WallKind::Process) {
        return not_offered(
            "the process wall round it",
            "leave `wall` out, or serve a native program",
        );
    }
    let grants = &policy.grants;
    if !grants.devices.is_empty() {
        return not_offered("devices", AS_PROGRAM);
    }
    if !grants.listen.is_empty() {
        return not_offered(
            "places to listen at",
            "requests come by the server's routes",
        );
    }
    if !grants.profiles.is_empty() {
        return not_offered("profiles", "they are for native programs");
    }
    grants.connect.iter().try_for_each(refuse_connection)?;
    grants.files.iter().try_for_each(refuse_access)?;
    refuse_limits(&policy.limits)
}

fn refuse_connection(grant: &ConnectGrant) -> Result<(), ReachError> {
    match grant {
        ConnectGrant::Unix(unix) => not_offered(
            format!("the socket {}", unix.host.display()),
            "it sends HTTP requests over tcp; make the socket an upstream of another route",
        ),
        ConnectGrant::Internet {
            transport: Transport::Udp,
            ..
        } => not_offered("udp", "it sends HTTP requests, which go over tcp"),
        ConnectGrant::Internet {
            host: HostPattern::Wildcard(name),
            ..
        } => not_offered(
            format!("all names below {}", name.as_str()),
            "grant each name that it sends requests to",
        ),
        ConnectGrant::Public { .. } => not_offered(
            "the whole internet",
            "grant each name that it sends requests to",
        ),
        ConnectGrant::Internet { .. } => Ok(()),
    }
}

fn refuse_access(grant: &FileGrant) -> Result<(), ReachError> {
    match grant.access {
        Access::Read | Access::ReadIfThere | Access::Write if grant.is_root() => not_offered(
            "a folder as its root",
            "grant the folder under a path of its own, as in HOST:/data",
        ),
        Access::Read | Access::Write => Ok(()),
        Access::ReadIfThere => not_offered("files that may be missing", "grant them with `read`"),
        Access::Protect => not_offered(
            "protected places",
            "grant the folders beside them for writing, and not what holds them",
        ),
        Access::Hide => not_offered(
            "hidden places",
            "grant the folders beside them, and not what holds them",
        ),
        Access::Exec => not_offered("files to execute", "leave it out"),
        Access::Ipc => not_offered("sockets and FIFOs of its own", "leave it out"),
    }
}

/// `time`, `cpu-time`, `memory` and `output` can be held.
fn refuse_limits(limits: &Limits) -> Result<(), ReachError> {
    let others = [
        ("cpu", limits.cpu_cores.is_some()),
        ("processes", limits.processes.is_some()),
        ("files", limits.files.is_some()),
        ("file-size", limits.file_size_bytes.is_some()),
        ("tmp-size", limits.tmp_size_bytes.is_some()),
    ];
    match others.iter().find(|(_, is_set)| *is_set) {
        Some((name, _)) => not_offered(
            format!("a limit on {name}"),
            "it is no process; limits.time, cpu-time, memory and output hold it",
        ),
        None => Ok(()),
    }
}

fn folders(grants: &[FileGrant], links: Links) -> Result<Vec<Folder>, ReachError> {
    if grants.is_empty() {
        return Ok(Vec::new());
    }
    let mut mounts = ThisHost.mounts().map_err(ReachError::Mounts)?;
    mounts.retain(|mount| KERNEL_FILE_SYSTEMS.contains(&mount.kind.as_str()));
    let mut kernels: Vec<PathBuf> = mounts.into_iter().map(|mount| mount.point).collect();
    kernels.extend(KERNEL_FOLDERS.map(PathBuf::from));
    let folders = grants.iter();
    folders
        .map(|grant| folder(grant, &kernels, links))
        .collect()
}

fn folder(grant: &FileGrant, kernels: &[PathBuf], links: Links) -> Result<Folder, ReachError> {
    let path = || grant.host.clone();
    let found = ThisHost
        .find(&grant.host)
        .map_err(|source| ReachError::Missing {
            path: path(),
            source,
        })?;
    if found.kind != Kind::Folder {
        return Err(ReachError::NotAFolder { path: path() });
    }
    let canonical = &found.canonical;
    if links == Links::Refused && *canonical != grant.host {
        return Err(ReachError::ByLink { path: path() });
    }
    let is_reached = |kernel: &&PathBuf| {
        let is_shared_memory = canonical.starts_with("/dev/shm");
        kernel.starts_with(canonical) || canonical.starts_with(kernel) && !is_shared_memory
    };
    if let Some(kernel) = kernels.iter().find(is_reached) {
        return Err(ReachError::Kernel {
            path: path(),
            mount: kernel.clone(),
        });
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_SYMLINKS;
    let descriptor = openat2(CWD, canonical, flags, Mode::empty(), no_links).map_err(|source| {
        ReachError::Missing {
            path: path(),
            source,
        }
    })?;
    Ok(Folder {
        descriptor,
        guest: text(grant.guest_path())?,
        permissions: match grant.access {
            Access::Write => FsPerms::ReadWrite,
            _ => FsPerms::ReadOnly,
        },
    })
}

fn variables(policy: &Policy) -> Vec<(String, String)> {
    let value = |name: &str, value: &Option<String>| match value {
        Some(value) => Some(value.clone()),
        None => std::env::var(name).ok(),
    };
    let granted = policy.grants.env.iter();
    granted
        .filter_map(|grant| Some((grant.name.clone(), value(&grant.name, &grant.value)?)))
        .collect()
}

fn text(path: &Path) -> Result<String, ReachError> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| ReachError::NotUnicode { path: path.into() })
}

#[cfg(test)]
mod tests;
