//! Where everything of a domain's file system comes from: granted paths, the system view and
//! private folders, sorted so that the deeper path wins.
//!
//! The result is a list of steps and of placeholders. Nothing is opened for use here; the host is
//! asked what lies where.

use crate::{
    host::{Found, Host, Kind, Mount},
    paths::{join, normalized},
    plan_error::PlanError,
    steps::{Attributes, Placeholder, Step},
    view::{self, Check, Piece},
    wire::{PLACEHOLDER_FILE_MODE, PLACEHOLDER_FOLDER_MODE},
};
use palisade_policy::{Access, ConnectGrant, FileGrant, Policy, UnixGrant};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

mod guard;
mod root;

pub(crate) use root::{OwnPlaces, ROOT_PLACE, in_root_place, mount_program};

/// Folders of the domain's own `tmpfs` that the guest may write to.
pub(crate) const PRIVATE_FOLDERS: [&str; 2] = ["/tmp", "/dev/shm"];

/// One place of the domain's file system that is not just a folder of its root.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// A host path, mounted.
    Host(HostPath),
    /// A writable folder of the domain's `tmpfs`.
    Private,
    /// A folder of that `tmpfs` that only palisade fills, inside a granted root.
    Own,
    /// Read-only although the folder around it is writable; it may not exist yet.
    Protected,
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

/// The file system of one domain, before it is steps.
#[derive(Debug)]
pub(crate) struct Layout {
    places: BTreeMap<PathBuf, Place>,
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
}

/// A path that is open to the guest where nothing can be mounted.
#[derive(Debug)]
pub(crate) struct OpenPath {
    pub(crate) path: PathBuf,
    pub(crate) is_folder: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
}

/// What a layout comes to.
#[derive(Debug, Default)]
pub(crate) struct Arrangement {
    pub(crate) steps: Vec<Step>,
    pub(crate) placeholders: Vec<Placeholder>,
    /// Where mounts keep the guest from writing to the host, and the parents that lead there.
    pub(crate) guarded: Vec<PathBuf>,
    /// Where a granted folder is the root: what of the domain's own appears in it.
    pub(crate) own_places: Option<OwnPlaces>,
    made: BTreeSet<PathBuf>,
    pinned: BTreeSet<PathBuf>,
}

/// A device node of the host's under its own name.
fn device(found: Found) -> Place {
    Place::Host(HostPath {
        found,
        writable: true,
        granted: false,
        moved: false,
    })
}

impl Layout {
    /// Resolves a policy's paths on a host.
    pub(crate) fn resolve(
        policy: &Policy,
        host: &dyn Host,
        check: Check,
    ) -> Result<Self, PlanError> {
        let mut layout = Self {
            places: BTreeMap::new(),
            symlinks: BTreeMap::new(),
            files: BTreeMap::new(),
            executable: Vec::new(),
            ipc: Vec::new(),
            implied: BTreeSet::new(),
            absent: Vec::new(),
            root: None,
        };
        for folder in PRIVATE_FOLDERS {
            layout.places.insert(folder.into(), Place::Private);
        }
        if policy.grants.files.iter().any(FileGrant::is_root) {
            layout.places.insert(root::DEVICES.into(), Place::Own);
        } else if policy.grants.system {
            layout.add_system_view(host, check, &view::filled_folders(policy));
        }
        layout.add_devices(policy, host)?;
        // Those that refine what others bring come last.
        let (first, last): (Vec<_>, Vec<_>) = policy
            .grants
            .files
            .iter()
            .partition(|grant| grant.access != Access::Ipc);
        for grant in first.into_iter().chain(last) {
            layout.add_grant(grant, host)?;
        }
        for grant in &policy.grants.connect {
            if let ConnectGrant::Unix(socket) = grant {
                layout.add_socket(socket, host)?;
            }
        }
        layout.hold_absent(policy);
        layout.yield_to_grants();
        layout.add_guards(policy, host);
        layout.find_root(policy, host);
        Ok(layout)
    }

    /// A small file made for the domain, unless the policy puts something in its place.
    /// Says whether nothing is.
    pub(crate) fn add_file(&mut self, path: &str, mode: u32, content: Vec<u8>) -> bool {
        let at = Path::new(path);
        let is_free = !self.places.contains_key(at) && !self.symlinks.contains_key(at);
        if is_free {
            self.files.insert(path.into(), (mode, content.into()));
        }
        is_free
    }

    /// Whether files made for the domain can lie in this folder: nothing is mounted over it, nor leads elsewhere.
    pub(crate) fn can_fill(&self, folder: &Path) -> bool {
        !self.has_root() && self.host_path(folder).is_none() && self.follow(folder).is_none()
    }

