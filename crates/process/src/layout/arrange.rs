//! From a layout to steps: mounts, mount points for them, and what keeps protected paths.

use super::{
    Arrangement, HostPath, Layout, MountPoint, arrangement::nothing_to_execute, root::ROOT_PLACE,
};
use crate::{
    host::{Found, Host, Kind},
    paths::join,
    plan_error::PlanError,
    steps::{Attributes, Step},
    wire::{PLACEHOLDER_FILE_MODE, PLACEHOLDER_FOLDER_MODE},
};
use rustix::io::Errno;
use std::path::Path;

impl Layout {
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
        for (guest, place) in &self.mount_points {
            self.arrange_mount_point(&mut arrangement, host, guest, place)?;
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
            if self.host_path(path).is_some() && !self.mount_points.contains_key(path) {
                self.pin_parents(arrangement, path);
                if arrangement.pinned.insert(path.clone()) {
                    arrangement.remount(path, Attributes::NONE, Attributes::NONE);
                }
            }
        }
    }

    fn arrange_mount_point(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
        guest: &Path,
        place: &MountPoint,
    ) -> Result<(), PlanError> {
        self.refuse_links(guest)?;
        match place {
            MountPoint::Host(source) => self.mount(arrangement, host, guest, source),
            MountPoint::Private => {
                arrangement.make_folder(guest, 0o1777);
                arrangement.remount(guest, self.private_attributes(guest), Attributes::NONE);
                Ok(())
            }
            MountPoint::Own => {
                arrangement.make_folder(guest, 0o755);
                Ok(())
            }
            MountPoint::Protected => self.protect(arrangement, host, guest),
            MountPoint::Hidden(on_host) => self.cover(arrangement, host, (guest, on_host)),
            MountPoint::Executable => self.make_executable(arrangement, host, guest),
        }
    }

    /// A mount point behind a symlink of the system view would lie somewhere else.
    pub(super) fn refuse_links(&self, guest: &Path) -> Result<(), PlanError> {
        let mut links = self.symlinks.keys().rev();
        match links.find(|link| guest != *link && guest.starts_with(link)) {
            Some(link) => Err(PlanError::BehindLink {
                guest: guest.into(),
                link: link.clone(),
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

    pub(super) fn attributes(&self, guest: &Path, source: &HostPath) -> Attributes {
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
                if self.is_stricter_than_around(guest, source) || self.hides_in_mount(guest) {
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
        self.lay_over(arrangement, host, guest, source)
    }

    /// Whether the guest could do more there if the mount were lost. A socket's server may make it anew
    /// at any time, and who could connect to the one may connect to the other.
    fn is_stricter_than_around(&self, guest: &Path, source: &HostPath) -> bool {
        let Some((outer, MountPoint::Host(HostPath { writable: true, .. }))) = self.around(guest)
        else {
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
        let Some((outer, MountPoint::Host(HostPath { writable: true, .. }))) = self.around(guest)
        else {
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
            Some((outer, MountPoint::Host(source))) if source.writable => {
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
            Some((_, MountPoint::Private)) => {
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

/// Whether something of that kind, which a mount can cover, lies at `point` on the host.
pub(super) fn check_place(
    host: &dyn Host,
    guest: &Path,
    point: &Path,
    kind: Kind,
) -> Result<(), PlanError> {
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
pub(super) fn owner_to_map(host: &dyn Host, source: &HostPath) -> Option<(u32, u32)> {
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

/// Whether a file can be used without being its owner. A folder's content may be anything.
pub(super) fn is_open_to_all(found: &Found, writable: bool) -> bool {
    let needed = match (found.kind, writable) {
        (Kind::File, false) => 0o4,
        (Kind::File | Kind::Socket | Kind::Fifo, _) => 0o6,
        (Kind::Folder, false) => 0o5,
        (Kind::Folder, true) => 0o7,
        (Kind::Device, _) => 0,
    };
    found.mode & needed == needed
}

/// Whether palisade made this to keep a protected path from coming into being.
pub(super) fn is_placeholder(found: &Found) -> bool {
    match found.kind {
        Kind::File => found.mode == PLACEHOLDER_FILE_MODE && found.size_bytes == 0,
        Kind::Folder => found.mode == PLACEHOLDER_FOLDER_MODE,
        Kind::Device | Kind::Socket | Kind::Fifo => false,
    }
}
