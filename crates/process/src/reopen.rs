//! Opening what a plan found on the host, and nothing else: "Paths are descriptors" (ARCHITECTURE.md).

use crate::{host::Identity, launch_error::LaunchError};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::{os::fd::OwnedFd, path::Path};

/// Opens what the plan found at a path of the host's, without following links, and nothing else in its
/// place.
pub(crate) fn open_same(path: &Path, identity: Identity) -> Result<OwnedFd, LaunchError> {
    match open_if_same(path, OFlags::PATH, identity) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(LaunchError::SourceChanged { path: path.into() }),
        Err(errno) => Err(LaunchError::OpenSource {
            path: path.into(),
            errno,
        }),
    }
}

/// The same; `None` where something else lies there by now.
pub(crate) fn open_if_same(
    path: &Path,
    flags: OFlags,
    identity: Identity,
) -> rustix::io::Result<Option<OwnedFd>> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = flags | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?;
    let is_same = Identity::of(&rustix::fs::fstat(&file)?) == identity;
    Ok(is_same.then_some(file))
}
