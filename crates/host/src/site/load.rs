//! From a configuration to what can serve: every module compiled and loaded, every folder looked at.
//!
//! Nothing here changes what serves now. A configuration that can't be loaded is an error, and that is all.

use super::{Generation, programs::load_program};
use crate::{
    budget::Budget,
    component::{self, ComponentError},
    config::{self, Config, Server, ServiceKind},
    figures::Registry,
    files::{Files, FilesError, Served},
    filters,
    kinds::{GuestKind, Level},
    log::{Line, Log, LogError},
    program::{self, Program, ProgramError, Supervisor},
    stamp::Stamp,
    upstream,
};
use bytes::Bytes;
use palisade_engine::{
    guest::{self, Engine, Limits},
    places::Share,
};
use palisade_filter::{Bounds, Filter, Settings, Shared};
use palisade_network::{NetworkError, Resolve, SystemResolver};
use palisade_policy::{Capability, ConnectGrant, HostPattern, Policy, Transport};
use palisade_process::{
    Machine, ThisHost,
    plan::{PlanError, Relied, find_changeable},
};
use palisade_wasm::{
    cache::Cache,
    code::{self, Code, Compiler},
    compile::Purpose,
    launch::StartError,
    module::{Module, ModuleError},
    programs::Programs,
};
use std::{
    collections::BTreeMap,
    net::IpAddr,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Time of one callback of a filter whose policy says nothing.
const CALLBACK_TIME: Duration = Duration::from_millis(100);
/// Memory of one instance of a filter whose policy says nothing, in bytes.
const FILTER_BYTES: usize = 64 << 20;

/// A configuration can't be served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum LoadError {
    #[error("{guest}: {source}")]
    Module { guest: String, source: ModuleError },
    #[error("{guest}: policy: {} cannot be read: {source}; name a file that is there", path.display())]
    Unreadable {
        guest: String,
        path: PathBuf,
        source: rustix::io::Errno,
    },
    #[error("{guest}: guest: {} is no WebAssembly; name a module or component", path.display())]
    NoModule { guest: String, path: PathBuf },
    #[error(
        "{guest}: policy: it could change {}, which the server reads or runs again outside the wall: keep it out of what \
         is granted for writing, or protect it",
        path.display()
    )]
    ReliedOn { guest: String, path: PathBuf },
    #[error(
        "{guest}: policy: it could put another folder or a link in the place of {}, which {user} uses outside the wall: \
         grant that folder itself for writing, keep it out of what is granted, or protect it",
        path.display()
    )]
    Movable {
        guest: String,
        path: PathBuf,
        user: String,
    },
    #[error(
        "{guest}: policy: the folder {} has {} in it, which is the server's own: serve a folder without it",
        root.display(), path.display()
    )]
    Served {
        guest: String,
        root: PathBuf,
        path: PathBuf,
    },
    #[error("{guest}: {source}")]
    Grants { guest: String, source: PlanError },
    #[error("{guest}: {source}")]
    Compile { guest: String, source: StartError },
    #[error("{guest}: {source}")]
    Program {
        guest: String,
        source: guest::LoadError,
    },
    #[error("{guest}: {source}")]
    Trial {
        guest: String,
        source: filters::trial::TrialError,
    },
    #[error("{guest}: {source}")]
    Network { guest: String, source: NetworkError },
    #[error("{guest}: {source}")]
    Filter {
        guest: String,
        source: palisade_filter::LoadError,
    },
    #[error("{guest}: {source}")]
    Files { guest: String, source: FilesError },
    #[error(
        "host: this kernel has no Landlock, which holds those who read what is served to the folders they serve: \
         `allow-degraded = [\"landlock\"]` at the top of the file goes on without"
    )]
    NoLandlock,
    #[error("{guest}: {source}")]
    Service { guest: String, source: ProgramError },
    #[error("{guest}: {source}")]
    Component {
        guest: String,
        source: ComponentError,
    },
    #[error(transparent)]
    Log(#[from] LogError),
}

