//! This machine's files, as far as nobody else is asked what lies there; and which of them may be granted unasked.

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
        let home = std::env::home_dir().and_then(|home| mounts.look(&home));
        let home = home.map(|home| home.canonical);
        Ok(Self {
            kept: Kept::new(home.clone(), super::sensitive::read()?),
            home,
            mounts,
        })
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
