//! Grants and limits as flags.

use crate::read;
use anyhow::Context;
use clap::Args;
use palisade_policy::{
    Access, Capability, ConnectGrant, DeviceGrant, EnvGrant, FileGrant, Limits, ListenGrant,
    Policy, PolicyLayer, Profile, WallKind, value,
};
use std::{
    cell::LazyCell,
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// A policy file is written by hand.
const MOST_POLICY_BYTES: u64 = 1 << 20;

// Flags that make a policy.
#[derive(Debug, Default, Args)]
pub struct PolicyArgs {
    #[command(flatten)]
    pub grants: GrantArgs,
    /// The wall; without it a WebAssembly file gets `wasm`, and every other program `process`
    #[arg(long, value_name = "process|wasm", help_heading = "Grants")]
    wall: Option<WallKind>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Wall-clock time, as 10s
    #[arg(long, value_name = "TIME", help_heading = "Limits", value_parser = value::parse_duration)]
    time: Option<Duration>,
}

// Those that allow something, and the file that may say all.
#[derive(Debug, Default, Args)]
pub struct GrantArgs {
    /// Take grants and limits from a TOML file; flags add to it
    #[arg(short = 'p', long, value_name = "FILE", help_heading = "Grants")]
    pub policy: Option<PathBuf>,
    /// Let the guest read and execute a file or folder
    #[arg(
        short = 'r',
        long,
        value_name = "PATH[:GUEST]",
        help_heading = "Grants"
    )]
    read: Vec<OsString>,
    /// The same, and nothing if it does not exist
    #[arg(long, value_name = "PATH[:GUEST]", help_heading = "Grants")]
    read_if_there: Vec<OsString>,
    /// Let the guest read and write a file or folder
    #[arg(
        short = 'w',
        long,
        value_name = "PATH[:GUEST]",
        help_heading = "Grants"
    )]
    write: Vec<OsString>,
    /// Let the guest execute what it writes below a writable path
    #[arg(long, value_name = "PATH", help_heading = "Grants")]
    exec: Vec<OsString>,
    /// Let the guest make sockets and FIFOs below a writable path
    #[arg(long, value_name = "PATH", help_heading = "Grants")]
    ipc: Vec<OsString>,
    /// Keep a path inside a writable folder as it is, even if it does not exist yet
    #[arg(long, value_name = "PATH", help_heading = "Grants")]
    protect: Vec<OsString>,
    /// Set a variable, or pass the host's on; a VALUE typed here shows in the list of processes
    #[arg(
        short = 'e',
        long,
        value_name = "NAME[=VALUE]",
        help_heading = "Grants"
    )]
    env: Vec<EnvGrant>,
    /// Set the variables of a file, with NAME=VALUE in each line
    #[arg(long, value_name = "FILE", help_heading = "Grants")]
    env_file: Vec<OsString>,
    /// Start in this folder of the domain
    #[arg(long, value_name = "DIR", help_heading = "Grants")]
    cwd: Option<OsString>,
    /// Let the guest use a device node, or `pts` for terminals of its own
    #[arg(long, value_name = "PATH|pts", help_heading = "Grants")]
    device: Vec<DeviceGrant>,
    /// Let the guest connect to a host (also udp://, unix:PATH for a socket file, internet for all that is public)
    #[arg(
        short = 'c',
        long,
        value_name = "tcp://HOST:PORT",
        help_heading = "Grants"
    )]
    connect: Vec<OsString>,
    /// Let the guest listen at an address of the host's (also udp://)
    #[arg(long, value_name = "tcp://ADDR:PORT", help_heading = "Grants")]
    listen: Vec<ListenGrant>,
    /// Hide the system's programs and libraries (for static programs)
    #[arg(long, help_heading = "Grants")]
    no_system: bool,
    /// Leave git's hooks and settings in writable checkouts to the guest
    #[arg(long, help_heading = "Grants")]
    no_guard: bool,
    /// Add what a runtime needs: java, python, node, rust, go, maven, git, chromium, palisade
    #[arg(long, value_name = "NAME", help_heading = "Grants")]
    profile: Vec<Profile>,
}

// Those that bound something; `palisade cost` has a `--time` of its own.
#[derive(Debug, Default, Args)]
pub struct LimitArgs {
    /// Memory of the whole domain, as 512M
    #[arg(long, value_name = "SIZE", help_heading = "Limits", value_parser = value::parse_size)]
    memory: Option<u64>,
    /// Processors, as 0.5
    #[arg(long, value_name = "CORES", help_heading = "Limits", value_parser = value::parse_cores)]
    cpu: Option<f64>,
    /// Processes and threads at one time
    #[arg(long, value_name = "N", help_heading = "Limits", value_parser = value::parse_count::<u32>)]
    processes: Option<u32>,
    /// Open files of each process
    #[arg(long, value_name = "N", help_heading = "Limits", value_parser = value::parse_count::<u64>)]
    files: Option<u64>,
    /// Largest file
    #[arg(long, value_name = "SIZE", help_heading = "Limits", value_parser = value::parse_size)]
    file_size: Option<u64>,
    /// Private /tmp and /dev/shm together
    #[arg(long, value_name = "SIZE", help_heading = "Limits", value_parser = value::parse_size)]
    tmp_size: Option<u64>,
    /// Processor time of the whole domain
    #[arg(long, value_name = "TIME", help_heading = "Limits", value_parser = value::parse_duration)]
    cpu_time: Option<Duration>,
    /// Bytes of stdout and stderr together
    #[arg(long, value_name = "SIZE", help_heading = "Limits", value_parser = value::parse_size)]
    output: Option<u64>,
    /// Go on where this machine can enforce only less of these capabilities
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        help_heading = "Limits"
    )]
    allow_degraded: Vec<Capability>,
}

