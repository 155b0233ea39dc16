//! Paths of a guest, each resolved by the kernel below one open folder.
//!
//! Two rules. What follows links or names folders on the way is openat2(2): no component, not even in the middle of
//! somebody else's rename, leads out of the folder. Without `..` and without links there is no way but down; where the kernel
//! meets a link, and where the path has a `..`, it is asked with `RESOLVE_BENEATH`. (A folder that somebody moves away while a
//! path goes through it is as one that the guest had opened before.) What works on a name itself (rename, link, unlink, …) gets
//! the open parent and one last component, which those calls never follow; its trailing slashes are left for the kernel to judge.
//!
//! A filter that cannot look at openat2's flags refuses the call as a whole (ENOSYS). Then
//! [`walk`] does the same by one openat(2) for each component.

mod walk;

use crate::sys::open_how::{self, Resolve};
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

/// Why a path leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unresolved {
    /// It leads out of the folder.
    Outside,
    /// The kernel says so.
    Kernel(Kernel),
}

impl Unresolved {
    /// A way out of a folder is the kernel's `EXDEV`, as openat2(2) has it.
    pub(crate) fn to_kernel(self) -> Kernel {
        match self {
            Self::Outside => Kernel::XDEV,
            Self::Kernel(error) => error,
        }
    }
}

impl From<Kernel> for Unresolved {
    fn from(error: Kernel) -> Self {
        Self::Kernel(error)
    }
}

/// A name in an open folder.
pub(crate) struct Entry<'path> {
    parent: Parent<'path>,
    /// One component, with the slashes behind it.
    pub(crate) name: &'path [u8],
}

enum Parent<'folder> {
    Given(BorrowedFd<'folder>),
    Opened(OwnedFd),
}

impl Entry<'_> {
    pub(crate) fn parent(&self) -> BorrowedFd<'_> {
        match &self.parent {
            Parent::Given(folder) => *folder,
            Parent::Opened(folder) => folder.as_fd(),
        }
    }

    /// Only a folder may be meant.
    pub(crate) fn names_folder(&self) -> bool {
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
    pub(crate) fn open(
        &self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        flags: OFlags,
    ) -> Result<OwnedFd, Unresolved> {
        if !self.has_openat2.get() {
            return walk::open(folder, path, flags);
        }
        match open_beneath(folder, path, flags) {
            Err(Kernel::NOSYS) => {
                self.has_openat2.set(false);
                walk::open(folder, path, flags)
            }
            Err(Kernel::XDEV) => Err(Unresolved::Outside),
            opened => Ok(opened?),
        }
    }

    /// Opens what a path leads to, to look at it only.
    pub(crate) fn find(
        &self,
        folder: BorrowedFd<'_>,
        path: &[u8],
        follow: bool,
    ) -> Result<OwnedFd, Unresolved> {
        let flags = match follow {
            true => OFlags::PATH,
            false => OFlags::PATH | OFlags::NOFOLLOW,
        };
        self.open(folder, path, flags)
    }

    /// Opens the parent of a path's last component.
    pub(crate) fn entry<'path>(
        &self,
        folder: BorrowedFd<'path>,
        path: &'path [u8],
    ) -> Result<Entry<'path>, Unresolved> {
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
        Ok(Entry { parent, name })
    }
}

/// Opens a path below a folder: no component of it leads out.
fn open_beneath(folder: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Kernel> {
    if only_descends(path) {
        match open_how::open(folder, path, flags, Resolve::NoLinks) {
            Err(Kernel::LOOP) => {}
            result => return result,
        }
    }
    let open = || open_how::open(folder, path, flags, Resolve::Beneath);
    for _ in 1..TRIES {
        match open() {
            // "..", while something was renamed: the kernel cannot tell and lets us ask again.
            Err(Kernel::AGAIN) => {}
            result => return result,
        }
    }
    open()
}

/// Whether a path leads nowhere but down, as long as there are no links. A name with two dots in it may be taken for one that
/// leads up.
fn only_descends(path: &[u8]) -> bool {
    !path.starts_with(b"/") && !path.windows(2).any(|two| two == b"..")
}

/// A path without its last component, and that with the slashes behind it.
fn split(path: &[u8]) -> Result<(&[u8], &[u8]), Unresolved> {
    if path.first() == Some(&b'/') {
        return Err(Unresolved::Outside);
    }
    let end = component_end(path).ok_or(Kernel::NOENT)?;
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
pub(crate) fn is_plain_name(path: &[u8]) -> bool {
    !path.is_empty() && !path.contains(&b'/') && path != b".."
}

/// Looks at the name itself.
pub(crate) const ITSELF: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

#[cfg(test)]
mod tests;
