//! Which folders must not be served.

use super::*;
use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, Instant},
};

#[test]
fn what_lies_in_a_folder_is_found_by_whatever_path() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["a/deep", "b", "c"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    symlink("a/deep", at("link")).unwrap();
    fs::write(at("a/key"), "").unwrap();
    let roots = ["c", "a/deep", "a", "link", "gone"].map(at);
    let mut folders = Folders::of(roots.iter().map(PathBuf::as_path));
    for (path, first) in [
        ("a/deep/yet-to-come", Some(1)),
        ("link/yet-to-come", Some(1)),
        ("a/key", Some(2)),
        ("a/deep", Some(2)),
        ("a", None),
        ("b/key", None),
        ("b/../c/key", Some(0)),
        ("gone/key", None),
    ] {
        assert_eq!(folders.around(&at(path)), first, "{path}");
    }
    // The first folder that has anything in it decides, wherever that stands.
    let mut folders = Folders::of([at("a").as_path(), &at("a/deep")].into_iter());
    assert_eq!(folders.around(&at("a/deep/x")), Some(0));
}

/// Each pair would be a hundred million looks at the file system.
#[test]
fn ten_thousand_folders_and_files_are_looked_at_once_each() {
    const COUNT: usize = 10_000;
    let folder = tempfile::tempdir().unwrap();
    let each = |kind: &str| -> Vec<_> {
        let paths = (0..COUNT).map(|number| folder.path().join(format!("{kind}{number}")));
        paths.collect()
    };
    let (roots, own) = (each("root"), each("own"));
    for root in &roots {
        fs::create_dir(root).unwrap();
    }
    let begun = Instant::now();
    let mut folders = Folders::of(roots.iter().map(PathBuf::as_path));
    assert!(own.iter().all(|path| folders.around(path).is_none()));
    assert_eq!(folders.around(&roots[7].join("x")), Some(7));
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(folders.known.len() < 16, "each folder is looked at once");
}
