//! What a fresh checkout of a project has not: what tools make, and what its `.gitignore` names.

use palisade_command_line::read::read_regular_file;
use std::{ffi::OsStr, path::Path};

/// Of a `.gitignore`, whose author may be anybody: each name is compared with each of these.
const MOST_NAMES: usize = 1000;
const MOST_BYTES: u64 = 1 << 20;

/// Folders that builds make: a fresh checkout has none of them.
const MADE: [&str; 14] = [
    "target",
    "build",
    "dist",
    "out",
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".tox",
    ".gradle",
    ".next",
    "coverage",
];

/// By names, wherever they lie in the project.
#[derive(Clone, Debug)]
pub(super) struct Checkout {
    ignored: Vec<String>,
}

impl Checkout {
    /// Of this project.
    pub(super) fn of(project: &Path) -> Self {
        Self {
            ignored: ignored(project),
        }
    }

    /// Whether something of this name is not in it, a folder or a file.
    pub(super) fn is_without(&self, name: &OsStr, is_folder: bool) -> bool {
        let name = name.to_string_lossy();
        let mut ignored = self.ignored.iter();
        is_folder && MADE.contains(&&*name)
            || ignored.any(|made| match made.split_once('*') {
                None => *made == name,
                Some((begin, end)) => name
                    .strip_prefix(begin)
                    .is_some_and(|rest| rest.ends_with(end)),
            })
    }
}

/// Lines of a `.gitignore` that are one name, or a pattern of one with one `*`: a folder or a file of that name, wherever it is.
fn ignored(source: &Path) -> Vec<String> {
    let read = read_regular_file(&source.join(".gitignore"), MOST_BYTES);
    let text = read.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    let lines = text
        .lines()
        .map(|line| line.trim().trim_start_matches('/').trim_end_matches('/'));
    let is_name = |line: &&str| {
        line.contains(|letter| letter != '*')
            && line.matches('*').count() <= 1
            && !line.contains(['/', '?', '[', '#', '!', '\\'])
    };
    lines
        .filter(is_name)
        .take(MOST_NAMES)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_of_what_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".gitignore");
        fs::write(&file, "/obj/\n*.o\n# no\nmade\nbuild-*-x/\n*\n").unwrap();
        let checkout = Checkout::of(folder.path());
        for (name, is_made) in [
            ("obj", true),
            ("a.o", true),
            ("target", true),
            ("src", false),
            ("a.o.c", false),
            ("no", false),
        ] {
            assert_eq!(
                checkout.is_without(OsStr::new(name), true),
                is_made,
                "{name}"
            );
        }
        assert!(!checkout.is_without(OsStr::new("target"), false), "a file");
        let many: String = (0..5000).map(|number| format!("n{number}\n")).collect();
        fs::write(&file, many).unwrap();
        assert_eq!(ignored(folder.path()).len(), MOST_NAMES);
    }
}
