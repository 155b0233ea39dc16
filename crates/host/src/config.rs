//! What `host.toml` asks for, as one value. Pure data: reading it looks at no file but the policy files
//! and configurations that it names, and changes nothing.
//!
//! ```text
//!  host.toml ──ConfigFile::read──▶ Config   what shall serve
//!                                  files    what was read on the way: a change of these is one of host.toml
//!                                  warnings what is probably not meant
//! ```

mod admin;
mod check;
mod error;
mod file;
mod filter;
mod keys;
mod kind;
mod listener;
mod policy;
mod quotas;
mod read;
mod room;
mod route;
mod service;
mod tenancy;
mod tenant;
#[cfg(test)]
mod tests;
mod value;

pub use error::{ConfigError, ConfigProblem};
pub use file::{ConfigFile, ReadFile};
pub use quotas::{DEFAULT_WEIGHT, Quotas};
pub use read::host_schema;
pub use tenancy::{Bounds, Claim, Include, May, Share as TenantShare, Tenancy};
pub use tenant::tenant_schema;

use crate::{
    code::CodeLimitsSetting,
    kinds::{Format, Level},
    path::Ambiguities,
};
use http::{HeaderName, HeaderValue, Method};
use palisade_engine::permits::Share;
use palisade_policy::{Capability, Policy, visible};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::SocketAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a file asks for: the main one, or a tenant's, which has filters, services and routes alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Threads that serve; `None`: one for each processor that this process may use.
    pub workers: Option<NonZeroUsize>,
    /// What the server itself may do without on this machine: only [`Capability::Landlock`].
    pub allow_degraded: BTreeSet<Capability>,
    /// Where operators ask.
    pub admin: Option<Admin>,
    /// The server's own log.
    pub log: Log,
    /// How much `/metrics` shows.
    pub metrics: Metrics,
    /// Where requests come in.
    pub listeners: Vec<Listener>,
    /// Bounds of every connection and request.
    pub limits: Limits,
    /// What loaded code of filters and components may take.
    pub code: CodeLimitsSetting,
    /// Bounds of all programs together.
    pub programs: ProgramBounds,
    /// Which further files there are, each of a tenant, and what these may have.
    pub tenancy: Tenancy,
    /// Of a tenant's file: the folder below which all lies that it names.
    pub folder: Option<PathBuf>,
    /// Filters, by name. Boxed, as services are: a map has room for eleven, most tenants have one, and there are thousands.
    pub filters: BTreeMap<String, Box<Filter>>,
    /// Services, by name.
    pub services: BTreeMap<String, Box<Service>>,
    /// Which requests go through which filters to which service. The first that fits has it.
    pub routes: Vec<Route>,
}

impl Config {
    /// Reads the file's text. `source_name` is what errors call it; relative paths are joined to
    /// `base_dir`, which should be the file's folder, absolute and free of symlinks.
    ///
    /// # Errors
    /// The first thing in `text` that can't be meant, shown with its line.
    pub fn from_toml(text: &str, source_name: &str, base_dir: &Path) -> Result<Self, ConfigError> {
        let file = ConfigFile::from_text(text, source_name, base_dir, &file::read_regular_file)?;
        Ok(file.config)
    }

