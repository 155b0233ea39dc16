//! What a guest does not find in a folder that it sees (`--hide`).
//!
//! | in a folder granted for | is held by | also what comes to lie there later |
//! |---|---|---|
//! | reading | names of nothing laid over the folder (overlayfs) | yes |
//! | writing | something empty mounted over what lies there | until somebody outside replaces it: then the guest is ended |
//!
//! A mount over a *file* is lost a moment before its name leads to another one, and a guest that tries all the time may see
//! that. A pattern is looked for once, at the start. What cannot be held is refused, unless the policy accepts less.

use super::{HostPath, Layout, MountPoint, arrangement::Arrangement};
use crate::{
    host::{EntryKind, Host, Kind},
    paths::join,
    plan_error::PlanError,
    steps::Step,
};
use palisade_policy::{Access, Capability, Pattern, Policy};
use rustix::io::Errno;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// Most files and folders that are looked at for patterns.
const MOST_LOOKED_AT: usize = 200_000;
/// Most names that are hidden.
const MOST_HIDDEN: usize = 1000;

/// Why something hidden may be seen after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unheld {
    Pattern,
    InWritable,
    HardLink,
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
            Self::HardLink => {
                "it has another name on the host, a hard link, which the guest may see"
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
}

impl Layout {
    pub(super) fn add_hidden(&mut self, policy: &Policy, host: &dyn Host) -> Result<(), PlanError> {
        let files = policy.grants.files.iter();
        let hidden = files.filter(|grant| grant.access == Access::Hide);
        for grant in hidden {
            let path = grant.guest_path();
            match Pattern::of(path) {
                None => self.hide(path, host)?,
                Some(pattern) => {
                    self.patterns += 1;
                    self.unheld.push((path.into(), Unheld::Pattern));
                    for found in self.find_all(path, &pattern, host)? {
                        self.hide(&found, host)?;
                    }
                }
            }
        }
        Ok(())
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
        HiddenCounts {
            paths: self.hidden().count(),
            patterns: self.patterns,
            is_unheld: !self.unheld.is_empty(),
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

    fn hide(&mut self, guest: &Path, host: &dyn Host) -> Result<(), PlanError> {
        if self.is_hidden(guest) {
            return Ok(());
        }
        let (outer, source) = match self.granted(guest) {
            Some((outer, source)) => (outer.to_path_buf(), source.clone()),
            None => {
                return Err(PlanError::NothingToHide {
                    guest: guest.into(),
                });
            }
        };
        let below = guest.strip_prefix(&outer).unwrap_or(guest);
        let on_host = join(&source.found.canonical, below);
        let place = first_missing(host, &source.found.canonical, &on_host)
            .map_err(|error| error.of(guest, &outer, &source))?;
        let is_missing = place.is_some();
        // What is not there yet is kept from coming into being, and so is the first folder that leads to it.
        let on_host = place.unwrap_or(on_host);
        let below = on_host
            .strip_prefix(&source.found.canonical)
            .unwrap_or(&on_host);
        let guest = join(&outer, below);
        self.refuse_what_lies_in(&guest)?;
        let kind = host.kind_and_mode(&on_host).map(|(kind, _)| kind);
        if source.writable && (is_missing || kind != Ok(Kind::Folder)) {
            self.unheld.push((guest.clone(), Unheld::InWritable));
        }
        if kind == Ok(Kind::File) && host.names(&on_host) > 1 {
            self.unheld.push((guest.clone(), Unheld::HardLink));
        }
        self.mount_points.insert(guest, MountPoint::Hidden(on_host));
        match self.hidden().count() {
            0..=MOST_HIDDEN => Ok(()),
            _ => Err(PlanError::HidesTooMuch { most: MOST_HIDDEN }),
        }
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

    /// What a pattern finds in all that is granted.
    fn find_all(
        &self,
        path: &Path,
        pattern: &Pattern,
        host: &dyn Host,
    ) -> Result<Vec<PathBuf>, PlanError> {
        let folders = self
            .mount_points
            .iter()
            .filter_map(|(guest, place)| match place {
                MountPoint::Host(source) if source.granted && source.found.kind == Kind::Folder => {
                    Some((guest, source))
                }
                _ => None,
            });
        let mut search = Search {
            layout: self,
            pattern,
            host,
            found: Vec::new(),
            looked_at: 0,
        };
        let mut is_anywhere = false;
        for (guest, source) in folders {
            if pattern.may_find_below(guest) {
                is_anywhere = true;
                search.look_through(guest, &source.found.canonical, source.writable)?;
            }
        }
        match is_anywhere {
            true => Ok(search.found),
            false => Err(PlanError::NothingToHide { guest: path.into() }),
        }
    }

    /// The names of nothing that lie over a folder which is granted for reading.
    pub(super) fn lay_over(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        target: &Path,
        source: &HostPath,
    ) -> Result<(), PlanError> {
        let root = &source.found.canonical;
        let below = self.hidden().filter_map(|(guest, on_host)| {
            let is_in_it = self.around(guest).is_some_and(|(outer, _)| outer == target);
            let name = on_host.strip_prefix(root).ok()?;
            is_in_it.then(|| name.to_path_buf())
        });
        let names: Vec<PathBuf> = below.collect();
        if names.is_empty() || source.writable {
            return Ok(());
        }
        refuse_mounts_below(host, target, root)?;
        let mut folders = BTreeMap::new();
        for folder in names.iter().flat_map(|name| name.ancestors().skip(1)) {
            let mode = host.kind_and_mode(&join(root, folder));
            let (_, mode) = mode.map_err(|errno| PlanError::missing(&join(root, folder), errno))?;
            folders.insert(folder.to_path_buf(), mode & 0o777);
        }
        arrangement.steps.push(Step::Hide {
            target: target.into(),
            folders: folders.into_iter().collect(),
            names,
            attributes: self.attributes(target, source),
        });
        Ok(())
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

/// Why it cannot be told what lies at a path.
enum Unseen {
    Link(PathBuf),
    Errno(PathBuf, Errno),
}

impl Unseen {
    fn of(self, guest: &Path, outer: &Path, source: &HostPath) -> PlanError {
        match self {
            Self::Link(link) => {
                let below = link.strip_prefix(&source.found.canonical);
                PlanError::HideBehindLink {
                    guest: guest.into(),
                    link: join(outer, below.unwrap_or(&link)),
                }
            }
            Self::Errno(path, errno) => PlanError::Unreachable { path, errno },
        }
    }
}

/// The first thing on the way that is not there. None of those that are may be a link: the guest would find what it leads to.
fn first_missing(host: &dyn Host, root: &Path, on_host: &Path) -> Result<Option<PathBuf>, Unseen> {
    let mut way: Vec<&Path> = on_host
        .ancestors()
        .take_while(|path| *path != root)
        .collect();
    way.reverse();
    for path in way {
        if host.link(path).is_some() {
            return Err(Unseen::Link(path.into()));
        }
        match host.kind_and_mode(path) {
            Ok(_) => {}
            Err(Errno::NOENT) => return Ok(Some(path.into())),
            Err(errno) => return Err(Unseen::Errno(path.into(), errno)),
        }
    }
    Ok(None)
}

/// One pattern, and what was found of it.
struct Search<'a> {
    layout: &'a Layout,
    pattern: &'a Pattern,
    host: &'a dyn Host,
    found: Vec<PathBuf>,
    looked_at: usize,
}

impl Search<'_> {
    /// Looks through a folder of the host's, which the guest finds at another path; not where something else is mounted inside.
    fn look_through(
        &mut self,
        guest: &Path,
        on_host: &Path,
        writable: bool,
    ) -> Result<(), PlanError> {
        let mut folders = vec![(guest.to_path_buf(), on_host.to_path_buf())];
        while let Some((guest, on_host)) = folders.pop() {
            let entries = match self.host.list(&on_host) {
                // Nor can the guest, who may change no mode there.
                Err(Errno::ACCESS) if !writable && !self.can_enter(&on_host) => continue,
                entries => entries.map_err(|errno| PlanError::CannotLookThrough {
                    path: on_host.clone(),
                    errno,
                })?,
            };
            self.looked_at += entries.len();
            if self.looked_at > MOST_LOOKED_AT {
                return Err(PlanError::TooMuchToLookThrough {
                    most: MOST_LOOKED_AT,
                });
            }
            for entry in entries {
                let inside = guest.join(&entry.name);
                let is_other = matches!(
                    self.layout.mount_points.get(&inside),
                    Some(MountPoint::Host(_) | MountPoint::Private | MountPoint::Own)
                );
                if is_other {
                    continue;
                }
                if self.pattern.finds(&inside) {
                    self.found.push(inside);
                } else if entry.kind == EntryKind::Folder && self.pattern.may_find_below(&inside) {
                    folders.push((inside, on_host.join(&entry.name)));
                }
            }
        }
        Ok(())
    }

    fn can_enter(&self, folder: &Path) -> bool {
        self.host.kind_and_mode(&folder.join(".")) != Err(Errno::ACCESS)
    }
}

#[cfg(test)]
mod tests;
