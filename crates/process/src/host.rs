//! The few questions a plan asks the host's file system.

mod local;
mod mounts;
#[cfg(test)]
pub(crate) mod table;

pub use local::LocalMounts;
pub(crate) use local::Missed;
pub(crate) use mounts::Mounts;

use crate::{
    kernel_file::{self, MOUNTINFO_BYTES},
    paths,
};
use palisade_network::{Resolve, SystemResolver};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RawDirEntry, ResolveFlags, Stat, openat2},
    io::Errno,
};
use std::{
    ffi::{CStr, CString, OsStr, OsString},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
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

/// What a folder says of something in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// What it is called there.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

/// Kinds that a folder's entries tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A symlink.
    Link,
    /// A folder.
    Folder,
    /// Anything else.
    File,
}

/// The host as a plan sees it. Tests put a table in its place.
pub trait Host {
    /// Looks a path up, following links.
    ///
    /// # Errors
    ///
    /// The kernel's answer, `NOENT` above all; `NOSYS` where the path is there, by a link, and no `/proc` to tell its name.
    fn find(&self, path: &Path) -> rustix::io::Result<Found>;

    /// The same for a path of whose folders none is a link: by one call, if it is no link itself.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    fn find_unlinked(&self, path: &Path) -> rustix::io::Result<Found> {
        self.find(path)
    }

    /// What lies at a path that is no link, and its permission bits: less than [`Host::find`] tells, by one call.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    fn kind_and_mode(&self, path: &Path) -> rustix::io::Result<(Kind, u32)> {
        self.find(path).map(|found| (found.kind, found.mode))
    }

    /// Which file or folder a path leads to: less than [`Host::find`] tells, by one call.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    fn identify(&self, path: &Path) -> rustix::io::Result<Identity> {
        self.find(path).map(|found| found.identity)
    }

    /// Whether this kernel has a file of `/proc`'s: one that is there is there until the next boot.
    ///
    /// # Errors
    ///
    /// `NOSYS` where there is no `/proc` to tell.
    fn kernel_has(&self, path: &Path) -> rustix::io::Result<bool> {
        Ok(self.identify(path).is_ok())
    }

    /// Whose files this process may change modes of.
    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Where a symlink points; `None` if the path is not one.
    fn link(&self, path: &Path) -> Option<PathBuf>;

    /// What lies in a folder, sorted by name.
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    fn list(&self, folder: &Path) -> rustix::io::Result<Vec<Entry>>;

    /// The same; nothing if it can't be read.
    fn entries(&self, folder: &Path) -> Vec<Entry> {
        self.list(folder).unwrap_or_default()
    }

    /// Which file lies at a path that is no link, and how many names it has (hard links).
    ///
    /// # Errors
    ///
    /// The kernel's answer.
    fn names(&self, path: &Path) -> rustix::io::Result<(Identity, u64)> {
        self.identify(path).map(|identity| (identity, 1))
    }

    /// Whether everybody on the host may read what lies in a folder, however deep. What links lead to is elsewhere.
    fn is_open_to_all(&self, folder: &Path) -> bool;

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

impl Found {
    fn of(canonical: PathBuf, stat: &Stat) -> rustix::io::Result<Self> {
        Ok(Self {
            canonical,
            kind: kind_of(stat.st_mode)?,
            identity: Identity::of(stat),
            uid: stat.st_uid,
            gid: stat.st_gid,
            mode: stat.st_mode & 0o7777,
            size_bytes: stat.st_size.try_into().unwrap_or(0),
        })
    }
}

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its number in this mount namespace.
    pub id: u64,
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
        let id = text(fields.next()?).parse().ok()?;
        Some(Self {
            id,
            device: text(fields.nth(1)?),
            root: kernel_file::mount_path(fields.next()?),
            point: kernel_file::mount_path(fields.next()?),
            kind: text(fields.skip_while(|field| *field != b"-").nth(1)?),
        })
    }
}

/// The machine palisade runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThisHost;

impl Host for ThisHost {
    fn find(&self, path: &Path) -> rustix::io::Result<Found> {
        if let Some(file) = open_unlinked(path)? {
            return Found::of(path.into(), &rustix::fs::fstat(&file)?);
        }
        let file = rustix::fs::open(path, NAMED, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        let canonical = name_of(&file)?;
        Found::of(path_from(&canonical), &stat)
    }

    fn find_unlinked(&self, path: &Path) -> rustix::io::Result<Found> {
        let stat = rustix::fs::lstat(path)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => self.find(path),
            _ => Found::of(path.into(), &stat),
        }
    }

    fn kind_and_mode(&self, path: &Path) -> rustix::io::Result<(Kind, u32)> {
        let stat = rustix::fs::lstat(path)?;
        Ok((kind_of(stat.st_mode)?, stat.st_mode & 0o7777))
    }