impl LoadError {
    pub(super) fn of_service(name: &str, source: ProgramError) -> Self {
        Self::Service {
            guest: format!("service {name}"),
            source,
        }
    }
}

/// What loading needs beside the configuration. One for the life of the server.
#[derive(Debug)]
pub struct Tools {
    /// Where the compiler lies.
    pub programs: Programs,
    /// What this machine offers to domains.
    pub machine: Machine,
    /// Where compiled code is kept; `None`: where the user's caches are.
    pub caches: Option<PathBuf>,
    /// How many threads serve.
    pub workers: NonZeroUsize,
    /// Where filters' instances live.
    pub engine: Engine,
    /// What filters share.
    pub shared: Arc<Shared>,
    /// What starts and ends programs.
    pub supervisor: Supervisor,
    /// The figures of all guests.
    pub registry: Arc<Registry>,
    /// The server's log.
    pub log: Log,
}

impl Tools {
    /// What one guest may have on each worker of a pool of so many: half of the pool on all of them together, so that no
    /// guest and none of its clients takes the whole.
    pub(super) fn bounded(&self, share: Share, instances: u32) -> Share {
        let most = instances as usize / 2 / self.workers;
        Share {
            instances: share.instances.min(most.max(1)),
            ..share
        }
    }
}

/// A service, as far as all workers share it.
#[derive(Debug)]
pub(super) struct LoadedService {
    pub(super) shared: Part,
    pub(super) log: Log,
}

/// What of a service all workers have in common.
#[derive(Debug)]
pub(super) enum Part {
    Program(Arc<Program>),
    Component(Arc<component::Loaded>),
    /// Each worker opens the folder, and makes the connections, itself.
    Nothing,
}

/// Which file stood behind each name when it was loaded.
pub(super) type Stamps = BTreeMap<PathBuf, Stamp>;

/// Loads a configuration that was read from these files. What `previous` has loaded of the same file with the same settings is taken over.
///
/// # Errors
///
/// The first thing that can't be loaded.
pub fn load(
    config: Config,
    files: Vec<PathBuf>,
    previous: Option<&Generation>,
    tools: &Tools,
) -> Result<Generation, LoadError> {
    let config = Arc::new(config);
    let served = open_served(&config, files, tools)?;
    let mut stamps = Stamps::new();
    let mut filters = BTreeMap::new();
    for (name, filter) in &config.filters {
        let stamp = Stamp::of(&filter.module);
        let loaded = match kept_filter(previous, name, &config, stamp) {
            Some(loaded) => loaded,
            None => Arc::new(load_filter(name, filter, &config, tools)?),
        };
        stamps.extend(stamp.map(|stamp| (filter.module.clone(), stamp)));
        filters.insert(name.clone(), loaded);
    }
    let mut services = BTreeMap::new();
    for (name, service) in &config.services {
        let kept = kept_service(previous, name, service);
        let loaded = match &service.kind {
            ServiceKind::Component(component) => {
                let stamp = Stamp::of(&component.component);
                let same = kept.filter(|_| is_same_component(previous, name, service, stamp));
                stamps.extend(stamp.map(|stamp| (component.component.clone(), stamp)));
                load_component(name, component, service, same, tools)?
            }
            _ => load_service(name, service, kept, served.as_ref(), tools)?,
        };
        services.insert(name.clone(), loaded);
    }
    Ok(Generation {
        number: previous.map_or(1, |previous| previous.number + 1),
        log: tools.log.clone(),
        registry: Arc::clone(&tools.registry),
        config,
        filters,
        services,
        served,
        stamps,
    })
}

