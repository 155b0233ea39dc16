//! What of the host's a container could change that later ones are run by.
//!
//! It is looked at by names: another mount that shows the same file system is not seen through. Whoever mounts the host's files into
//! a container for writing has handed out more than this.

use anyhow::{Context, bail};
use oci_spec::runtime::{Mount, Spec};
use palisade_process::{Host as _, ThisHost};
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
    let mounted = ThisHost.mounts().context("host: cannot read mounts")?;
    let mounted: Vec<PathBuf> = mounted.into_iter().map(|mount| mount.point).collect();
    for (source, how) in given(spec, bundle) {
        let Ok(source) = fs::canonicalize(&source) else {
            continue;
        };
        if let Some(path) = relied
            .iter()
            .find(|path| how.writes(&source, path, &mounted))
        {
            bail!(
                "policy: the container could write {path:?} by {source:?}, and palisade relies on it outside: mount that \
                 read-only with all below (rro), or not at all"
            );
        }
    }
    Ok(())
}

/// How files of the host's are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Writable,
    /// What is mounted there can be read alone, and what is mounted below stays as it is (mount(8)).
    ReadOnlyAtTop,
    ReadOnly,
}

impl How {
    /// Whether a source that is shown so leads to the path, for writing.
    fn writes(self, source: &Path, path: &Path, mounted: &[PathBuf]) -> bool {
        let meet = |one: &Path, other: &Path| one.starts_with(other) || other.starts_with(one);
        let below = |mount: &&PathBuf| mount.starts_with(source) && *mount != source;
        match self {
            Self::Writable => meet(path, source),
            Self::ReadOnlyAtTop => mounted.iter().filter(below).any(|mount| meet(path, mount)),
            Self::ReadOnly => false,
        }
    }

    fn of(mount: &Mount) -> Self {
        let options = || mount.options().iter().flatten();
        let has = |word: &str| options().any(|option| option == word);
        let mut last = options()
            .rev()
            .filter(|word| ["ro", "rw"].contains(&word.as_str()));
        let is_read_only = last.next().is_some_and(|word| word == "ro");
        match (is_read_only, has("rro"), has("rbind")) {
            (_, true, _) | (true, _, false) => Self::ReadOnly,
            (true, false, true) => Self::ReadOnlyAtTop,
            (false, false, _) => Self::Writable,
        }
    }
}

/// Folders and files of the host's that are shown inside.
fn given(spec: &Spec, bundle: &Path) -> Vec<(PathBuf, How)> {
    let root = spec.root().as_ref();
    let root = root.filter(|root| !root.readonly().unwrap_or(false));
    let root = root.map(|root| (root.path().clone(), How::Writable));
    let mounts = spec
        .mounts()
        .iter()
        .flatten()
        .filter(|mount| super::find::is_bind(mount));
    let sources = mounts.filter_map(|mount| Some((mount.source().clone()?, How::of(mount))));
    let all = root.into_iter().chain(sources);
    all.map(|(path, how)| (bundle.join(path), how)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn how(options: serde_json::Value) -> How {
        let mount = json!({ "destination": "/x", "source": "/var", "options": options });
        How::of(&serde_json::from_value(mount).unwrap())
    }

    #[test]
    fn read_only_is_of_the_top_alone_unless_it_says_more() {
        assert_eq!(how(json!(["rbind"])), How::Writable);
        assert_eq!(how(json!(["bind", "ro", "rw"])), How::Writable);
        assert_eq!(how(json!(["bind", "ro"])), How::ReadOnly);
        assert_eq!(how(json!(["rbind", "ro"])), How::ReadOnlyAtTop);
        assert_eq!(how(json!(["rbind", "rro"])), How::ReadOnly);
    }

    #[test]
    fn a_mount_below_is_a_way_around_the_one_above() {
        let cache = Path::new("/var/cache/palisade");
        let writes = |how: How, source: &str, mounted: &[&str]| {
            let mounted: Vec<PathBuf> = mounted.iter().map(PathBuf::from).collect();
            how.writes(Path::new(source), cache, &mounted)
        };
        let top = How::ReadOnlyAtTop;
        assert!(!writes(top, "/var", &["/", "/var", "/var/lib"]));
        assert!(writes(top, "/var", &["/", "/var/cache"]));
        assert!(writes(top, "/var", &["/var/cache/palisade/key"]));
        assert!(writes(
            top,
            "/var/cache/palisade",
            &["/var/cache/palisade/key"]
        ));
        assert!(!writes(top, "/srv", &["/var/cache"]));
        assert!(writes(How::Writable, "/var", &[]));
        assert!(!writes(How::ReadOnly, "/var", &["/var/cache"]));
    }
}
