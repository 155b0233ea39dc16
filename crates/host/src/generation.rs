//! A configuration with everything loaded that it needs: what all workers serve with.
//!
//! ```text
//!  Config ──load──▶ Generation: Tenant (the main file) ──▶ WorkerState (worker 0)
//!    └─ include ──▶             Tenant, Tenant …           WorkerState (worker 1)
//!                               Directory: host, path ▶ tenant
//! ```
//!
//! What a configuration has in common with the one before is taken over: a tenant whose files are as they were is the same
//! one, code is not loaded twice, and programs that run go on.

mod directory;
mod ground;
mod load;
mod load_filters;
mod load_services;
mod operators;
mod programs;
mod relied_on;
mod suspects;
mod tenant;
mod tenants;
mod tried;

pub(crate) use load::describe;
pub use load::{LoadError, Tools, load};
pub use suspects::Suspects;
pub(crate) use tenant::Tenant;
pub use tenants::Broken;
pub(crate) use tenants::Stamped;

use crate::{aside::Aside, config::Config, log::Log, metrics::Registry};
use directory::{Directory, Owner};
use http::request::Parts;
use relied_on::Site;
use std::{collections::BTreeSet, sync::Arc};

/// A configuration, loaded: what all workers serve with.
#[derive(Debug)]
pub struct Generation {
    /// Counts from 1.
    pub number: u64,
    /// What the main file asks for.
    pub config: Arc<Config>,
    /// The server's log.
    pub log: Log,
    /// The metrics of all guests.
    pub registry: Arc<Registry>,
    /// Where requests of slow filters are answered.
    pub aside: Arc<Aside<Self>>,
    /// Files that are not served as they stand, by their tenants' names.
    pub broken: Vec<Broken>,
    pub(crate) main: Arc<Tenant>,
    /// By their names.
    pub(crate) tenants: Vec<Arc<Tenant>>,
    directory: Arc<Directory>,
    /// What all of them must leave alone.
    site: Arc<Site>,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whereto {
    /// By this route.
    Route(Place),
    /// No route fits.
    Nowhere,
    /// It may be for a tenant whose file cannot be served.
    Unavailable,
}

/// A route of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The tenant's index; `None`: the main file.
    pub(crate) tenant: Option<usize>,
    /// The route's place in its file.
    pub(crate) route: usize,
}

impl Generation {
    /// Where a request goes when its path is this one.
    pub(crate) fn find(&self, request: &Parts, path: &str) -> Whereto {
        let (tenant, routes) = match self.directory.owner(request, path) {
            Owner::Main => (None, Some(&self.main.routes)),
            Owner::Tenant(at) => (Some(at), self.tenants.get(at).map(|tenant| &tenant.routes)),
            Owner::Nobody => return Whereto::Nowhere,
            Owner::Unavailable => return Whereto::Unavailable,
        };
        let route = routes.and_then(|routes| routes.find_path(request, path));
        route.map_or(Whereto::Nowhere, |route| {
            Whereto::Route(Place { tenant, route })
        })
    }

    /// A tenant by its name; the main file's is empty.
    pub(crate) fn tenant(&self, name: &str) -> Option<&Arc<Tenant>> {
        if name.is_empty() {
            return Some(&self.main);
        }
        let at = self
            .tenants
            .binary_search_by(|tenant| (*tenant.name).cmp(name));
        self.tenants.get(at.ok()?)
    }

