//! What is kept of a container between two commands: a folder for each, with its state and its configuration.
//!
//! The folder is the name's only holder: who makes it has the name. What a container does is not kept but asked for
//! ([`palisade_process::container::Identity::status`]).

use crate::{cgroup::Groups, cli::Global, policy::Kept, surroundings::is_initial_root};
use anyhow::{Context, bail};
use oci_spec::runtime::{Hooks, Spec};
use palisade_process::container::{Identity, Status};
use rustix::{fs::FlockOperation, io::Errno};
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::PathBuf,
};

/// Which version of the specification this is an implementation of.
pub(crate) const VERSION: &str = "1.2.1";

/// What the container is made by.
const CONFIG: &str = "config.json";

/// What a supervisor has denied.
pub(crate) const DENIALS: &str = "denials.jsonl";

/// Most bytes of a name: a file's.
const MOST_ID_BYTES: usize = 255;

/// What is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) id: String,
    pub(crate) bundle: PathBuf,
    /// When it was created (RFC 3339).
    pub(crate) created: String,
    /// Its first process; none while it is made.
    pub(crate) init: Option<Identity>,
    pub(crate) keeper: Option<Identity>,
    pub(crate) groups: Groups,
    /// Its files.
    pub(crate) rootfs: PathBuf,
    /// Its network is the host's.
    pub(crate) has_hosts_network: bool,
    /// Its program is WebAssembly, so that it has no `/proc`.
    #[serde(default)]
    pub(crate) runs_wasm: bool,
    pub(crate) annotations: HashMap<String, String>,
    /// What each of its processes gets by palisade's own.
    #[serde(default)]
    pub(crate) kept: Kept,
}

/// The folder of one container.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

/// As long as it is there, nobody else creates or deletes the container.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "closing it lets go of the lock")] File);

/// Where all of them lie.
pub(crate) fn root(global: &Global) -> PathBuf {
    if let Some(root) = &global.root {
        return root.clone();
    }
    let is_root = is_initial_root();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !is_root);
    match runtime {
        Some(runtime) => PathBuf::from(runtime).join("palisade-oci"),
        None => "/run/palisade-oci".into(),
    }
}

/// A name leads to no other folder than its own.
fn check(id: &str) -> anyhow::Result<()> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-.".contains(&byte);
    if id.is_empty()
        || id.len() > MOST_ID_BYTES
        || !id.bytes().all(is_fine)
        || matches!(id, "." | "..")
    {
        bail!("policy: invalid container ID {id:?}: letters, digits and _+-. only");
    }
    Ok(())
}

impl Folder {
    /// Where one of this name lies, or would.
    pub(crate) fn path(global: &Global, id: &str) -> anyhow::Result<PathBuf> {
        check(id)?;
        Ok(root(global).join(id))
    }

    /// That of a container which is there.
    pub(crate) fn of(global: &Global, id: &str) -> anyhow::Result<Self> {
        check(id)?;
        let folder = root(global).join(id);
        match folder.is_dir() {
            true => Ok(Self(folder)),
            false => bail!("policy: container {id:?} does not exist"),
        }
    }

