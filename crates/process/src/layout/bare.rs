//! A layout without mounts.

use super::{Layout, MountPoint};
use crate::{host::Kind, plan_error::PlanError};
use std::path::PathBuf;

/// A path that is open to the guest where nothing can be mounted.
#[derive(Debug)]
pub(crate) struct OpenPath {
    pub(crate) path: PathBuf,
    pub(crate) is_folder: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
}

impl Layout {
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
        for (guest, place) in &self.mount_points {
            let needs_mounts = |why| PlanError::NeedsMounts {
                path: guest.clone(),
                why,
            };
            match place {
                MountPoint::Private | MountPoint::Own => {}
                MountPoint::Executable => open.extend(self.can_write(guest).then(|| OpenPath {
                    path: guest.clone(),
                    is_folder: false,
                    writable: false,
                    executable: true,
                })),
                MountPoint::Protected => {
                    return Err(needs_mounts("it is protected inside a writable folder"));
                }
                MountPoint::Hidden(_) => {
                    return Err(needs_mounts("it is hidden inside a folder that is granted"));
                }
                MountPoint::Host(host) if host.found.canonical != *guest => {
                    return Err(needs_mounts("it has another path inside"));
                }
                MountPoint::Host(host) if !host.writable && self.is_inside(guest, true) => {
                    return Err(needs_mounts("it is read-only inside a writable folder"));
                }
                MountPoint::Host(host)
                    if host.writable
                        && host.found.kind != Kind::Device
                        && self.is_inside(guest, false)
                        && !self.is_executable(guest) =>
                {
                    return Err(needs_mounts(
                        "what is written there must not run, and the folder around it is executable",
                    ));
                }
                MountPoint::Host(host) => open.push(OpenPath {
                    path: guest.clone(),
                    is_folder: host.found.kind == Kind::Folder,
                    writable: host.writable,
                    executable: self.is_executable(guest),
                }),
            }
        }
        Ok(open)
    }
}
