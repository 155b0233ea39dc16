//! The key of a cache: what entries are signed with.

use super::{
    KEY, KEY_BYTES, errno_of,
    folder::{is_own_file, unfinished},
};
use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags},
    io::Errno,
};
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
};

/// The key of this cache, made at its first use. One that others could have read or written is made
/// anew, and with it every entry.
pub(super) fn key(outer: &OwnedFd) -> rustix::io::Result<[u8; KEY_BYTES]> {
    const TRIES: usize = 3;
    for _ in 0..TRIES {
        match read_key(outer)? {
            Some(key) => return Ok(key),
            None => make_key(outer)?,
        }
    }
    Err(Errno::AGAIN)
}

fn read_key(outer: &OwnedFd) -> rustix::io::Result<Option<[u8; KEY_BYTES]>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(outer, KEY, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return remove_key(outer, errno),
        Ok(file) => file,
    };
    let stat = rustix::fs::fstat(&file)?;
    let is_secret = is_own_file(&stat) && stat.st_nlink == 1 && stat.st_mode & 0o077 == 0;
    let mut key = [0; KEY_BYTES];
    let is_whole =
        stat.st_size == KEY_BYTES as i64 && rustix::io::pread(&file, &mut key, 0) == Ok(KEY_BYTES);
    match is_secret && is_whole {
        true => Ok(Some(key)),
        false => remove_key(outer, Errno::PERM),
    }
}

fn remove_key<T>(outer: &OwnedFd, why: Errno) -> rustix::io::Result<Option<T>> {
    match rustix::fs::unlinkat(outer, KEY, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        Err(_) => Err(why),
    }
}

/// Whoever is first makes it.
fn make_key(outer: &OwnedFd) -> rustix::io::Result<()> {
    let mut key = [0; KEY_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut key))
        .map_err(|error| errno_of(&error))?;
    let (mut file, name) = unfinished(outer)?;
    let made = file
        .write_all(&key)
        .and_then(|()| file.sync_data())
        .map_err(|error| errno_of(&error))
        .and_then(|()| rustix::fs::renameat_with(outer, &name, outer, KEY, RenameFlags::NOREPLACE));
    match made {
        Ok(()) => Ok(()),
        Err(errno) => {
            let _ = rustix::fs::unlinkat(outer, &name, AtFlags::empty());
            match errno {
                Errno::EXIST => Ok(()),
                errno => Err(errno),
            }
        }
    }
}
