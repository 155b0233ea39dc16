//! What one file comes to, the main one or a tenant's: its filters and services, loaded, and its routes.

use super::{
    ground::Ground,
    load::{LoadError, Stamps, Tools},
    load_filters::{kept_filter, load_filter},
    load_services::{is_same_component, kept_service, load_component, load_service},
    relied_on::{Site, check_of_starts, open_served},
    tenants::Stamped,
};
use crate::{
    code::Preload,
    config::{Bounds, Claim, Config, ServiceKind},
    filters,
    kinds::full_name,
    quota::Quota,
    route::Routes,
    services::{self, program::Check},
    stamp::{ExactStamp, Look, Stamp},
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// One file's filters, services and routes.
#[derive(Debug)]
pub(crate) struct Tenant {
    /// Its name; empty for the main file.
    pub(crate) name: Arc<str>,
    pub(crate) config: Arc<Config>,
    pub(crate) filters: BTreeMap<String, Arc<filters::Loaded>>,
    pub(crate) services: BTreeMap<String, Box<services::Loaded>>,
    pub(crate) routes: Routes,
    /// Which module stood behind each name when it was loaded.
    pub(super) stamps: Stamps,
    /// Its own file, those that were read because that names them, and modules: as they were before they were read. Not
    /// of the main file, which is read anew at each reload.
    pub(super) files: Vec<Stamped>,
    pub(super) source: Option<Source>,
    /// Who is asked about each start of its programs; nobody for the main file's.
    pub(super) check: Option<Arc<dyn Check>>,
    /// How much it may use, and uses.
    pub(crate) quota: Arc<Quota>,
}

/// Looks at tenants' files, and at their folders: those of most lie side by side.
#[derive(Debug, Default)]
pub(super) struct Looks {
    files: Look,
    folders: Look,
}

/// Where a tenant comes from, and what it was judged by.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) bounds: Arc<Bounds>,
    pub(super) claims: Vec<Claim>,
    pub(super) warnings: Vec<String>,
    pub(super) site: Arc<Site>,
    /// Its folder.
    pub(super) ground: Ground,
}

impl Tenant {
    /// What its file calls this, as logs and figures do.
    pub(crate) fn full_name(&self, name: &str) -> String {
        full_name(&self.name, name)
    }

    /// Loads what a file asks for, which was read from `files`. What `previous` has loaded of the same module with the same
    /// settings is taken over; code that
    /// is not comes to the `new` one.
    pub(super) fn load(
        name: Arc<str>,
        config: &Arc<Config>,
        files: &[PathBuf],
        previous: Option<&Self>,
        site: &Arc<Site>,
        new: &mut Vec<Arc<dyn Preload>>,
        tools: &Tools,
    ) -> Result<Self, LoadError> {
        let served = open_served(&name, config, files, site, tools)?;
        let check = check_of_starts(&name, config, files, site);
        let within = config.folder.as_deref();
        // Before its guests, which keep it.
        let quota = tools.registry.quotas.of(&name);
        let mut stamps = Vec::new();
        let mut filters = BTreeMap::new();
        for (own, filter) in &config.filters {
            let stamp = Stamp::of(&filter.module);
            let loaded = match kept_filter(previous, own, config, stamp) {
                Some(loaded) => loaded,
                None => {
                    let full = full_name(&name, own);
                    let loaded = Arc::new(load_filter(&full, filter, config, tools)?);
                    new.push(Arc::clone(&loaded.code) as _);
                    loaded
                }
            };
            stamps.extend(stamp.map(|stamp| (filter.module.clone(), stamp)));
            filters.insert(own.clone(), loaded);
        }
        let mut services = BTreeMap::new();
        for (own, service) in &config.services {
            let kept = kept_service(previous, own, service);
            let full = full_name(&name, own);
            let loaded = match &service.kind {
                ServiceKind::Component(component) => {
                    let stamp = Stamp::of(&component.component);
                    let same = kept.filter(|_| is_same_component(previous, own, service, stamp));
                    stamps.extend(stamp.map(|stamp| (component.component.clone(), stamp)));
                    load_component(&full, component, service, same, (within, new), tools)?
                }
                _ => load_service(
                    &full,
                    (service, &site.programs),
                    kept,
                    (served.as_ref(), check.as_ref()),
                    (within, new),
                    tools,
                )?,
            };
            services.insert(own.clone(), Box::new(loaded));
        }
        Ok(Self {
            name,
            routes: Routes::new(&config.routes),
            config: Arc::clone(config),
            filters,
            services,
            stamps: stamps.into(),
            files: Vec::new(),
            source: None,
            check,
            quota,
        })
    }

    /// Whether every file is the one that it was made from, and its folder the one that it was.
    pub(super) fn is_current(&self, looks: &mut Looks) -> bool {
        let Some(((file, stamp), named)) = self.files.split_first() else {
            return true;
        };
        let now = looks.files.stat(file).map(|stat| ExactStamp::new(&stat));
        let mut named = named.iter();
        stamp.is_some()
            && now == *stamp
            && named.all(|(path, stamp)| stamp.is_some() && ExactStamp::of(path) == *stamp)
            && self.has_its_folder(looks)
    }

    /// Whether its folder is the one that it was.
    pub(super) fn has_its_folder(&self, looks: &mut Looks) -> bool {
        self.source.as_ref().is_none_or(|source| {
            let folder = looks.folders.stat(&source.bounds.folder);
            folder.is_some_and(|stat| source.ground.is(&stat))
        })
    }
}
