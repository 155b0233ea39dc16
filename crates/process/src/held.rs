//! What a domain holds on the host while it lives: placeholders and control groups.

mod placeholder;
mod temporary;

use crate::{
    cgroup::{self, Controller, CpuCounter, Freezer, Leaf, LeafName, MemoryMeter, Owner, Usage},
    confine::{Kept, Target, Use},
    keeper::Keeper,
    launch_error::LaunchError,
    plan::Plan,
    seccomp, wire,
};
use placeholder::Placeholders;
use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::{
        Arc, Once,
        atomic::{AtomicU32, Ordering},
    },
};
use temporary::Temporary;

/// Everything that must be gone when the domain is. Dropping it removes it.
#[derive(Debug, Default)]
pub(crate) struct Held {
    placeholders: Placeholders,
    temporary: Option<Temporary>,
    leaf: Option<Leaf>,
    /// What the leaf is called; there whenever something is held.
    name: Option<LeafName>,
    /// Who removes it should this process die, and the number it knows the list by.
    reminder: Option<(Arc<Keeper>, u32)>,
}

/// Whether the plan needs anything on the host.
pub(crate) fn is_needed(plan: &Plan) -> bool {
    !plan.placeholders.is_empty() || !plan.cgroup.placements.is_empty() || plan.temporary.is_some()
}

