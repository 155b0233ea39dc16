//! A granted folder as the guest's root.
//!
//! The folder itself is mounted at `/`, so that what the guest makes there is made in the folder. What every
//! domain has besides (`/dev`, `/tmp`, a hosts file) is built in the domain's own `tmpfs`, as ever, and
//! mounted over what the folder has at these places. Where it has nothing, the guest has nothing there either:
//! nothing is made in somebody's folder for a mount's sake.
//!
//! ```text
//!  tmpfs ─┬─ .root      the folder ─┬─ bin, etc, …   as they are
//!         │                         ├─ dev ◀─┐
//!         ├─ dev, made ─────────────┼────────┘
//!         └─ tmp, made ─────────────┴─▶ tmp
//! ```

use super::{
    Arrangement, HostPath, Layout, MountPoint,
    arrange::{check_place, is_open_to_all, owner_to_map},
};
use crate::{
    host::{Host, Kind},
    paths::join,
    plan_error::PlanError,
    steps::{Attributes, Step},
};
use palisade_policy::Policy;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where the folder is mounted until it becomes the root.
pub(crate) const ROOT_PLACE: &str = "/.root";
/// The domain's own devices.
pub(super) const DEVICES: &str = "/dev";
const TEMPORARY: &str = "/tmp";
const PROCESSES: &str = "/proc";

/// A granted folder that is the root.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// Of `/dev`, `/tmp` and `/proc`, those that it has a folder for.
    folders: BTreeSet<&'static str>,
    /// The policy grants device nodes.
    needs_devices: bool,
}

/// What of the domain's own appears in a granted root.
#[derive(Debug, Default)]
pub(crate) struct OwnMounts {
    /// The mounts of it.
    pub(crate) steps: Vec<Step>,
    /// There is a folder for `/proc`.
    pub(crate) has_proc: bool,
}

impl Root {
    fn find(source: &HostPath, policy: &Policy, host: &dyn Host) -> Self {
        let has = |path: &&str| has_place(host, source, Path::new(path), Kind::Folder).is_ok();
        Self {
            folders: [DEVICES, TEMPORARY, PROCESSES]
                .into_iter()
                .filter(has)
                .collect(),
            needs_devices: !policy.grants.devices.is_empty(),
        }
    }

    /// Whether one of the domain's own folders can be seen at its path.
    pub(super) fn shows(&self, path: &Path) -> bool {
        let top = if path.starts_with(DEVICES) {
            DEVICES
        } else {
            TEMPORARY
        };
        self.folders.contains(top)
    }
}

/// The path under which the guest's `path` lies while the folder is not the root yet.
pub(crate) fn in_root_place(path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    join(Path::new(ROOT_PLACE), below)
}

/// Whether the folder has something of that kind at the path, and no link on the way.
fn has_place(host: &dyn Host, root: &HostPath, path: &Path, kind: Kind) -> Result<(), PlanError> {
    let below = path.strip_prefix("/").unwrap_or(path);
    check_place(host, path, &root.found.canonical.join(below), kind)
}

impl Layout {
    /// Looks at the folder that is the root, if one is.
    pub(super) fn find_root(&mut self, policy: &Policy, host: &dyn Host) {
        self.root = self
            .root_source()
            .map(|source| Root::find(source, policy, host));
    }

    fn root_source(&self) -> Option<&HostPath> {
        match self.mount_points.get(Path::new("/")) {
            Some(MountPoint::Host(source)) => Some(source),
            _ => None,
        }
    }

    /// Whether a granted folder is the root.
    pub(crate) fn has_root(&self) -> bool {
        self.root.is_some()
    }