/// Opens the folders that are served, and refuses what may not be served and guests that could lead the server
/// elsewhere; the same again whenever a folder's path leads to another one.
fn open_served(
    config: &Arc<Config>,
    files: Vec<PathBuf>,
    tools: &Tools,
) -> Result<Option<Arc<Served>>, LoadError> {
    let own = files.iter().cloned().chain(config.private_files());
    let own: Vec<_> = own.collect();
    let used = relied_on(config, files, tools);
    let check = {
        let config = Arc::clone(config);
        move || refuse_served(&config, &own).and_then(|()| refuse_reach(&config, &used))
    };
    let roots: Vec<_> = config.roots().map(|(_, root)| root.to_owned()).collect();
    if roots.is_empty() {
        return check().map(|()| None);
    }
    let landlock_abi = tools.machine.landlock_abi;
    if landlock_abi.is_none() && !config.allow_degraded.contains(&Capability::Landlock) {
        return Err(LoadError::NoLandlock);
    }
    let log = tools.log.clone();
    let tell = move |reason: &str| {
        let line = Line::new(Level::Error, "the folders stay as they were");
        log.write(line.with("error", reason));
    };
    let again = check.clone();
    let again = move || again().map_err(|error| error.to_string());
    // Opened before they are checked: what is put in their place afterwards is not read.
    let served = Served::open(
        roots.into_iter(),
        landlock_abi,
        Box::new(again),
        Box::new(tell),
    );
    let served = served.map_err(|source| LoadError::Files {
        guest: guest_of_folder(config, &source),
        source,
    })?;
    check()?;
    Ok(Some(served))
}

/// Whose folder can't be opened.
fn guest_of_folder(config: &Config, error: &FilesError) -> String {
    let named = match error {
        FilesError::Root { path, .. } => config.roots().find(|(_, root)| root == path),
        _ => None,
    };
    named.map_or_else(|| "files".into(), |(name, _)| guest_of_service(name))
}

/// What nobody may ask the server for: what it was made from, its keys and its logs.
fn refuse_served(config: &Config, own: &[PathBuf]) -> Result<(), LoadError> {
    for (name, root) in config.roots() {
        // One that is not there is told about elsewhere.
        let Ok(folder) = rustix::fs::stat(root) else {
            continue;
        };
        if let Some(path) = own.iter().find(|path| lies_below(path, &folder)) {
            return Err(LoadError::Served {
                guest: guest_of_service(name),
                root: root.into(),
                path: path.clone(),
            });
        }
    }
    Ok(())
}

/// Whether a file, which may be yet to be made, lies below a folder, by whatever path that was named.
fn lies_below(path: &Path, folder: &rustix::fs::Stat) -> bool {
    let Some(path) = canonical(path) else {
        return false;
    };
    let is_folder = |above: &Path| {
        let above = rustix::fs::stat(above);
        above.is_ok_and(|above| (above.st_dev, above.st_ino) == (folder.st_dev, folder.st_ino))
    };
    path.ancestors().skip(1).any(is_folder)
}

/// A path without links, also of a file that is yet to be made.
fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}

/// A path that is used outside the wall while guests run, and by whom.
#[derive(Clone)]
struct Used {
    relied: Relied,
    by: String,
}

/// What the server uses: what it was made from, what it looks names up, checks certificates, compiles and makes
/// sockets with, where it serves, listens, connects and writes; and what it opens for its guests.
fn relied_on(config: &Config, mut files: Vec<PathBuf>, tools: &Tools) -> Vec<Used> {
    let Programs { worker, compiler } = &tools.programs;
    files.extend([worker.clone(), compiler.clone()]);
    files.extend(SystemResolver::default().files());
    files.extend(upstream::files_of_roots());
    files.extend(program::places_of_doors());
    // Without a cache nothing of it can be written to.
    let cache = code::open_cache(tools.caches.as_deref());
    files.extend(cache.iter().flat_map(Cache::paths));
    files.extend(config.files());
    let contents = files.into_iter().map(Relied::Content);
    let roots = config.roots();
    let roots = roots.map(|(_, root)| Relied::Place(root.into()));
    let by_server = contents.chain(roots).map(|relied| Used {
        relied,
        by: "the server".into(),
    });
    let granted = config.services.iter().flat_map(|(name, service)| {
        granted_paths(&service.policy).map(move |path| Used {
            relied: Relied::Place(path.into()),
            by: guest_of_service(name),
        })
    });
    by_server.chain(granted).collect()
}

