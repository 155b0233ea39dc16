//! Paths of a guest, each resolved by the kernel below one open folder.
//!
//! Two rules. What follows links or names folders on the way is openat2(2) with `RESOLVE_BENEATH`: no
//! component, not even in the middle of somebody else's rename, leads out of the folder. What works on a
//! name itself (rename, link, unlink, …) gets the open parent and one last component, which those calls
//! never follow; its trailing slashes are left for the kernel to judge.
//!
//! A filter that cannot look at openat2's flags refuses the call as a whole (ENOSYS). Then
//! [`super::walk`] does the same by one openat(2) for each component.

use super::{errno::Errno, walk};
use crate::sys::open_how;
use rustix::{
    fs::{AtFlags, OFlags},
    io::Errno as Kernel,
};
use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// How often a resolution that met a rename is made anew.
const TRIES: usize = 64;

/// Resolves paths, in the way that this process may.
#[derive(Debug)]
pub(crate) struct Resolver {
    has_openat2: Cell<bool>,
}

/// A name in an open folder.
pub(super) struct Place<'path> {
    parent: Parent<'path>,
    /// One component, with the slashes behind it.
    pub(super) name: &'path [u8],
}

enum Parent<'folder> {
    Given(BorrowedFd<'folder>),
    Opened(OwnedFd),
}

impl Place<'_> {
    pub(super) fn parent(&self) -> BorrowedFd<'_> {
        match &self.parent {
            Parent::Given(folder) => *folder,
            Parent::Opened(folder) => folder.as_fd(),
        }
    }

    /// Only a folder may be meant.
    pub(super) fn names_folder(&self) -> bool {
        self.name.ends_with(b"/")
    }
}

impl Resolver {
    pub(crate) fn new() -> Self {
        Self {
            has_openat2: Cell::new(true),
        }
    }

    /// Opens what a path leads to, links followed, below a folder.
    pub(super) fn open(
        &self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        if !self.has_openat2.get() {
            return walk::open(folder, path, flags);
        }
        match open_beneath(folder, path, flags) {
            Err(Kernel::NOSYS) => {
                self.has_openat2.set(false);
                walk::open(folder, path, flags)
            }
            // A path that leads out of the folder.
            Err(Kernel::XDEV) => Err(Errno::NOT_CAPABLE),
            opened => Ok(opened?),
        }
    }

    /// Opens a folder that the guest finds open; a way out is the kernel's `EXDEV`.
    pub(crate) fn open_folder(
        &self,
        root: BorrowedFd<'_>,
        path: &[u8],
        access: OFlags,
    ) -> Result<OwnedFd, Kernel> {
        let opened = self.open(root, path, access | OFlags::DIRECTORY);
        opened.map_err(Errno::to_kernel)
    }

    /// Opens what a path leads to, to look at it only.
    pub(super) fn find(
        &self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<OwnedFd, Errno> {
        let flags = match follow {
            true => OFlags::PATH,
            false => OFlags::PATH | OFlags::NOFOLLOW,
        };
        self.open(folder, path, flags)
    }

    /// Opens the parent of a path's last component.
    pub(super) fn place<'path>(
        &self,
        folder: BorrowedFd<'path>,
        path: &'path [u8],
    ) -> Result<Place<'path>, Errno> {
        let (parent, name) = split(path)?;
        if component(name) == b".." {
            // The kernel would look where it leads to before it refuses.
            self.find(folder, path, true)?;
        }
        let parent = match parent {
            [] => Parent::Given(folder),
            path => {
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                Parent::Opened(self.open(folder, path, flags)?)
            }
        };
        Ok(Place { parent, name })
    }
}

fn open_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Kernel> {
    for _ in 1..TRIES {
        match open_how::open_beneath(folder, path, flags) {
            // "..", while something was renamed: the kernel cannot tell and lets us ask again.
            Err(Kernel::AGAIN) => {}
            result => return result,
        }
    }
    open_how::open_beneath(folder, path, flags)
}

/// A path without its last component, and that with the slashes behind it.
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    if path.first() == Some(&b'/') {
        return Err(Errno::NOT_CAPABLE);
    }
    let end = component_end(path).ok_or(Errno::NO_ENTRY)?;
    let slash = path[..end].iter().rposition(|byte| *byte == b'/');
    Ok(path.split_at(slash.map_or(0, |slash| slash + 1)))
}

/// Where the slashes at the end begin.
fn component_end(path: &[u8]) -> Option<usize> {
    let last = path.iter().rposition(|byte| *byte != b'/')?;
    Some(last + 1)
}

/// Without the slashes at its end.
fn component(name: &[u8]) -> &[u8] {
    &name[..component_end(name).unwrap_or(0)]
}

/// Whether a path is one name, which no call without following leads out of its folder.
pub(super) fn is_plain_name(path: &[u8]) -> bool {
    !path.is_empty() && !path.contains(&b'/') && path != b".."
}

/// Looks at the name itself.
pub(super) const ITSELF: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

#[cfg(test)]
mod tests;
