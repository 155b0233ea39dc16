//! Paths by the letter: nothing is looked up.

use std::path::{Component, Path, PathBuf};

/// `join` without the trailing slash that joining an empty path leaves.
pub fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        base.into()
    } else {
        base.join(rest)
    }
}

/// The path with `.` and `..` taken out by the letter.
pub fn normalized(path: &Path) -> PathBuf {
    path.components()
        .fold(PathBuf::new(), |mut clean, component| {
            match component {
                Component::ParentDir => drop(clean.pop()),
                Component::CurDir => {}
                other => clean.push(other),
            }
            clean
        })
}
