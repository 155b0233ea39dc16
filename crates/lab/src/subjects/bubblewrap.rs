//! bubblewrap, with every namespace it knows, a session of its own and no capabilities.

use super::{Subject, on_path, version_of, words_of};
use palisade_policy::{Access, FileGrant, Policy};
use palisade_wall::Command;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

/// `--cap-drop ALL` is the default for an ordinary user and asked for here for root's sake.
const WALL: [&str; 11] = [
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

/// Links into `/usr` where this host has merged it, folders elsewhere.
const BESIDE_USR: [&str; 4] = ["/bin", "/sbin", "/lib", "/lib64"];

/// A `bwrap` executable.
#[derive(Clone, Debug)]
pub struct Bubblewrap {
    program: PathBuf,
}

impl Bubblewrap {
    /// What it leaves out of what palisade holds.
    pub const LACKS: &str = "no system-call filter, no Landlock, no limits";
    /// How to get it.
    pub const INSTALL: &str = "apt-get install bubblewrap";

    /// The executable at `program`.
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// The one in `PATH`.
    pub fn find() -> Option<Self> {
        on_path("bwrap").map(Self::new)
    }

    /// What it says its version is.
    pub fn version(&self) -> Option<String> {
        version_of(&self.program)
    }
}

impl Subject for Bubblewrap {
    fn name(&self) -> &'static str {
        "bubblewrap"
    }

    fn command_line(&self, policy: &Policy, command: &Command) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.program.clone().into()];
        words.extend(WALL.map(OsString::from));
        if policy.grants.system {
            words.extend(system_view());
        }
        words.extend(policy.grants.files.iter().flat_map(bind));
        words.push("--".into());
        words.extend(words_of(command));
        words
    }
}

fn system_view() -> Vec<OsString> {
    let mut words: Vec<OsString> = ["--ro-bind", "/usr", "/usr", "--ro-bind-try", "/etc", "/etc"]
        .map(Into::into)
        .into();
    for folder in BESIDE_USR {
        match fs::read_link(folder) {
            Ok(target) => words.extend(["--symlink".into(), target.into(), folder.into()]),
            Err(_) => words.extend(["--ro-bind-try", folder, folder].map(Into::into)),
        }
    }
    words
}

fn bind(grant: &FileGrant) -> Vec<OsString> {
    let words = |flag: &str, host: &Path| vec![flag.into(), host.into(), grant.guest_path().into()];
    match grant.access {
        Access::Read => words("--ro-bind", &grant.host),
        Access::Write => words("--bind", &grant.host),
        // Nothing to mount over a path that does not exist, and no executable or IPC rule to ask for.
        Access::Protect | Access::Exec | Access::Ipc => Vec::new(),
    }
}
