//! What a guest does not find in a folder that it sees (`--hide`).
//!
//! | in a folder granted for | is held by | also what comes to lie there later |
//! |---|---|---|
//! | reading | names of nothing laid over the folder (overlayfs) | yes |
//! | writing | something empty mounted over what lies there | until somebody outside replaces it: then the guest is ended |
//!
//! A mount over a *file* is lost a moment before its name leads to another one, and a guest that tries all the time may see
//! that. A pattern is looked for once, at the start. What cannot be held is refused, unless the policy accepts less.
//!
//! Names lie over every folder for reading that a hidden path lies in, not the nearest alone: a mount in another one goes with
//! what it stands on.

mod linked;
mod walk;

use super::{
    HostPath, Layout, MountPoint,
    arrange::is_placeholder,
    arrangement::{Arrangement, nothing_to_execute},
};
use crate::{
    host::{Host, Kind},
    paths::join,
    plan_error::PlanError,
    steps::{Attributes, Step},
};
use palisade_policy::{Access, Capability, Pattern, Policy};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use walk::Walk;

pub(super) use linked::Linked;

/// Most names that are hidden.
const MOST_HIDDEN: usize = 1000;

/// Why something hidden may be seen after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheld {
    Pattern,
    InWritable,
    TooManyLinks,
}

impl Unheld {
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Pattern => {
                "what comes to match it while the guest runs is seen, for a pattern is looked for at the start"
            }
            Self::InWritable => {
                "it lies in a folder that is granted for writing and is no folder itself, so that the guest may see what \
                 somebody puts in its place outside, for the moment until it is ended; grant the folder with --read, and with \
                 --write what the guest writes in it"
            }
            Self::TooManyLinks => {
                "more is hidden and granted than is looked through for other names of it, hard links"
            }
        }
    }
}

/// What is hidden, as far as reports tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenCounts {
    pub(crate) paths: usize,
    pub(crate) patterns: usize,
    /// Some of it may be seen after all.
    pub(crate) is_unheld: bool,
    /// Mounts hold some of it, in what is written to.
    pub(crate) has_mounts: bool,
}

impl Layout {
    pub(super) fn add_hidden(&mut self, policy: &Policy, host: &dyn Host) -> Result<(), PlanError> {
        let files = policy.grants.files.iter();
        let hidden = files.filter(|grant| grant.access == Access::Hide);
        let hidden: BTreeSet<&Path> = hidden.map(|grant| grant.guest_path()).collect();
        let (named, patterns): (Vec<&Path>, Vec<&Path>) = hidden
            .into_iter()
            .partition(|path| Pattern::of(path).is_none());
        // What holds others comes before them.
        for path in named
            .into_iter()
            .map(Pattern::plain)
            .collect::<BTreeSet<_>>()
        {
            self.hide(&path, host)?;
        }
        for path in patterns {
            self.patterns += 1;
            self.unheld.push((path.into(), Unheld::Pattern));
            for found in self.find_all(path, host)? {
                self.hide_found(&found, host)?;
            }
        }
        self.look_for_links(host)
    }

