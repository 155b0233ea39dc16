//! Removes what supervisors left behind that were killed together with their keeper.

use std::io;

use serde::Serialize;

use crate::kernel_file;

use super::{
    leaf::FROZEN,
    name::{LeafName, Life, Owner},
    plan::{Placement, Plan},
    tree::{Kernel, Tree},
};

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sweep {
    /// Leaves of ended owners that are gone now.
    pub removed: usize,
    /// Leaves of ended owners that processes still live in.
    pub occupied: usize,
}

/// Removes the empty leaves of ended owners from wherever the plan would make new ones. Leaves
/// whose owner lives, or cannot be seen from this pid namespace, stay.
///
/// It reads every name there: once for a process, when its first guest runs, not for every domain.
///
/// # Errors
///
/// When a group that exists cannot be listed.
pub fn sweep(plan: &Plan, observer: Owner) -> io::Result<Sweep> {
    let stat = |pid| kernel_file::text(format!("/proc/{pid}/stat"));
    sweep_in(&Kernel, plan, observer, stat)
}

pub(super) fn sweep_in(
    tree: &impl Tree,
    plan: &Plan,
    observer: Owner,
    stat: impl Fn(u32) -> io::Result<String>,
) -> io::Result<Sweep> {
    let mut sweep = Sweep::default();
    for placement in &plan.placements {
        for (entry, name) in leaves(tree, placement)? {
            if name.owner().life(observer, &stat) == Life::Ended {
                let leaf = placement.parent.join(entry);
                // Most have none.
                let _ = tree.remove(&leaf.join(FROZEN));
                match tree.remove(&leaf) {
                    Ok(()) => sweep.removed += 1,
                    Err(_) => sweep.occupied += 1,
                }
            }
        }
    }
    Ok(sweep)
}

fn leaves(tree: &impl Tree, placement: &Placement) -> io::Result<Vec<(String, LeafName)>> {
    let entries = match tree.list(&placement.parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let leaf = |entry: String| {
        let name = LeafName::parse(entry.strip_prefix(placement.prefix)?)?;
        Some((entry, name))
    };
    Ok(entries.into_iter().filter_map(leaf).collect())
}