    /// Files and sockets that are named, of which the server reads, executes, writes, listens at or connects to each;
    /// without those of its guests' grants.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let sockets = self.listeners.iter().map(|listener| &listener.address);
        let direct = self
            .services
            .values()
            .filter_map(|service| service.direct());
        let admin = self.admin.iter().map(|admin| &admin.address);
        let sockets = sockets.chain(admin).chain(direct);
        let sockets = sockets.filter_map(|address| match address {
            Address::Unix(path) => Some(path),
            Address::Internet(_) => None,
        });
        let tls = self.tls().flat_map(|tls| [&tls.certificate, &tls.key]);
        let filters = self.filters.values();
        let filters = filters.flat_map(|filter| std::iter::once(&filter.module).chain(&filter.log));
        let services = self.services.values().flat_map(|service| service.files());
        let all = sockets.chain(tls).chain(filters).chain(services);
        all.chain(self.token_file()).chain(&self.log.path).cloned()
    }

    /// Descriptors that what is named keeps open as long as it serves: folders of files, and logs. A program has its own while it
    /// runs.
    pub(crate) fn descriptors(&self) -> u64 {
        let is_folder = |service: &&Service| matches!(service.kind, ServiceKind::Files(_));
        let folders = self
            .services
            .values()
            .map(Box::as_ref)
            .filter(is_folder)
            .count();
        let logs = self
            .filters
            .values()
            .filter(|filter| filter.log.is_some())
            .count()
            + self
                .services
                .values()
                .filter(|service| service.log.is_some())
                .count();
        (folders + logs) as u64
    }

    /// How many programs are named.
    pub(crate) fn count_programs(&self) -> usize {
        let is_program = |service: &&Service| matches!(service.kind, ServiceKind::Program(_));
        self.services
            .values()
            .map(Box::as_ref)
            .filter(is_program)
            .count()
    }

    /// Of those, keys, logs and the token.
    pub(crate) fn private_files(&self) -> impl Iterator<Item = PathBuf> {
        let keys = self.tls().map(|tls| &tls.key);
        let filters = self
            .filters
            .values()
            .filter_map(|filter| filter.log.as_ref());
        let services = self
            .services
            .values()
            .filter_map(|service| service.log.as_ref());
        keys.chain(filters)
            .chain(services)
            .chain(self.token_file())
            .chain(&self.log.path)
            .cloned()
    }

    /// The file with what everybody must know who asks at `admin`.
    pub(crate) fn token_file(&self) -> Option<&PathBuf> {
        self.admin.as_ref()?.token_file.as_ref()
    }

    fn tls(&self) -> impl Iterator<Item = &Tls> {
        self.listeners.iter().flat_map(|listener| &listener.tls)
    }

    /// Folders whose files are served, by the service's name.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (&str, &Path)> {
        let services = self.services.iter();
        services.filter_map(|(name, service)| match &service.kind {
            ServiceKind::Files(files) => Some((name.as_str(), files.root.as_path())),
            _ => None,
        })
    }
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// TCP.
    Internet(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Writes the address as the file takes it; bytes of a path that are not UTF-8 become `�`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Internet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", visible(&path.to_string_lossy())),
        }
    }
}

/// Where operators ask: for the page, figures and status, and for a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// A Unix socket or a port of the loopback; with a token any.
    pub address: Address,
    /// A file with what everybody must know who asks.
    pub token_file: Option<PathBuf>,
}

/// Where lines go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// A file, appended to; `None`: stderr.
    pub path: Option<PathBuf>,
    /// A line for each request.
    pub access: bool,
    /// A line for what happens to guests.
    pub events: bool,
    /// The least of what is written.
    pub level: Level,
    /// How lines are written.
    pub format: Format,
}

/// How much `/metrics` shows. What goes beyond is told together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Filters and services that have series of their own.
    pub guests: usize,
    /// Routes that have series of their own.
    pub routes: usize,
    /// Bytes of the metrics that filters define.
    pub filter_bytes: usize,
}

impl Default for Metrics {
    /// 200 guests, 64 routes, 192 KiB of filters' own metrics: less than a million bytes, however long the names.
    fn default() -> Self {
        Self {
            guests: 200,
            routes: 64,
            filter_bytes: 192 << 10,
        }
    }
}

/// One place where requests come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its address.
    pub address: Address,
    /// Certificates and keys, where it speaks TLS: which one a client is shown, the name that it asks for decides.
    pub tls: Vec<Tls>,
    /// Permissions of a Unix socket's file.
    pub mode: Option<u32>,
}

/// Files of a TLS listener, in PEM. Read anew when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Bounds of every connection and request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at one time, of all listeners.
    pub connections: usize,
    /// Bytes of a request's head.
    pub header_bytes: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Header fields whose names have an underscore are passed on.
    pub underscores: bool,
    /// Bytes of a request's body.
    pub body_bytes: u64,
    /// HTTP/2: requests of one connection at one time.
    pub streams: u32,
    /// Requests that one client may begin in a second; `None`: as many as it likes.
    pub client_rate: Option<u64>,
    /// How many of them may come at once after a pause; `None`: as many as in a second.
    pub client_burst: Option<u64>,
    /// From a request's first byte to the end of its head.
    pub header_time: Duration,
    /// Between two parts of a body, and for each part of an answer to be taken.
    pub body_time: Duration,
    /// From the end of the head to the first byte of the answer.
    pub answer_time: Duration,
    /// How long a connection without a request is kept.
    pub idle_time: Duration,
    /// How long requests may go on once the server is to stop.
    pub stop_time: Duration,
}