impl Held {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaf.is_none() && self.reminder.is_none()
    }

    /// Makes what the plan needs on the host, after the keeper has been told where it will be.
    pub(crate) fn hold(plan: &Plan, keeper: Option<&Arc<Keeper>>) -> Result<Self, LaunchError> {
        let name = Owner::this_process()
            .map_err(LaunchError::NameLeaf)?
            .next_name();
        let mut held = Self::default();
        held.placeholders = Placeholders::open(&plan.placeholders)?;
        held.temporary = plan.temporary.as_deref().map(Temporary::make).transpose()?;
        if let Some(keeper) = keeper {
            held.remind(plan, &name, keeper)?;
        }
        held.placeholders.hold()?;
        if !plan.cgroup.placements.is_empty() {
            held.leaf = Some(Leaf::create(&plan.cgroup, &name)?);
        }
        held.name = Some(name);
        Ok(held)
    }

    /// Tells the keeper now, if what is held had to come before it.
    pub(crate) fn tell(&mut self, plan: &Plan, keeper: &Arc<Keeper>) -> Result<(), LaunchError> {
        match (&self.reminder, self.name) {
            (None, Some(name)) => self.remind(plan, &name, keeper),
            _ => Ok(()),
        }
    }

    fn remind(
        &mut self,
        plan: &Plan,
        name: &LeafName,
        keeper: &Arc<Keeper>,
    ) -> Result<(), LaunchError> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let list = NEXT.fetch_add(1, Ordering::Relaxed);
        self.reminder = Some((Arc::clone(keeper), list));
        let leaves = cgroup::places(&plan.cgroup, name)?;
        let leaves = leaves.iter().map(|(parent, name)| {
            let name: &OsStr = name.as_ref();
            (wire::CLEAN_RMDIR, parent.as_fd(), name)
        });
        // The keeper removes it if the guest left nothing there.
        let temporary = self.temporary.iter().map(|temporary| {
            let (around, name) = temporary.place();
            (wire::CLEAN_RMDIR, around, OsStr::new(name))
        });
        let placeholders = self.placeholders.to_clean();
        let all: Vec<_> = placeholders.chain(leaves).chain(temporary).collect();
        for part in all.chunks(wire::MAX_FDS) {
            let folders: Vec<_> = part.iter().map(|(_, folder, _)| *folder).collect();
            keeper.remember(list, &folders, &names_of(part))?;
        }
        Ok(())
    }

    /// The group of version 2 for init to be born in.
    pub(crate) fn cgroup_to_be_born_in(&self) -> Result<Option<OwnedFd>, LaunchError> {
        Ok(self
            .leaf
            .as_ref()
            .map(Leaf::open_v2_dir)
            .transpose()?
            .flatten())
    }

    /// The groups of version 1 for init to move itself into.
    pub(crate) fn cgroups_to_join(&self) -> Result<Vec<OwnedFd>, LaunchError> {
        Ok(self
            .leaf
            .as_ref()
            .map(Leaf::open_tasks)
            .transpose()?
            .unwrap_or_default())
    }

    /// The groups for a process of ours whose processor time is the domain's, and whose memory is if it
    /// `holds_memory`: of version 2 to be born in, and the `tasks` files of those of version 1.
    pub(crate) fn groups_of_ours(
        &self,
        holds_memory: bool,
    ) -> Result<(Option<OwnedFd>, Vec<OwnedFd>), LaunchError> {
        let controllers: &[Controller] = match holds_memory {
            true => &[Controller::Cpuacct, Controller::Memory],
            false => &[Controller::Cpuacct],
        };
        let part = self.leaf.as_ref().map(|leaf| leaf.open_part(controllers));
        Ok(part.transpose()?.unwrap_or_default())
    }

    /// The guest's temporary folder, where it needs one of the host's.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        self.temporary.as_ref().map(Temporary::path)
    }

    /// Variables that lead to it.
    pub(crate) fn variables(&self) -> Vec<OsString> {
        let variables = self.temporary().map(temporary::variables);
        variables.into_iter().flatten().collect()
    }

    /// Where a group counts the domain's processor time, for init to look.
    pub(crate) fn cpu_counter(&self) -> Result<Option<CpuCounter>, LaunchError> {
        let counter = self.leaf.as_ref().map(Leaf::open_cpu_counter).transpose()?;
        Ok(counter.flatten())
    }

    /// Removes what supervisors left that were killed together with their keepers, once in a process and only
    /// where groups are made: nobody waits for it, for the guest runs.
    pub(crate) fn sweep(&self, plan: &Plan) {
        static SWEPT: Once = Once::new();
        if self.leaf.is_some() {
            SWEPT.call_once(|| {
                // What cannot be listed or removed now may be the next time.
                let _ = Owner::this_process().and_then(|owner| cgroup::sweep(&plan.cgroup, owner));
            });
        }
    }

    /// What it takes to see to it that all of it goes.
    pub(crate) fn kept(&self) -> Kept<'_> {
        let leaves: Vec<_> = self.leaf.iter().flat_map(Leaf::dirs).collect();
        let parents = leaves.iter().filter_map(|leaf| leaf.parent());
        // Where palisade stands among its shell's jobs; what was used.
        let reads = [Path::new("/proc")]
            .into_iter()
            .chain(leaves.iter().copied());
        let reads = reads.map(|path| (Target::Path(path.into()), Use::Read));
        let removes = parents.map(|path| (Target::Path(path.into()), Use::Remove));
        let folders = self.placeholders.to_clean().flat_map(|(_, folder, _)| {
            // Whether somebody filled it is looked for before.
            [Use::Read, Use::Remove].map(|uses| (Target::Open(folder), uses))
        });
        let temporary = self.temporary.iter().flat_map(|temporary| {
            let (around, _) = temporary.place();
            [
                (Target::Open(around), Use::RemoveFolders),
                (Target::Open(temporary.folder()), Use::Read),
                (Target::Open(temporary.folder()), Use::Remove),
            ]
        });
        let files = reads.chain(removes).chain(folders).chain(temporary);
        Kept {
            files: files.collect(),
            connects: false,
            calls: seccomp::supervisor(),
        }
    }

    /// What tells the domain's memory, where a group counts it.
    pub(crate) fn memory_meter(&self) -> Option<MemoryMeter> {
        self.leaf.as_ref().and_then(Leaf::memory_meter)
    }

    /// What stops the domain as one, where it can be.
    pub(crate) fn freezer(&self) -> Option<Freezer> {
        self.leaf.as_ref().and_then(Leaf::freezer)
    }

    /// What the groups have counted; the most processes, too, where somebody wants to know.
    pub(crate) fn usage(&self, with_processes: bool) -> Usage {
        let usage = match with_processes {
            true => Leaf::usage_with_processes,
            false => Leaf::usage,
        };
        self.leaf.as_ref().map(usage).unwrap_or_default()
    }

    /// Removes all of it. The domain must be gone.
    pub(crate) fn remove(&mut self) {
        self.placeholders.remove();
        if let Some(temporary) = self.temporary.take() {
            // What cannot be removed is in the guest's own folder, where everybody's temporary files are.
            let _ = temporary.remove();
        }
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

/// See [`wire::KEEPER_REMEMBER`].
fn names_of(items: &[(u8, BorrowedFd<'_>, &OsStr)]) -> Vec<u8> {
    let mut names = Vec::new();
    for (kind, _, name) in items {
        names.push(*kind);
        names.extend(name.as_bytes());
        names.push(0);
    }
    names
}