    /// Moves what lies in the folder to where that is mounted, and shows the domain's own in it.
    pub(super) fn enter_root(
        &self,
        arrangement: &mut Arrangement,
        host: &dyn Host,
    ) -> Result<(), PlanError> {
        let (Some(root), Some(source)) = (&self.root, self.root_source()) else {
            return Ok(());
        };
        for step in &mut arrangement.steps {
            if let Step::Mount { target, .. }
            | Step::Remount { target, .. }
            | Step::Hide { target, .. }
            | Step::Cover { target, .. }
            | Step::Watch { target } = step
                && !self.is_own(target)
            {
                *target = in_root_place(target);
            }
        }
        let mut own = OwnMounts {
            steps: Vec::new(),
            has_proc: root.folders.contains(PROCESSES),
        };
        let devices = Attributes::RDONLY | Attributes::NOSUID | Attributes::NOEXEC;
        for (folder, set) in [(DEVICES, devices), (TEMPORARY, Attributes::NONE)] {
            let path = Path::new(folder);
            if root.folders.contains(folder) && self.is_own(path) {
                own.show(path, set);
            } else if let Some(needed) = self.needed_below(path) {
                return has_place(host, source, path, Kind::Folder)
                    .map_err(|error| name(error, needed));
            }
        }
        for path in self.files.keys() {
            has_place(host, source, path, Kind::File)?;
            own.show(path, Attributes::RDONLY);
        }
        arrangement.own_mounts = Some(own);
        Ok(())
    }

    /// Whether the path lies in the domain's own `tmpfs` rather than in the folder.
    fn is_own(&self, path: &Path) -> bool {
        let is_of_tmpfs =
            |place: &MountPoint| matches!(place, MountPoint::Private | MountPoint::Own);
        let mut places = path
            .ancestors()
            .filter_map(|path| self.mount_points.get(path));
        places.any(is_of_tmpfs) || self.files.contains_key(path)
    }

    /// Something of the policy's that would be in one of the domain's own folders.
    fn needed_below(&self, folder: &Path) -> Option<&Path> {
        let is_asked_for = |place: &MountPoint| match place {
            MountPoint::Host(source) => source.granted,
            MountPoint::Protected | MountPoint::Hidden(_) | MountPoint::Executable => true,
            MountPoint::Private | MountPoint::Own => false,
        };
        let mut below = self.mount_points.iter().filter(|(path, place)| {
            *path != folder && path.starts_with(folder) && is_asked_for(place)
        });
        let needs_devices = self.root.as_ref().is_some_and(|root| root.needs_devices);
        let is_devices = folder == Path::new(DEVICES);
        let path = below.next().map(|(path, _)| path.as_path());
        path.or_else(|| (is_devices && needs_devices).then_some(Path::new(DEVICES)))
    }
}

/// A program of the host's, mounted beside the folder.
pub(crate) fn mount_program(
    host: &dyn Host,
    path: &Path,
    inside: &Path,
) -> Result<[Step; 2], PlanError> {
    let found = host
        .find(path)
        .map_err(|errno| PlanError::missing(path, errno))?;
    let source = HostPath {
        found,
        writable: false,
        granted: true,
        moved: true,
    };
    let owner = owner_to_map(host, &source);
    let mount_point = Step::WriteFile {
        path: inside.into(),
        mode: 0o444,
        content: Arc::default(),
    };
    let mount = Step::Mount {
        open_to_all: is_open_to_all(&source.found, false),
        source: source.found.canonical,
        identity: source.found.identity,
        owner,
        attributes: Attributes::RDONLY | Attributes::NOSUID | Attributes::NODEV,
        is_own_place: false,
        target: inside.into(),
    };
    Ok([mount_point, mount])
}

/// The same, about something below.
fn name(error: PlanError, path: &Path) -> PlanError {
    match error {
        PlanError::NoMountPoint { host, why, .. } => PlanError::NoMountPoint {
            guest: path.into(),
            host,
            why,
        },
        error => error,
    }
}

impl OwnMounts {
    fn show(&mut self, path: &Path, set: Attributes) {
        self.steps.push(Step::Show {
            source: path.into(),
            set,
            target: in_root_place(path),
        });
    }
}