    /// Refuses what cannot be held, unless less of it is accepted.
    pub(super) fn refuse_unheld(&self, policy: &Policy) -> Result<(), PlanError> {
        match self.unheld.first() {
            Some((guest, unheld)) if !policy.allow_degraded.contains(&Capability::Hide) => {
                Err(PlanError::CannotHide {
                    guest: guest.clone(),
                    why: unheld.why(),
                })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn hidden_counts(&self) -> HiddenCounts {
        let is_in_writable = |guest: &Path| {
            self.granted(guest)
                .is_some_and(|(_, source)| source.writable)
        };
        HiddenCounts {
            paths: self.hidden().count(),
            patterns: self.patterns,
            is_unheld: !self.unheld.is_empty(),
            has_mounts: self.hidden().any(|(guest, _)| is_in_writable(guest)),
        }
    }

    /// Hidden paths, each with where it lies on the host.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.mount_points
            .iter()
            .filter_map(|(guest, place)| match place {
                MountPoint::Hidden(on_host) => Some((guest.as_path(), on_host.as_path())),
                _ => None,
            })
    }

    /// Whether nothing is found at a path inside because that is hidden.
    pub(crate) fn is_hidden(&self, guest: &Path) -> bool {
        matches!(
            self.nearest(guest.ancestors()),
            Some((_, MountPoint::Hidden(_)))
        )
    }

    /// Where that lies on the host which is not found at a path inside because it is hidden.
    pub(crate) fn hidden_on_host(&self, guest: &Path) -> Option<PathBuf> {
        match self.nearest(guest.ancestors())? {
            (hidden, MountPoint::Hidden(on_host)) => {
                Some(join(on_host, guest.strip_prefix(hidden).ok()?))
            }
            _ => None,
        }
    }

    /// Whether a guest that lost the mount at this path would see something hidden in the folder around it, to which it writes.
    pub(super) fn hides_in_mount(&self, guest: &Path) -> bool {
        let is_in_writable = matches!(
            self.around(guest),
            Some((_, MountPoint::Host(HostPath { writable: true, .. })))
        );
        is_in_writable && self.hidden().any(|(hidden, _)| hidden.starts_with(guest))
    }

    /// Hides what a pattern has found. Of a link that is the link alone, as far as names can be held: what it leads to has a
    /// name of its own.
    fn hide_found(&mut self, guest: &Path, host: &dyn Host) -> Result<(), PlanError> {
        let Some((outer, source)) = self.granted(guest) else {
            return Ok(());
        };
        let on_host = join(
            &source.found.canonical,
            guest.strip_prefix(outer).unwrap_or(guest),
        );
        match (host.link(&on_host), source.writable) {
            (None, _) => self.hide(guest, host),
            (Some(_), true) => Ok(()),
            (Some(_), false) => self.insert_hidden(guest.into(), on_host),
        }
    }

    fn hide(&mut self, guest: &Path, host: &dyn Host) -> Result<(), PlanError> {
        if self.is_hidden(guest) {
            return Ok(());
        }
        let (outer, source) = match self.granted(guest) {
            Some((outer, source)) if !self.is_of_own_root(guest) => {
                (outer.to_path_buf(), source.clone())
            }
            _ => {
                return Err(PlanError::NothingToHide {
                    guest: guest.into(),
                });
            }
        };
        let root = &source.found.canonical;
        let on_host = join(root, guest.strip_prefix(&outer).unwrap_or(guest));
        let is_missing = match way_to(host, root, &on_host) {
            (_, end @ (End::There | End::Missing)) => end == End::Missing,
            (link, End::Link) => {
                let below = link.strip_prefix(root).unwrap_or(&link);
                return Err(PlanError::HideBehindLink {
                    guest: guest.into(),
                    link: join(&outer, below),
                });
            }
            (path, End::Unknown(errno)) => return Err(PlanError::Unreachable { path, errno }),
        };
        let kind = host.kind_and_mode(&on_host).map(|(kind, _)| kind);
        if source.writable && (is_missing || kind != Ok(Kind::Folder)) {
            self.unheld.push((guest.into(), Unheld::InWritable));
        }
        self.insert_hidden(guest.into(), on_host)
    }

    fn insert_hidden(&mut self, guest: PathBuf, on_host: PathBuf) -> Result<(), PlanError> {
        self.refuse_what_lies_in(&guest)?;
        // What else is hidden there goes with it.
        self.mount_points
            .retain(|path, _| !path.starts_with(&guest));
        self.mount_points.insert(guest, MountPoint::Hidden(on_host));
        match self.hidden().count() {
            0..=MOST_HIDDEN => Ok(()),
            _ => Err(PlanError::HidesTooMuch { most: MOST_HIDDEN }),
        }
    }

    /// Whether the domain has its own there although a granted folder is its root.
    fn is_of_own_root(&self, guest: &Path) -> bool {
        self.mount_points.contains_key(Path::new("/"))
            && ["/proc", "/dev", "/tmp"]
                .iter()
                .any(|own| guest.starts_with(own))
    }

    /// The grant that a path lies in, and where it is.
    pub(super) fn granted<'a>(&'a self, guest: &'a Path) -> Option<(&'a Path, &'a HostPath)> {
        let mut around = guest.ancestors().skip(1).filter_map(|path| {
            let place = self.mount_points.get(path)?;
            match place {
                MountPoint::Executable | MountPoint::Protected => None,
                place => Some((path, place)),
            }
        });
        match around.next()? {
            (outer, MountPoint::Host(source)) if source.granted => Some((outer, source)),
            _ => None,
        }
    }

    fn refuse_what_lies_in(&self, guest: &Path) -> Result<(), PlanError> {
        let places = self.mount_points.iter();
        let places = places.filter(|(_, place)| !matches!(place, MountPoint::Hidden(_)));
        let mut places = places.map(|(path, _)| path).chain(&self.ipc);
        match places.find(|path| path.starts_with(guest)) {
            Some(grant) => Err(PlanError::HidesGrant {
                guest: guest.into(),
                grant: grant.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Folders that are granted, each with where it lies on the host.
    fn granted_folders(&self) -> impl Iterator<Item = (&Path, &HostPath)> {
        self.mount_points
            .iter()
            .filter_map(|(guest, place)| match place {
                MountPoint::Host(source) if source.granted && source.found.kind == Kind::Folder => {
                    Some((guest.as_path(), source))
                }
                _ => None,
            })
    }

    /// What a pattern finds in all that is granted.
    fn find_all(&self, path: &Path, host: &dyn Host) -> Result<Vec<PathBuf>, PlanError> {
        let Some(pattern) = Pattern::of(path) else {
            return Ok(Vec::new());
        };
        let mut walk = Walk::new(self, host);
        let mut found = Vec::new();
        let mut is_anywhere = false;
        for (guest, source) in self.granted_folders() {
            if pattern.may_find_below(guest) {
                is_anywhere = true;
                walk.through(guest, source, |inside, _, _| {
                    let is_it = pattern.finds(inside);
                    if is_it {
                        found.push(inside.to_path_buf());
                    }
                    !is_it && pattern.may_find_below(inside)
                })?;
            }
        }
        if walk.is_cut_short() {
            return Err(PlanError::TooMuchToLookThrough { most: walk::MOST });
        }
        match is_anywhere {
            true => Ok(found),
            false => Err(PlanError::NothingToHide { guest: path.into() }),
        }
    }

    /// The names of nothing that lie over a folder which is mounted for reading.
    pub(super) fn lay_over(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        target: &Path,
        source: &HostPath,
    ) -> Result<(), PlanError> {
        if source.writable || source.found.kind != Kind::Folder {
            return Ok(());
        }
        let root = &source.found.canonical;
        let below = self.hidden().filter_map(|(guest, _)| {
            let name = guest.strip_prefix(target).ok()?;
            // As this folder has it: another grant may lie in between. What is not there yet is kept from coming into being, and so
            // is the first folder that leads to it.
            let (end, _) = way_to(host, root, &join(root, name));
            Some(end.strip_prefix(root).ok()?.to_path_buf())
        });
        let names: BTreeSet<PathBuf> = below.collect();
        if names.is_empty() {
            return Ok(());
        }
        refuse_mounts_below(host, target, root)?;
        let mut folders = BTreeMap::new();
        for folder in names.iter().flat_map(|name| name.ancestors().skip(1)) {
            let path = join(root, folder);
            let found = host
                .find_unlinked(&path)
                .map_err(|errno| PlanError::missing(&path, errno))?;
            let is_own = found.uid == source.found.uid;
            folders.insert(folder.to_path_buf(), shown_mode(found.mode, is_own));
        }
        arrangement.steps.push(Step::Hide {
            target: target.into(),
            folders: folders.into_iter().collect(),
            names: names.into_iter().collect(),
            attributes: self.attributes(target, source),
        });
        Ok(())
    }

    /// Hides a path in a folder that is written to. What is hidden in one that is read lies over that as a whole.
    pub(super) fn cover(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        (guest, on_host): (&Path, &Path),
    ) -> Result<(), PlanError> {
        let Some((outer, source)) = self.granted(guest).filter(|(_, source)| source.writable)
        else {
            return Ok(());
        };
        let root = &source.found.canonical;
        let mut way: Vec<&Path> = on_host
            .ancestors()
            .take_while(|path| *path != root)
            .collect();
        way.reverse();
        for path in way {
            let inside = join(outer, path.strip_prefix(root).unwrap_or(path));
            match host.find_unlinked(path) {
                Ok(found) if path == on_host || is_left(host, path, &found) => {
                    // Another domain's: held together, it goes with the last.
                    if is_placeholder(&found) {
                        arrangement.hold_place(host, path, found.kind == Kind::Folder)?;
                    }
                    arrangement.cover(&inside, found.kind);
                    return Ok(());
                }
                Ok(_) if arrangement.pinned.insert(inside.clone()) => {
                    arrangement.remount(&inside, Attributes::NONE, Attributes::NONE);
                }
                Ok(_) => {}
                Err(Errno::NOENT) if arrangement.makes(path) => {
                    return Err(nothing_to_execute(&inside, path.into(), Errno::NOENT));
                }
                Err(Errno::NOENT) => {
                    let is_folder = path != on_host;
                    if !arrangement.holds(path) {
                        arrangement.hold_place(host, path, is_folder)?;
                    }
                    let kind = if is_folder { Kind::Folder } else { Kind::File };
                    arrangement.cover(&inside, kind);
                    return Ok(());
                }
                Err(errno) => return Err(PlanError::missing(path, errno)),
            }
        }
        Ok(())
    }
}

/// A folder on the way that was left by palisade, and is nobody's.
fn is_left(host: &dyn Host, path: &Path, found: &crate::host::Found) -> bool {
    let is_empty = || host.list(path).is_ok_and(|entries| entries.is_empty());
    found.kind == Kind::Folder && is_placeholder(found) && is_empty()
}

/// Who owns it here need not there: then what anybody else may do is what its owner here may. The folder itself is asked, too.
fn shown_mode(mode: u32, is_own: bool) -> u32 {
    let of_others = (mode >> 3 | mode) & 0o7;
    match is_own {
        true => mode,
        false => mode | of_others << 6,
    }
}

/// An overlay shows what lies below a mount instead of what is mounted there.
fn refuse_mounts_below(host: &dyn Host, guest: &Path, root: &Path) -> Result<(), PlanError> {
    let mounts = host
        .mounts()
        .map_err(|errno| PlanError::missing(Path::new("/proc/self/mountinfo"), errno))?;
    let mut below = mounts
        .into_iter()
        .filter(|mount| mount.point != root && mount.point.starts_with(root));
    match below.next() {
        Some(mount) => Err(PlanError::HidesAmongMounts {
            guest: guest.into(),
            mount: mount.point,
        }),
        None => Ok(()),
    }
}

/// What there is at the end of the way to a path, as far as that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    There,
    Missing,
    /// The guest would find what it leads to.
    Link,
    Unknown(Errno),
}

fn way_to(host: &dyn Host, root: &Path, path: &Path) -> (PathBuf, End) {
    let mut way: Vec<&Path> = path.ancestors().take_while(|path| *path != root).collect();
    way.reverse();
    for step in way {
        if host.link(step).is_some() {
            return (step.into(), End::Link);
        }
        match host.kind_and_mode(step) {
            Ok(_) => {}
            Err(Errno::NOENT) => return (step.into(), End::Missing),
            Err(errno) => return (step.into(), End::Unknown(errno)),
        }
    }
    (path.into(), End::There)
}

#[cfg(test)]
mod tests;
