//! What a domain holds on the host while it lives: placeholders and control groups.

use super::{LaunchError, placeholder::Placeholders};
use crate::{
    cgroup::{Leaf, Owner, Usage},
    plan::Plan,
    wire,
};
use std::os::{fd::OwnedFd, unix::ffi::OsStrExt};

/// Everything that must be gone when the domain is. Dropping it removes it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    placeholders: Placeholders,
    leaf: Option<Leaf>,
}

impl Held {
    /// Makes what the plan needs on the host.
    pub(super) fn hold(&mut self, plan: &Plan) -> Result<(), LaunchError> {
        self.placeholders.hold(&plan.placeholders)?;
        if !plan.cgroup.placements.is_empty() {
            let owner = Owner::this_process().map_err(LaunchError::NameLeaf)?;
            self.leaf = Some(Leaf::create(&plan.cgroup, &owner.next_name())?);
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.placeholders.is_empty() && self.leaf.is_none()
    }

    /// The group of version 2 for init to be born in.
    pub(super) fn cgroup_to_be_born_in(&self) -> Result<Option<OwnedFd>, LaunchError> {
        Ok(self
            .leaf
            .as_ref()
            .map(Leaf::open_v2_dir)
            .transpose()?
            .flatten())
    }

    /// The groups of version 1 for init to move itself into.
    pub(super) fn cgroups_to_join(&self) -> Result<Vec<OwnedFd>, LaunchError> {
        Ok(self
            .leaf
            .as_ref()
            .map(Leaf::open_tasks)
            .transpose()?
            .unwrap_or_default())
    }

    /// What the groups have counted.
    pub(crate) fn usage(&self) -> Usage {
        self.leaf.as_ref().map(Leaf::usage).unwrap_or_default()
    }

    /// For the keeper, should this process die.
    pub(super) fn cleaning_list(&self) -> Vec<u8> {
        let mut list = self.placeholders.cleaning_list();
        for dir in self.leaf.iter().flat_map(Leaf::dirs) {
            list.push(wire::CLEAN_RMDIR);
            list.extend(dir.as_os_str().as_bytes());
            list.push(0);
        }
        list
    }

    /// Removes all of it. The domain must be gone.
    pub(crate) fn remove(&mut self) {
        self.placeholders.remove();
        if let Some(leaf) = self.leaf.take() {
            // A group that stays busy is swept by a later launch; there is nobody to tell.
            let _ = leaf.remove();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.remove();
    }
}