    /// A new one.
    pub(crate) fn make(global: &Global, id: &str) -> anyhow::Result<Self> {
        check(id)?;
        let root = root(global);
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
            .recursive(true)
            .create(&root)
            .with_context(|| format!("host: cannot make {root:?}; --root names another folder"))?;
        let folder = root.join(id);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => Ok(Self(folder)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                bail!("policy: container with id exists: {id}")
            }
            Err(error) => Err(error).with_context(|| format!("host: cannot make {folder:?}")),
        }
    }

    fn state_file(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub(crate) fn write(&self, state: &State) -> anyhow::Result<()> {
        let text = serde_json::to_vec(state)?;
        // Whoever reads it meanwhile gets the old one or the new.
        let new = self.0.join("state.new");
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, self.state_file()))
            .with_context(|| format!("host: cannot write {:?}", self.state_file()))
    }

    pub(crate) fn read(&self) -> anyhow::Result<State> {
        let path = self.state_file();
        let text = fs::read(&path).with_context(|| format!("host: cannot read {path:?}"))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("host: {path:?} was not written by this version"))
    }

    /// Keeps the configuration as it was when the container was created.
    pub(crate) fn keep_config(&self, config: &[u8]) -> anyhow::Result<()> {
        let path = self.0.join(CONFIG);
        fs::write(&path, config).with_context(|| format!("host: cannot write {path:?}"))
    }

    pub(crate) fn config(&self) -> anyhow::Result<Spec> {
        // Its warnings were told when it was created.
        crate::bundle::known(&self.text_of_config()?, CONFIG, drop)
    }

    /// Of the configuration only the hooks: most of the time that it takes to read goes into the rest.
    pub(crate) fn hooks(&self) -> anyhow::Result<Hooks> {
        #[derive(Deserialize)]
        struct OfHooks {
            hooks: Option<Hooks>,
        }
        let config: OfHooks = serde_json::from_slice(&self.text_of_config()?)?;
        Ok(config.hooks.unwrap_or_default())
    }

    fn text_of_config(&self) -> anyhow::Result<Vec<u8>> {
        let path = self.0.join(CONFIG);
        fs::read(&path).with_context(|| format!("host: cannot read {path:?}"))
    }

    /// A file of its supervisor's, new.
    pub(crate) fn new_file(&self, name: &str, text: &str, mode: u32) -> anyhow::Result<File> {
        let path = self.0.join(name);
        let made = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path);
        made.and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file))
            .with_context(|| format!("host: cannot write {path:?}"))
    }

    /// What its supervisor has denied, a line of JSON each.
    pub(crate) fn denials(&self) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(self.0.join(DENIALS)).unwrap_or_default();
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Held by whoever creates the container, for as long as that takes, and by who deletes it.
    pub(crate) fn lock(&self) -> anyhow::Result<Lock> {
        self.lock_by(FlockOperation::LockExclusive)
    }

    /// The same, unless somebody has it.
    pub(crate) fn try_lock(&self) -> anyhow::Result<Lock> {
        self.lock_by(FlockOperation::NonBlockingLockExclusive)
    }

    fn lock_by(&self, how: FlockOperation) -> anyhow::Result<Lock> {
        let folder =
            File::open(&self.0).with_context(|| format!("host: cannot open {:?}", self.0))?;
        match rustix::fs::flock(&folder, how) {
            Err(Errno::WOULDBLOCK) => bail!("policy: the container is being created or deleted"),
            locked => locked.with_context(|| format!("host: cannot lock {:?}", self.0))?,
        }
        // Whoever had it before may have removed the folder.
        let (held, there) = (folder.metadata()?, fs::metadata(&self.0));
        match there {
            Ok(there) if there.ino() == held.ino() && there.dev() == held.dev() => Ok(Lock(folder)),
            _ => bail!("policy: the container does not exist any more"),
        }
    }

    pub(crate) fn remove(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.0).with_context(|| format!("host: cannot remove {:?}", self.0))
    }
}

/// All that can be read, by name.
pub(crate) fn all(global: &Global) -> anyhow::Result<Vec<State>> {
    let entries = match fs::read_dir(root(global)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let folders = entries.flatten().map(|entry| Folder(entry.path()));
    // One that is being made or removed has none.
    let mut states: Vec<State> = folders.filter_map(|folder| folder.read().ok()).collect();
    states.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(states)
}

impl State {
    pub(crate) fn status(&self) -> Status {
        self.init.map_or(Status::Stopped, |init| init.status())
    }

    /// The word of the specification, and runc's for what is stopped where it is.
    pub(crate) fn status_word(&self) -> &'static str {
        match self.status() {
            Status::Created => "created",
            Status::Running if self.groups.is_frozen() => "paused",
            Status::Running => "running",
            Status::Stopped if self.init.is_none() => "creating",
            Status::Stopped => "stopped",
        }
    }

    /// Its first process, if it has not ended.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.init.filter(Identity::runs).map(|init| init.pid)
    }

    /// What the specification calls the state.
    pub(crate) fn document(&self, status: &str, pid: Option<u32>) -> serde_json::Value {
        serde_json::json!({
            "ociVersion": VERSION,
            "id": self.id,
            "status": status,
            "pid": pid.unwrap_or(0),
            "bundle": self.bundle,
            "rootfs": self.rootfs,
            "created": self.created,
            "owner": "",
            "annotations": self.annotations,
        })
    }
}