    /// A symlink made for the domain.
    pub(crate) fn add_symlink(&mut self, path: &str, target: &str) {
        self.symlinks.insert(path.into(), target.into());
    }

    fn add_system_view(&mut self, host: &dyn Host, check: Check, filled: &[&Path]) {
        for piece in view::system_view(host, check, filled) {
            match piece {
                Piece::Symlink { path, target } => drop(self.symlinks.insert(path, target)),
                Piece::Copy { path, content } => {
                    self.files.insert(path, (0o444, content.into()));
                }
                Piece::Mount { path, found } => {
                    let place = HostPath {
                        found,
                        writable: false,
                        granted: false,
                        moved: false,
                    };
                    self.places.insert(path, Place::Host(place));
                }
            }
        }
    }

    fn add_devices(&mut self, policy: &Policy, host: &dyn Host) -> Result<(), PlanError> {
        let granted = policy
            .grants
            .devices
            .iter()
            .filter(|device| !device.is_pts())
            .map(|device| device.path.as_path());
        let dev = view::Lookup::new(host, Path::new("/dev"));
        for path in view::DEVICES.iter().map(Path::new).chain(granted) {
            if is_name_of_the_domains(path) {
                return Err(PlanError::OwnName { path: path.into() });
            }
            let found = dev
                .find(path)
                .map_err(|errno| PlanError::missing(path, errno))?;
            if found.kind != Kind::Device {
                return Err(PlanError::NotADevice { path: path.into() });
            }
            self.places.insert(path.into(), device(found));
        }
        Ok(())
    }

    /// `/dev/tty`, which is to each process the terminal that it has: one of the domain's. A host
    /// without it has programs that do without it.
    pub(crate) fn add_terminal(&mut self, host: &dyn Host) {
        let path = Path::new("/dev/tty");
        if let Ok(found) = host.find(path)
            && found.kind == Kind::Device
        {
            self.places.entry(path.into()).or_insert(device(found));
        }
    }

    fn add_grant(&mut self, grant: &FileGrant, host: &dyn Host) -> Result<(), PlanError> {
        let guest = grant.guest_path().to_path_buf();
        match grant.access {
            Access::Read | Access::ReadIfThere | Access::Write => {
                let found = match host.find(&grant.host) {
                    Err(Errno::NOENT | Errno::NOTDIR)
                        if grant.access == Access::ReadIfThere && !grant.is_root() =>
                    {
                        self.absent.push(grant.host.clone());
                        return Ok(());
                    }
                    found => found.map_err(|errno| PlanError::missing(&grant.host, errno))?,
                };
                if found.kind == Kind::Device {
                    return Err(PlanError::IsADevice {
                        path: grant.host.clone(),
                    });
                }
                if is_reserved(&found) {
                    return Err(PlanError::ReservedPath {
                        path: grant.host.clone(),
                        is: found.canonical,
                    });
                }
                if grant.is_root() && found.kind != Kind::Folder {
                    return Err(PlanError::RootIsAFile {
                        path: grant.host.clone(),
                    });
                }
                let writable = grant.access == Access::Write;
                self.places.insert(
                    guest,
                    Place::Host(HostPath {
                        found,
                        writable,
                        granted: true,
                        moved: grant
                            .guest
                            .as_ref()
                            .is_some_and(|guest| *guest != grant.host),
                    }),
                );
            }
            Access::Protect => drop(self.places.insert(guest, Place::Protected)),
            Access::Exec => {
                self.places
                    .entry(guest.clone())
                    .or_insert(Place::Executable);
                self.executable.push(guest);
            }
            Access::Ipc => {
                // Refused here, where the path can be named, rather than by Landlock.
                if let Some(path) = self.host_path(&guest) {
                    host.find(&path)
                        .map_err(|errno| PlanError::missing(&path, errno))?;
                }
                self.ipc.push(guest);
            }
        }
        Ok(())
    }

    /// A read grant inside a write grant withholds. So it does where its path is not there: the guest must not be the one
    /// that makes it.
    fn hold_absent(&mut self, policy: &Policy) {
        let grants = policy.grants.files.iter();
        let absent = grants.filter(|grant| {
            grant.access == Access::ReadIfThere && self.absent.contains(&grant.host)
        });
        for grant in absent {
            let guest = grant.guest_path();
            let is_in_writable = matches!(
                self.around(guest),
                Some((_, Place::Host(HostPath { writable: true, .. })))
            );
            if is_in_writable {
                self.places.entry(guest.into()).or_insert(Place::Protected);
            }
        }
    }

