//! By which paths a guest reaches what lies at a path of the host's, and what it could do there.
//!
//! Palisade reads files and executes programs outside the wall while a guest runs, and after it: none of them may
//! be of the guest's making. The question is asked of every step of the path, for any of them could be replaced:
//!
//! ```text
//!  /etc/resolv.conf ─▶ /etc, /etc/resolv.conf (a link), /run, /run/systemd, …/stub-resolv.conf
//! ```
//!
//! Folders are compared by what they are, device and inode, and by the host's table of mounts, so that another name
//! for a granted one, a link, a bind mount or another mount of its file system, changes nothing. The same way grants
//! are found that lead to the same files by two paths ([`twice`]). Not searched for: hard links, and what a stacked
//! file system (overlayfs, FUSE) shows again.

mod twice;

use crate::{
    host::{Host, Identity, Kind, Mounts},
    layout::{Layout, Shown},
    paths::join,
};
use palisade_wall::Relied;
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

/// As many links as the kernel follows, path_resolution(7).
const MOST_LINKS: usize = 40;

/// What a guest with this layout could change on this host.
pub(crate) struct Reach<'a> {
    layout: &'a Layout,
    host: &'a dyn Host,
    mounts: OnceCell<Mounts>,
    /// What lies at a path, asked once.
    identities: RefCell<BTreeMap<PathBuf, Option<Identity>>>,
    links: RefCell<BTreeMap<PathBuf, Option<PathBuf>>>,
}

/// A path of a file.
struct Name {
    path: PathBuf,
    /// Of what lies there, and of every folder around it.
    identities: Vec<Option<Identity>>,
}

/// One step of a path: something that lies in a folder without links on the way to it.
struct Hop {
    path: PathBuf,
    /// The path leads here: what it holds counts, and not only that it is this.
    is_last: bool,
}

impl<'a> Reach<'a> {
    pub(crate) fn new(layout: &'a Layout, host: &'a dyn Host) -> Self {
        Self {
            layout,
            host,
            mounts: OnceCell::new(),
            identities: RefCell::default(),
            links: RefCell::default(),
        }
    }

    /// Whether the guest could change what is relied on. What is not there yet could be made.
    pub(crate) fn can_change(&self, relied: &Relied) -> bool {
        let holds_content = matches!(relied, Relied::Content(_));
        let mut hops = self.hops(relied.path()).into_iter();
        hops.any(|hop| self.can_change_hop(&hop, holds_content && hop.is_last))
    }

    /// The first of these that it could change.
    pub(crate) fn find(&self, relied: impl IntoIterator<Item = Relied>) -> Option<Relied> {
        let mut relied = relied.into_iter();
        let writes = self.layout.writes_to_host();
        writes.then(|| relied.find(|relied| self.can_change(relied)))?
    }

    /// Whether control groups lie in what was granted: an open folder of those is a place for a new process
    /// (`CLONE_INTO_CGROUP`), and who may write there is asked by user, whatever the mount says. What is no folder leads to
    /// none, and the table of mounts, which the kernel takes its time to write, is not read for it.
    pub(crate) fn shows_control_groups(&self) -> bool {
        let granted = self.layout.granted_mounts();
        let mut granted = granted
            .filter(|shown| shown.found.kind == Kind::Folder)
            .peekable();
        if granted.peek().is_none() {
            return false;
        }
        let Some(mounts) = self.read_mount_table().ok().filter(|all| !all.is_empty()) else {
            return true;
        };
        let points: Vec<_> = mounts.of_control_groups().collect();
        let meets = |folder: &Path| {
            let mut points = points.iter();
            points.any(|point| point.starts_with(folder) || folder.starts_with(point))
        };
        granted.any(|shown| meets(&shown.found.canonical))
    }

    fn can_change_hop(&self, hop: &Hop, holds_content: bool) -> bool {
        let inside = self.find_inside(&hop.path, self.layout.write_grants());
        inside
            .into_iter()
            .any(|(_, inside)| self.layout.is_open(&inside, holds_content))
    }

