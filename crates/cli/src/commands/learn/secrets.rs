//! What a folder holds that is granted to nobody.

use crate::commands::why::remedy::Missed;
use palisade_process::{
    Kind, LocalMounts,
    places::{self, Advice},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A folder with more in it is not looked through.
const MOST: usize = 20_000;

/// Keys and passwords by where they lie and how they are called.
pub(super) struct Secrets {
    mounts: LocalMounts,
    home: Option<PathBuf>,
}

impl Secrets {
    pub(super) fn of_this_machine() -> Self {
        let mounts = LocalMounts::here();
        let home = std::env::home_dir().and_then(|home| mounts.look(&home));
        Self {
            home: home.map(|home| home.canonical),
            mounts,
        }
    }

    /// Whether some lie in what would be granted, or it cannot be told. A link is none: what it leads to is not granted with it.
    pub(super) fn lie_in(&self, missed: &Missed) -> bool {
        let Some(file) = missed.file() else {
            return false;
        };
        let mut open = vec![file.host];
        let mut left = MOST;
        while let Some(path) = open.pop() {
            left -= 1;
            match self.is_folder(&path) {
                None => return true,
                Some(false) => continue,
                Some(true) => {}
            }
            let Ok(entries) = fs::read_dir(&path) else {
                return true;
            };
            for entry in entries {
                let Ok(entry) = entry else { return true };
                if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                    open.push(entry.path());
                }
                if open.len() > left {
                    return true;
                }
            }
        }
        false
    }

    /// None where it is kept from everybody.
    fn is_folder(&self, path: &Path) -> Option<bool> {
        let found = self.mounts.look(path)?;
        match places::judge(&found, self.home.as_deref()) {
            Advice::Refuse(_) => None,
            Advice::Grant | Advice::Nothing => Some(found.kind == Kind::Folder),
        }
    }
}
