//! Where a container's groups are, by what is mounted and by where this process is itself.

use super::{Group, Groups, Version};
use anyhow::{Context, bail};
use palisade_process::kernel_file;
use std::path::{Component, Path, PathBuf};

/// A mounted hierarchy.
struct Hierarchy {
    controllers: String,
    mount: PathBuf,
    /// Which of its groups is what is mounted.
    root: PathBuf,
}

pub(super) fn find(path: Option<&Path>, id: &str) -> anyhow::Result<Groups> {
    let mounts = kernel_file::own_mounts().context("host: cannot read mounts")?;
    let own = kernel_file::text("/proc/self/cgroup").unwrap_or_default();
    let own: Vec<_> = own.lines().filter_map(own_place).collect();
    let one: Vec<_> = mounts
        .lines()
        .filter_map(|line| hierarchy(line, "cgroup", &own))
        .collect();
    // Where there are controllers of version 1, what is mounted of version 2 has none.
    let (version, hierarchies) = if one.is_empty() {
        let two = mounts
            .lines()
            .find_map(|line| hierarchy(line, "cgroup2", &own));
        (Version::Two, two.into_iter().collect())
    } else {
        (Version::One, one)
    };
    let mut all: Vec<Group> = Vec::new();
    for hierarchy in hierarchies {
        if all
            .iter()
            .any(|known| known.controllers == hierarchy.controllers)
        {
            continue;
        }
        let place = own
            .iter()
            .find(|(controllers, _)| *controllers == hierarchy.controllers);
        let place = place.map_or("/", |(_, place)| place);
        all.push(Group {
            folder: folder(&hierarchy, Path::new(place), path, id),
            controllers: hierarchy.controllers,
            mount: hierarchy.mount,
            is_ours: false,
        });
    }
    Ok(Groups {
        version: if all.is_empty() {
            Version::None
        } else {
            version
        },
        all,
        unit: None,
    })
}

/// An absolute path begins at the hierarchy's root, another one where this process is.
fn folder(hierarchy: &Hierarchy, own: &Path, path: Option<&Path>, id: &str) -> PathBuf {
    let wanted = path.filter(|path| !path.as_os_str().is_empty());
    let below = wanted.unwrap_or(Path::new(id));
    // Nothing leads out of it again.
    let below: PathBuf = below
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect();
    match wanted {
        Some(path) if path.is_absolute() => hierarchy.mount.join(below),
        _ => {
            let own = own.strip_prefix(&hierarchy.root).unwrap_or(Path::new(""));
            hierarchy
                .mount
                .join(own.strip_prefix("/").unwrap_or(own))
                .join(below)
        }
    }
}

/// A path that leads below a group and not out of it.
pub(super) fn below(path: &str) -> anyhow::Result<PathBuf> {
    let parts = Path::new(path).components();
    let mut below = PathBuf::new();
    for part in parts {
        match part {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => bail!("policy: --cgroup: {path} is not a sub cgroup path"),
            _ => {}
        }
    }
    Ok(below)
}

/// A line of `/proc/self/cgroup`: number, controllers, path.
fn own_place(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.splitn(3, ':');
    fields.next()?;
    Some((fields.next()?, fields.next()?))
}

/// A line of proc_pid_mountinfo(5).
fn hierarchy(line: &str, kind: &str, own: &[(&str, &str)]) -> Option<Hierarchy> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, mount) = (front.next()?, front.next()?);
    let mut back = back.split(' ');
    if back.next()? != kind {
        return None;
    }
    let options: Vec<&str> = back.nth(1)?.split(',').collect();
    let is_its = |controllers: &str| controllers.split(',').all(|one| options.contains(&one));
    let controllers = match kind {
        "cgroup2" => "",
        _ => own
            .iter()
            .map(|(controllers, _)| *controllers)
            .find(|controllers| !controllers.is_empty() && is_its(controllers))?,
    };
    Some(Hierarchy {
        controllers: controllers.into(),
        mount: kernel_file::mount_path(mount.as_bytes()),
        root: kernel_file::mount_path(root.as_bytes()),
    })
}
