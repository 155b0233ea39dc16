//! The few questions a plan asks the host's file system.

mod mounts;
#[cfg(test)]
pub(crate) mod table;

pub(crate) use mounts::Mounts;

use palisade_network::{Resolve, SystemResolver};
use rustix::{
    fs::{Mode, OFlags, Stat},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::{
        fd::AsRawFd,
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::PermissionsExt,
        },
    },
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// What lies at a path, after links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The path without links.
    pub canonical: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Device and inode: the launch refuses to mount anything else in its place.
    pub identity: Identity,
    /// Owner on disk.
    pub uid: u32,
    /// Group on disk.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// What names a file for as long as it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct Identity {
    /// Major number of the device it lies on.
    pub device_major: u32,
    /// Minor number of that device.
    pub device_minor: u32,
    /// Its inode there.
    pub inode: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            device_major: rustix::fs::major(stat.st_dev),
            device_minor: rustix::fs::minor(stat.st_dev),
            inode: stat.st_ino,
        }
    }
}

/// Kinds of file that a plan tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A character or block device.
    Device,
    /// A local socket.
    Socket,
    /// A FIFO.
    Fifo,
}

/// The host as a plan sees it. Tests put a table in its place.
pub trait Host {
    /// Looks a path up, following links.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `NOENT` above all.
    fn find(&self, path: &Path) -> rustix::io::Result<Found>;

    /// What lies at a path that is no link, and its permission bits: less than [`Host::find`] tells, by one call.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    fn kind_and_mode(&self, path: &Path) -> rustix::io::Result<(Kind, u32)> {
        self.find(path).map(|found| (found.kind, found.mode))
    }

    /// Where a symlink points; `None` if the path is not one.
    fn link(&self, path: &Path) -> Option<PathBuf>;

    /// Names in a folder, sorted; none if it can't be read.
    fn names(&self, folder: &Path) -> Vec<OsString>;

    /// Names of what in a folder is no link; none if it can't be read.
    fn files(&self, folder: &Path) -> Vec<OsString>;

    /// Who knows the addresses of names and the numbers of interfaces.
    fn resolver(&self) -> &dyn Resolve;

    /// A file's content, if it is a regular file of at most `most_bytes` that everybody may read.
    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>>;

    /// What is mounted, in the order in which it was.
    ///
    /// # Errors
    ///
    /// When `/proc/self/mountinfo` cannot be read.
    fn mounts(&self) -> rustix::io::Result<Vec<Mount>>;
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The file system: its device's numbers.
    pub device: String,
    /// What of the file system is shown.
    pub root: PathBuf,
    /// Where.
    pub point: PathBuf,
    /// The file system's type.
    pub kind: String,
}

impl Mount {
    /// `35 31 0:32 / /srv/jail/proc rw,relatime shared:7 - proc proc rw`
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
        let path = |field| PathBuf::from(OsString::from_vec(unescape(field)));
        Some(Self {
            device: text(fields.nth(2)?),
            root: path(fields.next()?),
            point: path(fields.next()?),
            kind: text(fields.skip_while(|field| *field != b"-").nth(1)?),
        })
    }
}

/// The machine palisade runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

impl Host for ThisHost {
    fn find(&self, path: &Path) -> rustix::io::Result<Found> {
        // O_PATH opens nothing: a FIFO, a device or a file on a dead server can't hold us up.
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let canonical =
            rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
        Ok(Found {
            canonical: path_from(&canonical),
            kind: kind_of(stat.st_mode)?,
            identity: Identity::of(&stat),
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode & 0o7777,
            size_bytes: stat.st_size.try_into().unwrap_or(0),
        })
    }

    fn kind_and_mode(&self, path: &Path) -> rustix::io::Result<(Kind, u32)> {
        let stat = rustix::fs::lstat(path)?;
        Ok((kind_of(stat.st_mode)?, stat.st_mode & 0o7777))
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        let target = rustix::fs::readlink(path, Vec::new()).ok()?;
        Some(path_from(&target))
    }

    fn names(&self, folder: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    }

    fn files(&self, folder: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        // An entry tells its kind itself.
        let is_link =
            |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let files = entries.filter(|entry| !is_link(entry));
        files.map(|entry| entry.file_name()).collect()
    }

    fn resolver(&self) -> &dyn Resolve {
        static RESOLVER: LazyLock<SystemResolver> = LazyLock::new(SystemResolver::default);
        &*RESOLVER
    }

    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        let metadata = std::fs::metadata(path).ok()?;
        let is_open_to_all = metadata.permissions().mode() & 0o4 != 0;
        (metadata.is_file() && is_open_to_all && metadata.len() <= most_bytes)
            .then(|| std::fs::read(path).ok())?
    }

    fn mounts(&self) -> rustix::io::Result<Vec<Mount>> {
        let mounts = std::fs::read("/proc/self/mountinfo");
        let mounts = mounts.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let lines = mounts.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(Mount::parse).collect())
    }
}

/// Undoes the octal escapes that mountinfo has for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\');
        let byte = octal
            .and_then(|octal| std::str::from_utf8(octal).ok())
            .and_then(|octal| u8::from_str_radix(octal, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = match byte {
            Some(_) => &after[3..],
            None => after,
        };
    }
    plain
}

fn path_from(text: &std::ffi::CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text.to_bytes()))
}

fn kind_of(mode: u32) -> rustix::io::Result<Kind> {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => Ok(Kind::Folder),
        rustix::fs::FileType::RegularFile => Ok(Kind::File),
        rustix::fs::FileType::CharacterDevice | rustix::fs::FileType::BlockDevice => {
            Ok(Kind::Device)
        }
        rustix::fs::FileType::Socket => Ok(Kind::Socket),
        rustix::fs::FileType::Fifo => Ok(Kind::Fifo),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(line: &str) -> Mount {
        Mount::parse(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_mount_reads_as_the_kernel_writes_it() {
        let expected = Mount {
            device: "0:32".into(),
            root: "/".into(),
            point: "/srv/a b/proc".into(),
            kind: "proc".into(),
        };
        let line = "35 31 0:32 / /srv/a\\040b/proc rw,nosuid shared:7 - proc none rw";
        assert_eq!(mount(line), expected);
        assert_eq!(Mount::parse(b""), None);
        assert_eq!(unescape(b"a\\134\\x\\"), b"a\\\\x\\");
        let here = ThisHost.mounts().unwrap();
        assert!(here.iter().any(|mount| mount.point == Path::new("/proc")));
    }
}
