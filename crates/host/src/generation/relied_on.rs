//! What the server relies on outside every wall, and what it refuses for that: folders that it must not serve, and guests
//! that could change what it reads or runs.

use super::{
    load::{LoadError, Tools},
    operators::refuse_operators,
};
use crate::{
    beneath, client,
    config::{Admin, Config, ProgramBounds, Service, ServiceKind},
    kinds::{Level, full_name},
    log::Line,
    services::{
        files::{FilesError, Served},
        program::{self, Check},
    },
};
use palisade_network::{Resolve, SystemResolver};
use palisade_policy::{Access, Capability, ConnectGrant, Policy};
use palisade_process::{
    ThisHost,
    plan::{PlanError, Relied, find_changeable},
};
use palisade_walls::Plan;
use palisade_wasm::{
    cache::Cache,
    code,
    programs::{self, Programs},
};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the server relies on for all its tenants: no file of theirs may serve or change it.
#[derive(Debug, PartialEq)]
pub(super) struct Site {
    /// What nobody may ask the server for.
    own: Vec<PathBuf>,
    /// What it uses.
    used: Vec<Used>,
    /// Where its operators ask.
    admin: Option<Admin>,
    /// Folders are served also where there is no Landlock.
    may_lack_landlock: bool,
    /// Bounds of the programs of all tenants together.
    pub(super) programs: ProgramBounds,
}

impl Site {
    /// Of a main file that was read from these files.
    pub(super) fn new(config: &Config, files: &[PathBuf], tools: &Tools) -> Self {
        let folders = config
            .tenancy
            .include
            .iter()
            .map(|include| include.folder.clone());
        let own = files
            .iter()
            .cloned()
            .chain(folders)
            .chain(config.private_files());
        let mut used = relied_on(config, files, "");
        used.extend(relied_on_by_all(config, tools));
        Self {
            own: own.collect(),
            used,
            admin: config.admin.clone(),
            may_lack_landlock: config.allow_degraded.contains(&Capability::Landlock),
            programs: config.programs,
        }
    }
}

/// Opens the folders that a file serves, and refuses what may not be served and guests that could lead the server
/// elsewhere; the same again whenever a folder's path leads to another one.
pub(super) fn open_served(
    tenant: &str,
    config: &Arc<Config>,
    files: &[PathBuf],
    site: &Arc<Site>,
    tools: &Tools,
) -> Result<Option<Arc<Served>>, LoadError> {
    let check = {
        let (tenant, config, site) = (tenant.to_owned(), Arc::clone(config), Arc::clone(site));
        let files = files.to_owned();
        move || refuse_all(&tenant, &config, &files, &site)
    };
    let roots: Vec<_> = config.roots().map(|(_, root)| root.to_owned()).collect();
    if roots.is_empty() {
        return check().map(|()| None);
    }
    let landlock_abi = tools.machine.landlock_abi;
    if landlock_abi.is_none() && !site.may_lack_landlock {
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
        config.folder.clone(),
        landlock_abi,
        Box::new(again),
        Box::new(tell),
    );
    let served = served.map_err(|source| LoadError::Files {
        guest: guest_of_folder(tenant, config, &source),
        source,
    })?;
    check()?;
    Ok(Some(served))
}

/// Refuses a file that asks for what nobody may have on this site; also one that served on another one.
pub(super) fn refuse_all(
    tenant: &str,
    config: &Config,
    files: &[PathBuf],
    site: &Site,
) -> Result<(), LoadError> {
    let (own, used) = match tenant.is_empty() {
        // They are the site's.
        true => (Vec::new(), Vec::new()),
        false => {
            let own = files.iter().cloned().chain(config.private_files());
            (own.collect(), relied_on(config, files, tenant))
        }
    };
    refuse_outside(tenant, config)?;
    refuse_operators(tenant, config, site.admin.as_ref())?;
    refuse_served(tenant, config, site.own.iter().chain(&own))?;
    refuse_reach(tenant, config, &site.used, &used)
}

