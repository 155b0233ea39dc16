//! The tenants of a configuration: which files there are, which of them are as they were, and which cannot be served.
//!
//! ```text
//!  file as it was ───────────────────────▶ the tenant as it is, untouched
//!  new, changed ──read──▶ load ──▶ claims ──▶ a new one
//!                  └───────┴─────────┴── no: the old one serves on, where there is one, and everybody is told why
//! ```

use super::{
    ByName, Generation,
    directory::{Claimant, Directory, Given},
    load::{LoadError, Tools, describe},
    relied_on::Site,
    tenant::{Source, Tenant},
};
use crate::{
    code::{CodeStore, Preload},
    config::{Bounds, Claim, Config, ConfigFile, ServiceKind},
    stamp::ExactStamp,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A tenant's file that is not served as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The tenant.
    pub tenant: Arc<str>,
    /// Why.
    pub message: String,
    /// What its file was before serves on.
    pub is_served: bool,
    /// What was read of it, as it was before.
    pub(crate) files: Vec<Stamped>,
}

/// A file as it was before it was read.
pub(crate) type Stamped = (PathBuf, Option<ExactStamp>);

/// What the files of tenants came to.
#[derive(Default)]
pub(super) struct Tenants {
    pub(super) tenants: Vec<Arc<Tenant>>,
    pub(super) directory: Arc<Directory>,
    pub(super) broken: Vec<Broken>,
}

/// A tenant's file, and where it was found.
struct Found<'a> {
    name: Arc<str>,
    folder: &'a Path,
    path: PathBuf,
}

/// What may serve for a tenant.
struct Candidate {
    name: Arc<str>,
    path: PathBuf,
    /// `None`: its name or the main file makes it impossible.
    bounds: Option<Arc<Bounds>>,
    version: Option<Arc<Tenant>>,
    /// What served until now, where that may still be.
    old: Option<Arc<Tenant>>,
    error: Option<String>,
    /// What was read of it.
    files: Vec<Stamped>,
    /// Code of `version` that is new.
    new: Vec<Arc<dyn Preload>>,
}

/// What candidates are made with.
struct Loading<'a> {
    config: &'a Config,
    site: &'a Arc<Site>,
    /// The main file says the same of all tenants as before.
    is_same_tenancy: bool,
    tools: &'a Tools,
}

/// Loads the tenants of the main file `config`, and all code that is new, that of the main file among it, where that is
/// little.
pub(super) fn load(
    config: &Config,
    main_file: &str,
    site: &Arc<Site>,
    new_of_main: Vec<Arc<dyn Preload>>,
    previous: Option<&Generation>,
    tools: &Tools,
) -> Result<Tenants, LoadError> {
    if config.tenancy.include.is_empty() {
        preload(new_of_main, &mut [], &tools.code)?;
        return Ok(Tenants::default());
    }
    let loading = Loading {
        config,
        site,
        is_same_tenancy: previous.is_some_and(|previous| previous.config.tenancy == config.tenancy),
        tools,
    };
    let mut before = ByName::of(previous);
    let mut candidates = Vec::new();
    let mut found = find_files(config)?.into_iter().peekable();
    while let Some(first) = found.next() {
        let mut others = Vec::new();
        while let Some(other) = found.next_if(|other| other.name == first.name) {
            others.push(other.path);
        }
        let old = before.find(&first.name);
        candidates.push(match loading.as_it_was(&first, &others, old) {
            Some(candidate) => candidate,
            None => loading.candidate(first, &others, old),
        });
    }
    preload(new_of_main, &mut candidates, &tools.code)?;
    let directory = match unchanged_directory(config, &candidates, previous) {
        Some(directory) => directory,
        None => settle(config, main_file, &mut candidates, previous),
    };
    let broken = candidates.iter().filter_map(Candidate::broken).collect();
    let tenants = candidates
        .into_iter()
        .filter_map(|candidate| candidate.version);
    Ok(Tenants {
        tenants: tenants.collect(),
        directory,
        broken,
    })
}

