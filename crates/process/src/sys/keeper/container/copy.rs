//! A file system in memory that begins with what the image has at its place (`tmpcopyup`).
//!
//! Nothing of the container runs yet, but the image is its author's: no link is followed, and what is no file, folder or link
//! is left out.

use super::place::IN_ROOT;
use crate::kernel;
use kernel::{CStr, Errno, Fd, c};

const S_IFMT: u16 = 0o170_000;
const S_IFREG: u16 = 0o100_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFLNK: u16 = 0o120_000;

/// Folders in folders, beyond which an image is no image.
const MOST_DEPTH: u32 = 64;

/// Copies what is at a path inside, if there is something, into a mount. The folder itself gets its owner and mode.
pub(super) fn fill(root: Fd, path: CStr, mount: Fd) -> kernel::Result<()> {
    let flags = kernel::O_RDONLY | kernel::O_DIRECTORY;
    let from = match kernel::open_resolved(root, path, flags, IN_ROOT) {
        Err(errno) if errno == Errno::NOENT || errno == Errno::NOTDIR => return Ok(()),
        from => from?,
    };
    let to = kernel::open(mount, c!("."), flags, 0)?;
    let outcome = copy_folder(from, to, 0);
    kernel::close(from);
    kernel::close(to);
    outcome
}

fn copy_folder(from: Fd, to: Fd, depth: u32) -> kernel::Result<()> {
    if depth > MOST_DEPTH {
        return Err(Errno::LOOP);
    }
    let mut buffer = [0u8; 2048];
    loop {
        let length = kernel::directory_entries(from, &mut buffer)?;
        if length == 0 {
            break;
        }
        // `struct linux_dirent64`s: record length at 16, name from 19 on.
        let mut rest = &buffer[..length];
        while let Some(record) = rest
            .get(16..18)
            .map(|at| u16::from_ne_bytes([at[0], at[1]]))
        {
            let (entry, further) = rest.split_at(usize::from(record).clamp(19, rest.len()));
            let name = &entry[19..];
            let end = name
                .iter()
                .position(|byte| *byte == 0)
                .ok_or(Errno::INVAL)?;
            let name = CStr::new(&name[..=end]).ok_or(Errno::INVAL)?;
            if !matches!(name.with_nul(), b".\0" | b"..\0") {
                copy_one(from, to, name, depth)?;
            }
            rest = further;
        }
    }
    let about = kernel::statx_fd(from)?;
    keep_owner(to, c!(""), &about)?;
    kernel::set_mode(to, c!("."), u32::from(about.mode & !S_IFMT))
}

/// Of who is mapped. Others are nobody inside, and the copy is the container's root's.
fn keep_owner(at: Fd, path: CStr, about: &kernel::Statx) -> kernel::Result<()> {
    match kernel::set_owner(at, path, about.uid, about.gid) {
        Err(errno) if errno == Errno::INVAL => Ok(()),
        outcome => outcome,
    }
}

fn copy_one(from: Fd, to: Fd, name: CStr, depth: u32) -> kernel::Result<()> {
    let about = kernel::statx_at(from, name)?;
    let mode = u32::from(about.mode & !S_IFMT);
    match about.mode & S_IFMT {
        S_IFDIR => {
            kernel::make_dir(to, name, 0o700)?;
            let flags = kernel::O_RDONLY | kernel::O_DIRECTORY | kernel::O_NOFOLLOW;
            let below = kernel::open(from, name, flags, 0)?;
            let copy = kernel::open(to, name, flags, 0)?;
            let outcome = copy_folder(below, copy, depth + 1);
            kernel::close(below);
            kernel::close(copy);
            outcome
        }
        S_IFREG => {
            let flags = kernel::O_RDONLY | kernel::O_NOFOLLOW;
            let source = kernel::open(from, name, flags, 0)?;
            let flags = kernel::O_WRONLY | kernel::O_CREAT | kernel::O_EXCL | kernel::O_NOFOLLOW;
            let copy = kernel::open(to, name, flags, 0o600)?;
            let outcome = copy_bytes(source, copy);
            kernel::close(source);
            kernel::close(copy);
            outcome?;
            keep_owner(to, name, &about)?;
            kernel::set_mode(to, name, mode)
        }
        S_IFLNK => {
            let mut target = [0u8; 4097];
            let length = kernel::read_link(from, name, &mut target[..4096])?;
            let target = CStr::new(&target[..=length]).ok_or(Errno::INVAL)?;
            kernel::symlink(target, to, name)?;
            keep_owner(to, name, &about)
        }
        _ => Ok(()),
    }
}

fn copy_bytes(from: Fd, to: Fd) -> kernel::Result<()> {
    let mut buffer = [0u8; 16 * 1024];
    loop {
        let length = kernel::read(from, &mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            let written = kernel::write(to, rest)?;
            rest = &rest[written..];
        }
    }
}
