//! The runs that this repository publishes: they can be read, there is one of each kind, and they take little room.

use palisade_lab::KeptRun;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Of all runs: everybody who clones the repository has them. One that goes on until its targets are decided has ten times the samples.
const MOST_BYTES: u64 = 10 << 20;

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    paths
}

fn runs() -> Vec<PathBuf> {
    entries(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs"))
}

fn bytes_of(path: &Path) -> u64 {
    match path.is_dir() {
        true => entries(path).iter().map(|path| bytes_of(path)).sum(),
        false => fs::metadata(path).expect("a file").len(),
    }
}

/// Those of `palisade bench`; attacks are kept here too.
fn measured() -> impl Iterator<Item = PathBuf> {
    let is_measured = |path: &PathBuf| path.join("environment.json").is_file();
    runs().into_iter().filter(is_measured)
}

#[test]
fn published_runs_are_read() {
    let folders: Vec<_> = measured().collect();
    assert!(!folders.is_empty());
    for path in folders {
        let kept = KeptRun::read(&path).expect("a run");
        assert!(!kept.rows.is_empty(), "{}", path.display());
        for row in &kept.rows {
            let name = format!("{}: {}", path.display(), row.outcome.row);
            assert_eq!(row.outcome.failed, None, "{name}");
            assert_eq!(row.outcome.rounds, row.samples.rounds(), "{name}");
            assert!(!row.outcome.tables.is_empty(), "{name}");
        }
    }
}

/// A run is named for its day and then for its machine and kind: a new one takes the place of the last.
#[test]
fn there_is_one_run_of_each_kind() {
    let mut kinds = BTreeSet::new();
    for path in runs() {
        let name = path.file_name().expect("a name").to_string_lossy();
        let kind = name.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
        let is_first = kinds.insert(kind.to_owned());
        assert!(
            is_first,
            "there is another run of the kind {kind}: remove the older one"
        );
    }
}

#[test]
fn published_runs_take_little_room() {
    let bytes: u64 = runs().iter().map(|path| bytes_of(path)).sum();
    assert!(
        bytes <= MOST_BYTES,
        "runs/ has {bytes} bytes, more than {MOST_BYTES}: remove what a newer run replaces"
    );
}