    /// Paths of grants that may be missing, and are.
    pub(crate) fn absent(&self) -> &[PathBuf] {
        &self.absent
    }

    /// A local socket of the host's, mounted: connecting is then the kernel's business alone, and the
    /// other end sees the guest's own user.
    fn add_socket(&mut self, grant: &UnixGrant, host: &dyn Host) -> Result<(), PlanError> {
        let path = &grant.host;
        let found = host
            .find(path)
            .map_err(|errno| PlanError::missing(path, errno))?;
        if found.kind != Kind::Socket {
            return Err(PlanError::NotASocket { path: path.clone() });
        }
        let place = HostPath {
            found,
            writable: false,
            granted: true,
            moved: grant.guest_path() != path,
        };
        self.places
            .insert(grant.guest_path().into(), Place::Host(place));
        Ok(())
    }

    /// A grant of a path inside the system view takes the place of what the view has there and below.
    fn yield_to_grants(&mut self) {
        let is_granted = |place: &Place| matches!(place, Place::Host(host) if host.granted);
        let is_view = |place: &Place| matches!(place, Place::Host(host) if !host.granted && host.found.kind != Kind::Device);
        let all = self.places.iter();
        let granted = all.filter(|(_, place)| is_granted(place));
        let granted: Vec<PathBuf> = granted.map(|(path, _)| path.clone()).collect();
        let is_below = |path: &Path| granted.iter().any(|grant| path.starts_with(grant));
        self.places
            .retain(|path, place| !(is_view(place) && is_below(path)));
        let places = &self.places;
        self.files.retain(|path, _| !places.contains_key(path));
        self.symlinks.retain(|path, _| !places.contains_key(path));
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
        let is_granted = |place: &Place| matches!(place, Place::Host(host) if host.granted);
        self.places
            .iter()
            .any(|(guest, place)| guest != path && guest.starts_with(path) && is_granted(place))
    }

    fn is_same_path(&self, path: &Path) -> bool {
        // A grant through a link shows the target under the link's own path.
        let host = path
            .ancestors()
            .find_map(|ancestor| match self.places.get(ancestor) {
                Some(Place::Host(host)) => Some(host),
                _ => None,
            });
        host.is_some_and(|host| !host.moved)
    }

