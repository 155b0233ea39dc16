//! Grants: one permission each.

mod env;
mod env_file;
mod file;
mod network;
mod pattern;

pub use env::EnvGrant;
pub use env_file::{EnvFileError, EnvFileProblem, parse_env_file};
pub use file::{Access, DeviceGrant, FileGrant};
pub use network::{
    ConnectGrant, HostName, HostPattern, IpNetwork, ListenAddress, ListenGrant, Ports, Transport,
    UnixGrant,
};
pub use pattern::Pattern;

use std::{collections::BTreeSet, path::PathBuf};

use crate::value::words;

/// All permissions of a policy.
///
/// The default is the read-only system view and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// Files and folders. Order carries no meaning: the deeper path wins.
    pub files: Vec<FileGrant>,
    /// Environment variables. Of two with the same name the last wins.
    pub env: Vec<EnvGrant>,
    /// Files of variables, which whoever runs the guest reads first ([`parse_env_file`]) and takes out:
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

words!(Profile, "profile", {
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
