//! A program of the host's that is executed in a container.

use super::ContainerError;
use crate::sys;
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, SealFlags},
    io::Errno,
    mount::OpenTreeFlags,
};
use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

/// `MOUNT_ATTR_*` (mount_setattr(2)).
const RDONLY: u64 = 1;
const NOSUID: u64 = 2;

/// Opens it, so that nobody who gets at the process changes the host's file by it: `/proc/PID/exe` of a program is a way to its
/// file (CVE-2019-5736). Who may mounts it read-only, in no place; others copy it.
pub(super) fn open(path: &Path) -> Result<OwnedFd, ContainerError> {
    let opened = match mounted(path) {
        Err(Errno::PERM) => copied(path),
        mounted => mounted,
    };
    opened.map_err(|errno| ContainerError::OpenExecutable {
        path: path.into(),
        errno,
    })
}

fn mounted(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = rustix::mount::open_tree(rustix::fs::CWD, path, flags)?;
    sys::set_mount_attributes(mount.as_fd(), RDONLY | NOSUID, None)?;
    Ok(mount)
}

fn copied(path: &Path) -> rustix::io::Result<OwnedFd> {
    let errno_of = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match rustix::fs::memfd_create("palisade-worker", flags | MemfdFlags::EXEC) {
        // Before Linux 6.3 the flag was unknown.
        Err(Errno::INVAL) => rustix::fs::memfd_create("palisade-worker", flags),
        created => created,
    }?;
    let mut copy = File::from(memory);
    let mut file = File::open(path).map_err(errno_of)?;
    io::copy(&mut file, &mut copy).map_err(errno_of)?;
    rustix::fs::fchmod(&copy, Mode::from(0o555))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&copy, seals)?;
    // What is open for writing is not executed.
    let again = format!("/proc/self/fd/{}", copy.as_raw_fd());
    rustix::fs::open(again, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}