    /// Where some of the guest's mounts show what lies at a path of the host's. There something else may be mounted
    /// over it.
    fn find_inside<'b>(
        &self,
        path: &Path,
        mounts: impl Iterator<Item = Shown<'b>>,
    ) -> Vec<(Shown<'b>, PathBuf)> {
        let names = self.names(path);
        let found = mounts.flat_map(|shown| {
            let identity = Some(shown.found.identity);
            let below = self.below(&names, &shown.found.canonical, identity);
            let inside = below.into_iter().map(|below| join(shown.guest, &below));
            inside.map(move |inside| (shown, inside))
        });
        found.collect()
    }

    /// The path, and others of the same file.
    fn names(&self, path: &Path) -> Vec<Name> {
        let others = self.mounts().other_paths(path);
        let name = |path: PathBuf| Name {
            identities: path
                .ancestors()
                .map(|around| self.identify(around))
                .collect(),
            path,
        };
        std::iter::once(path.into())
            .chain(others)
            .map(name)
            .collect()
    }

    /// How a file with these names lies in a folder.
    fn below(
        &self,
        names: &[Name],
        folder: &Path,
        identity: Option<Identity>,
    ) -> BTreeSet<PathBuf> {
        let below = names.iter().flat_map(|name| {
            let around = name.path.ancestors().zip(&name.identities);
            let is_it = move |(around, its): &(&Path, &Option<Identity>)| {
                identity.is_some() && **its == identity || *around == folder
            };
            let around = around.filter(is_it);
            around.filter_map(|(around, _)| name.path.strip_prefix(around).ok())
        });
        below
            .filter(|below| self.may_be_same(&names[0].path, &join(folder, below)))
            .map(Path::to_path_buf)
            .collect()
    }

    /// Whether two paths may lead to one file. What is not there yet may be.
    fn may_be_same(&self, one: &Path, other: &Path) -> bool {
        // A link that is relative leads elsewhere from a folder's other path, and is the same link.
        let identify = |path: &Path| match self.link(path) {
            Some(_) => path.parent().and_then(|folder| self.identify(folder)),
            None => self.identify(path),
        };
        one == other
            || match (identify(one), identify(other)) {
                (Some(one), Some(other)) => one == other,
                _ => true,
            }
    }

    fn mounts(&self) -> &Mounts {
        self.mounts
            .get_or_init(|| Mounts::new(self.host.mounts().unwrap_or_default()))
    }

    fn identify(&self, path: &Path) -> Option<Identity> {
        if let Some(known) = self.identities.borrow().get(path) {
            return *known;
        }
        // The layout has looked at what it shows.
        let mut shown = self.layout.host_mounts().map(|shown| shown.found);
        let identity = match shown.find(|found| found.canonical == path) {
            Some(found) => Some(found.identity),
            None => self.host.identify(path).ok(),
        };
        let mut identities = self.identities.borrow_mut();
        identities.insert(path.into(), identity);
        identity
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        let mut links = self.links.borrow_mut();
        let read = || self.host.link(path);
        links.entry(path.into()).or_insert_with(read).clone()
    }

    /// Every step of the way, links included.
    fn hops(&self, path: &Path) -> Vec<Hop> {
        let mut hops: Vec<Hop> = Vec::new();
        let mut at = PathBuf::from("/");
        let mut rest: VecDeque<OsString> = words(path).collect();
        let mut links = 0;
        while let Some(word) = rest.pop_front() {
            if word == ".." {
                at.pop();
                continue;
            }
            let path = at.join(&word);
            let target = self.link(&path).filter(|_| links < MOST_LINKS);
            let is_last = rest.is_empty() && target.is_none();
            hops.push(Hop {
                path: path.clone(),
                is_last,
            });
            match target {
                Some(target) => {
                    links += 1;
                    if target.is_absolute() {
                        at = "/".into();
                    }
                    let ahead: Vec<_> = words(&target).collect();
                    ahead
                        .into_iter()
                        .rev()
                        .for_each(|word| rest.push_front(word));
                }
                None => at = path,
            }
        }
        hops
    }
}

/// Names and `..`, without what says nothing.
fn words(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.into()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests;
