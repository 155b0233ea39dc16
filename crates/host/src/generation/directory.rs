//! Whose a request is: by its host, then by how its path begins.
//!
//! The main file gives hosts and paths to tenants. What says most about a request decides: its host's name before `*.NAME`,
//! a longer NAME before a shorter one, and at one host the longest path. What is given to one tenant alone is that one's,
//! also while its file is broken or missing: nobody else gets its requests. What is given to several is whose file claims
//! it; two that claim the same have none of it, unless one of them has had it until now. While one of them has a broken file,
//! nobody knows what that claims: what no other one claims by its very host is kept for it.

use crate::{
    config::{Claim, Route},
    lookup::{HostMap, PathMap},
    route::host,
};
use http::request::Parts;
use std::collections::HashMap;

/// Whose a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Owner {
    /// That of the main file's routes.
    Main,
    /// That of the tenant of this index.
    Tenant(usize),
    /// A tenant's that has no file.
    #[default]
    Nobody,
    /// A tenant's, or it may be one's, whose file is there and cannot be served.
    Unavailable,
}

/// Who has which host and path.
#[derive(Debug, Default)]
pub(super) struct Directory {
    /// By what the main file says.
    cells: HostMap<PathMap<Cell>>,
}

/// What has one owner by the main file, or is shared out by what files claim of it.
#[derive(Debug)]
enum Cell {
    Owned(Owner),
    Shared(Shared),
}

/// What is given to several.
#[derive(Debug, Default)]
struct Shared {
    claims: HostMap<PathMap<Owner>>,
    /// The file of one of them cannot be served, and what it claims is not known.
    has_broken: bool,
}

impl Shared {
    fn owner(&self, host: &str, path: &str) -> Owner {
        if !self.has_broken {
            return find(&self.claims, host, path)
                .copied()
                .unwrap_or(Owner::Main);
        }
        // Whatever is claimed by `*.NAME` the broken one may have claimed by a name, which says more. By one path it is
        // claimed all the same: who is given a longer one at this host has a cell of its own there.
        let own = self.claims.own(host);
        let owner = own.and_then(|by_path| by_path.longest(path));
        owner.copied().unwrap_or(Owner::Unavailable)
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self::Owned(Owner::Nobody)
    }
}

/// Somebody who may have requests: a tenant, by what the main file gives to it and what its file claims.
pub(super) struct Claimant<'a> {
    pub(super) name: &'a str,
    /// What its file is called in messages.
    pub(super) file: String,
    pub(super) given: Vec<Claim>,
    /// Of the version that is to serve; `None`: there is none.
    pub(super) claims: Option<&'a [Claim]>,
    /// It has a file of which no version serves.
    pub(super) is_broken: bool,
}

/// A claimant that cannot have what it claims, and why.
pub(super) type Refused = (usize, String);

/// What is given, by whom it is given to.
pub(super) struct Given<'a> {
    main_file: String,
    main: HashMap<Claim, &'a str>,
    holders: HostMap<PathMap<Held>>,
}

/// What the main file gives by the same words, and to whom.
#[derive(Default)]
struct Held {
    given: Option<Claim>,
    by: Vec<usize>,
}

impl Directory {
    /// Whose a request is when its path is this one.
    pub(super) fn owner(&self, request: &Parts, path: &str) -> Owner {
        if self.cells.is_empty() {
            return Owner::Main;
        }
        let Some(host) = host(request) else {
            return Owner::Main;
        };
        // First whose word counts: a claim takes nothing of what is given by other words.
        match find(&self.cells, host, path) {
            None => Owner::Main,
            Some(Cell::Owned(owner)) => *owner,
            Some(Cell::Shared(shared)) => shared.owner(host, path),
        }
    }

    /// Of those that are there, `place` gives the index.
    pub(super) fn new(
        given: &Given<'_>,
        claimants: &[Claimant<'_>],
        place: impl Fn(usize) -> Option<usize>,
    ) -> Self {
        let mut directory = Self::default();
        let owner = |at: usize| match place(at) {
            Some(at) => Owner::Tenant(at),
            None if claimants[at].is_broken => Owner::Unavailable,
            None => Owner::Nobody,
        };
        for (at, claimant) in claimants.iter().enumerate() {
            for claim in &claimant.given {
                if given.is_alone(claim) {
                    *directory.cell(claim) = Cell::Owned(owner(at));
                } else {
                    directory.shared(claim).has_broken |= claimant.is_broken;
                }
            }
            for claim in claimant.claims.into_iter().flatten() {
                if let Some(cell) = given.shared_cell(claim) {
                    let claims = &mut directory.shared(cell).claims;
                    *claims.entry(&claim.host).entry(&claim.path) = owner(at);
                }
            }
        }
        for claim in given.main.keys() {
            *directory.cell(claim) = Cell::Owned(Owner::Main);
        }
        directory
    }

    fn cell(&mut self, claim: &Claim) -> &mut Cell {
        self.cells.entry(&claim.host).entry(&claim.path)
    }

    fn shared(&mut self, claim: &Claim) -> &mut Shared {
        let cell = self.cell(claim);
        if let Cell::Owned(_) = cell {
            *cell = Cell::Shared(Shared::default());
        }
        match cell {
            Cell::Shared(shared) => shared,
            Cell::Owned(_) => unreachable!("it has just been made a shared one"),
        }
    }
}

/// What says most about a host and a path: the most exact host that has a path which fits.
fn find<'a, T>(map: &'a HostMap<PathMap<T>>, host: &str, path: &str) -> Option<&'a T> {
    map.fitting(host).find_map(|by_path| by_path.longest(path))
}

