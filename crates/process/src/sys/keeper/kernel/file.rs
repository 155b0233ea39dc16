//! Files and folders: opening, reading, what is known of them, their names; descriptors and pipes.

use super::{
    CStr, Errno, Fd, Result, call6, number,
    process::{process_id, set_default_action, set_signal_mask},
    wait::{PollFd, poll},
};

pub(crate) const AT_FDCWD: Fd = -100;
pub(crate) const AT_EMPTY_PATH: u32 = 0x1000;
pub(crate) const AT_RECURSIVE: u32 = 0x8000;
pub(crate) const AT_REMOVEDIR: u32 = 0x200;
pub(crate) const AT_SYMLINK_NOFOLLOW: u32 = 0x100;

pub(crate) const O_RDONLY: u32 = 0o0;
pub(crate) const O_WRONLY: u32 = 0o1;
pub(crate) const O_RDWR: u32 = 0o2;
pub(crate) const O_CREAT: u32 = 0o100;
pub(crate) const O_EXCL: u32 = 0o200;
pub(crate) const O_NOCTTY: u32 = 0o400;
pub(crate) const O_NONBLOCK: u32 = 0o4_000;
pub(crate) const O_DIRECTORY: u32 = 0o200_000;
pub(crate) const O_NOFOLLOW: u32 = 0o400_000;
pub(crate) const O_CLOEXEC: u32 = 0o2_000_000;
pub(crate) const O_PATH: u32 = 0o10_000_000;

pub(crate) const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
pub(crate) const RESOLVE_NO_SYMLINKS: u64 = 0x04;
pub(crate) const RESOLVE_IN_ROOT: u64 = 0x10;
/// Only as far as the kernel knows by heart: no file system is asked (Linux 5.12).
pub(crate) const RESOLVE_CACHED: u64 = 0x20;

/// `AT_STATX_DONT_SYNC`: what the kernel knows, without asking a server.
const AT_STATX_DONT_SYNC: u32 = 0x4000;

/// An attribute of statx(2): the file is the root of a mount.
pub(crate) const STATX_ATTR_MOUNT_ROOT: u64 = 0x2000;

/// What `openat2` takes.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// `struct statx`, of which only these fields are read.
#[repr(C)]
pub(crate) struct Statx {
    mask: u32,
    block_size: u32,
    pub(crate) attributes: u64,
    links: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mode: u16,
    spare: u16,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    between: [u8; 80],
    pub(crate) number_major: u32,
    pub(crate) number_minor: u32,
    pub(crate) device_major: u32,
    pub(crate) device_minor: u32,
    /// Since Linux 5.8.
    pub(crate) mount: u64,
    rest: [u8; 104],
}

const STATX_BYTES: usize = 256;
const _: () = assert!(size_of::<Statx>() == STATX_BYTES);

pub(crate) fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into a buffer borrowed for the call.
    unsafe { call!(number::READ, fd, buffer.as_mut_ptr(), buffer.len()) }
}

pub(crate) fn read_at(fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    // SAFETY: as in `read`.
    unsafe {
        call!(
            number::PREAD64,
            fd,
            buffer.as_mut_ptr(),
            buffer.len(),
            offset
        )
    }
}

pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the kernel reads `len` bytes of a slice borrowed for the call.
    unsafe { call!(number::WRITE, fd, bytes.as_ptr(), bytes.len()) }
}

pub(crate) fn close(fd: Fd) {
    // SAFETY: no pointer; a descriptor closed twice answers EBADF, which changes nothing.
    let _ = unsafe { call!(number::CLOSE, fd) };
}

pub(crate) fn open(at: Fd, path: CStr, flags: u32, mode: u32) -> Result<Fd> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::OPENAT, at, path.pointer(), flags | O_CLOEXEC, mode).map(|fd| fd as Fd) }
}

/// `openat2` with limits on how the path may be resolved.
pub(crate) fn open_resolved(at: Fd, path: CStr, flags: u32, resolve: u64) -> Result<Fd> {
    let how = OpenHow {
        flags: u64::from(flags | O_CLOEXEC),
        mode: 0,
        resolve,
    };
    // SAFETY: path and `how` (24 bytes, as said) are borrowed for the call.
    unsafe {
        call!(
            number::OPENAT2,
            at,
            path.pointer(),
            &raw const how,
            size_of::<OpenHow>()
        )
        .map(|fd| fd as Fd)
    }
}

