//! What this process may do in the hierarchies that [`detect`](super::detect()) finds.

use std::{
    io,
    path::{Path, PathBuf},
    process,
};

use serde::Serialize;

use crate::kernel_file;

use super::{
    detect::{Controller, Hierarchies, Hierarchy, Version, detect},
    tree::{Kernel, Tree},
};

/// The group that a supervisor moves into when it must leave its own: version 2 allows a group
/// with controllers for its children no process of its own.
pub(super) const SUPERVISOR: &str = "palisade-supervisor";

/// Everything that planning needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Survey {
    /// Hierarchies that could hold leaves: version 2 first.
    pub hierarchies: Vec<UsableHierarchy>,
}

/// One hierarchy as far as it can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsableHierarchy {
    /// Which rules it follows.
    pub version: Version,
    /// Controllers that some group in it can have.
    pub controllers: Vec<Controller>,
    /// Groups in which leaves could be made, best first.
    pub bases: Vec<Base>,
}

/// A group in which leaves could be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Base {
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it is the top of the hierarchy; leaves then go into one group named `palisade`.
    pub top: bool,
    /// Whether this process may make groups here and move processes into them.
    pub writable: bool,
    /// Controllers that the group has. Every group of version 2 counts processor time and can be frozen, so
    /// [`Controller::Cpuacct`] and [`Controller::Freezer`] are among them there.
    pub available: Vec<Controller>,
    /// Controllers that its children have.
    pub enabled: Vec<Controller>,
    /// Who is in the way of enabling more.
    pub occupants: Occupants,
}

/// The processes in a group of version 2, as far as they matter to its "no internal processes" rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Occupants {
    /// None, or the rule does not apply here.
    NoMatter,
    /// This process alone, which can move.
    OnlySelf,
    /// Others too.
    Others,
}

impl Survey {
    /// Looks at the machine. What it finds stays true until this process changes its group, which
    /// [`Placement::move_self`](super::Placement::move_self) does.
    ///
    /// # Errors
    ///
    /// When `/proc/self/cgroup` or `/proc/self/mountinfo` cannot be read.
    pub fn of_this_process() -> io::Result<Self> {
        let memberships = kernel_file::text("/proc/self/cgroup")?;
        let mounts = kernel_file::own_mounts()?;
        Ok(Self::of(&detect(&memberships, &mounts), &Kernel))
    }

    pub(super) fn of(hierarchies: &Hierarchies, tree: &impl Tree) -> Self {
        let unified = hierarchies.unified.iter();
        let legacy = hierarchies.legacy.iter();
        Self {
            hierarchies: unified
                .map(|unified| UsableHierarchy::unified(unified, tree))
                .chain(legacy.map(|legacy| UsableHierarchy::legacy(legacy, tree)))
                .collect(),
        }
    }
}

impl UsableHierarchy {
    fn unified(unified: &Hierarchy, tree: &impl Tree) -> Self {
        let bases = unified_bases(unified, tree);
        let mut controllers: Vec<Controller> =
            (bases.iter().flat_map(|base| base.available.clone())).collect();
        controllers.sort_unstable();
        controllers.dedup();
        Self {
            version: Version::V2,
            controllers,
            bases,
        }
    }

    /// Version 1 lets processes stand anywhere and gives every group the same controllers.
    fn legacy(legacy: &Hierarchy, tree: &impl Tree) -> Self {
        let own = legacy.own.iter().filter(|own| **own != legacy.mount);
        let mut controllers = legacy.controllers.clone();
        controllers.retain(|controller| *controller != Controller::Freezer);
        let base = |dir: PathBuf| Base {
            top: dir == legacy.mount,
            writable: tree.may_write(&dir),
            available: controllers.clone(),
            enabled: controllers.clone(),
            occupants: Occupants::NoMatter,
            dir,
        };
        let dirs = order(legacy.mount.clone(), own.cloned().collect(), tree);
        Self {
            version: Version::V1,
            bases: dirs.into_iter().map(base).collect(),
            controllers,
        }
    }
}

/// The own group and those above it, which is how far a delegation can reach.
fn unified_bases(unified: &Hierarchy, tree: &impl Tree) -> Vec<Base> {
    let mount = &unified.mount;
    let own = unified.own.as_deref().map(outside_supervisor);
    let below = own.map_or_else(Vec::new, |own| up_to(own, mount));
    let root = is_root(mount, tree);
    let dirs = match root {
        true => order(mount.clone(), below, tree),
        false => below.into_iter().chain([mount.clone()]).collect(),
    };
    dirs.into_iter()
        .map(|dir| unified_base(dir, unified, root, tree))
        .collect()
}

/// Who may write to the top has the whole hierarchy to choose from, and there no other service's
/// groups are in the way. Everybody else begins with the own group.
fn order(top: PathBuf, below: Vec<PathBuf>, tree: &impl Tree) -> Vec<PathBuf> {
    match tree.may_write(&top) {
        true => [top].into_iter().chain(below).collect(),
        false => below.into_iter().chain([top]).collect(),
    }
}

/// A group and those above it, without `top`; nearest first.
fn up_to(own: &Path, top: &Path) -> Vec<PathBuf> {
    let above = own.ancestors().take_while(|group| *group != top);
    above.map(Path::to_owned).collect()
}

/// A supervisor that has moved once makes its leaves where it came from.
fn outside_supervisor(own: &Path) -> &Path {
    match own.parent() {
        Some(parent) if own.ends_with(SUPERVISOR) => parent,
        _ => own,
    }
}

fn unified_base(dir: PathBuf, unified: &Hierarchy, root: bool, tree: &impl Tree) -> Base {
    let controllers = |file: &str| {
        let text = tree.read(&dir.join(file)).unwrap_or_default();
        let mut controllers = Controller::parse_list(&text, ' ');
        controllers.extend([Controller::Cpuacct, Controller::Freezer]);
        controllers
    };
    let exempt = root && dir == unified.mount;
    Base {
        top: exempt,
        // A process may be moved only by who can write to the membership file of the group
        // that has both its old and its new place below it.
        writable: tree.may_write(&dir) && tree.may_write(&dir.join("cgroup.procs")),
        available: controllers("cgroup.controllers"),
        enabled: controllers("cgroup.subtree_control"),
        occupants: match exempt {
            true => Occupants::NoMatter,
            false => occupants(&dir, tree),
        },
        dir,
    }
}

/// The root has no type; the top of a cgroup namespace, which looks like it, has one.
fn is_root(mount: &Path, tree: &impl Tree) -> bool {
    tree.read(&mount.join("cgroup.type")).is_err()
}

fn occupants(dir: &Path, tree: &impl Tree) -> Occupants {
    let own = process::id().to_string();
    match tree.read(&dir.join("cgroup.procs")) {
        Err(_) => Occupants::Others,
        Ok(pids) if pids.is_empty() => Occupants::NoMatter,
        Ok(pids) if pids.trim() == own => Occupants::OnlySelf,
        Ok(_) => Occupants::Others,
    }
}
