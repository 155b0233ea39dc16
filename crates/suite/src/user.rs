//! Who starts the launcher, and what belongs to him.

use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

/// The uid and gid of the ordinary half when the suite runs as root: nobody else's.
pub(crate) const ORDINARY_ID: u32 = 61_873;

/// Who starts the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    /// uid 0 with every capability.
    Root,
    /// A uid of its own, no capability, no supplementary group.
    Ordinary,
}

impl User {
    /// Both halves of the suite.
    pub const BOTH: [Self; 2] = [Self::Root, Self::Ordinary];

    /// As in test names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Ordinary => "ordinary",
        }
    }

    /// The uid and gid to take before the launcher starts; none where the suite's own are meant.
    pub(crate) fn id_to_take(self) -> Option<u32> {
        (self == Self::Ordinary && geteuid().is_root()).then_some(ORDINARY_ID)
    }

    /// The user of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::BOTH.into_iter().find(|user| user.name() == name)
    }
}

/// Why a case that only root can run is not run here.
#[must_use]
pub fn lacks_root() -> Option<String> {
    let uid = geteuid();
    (!uid.is_root()).then(|| {
        format!(
            "the suite runs as uid {}; start it as root for this case",
            uid.as_raw()
        )
    })
}

/// Gives `path`, and all below it, to `id`; without one it stays as it is.
pub(crate) fn give_away(path: &Path, id: Option<u32>) -> io::Result<()> {
    if id.is_none() {
        return Ok(());
    }
    lchown(path, id, id)?;
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_away(&entry?.path(), id)?;
        }
    }
    Ok(())
}

/// Lets `command` start with this uid and gid, and no further group.
pub(crate) fn start_as(command: &mut Command, id: Option<u32>) {
    if let Some(id) = id {
        // A root parent that sets a uid also drops the supplementary groups.
        command.uid(id).gid(id);
    }
}