/// What a tenant's file names has to lie below its folder when it is used, too, and not only by its letters.
fn refuse_outside(tenant: &str, config: &Config) -> Result<(), LoadError> {
    let Some(folder) = &config.folder else {
        return Ok(());
    };
    let sockets = config
        .upstream_sockets()
        .map(|path| (String::from("an upstream server"), path));
    let granted = config.services.iter().flat_map(|(name, service)| {
        let guest = guest_of_service(tenant, name);
        granted_paths(&service.policy).map(move |path| (guest.clone(), path))
    });
    for (guest, path) in granted.chain(sockets) {
        let opened = beneath::open(Some(folder), path, OFlags::PATH, Mode::empty());
        let Ok(opened) = opened else {
            let is_outside = matches!(opened, Err(Errno::XDEV | Errno::LOOP));
            match is_outside
                || path
                    .symlink_metadata()
                    .is_ok_and(|there| there.is_symlink())
            {
                true => return Err(outside(guest, path, folder)),
                // What is not there yet is told about by whoever needs it.
                false => continue,
            }
        };
        // A link that stays inside leads elsewhere as soon as somebody turns it, and these are opened by their path.
        let is_by_letter = path
            .canonicalize()
            .is_ok_and(|canonical| canonical == *path);
        if !is_by_letter {
            return Err(outside(guest, path, folder));
        }
        drop(opened);
    }
    Ok(())
}

/// What a tenant's programs are held to at each start: their paths may lead elsewhere by then than when the file was loaded.
#[derive(Debug)]
struct Starts {
    tenant: String,
    config: Arc<Config>,
    files: Vec<PathBuf>,
    site: Arc<Site>,
}

/// Who is asked about each start of a tenant's programs; nobody, where it has none or is the main file.
pub(super) fn check_of_starts(
    tenant: &str,
    config: &Arc<Config>,
    files: &[PathBuf],
    site: &Arc<Site>,
) -> Option<Arc<dyn Check>> {
    let mut services = config.services.values();
    let has_programs = services.any(|service| matches!(service.kind, ServiceKind::Program(_)));
    let starts = || Starts {
        tenant: tenant.into(),
        config: Arc::clone(config),
        files: files.into(),
        site: Arc::clone(site),
    };
    (config.folder.is_some() && has_programs).then(|| Arc::new(starts()) as _)
}

impl Check for Starts {
    fn check(&self, name: &str, policy: &Policy, plan: &Plan) -> Result<(), String> {
        if let Some(folder) = &self.config.folder {
            refuse_plan_outside(policy, plan, folder)?;
        }
        let guest = format!("service {name}");
        let of_tenant = || relied_on(&self.config, &self.files, &self.tenant).into_iter();
        let used = self.site.used.iter().cloned();
        // Made only if somebody looks: most programs can write nowhere.
        let mut used = used.chain(std::iter::once_with(of_tenant).flatten());
        let mut relied = std::iter::from_fn(|| {
            let by_others = used.find(|used| used.by != guest);
            by_others.map(|used| used.relied)
        });
        match plan.view().find_relied(&mut relied) {
            None => Ok(()),
            Some(relied) => Err(format!(
                "policy: it could change where {} leads, or what lies there, which is used outside the wall: keep it out of what \
                 is granted for writing, or protect it",
                relied.path().display()
            )),
        }
    }
}

/// Refuses a plan by which the guest would be given what lies outside its tenant's folder, or was led to by a link: of each
/// grant, and of a module, the very file that the launch takes.
fn refuse_plan_outside(policy: &Policy, plan: &Plan, folder: &Path) -> Result<(), String> {
    let view = plan.view();
    let is_led_astray = |(inside, on_host): &(&Path, &Path)| {
        let is_absent = view.absent().iter().any(|absent| absent == on_host);
        !is_absent && view.host_path(inside).as_deref() != Some(*on_host)
    };
    let by_link = granted(policy).find(is_led_astray);
    let by_link = by_link.map(|(_, on_host)| on_host.to_path_buf());
    let program = plan.opened_program();
    let outside = program.filter(|program| !beneath::is_beneath(folder, program));
    match by_link.or(outside) {
        None => Ok(()),
        Some(path) => Err(format!(
            "policy: {} does not lie below {}, which is all that its tenant has, or a link leads there: put it there without \
             links",
            path.display(),
            folder.display()
        )),
    }
}