/// Where the host's files are that a guest is given: opened when it starts, and started again and again.
fn granted_paths(policy: &Policy) -> impl Iterator<Item = &Path> {
    let grants = &policy.grants;
    let files = grants
        .files
        .iter()
        .filter(|grant| grant.access.maps_host_path());
    let sockets = grants.connect.iter().filter_map(|grant| match grant {
        ConnectGrant::Unix(socket) => Some(socket.host.as_path()),
        _ => None,
    });
    files.map(|grant| grant.host.as_path()).chain(sockets)
}

fn guest_of_service(name: &str) -> String {
    format!("service {name}")
}

/// A guest that could change what the server relies on would choose its own policy, read what it likes, or run outside
/// the wall; and what another guest is given, together with that one. Its own grants hold each other in place.
fn refuse_reach(config: &Config, used: &[Used]) -> Result<(), LoadError> {
    let has_files =
        |kind: &ServiceKind| matches!(kind, ServiceKind::Program(_) | ServiceKind::Component(_));
    for (name, service) in &config.services {
        if !has_files(&service.kind) {
            continue;
        }
        let guest = guest_of_service(name);
        let by_others = used.iter().filter(|used| used.by != guest);
        let relied = by_others.map(|used| used.relied.clone());
        let found = find_changeable(&service.policy, relied, &ThisHost);
        let found = found.map_err(|source| LoadError::Grants {
            guest: guest.clone(),
            source,
        })?;
        let Some(found) = found else { continue };
        let user = used
            .iter()
            .find(|used| used.relied == found && used.by != guest);
        return Err(refusal(guest, found, user));
    }
    Ok(())
}

fn refusal(guest: String, relied: Relied, user: Option<&Used>) -> LoadError {
    match relied {
        Relied::Content(path) => LoadError::ReliedOn { guest, path },
        Relied::Place(path) => LoadError::Movable {
            guest,
            path,
            user: user.map_or_else(String::new, |used| used.by.clone()),
        },
    }
}

/// What serves now under this name, if its lines go where they are to go.
fn kept_service<'a>(
    previous: Option<&'a Generation>,
    name: &str,
    service: &config::Service,
) -> Option<&'a LoadedService> {
    let previous = previous?;
    let is_same = previous.config.services.get(name)?.log == service.log;
    previous.services.get(name).filter(|_| is_same)
}

/// The filter that serves now, if it is the one that is asked for.
fn kept_filter(
    previous: Option<&Generation>,
    name: &str,
    config: &Config,
    stamp: Option<Stamp>,
) -> Option<Arc<filters::Loaded>> {
    let previous = previous?;
    let filter = config.filters.get(name)?;
    let is_same = previous.config.filters.get(name) == Some(filter)
        && stamp.is_some()
        && previous.stamps.get(&filter.module) == stamp.as_ref();
    let loaded = previous.filters.get(name)?;
    // Where its calls go is said elsewhere in the file.
    let is_same = is_same && loaded.upstreams == upstreams(filter, config);
    is_same.then(|| Arc::clone(loaded))
}

