//! A tenant's file: filters, services and routes as the main file has them, within what that gives to the tenant.
//!
//! Who wrote it is not trusted as the main file's owner is. What it names lies below its folder, what it claims is given to
//! it, and what the site decides it cannot say.

use super::{
    Claim, Config, ConfigError, ConfigFile, ConfigProblem, Limits, May, Policy, Route, Server,
    Service, ServiceKind, check,
    error::Found,
    file::read_open_file,
    keys::{Entry, Kind, Section, keys},
    kind::{Items, Names},
    read::{Parts, Reader, with_names},
    room::{MOST_HOSTS, Room, at_most},
    route::RouteParts,
    tenancy::Bounds,
};
use crate::{
    beneath,
    lookup::{covers_host, covers_path},
};
use palisade_policy::{Access, ConnectGrant, document, document::Key, visible};
use rustix::fs::{Mode, OFlags};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

/// Of a tenant's file, and of each that it names.
const MOST_BYTES: u64 = 1 << 20;

/// Keys that are the site's, and stand in the main file alone.
const OF_THE_SITE: &[&str] = &[
    "workers",
    "allow-degraded",
    "admin",
    "log",
    "limits",
    "listen",
    "include",
    "tenants",
    "tenant",
    "quotas",
    "programs",
    "metrics",
    "code",
];

/// What of a tenant's file has been read.
struct TenantParts(Parts);

impl Section for TenantParts {
    const PLACE: &'static str = "at the top of a tenant's file";
    const KEYS: &'static [Entry<Self>] = keys! {
        /// Filters, by name.
        "filters": Names<super::Filter> => |parts, filters| parts.0.filters = filters;
        /// Services, by name.
        "services": Names<Service> => |parts, services| parts.0.services = services;
        /// Which requests go through which filters to which service; the first that fits has a request.
        "route": Items<RouteParts> => |parts, routes| parts.0.routes = with_names(routes);
    };

    fn refuse(&self, key: &Key) -> Option<Found> {
        let word = OF_THE_SITE
            .iter()
            .find(|word| **word == key.get_ref().as_ref())?;
        Some(Found::at(key.span(), ConfigProblem::OfTheSite(word)))
    }
}

/// The JSON Schema of a tenant's file, as `docs/tenant.schema.json` has it.
pub fn tenant_schema() -> serde_json::Value {
    super::read::whole_schema(
        TenantParts::schema(),
        "Configuration of a tenant of palisade serve",
    )
}

impl ConfigFile {
    /// Reads a tenant's file, which must lie in `folder`, within `bounds`. `reads` is told of each file that it names
    /// before that is read.
    ///
    /// # Errors
    /// It can't be read, or the first thing in it that can't be meant or is not given.
    pub fn read_tenant(
        folder: &Path,
        path: &Path,
        bounds: &Bounds,
        reads: impl FnMut(&Path),
    ) -> Result<Self, ConfigError> {
        let name = path.to_string_lossy();
        let text = read_within(folder, path).map_err(|error| {
            let problem = ConfigProblem::File(error.to_string());
            ConfigError::new(&name, "", Found::nowhere(problem))
        })?;
        let reads = RefCell::new(reads);
        let read = |path: &Path| {
            reads.borrow_mut()(path);
            read_within(&bounds.folder, path)
        };
        Self::tenant_from_text(&text, &name, bounds, &read)
    }

    /// Reads a tenant's text. What it names is read by `read_file`.
    ///
    /// # Errors
    /// The first thing in `text` that can't be meant or is not given.
    pub fn tenant_from_text(
        text: &str,
        source_name: &str,
        bounds: &Bounds,
        read_file: super::ReadFile<'_>,
    ) -> Result<Self, ConfigError> {
        let reader = Reader::new(text, &bounds.folder, read_file).within(Room::default());
        match read_tenant(&reader, bounds) {
            Ok(config) => Ok(reader.into_file(config)),
            Err(found) => Err(ConfigError::new(source_name, text, found)),
        }
    }
}

/// Reads a file of a folder, wherever links in it lead, as long as they stay inside.
fn read_within(folder: &Path, path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = beneath::open(Some(folder), path, flags, Mode::empty());
    let file = opened.map_err(|errno| match errno {
        rustix::io::Errno::XDEV => io::Error::other(format!(
            "it does not lie below {}, which is all that this file may name",
            folder.display()
        )),
        other => other.into(),
    })?;
    read_open_file(File::from(file), MOST_BYTES)
}

