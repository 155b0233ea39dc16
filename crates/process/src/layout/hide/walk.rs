//! Through what is granted, as the guest finds it.

use super::{HostPath, Layout, MountPoint};
use crate::{
    host::{Entry, EntryKind, Host},
    plan_error::PlanError,
};
use rustix::io::Errno;
use std::path::Path;

/// Most files and folders that are looked at.
pub(super) const MOST: usize = 200_000;

pub(super) struct Walk<'a> {
    layout: &'a Layout,
    host: &'a dyn Host,
    looked_at: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(layout: &'a Layout, host: &'a dyn Host) -> Self {
        Self {
            layout,
            host,
            looked_at: 0,
        }
    }

    /// Whether there was more than is looked at.
    pub(super) fn is_cut_short(&self) -> bool {
        self.looked_at > MOST
    }

    /// Visits everything in a folder that is mounted for the guest, with its path inside and on the host; not where something
    /// else is mounted inside, nor what is hidden. A folder is gone into if its visit says so, and no link is.
    pub(super) fn through(
        &mut self,
        guest: &Path,
        source: &HostPath,
        mut visit: impl FnMut(&Path, &Path, &Entry) -> bool,
    ) -> Result<(), PlanError> {
        let mut folders = vec![(guest.to_path_buf(), source.found.canonical.clone())];
        while let Some((guest, on_host)) = folders.pop() {
            for entry in self.list(&on_host, source.writable)? {
                let inside = guest.join(&entry.name);
                let is_other = matches!(
                    self.layout.mount_points.get(&inside),
                    Some(
                        MountPoint::Host(_)
                            | MountPoint::Private
                            | MountPoint::Own
                            | MountPoint::Hidden(_)
                    )
                );
                let below = on_host.join(&entry.name);
                if !is_other && visit(&inside, &below, &entry) && entry.kind == EntryKind::Folder {
                    folders.push((inside, below));
                }
            }
        }
        Ok(())
    }

    /// The same below a folder of the host's that nobody sees.
    pub(super) fn through_host(
        &mut self,
        folder: &Path,
        mut visit: impl FnMut(&Path, &Entry),
    ) -> Result<(), PlanError> {
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in self.list(&folder, true)? {
                let path = folder.join(&entry.name);
                visit(&path, &entry);
                if entry.kind == EntryKind::Folder {
                    folders.push(path);
                }
            }
        }
        Ok(())
    }

    fn list(&mut self, folder: &Path, writable: bool) -> Result<Vec<Entry>, PlanError> {
        if self.is_cut_short() {
            return Ok(Vec::new());
        }
        let entries = match self.host.list(folder) {
            // The guest cannot either. Its own it could open where it may change modes.
            Err(Errno::ACCESS)
                if !self.can_enter(folder) && (!writable || self.is_of_another(folder)) =>
            {
                Vec::new()
            }
            entries => entries.map_err(|errno| PlanError::CannotLookThrough {
                path: folder.into(),
                errno,
            })?,
        };
        self.looked_at += entries.len();
        Ok(entries)
    }

    fn can_enter(&self, folder: &Path) -> bool {
        self.host.kind_and_mode(&folder.join(".")) != Err(Errno::ACCESS)
    }

    fn is_of_another(&self, folder: &Path) -> bool {
        let found = self.host.find_unlinked(folder);
        found.is_ok_and(|found| found.uid != self.host.user())
    }
}