fn load_filter(
    name: &str,
    filter: &config::Filter,
    config: &Config,
    tools: &Tools,
) -> Result<filters::Loaded, LoadError> {
    let guest = || format!("filter {name}");
    let code = compile(
        &filter.module,
        Purpose::Filter,
        &filter.policy,
        tools,
        guest,
    )?;
    let program = tools.engine.load_code(&code);
    let program = program.map_err(|source| LoadError::Program {
        guest: guest(),
        source,
    })?;
    let filter_of_module = Filter::load(&program, settings(name, filter), &tools.shared);
    let filter_of_module = filter_of_module.map_err(|source| LoadError::Filter {
        guest: guest(),
        source,
    })?;
    let upstreams = upstreams(filter, config);
    let names = upstreams.keys().cloned().collect();
    let started = filters::trial::start(&program, settings(name, filter), names);
    started.map_err(|source| LoadError::Trial {
        guest: guest(),
        source,
    })?;
    let grants = &filter.policy.grants.connect;
    let rules = filters::reach::rules(upstreams.values(), grants, &SystemResolver::default());
    Ok(filters::Loaded {
        filter: filter_of_module,
        isolation: filter.isolation,
        share: tools.bounded(filter.share, tools.engine.options().instances),
        on_failure: filter.on_failure,
        budget: Budget::new(filter.faults),
        slow_share: filter.slow_share,
        body_bytes: filter.body_bytes,
        upstreams,
        rules: rules.map_err(|source| LoadError::Network {
            guest: guest(),
            source,
        })?,
        log: tools
            .log
            .of_guest(GuestKind::Filter, name, filter.log.as_deref())?,
    })
}

fn compile(
    path: &Path,
    purpose: Purpose,
    policy: &Policy,
    tools: &Tools,
    guest: impl Fn() -> String,
) -> Result<Code, LoadError> {
    let opened = Module::open(path).map_err(|source| LoadError::Module {
        guest: guest(),
        source,
    })?;
    let module = opened.ok_or_else(|| no_module(guest(), path))?;
    let compiler = Compiler {
        path: &tools.programs.compiler,
        machine: &tools.machine,
        allow_degraded: &policy.allow_degraded,
        within: None,
    };
    let cache = code::open_cache(tools.caches.as_deref());
    code::obtain(&module, purpose, &compiler, cache).map_err(|source| LoadError::Compile {
        guest: guest(),
        source,
    })
}

/// Why there is no module at this path.
fn no_module(guest: String, path: &Path) -> LoadError {
    let path = path.to_owned();
    match rustix::fs::access(&path, rustix::fs::Access::READ_OK) {
        Ok(()) => LoadError::NoModule { guest, path },
        Err(source) => LoadError::Unreadable {
            guest,
            path,
            source,
        },
    }
}

