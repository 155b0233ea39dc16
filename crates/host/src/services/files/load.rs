//! Files below a folder, found and read without leaving it.

use bytes::Bytes;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags},
    io::{Errno, ReadWriteFlags},
    path::Arg,
};
use std::{
    ffi::{CStr, CString},
    io::IoSliceMut,
    os::fd::{AsFd, OwnedFd},
};

/// Files up to this are kept in memory; bigger ones are sent in pieces of it. So a slow client makes the server hold
/// as much of a small file as of a big one.
pub(super) const PIECE_BYTES: usize = 128 << 10;
/// What a changed file is read again for, before it is called a changing one.
const TRIES: usize = 8;
/// Two changes within this can leave the same time behind: the kernel's ticks are 10 ms at most, other
/// file systems' clocks coarser.
const TICK_NS: i128 = 1_000_000_000;

/// Whether a call may wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It fails with [`Fault::WouldWait`] in place.
    Never,
    /// It may.
    May,
}

/// Why there is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It has to be tried again where waiting is no harm.
    WouldWait,
    /// Nothing that is served.
    Absent,
    /// A folder.
    Folder,
    /// The server may not read it.
    Forbidden,
    /// No descriptors or no memory.
    Busy,
    /// It was changed whenever it was read.
    Changing,
    /// What else the kernel says.
    Failed(Errno),
}

/// What differs between two states of a file, and between two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stamp {
    device: (u32, u32),
    inode: u64,
    pub(super) bytes: u64,
    /// Time of the last change of its content, in ns since 1970.
    pub(super) modified_ns: i128,
    /// The same of content, permissions and names; can't be set by anyone.
    changed_ns: i128,
}

/// One file.
#[derive(Debug)]
pub(super) struct Stored {
    /// Below the folder.
    pub(super) name: CString,
    /// Its state.
    pub(super) stamp: Stamp,
    /// All of it, if it is not too big.
    pub(super) content: Option<Bytes>,
    /// So new that another change may leave the same stamp.
    pub(super) is_new: bool,
}

/// A file and its compressed siblings.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) plain: Stored,
    /// As [`encoding::CODINGS`](super::encoding::CODINGS) has them; none where they are not looked for.
    pub(super) siblings: Vec<Sibling<Stored>>,
}

/// A file with another one's content, in some coding.
#[derive(Debug)]
pub(super) struct Sibling<T> {
    pub(super) name: CString,
    /// Its state, also where it is not fit to be sent.
    pub(super) stamp: Option<Stamp>,
    /// What is sent of it.
    pub(super) file: Option<T>,
}

/// What a name is.
#[derive(Debug)]
pub(super) enum Found {
    Folder,
    File(Loaded),
}