/// An absolute path in which no part is a symlink, for who cannot call `openat2`: inside another domain where modes
/// are guarded the filter around refuses it (`ENOSYS`). Each folder is opened by name in the one before.
fn open_without_links(path: CStr) -> Result<Fd> {
    const S_IFMT: u16 = 0o170_000;
    const S_IFLNK: u16 = 0o120_000;
    let each = O_PATH | O_NOFOLLOW;
    let mut found = open(AT_FDCWD, c!("/"), each | O_DIRECTORY, 0)?;
    for name in path.names() {
        let opened = open_name(found, name, each);
        close(found);
        found = opened?;
        if statx_fd(found)?.mode & S_IFMT == S_IFLNK {
            close(found);
            return Err(Errno::LOOP);
        }
    }
    Ok(found)
}

/// A folder below one that is open, by these names, of which there is one at least: each is a folder's in the one before, and
/// none a symlink's.
pub(crate) fn open_folder_below<'a>(
    start: Fd,
    names: impl Iterator<Item = &'a [u8]>,
) -> Result<Fd> {
    let mut found = start;
    for name in names {
        let opened = open_name(found, name, O_PATH | O_NOFOLLOW | O_DIRECTORY);
        if found != start {
            close(found);
        }
        found = opened?;
    }
    if found == start {
        return Err(Errno::INVAL);
    }
    Ok(found)
}

/// What has this name in a folder.
fn open_name(folder: Fd, name: &[u8], flags: u32) -> Result<Fd> {
    const NAME_BYTES: usize = 256;
    let mut text = [0; NAME_BYTES];
    match text.get_mut(..name.len() + 1) {
        Some([place @ .., _]) if name != b".." => {
            place.copy_from_slice(name);
            let name = CStr::new(&text[..=name.len()]).ok_or(Errno::INVAL)?;
            open(folder, name, flags, 0)
        }
        _ => Err(Errno::INVAL),
    }
}

/// The same by whichever call there is.
pub(crate) fn open_plain(path: CStr) -> Result<Fd> {
    match open_resolved(AT_FDCWD, path, O_PATH, RESOLVE_NO_SYMLINKS) {
        Err(errno) if errno == Errno::NOSYS => open_without_links(path),
        outcome => outcome,
    }
}

pub(crate) fn statx_fd(fd: Fd) -> Result<Statx> {
    statx(fd, c!(""), AT_EMPTY_PATH)
}

/// Of what has this name in a folder, which may be a symlink.
pub(crate) fn statx_at(folder: Fd, name: CStr) -> Result<Statx> {
    statx(folder, name, AT_SYMLINK_NOFOLLOW)
}

/// As [`statx_fd`], without waiting for a file system.
pub(crate) fn statx_known(fd: Fd) -> Result<Statx> {
    statx(fd, c!(""), AT_EMPTY_PATH | AT_STATX_DONT_SYNC)
}

fn statx(at: Fd, path: CStr, flags: u32) -> Result<Statx> {
    const STATX_BASIC: usize = 0x7ff;
    const STATX_MNT_ID: usize = 0x1000;
    let mut result = core::mem::MaybeUninit::<Statx>::zeroed();
    // SAFETY: the kernel writes at most 256 bytes, the size asserted above; the path is NUL-terminated and
    // borrowed for the call.
    unsafe {
        call!(
            number::STATX,
            at,
            path.pointer(),
            flags,
            STATX_BASIC | STATX_MNT_ID,
            result.as_mut_ptr()
        )?;
        Ok(result.assume_init())
    }
}

pub(crate) fn make_dir(at: Fd, path: CStr, mode: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::MKDIRAT, at, path.pointer(), mode).map(drop) }
}

/// Makes a node of the kind that is in `mode`, with these numbers if it is a device.
pub(crate) fn make_node(at: Fd, path: CStr, mode: u32, (major, minor): (u32, u32)) -> Result<()> {
    let (major, minor) = (u64::from(major), u64::from(minor));
    // makedev(3): the kernel's `new_decode_dev` takes 32 bits of it.
    let device = (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12;
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::MKNODAT, at, path.pointer(), mode, device).map(drop) }
}

/// What overlayfs takes for a name of nothing: a device without a number, which anybody may make since Linux 5.8.
pub(crate) fn make_whiteout(at: Fd, path: CStr) -> Result<()> {
    const S_IFCHR: u32 = 0o020_000;
    make_node(at, path, S_IFCHR, (0, 0))
}

