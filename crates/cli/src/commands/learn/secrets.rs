//! What is granted to nobody, and folders that hold it.

use palisade_policy::visible;
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

    /// Why something is granted to nobody: for what it is, or what lies in it. A link in it is nothing: what it leads to is not
    /// granted with it.
    pub(super) fn in_way(&self, path: &Path) -> Option<String> {
        match self.first_in(path) {
            Ok(None) => None,
            Ok(Some(secret)) => Some(format!(
                "{} is kept from everybody",
                visible(&secret.to_string_lossy())
            )),
            Err(TooMuch) => Some("there is more in it than can be looked through".into()),
        }
    }

    /// The first that is found in a folder, or the path itself.
    fn first_in(&self, path: &Path) -> Result<Option<PathBuf>, TooMuch> {
        let mut open = vec![path.to_owned()];
        let mut left = MOST;
        while let Some(path) = open.pop() {
            left = left.checked_sub(1).ok_or(TooMuch)?;
            match self.is_folder(&path) {
                None => return Ok(Some(path)),
                Some(false) => continue,
                Some(true) => {}
            }
            let Ok(entries) = fs::read_dir(&path) else {
                return Ok(Some(path));
            };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                    open.push(entry.path());
                }
            }
        }
        Ok(None)
    }

    /// None where it is kept from everybody, or is another one than it was by this name.
    fn is_folder(&self, path: &Path) -> Option<bool> {
        let found = self.mounts.look(path)?;
        match places::judge(&found, self.home.as_deref()) {
            _ if found.canonical != path => None,
            Advice::Refuse(_) => None,
            Advice::Grant | Advice::Nothing => Some(found.kind == Kind::Folder),
        }
    }

    /// Why a folder is no project.
    pub(super) fn refuse_project(&self, project: &Path) -> Option<&'static str> {
        let found = self.mounts.look(project)?;
        let holds_home = self
            .home
            .as_ref()
            .is_some_and(|home| home.starts_with(project));
        match places::judge(&found, self.home.as_deref()) {
            Advice::Refuse(why) => Some(why),
            _ if holds_home => Some("it holds your home"),
            _ => None,
        }
    }
}

/// More lies in it than is looked at.
struct TooMuch;
