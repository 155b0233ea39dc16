//! Which cgroup hierarchies this process sees, and where in them it stands.
//!
//! Pure parsing of `/proc/self/cgroup` and `/proc/self/mountinfo` (cgroups(7), proc(5)).

use crate::{kernel_file::mount_path, paths::join};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The controllers that limits are made of. Others are not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Controller {
    /// Bounds and counts memory.
    Memory,
    /// Bounds processor time per period.
    Cpu,
    /// Counts processor time. Version 1 only: version 2 counts it in every group.
    Cpuacct,
    /// Bounds processes and threads.
    Pids,
    /// Stops and resumes all processes of a group. Of version 2 only, where every group has it: what is frozen by
    /// version 1 cannot be killed before somebody thaws it, and nobody may be left to do that.
    Freezer,
}

impl Controller {
    /// The kernel's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [
            Self::Memory,
            Self::Cpu,
            Self::Cpuacct,
            Self::Pids,
            Self::Freezer,
        ]
        .into_iter()
        .find(|controller| controller.name() == name)
    }

    /// Those among words apart by `separator` that are known here.
    pub(super) fn parse_list(words: &str, separator: char) -> Vec<Self> {
        words
            .split(separator)
            .filter_map(|word| Self::from_name(word.trim()))
            .collect()
    }
}

/// The two generations of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// One hierarchy per controller or bundle of controllers.
    V1,
    /// One hierarchy for all.
    V2,
}

/// All hierarchies that are mounted in sight of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hierarchies {
    /// The one of version 2. In the hybrid layout it is there beside those of version 1 and has
    /// no controller.
    pub unified: Option<Hierarchy>,
    /// Those of version 1, named ones without a controller included.
    pub legacy: Vec<Hierarchy>,
}

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hierarchy {
    /// Its controllers. Empty for version 2, whose controllers differ from group to group.
    pub controllers: Vec<Controller>,
    /// `systemd` for a hierarchy mounted with `name=systemd`.
    pub name: Option<String>,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The directory of this process's own group, where the mount shows it: in a container it may
    /// lie outside.
    pub own: Option<PathBuf>,
}

/// Reads the two files' texts. Lines that mean nothing here are passed over.
#[must_use]
pub fn detect(proc_self_cgroup: &str, mountinfo: &str) -> Hierarchies {
    let memberships: Vec<Membership<'_>> = proc_self_cgroup
        .lines()
        .filter_map(Membership::parse)
        .collect();
    let mut hierarchies = Hierarchies::default();
    for mount in mountinfo.lines().filter_map(Mount::parse) {
        let hierarchy = mount.hierarchy(&memberships);
        match mount.version {
            Version::V2 => prefer_visible(&mut hierarchies.unified, hierarchy),
            Version::V1 => hierarchies.legacy.push(hierarchy),
        }
    }
    hierarchies
}

/// A second mount of the hierarchy counts only if the first does not show the own group.
fn prefer_visible(known: &mut Option<Hierarchy>, other: Hierarchy) {
    if known.as_ref().is_none_or(|known| known.own.is_none()) {
        *known = Some(other);
    }
}

/// A line of `/proc/self/cgroup`: `4:cpu,cpuacct:/user.slice`, or `0::/user.slice` for version 2.
struct Membership<'a> {
    controllers: &'a str,
    path: &'a Path,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let _number = fields.next()?;
        let controllers = fields.next()?;
        let path = Path::new(fields.next()?);
        Some(Self { controllers, path })
    }
}

/// A line of `mountinfo` that mounts a cgroup hierarchy.
struct Mount<'a> {
    version: Version,
    /// The group that the mount shows as its top.
    root: PathBuf,
    point: PathBuf,
    options: &'a str,
}