fn read_tenant(reader: &Reader<'_>, bounds: &Bounds) -> Result<Config, Found> {
    let document = document::parse(reader.text).map_err(super::read::not_toml)?;
    Room::check(document.get_ref())?;
    let whole = 0..reader.text.len();
    let parts = Parts {
        config: Config {
            folder: Some(bounds.folder.clone()),
            limits: Limits {
                underscores: bounds.underscores,
                ..Limits::default()
            },
            ..Config::default()
        },
        ..Parts::default()
    };
    let TenantParts(parts) = TenantParts(parts).read(document.get_ref(), whole, reader)?;
    check_hosts(&parts)?;
    check::check_routes(&parts, reader)?;
    check_bounds(&parts, bounds)?;
    let mut config = parts.into_config();
    let services = config.services.values_mut();
    services.for_each(|service| keep_from_links(service));
    Ok(config)
}

/// Whatever comes to lie on the way to a socket after it was looked at.
fn keep_from_links(service: &mut Service) {
    if let ServiceKind::Upstream(upstream) = &mut service.kind {
        let servers = std::mem::take(&mut upstream.servers);
        upstream.servers = servers.into_iter().map(Server::without_links).collect();
    }
}

/// Each of them is a place in the directory of all tenants.
fn check_hosts(parts: &Parts) -> Result<(), Found> {
    let hosts: BTreeSet<_> = parts
        .routes
        .iter()
        .filter_map(|(_, parts)| parts.route.host.as_deref())
        .collect();
    at_most("hosts of routes", hosts.len(), MOST_HOSTS).map_err(Found::nowhere)
}

/// Whether all that the file has is given.
fn check_bounds(parts: &Parts, bounds: &Bounds) -> Result<(), Found> {
    for (name, (span, filter)) in &parts.filters {
        let guest = format!("filter `{name}`");
        let files = std::iter::once(&filter.module).chain(&filter.log);
        check_files(&guest, span, files.map(PathBuf::as_path), bounds)?;
        check_policy(&guest, span, &filter.policy, bounds)?;
    }
    for (name, (span, service)) in &parts.services {
        let guest = format!("service `{name}`");
        check_kind(&guest, span, service, bounds)?;
        let root = match &service.kind {
            ServiceKind::Files(files) => Some(files.root.as_path()),
            _ => None,
        };
        let files = service.files().map(PathBuf::as_path).chain(root);
        check_files(&guest, span, files, bounds)?;
        check_policy(&guest, span, &service.policy, bounds)?;
    }
    for (span, RouteParts { route, .. }) in &parts.routes {
        let host = route.host.as_deref();
        let is_given = match host {
            None => !bounds.hosts.is_empty(),
            Some(host) => bounds.hosts.iter().any(|given| covers_host(given, host)),
        };
        if !is_given {
            let claimed = host.unwrap_or("every host");
            return Err(not_given(span, "host", claimed, &bounds.hosts));
        }
        let is_given = bounds
            .paths
            .iter()
            .any(|given| covers_path(given, &route.path));
        if !is_given && route.path != "/" {
            return Err(not_given(span, "path", &route.path, &bounds.paths));
        }
    }
    Ok(())
}

fn not_given(span: &Range<usize>, kind: &'static str, claimed: &str, given: &[String]) -> Found {
    let problem = ConfigProblem::NotGiven {
        kind,
        claimed: claimed.into(),
        given: given.to_vec(),
    };
    Found::at(span.clone(), problem)
}

fn check_files<'a>(
    guest: &str,
    span: &Range<usize>,
    files: impl IntoIterator<Item = &'a Path>,
    bounds: &Bounds,
) -> Result<(), Found> {
    let mut files = files.into_iter();
    let outside = files.find(|path| !beneath::is_beneath(&bounds.folder, path));
    let Some(path) = outside else {
        return Ok(());
    };
    let problem = ConfigProblem::Outside {
        guest: guest.into(),
        path: path.into(),
        folder: bounds.folder.clone(),
    };
    Err(Found::at(span.clone(), problem))
}

fn check_kind(
    guest: &str,
    span: &Range<usize>,
    service: &Service,
    bounds: &Bounds,
) -> Result<(), Found> {
    let wanted = match &service.kind {
        ServiceKind::Component(_) | ServiceKind::Files(_) => return Ok(()),
        ServiceKind::Upstream(_) => (May::Connect, "other servers"),
        ServiceKind::Program(program) if program.direct.is_some() => {
            let problem = ConfigProblem::NotGrantable {
                guest: guest.into(),
                what: "`direct`".into(),
                advice: "where requests come in is the site's: they come to a tenant's program by its routes",
            };
            return Err(Found::at(span.clone(), problem));
        }
        ServiceKind::Program(_) => (May::Program, "a program"),
    };
    demand(guest, span, Some(wanted), bounds)
}