impl Default for Limits {
    /// 10,000 connections; heads of 32 KiB and 100 fields, none with an underscore; bodies of 16 MiB; 128 streams; 10 s
    /// for a head, 30 s for a part of a body, 60 s for an answer and for an idle connection, 30 s to stop.
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_bytes: 32 << 10,
            headers: 100,
            underscores: false,
            body_bytes: 16 << 20,
            streams: 128,
            client_rate: None,
            client_burst: None,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(60),
            stop_time: Duration::from_secs(30),
        }
    }
}

/// What programs may have of the machine together. Past it those rest that were used least lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramBounds {
    /// Domains alive at one time, those that start or end included.
    pub most: usize,
    /// Memory of all of them, in bytes; `None`: not counted.
    pub memory_bytes: Option<u64>,
}

impl ProgramBounds {
    /// Descriptors that the server has at most for so many programs: pipes, those of domains and connections to them.
    pub(crate) fn descriptors(&self, programs: usize) -> u64 {
        const OF_ONE: u64 = 12;
        (self.most.min(programs) as u64).saturating_mul(OF_ONE)
    }
}

impl Default for ProgramBounds {
    /// 500 at one time, whatever memory they have.
    fn default() -> Self {
        Self {
            most: 500,
            memory_bytes: None,
        }
    }
}

/// What a request finds of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// One instance for all requests of a worker.
    Kept,
    /// A new instance for each request.
    #[default]
    Fresh,
}

/// What a request gets whose filter failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// An error, and nothing behind the filter sees the request.
    #[default]
    Close,
    /// It goes on as if the filter were not there.
    Open,
}

/// How often a guest may fail before it is left alone for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultBudget {
    /// So many faults
    pub most: u32,
    /// within this time
    pub within: Duration,
    /// put it out of use for so long.
    pub rest: Duration,
}

impl Default for FaultBudget {
    /// 100 faults within a minute, 10 s of rest.
    fn default() -> Self {
        Self {
            most: 100,
            within: Duration::from_secs(60),
            rest: Duration::from_secs(10),
        }
    }
}

/// A proxy-wasm module.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// The module's file.
    pub module: PathBuf,
    /// Which of the module's filters, where it has several.
    pub root_id: String,
    /// Filters of one `vm_id` share data and queues; the filter's own name if left out.
    pub vm_id: String,
    /// What `proxy_on_configure` is given.
    pub configuration: String,
    /// What `proxy_on_vm_start` is given.
    pub vm_configuration: String,
    /// What a request gets when the filter fails.
    pub on_failure: OnFailure,
    /// What a request finds of those before it.
    pub isolation: Isolation,
    /// Its instances on each worker, where requests have instances of their own.
    pub share: Share,
    /// Bytes of a body that are held for the filter at one time.
    pub body_bytes: usize,
    /// How often it may fail.
    pub faults: FaultBudget,
    /// Percent of a worker's time that its slow callbacks may take, 1 to 100.
    pub slow_share: u32,
    /// What it may reach and use. `limits.time` is of one callback, `limits.memory` of one instance.
    pub policy: Policy,
    /// Its lines; `None`: to the server's log.
    pub log: Option<PathBuf>,
}

/// What answers requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// What it is.
    pub kind: ServiceKind,
    /// What it may reach and use.
    pub policy: Policy,
    /// How often it may fail.
    pub faults: FaultBudget,
    /// Its lines; `None`: to the server's log.
    pub log: Option<PathBuf>,
}

impl Service {
    fn direct(&self) -> Option<&Address> {
        match &self.kind {
            ServiceKind::Program(program) => program.direct.as_ref(),
            _ => None,
        }
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let (module, servers) = match &self.kind {
            ServiceKind::Component(component) => (Some(&component.component), &[][..]),
            ServiceKind::Upstream(upstream) => (None, &upstream.servers[..]),
            ServiceKind::Program(_) | ServiceKind::Files(_) => (None, &[][..]),
        };
        let sockets = servers.iter().filter_map(Server::socket);
        module.into_iter().chain(sockets).chain(&self.log)
    }
}