impl<'a> Mount<'a> {
    /// `35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory`
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let root = mount_path(before.next()?.as_bytes());
        let point = mount_path(before.next()?.as_bytes());
        let mut after = after.split(' ');
        let version = match after.next()? {
            "cgroup2" => Version::V2,
            "cgroup" => Version::V1,
            _ => return None,
        };
        let options = after.nth(1)?;
        Some(Self {
            version,
            root,
            point,
            options,
        })
    }

    fn hierarchy(&self, memberships: &[Membership<'_>]) -> Hierarchy {
        let own = memberships
            .iter()
            .find(|membership| self.is_of(membership))
            .and_then(|membership| self.directory_of(membership.path));
        Hierarchy {
            controllers: self.controllers(),
            name: self.name().map(str::to_owned),
            mount: self.point.clone(),
            own,
        }
    }

    fn controllers(&self) -> Vec<Controller> {
        match self.version {
            Version::V1 => Controller::parse_list(self.options, ','),
            Version::V2 => Vec::new(),
        }
    }

    fn name(&self) -> Option<&'a str> {
        let mut options = self.options.split(',');
        options.find_map(|option| option.strip_prefix("name="))
    }

    /// Whether a membership is one in this hierarchy: one option of the mount names it.
    fn is_of(&self, membership: &Membership<'_>) -> bool {
        let mut words = membership.controllers.split(',');
        match self.version {
            Version::V2 => membership.controllers.is_empty(),
            Version::V1 => words.any(|word| self.options.split(',').any(|option| option == word)),
        }
    }

    /// Where the group at `path` appears below the mount point, if it does. `/..` stands for
    /// groups above the top of the cgroup namespace, `(deleted)` for one that is gone.
    fn directory_of(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        let outside = path.starts_with("/..") || path.to_string_lossy().ends_with(" (deleted)");
        (!outside).then(|| join(&self.point, below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2_ONLY: &str = "25 30 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n\
         26 30 0:24 / /sys rw - sysfs sysfs rw\n";
    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
         32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
         35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
         39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
         40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn version_2_alone() {
        let found = detect("0::/user.slice/app.scope\n", V2_ONLY);
        let unified = found.unified.unwrap();
        assert_eq!(unified.mount, Path::new("/sys/fs/cgroup"));
        let own = Path::new("/sys/fs/cgroup/user.slice/app.scope");
        assert_eq!(unified.own.as_deref(), Some(own));
        assert!(found.legacy.is_empty());
    }

    #[test]
    fn hybrid_with_controllers_mounted_together() {
        let own = "9:name=systemd:/init\n4:memory:/jobs/1\n2:cpu,cpuacct:/\n8:pids:/\n0::/\n";
        let found = detect(own, HYBRID);
        let unified = found.unified.unwrap();
        assert_eq!(unified.own, Some("/sys/fs/cgroup/unified".into()));
        assert!(unified.controllers.is_empty());
        let [cpu, memory, pids, systemd] = &found.legacy[..] else {
            panic!("{:?}", found.legacy);
        };
        assert_eq!(cpu.controllers, [Controller::Cpu, Controller::Cpuacct]);
        assert_eq!(cpu.own, Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(memory.own, Some("/sys/fs/cgroup/memory/jobs/1".into()));
        assert_eq!(pids.controllers, [Controller::Pids]);
        assert_eq!(systemd.name.as_deref(), Some("systemd"));
        assert_eq!(systemd.own, Some("/sys/fs/cgroup/systemd/init".into()));
        assert!(systemd.controllers.is_empty());
    }

    #[test]
    fn a_container_s_mount_shows_a_part_only() {
        let mount = "35 31 0:32 /docker/ab12 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let inside = detect("4:memory:/docker/ab12/job\n", mount);
        let own = Some("/sys/fs/cgroup/memory/job".into());
        assert_eq!(inside.legacy[0].own, own);
        for path in ["/docker/other", "/../..", "/docker/ab12/job (deleted)"] {
            let outside = detect(&format!("4:memory:{path}\n"), mount);
            assert_eq!(outside.legacy[0].own, None, "{path}");
        }
    }

    #[test]
    fn a_group_above_the_namespace_s_top_is_out_of_sight() {
        let found = detect("0::/../sibling\n", V2_ONLY);
        assert_eq!(found.unified.unwrap().own, None);
    }

    #[test]
    fn the_mount_that_shows_the_own_group_is_taken() {
        let twice = "25 30 0:23 /a /mnt/part rw - cgroup2 cgroup2 rw\n\
             26 30 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let found = detect("0::/b\n", twice).unified.unwrap();
        assert_eq!(found.mount, Path::new("/sys/fs/cgroup"));
    }

    #[test]
    fn escaped_mount_points() {
        let line = r"25 30 0:23 / /mnt/with\040space\134 rw - cgroup2 cgroup2 rw";
        let found = detect("0::/\n", line).unified.unwrap();
        assert_eq!(found.mount, Path::new("/mnt/with space\\"));
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(
            detect("x\n\n", "a b c\n - cgroup2\n"),
            Hierarchies::default()
        );
    }
}
