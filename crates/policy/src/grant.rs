//! Grants: one permission each.

mod network;

pub use network::{
    ConnectGrant, HostName, HostPattern, IpNetwork, ListenAddress, ListenGrant, Ports, Transport,
    UnixGrant,
};
pub(crate) use network::{address_bits, first_address};

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{value::ValueKind, word::words};

/// All permissions of a policy.
///
/// The default is the read-only system view and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// Files and folders. Order carries no meaning: the deeper path wins.
    pub files: Vec<FileGrant>,
    /// Environment variables. Of two with the same name the last wins.
    pub env: Vec<EnvGrant>,
    /// Files of variables, which whoever runs the guest reads first ([`crate::value::parse_env_file`]) and takes out:
    /// a policy that still has some is refused. A variable of `env` wins over one of a file.
    pub env_files: Vec<PathBuf>,
    /// Device nodes beyond the five harmless ones.
    pub devices: Vec<DeviceGrant>,
    /// What the guest may connect to.
    pub connect: Vec<ConnectGrant>,
    /// Where the guest may listen.
    pub listen: Vec<ListenGrant>,
    /// The guest's working directory, a path inside the domain.
    pub cwd: Option<PathBuf>,
    /// The read-only view of `/usr`, `/bin`, `/lib*` and what of `/etc` programs need to start.
    pub system: bool,
    /// Keep what git executes in a checkout (hooks, settings) read-only where the checkout is granted for writing.
    pub guard: bool,
    /// Named additions for runtimes that need more than the default.
    pub profiles: BTreeSet<Profile>,
}

impl Grants {
    /// No grant at all, not even the system view.
    pub fn nothing() -> Self {
        Self {
            system: false,
            ..Self::default()
        }
    }
}

impl Default for Grants {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            env: Vec::new(),
            env_files: Vec::new(),
            devices: Vec::new(),
            connect: Vec::new(),
            listen: Vec::new(),
            cwd: None,
            system: true,
            guard: true,
            profiles: BTreeSet::new(),
        }
    }
}

/// One path and what may be done with it.
///
/// `Read`, `ReadIfThere` and `Write` bring a host path into the domain. `Exec`, `Ipc` and `Protect` change what
/// may be done at a place that is already there: they name it as the *guest* sees it, in `host`,
/// and have no `guest`. [`FileGrant::guest_path`] is right for all six.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileGrant {
    /// What may be done.
    pub access: Access,
    /// The path on the host (see above for `Exec`, `Ipc`, `Protect`), absolute, not yet resolved.
    pub host: PathBuf,
    /// The path inside the domain where it differs from `host`.
    pub guest: Option<PathBuf>,
}

impl FileGrant {
    /// Whether it makes a folder the guest's root.
    pub fn is_root(&self) -> bool {
        self.access.maps_host_path() && self.guest_path() == Path::new("/")
    }

    /// The path inside the domain.
    pub fn guest_path(&self) -> &Path {
        self.guest.as_deref().unwrap_or(&self.host)
    }
}

/// What a [`FileGrant`] allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// Read and execute.
    Read,
    /// The same, and nothing where the path does not exist on the host.
    ReadIfThere,
    /// Read and write, but not execute what was written.
    Write,
    /// Keep read-only inside a writable folder, also when it does not exist yet.
    Protect,
    /// Files below this writable path may be executed too.
    Exec,
    /// Sockets and FIFOs may be created below this writable path.
    Ipc,
}

words!(Access, ValueKind::Access, {
    Read => "read",
    ReadIfThere => "read-if-there",
    Write => "write",
    Protect => "protect",
    Exec => "exec",
    Ipc => "ipc",
});

impl Access {
    /// Whether such a grant brings a host path into the domain, so that `PATH:GUEST` has a meaning.
    pub const fn maps_host_path(self) -> bool {
        matches!(self, Self::Read | Self::ReadIfThere | Self::Write)
    }
}

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvGrant {
    /// The variable's name.
    pub name: String,
    /// Its value; `None` passes the host's value on.
    pub value: Option<String>,
}

/// A device node, such as `/dev/fuse`, or the set named `pts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGrant {
    /// The node's path on the host, or the word `pts`.
    pub path: PathBuf,
}

impl DeviceGrant {
    /// Whether this is the word `pts`: a private `/dev/pts` and `/dev/ptmx`.
    pub fn is_pts(&self) -> bool {
        self.path == Path::new("pts")
    }
}

/// A named addition to the default policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Profile {
    /// The JVM.
    Java,
    /// CPython.
    Python,
    /// Node.js.
    Node,
    /// Cargo and the toolchains of rustup.
    Rust,
    /// Go's tool chain.
    Go,
    /// Maven.
    Maven,
    /// Git.
    Git,
    /// Chromium without its own sandbox.
    Chromium,
    /// Palisade itself, to run guests inside a domain.
    Palisade,
}

words!(Profile, ValueKind::Profile, {
    Java => "java",
    Python => "python",
    Node => "node",
    Rust => "rust",
    Go => "go",
    Maven => "maven",
    Git => "git",
    Chromium => "chromium",
    Palisade => "palisade",
});