    fn identify(&self, path: &Path) -> rustix::io::Result<Identity> {
        rustix::fs::stat(path).map(|stat| Identity::of(&stat))
    }

    fn kernel_has(&self, path: &Path) -> rustix::io::Result<bool> {
        match self.identify(path) {
            Ok(_) => Ok(true),
            Err(_) if self.identify(Path::new("/proc/self")).is_ok() => Ok(false),
            Err(_) => Err(Errno::NOSYS),
        }
    }

    fn link(&self, path: &Path) -> Option<PathBuf> {
        let target = rustix::fs::readlink(path, Vec::new()).ok()?;
        Some(path_from(&target))
    }

    fn list(&self, folder: &Path) -> rustix::io::Result<Vec<Entry>> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let mut entries = Vec::new();
        each_entry(&folder, |entry| {
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of_entry(&folder, entry.file_name()),
                kind => kind,
            };
            entries.push(Entry {
                name: OsStr::from_bytes(entry.file_name().to_bytes()).into(),
                kind: match kind {
                    FileType::Symlink => EntryKind::Link,
                    FileType::Directory => EntryKind::Folder,
                    _ => EntryKind::File,
                },
            });
            Ok(true)
        })?;
        entries.sort_unstable();
        Ok(entries)
    }

    fn names(&self, path: &Path) -> rustix::io::Result<(Identity, u64)> {
        let stat = rustix::fs::lstat(path)?;
        Ok((Identity::of(&stat), stat.st_nlink))
    }

    fn is_open_to_all(&self, folder: &Path) -> bool {
        let opened = rustix::fs::open(folder, FOLDER, Mode::empty());
        opened
            .and_then(|folder| is_open_to_all(&folder))
            .unwrap_or(false)
    }

    fn resolver(&self) -> &dyn Resolve {
        static RESOLVER: LazyLock<SystemResolver> = LazyLock::new(SystemResolver::default);
        &*RESOLVER
    }

    fn content(&self, path: &Path, most_bytes: u64) -> Option<Vec<u8>> {
        // Before it is opened: to open a device may do something, and a FIFO lets go who waits for a reader.
        let stat = rustix::fs::stat(path).ok()?;
        let is_file = kind_of(stat.st_mode) == Ok(Kind::File);
        let size_bytes = u64::try_from(stat.st_size).ok()?;
        (is_file && stat.st_mode & 0o4 != 0 && size_bytes <= most_bytes)
            .then(|| kernel_file::read(path, size_bytes as usize).ok())?
    }

    fn mounts(&self) -> rustix::io::Result<Vec<Mount>> {
        let mounts = kernel_file::read(Path::new("/proc/self/mountinfo"), MOUNTINFO_BYTES)?;
        let lines = mounts.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(Mount::parse).collect())
    }
}

/// Opens nothing: a FIFO, a device or a file on a dead server can't hold us up.
const NAMED: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// What lies at a path that is its only name without links. `None` where there may be links: to ask what it is called costs
/// another look.
fn open_unlinked(path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    if !paths::is_plain(path) {
        return Ok(None);
    }
    match openat2(CWD, path, NAMED, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Err(errno @ (Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG)) => Err(errno),
        // A link; or a filter around palisade does not know the call, whatever it says then.
        Err(_) => Ok(None),
        Ok(file) => Ok(Some(file)),
    }
}

/// The path of what is open.
pub(crate) fn path_of(file: &OwnedFd) -> rustix::io::Result<PathBuf> {
    name_of(file).map(|name| path_from(&name))
}

/// Where a thread stands, by the words of its own root: proc_pid_cwd(5). Nothing is opened, and no file system asked.
pub(crate) fn folder_of(thread: u32) -> rustix::io::Result<PathBuf> {
    rustix::fs::readlink(format!("/proc/{thread}/cwd"), Vec::new()).map(|name| path_from(&name))
}

/// Something that is open has a name in `/proc`, if only that of one deleted.
fn name_of(file: &OwnedFd) -> rustix::io::Result<CString> {
    rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()).map_err(
        |errno| match errno {
            Errno::NOENT => Errno::NOSYS,
            errno => errno,
        },
    )
}

/// Opens a folder itself, and no link to one.
const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// By names in open folders: an ordinary user's start looks at hundreds of files.
fn is_open_to_all(folder: &OwnedFd) -> rustix::io::Result<bool> {
    each_entry(folder, |entry| {
        let name = entry.file_name();
        if entry.file_type() == FileType::Symlink {
            return Ok(true);
        }
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => true,
            FileType::RegularFile => stat.st_mode & 0o4 == 0o4,
            FileType::Directory if stat.st_mode & 0o5 == 0o5 => {
                let below = rustix::fs::openat(folder, name, FOLDER, Mode::empty())?;
                is_open_to_all(&below)?
            }
            _ => false,
        })
    })
}

