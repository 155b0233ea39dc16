//! The tenants of a configuration: which files there are, which of them are as they were, and which cannot be served.
//!
//! ```text
//!  file as it was ───────────────────────▶ the tenant as it is, untouched
//!             └── broken: as it was, too, until something of what it was tried with changes
//!  new, changed ──read──▶ load ──▶ folder ──▶ claims ──▶ a new one
//!                  └───────┴─────────┴──────────┴── no: the old one serves on, where there is one, and everybody is told why
//! ```

use super::{
    ByName, Generation,
    directory::{Claimant, Directory, Given},
    ground::{Ground, overlapping},
    load::{LoadError, Tools, describe},
    relied_on::{Site, refuse_all},
    suspects::Suspects,
    tenant::{Looks, Source, Tenant},
    tried::{Place, Refused, Tried, places},
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
#[derive(Clone, Debug)]
pub struct Broken {
    /// The tenant.
    pub tenant: Arc<str>,
    /// Why.
    pub message: Arc<str>,
    /// What its file was before serves on.
    pub is_served: bool,
    /// With what it was tried.
    pub(crate) tried: Arc<Tried>,
}

/// Of what is told of one file. It may show a line of that, which may be as long as it is.
const MOST_MESSAGE_BYTES: usize = 4 << 10;

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
struct Candidate<'a> {
    name: Arc<str>,
    path: PathBuf,
    /// `None`: its name or the main file makes it impossible.
    bounds: Option<Arc<Bounds>>,
    version: Option<Arc<Tenant>>,
    /// What served until now, where that may still be.
    old: Option<Arc<Tenant>>,
    error: Option<Arc<str>>,
    /// Of most there is none: they are as they were.
    attempt: Option<Box<Attempt>>,
    /// It is loaded, and has to leave what it wants to another one.
    refused: Option<Refused>,
    /// What it was tried with before, if it was not now.
    before: Option<&'a Broken>,
    /// Code of `version` that is new.
    new: Vec<Arc<dyn Preload>>,
}

/// What a file was tried with.
#[derive(Default)]
struct Attempt {
    /// What was read of it: files of the tenant, so many of them, and what these name.
    files: Vec<Stamped>,
    own: usize,
    /// Where else it leads.
    places: Vec<(PathBuf, Place)>,
    is_of_host: bool,
}

/// Why a file is not loaded.
struct Failure {
    message: String,
    /// It is not for what the file says.
    is_of_host: bool,
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self {
            message,
            is_of_host: false,
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self {
            message: describe(&error),
            is_of_host: error.is_of_host(),
        }
    }
}

/// What candidates are made with.
struct Loading<'a> {
    config: &'a Config,
    site: &'a Arc<Site>,
    /// The main file says the same of all tenants as before.
    is_same_tenancy: bool,
    suspects: &'a Suspects,
    tools: &'a Tools,
}

/// Loads the tenants of the main file `config`, and all code that is new, that of the main file among it, where that is
/// little.
pub(super) fn load(
    config: &Config,
    main_file: &str,
    site: &Arc<Site>,
    new_of_main: Vec<Arc<dyn Preload>>,
    (previous, suspects): (Option<&Generation>, &Suspects),
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
        suspects,
        tools,
    };
    let mut before = ByName::of(previous);
    let mut broken = ByName::new(previous.map_or(&[][..], |previous| &previous.broken));
    let mut candidates = Vec::with_capacity(previous.map_or(0, |previous| previous.tenants.len()));
    let mut looks = Looks::default();
    let mut found = find_files(config)?.into_iter().peekable();
    while let Some(first) = found.next() {
        let mut others = Vec::new();
        while let Some(other) = found.next_if(|other| other.name == first.name) {
            others.push(other.path);
        }
        let old = before.find(&first.name);
        let untouched = match broken.find(&first.name) {
            Some(broken) => loading.as_it_was_tried(&first, &others, (old, broken), &mut looks),
            None => loading.as_it_was(&first, &others, old, &mut looks),
        };
        candidates.push(match untouched {
            Some(candidate) => candidate,
            None => loading.candidate(first, &others, old),
        });
    }
    preload(new_of_main, &mut candidates, &tools.code)?;
    refuse_folders_of_others(&mut candidates);
    let directory = match unchanged_directory(config, &mut candidates, previous) {
        Some(directory) => directory,
        None => settle(config, main_file, &mut candidates, previous),
    };
    let broken = candidates.iter().filter_map(|one| one.broken(site));
    let broken = broken.collect();
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
    candidates: &mut [Candidate<'_>],
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
            candidate.fail(error.into());
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
    found.sort_unstable_by(|one, other| {
        (&one.name, one.path.as_os_str()).cmp(&(&other.name, other.path.as_os_str()))
    });
    // Of two patterns that fit.
    found.dedup_by(|one, other| one.path.as_os_str() == other.path.as_os_str());
    Ok(found)
}

