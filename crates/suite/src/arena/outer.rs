//! The outer limits: leaves below the suite's own memory and pids control groups.
//!
//! Where no leaf can be made (an ordinary user without delegation) the watchdog and the
//! guests' own bounds remain.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use crate::user::ORDINARY_ID;

/// Of all arenas together.
const MEMORY_BYTES: u64 = 4 << 30;
const PROCESSES: u64 = 4_000;
/// Controllers of cgroup v1, and for each its limits' files and the limits; the last only counts, for
/// walls that look. The v2 tree has no controllers to mount one by one, and files of its own.
const V1_LIMITS: [(&str, &[(&str, u64)]); 3] = [
    ("memory", &[("memory.limit_in_bytes", MEMORY_BYTES)]),
    ("pids", &[("pids.max", PROCESSES)]),
    ("cpuacct", &[]),
];
const V2_LIMITS: [(&str, u64); 2] = [("memory.max", MEMORY_BYTES), ("pids.max", PROCESSES)];
/// What the owner of a delegated group may write (cgroups(7)).
const DELEGATED: [&str; 4] = ["", "cgroup.procs", "tasks", "cgroup.subtree_control"];

/// The leaves; they go when this goes.
#[derive(Debug)]
pub(super) struct OuterGroups(Vec<PathBuf>);

impl OuterGroups {
    /// Makes what can be made; of every other hierarchy too where engines make groups of their own.
    pub(super) fn make(for_engines: bool) -> Self {
        let others = for_engines.then(other_hierarchies).unwrap_or_default();
        let others = others
            .iter()
            .filter_map(|name| make_leaf(&own_group(name)?, &[]));
        let v1 = V1_LIMITS
            .into_iter()
            .filter_map(|(controller, limits)| Some((own_group(controller)?, limits)));
        let v2 = own_group("").map(|group| (group, &V2_LIMITS[..]));
        let leaves = v1
            .chain(v2)
            .filter_map(|(group, limits)| make_leaf(&group, limits));
        Self(leaves.chain(others).collect())
    }

    /// The leaves' paths.
    pub(super) fn paths(&self) -> &[PathBuf] {
        &self.0
    }
}

impl Drop for OuterGroups {
    fn drop(&mut self) {
        for group in &self.0 {
            remove_group(group);
        }
    }
}

/// A leaf below `group` with all of `limits`, or none at all.
fn make_leaf(group: &Path, limits: &[(&str, u64)]) -> Option<PathBuf> {
    let leaf = group.join(format!("palisade-suite-{}", std::process::id()));
    fs::create_dir(&leaf).ok()?;
    hand_down_processors(group, &leaf);
    let bounded = limits
        .iter()
        .all(|(file, limit)| set(&leaf.join(file), *limit));
    if !bounded {
        remove_group(&leaf);
        return None;
    }
    delegate(&leaf);
    Some(leaf)
}

/// A group of the cpuset controller takes no process before it has processors and memory.
fn hand_down_processors(group: &Path, leaf: &Path) {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if let Ok(all) = fs::read(group.join(file)) {
            // The group that refuses it refuses processes too, and says so.
            let _ = fs::write(leaf.join(file), all);
        }
    }
}

/// The hierarchies of version 1 that [`V1_LIMITS`] does not name, as their lines in `/proc/self/cgroup` do.
fn other_hierarchies() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let names = table.lines().filter_map(|line| line.split(':').nth(1));
    let is_other = |name: &&str| {
        let is_limited = |one: &str| V1_LIMITS.iter().any(|(limited, _)| *limited == one);
        !name.is_empty() && !name.split(',').any(is_limited)
    };
    names.filter(is_other).map(str::to_owned).collect()
}

/// Only a control file that is there: elsewhere a write would make a plain file.
fn set(file: &Path, limit: u64) -> bool {
    file.is_file() && fs::write(file, limit.to_string()).is_ok()
}

/// Lets the ordinary half of the suite make groups below, as a service manager would.
///
/// Only root can; for everybody else the group is their own already.
fn delegate(leaf: &Path) {
    for file in DELEGATED {
        let _ = chown(leaf.join(file), Some(ORDINARY_ID), Some(ORDINARY_ID));
    }
}

/// The suite's own group of a v1 controller, or of the v2 tree (the empty name), where it
/// is mounted.
fn own_group(controller: &str) -> Option<PathBuf> {
    let table = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = table.lines().find_map(|line| path_of(line, controller))?;
    let group = Path::new("/sys/fs/cgroup")
        .join(controller.trim_start_matches("name="))
        .join(path.trim_start_matches('/'));
    group.join("cgroup.procs").is_file().then_some(group)
}

/// The path in a line `ID:CONTROLLERS:PATH` of `/proc/PID/cgroup` that names `controller`.
fn path_of<'a>(line: &'a str, controller: &str) -> Option<&'a str> {
    let mut fields = line.splitn(3, ':').skip(1);
    let controllers = fields.next()?;
    let path = fields.next()?;
    let is_it = controllers == controller || controllers.split(',').any(|name| name == controller);
    is_it.then_some(path)
}

/// Removes a group and what a killed launcher left below it.
fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_group(&entry.path());
        }
    }
    // A group that still has processes stays; the kernel says so and nothing else can be done.
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{make_leaf, path_of};

    #[test]
    fn a_controller_is_found_among_several() {
        assert_eq!(path_of("4:cpu,cpuacct:/a/b", "cpuacct"), Some("/a/b"));
        assert_eq!(path_of("0::/user.slice", ""), Some("/user.slice"));
        assert_eq!(path_of("4:memory:/a", "pids"), None);
    }

    #[test]
    fn a_folder_without_control_files_gets_no_leaf() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(make_leaf(folder.path(), &[("memory.max", 1)]), None);
        assert_eq!(fs::read_dir(folder.path()).expect("read it").count(), 0);
    }
}