/// The mode of a file or folder, whatever the umask.
pub(crate) fn set_mode(at: Fd, path: CStr, mode: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::FCHMODAT, at, path.pointer(), mode).map(drop) }
}

pub(crate) fn symlink(target: CStr, at: Fd, path: CStr) -> Result<()> {
    // SAFETY: both strings are NUL-terminated and borrowed for the call.
    unsafe { call!(number::SYMLINKAT, target.pointer(), at, path.pointer()).map(drop) }
}

pub(crate) fn unlink(at: Fd, path: CStr, flags: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::UNLINKAT, at, path.pointer(), flags).map(drop) }
}

/// An instance of inotify(7) whose reads do not wait.
pub(crate) fn inotify() -> Result<Fd> {
    const IN_NONBLOCK_CLOEXEC: usize = 0o2_004_000;
    // SAFETY: no pointer.
    unsafe { call!(number::INOTIFY_INIT1, IN_NONBLOCK_CLOEXEC).map(|fd| fd as Fd) }
}

pub(crate) fn inotify_watch(inotify: Fd, path: CStr, events: u32) -> Result<()> {
    // SAFETY: the path is NUL-terminated and borrowed for the call.
    unsafe { call!(number::INOTIFY_ADD_WATCH, inotify, path.pointer(), events).map(drop) }
}

pub(crate) fn directory_entries(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the kernel writes at most `len` bytes into the borrowed buffer.
    unsafe { call!(number::GETDENTS64, fd, buffer.as_mut_ptr(), buffer.len()) }
}

/// The exclusive lock of flock(2), if nobody holds any.
pub(crate) fn lock_exclusively(fd: Fd) -> Result<()> {
    const LOCK_EX_NB: usize = 2 | 4;
    // SAFETY: no pointer.
    unsafe { call!(number::FLOCK, fd, LOCK_EX_NB).map(drop) }
}

/// How the descriptor was opened: `O_RDONLY`, `O_WRONLY` or `O_RDWR`.
pub(crate) fn access_mode(fd: Fd) -> Result<u32> {
    const F_GETFL: usize = 3;
    const O_ACCMODE: usize = 3;
    // SAFETY: no pointer.
    let flags = unsafe { call!(number::FCNTL, fd, F_GETFL)? };
    Ok((flags & O_ACCMODE) as u32)
}

/// The thread that owns the file (`F_SETOWN_EX`), as this process's pid namespace numbers it.
pub(crate) fn owner_of(fd: Fd) -> Option<i32> {
    const F_GETOWN: u32 = 9;
    // SAFETY: no pointer.
    let thread = unsafe { call!(number::FCNTL, fd, F_GETOWN) }.ok()? as i32;
    (thread > 0).then_some(thread)
}

pub(crate) fn duplicate_to(from: Fd, to: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::DUP3, from, to, 0).map(drop) }
}

/// The same file once more, under the lowest free number above this.
pub(crate) fn duplicate_above(fd: Fd, number: Fd) -> Result<Fd> {
    const F_DUPFD_CLOEXEC: u32 = 1030;
    // SAFETY: no pointer.
    unsafe { call!(number::FCNTL, fd, F_DUPFD_CLOEXEC, number + 1).map(|fd| fd as Fd) }
}

/// Takes close-on-exec off a descriptor.
pub(crate) fn keep_on_exec(fd: Fd) -> Result<()> {
    const F_SETFD: u32 = 2;
    // SAFETY: no pointer.
    unsafe { call!(number::FCNTL, fd, F_SETFD, 0).map(drop) }
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: Fd) -> Result<()> {
    close_range(first, Fd::MAX)
}

/// Closes these and all between them.
pub(crate) fn close_range(first: Fd, last: Fd) -> Result<()> {
    // SAFETY: no pointer.
    unsafe { call!(number::CLOSE_RANGE, first, last, 0).map(drop) }
}

/// `ioctl` whose argument is a number or a structure of the caller's.
pub(crate) fn ioctl<T>(fd: Fd, request: u32, argument: &mut T) -> Result<()> {
    // SAFETY: each request takes a pointer to the type it is given where it is used.
    unsafe { call!(number::IOCTL, fd, request, &raw mut *argument).map(drop) }
}