impl<'a> Loading<'a> {
    /// A tenant that is what it was, if it is: it takes a look at its folder, and at the files of a suspect, and nothing else.
    fn as_it_was(
        &self,
        found: &Found<'_>,
        others: &[PathBuf],
        old: Option<&Arc<Tenant>>,
        looks: &mut Looks,
    ) -> Option<Candidate<'a>> {
        let old = old.filter(|_| others.is_empty())?;
        let source = old.source.as_ref()?;
        let is_as_it_was = self.gives(&found.name, &source.bounds)
            && Arc::ptr_eq(&source.site, self.site)
            && old
                .files
                .first()
                .is_some_and(|(path, _)| path.as_os_str() == found.path.as_os_str())
            && match self.suspects.have(&found.name) {
                true => old.is_current(looks),
                // Whoever exchanged it may have given it another one's.
                false => old.has_its_folder(looks),
            };
        is_as_it_was.then(|| Candidate {
            bounds: Some(Arc::clone(&source.bounds)),
            version: Some(Arc::clone(old)),
            old: Some(Arc::clone(old)),
            ..Candidate::new(Arc::clone(&old.name), found.path.clone())
        })
    }

    /// A tenant whose file was tried in vain, if it would be again: all that was looked at is as it was.
    fn as_it_was_tried(
        &self,
        found: &Found<'_>,
        others: &[PathBuf],
        (old, before): (Option<&Arc<Tenant>>, &'a Broken),
        looks: &mut Looks,
    ) -> Option<Candidate<'a>> {
        let tried = &before.tried;
        let bounds = tried.bounds.as_ref()?;
        let own: Vec<_> = std::iter::once(&found.path).chain(others).collect();
        let is_as_it_was = self.gives(&found.name, bounds)
            && Arc::ptr_eq(&tried.site, self.site)
            && tried.is_current(own.into_iter())
            && tried
                .refused
                .as_ref()
                .is_none_or(|refused| refused.tenant.is_current(looks));
        if !is_as_it_was {
            return None;
        }
        let old = old.filter(|old| old.was_given(bounds)).cloned();
        let refused = tried.refused.as_ref();
        Some(Candidate {
            bounds: Some(Arc::clone(bounds)),
            // Who was refused asks again: whether another one has it is not for its file to say.
            version: refused.map_or_else(|| old.clone(), |one| Some(Arc::clone(&one.tenant))),
            old,
            error: match refused {
                Some(_) => None,
                None => Some(Arc::clone(&before.message)),
            },
            before: Some(before),
            ..Candidate::new(Arc::clone(&before.tenant), found.path.clone())
        })
    }

    /// Whether the main file still gives this to a tenant.
    fn gives(&self, tenant: &str, bounds: &Bounds) -> bool {
        self.is_same_tenancy
            || matches!(self.config.tenancy.bounds(tenant), Ok(given) if given == *bounds)
    }

    fn candidate(
        &self,
        found: Found<'_>,
        others: &[PathBuf],
        old: Option<&Arc<Tenant>>,
    ) -> Candidate<'a> {
        let all = std::iter::once(&found.path).chain(others);
        let mut attempt = Attempt {
            files: all.map(|path| stamped(path)).collect(),
            own: others.len() + 1,
            ..Attempt::default()
        };
        let mut candidate = Candidate::new(Arc::clone(&found.name), found.path.clone());
        let bounds = match self.bounds(&found.name, old) {
            Ok(bounds) => bounds,
            Err(error) => {
                candidate.fall_back(&error);
                return candidate;
            }
        };
        candidate.bounds = Some(Arc::clone(&bounds));
        // What was given when it was loaded may not be given any more.
        let old = old.filter(|old| old.was_given(&bounds)).cloned();
        candidate.old = old.clone().filter(|old| self.may_serve_on(old));
        let loaded = match others {
            [] => self.load(
                &found,
                &bounds,
                old.as_deref(),
                (&mut candidate, &mut attempt),
            ),
            _ => Err(Failure::from(format!(
                "policy: tenant {} has several files: {} and {}",
                found.name,
                found.path.display(),
                others[0].display()
            ))),
        };
        match loaded {
            Ok(tenant) => {
                // Where it leads is looked at by whoever serves it.
                attempt.places.clear();
                candidate.version = Some(tenant);
            }
            Err(failure) => {
                attempt.is_of_host = failure.is_of_host;
                candidate.fail(failure);
            }
        }
        candidate.attempt = Some(Box::new(attempt));
        candidate
    }

    /// Whether this site lets a tenant go on as it was. On another one it may have been given what would be refused here.
    fn may_serve_on(&self, old: &Tenant) -> bool {
        let source = old.source.as_ref();
        let is_same_site = source.is_some_and(|source| Arc::ptr_eq(&source.site, self.site));
        let files = old.files.iter().map(|(path, _)| path.clone());
        let files: Vec<_> = files.collect();
        is_same_site || refuse_all(&old.name, &old.config, &files, self.site).is_ok()
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
        (candidate, attempt): (&mut Candidate<'_>, &mut Attempt),
    ) -> Result<Arc<Tenant>, Failure> {
        // Until more is known of it.
        attempt.places = places(bounds, None);
        let ground = match look_at_folder(&bounds.folder) {
            Ok(ground) => ground,
            Err(error) => {
                // What served is not to serve from another one's.
                candidate.old = candidate.old.take().filter(|_| !bounds.folder.exists());
                return Err(error.into());
            }
        };
        let own = &mut attempt.files;
        let file = ConfigFile::read_tenant(found.folder, &found.path, bounds, |path| {
            own.push(stamped(path));
        });
        let file = file.map_err(|error| format!("policy: {error}"))?;
        own.extend(code_of(&file.config).map(stamped));
        let config = Arc::new(file.config);
        attempt.places = places(bounds, Some(&config));
        let files: Vec<_> = own.iter().map(|(path, _)| path.clone()).collect();
        let name = Arc::clone(&found.name);
        let mut new = Vec::new();
        let tenant = Tenant::load(name, &config, &files, old, self.site, &mut new, self.tools);
        let tenant = tenant?;
        candidate.new = new;
        Ok(Arc::new(Tenant {
            files: own.clone(),
            source: Some(Source {
                claims: config.claims(bounds),
                bounds: Arc::clone(bounds),
                warnings: file.warnings,
                site: Arc::clone(self.site),
                ground,
            }),
            ..tenant
        }))
    }
}

