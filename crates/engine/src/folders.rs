//! The folders that a guest finds open: its preopens.
//!
//! Where a folder was granted as the guest's root, it is mounted somewhere in the worker's own, and each
//! preopen lies below it. A link there may have been left by another guest, so none leads out.

use crate::resolve::{Resolver, Unresolved};
use palisade_wasm::order::Order;
use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno as Kernel,
};
use std::{
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// A folder of the order's that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("wall: {} was to be open for the guest, but cannot be opened: {errno}", path.display())]
pub struct FolderError {
    path: PathBuf,
    #[source]
    errno: Kernel,
}

impl FolderError {
    /// This process may not even look at it.
    pub(crate) fn is_denied(&self) -> bool {
        self.errno == Kernel::ACCESS
    }
}

/// What is `/` to the guest.
pub(crate) enum Root {
    /// The worker's own root.
    Own,
    /// A folder in it.
    Granted(OwnedFd, Resolver),
}

impl Root {
    pub(crate) fn open(order: &Order) -> Result<Self, FolderError> {
        let Some(path) = &order.root else {
            return Ok(Self::Own);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty()).map_err(|errno| FolderError {
            path: "/".into(),
            errno,
        })?;
        Ok(Self::Granted(folder, Resolver::new()))
    }

    /// A folder that may be searched and not listed is opened all the same, to find what is in it.
    pub(crate) fn open_folder(&self, path: &Path) -> Result<OwnedFd, FolderError> {
        let opened = match self.open_by(path, OFlags::RDONLY) {
            Err(Kernel::ACCESS) => self.open_by(path, OFlags::PATH),
            opened => opened,
        };
        opened.map_err(|errno| FolderError {
            path: path.into(),
            errno,
        })
    }

    fn open_by(&self, path: &Path, access: OFlags) -> Result<OwnedFd, Kernel> {
        let flags = access | OFlags::DIRECTORY;
        match self {
            Self::Own => open(path, flags | OFlags::CLOEXEC, Mode::empty()),
            Self::Granted(root, resolver) => {
                let path = path.as_os_str().as_bytes();
                let below = match path.strip_prefix(b"/").unwrap_or(path) {
                    [] => b".",
                    below => below,
                };
                let opened = resolver.open(root.as_fd(), below, flags);
                opened.map_err(Unresolved::to_kernel)
            }
        }
    }
}