fn settings(name: &str, filter: &config::Filter) -> Settings {
    let limits = &filter.policy.limits;
    let env = filter.policy.grants.env.iter();
    Settings {
        name: name.to_owned(),
        root_id: filter.root_id.clone(),
        vm_id: filter.vm_id.clone(),
        configuration: Bytes::from(filter.configuration.clone()),
        vm_configuration: Bytes::from(filter.vm_configuration.clone()),
        env: env
            .filter_map(|grant| Some((grant.name.clone(), grant.value.clone()?)))
            .collect(),
        limits: Limits {
            memory_bytes: limits.memory_bytes.map_or(FILTER_BYTES, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
            time: Some(limits.time.unwrap_or(CALLBACK_TIME)),
            ..Limits::default()
        },
        isolation: match filter.isolation {
            config::Isolation::Kept => guest::Isolation::Kept,
            config::Isolation::Fresh => guest::Isolation::Fresh,
        },
        bounds: Bounds {
            body_bytes: filter.body_bytes,
            ..Bounds::default()
        },
    }
}

/// The servers that a filter may call: each upstream service whose servers its policy all grants, under the
/// service's name.
fn upstreams(filter: &config::Filter, config: &Config) -> BTreeMap<String, Server> {
    let connect = &filter.policy.grants.connect;
    let granted = |server: &Server| connect.iter().any(|grant| is_granted(grant, server));
    let services = config.services.iter();
    services
        .filter_map(|(name, service)| match &service.kind {
            ServiceKind::Upstream(upstream) if upstream.servers.iter().all(granted) => {
                Some((name.clone(), upstream.servers.first()?.clone()))
            }
            _ => None,
        })
        .collect()
}

fn is_granted(grant: &ConnectGrant, server: &Server) -> bool {
    match (grant, server) {
        (ConnectGrant::Unix(socket), Server::Unix(path)) => socket.host == *path,
        (
            ConnectGrant::Internet {
                transport: Transport::Tcp,
                host: pattern,
                ports,
            },
            Server::Internet { host, port, .. },
        ) => ports.contains(*port) && fits(pattern, host),
        _ => false,
    }
}

/// Whether a pattern grants what a configuration calls a server. Both are the operator's own words: what a name
/// leads to is not asked.
fn fits(pattern: &HostPattern, host: &str) -> bool {
    match (pattern, host.trim_matches(['[', ']']).parse::<IpAddr>()) {
        (HostPattern::Network(network), Ok(address)) => network.contains(address),
        (HostPattern::Name(name), Err(_)) => name.as_str().eq_ignore_ascii_case(host),
        (HostPattern::Wildcard(above), Err(_)) => {
            let host = host.to_ascii_lowercase();
            let head = host.strip_suffix(above.as_str());
            head.is_some_and(|head| head.ends_with('.'))
        }
        _ => false,
    }
}

/// Whether the component that serves now is the one that is asked for.
fn is_same_component(
    previous: Option<&Generation>,
    name: &str,
    service: &config::Service,
    stamp: Option<Stamp>,
) -> bool {
    let ServiceKind::Component(component) = &service.kind else {
        return false;
    };
    previous.is_some_and(|previous| {
        previous.config.services.get(name) == Some(service)
            && stamp.is_some()
            && previous.stamps.get(&component.component) == stamp.as_ref()
    })
}

/// A component; the one that serves now, where it is the `same`.
fn load_component(
    name: &str,
    component: &config::Component,
    service: &config::Service,
    same: Option<&LoadedService>,
    tools: &Tools,
) -> Result<LoadedService, LoadError> {
    if let Some(LoadedService {
        shared: Part::Component(loaded),
        log,
    }) = same
    {
        return Ok(LoadedService {
            shared: Part::Component(Arc::clone(loaded)),
            log: log.clone(),
        });
    }
    let path = service.log.as_deref();
    let log = tools.log.of_guest(GuestKind::Service, name, path)?;
    let code = compile(
        &component.component,
        Purpose::Service,
        &service.policy,
        tools,
        || format!("service {name}"),
    )?;
    let bound = |share, instances| tools.bounded(share, instances);
    let loaded = component::Loaded::new(&code, component, service, bound, log.clone());
    let loaded = loaded.map_err(|source| LoadError::Component {
        guest: format!("service {name}"),
        source,
    })?;
    Ok(LoadedService {
        shared: Part::Component(Arc::new(loaded)),
        log,
    })
}

fn load_service(
    name: &str,
    service: &config::Service,
    previous: Option<&LoadedService>,
    served: Option<&Arc<Served>>,
    tools: &Tools,
) -> Result<LoadedService, LoadError> {
    let log = service.log.as_deref();
    let log = tools.log.of_guest(GuestKind::Service, name, log)?;
    let shared = match &service.kind {
        ServiceKind::Files(files) => {
            // Each worker makes its own: this is to say now that it can't be.
            if let Some(served) = served {
                Files::new(files, served).map_err(|source| LoadError::Files {
                    guest: format!("service {name}"),
                    source,
                })?;
            }
            Part::Nothing
        }
        ServiceKind::Program(program) => {
            let loaded = load_program(name, program, service, &log, previous, tools);
            Part::Program(loaded.map_err(|source| LoadError::of_service(name, source))?)
        }
        ServiceKind::Upstream(_) | ServiceKind::Component(_) => Part::Nothing,
    };
    Ok(LoadedService { shared, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_there_is_not_taken_for_another_kind_of_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wasm");
        let told = || no_module("filter x".into(), &path).to_string();
        assert!(told().contains("cannot be read"), "{}", told());
        std::fs::write(&path, "junk").unwrap();
        assert!(told().contains("is no WebAssembly"), "{}", told());
    }
}