fn check_policy(
    guest: &str,
    span: &Range<usize>,
    policy: &Policy,
    bounds: &Bounds,
) -> Result<(), Found> {
    let grants = &policy.grants;
    let files = grants.files.iter().map(|grant| grant.host.as_path());
    let sockets = grants.connect.iter().filter_map(|grant| match grant {
        ConnectGrant::Unix(socket) => Some(socket.host.as_path()),
        _ => None,
    });
    let env_files = grants.env_files.iter().map(PathBuf::as_path);
    check_files(guest, span, files.chain(sockets).chain(env_files), bounds)?;
    let has_exec = grants
        .files
        .iter()
        .any(|grant| grant.access == Access::Exec);
    let inherits = grants.env.iter().any(|grant| grant.value.is_none());
    let wanted = [
        (!grants.connect.is_empty(), May::Connect, "`connect` grants"),
        (!grants.listen.is_empty(), May::Listen, "`listen` grants"),
        (has_exec, May::Exec, "`exec` grants"),
        (!grants.devices.is_empty(), May::Device, "`device` grants"),
        (!grants.profiles.is_empty(), May::Profile, "profiles"),
        (inherits, May::Environment, "variables of the server's own"),
        (
            !policy.allow_degraded.is_empty(),
            May::Degraded,
            "`allow-degraded`",
        ),
    ];
    let wanted = wanted.into_iter().filter(|(is_wanted, ..)| *is_wanted);
    let wanted = wanted.map(|(_, may, what)| (may, what));
    demand(guest, span, wanted, bounds)
}

/// Refuses what is not among what the tenant may have.
fn demand(
    guest: &str,
    span: &Range<usize>,
    wanted: impl IntoIterator<Item = (May, &'static str)>,
    bounds: &Bounds,
) -> Result<(), Found> {
    let mut wanted = wanted.into_iter();
    match wanted.find(|(may, _)| !bounds.may.contains(may)) {
        None => Ok(()),
        Some((may, what)) => {
            let problem = ConfigProblem::Forbidden {
                guest: guest.into(),
                what,
                word: may.word(),
            };
            Err(Found::at(span.clone(), problem))
        }
    }
}

impl Config {
    /// What the routes of a tenant's file claim of what is given to it, each once.
    pub(crate) fn claims(&self, bounds: &Bounds) -> Vec<Claim> {
        // Most routes of a file are for the same hosts and paths.
        let claimed: BTreeSet<_> = self
            .routes
            .iter()
            .map(|route| (route.host.as_ref(), route.claimed_path(bounds)))
            .collect();
        let mut claims = Vec::new();
        for (host, path) in claimed {
            let hosts = host.map_or(&bounds.hosts[..], std::slice::from_ref);
            let paths = match path {
                ClaimedPath::All => &bounds.paths[..],
                ClaimedPath::One(path) => std::slice::from_ref(path),
                ClaimedPath::None => &[],
            };
            for path in paths {
                claims.extend(hosts.iter().map(|host| Claim {
                    host: host.clone(),
                    path: path.clone(),
                }));
            }
        }
        claims.sort();
        claims.dedup();
        claims.shrink_to_fit();
        claims
    }

    /// Sockets of other servers, by their paths.
    pub(crate) fn upstream_sockets(&self) -> impl Iterator<Item = &Path> {
        let servers = self
            .services
            .values()
            .flat_map(|service| match &service.kind {
                ServiceKind::Upstream(upstream) => &upstream.servers[..],
                _ => &[],
            });
        servers.filter_map(|server| server.socket().map(PathBuf::as_path))
    }
}

/// Which of the paths that are given a route claims.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ClaimedPath<'a> {
    All,
    One(&'a String),
    None,
}

impl Route {
    fn claimed_path<'a>(&self, bounds: &'a Bounds) -> ClaimedPath<'a> {
        if self.path == "/" {
            return ClaimedPath::All;
        }
        let fitting = bounds.paths.iter();
        let fitting = fitting.filter(|path| covers_path(path, &self.path));
        let longest = fitting.max_by_key(|path| path.len());
        longest.map_or(ClaimedPath::None, ClaimedPath::One)
    }
}

/// What a message shows of a list.
pub(super) fn shown(given: &[String]) -> String {
    const MOST: usize = 8;
    let mut shown: Vec<_> = given
        .iter()
        .take(MOST)
        .map(|text| format!("`{}`", visible(text)))
        .collect();
    if given.len() > MOST {
        shown.push(format!("{} more", given.len() - MOST));
    }
    match shown.is_empty() {
        true => "nothing".into(),
        false => shown.join(", "),
    }
}
