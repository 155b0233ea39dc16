//! What a layout comes to: steps, placeholders and what is guarded.

use super::OwnMounts;
use crate::{
    host::{Host, Kind},
    plan_error::PlanError,
    steps::{Attributes, Placeholder, Step},
};
use rustix::io::Errno;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a layout comes to.
#[derive(Debug, Default)]
pub(crate) struct Arrangement {
    pub(crate) steps: Vec<Step>,
    pub(crate) placeholders: Vec<Placeholder>,
    /// Where mounts keep the guest from writing to the host, and the parents that lead there.
    pub(crate) guarded: Vec<PathBuf>,
    /// Where a granted folder is the root: what of the domain's own appears in it.
    pub(crate) own_mounts: Option<OwnMounts>,
    /// Folders that are there. By the letter: a path's own order looks at each of its components.
    pub(super) made: BTreeSet<OsString>,
    pub(super) pinned: BTreeSet<PathBuf>,
}

impl Arrangement {
    pub(super) fn remount(&mut self, target: &Path, set: Attributes, clear: Attributes) {
        self.steps.push(Step::Remount {
            target: target.into(),
            set,
            clear,
        });
    }

    /// What exists at a path of the host's is read-only from here on.
    pub(super) fn protect(&mut self, path: &Path) {
        self.remount(path, Attributes::RDONLY, Attributes::NONE);
        self.guarded.push(path.into());
    }

    /// Something empty lies over what exists at a path of the host's.
    pub(super) fn cover(&mut self, path: &Path, kind: Kind) {
        self.steps.push(Step::Cover {
            target: path.into(),
            folder: kind == Kind::Folder,
        });
        self.guarded.push(path.into());
    }

    /// A folder of the guest's that is to be there from the beginning.
    pub(super) fn make_on_host(
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
    pub(super) fn hold(
        &mut self,
        host: &dyn Host,
        path: &Path,
        on_host: PathBuf,
        folder: bool,
    ) -> Result<(), PlanError> {
        self.hold_place(host, &on_host, folder)?;
        self.protect(path);
        Ok(())
    }

    /// The same, and nothing said of how the guest is kept from it.
    pub(super) fn hold_place(
        &mut self,
        host: &dyn Host,
        on_host: &Path,
        folder: bool,
    ) -> Result<(), PlanError> {
        let parent = on_host.parent().unwrap_or(on_host);
        let found = host
            .find(parent)
            .map_err(|errno| PlanError::missing(parent, errno))?;
        self.placeholders.push(Placeholder {
            parent: found.identity,
            path: on_host.into(),
            folder,
            to_fill: false,
        });
        Ok(())
    }

    /// Guards the pinned parents of what is guarded too, and has all of it watched before it is mounted on.
    pub(super) fn guard(&mut self) {
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
            if let Step::Mount { target, .. }
            | Step::Remount { target, .. }
            | Step::Cover { target, .. } = &step
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

    pub(super) fn holds(&self, on_host: &Path) -> bool {
        let mut held = self.placeholders.iter().filter(|held| !held.to_fill);
        held.any(|held| held.path == on_host)
    }

    /// Whether a folder is made there for the guest to fill.
    pub(super) fn makes(&self, on_host: &Path) -> bool {
        let mut made = self.placeholders.iter().filter(|made| made.to_fill);
        made.any(|made| made.path == on_host)
    }

    pub(super) fn make_parents(&mut self, path: &Path) {
        if let Some(parent) = path.parent() {
            self.make_folder(parent, 0o755);
        }
    }

    pub(super) fn make_folder(&mut self, path: &Path, mode: u32) {
        if !self.made.contains(path.as_os_str()) {
            self.make_parents(path);
            self.made.insert(path.into());
            self.steps.push(Step::MakeFolder {
                path: path.into(),
                mode,
            });
        }
    }

    pub(super) fn make_mount_point(&mut self, path: &Path, kind: Kind) {
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

pub(super) fn nothing_to_execute(guest: &Path, host: PathBuf, errno: Errno) -> PlanError {
    match errno {
        Errno::NOENT => PlanError::NothingToExecute {
            guest: guest.into(),
            host,
        },
        errno => PlanError::missing(&host, errno),
    }
}