/// Loads what code of all files is new, where that is little; else has it compiled when nothing else is to do. A tenant whose
/// code is broken falls back.
fn preload(
    of_main: Vec<Arc<dyn Preload>>,
    candidates: &mut [Candidate],
    store: &CodeStore,
) -> Result<(), LoadError> {
    let load = |new: &[Arc<dyn Preload>]| {
        let loaded = CodeStore::preload(new);
        loaded.map_err(|(guest, source)| LoadError::Code { guest, source })
    };
    // However much code tenants have, that of the main file is looked at as before.
    match store.are_few(of_main.len()) {
        true => load(&of_main)?,
        false => store.preload_later(&of_main),
    }
    let of_tenants = candidates.iter().map(|candidate| candidate.new.len());
    if !store.are_few(of_tenants.sum()) {
        for candidate in candidates {
            store.preload_later(&std::mem::take(&mut candidate.new));
        }
        return Ok(());
    }
    for candidate in candidates {
        if let Err(error) = load(&std::mem::take(&mut candidate.new)) {
            candidate.fall_back(describe(&error));
        }
    }
    Ok(())
}

/// Every file of a tenant, in the order of their names.
fn find_files(config: &Config) -> Result<Vec<Found<'_>>, LoadError> {
    let mut found = Vec::new();
    for include in &config.tenancy.include {
        let of_folder = |source| LoadError::Include {
            folder: include.folder.clone(),
            source,
        };
        for entry in std::fs::read_dir(&include.folder).map_err(of_folder)? {
            let file = entry.map_err(of_folder)?.file_name();
            if let Some(name) = include.tenant(&file) {
                found.push(Found {
                    name: name.into(),
                    folder: &include.folder,
                    path: include.folder.join(&file),
                });
            }
        }
    }
    found.sort_unstable_by(|one, other| (&one.name, &one.path).cmp(&(&other.name, &other.path)));
    // Of two patterns that fit.
    found.dedup_by(|one, other| one.path == other.path);
    Ok(found)
}

