//! Standard streams that are files.
//!
//! As an ordinary user the guest is that user, and may own the file: a descriptor that is open for reading
//! is then enough to change its mode, times, attributes and flags. So an input is opened anew through a
//! read-only mount. An output keeps its descriptor, because writers share its offset; Landlock keeps it
//! from being read or executed.

use crate::{Tier, host::Identity, reopen::open_if_same, steps::Attributes, sys};
use rustix::{
    fs::{Mode, OFlags, SeekFrom, Stat},
    mount::OpenTreeFlags,
};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::PathBuf,
};

/// A file that is open.
#[derive(Debug)]
pub(super) struct File {
    identity: Identity,
    access: OFlags,
    offset: u64,
}

/// What is done with it.
#[derive(Debug)]
pub(super) enum Fate {
    /// Passed on for reading, where no mount is to be had.
    Input,
    /// Passed on for writing.
    Output,
    /// Init opens it by its path.
    Reopened(Reopened),
    /// Opened already.
    View { view: OwnedFd, offset: u64 },
    /// Only its bytes are passed on.
    Relayed,
}

/// A file for init to open through a read-only mount.
#[derive(Debug)]
pub(crate) struct Reopened {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) offset: u64,
}

impl File {
    pub(super) fn new(stat: &Stat, flags: OFlags, offset: u64) -> Self {
        Self {
            identity: Identity::of(stat),
            access: flags & OFlags::RWMODE,
            offset,
        }
    }

    /// Whether somebody else than the kernel may answer for what is in it, now or never: it lies on no block device, and on
    /// none of the kernel's own file systems (statfs(2)).
    pub(super) fn may_stall(&self, fd: BorrowedFd<'_>) -> bool {
        const TMPFS: u32 = 0x0102_1994;
        const RAMFS: u32 = 0x8584_58f6;
        const BTRFS: u32 = 0x9123_683e;
        const OVERLAY: u32 = 0x794c_7630;
        let is_kernels = |about: rustix::fs::StatFs| {
            [TMPFS, RAMFS, BTRFS, OVERLAY].contains(&(about.f_type as u32))
        };
        self.identity.device_major == 0 && !rustix::fs::fstatfs(fd).is_ok_and(is_kernels)
    }

    /// A file that no path leads to (deleted, or in memory) may be one that Landlock does not look at
    /// (`is_nouser_or_private` in security/landlock/fs.c), and can't be mounted without privilege. One
    /// that is open both ways gives more than an output or input needs: it could be mapped as a program.
    pub(super) fn fate(self, number: usize, fd: BorrowedFd<'_>, tier: Tier) -> Fate {
        let is_input = number == 0;
        match (is_input, self.access, tier) {
            (true, OFlags::WRONLY, _) => Fate::Relayed,
            (true, OFlags::RDONLY, Tier::Bare) if self.find(fd).is_some() => Fate::Input,
            (true, _, Tier::Bare) => Fate::Relayed,
            (true, _, Tier::Privileged) => {
                let (view, offset) = (read_only_view(fd, self.offset), self.offset);
                view.map_or(Fate::Relayed, |view| Fate::View { view, offset })
            }
            (true, _, Tier::UserNamespace) => {
                let reopened = self.reopened(fd);
                reopened.map_or(Fate::Relayed, Fate::Reopened)
            }
            (false, OFlags::WRONLY, _) if self.find(fd).is_some() => Fate::Output,
            (false, ..) => Fate::Relayed,
        }
    }

    /// A path that leads to it.
    fn find(&self, fd: BorrowedFd<'_>) -> Option<PathBuf> {
        let link = rustix::fs::readlink(link_to(fd), Vec::new()).ok()?;
        let stat = rustix::fs::stat(&link).ok()?;
        (Identity::of(&stat) == self.identity).then(|| path_of(link))
    }

    /// Opened once to see that init, which has the same user, can.
    fn reopened(&self, fd: BorrowedFd<'_>) -> Option<Reopened> {
        let path = path_of(rustix::fs::readlink(link_to(fd), Vec::new()).ok()?);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        open_if_same(&path, flags, self.identity).ok()??;
        Some(Reopened {
            path,
            identity: self.identity,
            offset: self.offset,
        })
    }
}

fn path_of(link: std::ffi::CString) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(link.into_bytes()).into()
}

fn link_to(fd: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// The file on a mount of its own that nothing can be changed or executed on. `None` where it lies on no
/// mount of this namespace, such as a memory file.
fn read_only_view(fd: BorrowedFd<'_>, offset: u64) -> Option<OwnedFd> {
    let clone = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = rustix::mount::open_tree(fd, c"", clone).ok()?;
    let attributes =
        Attributes::RDONLY | Attributes::NOSUID | Attributes::NODEV | Attributes::NOEXEC;
    sys::set_mount_attributes(mount.as_fd(), attributes.bits().into(), None).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let view = rustix::fs::open(link_to(mount.as_fd()), flags, Mode::empty()).ok()?;
    rustix::fs::seek(&view, SeekFrom::Start(offset)).ok()?;
    Some(view)
}
