//! This machine's files, as far as nobody else is asked what lies there; and which of them may be granted unasked.

use palisade_command_line::home::home_dir;
use palisade_process::{
    Found, LocalMounts,
    places::{Advice, Kept},
};
use std::path::{Path, PathBuf};

/// What may be looked at, and whose home it is.
pub(super) struct Disk {
    mounts: LocalMounts,
    home: Option<PathBuf>,
    kept: Kept,
}

impl Disk {
    /// # Errors
    ///
    /// When it cannot be told what its user keeps.
    pub(super) fn here() -> anyhow::Result<Self> {
        let mounts = LocalMounts::here();
        let home = home_dir().and_then(|home| mounts.look(&home));
        let home = home.map(|home| home.canonical);
        Ok(Self::of(home, &super::sensitive::read()?, mounts))
    }

    /// Of a user with this home, without links, who keeps this beside.
    pub(super) fn of(home: Option<PathBuf>, sensitive: &[String], mounts: LocalMounts) -> Self {
        Self {
            kept: Kept::new(home.clone(), sensitive, |path| mounts.look(path)),
            home,
            mounts,
        }
    }

    /// Whether its user has named it among what is kept from every guest, by this name or by what it leads to.
    pub(super) fn keeps(&self, path: &Path) -> bool {
        let found = self.mounts.look(path);
        self.kept.is_named(path) || found.is_some_and(|found| self.kept.is_named(&found.canonical))
    }

    /// What lies at a path, if no link on it leads elsewhere.
    pub(super) fn itself(&self, path: &Path) -> Option<Found> {
        self.mounts
            .look(path)
            .filter(|found| found.canonical == path)
    }

    pub(super) fn judge(&self, found: &Found) -> Advice {
        self.kept.judge(found)
    }

    /// Whether its user's home lies there.
    pub(super) fn holds_home(&self, folder: &Path) -> bool {
        let home = self.home.as_ref();
        home.is_some_and(|home| home.starts_with(folder))
    }
}
