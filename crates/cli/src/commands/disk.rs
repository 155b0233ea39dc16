//! This machine's files, as far as nobody else is asked what lies there; and which of them may be granted unasked.

use palisade_process::{
    Found, LocalMounts,
    places::{self, Advice},
};
use std::path::{Path, PathBuf};

/// What may be looked at, and whose home it is.
pub(super) struct Disk {
    mounts: LocalMounts,
    home: Option<PathBuf>,
}

impl Disk {
    pub(super) fn here() -> Self {
        let mounts = LocalMounts::here();
        let home = std::env::home_dir().and_then(|home| mounts.look(&home));
        Self {
            home: home.map(|home| home.canonical),
            mounts,
        }
    }

    /// What lies at a path, if no link on it leads elsewhere.
    pub(super) fn itself(&self, path: &Path) -> Option<Found> {
        self.mounts
            .look(path)
            .filter(|found| found.canonical == path)
    }

    pub(super) fn judge(&self, found: &Found) -> Advice {
        places::judge(found, self.home.as_deref())
    }

    /// Whether its user's home lies there.
    pub(super) fn holds_home(&self, folder: &Path) -> bool {
        let home = self.home.as_ref();
        home.is_some_and(|home| home.starts_with(folder))
    }
}