impl Loading<'_> {
    /// A tenant that is what it was, if it is: it takes a look at its files, and nothing else.
    fn as_it_was(
        &self,
        found: &Found<'_>,
        others: &[PathBuf],
        old: Option<&Arc<Tenant>>,
    ) -> Option<Candidate> {
        let old = old.filter(|_| others.is_empty())?;
        let source = old.source.as_ref()?;
        let is_given = self.is_same_tenancy
            || matches!(self.config.tenancy.bounds(&found.name), Ok(bounds) if bounds == *source.bounds);
        let is_as_it_was = is_given
            && Arc::ptr_eq(&source.site, self.site)
            && old
                .files
                .first()
                .is_some_and(|(path, _)| *path == found.path)
            && old.is_current();
        is_as_it_was.then(|| Candidate {
            name: Arc::clone(&old.name),
            path: found.path.clone(),
            bounds: Some(Arc::clone(&source.bounds)),
            version: Some(Arc::clone(old)),
            old: Some(Arc::clone(old)),
            error: None,
            files: Vec::new(),
            new: Vec::new(),
        })
    }

    fn candidate(
        &self,
        found: Found<'_>,
        others: &[PathBuf],
        old: Option<&Arc<Tenant>>,
    ) -> Candidate {
        let all = std::iter::once(&found.path).chain(others);
        let mut candidate = Candidate {
            name: Arc::clone(&found.name),
            path: found.path.clone(),
            bounds: None,
            version: None,
            old: None,
            error: None,
            files: all.map(|path| stamped(path)).collect(),
            new: Vec::new(),
        };
        let bounds = match self.bounds(&found.name, old) {
            Ok(bounds) => bounds,
            Err(error) => {
                candidate.error = Some(error);
                return candidate;
            }
        };
        candidate.bounds = Some(Arc::clone(&bounds));
        // What was given when it was loaded may not be given any more.
        let is_given = |old: &&Arc<Tenant>| {
            let source = old.source.as_ref();
            source.is_some_and(|source| source.bounds == bounds)
        };
        candidate.old = old.filter(is_given).cloned();
        let old = candidate.old.clone();
        let loaded = match others {
            [] => self.load(&found, &bounds, old.as_deref(), &mut candidate),
            _ => Err(format!(
                "policy: tenant {} has several files: {} and {}",
                found.name,
                found.path.display(),
                others[0].display()
            )),
        };
        match loaded {
            Ok(tenant) => candidate.version = Some(tenant),
            Err(error) => candidate.fall_back(error),
        }
        candidate
    }

    fn bounds(&self, name: &str, old: Option<&Arc<Tenant>>) -> Result<Arc<Bounds>, String> {
        let known = old
            .and_then(|old| old.source.as_ref())
            .filter(|_| self.is_same_tenancy);
        match known {
            Some(source) => Ok(Arc::clone(&source.bounds)),
            None => self.config.tenancy.bounds(name).map(Arc::new),
        }
    }

    /// `candidate` is told of what is read, and of code that is new.
    fn load(
        &self,
        found: &Found<'_>,
        bounds: &Arc<Bounds>,
        old: Option<&Tenant>,
        candidate: &mut Candidate,
    ) -> Result<Arc<Tenant>, String> {
        check_folder(&bounds.folder)?;
        let own = &mut candidate.files;
        let file = ConfigFile::read_tenant(found.folder, &found.path, bounds, |path| {
            own.push(stamped(path));
        });
        let file = file.map_err(|error| format!("policy: {error}"))?;
        own.extend(code_of(&file.config).map(stamped));
        let config = Arc::new(file.config);
        let files: Vec<_> = own.iter().map(|(path, _)| path.clone()).collect();
        let name = Arc::clone(&found.name);
        let mut new = Vec::new();
        let tenant = Tenant::load(name, &config, &files, old, self.site, &mut new, self.tools);
        let tenant = tenant.map_err(|error| describe(&error))?;
        candidate.new = new;
        Ok(Arc::new(Tenant {
            files: own.clone(),
            source: Some(Source {
                claims: config.claims(bounds),
                bounds: Arc::clone(bounds),
                warnings: file.warnings,
                site: Arc::clone(self.site),
            }),
            ..tenant
        }))
    }
}

/// A tenant's folder is where its letters say: else two could have one.
fn check_folder(folder: &Path) -> Result<(), String> {
    match folder.canonicalize() {
        Ok(path) if path == folder => Ok(()),
        Ok(path) => Err(format!(
            "policy: the folder {} is reached by a link: name it as {}",
            folder.display(),
            path.display()
        )),
        Err(error) => Err(format!(
            "policy: the folder {}: {error}; make it",
            folder.display()
        )),
    }
}

fn stamped(path: &Path) -> Stamped {
    (path.to_owned(), ExactStamp::of(path))
}

/// Modules and components.
fn code_of(config: &Config) -> impl Iterator<Item = &Path> {
    let modules = config
        .filters
        .values()
        .map(|filter| filter.module.as_path());
    let components = config
        .services
        .values()
        .filter_map(|service| match &service.kind {
            ServiceKind::Component(component) => Some(component.component.as_path()),
            _ => None,
        });
    modules.chain(components)
}

impl Candidate {
    /// It is not to be what its file says now.
    fn fall_back(&mut self, error: String) {
        let is_old = |version: &Arc<Tenant>| {
            self.old
                .as_ref()
                .is_some_and(|old| Arc::ptr_eq(old, version))
        };
        self.version = match self.version.as_ref().is_some_and(is_old) {
            true => None,
            false => self.old.clone(),
        };
        self.error = Some(error);
    }

    fn broken(&self) -> Option<Broken> {
        Some(Broken {
            tenant: Arc::clone(&self.name),
            message: self.error.clone()?,
            is_served: self.version.is_some(),
            files: self.files.clone(),
        })
    }