/// Asks about each entry of a folder, itself and its parent left out, until an answer is no; gives the last answer.
fn each_entry(
    folder: &OwnedFd,
    mut ask: impl FnMut(&RawDirEntry<'_>) -> rustix::io::Result<bool>,
) -> rustix::io::Result<bool> {
    let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if ![c".", c".."].contains(&entry.file_name()) && !ask(&entry)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Of an entry in a file system that does not say it with the name; unknown of one that has gone since.
fn kind_of_entry(folder: &OwnedFd, name: &CStr) -> FileType {
    let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or(FileType::Unknown, |stat| {
        FileType::from_raw_mode(stat.st_mode)
    })
}

/// What is asked for of a folder's entries at once.
const ENTRIES_BYTES: usize = 16 << 10;

fn path_from(text: &CStr) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(text.to_bytes()))
}

fn kind_of(mode: u32) -> rustix::io::Result<Kind> {
    match FileType::from_raw_mode(mode) {
        FileType::Directory => Ok(Kind::Folder),
        FileType::RegularFile => Ok(Kind::File),
        FileType::CharacterDevice | FileType::BlockDevice => Ok(Kind::Device),
        FileType::Socket => Ok(Kind::Socket),
        FileType::Fifo => Ok(Kind::Fifo),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mount(line: &str) -> Mount {
        Mount::parse(line.as_bytes()).unwrap()
    }

    /// A guest that was granted `/etc` for writing can leave a link to anything there.
    #[test]
    fn only_what_is_a_file_is_opened_for_its_content() {
        use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        rustix::fs::mknodat(
            CWD,
            at("fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o644),
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("fifo", at("link")).unwrap();
        std::fs::write(at("file"), "text").unwrap();
        std::fs::set_permissions(at("file"), std::fs::Permissions::from_mode(0o644)).unwrap();
        let opened = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        add_watch(&opened, folder.path(), WatchFlags::OPEN).unwrap();
        let names = || {
            let mut room = [std::mem::MaybeUninit::uninit(); 512];
            let mut events = Reader::new(&opened, &mut room);
            let names = std::iter::from_fn(|| {
                let event = events.next().ok()?;
                Some(event.file_name().map(CStr::to_owned))
            });
            names.flatten().collect::<Vec<_>>()
        };
        assert_eq!(ThisHost.content(&at("link"), 16), None);
        assert_eq!(ThisHost.content(&at("fifo"), 16), None);
        assert_eq!(names(), Vec::<CString>::new());
        assert_eq!(
            ThisHost.content(&at("file"), 16).as_deref(),
            Some(&b"text"[..])
        );
        assert_eq!(names(), [c"file".to_owned()]);
    }

    #[test]
    fn a_path_through_a_link_is_told_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::fs::write(at("real/file"), "").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        std::os::unix::fs::symlink("real/file", at("last")).unwrap();
        let canonical = |path: &str| ThisHost.find(&at(path)).unwrap().canonical;
        for path in [
            "real/file",
            "link/file",
            "real/../link/./file",
            "link//file",
            "real//file",
            "last",
        ] {
            assert_eq!(canonical(path), at("real/file"), "{path}");
            let found = ThisHost.find(&at(path));
            assert_eq!(found, ThisHost.find(&at("real/file")), "{path}");
        }
        assert_eq!(ThisHost.find(&at("link/no")).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn a_folder_is_open_to_all_as_deep_as_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let set = |path: &str, mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path().join(path), mode).unwrap();
        };
        let is_open = || ThisHost.is_open_to_all(folder.path());
        std::fs::create_dir(folder.path().join("below")).unwrap();
        std::fs::write(folder.path().join("below/file"), "").unwrap();
        std::os::unix::fs::symlink("/etc/shadow", folder.path().join("link")).unwrap();
        assert!(is_open());
        set("below/file", 0o640);
        assert!(!is_open());
        set("below/file", 0o604);
        set("below", 0o751);
        assert!(!is_open());
        set("below", 0o755);
        assert!(is_open());
        assert!(!ThisHost.is_open_to_all(&folder.path().join("absent")));
    }

    #[test]
    fn a_mount_reads_as_the_kernel_writes_it() {
        let expected = Mount {
            id: 35,
            device: "0:32".into(),
            root: "/".into(),
            point: "/srv/a b/proc".into(),
            kind: "proc".into(),
        };
        let line = "35 31 0:32 / /srv/a\\040b/proc rw,nosuid shared:7 - proc none rw";
        assert_eq!(mount(line), expected);
        assert_eq!(Mount::parse(b""), None);
        let here = ThisHost.mounts().unwrap();
        assert!(here.iter().any(|mount| mount.point == Path::new("/proc")));
    }
}
