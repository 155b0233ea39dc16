//! Mounts that only the host's root can make: granted paths whose files shall be the guest's own.
//!
//! The guest of a root-run domain has a host uid that owns nothing. An id-mapped mount
//! (mount_setattr(2), `MOUNT_ATTR_IDMAP`) shows the files of the granted path's owner as the
//! guest's, and what the guest writes there belongs to that owner on disk.

use crate::{
    Tier, host::Identity, keeper::Keeper, launch_error::LaunchError, plan::Plan, reopen::open_same,
    steps::Step, sys,
};
use rustix::{io::Errno, mount::OpenTreeFlags};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// Detached mounts, by the index of their step in the plan.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    mounts: Vec<(usize, OwnedFd)>,
}

impl Prepared {
    pub(super) fn position(&self, step: usize) -> Option<u32> {
        self.mounts
            .iter()
            .position(|(index, _)| *index == step)
            .map(|position| position as u32)
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.mounts.iter().map(|(_, mount)| mount.as_fd())
    }
}

/// Whether the plan has mounts that its domain can't make by itself.
pub(super) fn are_needed(plan: &Plan) -> bool {
    plan.tier == Tier::Privileged
        && plan
            .steps
            .iter()
            .any(|step| matches!(step, Step::Mount { owner: Some(_), .. }))
}

/// Clones and maps every granted path of the plan.
pub(super) fn prepare(
    keeper: &Keeper,
    plan: &Plan,
    host_uid: u32,
) -> Result<Prepared, LaunchError> {
    let mut prepared = Prepared::default();
    let mut maps = BTreeMap::new();
    for (index, step) in plan.steps.iter().enumerate() {
        let Step::Mount {
            source,
            identity,
            owner: Some(owner),
            open_to_all,
            attributes,
            ..
        } = step
        else {
            continue;
        };
        let bits = u64::from(attributes.bits());
        let mount = clone_mount(source, *identity)?;
        let map = match maps.entry(*owner) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(keeper.map_ids(owner.0, owner.1, host_uid)?),
        };
        set_mapped(&mount, source, bits, map, *open_to_all)?;
        prepared.mounts.push((index, mount));
    }
    Ok(prepared)
}

fn clone_mount(source: &Path, identity: Identity) -> Result<OwnedFd, LaunchError> {
    let file = open_same(source, identity)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(&file, c"", flags).map_err(|errno| LaunchError::OpenSource {
        path: source.into(),
        errno,
    })
}

/// Where the file system can't map ids (overlayfs, some network file systems), a path that is open
/// to everybody is as good without.
fn set_mapped(
    mount: &OwnedFd,
    source: &Path,
    attributes: u64,
    map: &OwnedFd,
    open_to_all: bool,
) -> Result<(), LaunchError> {
    match sys::set_mount_attributes(mount.as_fd(), attributes, Some(map.as_fd())) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM) if open_to_all => {
            sys::set_mount_attributes(mount.as_fd(), attributes, None)
                .map_err(|errno| attribute_error(source, errno))
        }
        Err(errno @ (Errno::INVAL | Errno::OPNOTSUPP | Errno::PERM)) => {
            Err(LaunchError::CannotMapOwner {
                path: source.into(),
                errno,
            })
        }
        outcome => outcome.map_err(|errno| attribute_error(source, errno)),
    }
}

fn attribute_error(source: &Path, errno: Errno) -> LaunchError {
    LaunchError::SetMountAttributes {
        path: source.into(),
        errno,
    }
}
