//! What of the host's a container could change that later ones are run by.
//!
//! It is looked at by names: another mount that shows the same file system is not seen through. Whoever mounts the host's files into
//! a container for writing has handed out more than this.

use anyhow::bail;
use oci_spec::runtime::{Mount, Spec};
use palisade_wasm::{cache::Cache, programs::Programs};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Refuses a container that could.
pub(super) fn refuse(
    spec: &Spec,
    bundle: &Path,
    cache: Option<&Cache>,
    programs: &Programs,
) -> anyhow::Result<()> {
    let kept = cache.into_iter().flat_map(Cache::paths);
    let relied: Vec<PathBuf> = kept
        .chain([programs.worker.clone(), programs.compiler.clone()])
        .collect();
    for source in writable(spec, bundle) {
        let Ok(source) = fs::canonicalize(&source) else {
            continue;
        };
        if let Some(path) = relied
            .iter()
            .find(|path| path.starts_with(&source) || source.starts_with(path))
        {
            bail!(
                "policy: the container could write {path:?} by {source:?}, and palisade relies on it outside: mount that \
                 read-only, or not at all"
            );
        }
    }
    Ok(())
}

/// Folders and files of the host's that can be written to inside.
fn writable(spec: &Spec, bundle: &Path) -> Vec<PathBuf> {
    let root = spec.root().as_ref();
    let root = root.filter(|root| !root.readonly().unwrap_or(false));
    let mounts = spec.mounts().iter().flatten();
    let sources = mounts
        .filter(|mount| !is_read_only(mount))
        .filter(|mount| super::find::is_bind(mount))
        .filter_map(|mount| mount.source().clone());
    let root = root.map(|root| root.path().clone());
    let all = root.into_iter().chain(sources);
    all.map(|path| bundle.join(path)).collect()
}

fn is_read_only(mount: &Mount) -> bool {
    let options = mount.options().iter().flatten();
    let mut last = options.rev().filter(|word| *word == "ro" || *word == "rw");
    last.next().is_some_and(|word| word == "ro")
}