impl<'a> Given<'a> {
    pub(super) fn new(main_file: &str, routes: &'a [Route], claimants: &[Claimant<'_>]) -> Self {
        let mut holders: HostMap<PathMap<Held>> = HostMap::default();
        for (at, claimant) in claimants.iter().enumerate() {
            for claim in &claimant.given {
                let held = holders.entry(&claim.host).entry(&claim.path);
                held.given.get_or_insert_with(|| claim.clone());
                held.by.push(at);
            }
        }
        let of_hosts = routes.iter().filter_map(|route| {
            let claim = Claim {
                host: route.host.clone()?,
                path: route.path.clone(),
            };
            Some((claim, &*route.name))
        });
        Self {
            main_file: main_file.into(),
            main: of_hosts.collect(),
            holders,
        }
    }

    /// Whom the most exact words of the main file give this to.
    fn holders(&self, claim: &Claim) -> &[usize] {
        let found = find(&self.holders, &claim.host, &claim.path);
        found.map_or(&[], |held| &held.by)
    }

    fn is_alone(&self, claim: &Claim) -> bool {
        self.holders(claim).len() == 1
    }

    /// Whether somebody claims what others may claim, too.
    pub(super) fn is_contestable(&self, claimant: &Claimant<'_>) -> bool {
        let mut claims = claimant.claims.into_iter().flatten();
        claims.any(|claim| !self.is_alone(claim))
    }

    /// The words by which this is given, where that is to several.
    fn shared_cell(&self, claim: &Claim) -> Option<&Claim> {
        let held = find(&self.holders, &claim.host, &claim.path)?;
        held.given.as_ref().filter(|_| held.by.len() != 1)
    }

    /// Those of the claimants who cannot have what they claim. `had` says whether a
    /// tenant has had a claim until now.
    pub(super) fn refused(
        &self,
        claimants: &[Claimant<'_>],
        had: impl Fn(&str, &Claim) -> bool,
    ) -> Vec<Refused> {
        let mut refused = Vec::new();
        let mut shared: HashMap<&Claim, Vec<usize>> = HashMap::new();
        for (at, claimant) in claimants.iter().enumerate() {
            let claims = claimant.claims.into_iter().flatten();
            for claim in claims {
                match self.refusal(at, claim, claimants) {
                    Some(reason) => refused.push((at, reason)),
                    None if self.is_alone(claim) => {}
                    None => shared.entry(claim).or_default().push(at),
                }
            }
        }
        let contested = shared.into_iter().filter(|(_, by)| by.len() > 1);
        for (claim, by) in contested {
            let mut by_now = by.iter().copied();
            let kept = by_now.find(|at| had(claimants[*at].name, claim));
            for at in by.iter().copied().filter(|at| Some(*at) != kept) {
                let other = kept.or_else(|| by.iter().copied().find(|other| *other != at));
                let other = other.map_or("", |other| &claimants[other].file);
                refused.push((
                    at,
                    format!(
                        "policy: {claim} is claimed by {} and by {other}",
                        claimants[at].file
                    ),
                ));
            }
        }
        refused.sort();
        refused.dedup_by_key(|(at, _)| *at);
        refused
    }

    fn refusal(&self, at: usize, claim: &Claim, claimants: &[Claimant<'_>]) -> Option<String> {
        let file = &claimants[at].file;
        if let Some(route) = self.main.get(claim) {
            return Some(format!(
                "policy: {claim} is claimed by {file} and by route {route} of {}",
                self.main_file
            ));
        }
        let holders = self.holders(claim);
        // They are in order, and may be all tenants that there are.
        if holders.binary_search(&at).is_ok() {
            return None;
        }
        let other = holders.first().map(|other| &claimants[*other]);
        let other = other.map_or("nobody".into(), |other| {
            format!("{}, of {}", other.name, other.file)
        });
        Some(format!(
            "policy: {claim} is claimed by {file} and given to tenant {other}"
        ))
    }
}

#[cfg(test)]
mod tests;
