//! The files of Unix sockets: whose they are, and that they go with their server.

use super::{ListenError, Name, listen_error};
use crate::config::Address;
use rustix::{
    fs::{self, AtFlags, FileType, FlockOperation, Mode, OFlags, Stat},
    io::Errno,
};
use std::{
    ffi::OsString,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

/// The file of a Unix socket of ours.
#[derive(Debug)]
pub(super) struct SocketFile {
    pub(super) path: PathBuf,
    identity: (u64, u64),
    _lock: Lock,
}

impl SocketFile {
    pub(super) fn new(path: &Path, lock: Lock) -> Result<Self, Errno> {
        Ok(Self {
            identity: identity(&fs::lstat(path)?),
            path: path.to_owned(),
            _lock: lock,
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have put something else there.
        if fs::lstat(&self.path).is_ok_and(|stat| identity(&stat) == self.identity) {
            let _ = fs::unlink(&self.path);
        }
    }
}

/// chmod(2) of a socket and nothing else: where others can write to the folder, a link may have come in its place.
pub(super) fn set_mode(path: &Path, mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::open(path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fs::fstat(&file)?.st_mode) != FileType::Socket {
        return Err(Errno::NOTSOCK);
    }
    fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Removes a socket that a server left behind. Its lock is held, so no server of ours is just starting there.
pub(super) fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let address = Address::Unix(path.to_owned());
    let stat = match fs::lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(source) => return Err(listen_error(&address, source)),
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(ListenError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path).map_err(|error| error.kind()) {
        Err(io::ErrorKind::ConnectionRefused) => {
            fs::unlink(path).map_err(|source| listen_error(&address, source))
        }
        Err(io::ErrorKind::NotFound) => Ok(()),
        _ => Err(ListenError::InUse(Name(address))),
    }
}

/// A locked file beside a Unix socket. Dropping it removes the file.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: OwnedFd,
}

impl Lock {
    pub(super) fn take(socket: &Path) -> Result<Self, ListenError> {
        let path = lock_path(socket);
        loop {
            let file = open_lock(&path).map_err(|source| ListenError::Lock {
                path: path.clone(),
                source,
            })?;
            match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    return Err(ListenError::InUse(Name(Address::Unix(socket.to_owned()))));
                }
                Err(source) => return Err(ListenError::Lock { path, source }),
            }
            // Its last holder may have removed it between our open and our lock.
            if is_file_at(&file, &path) {
                return Ok(Self { path, file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is still locked: who opened it before sees that it is no longer there.
        if is_file_at(&self.file, &self.path) {
            let _ = fs::unlink(&self.path);
        }
    }
}

pub(super) fn lock_path(socket: &Path) -> PathBuf {
    let mut path = OsString::from(socket);
    path.push(".lock");
    path.into()
}

fn open_lock(path: &Path) -> Result<OwnedFd, Errno> {
    let flags =
        OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    fs::open(path, flags, Mode::RUSR | Mode::WUSR)
}

fn is_file_at(file: &OwnedFd, path: &Path) -> bool {
    let held = fs::fstat(file).map(|stat| identity(&stat));
    let there = fs::statat(fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| identity(&stat));
    held.is_ok() && held == there
}
