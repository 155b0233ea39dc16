//! Where everything of a domain's file system comes from: granted paths, the system view and
//! private folders, sorted so that the deeper path wins.
//!
//! The result is a list of steps and of placeholders. Nothing is opened for use here; the host is
//! asked what lies where.

use crate::{
    host::{Found, Host, Kind},
    paths::{join, normalized},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

mod arrange;
mod arrangement;
mod bare;
mod grow;
mod guard;
mod hide;
mod resolve;
mod root;

pub(crate) use {
    arrangement::Arrangement,
    grow::{GrowError, Growth},
    resolve::refuse_proc,
    root::{OwnMounts, ROOT_PLACE, in_root_place, mount_program},
};

/// Folders of the domain's own `tmpfs` that the guest may write to.
pub(crate) const PRIVATE_FOLDERS: [&str; 2] = ["/tmp", "/dev/shm"];

/// One place of the domain's file system that is not just a folder of its root.
#[derive(Clone, Debug, PartialEq, Eq)]
enum MountPoint {
    /// A host path, mounted.
    Host(HostPath),
    /// A writable folder of the domain's `tmpfs`.
    Private,
    /// A folder of that `tmpfs` that only palisade fills, inside a granted root.
    Own,
    /// Read-only although the folder around it is writable; it may not exist yet.
    Protected,
    /// Nothing is there for the guest, whatever lies at this path of the host's.
    Hidden(PathBuf),
    /// Executable although the folder around it is writable.
    Executable,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPath {
    found: Found,
    writable: bool,
    /// Its files get the guest as their owner; the system view and devices stay as they are.
    granted: bool,
    /// It has another path inside.
    moved: bool,
}

/// A file or folder of the host's that is mounted for the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    /// Where, inside.
    pub(crate) guest: &'a Path,
    pub(crate) found: &'a Found,
}

/// What lies at a path inside, by its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nothing of anybody's.
    None,
    /// Something that the domain has of its own, or a folder that leads to what it has.
    Own,
    /// Nothing, whatever the host has there: it is hidden.
    Hidden,
    /// The system, which every guest may read.
    System,
    /// What was granted.
    Granted {
        /// For writing.
        writable: bool,
    },
}

/// The file system of one domain, before it is steps.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    mount_points: BTreeMap<PathBuf, MountPoint>,
    symlinks: BTreeMap<PathBuf, PathBuf>,
    files: BTreeMap<PathBuf, (u32, Arc<[u8]>)>,
    executable: Vec<PathBuf>,
    /// Folders for sockets and FIFOs.
    ipc: Vec<PathBuf>,
    /// Protected paths that the policy does not name.
    implied: BTreeSet<PathBuf>,
    /// Grants that may be missing, and are.
    absent: Vec<PathBuf>,
    root: Option<root::Root>,
    /// More may be granted while the guest runs.
    grows: bool,
    /// What is covered by a later grant, or was granted for writing and taken back: the guest may hold it open.
    formerly: Vec<HostPath>,
    /// Git's own files are kept from the guest.
    keeps_git: bool,
    /// Patterns of what is hidden.
    patterns: usize,
    /// Hidden files with other names.
    linked: hide::Linked,
    /// What is hidden and may be seen after all.
    unheld: Vec<(PathBuf, hide::Unheld)>,
}

impl Layout {
    /// The same without what is in files of its own: for as long as the guest runs, which may be one of many.
    pub(crate) fn without_contents(&self) -> Self {
        let mut bare = self.clone();
        for (_, content) in bare.files.values_mut() {
            *content = Arc::default();
        }
        bare
    }

    /// Paths of grants that may be missing, and are.
    pub(crate) fn absent(&self) -> &[PathBuf] {
        &self.absent
    }

