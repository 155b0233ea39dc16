//! Other names of hidden files: hard links.

use super::{HostPath, Layout, Unheld, Walk};
use crate::{
    host::{EntryKind, Host, Identity, Kind},
    plan_error::PlanError,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Hidden files with more than one name, and where each is hidden.
#[derive(Clone, Debug, Default)]
pub(in crate::layout) struct Linked(BTreeMap<Identity, PathBuf>);

impl Layout {
    /// Finds such files, and refuses where the guest sees another of their names.
    pub(super) fn look_for_links(&mut self, host: &dyn Host) -> Result<(), PlanError> {
        let mut linked = Linked::default();
        let mut walk = Walk::new(self, host);
        for (guest, on_host) in self.hidden() {
            match host.kind_and_mode(on_host) {
                Ok((Kind::Folder, _)) => walk.through_host(on_host, |path, entry| {
                    if entry.kind == EntryKind::File {
                        linked.add(host, path, guest);
                    }
                })?,
                Ok(_) => linked.add(host, on_host, guest),
                Err(_) => {}
            }
        }
        let mut is_cut_short = walk.is_cut_short();
        for (guest, source) in self.granted_places() {
            is_cut_short |= self.refuse_links_in((guest, source), &linked, host)?;
        }
        if is_cut_short {
            let first = self.hidden().next().map(|(guest, _)| guest.to_path_buf());
            self.unheld
                .extend(first.map(|guest| (guest, Unheld::TooManyLinks)));
        }
        self.linked = linked;
        Ok(())
    }

    /// The same for something that is granted later: of what lies in hidden folders as it was at the start, for nobody looks into
    /// them by then. What is too much to look through is refused, and what may not be.
    pub(in crate::layout) fn refuse_links_in_grant(
        &self,
        place: (&Path, &HostPath),
        host: &dyn Host,
    ) -> Result<(), PlanError> {
        let mut linked = self.linked.clone();
        for (guest, on_host) in self.hidden() {
            linked.add(host, on_host, guest);
        }
        match self.refuse_links_in(place, &linked, host)? {
            true => Err(PlanError::TooMuchToLookThrough {
                most: super::walk::MOST,
            }),
            false => Ok(()),
        }
    }

    /// Says whether there was more than is looked at.
    fn refuse_links_in(
        &self,
        (guest, source): (&Path, &HostPath),
        linked: &Linked,
        host: &dyn Host,
    ) -> Result<bool, PlanError> {
        if linked.0.is_empty() {
            return Ok(false);
        }
        let mut seen = linked
            .0
            .get(&source.found.identity)
            .map(|hidden| (hidden, guest.to_path_buf()));
        let mut walk = Walk::new(self, host);
        if source.found.kind == Kind::Folder {
            walk.through(guest, source, |inside, on_host, entry| {
                if entry.kind == EntryKind::File && seen.is_none() {
                    let hidden = several_names(host, on_host).and_then(|it| linked.0.get(&it));
                    seen = hidden.map(|hidden| (hidden, inside.to_path_buf()));
                }
                seen.is_none()
            })?;
        }
        match seen {
            Some((hidden, other)) => Err(PlanError::SeenByAnotherName {
                guest: hidden.clone(),
                other,
            }),
            None => Ok(walk.is_cut_short()),
        }
    }

    fn granted_places(&self) -> impl Iterator<Item = (&Path, &HostPath)> {
        self.mount_points
            .iter()
            .filter_map(|(guest, place)| match place {
                super::MountPoint::Host(source) if source.granted => {
                    Some((guest.as_path(), source))
                }
                _ => None,
            })
    }
}

impl Linked {
    fn add(&mut self, host: &dyn Host, path: &Path, hidden: &Path) {
        if let Some(identity) = several_names(host, path) {
            self.0.insert(identity, hidden.into());
        }
    }
}

/// A file with more than one name. A folder has one for each in it.
fn several_names(host: &dyn Host, path: &Path) -> Option<Identity> {
    let kind = host.kind_and_mode(path).map(|(kind, _)| kind);
    if kind == Ok(Kind::Folder) {
        return None;
    }
    host.names(path)
        .ok()
        .and_then(|(identity, names)| (names > 1).then_some(identity))
}