pub(crate) fn ioctl_number(fd: Fd, request: u32, argument: usize) -> Result<usize> {
    // SAFETY: the requests used with this form take a number.
    unsafe { call!(number::IOCTL, fd, request, argument) }
}

/// What a symlink says, as far as there is room.
pub(crate) fn read_link(at: Fd, path: CStr, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: the path is NUL-terminated, and the kernel writes at most `len` bytes into the borrowed buffer.
    unsafe {
        call!(
            number::READLINKAT,
            at,
            path.pointer(),
            buffer.as_mut_ptr(),
            buffer.len()
        )
    }
}

/// A pipe: the end to read from, the end to write to.
pub(crate) fn pipe() -> Result<[Fd; 2]> {
    let mut ends: [Fd; 2] = [-1; 2];
    // SAFETY: the kernel writes both descriptors into the borrowed array.
    unsafe { call!(number::PIPE2, ends.as_mut_ptr(), O_CLOEXEC)? };
    Ok(ends)
}

/// The same, and nobody waits at either end.
pub(crate) fn hasty_pipe() -> Result<[Fd; 2]> {
    let mut ends: [Fd; 2] = [-1; 2];
    // SAFETY: as in `pipe`.
    unsafe { call!(number::PIPE2, ends.as_mut_ptr(), O_CLOEXEC | O_NONBLOCK)? };
    Ok(ends)
}

/// Sets where a file is read from.
pub(crate) fn seek(fd: Fd, offset: u64) -> Result<()> {
    const SEEK_SET: u32 = 0;
    // SAFETY: no pointer.
    unsafe { call!(number::LSEEK, fd, offset, SEEK_SET).map(drop) }
}

/// Attributes of the mount that a file was opened through (`ST_*` of statfs(2)).
pub(crate) fn mount_flags(fd: Fd) -> Result<u64> {
    const FLAGS: usize = 10;
    statfs(fd).map(|words| words[FLAGS])
}

/// Whether a file system has no block left, and no inode.
pub(crate) fn is_used_up(fd: Fd) -> Result<(bool, bool)> {
    const FREE_BLOCKS: usize = 3;
    const FREE_INODES: usize = 6;
    statfs(fd).map(|words| (words[FREE_BLOCKS] == 0, words[FREE_INODES] == 0))
}

/// `struct statfs`, all fifteen fields of which are words.
fn statfs(fd: Fd) -> Result<[u64; 15]> {
    let mut words = [0u64; 15];
    // SAFETY: the kernel writes 120 bytes, the size of the borrowed array.
    unsafe { call!(number::FSTATFS, fd, words.as_mut_ptr())? };
    Ok(words)
}

/// What can't be done through the mount that a file was opened by, as attributes of another one.
pub(crate) fn inherited_attributes(fd: Fd) -> Result<u64> {
    /// Flags of statfs(2), and of mount_setattr(2).
    const KNOWN: [(u64, u64); 4] = [
        (0x2, super::MOUNT_ATTR_NOSUID),
        (0x4, super::MOUNT_ATTR_NODEV),
        (0x8, super::MOUNT_ATTR_NOEXEC),
        (0x2000, super::MOUNT_ATTR_NOSYMFOLLOW),
    ];
    let flags = mount_flags(fd)?;
    let known = KNOWN.iter().filter(|(flag, _)| flags & flag != 0);
    Ok(known.fold(0, |all, (_, attribute)| all | attribute))
}

/// Has SIGIO end this process when nobody can read any more what it writes into the pipe, or at once if
/// that is so already.
pub(crate) fn end_when_unread(pipe: Fd) -> Result<()> {
    const F_SETFL: u32 = 4;
    const F_SETOWN: u32 = 8;
    const O_ASYNC: u32 = 0x2000;
    const SIGIO: i32 = 29;
    set_default_action(SIGIO);
    // SAFETY: takes numbers only.
    unsafe {
        call!(number::FCNTL, pipe, F_SETOWN, process_id())?;
        call!(number::FCNTL, pipe, F_SETFL, O_ASYNC)?;
    }
    set_signal_mask(!(1 << (SIGIO - 1)))?;
    let mut fds = [PollFd {
        fd: pipe,
        events: 0,
        revents: 0,
    }];
    match poll(&mut fds, Some(0))? {
        0 => Ok(()),
        _ => crate::exit(0),
    }
}