    fn claimant(&self) -> Claimant<'_> {
        let source = self
            .version
            .as_ref()
            .and_then(|version| version.source.as_ref());
        Claimant {
            name: &self.name,
            file: self.path.display().to_string(),
            given: self
                .bounds
                .iter()
                .flat_map(|bounds| bounds.given())
                .collect(),
            claims: source.map(|source| &*source.claims),
            is_broken: self.version.is_none(),
        }
    }
}

/// The directory that serves now, if the same tenants have the same.
fn unchanged_directory(
    config: &Config,
    candidates: &[Candidate],
    previous: Option<&Generation>,
) -> Option<Arc<Directory>> {
    let previous = previous?;
    let claims_of_main = |config: &Config| -> Vec<Claim> {
        let routes = config.routes.iter();
        let claims = routes.filter_map(|route| {
            Some(Claim {
                host: route.host.clone()?,
                path: route.path.clone(),
            })
        });
        claims.collect()
    };
    let has_same = |(candidate, before): (&Candidate, &Arc<Tenant>)| {
        let Some(now) = &candidate.version else {
            return false;
        };
        let same_source = |(now, before): (&Source, &Source)| {
            now.claims == before.claims && now.bounds == before.bounds
        };
        candidate.error.is_none()
            && now.name == before.name
            && (Arc::ptr_eq(now, before)
                || now
                    .source
                    .as_ref()
                    .zip(before.source.as_ref())
                    .is_some_and(same_source))
    };
    let is_same = previous.broken.is_empty()
        && previous.config.tenancy == config.tenancy
        && candidates.len() == previous.tenants.len()
        && candidates.iter().zip(&previous.tenants).all(has_same)
        && claims_of_main(config) == claims_of_main(&previous.config);
    is_same.then(|| Arc::clone(&previous.directory))
}

/// Sees to it that nobody has what another one has: until nobody has to fall back any more.
fn settle(
    config: &Config,
    main_file: &str,
    candidates: &mut [Candidate],
    previous: Option<&Generation>,
) -> Arc<Directory> {
    let had = |name: &str, claim: &Claim| {
        let before = previous.and_then(|previous| previous.tenant(name));
        let source = before.and_then(|before| before.source.as_ref());
        source.is_some_and(|source| source.claims.binary_search(claim).is_ok())
    };
    let absent = absent_tenants(config, candidates);
    loop {
        let present = candidates.iter().map(Candidate::claimant);
        let claimants: Vec<_> = present
            .chain(absent.iter().map(AbsentTenant::claimant))
            .collect();
        let given = Given::new(main_file, &config.routes, &claimants);
        let refused = given.refused(&claimants, had);
        if refused.is_empty() {
            let mut places = Vec::with_capacity(candidates.len());
            let mut next = 0;
            for candidate in candidates.iter() {
                places.push(candidate.version.as_ref().map(|_| next));
                next += usize::from(candidate.version.is_some());
            }
            let place = |at: usize| places.get(at).copied().flatten();
            return Arc::new(Directory::new(&given, &claimants, place));
        }
        for (at, reason) in refused {
            candidates[at].fall_back(reason);
        }
    }
}

/// A tenant that the main file names, and that has no file.
struct AbsentTenant {
    name: String,
    given: Vec<Claim>,
}

impl AbsentTenant {
    fn claimant(&self) -> Claimant<'_> {
        Claimant {
            name: &self.name,
            file: "no file".into(),
            given: self.given.clone(),
            claims: None,
            is_broken: false,
        }
    }
}

fn absent_tenants(config: &Config, candidates: &[Candidate]) -> Vec<AbsentTenant> {
    let is_there = |name: &str| {
        candidates
            .binary_search_by(|one| (*one.name).cmp(name))
            .is_ok()
    };
    let names = config.tenancy.each.keys().filter(|name| !is_there(name));
    let absent = names.filter_map(|name| {
        Some(AbsentTenant {
            name: name.clone(),
            given: config.tenancy.bounds(name).ok()?.given().collect(),
        })
    });
    absent.collect()
}
