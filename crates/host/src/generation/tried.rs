//! A tenant's file that cannot be served, and what was looked at to say so: as long as all of that is as it was, it is not
//! tried again.

use super::{relied_on::Site, tenant::Tenant, tenants::Stamped};
use crate::{
    config::{Bounds, Config, ServiceKind},
    stamp::ExactStamp,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file that was tried in vain.
#[derive(Debug)]
pub(crate) struct Tried {
    /// The file, or all that are of this tenant, and what was read because it names that: as it was before it was read.
    pub(super) files: Vec<Stamped>,
    /// How many of those are files of the tenant.
    pub(super) own: usize,
    /// Where else it leads.
    pub(super) places: Vec<(PathBuf, Place)>,
    pub(super) bounds: Option<Arc<Bounds>>,
    pub(super) site: Arc<Site>,
    /// It is loaded, and what it wants is another one's.
    pub(super) refused: Option<Refused>,
    /// Not for what it says: it is tried again each time.
    pub(super) is_of_host: bool,
}

/// What would serve, were it not for another tenant.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) tenant: Arc<Tenant>,
    /// For a claim, which is decided together with those of all others; else for its folder.
    pub(super) is_for_claims: bool,
}

/// What lies at a path: not what is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    canonical: Option<PathBuf>,
    stat: Option<(u64, u64, u32, u32, u32)>,
}

impl Place {
    fn of(path: &Path) -> Self {
        let stat = rustix::fs::stat(path).ok();
        let stat = stat.map(|stat| {
            let owner = (stat.st_uid, stat.st_gid);
            (stat.st_dev, stat.st_ino, stat.st_mode, owner.0, owner.1)
        });
        Self {
            canonical: path.canonicalize().ok(),
            stat,
        }
    }
}

impl Tried {
    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether it claims what another one has.
    pub(super) fn is_refused_for_claims(&self) -> bool {
        let refused = self.refused.as_ref();
        refused.is_some_and(|refused| refused.is_for_claims)
    }

    /// Whether these are its files, and all that was looked at is as it was.
    pub(super) fn is_current<'a>(&self, own: impl ExactSizeIterator<Item = &'a PathBuf>) -> bool {
        let files = &self.files[..self.own];
        own.len() == self.own
            && own.zip(files).all(|(path, (known, _))| path == known)
            && !self.is_of_host
            && self.files.iter().all(is_as_it_was)
            && self
                .places
                .iter()
                .all(|(path, place)| Place::of(path) == *place)
    }
}

fn is_as_it_was((path, stamp): &Stamped) -> bool {
    ExactStamp::of(path) == *stamp
}

/// What lies at each place where a file leads that cannot be served.
pub(super) fn places(bounds: &Bounds, config: Option<&Config>) -> Vec<(PathBuf, Place)> {
    let mut paths = vec![bounds.folder.clone()];
    if let Some(config) = config {
        paths.extend(config.files());
        // A log that is not there yet is made, where there is a folder for it.
        let logs = config.private_files();
        paths.extend(logs.filter_map(|log| Some(log.parent()?.to_owned())));
        paths.extend(config.roots().map(|(_, root)| root.to_owned()));
        let services = config.services.values();
        for service in services {
            paths.extend(super::relied_on::granted_paths(&service.policy).map(Path::to_owned));
            if let ServiceKind::Program(program) = &service.kind {
                let words = program.command.iter();
                let paths_of_words = words.filter(|word| word.contains('/'));
                paths.extend(paths_of_words.map(|word| bounds.folder.join(word)));
            }
        }
    }
    paths.sort();
    paths.dedup();
    let place = |path: PathBuf| {
        let place = Place::of(&path);
        (path, place)
    };
    paths.into_iter().map(place).collect()
}
