//! What the worker in a container is told.

use anyhow::bail;
use oci_spec::runtime::{Process, Spec};
use palisade_process::container;
use palisade_wasm::{order::Order, plan::in_no_path, programs::WORKER};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Component, Path, PathBuf},
};

/// Most folders right below the root that a guest finds open: each takes a descriptor and a word of the command line.
const MOST_FOLDERS: usize = 512;

/// What a worker takes beside its guest, with room.
const WORKER_BYTES: u64 = 16 << 20;

const STANDARD_STREAMS: i32 = 3;

/// The order of a process, but for its descriptors.
pub(super) fn of(spec: &Spec, process: &Process, rootfs: &Path) -> anyhow::Result<Order> {
    let arguments = process.args().iter().flatten();
    Ok(Order {
        cwd: process.cwd().clone(),
        preopens: preopens(spec, process.cwd(), rootfs)?,
        memory_bytes: memory_bytes(spec),
        arguments: arguments.map(Into::into).collect(),
        ..Order::default()
    })
}

/// Of the control group's memory, what the guest may take: it hears that there is no more, and is not killed. The rest is the
/// worker's, and half of what is less than twice as much.
fn memory_bytes(spec: &Spec) -> Option<u64> {
    let resources = spec.linux().as_ref()?.resources().as_ref()?;
    let limit = resources.memory().as_ref()?.limit()?;
    let limit = u64::try_from(limit).ok().filter(|limit| *limit > 0)?;
    Some(limit.saturating_sub(WORKER_BYTES).max(limit / 2))
}

/// As for a program of `palisade run`: the working directory first, then the root; and where a guest does not start in
/// the root, all right below it, for a C program finds no absolute path otherwise.
fn preopens(spec: &Spec, cwd: &Path, rootfs: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let root = PathBuf::from("/");
    if cwd == root {
        return Ok(vec![root]);
    }
    let mut folders = folders_of(rootfs);
    let mounts = spec.mounts().iter().flatten();
    let made = mounts.map(|mount| mount.destination().as_path());
    folders.extend(made.chain([cwd]).filter_map(first_folder));
    for kernels in ["/proc", "/sys"] {
        folders.remove(Path::new(kernels));
    }
    if folders.len() > MOST_FOLDERS {
        bail!(
            "guest: the image has more than {MOST_FOLDERS} folders right below its root, and the program does not start there: \
             start it in / (process.cwd)"
        );
    }
    let start = in_no_path(cwd).into_iter();
    Ok(start.chain([root]).chain(folders).collect())
}

/// The top one of those that lead to a path; `None` for a file in the root.
fn first_folder(path: &Path) -> Option<PathBuf> {
    let path = Path::new("/").join(path);
    let mut parts = path.components().skip(1);
    match parts.next()? {
        Component::Normal(name) if parts.next().is_some() => Some(Path::new("/").join(name)),
        _ => None,
    }
}

/// Folders right below the image's root, and links that lead to one of the image's.
fn folders_of(rootfs: &Path) -> BTreeSet<PathBuf> {
    let (Ok(root), Ok(entries)) = (File::open(rootfs), fs::read_dir(rootfs)) else {
        return BTreeSet::new();
    };
    let is_folder = |name: &str| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&root, name, flags, Mode::empty(), how).is_ok()
    };
    // A configuration is text, and so is the plan.
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let found = names.filter(|name| is_folder(name));
    found
        .map(|name| Path::new("/").join(name))
        .take(MOST_FOLDERS + 1)
        .collect()
}

/// Has the worker executed in place of what the image has.
pub(super) fn instruct(
    worker: &Path,
    order: &Order,
    listeners: i32,
    process: &mut container::Process,
) {
    let order = Order {
        code: STANDARD_STREAMS.saturating_add(listeners),
        listeners,
        ..order.clone()
    };
    let words = order.to_arguments().into_iter();
    let words = words.map(|word| word.to_string_lossy().into_owned());
    process.arguments = std::iter::once(WORKER.to_owned()).chain(words).collect();
    process.executable = Some(worker.into());
    process.without_proc = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_leads_somewhere_is_a_folder() {
        let first =
            |path: &str| first_folder(Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(first("/a/b").as_deref(), Some("/a"));
        assert_eq!(first("a/b/c").as_deref(), Some("/a"));
        assert_eq!(first("/a"), None);
        assert_eq!(first("/"), None);
    }
}