    /// The main file's and all others.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Tenant>> {
        std::iter::once(&self.main).chain(&self.tenants)
    }

    /// Those that `previous` does not have, or has otherwise: each with what it was there.
    pub(crate) fn changed<'a>(
        &'a self,
        previous: Option<&'a Self>,
    ) -> impl Iterator<Item = (&'a Arc<Tenant>, Option<&'a Arc<Tenant>>)> {
        let mut before = ByName::of(previous);
        let main = (&self.main, previous.map(|previous| &previous.main));
        let tenants = self.tenants.iter();
        let tenants = tenants.map(move |tenant| (tenant, before.find(&tenant.name)));
        let all = std::iter::once(main).chain(tenants);
        all.filter(|(tenant, known)| !known.is_some_and(|known| Arc::ptr_eq(known, tenant)))
    }

    /// Names of those that `self` has and `next` does not have, or has otherwise.
    pub(crate) fn changed_names(&self, next: &Self) -> Vec<Arc<str>> {
        let changed = next.changed(Some(self)).map(|(tenant, _)| tenant);
        let mut after = ByName::of(Some(next));
        let gone = self.tenants.iter();
        let gone = gone.filter(|tenant| after.find(&tenant.name).is_none());
        changed
            .chain(gone)
            .map(|tenant| Arc::clone(&tenant.name))
            .collect()
    }

    /// Names of those whose files are not served as they stand.
    pub(crate) fn broken_names(&self) -> impl Iterator<Item = Arc<str>> {
        self.broken.iter().map(|broken| Arc::clone(&broken.tenant))
    }

    /// Names of those whose files are broken in one of both, and were tried since.
    pub(crate) fn tried_names(&self, next: &Self) -> Vec<Arc<str>> {
        let mut after = ByName::new(&next.broken);
        let mut before = ByName::new(&self.broken);
        let is_same = |one: &Broken, other: Option<&Broken>| {
            other.is_some_and(|other| Arc::ptr_eq(&one.tried, &other.tried))
        };
        let old = self.broken.iter();
        let old = old.filter(|broken| !is_same(broken, after.find(&broken.tenant)));
        let new = next.broken.iter();
        let new = new.filter(|broken| !is_same(broken, before.find(&broken.tenant)));
        old.chain(new)
            .map(|broken| Arc::clone(&broken.tenant))
            .collect()
    }

    /// The files of each of these tenants, as they were when they were read. One that is broken is read again when its
    /// files change.
    pub(crate) fn files_of(&self, names: &BTreeSet<Arc<str>>) -> Vec<FilesOf> {
        let files = |name: &Arc<str>| {
            let broken = self
                .broken
                .binary_search_by(|broken| broken.tenant.cmp(name));
            let broken = broken.ok().map(|at| &self.broken[at].tried.files);
            let files = broken.or(self.tenant(name).map(|tenant| &tenant.files));
            (Arc::clone(name), files.cloned().unwrap_or_default())
        };
        names.iter().map(files).collect()
    }

    /// What in tenants' files is probably not meant, each with the tenant's name.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = (&Arc<str>, &String)> {
        self.tenants.iter().flat_map(|tenant| {
            let warnings = tenant.source.iter().flat_map(|source| &source.warnings);
            warnings.map(|warning| (&tenant.name, warning))
        })
    }
}

/// Those of a generation who are in the order of their names, for one who asks for them in that order.
struct ByName<'a, T>(&'a [T]);

/// Who has a tenant's name.
trait Named {
    fn name(&self) -> &str;
}

impl Named for Arc<Tenant> {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Broken {
    fn name(&self) -> &str {
        &self.tenant
    }
}

impl<'a> ByName<'a, Arc<Tenant>> {
    fn of(generation: Option<&'a Generation>) -> Self {
        Self(generation.map_or(&[], |generation| &generation.tenants))
    }
}

impl<'a, T: Named> ByName<'a, T> {
    fn new(all: &'a [T]) -> Self {
        Self(all)
    }

    fn find(&mut self, name: &str) -> Option<&'a T> {
        while let Some((first, rest)) = self.0.split_first() {
            if first.name() >= name {
                return (first.name() == name).then_some(first);
            }
            self.0 = rest;
        }
        None
    }
}

/// A tenant's name, and the files that it was made from, as they were.
pub(crate) type FilesOf = (Arc<str>, Vec<Stamped>);
