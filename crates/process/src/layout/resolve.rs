//! From a policy's grants to what lies where: paths are looked up on the host, and refused where they cannot be granted.

use super::{HostPath, Layout, MountPoint, PRIVATE_FOLDERS, root};
use crate::{
    host::{Found, Host, Kind, Mount},
    plan_error::PlanError,
    view::{self, Check, Piece},
};
use palisade_policy::{Access, ConnectGrant, FileGrant, Policy, UnixGrant};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

impl Layout {
    /// Resolves a policy's paths on a host.
    pub(crate) fn resolve(
        policy: &Policy,
        host: &dyn Host,
        check: Check,
    ) -> Result<Self, PlanError> {
        let mut layout = Self {
            mount_points: BTreeMap::new(),
            symlinks: BTreeMap::new(),
            files: BTreeMap::new(),
            executable: Vec::new(),
            ipc: Vec::new(),
            implied: BTreeSet::new(),
            absent: Vec::new(),
            root: None,
            grows: false,
            formerly: Vec::new(),
            keeps_git: policy.grants.guard,
            patterns: 0,
            linked: super::hide::Linked::default(),
            unheld: Vec::new(),
        };
        for folder in PRIVATE_FOLDERS {
            layout
                .mount_points
                .insert(folder.into(), MountPoint::Private);
        }
        if policy.grants.files.iter().any(FileGrant::is_root) {
            layout
                .mount_points
                .insert(root::DEVICES.into(), MountPoint::Own);
        } else if policy.grants.system {
            layout.add_system_view(host, check, &view::filled_folders(policy));
        }
        layout.add_devices(policy, host)?;
        // Those that refine what others bring come last.
        let (first, last): (Vec<_>, Vec<_>) = policy
            .grants
            .files
            .iter()
            .filter(|grant| grant.access != Access::Hide)
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
        layout.add_hidden(policy, host)?;
        layout.refuse_unheld(policy)?;
        layout.add_guards(policy, host);
        layout.find_root(policy, host);
        Ok(layout)
    }

    /// A small file made for the domain, unless the policy puts something in its place.
    /// Says whether nothing is.
    pub(crate) fn add_file(&mut self, path: &str, mode: u32, content: Vec<u8>) -> bool {
        let at = Path::new(path);
        let is_free = !self.mount_points.contains_key(at) && !self.symlinks.contains_key(at);
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
                    self.files.insert(path, (0o444, content));
                }
                Piece::Mount { path, found } => {
                    let place = HostPath {
                        found,
                        writable: false,
                        granted: false,
                        moved: false,
                    };
                    self.mount_points.insert(path, MountPoint::Host(place));
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
            self.mount_points.insert(path.into(), device(found));
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
            self.mount_points
                .entry(path.into())
                .or_insert(device(found));
        }
    }

    pub(super) fn add_grant(
        &mut self,
        grant: &FileGrant,
        host: &dyn Host,
    ) -> Result<(), PlanError> {
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
                self.mount_points.insert(
                    guest,
                    MountPoint::Host(HostPath {
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
            // All the others are known before what is hidden in them is looked for.
            Access::Hide => {}
            Access::Protect => drop(self.mount_points.insert(guest, MountPoint::Protected)),
            Access::Exec => {
                self.mount_points
                    .entry(guest.clone())
                    .or_insert(MountPoint::Executable);
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
                Some((_, MountPoint::Host(HostPath { writable: true, .. })))
            );
            if is_in_writable {
                self.mount_points
                    .entry(guest.into())
                    .or_insert(MountPoint::Protected);
            }
        }
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
        self.mount_points
            .insert(grant.guest_path().into(), MountPoint::Host(place));
        Ok(())
    }

    /// A grant of a path inside the system view takes the place of what the view has there and below.
    fn yield_to_grants(&mut self) {
        let is_granted =
            |place: &MountPoint| matches!(place, MountPoint::Host(host) if host.granted);
        let is_view = |place: &MountPoint| matches!(place, MountPoint::Host(host) if !host.granted && host.found.kind != Kind::Device);
        let all = self.mount_points.iter();
        let granted = all.filter(|(_, place)| is_granted(place));
        let granted: Vec<PathBuf> = granted.map(|(path, _)| path.clone()).collect();
        let is_below = |path: &Path| granted.iter().any(|grant| path.starts_with(grant));
        self.mount_points
            .retain(|path, place| !(is_view(place) && is_below(path)));
        let places = &self.mount_points;
        self.files.retain(|path, _| !places.contains_key(path));
        self.symlinks.retain(|path, _| !places.contains_key(path));
    }
}

/// A device node of the host's under its own name.
fn device(found: Found) -> MountPoint {
    MountPoint::Host(HostPath {
        found,
        writable: true,
        granted: false,
        moved: false,
    })
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
