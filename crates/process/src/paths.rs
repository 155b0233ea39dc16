//! Paths by the letter: nothing is looked up.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

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

/// Whether a path begins at the root and has nothing to take out: no `.`, no `..`, no slash too many.
pub(crate) fn is_plain(path: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    let Some(below) = text.strip_prefix(b"/") else {
        return false;
    };
    let mut names = below.split(|byte| *byte == b'/');
    below.is_empty() || names.all(|name| !matches!(name, b"" | b"." | b".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_path_says_nothing_twice() {
        for path in ["/", "/a", "/a/..b/.c", "/a/b"] {
            assert!(is_plain(Path::new(path)), "{path}");
        }
        for path in [
            "", "a", "a/b", "//", "/a/", "/a//b", "//a", "/a/.", "/./a", "/a/../b", "..",
        ] {
            assert!(!is_plain(Path::new(path)), "{path}");
        }
    }
}