/// A tenant's folder is where its letters say.
fn look_at_folder(folder: &Path) -> Result<Ground, String> {
    let gone = || format!("policy: the folder {} is gone; make it", folder.display());
    match folder.canonicalize() {
        Ok(path) if path == folder => Ground::of(folder).ok_or_else(gone),
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

impl Tenant {
    /// Whether it was loaded within these bounds.
    fn was_given(&self, bounds: &Bounds) -> bool {
        let source = self.source.as_ref();
        source.is_some_and(|source| *source.bounds == *bounds)
    }

    /// What it claims of what is given.
    fn claims(&self) -> &[Claim] {
        self.source
            .as_ref()
            .map_or(&[], |source| &source.claims[..])
    }
}

impl<'a> Candidate<'a> {
    /// Of which nothing is known yet.
    fn new(name: Arc<str>, path: PathBuf) -> Self {
        Self {
            name,
            path,
            bounds: None,
            version: None,
            old: None,
            error: None,
            attempt: None,
            refused: None,
            before: None,
            new: Vec::new(),
        }
    }

    /// Whether its version is what serves now.
    fn is_old(&self) -> bool {
        let both = self.version.as_ref().zip(self.old.as_ref());
        both.is_some_and(|(version, old)| Arc::ptr_eq(version, old))
    }

    fn fail(&mut self, failure: Failure) {
        if let Some(attempt) = &mut self.attempt {
            attempt.is_of_host = failure.is_of_host;
        }
        self.fall_back(&failure.message);
    }

    /// It is not to be what its file says now.
    fn fall_back(&mut self, error: &str) {
        self.version = match self.is_old() {
            true => None,
            false => self.old.clone(),
        };
        self.error = Some(shortened(error).into());
    }

    /// It is what its file says, and another one has what that wants.
    fn refuse(&mut self, error: &str, is_for_claims: bool) {
        let is_new = !self.is_old() && self.error.is_none();
        let tenant = self.version.as_ref().filter(|_| is_new);
        if let Some(tenant) = tenant {
            self.refused = Some(Refused {
                tenant: Arc::clone(tenant),
                is_for_claims,
            });
        }
        self.fall_back(error);
    }

    fn broken(&self, site: &Arc<Site>) -> Option<Broken> {
        let message = Arc::clone(self.error.as_ref()?);
        let is_served = self.version.is_some();
        // Nothing was tried, and nothing else came of it.
        if let Some(before) = self.before
            && (&before.message, before.is_served) == (&message, is_served)
            && before.tried.is_refused() == self.refused.is_some()
        {
            return Some(before.clone());
        }
        let (files, own, places, is_of_host) = match (&self.attempt, self.before) {
            (Some(tried), _) => (&tried.files, tried.own, &tried.places, tried.is_of_host),
            (None, Some(Broken { tried, .. })) => (&tried.files, tried.own, &tried.places, false),
            // It is what it was, and is refused now: its files are those of its version.
            (None, None) => (&Vec::new(), 0, &Vec::new(), false),
        };
        Some(Broken {
            tenant: Arc::clone(&self.name),
            message,
            is_served,
            tried: Arc::new(Tried {
                files: files.clone(),
                own,
                places: places.clone(),
                bounds: self.bounds.clone(),
                site: Arc::clone(site),
                refused: self.refused.clone(),
                is_of_host,
            }),
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

/// What is left of an error that is told again and again.
fn shortened(text: &str) -> String {
    match text.len() <= MOST_MESSAGE_BYTES {
        true => text.into(),
        false => {
            let end = text.floor_char_boundary(MOST_MESSAGE_BYTES);
            format!("{}…", &text[..end])
        }
    }
}

/// Sees to it that no folder is two tenants', by whatever name: who had his before keeps it.
fn refuse_folders_of_others(candidates: &mut [Candidate<'_>]) {
    let grounds: Vec<_> = candidates
        .iter()
        .map(|candidate| ground_of(candidate.version.as_ref()))
        .collect();
    let is_new = |at: usize| {
        let candidate = &candidates[at];
        !candidate.is_old() && ground_of(candidate.old.as_ref()) != grounds[at]
    };
    let overlaps: Vec<_> = overlapping(&grounds, is_new)
        .into_iter()
        .map(|(at, other)| (at, Arc::clone(&candidates[other].name)))
        .collect();
    for (at, other) in overlaps {
        let candidate = &mut candidates[at];
        let Some(bounds) = &candidate.bounds else {
            continue;
        };
        let error = format!(
            "policy: the folder {} is that of tenant {other}, too, or one lies in the other, by another name: give each tenant a \
             folder of its own",
            bounds.folder.display()
        );
        // What served there is not to serve from another one's.
        candidate.old = None;
        candidate.refuse(&error, false);
    }
}

fn ground_of(tenant: Option<&Arc<Tenant>>) -> Option<&Ground> {
    Some(&tenant?.source.as_ref()?.ground)
}

/// The directory that serves now, if the same tenants want the same: then the same are refused.
fn unchanged_directory(
    config: &Config,
    candidates: &mut [Candidate<'_>],
    previous: Option<&Generation>,
) -> Option<Arc<Directory>> {
    let previous = previous?;
    if previous.config.tenancy != config.tenancy
        || claims_of_main(config) != claims_of_main(&previous.config)
    {
        return None;
    }
    let mut tenants = ByName::new(&previous.tenants);
    let mut broken = ByName::new(&previous.broken);
    let mut served = 0;
    let mut unserved = 0;
    let mut refused = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        let (tenant, broken) = (tenants.find(&candidate.name), broken.find(&candidate.name));
        served += usize::from(tenant.is_some());
        unserved += usize::from(tenant.is_none() && broken.is_some());
        if !candidate.wants_the_same(tenant, broken) {
            return None;
        }
        let was_refused = broken.filter(|broken| broken.tried.is_refused_for_claims());
        refused.extend(was_refused.map(|broken| (at, Arc::clone(&broken.message))));
    }
    // Nobody is gone.
    let gone = previous.broken.iter().filter(|broken| !broken.is_served);
    if served != previous.tenants.len() || unserved != gone.count() {
        return None;
    }
    for (at, message) in refused {
        candidates[at].refuse(&message, true);
    }
    Some(Arc::clone(&previous.directory))
}

fn claims_of_main(config: &Config) -> Vec<(&String, &String)> {
    let routes = config.routes.iter();
    let claims = routes.filter_map(|route| Some((route.host.as_ref()?, &route.path)));
    claims.collect()
}

impl Candidate<'_> {
    /// Whether it claims what it did, of the same that is given to it, and would fall back to what serves now.
    fn wants_the_same(&self, tenant: Option<&Arc<Tenant>>, broken: Option<&Broken>) -> bool {
        let tried = broken.map(|broken| &broken.tried);
        let refused = tried.and_then(|tried| tried.refused.as_ref());
        let refused = refused.filter(|refused| refused.is_for_claims);
        let wanted = refused.map(|refused| &refused.tenant).or(tenant);
        let is_same = match (&self.version, wanted) {
            (Some(now), Some(before)) => {
                Arc::ptr_eq(now, before) || now.claims() == before.claims()
            }
            (now, before) => now.is_none() && before.is_none(),
        };
        let given = match (tried, tenant) {
            (Some(tried), _) => tried.bounds.as_ref(),
            (None, Some(tenant)) => tenant.source.as_ref().map(|source| &source.bounds),
            (None, None) => return false,
        };
        let is_given_the_same = match (&self.bounds, given) {
            (Some(now), Some(before)) => Arc::ptr_eq(now, before) || now == before,
            (now, before) => now.is_none() && before.is_none(),
        };
        let falls_back_to_the_same = refused.is_none() || self.old.is_some() == tenant.is_some();
        is_same && is_given_the_same && falls_back_to_the_same
    }
}

/// How often it is looked who has to fall back, before all do that want something new of what is given to several.
const MOST_ROUNDS: usize = 8;

/// Sees to it that nobody has what another one has: until nobody has to fall back any more.
///
/// Who falls back takes what he had from whom wants that now. Files of many tenants that want each what the next one has would
/// make it as many rounds as there are of them.
fn settle(
    config: &Config,
    main_file: &str,
    candidates: &mut [Candidate<'_>],
    previous: Option<&Generation>,
) -> Arc<Directory> {
    let had = |name: &str, claim: &Claim| {
        let before = previous.and_then(|previous| previous.tenant(name));
        let source = before.and_then(|before| before.source.as_ref());
        source.is_some_and(|source| source.claims.binary_search(claim).is_ok())
    };
    let absent = absent_tenants(config, candidates);
    let mut rounds = 0;
    loop {
        rounds += 1;
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
        let wanting: Vec<_> = match rounds > MOST_ROUNDS {
            true => (0..candidates.len())
                .filter(|at| !candidates[*at].is_old() && given.is_contestable(&claimants[*at]))
                .collect(),
            false => Vec::new(),
        };
        drop(claimants);
        for (at, reason) in &refused {
            candidates[*at].refuse(reason, true);
        }
        let also = |at: &usize| refused.binary_search_by_key(at, |(at, _)| *at).is_err();
        for at in wanting.into_iter().filter(also) {
            candidates[at].refuse(CHAINED, true);
        }
    }
}

/// What is told of who falls back with all others.
const CHAINED: &str = "policy: too many files want at one time what others have had until now: change them one after the other";

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

fn absent_tenants(config: &Config, candidates: &[Candidate<'_>]) -> Vec<AbsentTenant> {
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
