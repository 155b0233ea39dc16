//! What a domain holds on the host while it lives: placeholders and control groups.

use super::{LaunchError, placeholder::Placeholders};
use crate::{
    cgroup::{Leaf, LeafName, Owner, Usage},
    keeper::Keeper,
    plan::Plan,
    wire,
};
use std::{
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

/// Everything that must be gone when the domain is. Dropping it removes it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    placeholders: Placeholders,
    leaf: Option<Leaf>,
    /// Who removes it should this process die, and the number it knows the list by.
    reminder: Option<(Arc<Keeper>, u32)>,
}

/// Whether the plan needs anything on the host.
pub(super) fn is_needed(plan: &Plan) -> bool {
    !plan.placeholders.is_empty() || !plan.cgroup.placements.is_empty()
}

/// Where control groups are delegated (version 2), palisade must be the only process of its group
/// when it makes the first leaf: the keeper can only be told afterwards.
pub(super) fn must_come_before_keeper(plan: &Plan) -> bool {
    plan.cgroup
        .placements
        .iter()
        .any(|placement| placement.move_self.is_some())
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaf.is_none() && self.reminder.is_none()
    }

    /// Makes what the plan needs on the host, after the keeper has been told where it will be.
    pub(super) fn hold(plan: &Plan, keeper: Option<&Arc<Keeper>>) -> Result<Self, LaunchError> {
        let name = Owner::this_process()
            .map_err(LaunchError::NameLeaf)?
            .next_name();
        let mut held = Self::default();
        if let Some(keeper) = keeper {
            held.remind(plan, &name, keeper)?;
        }
        held.placeholders.hold(&plan.placeholders)?;
        if !plan.cgroup.placements.is_empty() {
            held.leaf = Some(Leaf::create(&plan.cgroup, &name)?);
        }
        Ok(held)
    }

    fn remind(
        &mut self,
        plan: &Plan,
        name: &LeafName,
        keeper: &Arc<Keeper>,
    ) -> Result<(), LaunchError> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let list = NEXT.fetch_add(1, Ordering::Relaxed);
        keeper.remember(list, &cleaning_list(plan, name))?;
        self.reminder = Some((Arc::clone(keeper), list));
        Ok(())
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

    /// Removes all of it. The domain must be gone.
    pub(crate) fn remove(&mut self) {
        self.placeholders.remove();
        if let Some(leaf) = self.leaf.take() {
            // A group that stays busy is swept by a later launch; there is nobody to tell.
            let _ = leaf.remove();
        }
        if let Some((keeper, list)) = self.reminder.take() {
            let _ = keeper.forget(list);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.remove();
    }
}

/// All paths that will be made, the deepest first: see [`wire::KEEPER_REMEMBER`].
fn cleaning_list(plan: &Plan, name: &LeafName) -> Vec<u8> {
    let placeholders = plan.placeholders.iter().rev().map(|placeholder| {
        let kind = if placeholder.folder {
            wire::CLEAN_PLACEHOLDER_FOLDER
        } else {
            wire::CLEAN_PLACEHOLDER
        };
        (kind, placeholder.path.clone())
    });
    let leaves = plan
        .cgroup
        .placements
        .iter()
        .map(|placement| (wire::CLEAN_RMDIR, placement.leaf_dir(name)));
    let mut list = Vec::new();
    for (kind, path) in placeholders.chain(leaves) {
        list.push(kind);
        list.extend(path.as_os_str().as_bytes());
        list.push(0);
    }
    list
}