fn outside(guest: String, path: &Path, folder: &Path) -> LoadError {
    LoadError::Outside {
        guest,
        path: path.into(),
        folder: folder.into(),
    }
}

/// Whose folder can't be opened.
fn guest_of_folder(tenant: &str, config: &Config, error: &FilesError) -> String {
    let named = match error {
        FilesError::Root { path, .. } => config.roots().find(|(_, root)| root == path),
        _ => None,
    };
    named.map_or_else(
        || "files".into(),
        |(name, _)| guest_of_service(tenant, name),
    )
}

/// What nobody may ask the server for: what it was made from, its keys and its logs.
fn refuse_served<'a>(
    tenant: &str,
    config: &Config,
    own: impl Iterator<Item = &'a PathBuf>,
) -> Result<(), LoadError> {
    let roots: Vec<_> = config.roots().collect();
    let mut folders = Folders::of(roots.iter().map(|(_, root)| *root));
    let found = own.filter_map(|path| Some((folders.around(path)?, path)));
    // Of the first folder, the first that lies there.
    match found.min_by_key(|(root, _)| *root) {
        None => Ok(()),
        Some((root, path)) => Err(LoadError::Served {
            guest: guest_of_service(tenant, roots[root].0),
            root: roots[root].1.into(),
            path: path.clone(),
        }),
    }
}

/// Folders, found by what lies in them: however many there are of both, each path is looked at once.
struct Folders {
    /// By device and inode; the place of the first that is this one.
    places: BTreeMap<(u64, u64), usize>,
    /// Which of the folders that were looked at lies in one of them, or is one, and in which first.
    known: HashMap<PathBuf, Option<usize>>,
}

impl Folders {
    /// One that is not there is told about elsewhere.
    fn of<'a>(folders: impl Iterator<Item = &'a Path>) -> Self {
        let mut places = BTreeMap::new();
        for (place, folder) in folders.enumerate() {
            if let Some(identity) = identity(folder) {
                places.entry(identity).or_insert(place);
            }
        }
        Self {
            places,
            known: HashMap::new(),
        }
    }

    /// The first in which a file lies, which may be yet to be made, by whatever path that was named.
    fn around(&mut self, path: &Path) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let path = canonical(path)?;
        path.parent().and_then(|folder| self.first_above(folder))
    }

    fn first_above(&mut self, folder: &Path) -> Option<usize> {
        // From below, as far as nothing is known.
        let unknown = folder.ancestors();
        let unknown: Vec<_> = unknown
            .take_while(|folder| !self.known.contains_key(*folder))
            .collect();
        let top = folder.ancestors().nth(unknown.len());
        let mut first = top.and_then(|known| self.known[known]);
        for folder in unknown.into_iter().rev() {
            let own = identity(folder).and_then(|identity| self.places.get(&identity));
            first = first.into_iter().chain(own.copied()).min();
            self.known.insert(folder.into(), first);
        }
        first
    }
}