/// What answers requests.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceKind {
    /// A `wasi:http` component.
    Component(Component),
    /// A program behind a wall of its own.
    Program(Program),
    /// Files of a folder.
    Files(Files),
    /// Other servers.
    Upstream(Upstream),
}

/// A `wasi:http` component. `limits.time` of its policy is of one request, `limits.memory` of one instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Component {
    /// The component's file.
    pub component: PathBuf,
    /// What a request finds of those before it.
    pub isolation: Isolation,
    /// Its instances on each worker.
    pub share: Share,
}

/// A program that listens on a socket passed to it: descriptor 3, as systemd passes them (`LISTEN_FDS`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Connections of this listener are the program's own: it is handed the socket itself, and no byte
    /// passes through the server.
    pub direct: Option<Address>,
    /// A port that it binds itself, at the loopback of its domain.
    pub port: Option<u16>,
    /// Rests after so long without a request; `None`: never.
    pub idle_time: Option<Duration>,
    /// What it does then.
    pub rest: Rest,
    /// How long it may take from its start to its first answer.
    pub start_time: Duration,
    /// The path that is asked for to see whether it is well; any answer below 500 means that it is.
    pub health: Option<Health>,
    /// After an end that nobody asked for: the wait before the next start, doubled each time up to
    /// `back_off_most`.
    pub back_off: Duration,
    /// The longest such wait.
    pub back_off_most: Duration,
}

/// What a program does that nobody asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// It ends, and is started anew by the next request.
    #[default]
    Stop,
    /// It keeps its memory and runs nothing until the next request. It ends where others need its room.
    Freeze,
}

/// How a program is seen to be well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path asked for.
    pub path: String,
    /// How often.
    pub every: Duration,
    /// How long an answer may take.
    pub time: Duration,
    /// Failures in a row after which it is ended and started anew.
    pub failures: u32,
}

/// Files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The folder.
    pub root: PathBuf,
    /// What a path that ends in `/` means.
    pub index: String,
    /// Serve `NAME.br`, `NAME.zst` or `NAME.gz` in place of `NAME` to clients that take them.
    pub precompressed: bool,
    /// The field `cache-control`.
    pub cache_control: Option<HeaderValue>,
}

/// Other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`; taken in turn.
    pub servers: Vec<Server>,
    /// Connections without a request that each worker keeps for each server.
    pub idle_connections: usize,
    /// How long a connection may take to be made.
    pub connect_time: Duration,
    /// From a request's end to its answer's head.
    pub answer_time: Duration,
    /// How often a request that was not answered is sent again, where that is harmless.
    pub retries: u32,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// HTTP over TCP, with TLS or without.
    Internet {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// Whether it speaks TLS.
        tls: bool,
    },
    /// HTTP over a Unix socket.
    Unix(PathBuf),
    /// The same of a tenant: no part of its path may be a link, for the tenant's guests may write there.
    UnixWithoutLinks(PathBuf),
}

impl Server {
    /// Where its socket lies.
    pub(crate) fn socket(&self) -> Option<&PathBuf> {
        match self {
            Self::Unix(path) | Self::UnixWithoutLinks(path) => Some(path),
            Self::Internet { .. } => None,
        }
    }

    /// The same server for a tenant.
    pub(super) fn without_links(self) -> Self {
        match self {
            Self::Unix(path) => Self::UnixWithoutLinks(path),
            other => other,
        }
    }
}

/// Which requests go through which filters to which service.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// What the route is called in logs and metrics: its `name`, else its place, `route-0`.
    pub name: String,
    /// The host asked for, without port: a name, or `*.NAME`; `None`: any.
    pub host: Option<String>,
    /// How the path begins, whole segments: `/api` fits `/api` and `/api/x`, not `/apis`.
    pub path: String,
    /// Methods; none: any.
    pub methods: Vec<Method>,
    /// Header fields that there must be, with this value if one is given.
    pub headers: Vec<(HeaderName, Option<HeaderValue>)>,
    /// Take `path` away before filters and service see the request.
    pub strip: bool,
    /// What of paths this route takes though other readers could take it for something else; none: that is refused.
    pub ambiguous_paths: Ambiguities,
    /// Filters, in the order in which they see requests; answers pass them the other way.
    pub filters: Vec<String>,
    /// The service.
    pub service: String,
}
