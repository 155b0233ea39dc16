//! Mounts, file systems and the root.

use super::{CStr, Fd, Result, call6, file::AT_EMPTY_PATH, number};

pub(crate) const MOUNT_ATTR_RDONLY: u64 = 1;
pub(crate) const MOUNT_ATTR_NOSUID: u64 = 2;
pub(crate) const MOUNT_ATTR_NODEV: u64 = 4;
pub(crate) const MOUNT_ATTR_NOEXEC: u64 = 8;
/// Keeps no times of access.
pub(crate) const MOUNT_ATTR_NOATIME: u64 = 0x10;
/// Of `attr_clr`, where `attr_set` says which times of access are kept.
pub(crate) const MOUNT_ATTR__ATIME: u64 = 0x70;
pub(crate) const MOUNT_ATTR_NOSYMFOLLOW: u64 = 0x0020_0000;
pub(crate) const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

const MNT_DETACH: usize = 2;

pub(crate) const MS_PRIVATE: u64 = 1 << 18;

/// What `mount_setattr` takes.
#[repr(C)]
pub(crate) struct MountAttr {
    pub(crate) attr_set: u64,
    pub(crate) attr_clr: u64,
    pub(crate) propagation: u64,
    pub(crate) userns_fd: u64,
}

pub(crate) fn change_root(path: CStr) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::CHROOT, path.pointer()).map(drop) }
}

const OPEN_TREE_CLONE_CLOEXEC: u32 = 0o2_000_001;

/// [`open_tree`] and [`set_mount_attributes`] in one, of Linux 6.15.
pub(crate) fn open_tree_with(fd: Fd, flags: u32, attributes: &MountAttr) -> Result<Fd> {
    // SAFETY: the kernel reads 32 bytes, the size of `MountAttr`; the path is an empty literal.
    unsafe {
        call!(
            number::OPEN_TREE_ATTR,
            fd,
            c!("").pointer(),
            OPEN_TREE_CLONE_CLOEXEC | AT_EMPTY_PATH | flags,
            &raw const *attributes,
            size_of::<MountAttr>()
        )
        .map(|fd| fd as Fd)
    }
}

pub(crate) fn open_tree(fd: Fd, flags: u32) -> Result<Fd> {
    // SAFETY: the path is an empty literal.
    unsafe {
        call!(
            number::OPEN_TREE,
            fd,
            c!("").pointer(),
            OPEN_TREE_CLONE_CLOEXEC | AT_EMPTY_PATH | flags
        )
        .map(|fd| fd as Fd)
    }
}

/// Attaches the detached mount `mount` at the place `target`.
pub(crate) fn move_mount(mount: Fd, target: Fd) -> Result<()> {
    const T_EMPTY_PATH: usize = 0x40;
    move_mount_to(mount, target, c!(""), T_EMPTY_PATH)
}

/// Attaches it at a path below a folder. Its last part may not be a link.
pub(crate) fn move_mount_below(mount: Fd, folder: Fd, path: CStr) -> Result<()> {
    move_mount_to(mount, folder, path, 0)
}

fn move_mount_to(mount: Fd, folder: Fd, path: CStr, flags: usize) -> Result<()> {
    const F_EMPTY_PATH: usize = 0x04;
    // SAFETY: both paths end with a NUL and are borrowed for the call.
    unsafe {
        call!(
            number::MOVE_MOUNT,
            mount,
            c!("").pointer(),
            folder,
            path.pointer(),
            F_EMPTY_PATH | flags
        )
        .map(drop)
    }
}

pub(crate) fn set_mount_attributes(mount: Fd, flags: u32, attributes: &MountAttr) -> Result<()> {
    // SAFETY: the kernel reads 32 bytes, the size of `MountAttr`; the path is an empty literal.
    unsafe {
        call!(
            number::MOUNT_SETATTR,
            mount,
            c!("").pointer(),
            AT_EMPTY_PATH | flags,
            &raw const *attributes,
            size_of::<MountAttr>()
        )
        .map(drop)
    }
}

pub(crate) fn fsopen(kind: CStr) -> Result<Fd> {
    const FSOPEN_CLOEXEC: usize = 1;
    // SAFETY: the name is NUL-terminated and borrowed for the call.
    unsafe { call!(number::FSOPEN, kind.pointer(), FSOPEN_CLOEXEC).map(|fd| fd as Fd) }
}

pub(crate) fn fsconfig_string(fd: Fd, key: CStr, value: CStr) -> Result<()> {
    const FSCONFIG_SET_STRING: usize = 1;
    // SAFETY: both strings are NUL-terminated and borrowed for the call.
    unsafe {
        call!(
            number::FSCONFIG,
            fd,
            FSCONFIG_SET_STRING,
            key.pointer(),
            value.pointer(),
            0
        )
        .map(drop)
    }
}

pub(crate) fn fsconfig_flag(fd: Fd, key: CStr) -> Result<()> {
    const FSCONFIG_SET_FLAG: usize = 0;
    // SAFETY: the key is NUL-terminated and borrowed for the call.
    unsafe { call!(number::FSCONFIG, fd, FSCONFIG_SET_FLAG, key.pointer(), 0, 0).map(drop) }
}

/// Creates the configured file system and gives a detached mount of it.
pub(crate) fn fsmount(fd: Fd, attributes: u64) -> Result<Fd> {
    const FSCONFIG_CMD_CREATE: usize = 6;
    const FSMOUNT_CLOEXEC: usize = 1;
    // SAFETY: no pointer.
    unsafe {
        call!(number::FSCONFIG, fd, FSCONFIG_CMD_CREATE, 0, 0, 0)?;
        call!(number::FSMOUNT, fd, FSMOUNT_CLOEXEC, attributes).map(|fd| fd as Fd)
    }
}

/// `pivot_root(".", ".")`: the old root ends up on top of the new one (pivot_root(2), NOTES).
pub(crate) fn pivot_root_here() -> Result<()> {
    let here = c!(".").pointer();
    // SAFETY: both paths are literals.
    unsafe { call!(number::PIVOT_ROOT, here, here).map(drop) }
}

/// The mount that a path leads to.
pub(crate) fn detach(path: CStr) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::UMOUNT2, path.pointer(), MNT_DETACH).map(drop) }
}

pub(crate) fn detach_here() -> Result<()> {
    // SAFETY: the path is a literal.
    unsafe { call!(number::UMOUNT2, c!(".").pointer(), MNT_DETACH).map(drop) }
}