impl PolicyArgs {
    /// The policy of file and flags together.
    pub fn resolve(&self) -> anyhow::Result<Policy> {
        let mut flags = self.grants.layer()?;
        flags.wall = self.wall;
        self.limits.add_to(&mut flags);
        flags.limits.time = self.time;
        self.grants.over_file(flags)
    }
}

impl GrantArgs {
    /// The policy of file, grants and limits together.
    pub fn resolve_with(&self, limits: &LimitArgs) -> anyhow::Result<Policy> {
        let mut flags = self.layer()?;
        limits.add_to(&mut flags);
        self.over_file(flags)
    }

    fn over_file(&self, flags: PolicyLayer) -> anyhow::Result<Policy> {
        let file = self.policy.as_deref().map(read_policy_file).transpose()?;
        Ok(Policy::from_layers(file.into_iter().chain([flags])))
    }

    fn layer(&self) -> anyhow::Result<PolicyLayer> {
        let by_access = [
            (Access::Read, &self.read),
            (Access::ReadIfThere, &self.read_if_there),
            (Access::Write, &self.write),
            (Access::Exec, &self.exec),
            (Access::Ipc, &self.ipc),
            (Access::Protect, &self.protect),
        ];
        // The folder palisade runs in may be gone: asked for only where a path starts there.
        let here = LazyCell::new(|| {
            std::env::current_dir().context(
                "host: cannot tell the working directory, which may be removed: write absolute paths, or cd \
                 elsewhere",
            )
        });
        let base = |path: &OsStr| match path.as_bytes() {
            [b'/', ..] => Ok(Path::new("/")),
            _ => here
                .as_deref()
                .map_err(|error| anyhow::anyhow!("{error:#}")),
        };
        let typed = by_access
            .into_iter()
            .flat_map(|(access, paths)| paths.iter().map(move |path| (access, path)));
        let mut files = Vec::new();
        for (access, path) in typed {
            let grant = FileGrant::parse(access, path, base(path)?);
            files.push(grant.with_context(|| format!("policy: --{access}"))?);
        }
        let mut connect = Vec::new();
        for target in &self.connect {
            let grant = parse_connect(target, base);
            connect.push(grant.context("policy: --connect")?);
        }
        let cwd = match &self.cwd {
            Some(cwd) => Some(value::parse_cwd(cwd, base(cwd)?).context("policy: --cwd")?),
            None => None,
        };
        let mut env_files = Vec::new();
        for file in &self.env_file {
            env_files.push(
                value::parse_path(file, base(file.as_os_str())?).context("policy: --env-file")?,
            );
        }
        Ok(PolicyLayer {
            wall: None,
            profiles: self.profile.iter().copied().collect(),
            system: self.no_system.then_some(false),
            guard: self.no_guard.then_some(false),
            cwd,
            files,
            env: self.env.clone(),
            env_files,
            devices: self.device.clone(),
            connect,
            listen: self.listen.clone(),
            limits: Limits::default(),
            allow_degraded: BTreeSet::new(),
        })
    }
}

impl LimitArgs {
    fn add_to(&self, flags: &mut PolicyLayer) {
        flags.limits = self.limits();
        flags.allow_degraded = self.allow_degraded.iter().copied().collect();
    }

    fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory,
            cpu_cores: self.cpu,
            processes: self.processes,
            files: self.files,
            file_size_bytes: self.file_size,
            tmp_size_bytes: self.tmp_size,
            time: None,
            cpu_time: self.cpu_time,
            output_bytes: self.output,
        }
    }
}

/// Only a socket file's path may start at the working directory.
fn parse_connect<'a>(
    target: &OsStr,
    base: impl Fn(&OsStr) -> anyhow::Result<&'a Path>,
) -> anyhow::Result<ConnectGrant> {
    let base = match target.as_bytes().strip_prefix(b"unix:") {
        Some(path) => base(OsStr::from_bytes(path))?,
        None => Path::new("/"),
    };
    Ok(ConnectGrant::parse(target, base)?)
}

fn read_policy_file(path: &Path) -> anyhow::Result<PolicyLayer> {
    let cannot_read = || format!("policy: cannot read {}", path.display());
    let bytes = read::read_regular_file(path, MOST_POLICY_BYTES).with_context(cannot_read)?;
    let text = read::text_of(bytes).with_context(cannot_read)?;
    let canonical = fs::canonicalize(path).with_context(cannot_read)?;
    let base = canonical.parent().unwrap_or(Path::new("/"));
    PolicyLayer::from_toml(&text, &path.to_string_lossy(), base).map_err(|error| {
        let text = format!("policy: {error}");
        anyhow::Error::new(error).context(text)
    })
}
