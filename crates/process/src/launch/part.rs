//! What of a root the guest's process makes, and what must wait for that: see [`op::GUEST_BESIDE`](crate::wire::op::GUEST_BESIDE).

use crate::{paths::is_plain, steps::Step};
use std::{collections::BTreeSet, ffi::OsStr, path::Path};

/// How many of the first steps make root, folders, files and links, up to the last of those that nothing is mounted on.
pub(super) fn count_of_simple(steps: &[Step]) -> usize {
    let is_simple = |step: &&Step| {
        matches!(
            step,
            Step::MakeRoot { .. }
                | Step::MakeFolder { .. }
                | Step::MakeSymlink { .. }
                | Step::WriteFile { .. }
        )
    };
    // An empty one is to be mounted on.
    let is_last = |step: &Step| match step {
        Step::MakeSymlink { .. } => true,
        Step::WriteFile { content, .. } => !content.is_empty(),
        _ => false,
    };
    let simple = steps.iter().take_while(is_simple).count();
    let last = steps[..simple].iter().rposition(is_last);
    last.map_or(simple.min(1), |last| last + 1)
}

/// Whether it makes something in `/dev` for which nobody else has to do anything.
pub(super) fn is_of_devices(step: &Step) -> bool {
    let is_made_by_domain = !matches!(step, Step::Mount { owner: Some(_), .. });
    let in_dev =
        |path: &Path| is_plain(path) && path != Path::new("/dev") && path.starts_with("/dev");
    is_made_by_domain && place_of(step).is_some_and(in_dev)
}

/// Where a step makes or mounts something that is seen there and nowhere else; `None` of all others.
fn place_of(step: &Step) -> Option<&Path> {
    match step {
        Step::MakeFolder { path, .. }
        | Step::MakeSymlink { path, .. }
        | Step::WriteFile { path, .. } => Some(path),
        Step::Mount { target, .. } | Step::Remount { target, .. } | Step::MountProc { target } => {
            Some(target)
        }
        _ => None,
    }
}

/// What the guest's process makes of the root.
pub(super) struct Part<'a> {
    /// By the letter: a path's own order looks at each of its components.
    made: BTreeSet<&'a OsStr>,
    /// The folders that lead there.
    above: BTreeSet<&'a OsStr>,
}

impl<'a> Part<'a> {
    pub(super) fn of(steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut part = Self {
            made: BTreeSet::new(),
            above: BTreeSet::new(),
        };
        for place in steps.filter_map(place_of) {
            part.made.insert(place.as_os_str());
            let above = place.ancestors().skip(1).map(Path::as_os_str);
            // What leads to a folder that was there is there, too.
            above.take_while(|folder| part.above.insert(folder)).count();
        }
        part
    }

    /// Whether it must be there before this is done: what is mounted over it, on it or in it, and all that is more than a place of
    /// its own.
    pub(super) fn precedes(&self, step: &Step) -> bool {
        let is_touched = |place: &Path| {
            // One path may be written in many ways, of which this knows one.
            if !is_plain(place) {
                return true;
            }
            let mut leads_to_it = place.ancestors().map(Path::as_os_str);
            self.above.contains(place.as_os_str())
                || leads_to_it.any(|folder| self.made.contains(folder))
        };
        place_of(step).is_none_or(is_touched)
    }
}
