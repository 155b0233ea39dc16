//! By which paths the host's mounts show a file.

use super::Mount;
use std::{
    collections::BTreeMap,
    ops::Bound,
    path::{Path, PathBuf},
};

/// The table of the host's mounts.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    all: Vec<Mount>,
    /// Of those at one point the last, which lies on top.
    on_top: BTreeMap<PathBuf, usize>,
}

impl Mounts {
    pub(crate) fn new(all: Vec<Mount>) -> Self {
        let points = all.iter().map(|mount| mount.point.clone());
        let on_top = points.zip(0..).collect();
        Self { all, on_top }
    }

    /// Other paths of the file at `path`: by bind mounts, and by other mounts of its file system.
    pub(crate) fn other_paths(&self, path: &Path) -> Vec<PathBuf> {
        let Some((device, place)) = self.place(path) else {
            return Vec::new();
        };
        let others = self.all.iter().filter(|mount| mount.device == device);
        let others = others.filter_map(|mount| mount.path_of(&place));
        let is_seen = |other: &PathBuf| self.place(other).is_some_and(|seen| seen.1 == place);
        others
            .filter(|other| other != path && is_seen(other))
            .collect()
    }

    /// Nobody could read it.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Where control groups are mounted, of either version: Linux 6.0 took a folder of version 1 for one of version 2.
    pub(crate) fn of_control_groups(&self) -> impl Iterator<Item = &Path> {
        let is_one = |mount: &&Mount| ["cgroup", "cgroup2"].contains(&&*mount.kind);
        self.all
            .iter()
            .filter(is_one)
            .map(|mount| mount.point.as_path())
    }

    /// Where something is mounted below a folder.
    pub(crate) fn points_below(&self, folder: &Path) -> impl Iterator<Item = &Path> {
        let after = (Bound::Excluded(folder), Bound::Unbounded);
        let points = self.on_top.range::<Path, _>(after);
        let points = points.map(|(point, _)| point.as_path());
        points.take_while(move |point| point.starts_with(folder))
    }

    /// The file system that a path leads into, and the path there.
    fn place(&self, path: &Path) -> Option<(&str, PathBuf)> {
        let around = path
            .ancestors()
            .find_map(|ancestor| self.on_top.get(ancestor));
        let mount = &self.all[*around?];
        let below = path.strip_prefix(&mount.point).ok()?;
        Some((&mount.device, mount.root.join(below)))
    }
}

impl Mount {
    /// Where it shows what lies at a path of its file system.
    fn path_of(&self, place: &Path) -> Option<PathBuf> {
        let below = place.strip_prefix(&self.root).ok()?;
        let is_all = below.as_os_str().is_empty();
        Some(match is_all {
            true => self.point.clone(),
            false => self.point.join(below),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Mounts {
        let lines = [
            "1 0 8:1 / / rw - ext4 /dev/a rw",
            "2 1 8:2 / /home rw - ext4 /dev/b rw",
            "3 1 8:2 /ada /srv/ada rw - ext4 /dev/b rw",
            "4 1 8:2 /ada/.cache /c rw - ext4 /dev/b rw",
            "5 1 8:2 /bob /b rw - ext4 /dev/b rw",
            "6 1 8:2 /bob /hidden rw - ext4 /dev/b rw",
            "7 6 8:3 / /hidden rw - ext4 /dev/c rw",
        ];
        Mounts::new(
            lines
                .map(|line| Mount::parse(line.as_bytes()).unwrap())
                .into(),
        )
    }

    #[test]
    fn a_file_has_a_path_by_each_mount_that_shows_it() {
        let mounts = mounts();
        let others = |path: &str| mounts.other_paths(Path::new(path));
        let expected = ["/srv/ada/.cache/x", "/c/x"].map(PathBuf::from);
        assert_eq!(others("/home/ada/.cache/x"), expected);
        assert_eq!(others("/b/x"), [PathBuf::from("/home/bob/x")]);
        assert!(others("/etc/x").is_empty());
        assert!(others("/hidden/x").is_empty());
    }

    #[test]
    fn what_is_mounted_below_a_folder_is_found() {
        let mounts = mounts();
        let below = |path: &str| mounts.points_below(Path::new(path)).count();
        assert_eq!(below("/srv"), 1);
        assert_eq!(below("/srv/ada"), 0);
        assert_eq!(below("/"), 5);
    }
}