    /// Whether the guest finds the host's `path` at the same path inside.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        if self.files.contains_key(path) {
            return true;
        }
        let through_link = path
            .ancestors()
            .any(|ancestor| self.symlinks.contains_key(ancestor));
        through_link
            || self
                .host_path(path)
                .is_some_and(|inside| inside == path || self.is_same_path(path))
    }

    /// Whether something granted appears below `path`, which is then a folder inside.
    pub(crate) fn leads_to_grant(&self, path: &Path) -> bool {
        let is_granted =
            |place: &MountPoint| matches!(place, MountPoint::Host(host) if host.granted);
        self.mount_points
            .iter()
            .any(|(guest, place)| guest != path && guest.starts_with(path) && is_granted(place))
    }

    fn is_same_path(&self, path: &Path) -> bool {
        // A grant through a link shows the target under the link's own path.
        let host = path
            .ancestors()
            .find_map(|ancestor| match self.mount_points.get(ancestor) {
                Some(MountPoint::Host(host)) => Some(host),
                _ => None,
            });
        host.is_some_and(|host| !host.moved)
    }

    /// Whether the guest could change its own path, which lies where it can write. Of a folder only its name counts
    /// here, and a mount point keeps that, as does what leads to one.
    pub(crate) fn is_open(&self, inside: &Path, is_last: bool) -> bool {
        let is_held = || {
            self.mount_points
                .keys()
                .any(|place| place.starts_with(inside))
        };
        !self.is_read_only(inside) && (is_last || !is_held())
    }

    /// Whether the guest may write to a path of the host's, by the letter.
    pub(crate) fn can_write(&self, path: &Path) -> bool {
        self.write_grants().any(|grant| {
            let below = path.strip_prefix(&grant.found.canonical);
            below.is_ok_and(|below| !self.is_read_only(&join(grant.guest, below)))
        })
    }

    pub(crate) fn is_read_only(&self, guest: &Path) -> bool {
        match self.nearest(guest.ancestors()) {
            Some((_, MountPoint::Host(host))) => !host.writable,
            Some((_, MountPoint::Protected | MountPoint::Hidden(_))) => true,
            _ => false,
        }
    }

    /// What lies at a path without links of the domain's own.
    pub(crate) fn place(&self, path: &Path) -> Place {
        match self.nearest(path.ancestors()) {
            _ if self.files.contains_key(path) => Place::System,
            Some((_, MountPoint::Host(host))) if host.granted => Place::Granted {
                writable: host.writable,
            },
            Some((_, MountPoint::Host(_))) => Place::System,
            Some((_, MountPoint::Protected)) => Place::Granted { writable: false },
            Some((_, MountPoint::Hidden(_))) => Place::Hidden,
            Some(_) => Place::Own,
            None if self.is_of_the_domain(path) => Place::Own,
            None => Place::None,
        }
    }

    /// The granted place that a path lies in.
    pub(crate) fn granted_place(&self, path: &Path) -> Option<&Path> {
        let is_granted =
            |place: &MountPoint| matches!(place, MountPoint::Host(host) if host.granted);
        let around = path.ancestors().find_map(|path| {
            let place = self.mount_points.get_key_value(path);
            place.filter(|(_, place)| is_granted(place))
        });
        around.map(|(path, _)| path.as_path())
    }

    /// Whether this is a place that the domain has from its start, or leads to one.
    pub(crate) fn is_of_the_domain(&self, path: &Path) -> bool {
        let places = self.mount_points.keys().chain(self.files.keys());
        places
            .chain(self.symlinks.keys())
            .any(|place| place.starts_with(path))
    }

    /// Whether the guest finds a copy of what lies at a path of the host's, at the same path.
    pub(crate) fn copies(&self, on_host: &Path) -> bool {
        self.files.keys().any(|path| path.starts_with(on_host))
    }

    /// Whether this path is protected.
    pub(crate) fn is_protected(&self, guest: &Path) -> bool {
        let nearest = self.nearest(guest.ancestors());
        matches!(nearest, Some((_, MountPoint::Protected)))
    }

    /// Whether anything of the host's disk is writable for the guest, or may be some time.
    pub(crate) fn writes_to_host(&self) -> bool {
        self.grows
            || self.mount_points.values().any(
                |place| matches!(place, MountPoint::Host(host) if host.writable && host.granted),
            )
    }

    /// Whether the guest can make files on the host's disk, or may some time.
    pub(crate) fn makes_files_on_host(&self) -> bool {
        let is_writable_folder = |place: &MountPoint| matches!(place, MountPoint::Host(host) if host.writable && host.granted && host.found.kind == Kind::Folder);
        self.grows || self.mount_points.values().any(is_writable_folder)
    }

    /// Whether a folder of the host's was granted, or may be some time.
    pub(crate) fn shows_granted_folders(&self) -> bool {
        let is_granted_folder = |place: &MountPoint| matches!(place, MountPoint::Host(host) if host.granted && host.found.kind == Kind::Folder);
        self.grows || self.mount_points.values().any(is_granted_folder)
    }

    /// Whether a path inside lies where programs are executed, by its words: where the guest can't write, or may execute
    /// what it writes.
    pub(crate) fn executes(&self, path: &Path) -> bool {
        let is_plain = path
            .components()
            .all(|part| !matches!(part, Component::ParentDir));
        let is_read_only = |path: &Path| match self.mount_points.get(path) {
            Some(MountPoint::Host(host)) => Some(!host.writable),
            Some(MountPoint::Executable) => Some(true),
            Some(_) => Some(false),
            None => self.symlinks.contains_key(path).then_some(true),
        };
        let is_read_only = || path.ancestors().find_map(is_read_only).unwrap_or(false);
        is_plain && (self.is_executable(path) || is_read_only())
    }

    /// Whether the host has a file there that somebody may execute.
    pub(crate) fn is_program(&self, path: &Path, host: &dyn Host) -> bool {
        let found = self.host_path(path).and_then(|path| host.find(&path).ok());
        found.is_some_and(|found| found.kind == Kind::File && found.mode & 0o111 != 0)
    }

    /// Whether a granted file may lie where somebody else than the kernel answers for it: neither on a block device nor where
    /// the system view lies as well.
    pub(crate) fn may_stall(&self) -> bool {
        let hosts = || {
            self.mount_points.values().filter_map(|place| match place {
                MountPoint::Host(host) if host.found.kind != Kind::Device => Some(host),
                _ => None,
            })
        };
        let device = |host: &HostPath| {
            let identity = host.found.identity;
            (identity.device_major, identity.device_minor)
        };
        let mut granted = hosts().filter(|host| host.granted && host.found.kind != Kind::Socket);
        granted.any(|host| {
            let is_of_view = |other: &HostPath| !other.granted && device(other) == device(host);
            device(host).0 == 0 && !hosts().any(is_of_view)
        })
    }

    /// What `--exec` takes, so that the guest may execute this path inside: the place around it that it can write to. `None`
    /// where it can't write, or may execute already.
    pub(crate) fn exec_grant(&self, path: &Path) -> Option<&Path> {
        if self.executable.iter().any(|place| path.starts_with(place)) {
            return None;
        }
        let is_refined =
            |place: &MountPoint| matches!(place, MountPoint::Executable | MountPoint::Protected);
        let around = path.ancestors().find_map(|path| {
            let place = self.mount_points.get_key_value(path);
            place.filter(|(_, place)| !is_refined(place))
        });
        match around? {
            (path, MountPoint::Private) => Some(path),
            (path, MountPoint::Host(host)) if host.writable && host.granted => Some(path),
            _ => None,
        }
    }

    fn nearest<'a>(
        &'a self,
        mut paths: impl Iterator<Item = &'a Path>,
    ) -> Option<(&'a Path, &'a MountPoint)> {
        paths.find_map(|path| {
            self.mount_points
                .get_key_value(path)
                .filter(|(_, place)| **place != MountPoint::Executable)
                .map(|(path, place)| (path.as_path(), place))
        })
    }

    /// The place around `path`, not `path` itself.
    fn around<'a>(&'a self, path: &'a Path) -> Option<(&'a Path, &'a MountPoint)> {
        self.nearest(path.ancestors().skip(1))
    }

    /// Where the first link on the way that is made for the domain leads.
    pub(crate) fn follow(&self, path: &Path) -> Option<PathBuf> {
        path.ancestors().find_map(|ancestor| {
            let target = self.symlinks.get(ancestor)?;
            let folder = ancestor.parent().unwrap_or(Path::new("/"));
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            Some(normalized(&join(&folder.join(target), rest)))
        })
    }

    /// Where on the host the guest's `path` lies, if it lies there.
    pub(crate) fn host_path(&self, path: &Path) -> Option<PathBuf> {
        path.ancestors()
            .find_map(|ancestor| match self.mount_points.get(ancestor) {
                Some(MountPoint::Host(host)) => {
                    let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                    Some(Some(join(&host.found.canonical, rest)))
                }
                Some(MountPoint::Private | MountPoint::Own | MountPoint::Hidden(_)) => Some(None),
                _ => None,
            })?
    }

    /// Whether this is a folder of the domain's own that the guest may write to.
    pub(crate) fn is_private(&self, path: &Path) -> bool {
        self.mount_points.get(path) == Some(&MountPoint::Private)
            && self.root.as_ref().is_none_or(|root| root.shows(path))
    }

    pub(crate) fn is_executable(&self, path: &Path) -> bool {
        self.executable
            .iter()
            .any(|executable| path.starts_with(executable))
    }

    fn is_inside(&self, guest: &Path, writable: bool) -> bool {
        matches!(self.around(guest), Some((_, MountPoint::Host(host))) if host.writable == writable)
    }

    /// Private folders in which the guest may make sockets and FIFOs: those with nothing of the
    /// host's disk in them, because a Landlock rule also covers what is mounted below it.
    pub(crate) fn ipc_folders(&self) -> impl Iterator<Item = &Path> {
        let folders = PRIVATE_FOLDERS.iter().map(Path::new);
        let shown =
            folders.filter(|folder| self.root.as_ref().is_none_or(|root| root.shows(folder)));
        shown.filter(|folder| {
            let inside = |guest: &PathBuf| guest.starts_with(folder);
            !self.mount_points.iter().any(|(guest, place)| {
                inside(guest)
                    && matches!(place, MountPoint::Host(host) if host.writable && host.granted)
            })
        })
    }

    /// What is mounted for reading: programs in it can be executed.
    pub(crate) fn read_mounts(&self) -> impl Iterator<Item = Shown<'_>> {
        self.shown(|host| !host.writable)
    }

    /// What is granted for writing.
    pub(crate) fn write_grants(&self) -> impl Iterator<Item = Shown<'_>> {
        self.shown(|host| host.writable && host.granted)
    }

    /// What is granted, to read or to write.
    pub(crate) fn granted_mounts(&self) -> impl Iterator<Item = Shown<'_>> {
        self.shown(|host| host.granted)
    }

    /// All that is mounted of the host's.
    pub(crate) fn host_mounts(&self) -> impl Iterator<Item = Shown<'_>> {
        self.shown(|_| true)
    }

    fn shown(&self, is_it: fn(&HostPath) -> bool) -> impl Iterator<Item = Shown<'_>> {
        self.mount_points.iter().filter_map(move |(guest, place)| {
            let MountPoint::Host(host) = place else {
                return None;
            };
            let shown = Shown {
                guest,
                found: &host.found,
            };
            is_it(host).then_some(shown)
        })
    }

    /// Whether what a mount shows at a path inside is what the guest finds there: nothing lies over it.
    pub(crate) fn is_uncovered(&self, shown: Shown<'_>, inside: &Path) -> bool {
        let nearest = self.nearest(inside.ancestors());
        nearest.is_some_and(|(guest, _)| guest == shown.guest)
    }

    /// Paths that the policy protects, each with where it lies on the host.
    pub(crate) fn protected(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        self.all_protected()
            .filter(|(guest, _)| !self.implied.contains(*guest))
    }

    /// The same for what palisade protects of its own accord.
    pub(crate) fn guarded(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        self.all_protected()
            .filter(|(guest, _)| self.implied.contains(*guest))
    }

    fn all_protected(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        let protected = self.mount_points.iter();
        let protected = protected.filter(|(_, place)| **place == MountPoint::Protected);
        protected.filter_map(|(guest, _)| Some((guest.as_path(), self.host_path(guest)?)))
    }

    /// Folders of the host's for sockets, each with where it lies there.
    pub(crate) fn ipc_on_host(&self) -> impl Iterator<Item = (&Path, PathBuf)> {
        let folders = self.ipc.iter();
        folders.filter_map(|guest| Some((guest.as_path(), self.host_path(guest)?)))
    }

    /// Whether a path lies in one of the folders for sockets.
    pub(crate) fn is_for_sockets(&self, path: &Path) -> bool {
        self.ipc.iter().any(|folder| path.starts_with(folder))
    }

    /// What of the host's may be connected to: granted sockets, and below mounts that are folders for them.
    pub(crate) fn meeting_places(&self) -> Vec<PathBuf> {
        let is_socket = |place: &MountPoint| matches!(place, MountPoint::Host(host) if host.found.kind == Kind::Socket);
        let sockets = self
            .mount_points
            .iter()
            .filter(|(_, place)| is_socket(place));
        let sockets = sockets.map(|(path, _)| path.clone());
        let folders = self.ipc_on_host().map(|(guest, _)| guest.to_path_buf());
        sockets.chain(folders).collect()
    }
}

#[cfg(test)]
mod tests;