    /// Whether the guest could change its own path, which lies where it can write. Of a folder only its name counts
    /// here, and a mount point keeps that, as does what leads to one.
    pub(crate) fn is_open(&self, inside: &Path, is_last: bool) -> bool {
        let is_held = || self.places.keys().any(|place| place.starts_with(inside));
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
            Some((_, Place::Host(host))) => !host.writable,
            Some((_, Place::Protected)) => true,
            _ => false,
        }
    }

    /// Whether anything of the host's disk is writable for the guest.
    pub(crate) fn writes_to_host(&self) -> bool {
        self.places
            .values()
            .any(|place| matches!(place, Place::Host(host) if host.writable && host.granted))
    }

    /// Whether a folder of the host's was granted.
    pub(crate) fn shows_granted_folders(&self) -> bool {
        let is_granted_folder = |place: &Place| matches!(place, Place::Host(host) if host.granted && host.found.kind == Kind::Folder);
        self.places.values().any(is_granted_folder)
    }

    /// Whether a path inside lies where programs are executed, by its words: where the guest can't write, or may execute
    /// what it writes.
    pub(crate) fn executes(&self, path: &Path) -> bool {
        let is_plain = path
            .components()
            .all(|part| !matches!(part, Component::ParentDir));
        let is_read_only = |path: &Path| match self.places.get(path) {
            Some(Place::Host(host)) => Some(!host.writable),
            Some(Place::Executable) => Some(true),
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
            self.places.values().filter_map(|place| match place {
                Place::Host(host) if host.found.kind != Kind::Device => Some(host),
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
        let is_refined = |place: &Place| matches!(place, Place::Executable | Place::Protected);
        let around = path.ancestors().find_map(|path| {
            let place = self.places.get_key_value(path);
            place.filter(|(_, place)| !is_refined(place))
        });
        match around? {
            (path, Place::Private) => Some(path),
            (path, Place::Host(host)) if host.writable && host.granted => Some(path),
            _ => None,
        }
    }

    fn nearest<'a>(
        &'a self,
        mut paths: impl Iterator<Item = &'a Path>,
    ) -> Option<(&'a Path, &'a Place)> {
        paths.find_map(|path| {
            self.places
                .get_key_value(path)
                .filter(|(_, place)| **place != Place::Executable)
                .map(|(path, place)| (path.as_path(), place))
        })
    }

    /// The place around `path`, not `path` itself.
    fn around<'a>(&'a self, path: &'a Path) -> Option<(&'a Path, &'a Place)> {
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
            .find_map(|ancestor| match self.places.get(ancestor) {
                Some(Place::Host(host)) => {
                    let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                    Some(Some(join(&host.found.canonical, rest)))
                }
                Some(Place::Private | Place::Own) => Some(None),
                _ => None,
            })?
    }

    /// Whether this is a folder of the domain's own that the guest may write to.
    pub(crate) fn is_private(&self, path: &Path) -> bool {
        self.places.get(path) == Some(&Place::Private)
            && self.root.as_ref().is_none_or(|root| root.shows(path))
    }

    pub(crate) fn is_executable(&self, path: &Path) -> bool {
        self.executable
            .iter()
            .any(|executable| path.starts_with(executable))
    }

    /// The same layout for Landlock alone, which can only add rights to a path and all below it, under
    /// the path's own name.
    pub(crate) fn without_mounts(&self) -> Result<Vec<OpenPath>, PlanError> {
        let copies = self.files.keys().map(|path| OpenPath {
            path: path.clone(),
            is_folder: false,
            writable: false,
            executable: false,
        });
        let mut open: Vec<_> = copies.collect();
        for (guest, place) in &self.places {
            let needs_mounts = |why| PlanError::NeedsMounts {
                path: guest.clone(),
                why,
            };
            match place {
                Place::Private | Place::Own => {}
                Place::Executable => open.extend(self.can_write(guest).then(|| OpenPath {
                    path: guest.clone(),
                    is_folder: false,
                    writable: false,
                    executable: true,
                })),
                Place::Protected if self.implied.contains(guest) => {}
                Place::Protected => {
                    return Err(needs_mounts("it is protected inside a writable folder"));
                }
                Place::Host(host) if host.found.canonical != *guest => {
                    return Err(needs_mounts("it has another path inside"));
                }
                Place::Host(host) if !host.writable && self.is_inside(guest, true) => {
                    return Err(needs_mounts("it is read-only inside a writable folder"));
                }
                Place::Host(host)
                    if host.writable
                        && host.found.kind != Kind::Device
                        && self.is_inside(guest, false)
                        && !self.is_executable(guest) =>
                {
                    return Err(needs_mounts(
                        "what is written there must not run, and the folder around it is executable",
                    ));
                }
                Place::Host(host) => open.push(OpenPath {
                    path: guest.clone(),
                    is_folder: host.found.kind == Kind::Folder,
                    writable: host.writable,
                    executable: self.is_executable(guest),
                }),
            }
        }
        Ok(open)
    }

    fn is_inside(&self, guest: &Path, writable: bool) -> bool {
        matches!(self.around(guest), Some((_, Place::Host(host))) if host.writable == writable)
    }

    /// Private folders in which the guest may make sockets and FIFOs: those with nothing of the
    /// host's disk in them, because a Landlock rule also covers what is mounted below it.
    pub(crate) fn ipc_folders(&self) -> impl Iterator<Item = &Path> {
        let folders = PRIVATE_FOLDERS.iter().map(Path::new);
        let shown =
            folders.filter(|folder| self.root.as_ref().is_none_or(|root| root.shows(folder)));
        shown.filter(|folder| {
            let inside = |guest: &PathBuf| guest.starts_with(folder);
            !self.places.iter().any(|(guest, place)| {
                inside(guest) && matches!(place, Place::Host(host) if host.writable && host.granted)
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

    /// All that is mounted of the host's.
    pub(crate) fn host_mounts(&self) -> impl Iterator<Item = Shown<'_>> {
        self.shown(|_| true)
    }

    fn shown(&self, is_it: fn(&HostPath) -> bool) -> impl Iterator<Item = Shown<'_>> {
        self.places.iter().filter_map(move |(guest, place)| {
            let Place::Host(host) = place else {
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
        let protected = self.places.iter();
        let protected = protected.filter(|(_, place)| **place == Place::Protected);
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
        let is_socket =
            |place: &Place| matches!(place, Place::Host(host) if host.found.kind == Kind::Socket);
        let sockets = self.places.iter().filter(|(_, place)| is_socket(place));
        let sockets = sockets.map(|(path, _)| path.clone());
        let folders = self.ipc_on_host().map(|(guest, _)| guest.to_path_buf());
        sockets.chain(folders).collect()
    }

    /// Turns the layout into steps, parents first.
    pub(crate) fn arrange(&self, host: &dyn Host) -> Result<Arrangement, PlanError> {
        let mut arrangement = Arrangement::default();
        arrangement.made.insert("/".into());
        if !self.has_root() {
            for folder in ["/proc", "/dev", "/etc"] {
                arrangement.make_folder(Path::new(folder), 0o755);
            }
        }
        for (path, target) in &self.symlinks {
            arrangement.make_parents(path);
            arrangement.steps.push(Step::MakeSymlink {
                path: path.clone(),
                target: target.clone(),
            });
        }
        for (path, (mode, content)) in &self.files {
            arrangement.make_parents(path);
            let step = Step::WriteFile {
                path: path.clone(),
                mode: *mode,
                content: content.clone(),
            };
            arrangement.steps.push(step);
        }
        for (guest, place) in &self.places {
            self.arrange_place(&mut arrangement, host, guest, place)?;
        }
        self.mount_meeting_places(&mut arrangement);
        arrangement.guard();
        self.enter_root(&mut arrangement, host)?;
        Ok(arrangement)
    }

    /// A folder for sockets is a mount of its own: a socket of the host's cannot be moved or linked into it
    /// (rename(2), `EXDEV`), and one that is in it is told by its mount.
    fn mount_meeting_places(&self, arrangement: &mut Arrangement) {
        for path in &self.ipc {
            if self.host_path(path).is_some() && !self.places.contains_key(path) {
                self.pin_parents(arrangement, path);
                if arrangement.pinned.insert(path.clone()) {
                    arrangement.remount(path, Attributes::NONE, Attributes::NONE);
                }
            }
        }
    }

    fn arrange_place(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
        place: &Place,
    ) -> Result<(), PlanError> {
        self.refuse_links(guest)?;
        match place {
            Place::Host(source) => self.mount(arrangement, host, guest, source),
            Place::Private => {
                arrangement.make_folder(guest, 0o1777);
                arrangement.remount(guest, self.private_attributes(guest), Attributes::NONE);
                Ok(())
            }
            Place::Own => {
                arrangement.make_folder(guest, 0o755);
                Ok(())
            }
            Place::Protected => self.protect(arrangement, host, guest),
            Place::Executable => self.make_executable(arrangement, host, guest),
        }
    }

    /// A mount point behind a symlink of the system view would lie somewhere else.
    fn refuse_links(&self, guest: &Path) -> Result<(), PlanError> {
        match guest
            .ancestors()
            .skip(1)
            .find(|ancestor| self.symlinks.contains_key(*ancestor))
        {
            Some(link) => Err(PlanError::BehindLink {
                guest: guest.into(),
                link: link.into(),
            }),
            None => Ok(()),
        }
    }

    fn private_attributes(&self, guest: &Path) -> Attributes {
        let noexec = if self.is_executable(guest) {
            Attributes::NONE
        } else {
            Attributes::NOEXEC
        };
        Attributes::NOSUID | Attributes::NODEV | noexec
    }

    fn attributes(&self, guest: &Path, source: &HostPath) -> Attributes {
        if source.found.kind == Kind::Device {
            // Read-only keeps its mode and owner; reading and writing a device are not affected.
            return Attributes::RDONLY | Attributes::NOSUID | Attributes::NOEXEC;
        }
        if source.writable {
            return self.private_attributes(guest);
        }
        Attributes::RDONLY | Attributes::NOSUID | Attributes::NODEV
    }

    fn mount(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
        source: &HostPath,
    ) -> Result<(), PlanError> {
        let around = guest.parent().map(|parent| self.host_path(parent));
        let is_own_place = around == Some(None);
        match around {
            None => arrangement.make_folder(Path::new(ROOT_PLACE), 0o755),
            Some(Some(_)) => {
                self.check_mount_point(arrangement, host, guest, source)?;
                if self.is_stricter_than_around(guest, source) {
                    arrangement.guarded.push(guest.into());
                }
            }
            Some(None) => arrangement.make_mount_point(guest, source.found.kind),
        }
        arrangement.steps.push(Step::Mount {
            source: source.found.canonical.clone(),
            identity: source.found.identity,
            owner: owner_to_map(host, source),
            open_to_all: is_open_to_all(&source.found, source.writable),
            attributes: self.attributes(guest, source),
            is_own_place,
            target: guest.into(),
        });
        Ok(())
    }

    /// Whether the guest could do more there if the mount were lost. A socket's server may make it anew
    /// at any time, and who could connect to the one may connect to the other.
    fn is_stricter_than_around(&self, guest: &Path, source: &HostPath) -> bool {
        let Some((outer, Place::Host(HostPath { writable: true, .. }))) = self.around(guest) else {
            return false;
        };
        let is_less_executable = self.is_executable(outer) && !self.is_executable(guest);
        source.found.kind != Kind::Socket && (!source.writable || is_less_executable)
    }

    /// Inside a mounted folder the place to mount on must exist already, and be of the same kind.
    fn check_mount_point(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
        source: &HostPath,
    ) -> Result<(), PlanError> {
        let below = self
            .host_path(guest.parent().unwrap_or(guest))
            .unwrap_or_default();
        let point = join(&below, Path::new(guest.file_name().unwrap_or_default()));
        check_place(host, guest, &point, source.found.kind)?;
        self.pin_parents(arrangement, guest);
        Ok(())
    }

    /// A folder that holds a mount point can be renamed, the mount going with it; then the guest
    /// could make a new one in its place. A mount point can't, so every parent becomes one.
    fn pin_parents(&self, arrangement: &mut Arrangement, guest: &Path) {
        let Some((outer, Place::Host(HostPath { writable: true, .. }))) = self.around(guest) else {
            return;
        };
        let mut parents: Vec<_> = guest
            .ancestors()
            .skip(1)
            .take_while(|parent| *parent != outer)
            .collect();
        parents.reverse();
        for parent in parents {
            if arrangement.pinned.insert(parent.into()) {
                arrangement.remount(parent, Attributes::NONE, Attributes::NONE);
            }
        }
    }

    fn protect(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
    ) -> Result<(), PlanError> {
        match self.around(guest) {
            Some((outer, Place::Host(source))) if source.writable => {
                let outer = outer.to_path_buf();
                let protected = self.protect_on_host(arrangement, host, guest, &outer);
                protected.map_err(|error| match error {
                    PlanError::ProtectBehindLink { guest, link }
                        if self.implied.contains(&guest) =>
                    {
                        PlanError::GuardBehindLink { guest, link }
                    }
                    error => error,
                })
            }
            Some((_, Place::Private)) => {
                arrangement.make_mount_point(guest, Kind::File);
                arrangement.remount(guest, Attributes::RDONLY, Attributes::NONE);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Walks down from the writable folder: what exists is held in place, the first thing that does
    /// not exist is kept from coming into being by an empty placeholder.
    fn protect_on_host(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
        outer: &Path,
    ) -> Result<(), PlanError> {
        let mut steps: Vec<_> = guest
            .ancestors()
            .take_while(|path| *path != outer)
            .collect();
        steps.reverse();
        for path in steps {
            let on_host = self.host_path(path).unwrap_or_default();
            match host.find(&on_host) {
                Ok(found) if found.canonical != on_host => {
                    return Err(PlanError::ProtectBehindLink {
                        guest: guest.into(),
                        link: path.into(),
                    });
                }
                Ok(found) if is_placeholder(&found) => {
                    // Another domain's: held together, it goes with the last.
                    arrangement.hold(host, path, on_host, found.kind == Kind::Folder)?;
                    return Ok(());
                }
                Ok(_) if path == guest => arrangement.protect(path),
                Ok(_) if arrangement.pinned.insert(path.into()) => {
                    arrangement.remount(path, Attributes::NONE, Attributes::NONE);
                }
                Ok(_) => {}
                Err(Errno::NOENT) if host.link(&on_host).is_some() => {
                    return Err(PlanError::ProtectBehindLink {
                        guest: guest.into(),
                        link: path.into(),
                    });
                }
                // It comes into being for the guest to fill: what is protected there has to be there before.
                Err(Errno::NOENT) if arrangement.makes(&on_host) => {
                    return Err(nothing_to_execute(path, on_host, Errno::NOENT));
                }
                // Held for another path already: nothing comes into being below it either.
                Err(Errno::NOENT) if arrangement.holds(&on_host) => return Ok(()),
                Err(Errno::NOENT) => {
                    let is_folder = path != guest || self.is_folder_of_hooks(guest);
                    arrangement.hold(host, path, on_host, is_folder)?;
                    return Ok(());
                }
                Err(errno) => return Err(PlanError::missing(&on_host, errno)),
            }
        }
        Ok(())
    }

    fn is_folder_of_hooks(&self, guest: &Path) -> bool {
        self.implied.contains(guest) && guest.ends_with("hooks")
    }

    fn make_executable(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
    ) -> Result<(), PlanError> {
        match self.host_path(guest) {
            Some(on_host) => {
                match host.find(&on_host) {
                    Ok(_) => {}
                    // A link that leads nowhere is there, and nothing is made behind one.
                    Err(Errno::NOENT)
                        if self.is_inside(guest, true) && host.link(&on_host).is_none() =>
                    {
                        arrangement.make_on_host(host, guest, on_host)?;
                    }
                    Err(errno) => return Err(nothing_to_execute(guest, on_host, errno)),
                }
                self.pin_parents(arrangement, guest);
            }
            None => arrangement.make_folder(guest, 0o1777),
        }
        arrangement.remount(guest, Attributes::NONE, Attributes::NOEXEC);
        Ok(())
    }
}

impl Arrangement {
    fn remount(&mut self, target: &Path, set: Attributes, clear: Attributes) {
        self.steps.push(Step::Remount {
            target: target.into(),
            set,
            clear,
        });
    }

    /// What exists at a path of the host's is read-only from here on.
    fn protect(&mut self, path: &Path) {
        self.remount(path, Attributes::RDONLY, Attributes::NONE);
        self.guarded.push(path.into());
    }

    /// A folder of the guest's that is to be there from the beginning.
    fn make_on_host(
        &mut self,
        host: &dyn Host,
        guest: &Path,
        on_host: PathBuf,
    ) -> Result<(), PlanError> {
        let parent = on_host.parent().unwrap_or(&on_host);
        match host.find(parent) {
            Ok(found) if found.kind == Kind::Folder && found.canonical == parent => {
                self.placeholders.push(Placeholder {
                    parent: found.identity,
                    path: on_host,
                    folder: true,
                    to_fill: true,
                });
                Ok(())
            }
            Ok(_) => Err(nothing_to_execute(guest, on_host, Errno::NOENT)),
            Err(errno) => Err(nothing_to_execute(guest, on_host, errno)),
        }
    }

    /// A placeholder keeps what does not exist from coming into being.
    fn hold(
        &mut self,
        host: &dyn Host,
        path: &Path,
        on_host: PathBuf,
        folder: bool,
    ) -> Result<(), PlanError> {
        let parent = on_host.parent().unwrap_or(&on_host);
        let found = host
            .find(parent)
            .map_err(|errno| PlanError::missing(parent, errno))?;
        self.placeholders.push(Placeholder {
            parent: found.identity,
            path: on_host,
            folder,
            to_fill: false,
        });
        self.protect(path);
        Ok(())
    }

    /// Guards the pinned parents of what is guarded too, and has all of it watched before it is mounted on.
    fn guard(&mut self) {
        let guarded = &self.guarded;
        let leads_there = |pin: &&PathBuf| guarded.iter().any(|path| path.starts_with(pin));
        let all: BTreeSet<_> = self
            .pinned
            .iter()
            .filter(leads_there)
            .chain(guarded)
            .cloned()
            .collect();
        let mut unwatched = all.clone();
        let steps = std::mem::take(&mut self.steps);
        for step in steps {
            if let Step::Mount { target, .. } | Step::Remount { target, .. } = &step
                && unwatched.remove(target)
            {
                self.steps.push(Step::Watch {
                    target: target.clone(),
                });
            }
            self.steps.push(step);
        }
        self.guarded = all.into_iter().collect();
    }

    fn holds(&self, on_host: &Path) -> bool {
        let mut held = self.placeholders.iter().filter(|held| !held.to_fill);
        held.any(|held| held.path == on_host)
    }

    /// Whether a folder is made there for the guest to fill.
    fn makes(&self, on_host: &Path) -> bool {
        let mut made = self.placeholders.iter().filter(|made| made.to_fill);
        made.any(|made| made.path == on_host)
    }

    fn make_parents(&mut self, path: &Path) {
        let mut parents: Vec<_> = path.ancestors().skip(1).collect();
        parents.reverse();
        for parent in parents {
            self.make_folder(parent, 0o755);
        }
    }

    fn make_folder(&mut self, path: &Path, mode: u32) {
        if !self.made.contains(path) {
            self.make_parents(path);
            self.made.insert(path.into());
            self.steps.push(Step::MakeFolder {
                path: path.into(),
                mode,
            });
        }
    }

    fn make_mount_point(&mut self, path: &Path, kind: Kind) {
        if kind == Kind::Folder {
            return self.make_folder(path, 0o755);
        }
        self.make_parents(path);
        self.steps.push(Step::WriteFile {
            path: path.into(),
            mode: 0o444,
            content: Arc::default(),
        });
    }
}

fn nothing_to_execute(guest: &Path, host: PathBuf, errno: Errno) -> PlanError {
    match errno {
        Errno::NOENT => PlanError::NothingToExecute {
            guest: guest.into(),
            host,
        },
        errno => PlanError::missing(&host, errno),
    }
}

/// Whether something of that kind, which a mount can cover, lies at `point` on the host.
fn check_place(host: &dyn Host, guest: &Path, point: &Path, kind: Kind) -> Result<(), PlanError> {
    let no_mount_point = |why| PlanError::NoMountPoint {
        guest: guest.into(),
        host: point.into(),
        why,
    };
    let found = host
        .find(point)
        .map_err(|_| no_mount_point("does not exist"))?;
    if found.canonical != point {
        return Err(no_mount_point("is reached through a symlink"));
    }
    if (found.kind == Kind::Folder) != (kind == Kind::Folder) {
        return Err(no_mount_point(
            "is a folder where a file is to appear, or the reverse",
        ));
    }
    Ok(())
}

/// Whose files the guest shall own. A single file that anybody may read, in folders that anybody may
/// enter, is as good without; what a folder holds may be anything.
fn owner_to_map(host: &dyn Host, source: &HostPath) -> Option<(u32, u32)> {
    let found = &source.found;
    let open_parents = || {
        let mut parents = found.canonical.ancestors().skip(1);
        parents.all(|parent| {
            let mode = host.kind_and_mode(parent);
            mode.is_ok_and(|(_, mode)| mode & 0o1 != 0)
        })
    };
    let is_open = || {
        !source.writable
            && found.kind == Kind::File
            && is_open_to_all(found, false)
            && open_parents()
    };
    (source.granted && !is_open()).then_some((found.uid, found.gid))
}

/// Whether palisade made this to keep a protected path from coming into being.
fn is_placeholder(found: &Found) -> bool {
    match found.kind {
        Kind::File => found.mode == PLACEHOLDER_FILE_MODE && found.size_bytes == 0,
        Kind::Folder => found.mode == PLACEHOLDER_FOLDER_MODE,
        Kind::Device | Kind::Socket | Kind::Fifo => false,
    }
}

/// Names of the guest's streams and terminals, which are links inside, and its processes.
fn is_name_of_the_domains(path: &Path) -> bool {
    let links = ["fd", "stdin", "stdout", "stderr", "ptmx", "pts"];
    let in_dev = path.strip_prefix("/dev").ok();
    path.starts_with("/proc")
        || in_dev.is_some_and(|name| links.iter().any(|link| name.starts_with(link)))
}

/// What must not be granted, under whatever name: it holds the host's processes or devices, or all.
fn is_reserved(found: &Found) -> bool {
    let path = &found.canonical;
    let inside = |folder| path.starts_with(folder);
    path == Path::new("/") || inside("/proc") || (inside("/dev") && !inside("/dev/shm"))
}

/// Refuses grants that a proc file system lies in, as in a chroot: mounts below a folder are granted with
/// it. For programs that open paths in a guest's name, and would open their own memory there.
///
/// # Errors
///
/// When there is such a grant, or the mounts cannot be told.
pub(crate) fn refuse_proc(policy: &Policy, host: &dyn Host) -> Result<(), PlanError> {
    let is_of_host = |grant: &&FileGrant| grant.access.maps_host_path();
    let mut grants = policy.grants.files.iter().filter(is_of_host).peekable();
    if grants.peek().is_none() {
        return Ok(());
    }
    let mut mounts = host
        .mounts()
        .map_err(|errno| PlanError::missing(Path::new("/proc/self/mountinfo"), errno))?;
    mounts.retain(|mount| mount.kind == "proc");
    for grant in grants {
        let found = match host.find(&grant.host) {
            Err(Errno::NOENT | Errno::NOTDIR) if grant.access == Access::ReadIfThere => continue,
            found => found.map_err(|errno| PlanError::missing(&grant.host, errno))?,
        };
        let place = &found.canonical;
        let reached =
            |mount: &&Mount| mount.point.starts_with(place) || place.starts_with(&mount.point);
        if let Some(mount) = mounts.iter().find(reached) {
            return Err(PlanError::HoldsProc {
                path: grant.host.clone(),
                mount: mount.point.clone(),
            });
        }
    }
    Ok(())
}

/// Whether a file can be used without being its owner. A folder's content may be anything.
fn is_open_to_all(found: &Found, writable: bool) -> bool {
    let needed = match (found.kind, writable) {
        (Kind::File, false) => 0o4,
        (Kind::File | Kind::Socket | Kind::Fifo, _) => 0o6,
        (Kind::Folder, false) => 0o5,
        (Kind::Folder, true) => 0o7,
        (Kind::Device, _) => 0,
    };
    found.mode & needed == needed
}

#[cfg(test)]
mod tests;
