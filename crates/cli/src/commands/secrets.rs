//! What is granted to nobody, and folders that hold it.

use crate::commands::disk::Disk;
use palisade_policy::visible;
use palisade_process::{Kind, places::Advice};
use std::{
    cell::Cell,
    fs,
    path::{Path, PathBuf},
};

/// More files than these are not looked at, of all that one round asks for: a guest may name many folders.
const MOST: usize = 20_000;

/// Keys and passwords, by where they lie and how they are called.
pub(in crate::commands) struct Secrets {
    pub(in crate::commands) disk: Disk,
    /// How many more are looked at in this round.
    left: Cell<usize>,
}

impl Secrets {
    /// # Errors
    ///
    /// When it cannot be told what its user keeps.
    pub(in crate::commands) fn of_this_machine() -> anyhow::Result<Self> {
        Ok(Self::of(Disk::here()?))
    }

    /// The same by what lies there.
    pub(in crate::commands) fn of(disk: Disk) -> Self {
        Self {
            disk,
            left: Cell::new(MOST),
        }
    }

    pub(in crate::commands) fn begin_round(&self) {
        self.left.set(MOST);
    }

    /// Why something is granted to nobody: for what it is, or what lies in it. A link in it is nothing: what it leads to is not
    /// granted with it.
    pub(in crate::commands) fn in_way(&self, path: &Path) -> Option<String> {
        match self.first_in(path) {
            Ok(None) => None,
            Ok(Some(secret)) => Some(format!(
                "{} is kept from everybody",
                visible(&secret.to_string_lossy())
            )),
            Err(TooMuch) => Some("there is more in it than is looked through".into()),
        }
    }

    /// The first that is found in a folder, or the path itself.
    fn first_in(&self, path: &Path) -> Result<Option<PathBuf>, TooMuch> {
        let mut open = vec![path.to_owned()];
        while let Some(path) = open.pop() {
            let left = self.left.get().checked_sub(1).ok_or(TooMuch)?;
            self.left.set(left);
            match self.is_folder(&path) {
                None => return Ok(Some(path)),
                Some(false) => continue,
                Some(true) => {}
            }
            let Ok(entries) = fs::read_dir(&path) else {
                return Ok(Some(path));
            };
            let entries = entries.flatten();
            let is_link =
                |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let others = entries.filter(|entry| !is_link(entry));
            // No more than may be looked at.
            open.extend(others.map(|entry| entry.path()).take(left + 1));
        }
        Ok(None)
    }

    /// None where it is kept from everybody, or is another one than it was by this name.
    fn is_folder(&self, path: &Path) -> Option<bool> {
        let found = self.disk.itself(path)?;
        match self.disk.judge(&found) {
            Advice::Refuse(_) => None,
            Advice::Grant | Advice::Nothing => Some(found.kind == Kind::Folder),
        }
    }

    /// Why a folder is no project.
    pub(in crate::commands) fn refuse_project(&self, project: &Path) -> Option<&'static str> {
        let found = self.disk.itself(project)?;
        match self.disk.judge(&found) {
            Advice::Refuse(why) => Some(why),
            _ if self.disk.holds_home(project) => Some("it holds your home"),
            _ => None,
        }
    }
}

/// More lies in it than is looked at.
struct TooMuch;
