//! What the server relies on outside every wall, and what it refuses for that: folders that it must not serve, and guests
//! that could change what it reads or runs.

use super::load::{LoadError, Tools};
use crate::{
    client,
    config::{Config, ServiceKind},
    kinds::Level,
    log::Line,
    services::{
        files::{FilesError, Served},
        program,
    },
};
use palisade_network::{Resolve, SystemResolver};
use palisade_policy::{Capability, ConnectGrant, Policy};
use palisade_process::{
    ThisHost,
    plan::{Relied, find_changeable},
};
use palisade_wasm::{
    cache::Cache,
    code,
    programs::{self, Programs},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Opens the folders that are served, and refuses what may not be served and guests that could lead the server
/// elsewhere; the same again whenever a folder's path leads to another one.
pub(super) fn open_served(
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
    files.extend(programs::relied_on());
    files.extend(SystemResolver::default().files());
    files.extend(client::files_of_roots());
    files.extend(program::endpoint_paths());
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