impl Stamp {
    fn new(stat: &Statx) -> Self {
        let ns = |seconds: i64, ns: u32| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            bytes: stat.stx_size,
            modified_ns: ns(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed_ns: ns(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }

    /// Whether it is the same file or folder, whatever its state.
    pub(super) fn is_of_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether the content is the same one, of a file whose names may have changed.
    pub(super) fn has_content_of(&self, other: &Self) -> bool {
        (self.bytes, self.modified_ns) == (other.bytes, other.modified_ns)
    }

    fn is_new(&self) -> bool {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let now_ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
        now_ns - self.changed_ns < TICK_NS
    }
}

impl From<Errno> for Fault {
    fn from(error: Errno) -> Self {
        match error {
            // EXDEV: out of the folder. ELOOP: links in a circle.
            Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG => {
                Self::Absent
            }
            // A socket, or a device without a driver.
            Errno::NXIO | Errno::NODEV => Self::Absent,
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            other => Self::Failed(other),
        }
    }
}

/// Whether nothing has this name, as far as that can be told without waiting. Nothing is opened for reading.
pub(super) fn is_absent(root: &OwnedFd, name: &CStr) -> bool {
    let place = open_beneath(root, name, OFlags::PATH, Wait::Never);
    matches!(place, Err(Fault::Absent))
}

/// Looks at a name, and reads what it is a name of. May wait for a disk.
pub(super) fn load(root: &OwnedFd, name: &CStr, precompressed: bool) -> Result<Found, Fault> {
    let Some(plain) = store(root, name)? else {
        return Ok(Found::Folder);
    };
    let mut siblings = Vec::new();
    if precompressed {
        for coding in &super::encoding::CODINGS {
            let name = with_suffix(name, coding.suffix);
            siblings.push(load_sibling(root, name, &plain.stamp)?);
        }
    }
    Ok(Found::File(Loaded { plain, siblings }))
}

/// A sibling that can't be read is not one, nor is one that is older than the file itself. Whole seconds count,
/// because not every tool that copies times copies more of them.
fn load_sibling(root: &OwnedFd, name: CString, plain: &Stamp) -> Result<Sibling<Stored>, Fault> {
    let seconds = |stamp: &Stamp| stamp.modified_ns.div_euclid(1_000_000_000);
    let found = match store(root, &name) {
        Ok(found) => found,
        Err(fault @ (Fault::Busy | Fault::Changing)) => return Err(fault),
        Err(_) => None,
    };
    Ok(Sibling {
        name,
        stamp: found.as_ref().map(|found| found.stamp),
        file: found.filter(|found| seconds(&found.stamp) >= seconds(plain)),
    })
}

fn with_suffix(name: &CStr, suffix: &str) -> CString {
    let bytes = [name.to_bytes(), suffix.as_bytes()].concat();
    // Neither has a NUL.
    CString::new(bytes).unwrap_or_default()
}

/// Reads a regular file; `None` for a folder.
fn store(root: &OwnedFd, name: &CStr) -> Result<Option<Stored>, Fault> {
    for _ in 0..TRIES {
        // To open a FIFO or a device is to do something to it, so that is done to nothing that was not looked at.
        let place = open_beneath(root, name, OFlags::PATH, Wait::May)?;
        let (kind, mut stamp) = look(&place)?;
        match kind {
            FileType::Directory => return Ok(None),
            FileType::RegularFile => {}
            _ => return Err(Fault::Absent),
        }
        let is_new = stamp.is_new();
        // Opened also where its content is not read: the server has to be allowed to.
        let (file, opened) = open_file(root, name)?;
        if stamp != opened {
            continue;
        }
        let mut content = None;
        if stamp.bytes <= PIECE_BYTES as u64 {
            content = Some(read_whole(&file, stamp.bytes as usize)?);
            stamp = look(&file)?.1;
        }
        if stamp == opened
            && content
                .as_ref()
                .is_none_or(|content| content.len() as u64 == stamp.bytes)
        {
            return Ok(Some(Stored {
                name: name.to_owned(),
                stamp,
                content,
                is_new,
            }));
        }
    }
    Err(Fault::Changing)
}

/// Opens a regular file, and nothing else for longer than it takes to see that it is something else.
pub(super) fn open_file(root: &OwnedFd, name: &CStr) -> Result<(OwnedFd, Stamp), Fault> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_beneath(root, name, flags, Wait::May)?;
    match look(&file)? {
        (FileType::RegularFile, stamp) => Ok((file, stamp)),
        _ => Err(Fault::Absent),
    }
}

fn open_beneath(root: &OwnedFd, name: &CStr, flags: OFlags, wait: Wait) -> Result<OwnedFd, Fault> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = match wait {
        Wait::Never => beneath | ResolveFlags::CACHED,
        Wait::May => beneath,
    };
    for _ in 0..TRIES {
        match rustix::fs::openat2(root, name, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // Not in memory, or a kernel before 5.12.
            Err(Errno::AGAIN | Errno::INVAL) if wait == Wait::Never => {
                return Err(Fault::WouldWait);
            }
            // Something was renamed while a link with `..` was followed.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return Ok(opened?),
        }
    }
    Err(Fault::Changing)
}

/// What an open file is, and its state.
pub(super) fn look(file: impl AsFd) -> Result<(FileType, Stamp), Errno> {
    let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok((
        FileType::from_raw_mode(stat.stx_mode.into()),
        Stamp::new(&stat),
    ))
}

/// The state of the file of a name, only to be compared with another one: this call could leave the folder.
pub(super) fn look_by_name(folder: impl AsFd, name: impl Arg) -> Result<Stamp, Errno> {
    let stat = rustix::fs::statx(folder, name, AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS)?;
    Ok(Stamp::new(&stat))
}

/// All bytes of a file that should have so many; others where it was changed.
fn read_whole(file: &OwnedFd, bytes: usize) -> Result<Bytes, Fault> {
    // One more, to see whether it goes on.
    let mut content = vec![0; bytes + 1];
    let mut filled = 0;
    while filled < content.len() {
        match read_at(file, &mut content[filled..], filled as u64, Wait::May)? {
            0 => break,
            count => filled += count,
        }
    }
    content.truncate(filled);
    // Without the spare byte, so that what is counted is what is held.
    Ok(content.into_boxed_slice().into())
}

/// pread(2), where waiting is no harm, or what of it needs no waiting.
pub(super) fn read_at(
    file: &OwnedFd,
    buffer: &mut [u8],
    offset: u64,
    wait: Wait,
) -> Result<usize, Fault> {
    loop {
        let read = match wait {
            Wait::May => rustix::io::pread(file, &mut *buffer, offset),
            Wait::Never => {
                let mut buffers = [IoSliceMut::new(buffer)];
                rustix::io::preadv2(file, &mut buffers, offset, ReadWriteFlags::NOWAIT)
            }
        };
        match read {
            Err(Errno::INTR) => {}
            // Not in memory, or a file system that can't tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) if wait == Wait::Never => {
                return Err(Fault::WouldWait);
            }
            read => return Ok(read?),
        }
    }
}