fn identity(folder: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::stat(folder).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// A path without links, also of a file that is yet to be made.
fn canonical(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}

/// A path that is used outside the wall while guests run, and by whom.
#[derive(Clone, Debug, PartialEq)]
struct Used {
    relied: Relied,
    by: String,
}

/// What the server looks names up, checks certificates, compiles and makes sockets with, and where it finds tenants.
fn relied_on_by_all(config: &Config, tools: &Tools) -> impl Iterator<Item = Used> {
    let Programs { worker, compiler } = &tools.programs;
    let mut files = vec![worker.clone(), compiler.clone()];
    files.extend(programs::relied_on());
    files.extend(SystemResolver::default().files());
    files.extend(client::files_of_roots());
    files.extend(program::endpoint_paths());
    // Without a cache nothing of it can be written to.
    let cache = code::open_cache(tools.caches.as_deref());
    files.extend(cache.iter().flat_map(Cache::paths));
    let contents = files.into_iter().map(Relied::Content);
    let folders = config.tenancy.include.iter();
    let folders = folders.map(|include| Relied::Place(include.folder.clone()));
    contents.chain(folders).map(by_server)
}

fn by_server(relied: Relied) -> Used {
    Used {
        relied,
        by: "the server".into(),
    }
}

/// What the server uses for one file: what that was read from, where it serves, listens, connects and writes; and what it
/// opens for its guests.
fn relied_on(config: &Config, files: &[PathBuf], tenant: &str) -> Vec<Used> {
    let files = files.iter().cloned().chain(config.files());
    let contents = files.map(Relied::Content);
    let roots = config.roots();
    let roots = roots.map(|(_, root)| Relied::Place(root.into()));
    let folder = config.folder.iter().cloned().map(Relied::Place);
    let by_server = contents.chain(roots).chain(folder).map(by_server);
    let granted = config.services.iter().flat_map(|(name, service)| {
        granted_paths(&service.policy).map(move |path| Used {
            relied: Relied::Place(path.into()),
            by: guest_of_service(tenant, name),
        })
    });
    by_server.chain(granted).collect()
}

/// Where the host's files are that a guest is given: opened when it starts, and started again and again.
pub(super) fn granted_paths(policy: &Policy) -> impl Iterator<Item = &Path> {
    granted(policy).map(|(_, on_host)| on_host)
}

/// The same, each with where the guest finds it: inside, on the host.
fn granted(policy: &Policy) -> impl Iterator<Item = (&Path, &Path)> {
    let grants = &policy.grants;
    let files = grants
        .files
        .iter()
        .filter(|grant| grant.access.maps_host_path());
    let files = files.map(|grant| (grant.guest_path(), grant.host.as_path()));
    let sockets = grants.connect.iter().filter_map(|grant| match grant {
        ConnectGrant::Unix(socket) => Some((socket.guest_path(), socket.host.as_path())),
        _ => None,
    });
    files.chain(sockets)
}

pub(super) fn guest_of_service(tenant: &str, name: &str) -> String {
    format!("service {}", full_name(tenant, name))
}

/// A guest that could change what the server relies on would choose its own policy, read what it likes, or run outside
/// the wall; and what another guest is given, together with that one. Its own grants hold each other in place.
fn refuse_reach(
    tenant: &str,
    config: &Config,
    by_site: &[Used],
    by_tenant: &[Used],
) -> Result<(), LoadError> {
    let has_files =
        |kind: &ServiceKind| matches!(kind, ServiceKind::Program(_) | ServiceKind::Component(_));
    for (name, service) in &config.services {
        if !has_files(&service.kind) {
            continue;
        }
        let guest = guest_of_service(tenant, name);
        let used = || by_site.iter().chain(by_tenant);
        // Who can write nothing changes nothing; its other grants are looked at all the same.
        let is_writer = may_write(service);
        let by_others = used().filter(|used| is_writer && used.by != guest);
        let relied = by_others.map(|used| used.relied.clone());
        let found = find_reached(&service.policy, relied);
        let found = found.map_err(|source| LoadError::Grants {
            guest: guest.clone(),
            source,
        })?;
        let Some(found) = found else { continue };
        let user = used().find(|used| used.relied == found && used.by != guest);
        return Err(refusal(guest, found, user));
    }
    Ok(())
}

/// The first of these that a guest with this policy could change.
///
/// What it sees of the system it cannot write to, so that without that it reaches no less. To look at all of `/etc` for each
/// of many guests takes longer than all else of a reload: it is looked at only where something is reached without.
fn find_reached(
    policy: &Policy,
    relied: impl Iterator<Item = Relied> + Clone,
) -> Result<Option<Relied>, PlanError> {
    let mut without_system = policy.clone();
    without_system.grants.system = false;
    match find_changeable(&without_system, relied.clone(), &ThisHost) {
        Ok(None) => Ok(None),
        _ => find_changeable(policy, relied, &ThisHost),
    }
}

/// Whether a guest may be able to write to files of the host's. Of programs that is the wall's to say: where there is no
/// private folder it may lend one.
fn may_write(service: &Service) -> bool {
    let mut files = service.policy.grants.files.iter();
    matches!(service.kind, ServiceKind::Program(_))
        || files.any(|grant| !matches!(grant.access, Access::Read | Access::ReadIfThere))
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

#[cfg(test)]
mod tests;
