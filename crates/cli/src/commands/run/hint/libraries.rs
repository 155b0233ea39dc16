//! Libraries that a guest could not load, for they lie where it can write and may not execute.
//!
//! mmap(2) refuses to map what lies on a `noexec` mount for execution, and nobody sees that: neither does seccomp tell of
//! it, nor is the guest slowed down for it. So after a guest failed it is looked whether such a library is there and may
//! have been read. What lies there is the guest's: names alone are looked at, a bounded number of them for a bounded
//! time, no link is followed, and no other file system is entered.

use crate::shell;
use palisade_process::{Host, Mount, ThisHost};
use palisade_wall::{Ending, Exit, Report, View, WriteGrant};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, StatVfsMountFlags, openat2,
};
use std::{
    collections::VecDeque,
    ffi::OsStr,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Of all folders together.
const MOST_ENTRIES: usize = 2000;
const MOST_TIME: Duration = Duration::from_millis(20);
/// What is asked for of a folder's entries at once.
const ENTRIES_BYTES: usize = 16 << 10;

/// File systems of this machine's own: a look at one waits for no server and no other process.
const LOCAL: [&str; 10] = [
    "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs",
];

/// The least that a library has: the header of a 64-bit ELF file.
const HEADER_BYTES: i64 = 64;

/// The folders that a guest can write to and load nothing from, held open for a look after its end: then palisade may
/// list them, and nothing else.
#[derive(Debug, Default)]
pub(crate) struct Folders(Vec<(WriteGrant, OwnedFd)>);

impl Folders {
    /// By `O_PATH`, and none that a server or a process answers for. What cannot be opened is not looked at.
    pub(crate) fn open(view: &dyn View) -> Self {
        let grants = view.write_grants_without_exec();
        let mounts = match grants.is_empty() {
            true => Vec::new(),
            false => ThisHost.mounts().unwrap_or_default(),
        };
        let is_local = |grant: &WriteGrant| {
            kind_around(&mounts, &grant.host).is_some_and(|kind| LOCAL.contains(&kind))
        };
        let grants = grants.into_iter().filter(is_local);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let open = |grant: WriteGrant| {
            let folder = openat2(CWD, &grant.host, flags, Mode::empty(), no_links);
            Some((grant, folder.ok()?))
        };
        Self(grants.filter_map(open).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(_, folder)| folder.as_fd())
    }
}

/// Names a library that the guest may have tried to load in vain.
pub(super) fn describe(view: &dyn View, report: &Report, folders: &Folders) -> Option<String> {
    if folders.0.is_empty() || !may_be_why(report) {
        return None;
    }
    let mounts = ThisHost.mounts().ok()?;
    let read_after = oldest_read(report)?;
    let mut bounds = Bounds::new(MOST_ENTRIES, MOST_TIME);
    folders.0.iter().find_map(|(grant, folder)| {
        let search = Search::new(view, grant, folder, &mounts, read_after)?;
        let library = search.find(&mut bounds)?;
        let name = shown(library.file_name()?);
        let flag = shell::exec_flag(&grant.guest)?;
        Some(format!(
            "no library is loaded from where the guest can write (\"failed to map segment\"), and {name} lies there: {flag}"
        ))
    })
}

/// A name as libraries have them. Of another the guest might have made a sentence.
fn shown(name: &OsStr) -> String {
    const MOST_CHARS: usize = 64;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
    let plain = name.to_str().filter(|name| name.len() <= MOST_CHARS);
    match plain.filter(|name| name.chars().all(is_plain)) {
        Some(name) => format!("'{name}'"),
        None => "one".into(),
    }
}

/// Whether the guest itself gave up, and nothing that it was to execute was denied: that has been told then.
fn may_be_why(report: &Report) -> bool {
    let is_execution = |grant: &str| grant.starts_with("--exec ");
    let mut grants = report.denials.iter().filter_map(|d| d.grant.as_deref());
    let has_failed = matches!(report.exit, Exit::Code(code) if code != 0);
    has_failed && report.ending == Ending::Guest && !grants.any(is_execution)
}

/// A file that was read by the guest has a later time of access than this, in seconds since 1970: the kernel puts off
/// by a day at most to write it down (`relatime`, mount(8)).
fn oldest_read(report: &Report) -> Option<i64> {
    const DAY: Duration = Duration::from_hours(24);
    let run = Duration::from_micros(report.usage.wall_us);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(now.saturating_sub(run + DAY).as_secs()).ok()
}

/// How much may be looked at yet.
struct Bounds {
    entries: usize,
    until: Instant,
}

impl Bounds {
    fn new(entries: usize, time: Duration) -> Self {
        Self {
            entries,
            until: Instant::now() + time,
        }
    }

    fn is_left(&self) -> bool {
        self.entries > 0 && Instant::now() < self.until
    }

    /// Whether one more entry may be looked at, which then counts.
    fn take(&mut self) -> bool {
        let is_left = self.is_left();
        self.entries = self.entries.saturating_sub(1);
        is_left
    }
}

/// One granted folder, which is open.
struct Search<'a> {
    view: &'a dyn View,
    grant: &'a WriteGrant,
    folder: OwnedFd,
    device: u64,
    mounts: &'a [Mount],
    /// Where times of access are kept, the one that a library's must not be older than.
    read_after: Option<i64>,
}

impl<'a> Search<'a> {
    /// `None` where a look could wait, or nothing can be executed whatever is granted.
    fn new(
        view: &'a dyn View,
        grant: &'a WriteGrant,
        folder: &OwnedFd,
        mounts: &'a [Mount],
        read_after: i64,
    ) -> Option<Self> {
        let kind = kind_around(mounts, &grant.host)?;
        if !LOCAL.contains(&kind) {
            return None;
        }
        let folder = open_folder(folder, Path::new(".")).ok()?;
        let device = rustix::fs::fstat(&folder).ok()?.st_dev;
        let flags = rustix::fs::fstatvfs(&folder).ok()?.f_flag;
        if flags.contains(StatVfsMountFlags::NOEXEC) {
            return None;
        }
        // A file that overlayfs has in a lower layer keeps its time.
        let keeps_times = !flags.contains(StatVfsMountFlags::NOATIME) && kind != "overlay";
        Some(Self {
            view,
            grant,
            folder,
            device,
            mounts,
            read_after: keeps_times.then_some(read_after),
        })
    }

    /// A library below the folder; those near its top come first.
    fn find(&self, bounds: &mut Bounds) -> Option<PathBuf> {
        let mut folders = VecDeque::from([PathBuf::new()]);
        while bounds.is_left()
            && let Some(below) = folders.pop_front()
        {
            let found = self.find_in(&below, &mut folders, bounds);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// A library right in the folder `below`; puts what is to be searched next into `folders`. What cannot be opened, for
    /// it is gone by now or another user's, is passed over.
    fn find_in(
        &self,
        below: &Path,
        folders: &mut VecDeque<PathBuf>,
        bounds: &mut Bounds,
    ) -> Option<PathBuf> {
        let folder = self.open(below).ok()?;
        let mut buffer = Vec::with_capacity(ENTRIES_BYTES);
        let mut entries = RawDir::new(&folder, buffer.spare_capacity_mut());
        while bounds.take()
            && let Some(Ok(entry)) = entries.next()
        {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let path = below.join(name);
            // Who looks at a place where something is mounted asks that file system.
            if self.is_mounted(&path) {
                continue;
            }
            let is_folder = entry.file_type() == FileType::Directory;
            if is_folder && is_searched(name) && self.is_same_mount(&folder, name) {
                folders.push_back(path);
            } else if !is_folder && is_library(name) && self.may_have_failed(&folder, name, &path) {
                return Some(path);
            }
        }
        None
    }

    /// Name by name: openat2(2), which refuses links on the way, is not palisade's to call any more.
    fn open(&self, below: &Path) -> rustix::io::Result<OwnedFd> {
        let top = open_folder(&self.folder, Path::new("."))?;
        let mut names = below.iter().map(Path::new);
        names.try_fold(top, |folder, name| open_folder(&folder, name))
    }

    fn is_mounted(&self, below: &Path) -> bool {
        let place = self.grant.host.join(below);
        self.mounts.iter().any(|mount| mount.point == place)
    }

    /// By a look that mounts nothing (autofs(5)), before it is opened.
    fn is_same_mount(&self, folder: &OwnedFd, name: &OsStr) -> bool {
        look(folder, name).is_ok_and(|stat| stat.st_dev == self.device)
    }

    /// Whether this is a library that the guest has read, as far as can be told, and could not map.
    fn may_have_failed(&self, folder: &OwnedFd, name: &OsStr, below: &Path) -> bool {
        let place = self.view.exec_place(&self.grant.guest.join(below));
        place == Some(&self.grant.guest)
            && look(folder, name).is_ok_and(|stat| may_have_been_read(&stat, self.read_after))
    }
}

/// Whether this can be a library, and was read since it was written and `read_after`.
fn may_have_been_read(stat: &Stat, read_after: Option<i64>) -> bool {
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let written = (stat.st_mtime, stat.st_mtime_nsec);
    let read = (stat.st_atime, stat.st_atime_nsec);
    let is_read = |after| read.0 > after && read > written;
    is_file && stat.st_size >= HEADER_BYTES && read_after.is_none_or(is_read)
}

fn look(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<Stat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statat(folder, name, flags)
}

/// The folder of this name itself, and no link to one.
fn open_folder(at: &OwnedFd, name: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// The type of the file system that a path lies in. The file system is not asked.
fn kind_around<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a str> {
    // Of those at one point the last lies on top.
    let around = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    let nearest = around.max_by_key(|mount| mount.point.components().count());
    nearest.map(|mount| mount.kind.as_str())
}

/// Git's objects are many, and no libraries.
fn is_searched(name: &OsStr) -> bool {
    !matches!(name.as_bytes(), b"." | b".." | b".git")
}

/// `libz.so`, `libz.so.1.2.11`, and the modules of Python and Node.js.
fn is_library(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let is_of_version = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let is_version = |rest: &[u8]| rest.iter().all(is_of_version);
    let mut ends = name.windows(3).enumerate();
    let is_shared_object =
        ends.any(|(at, end)| end == b".so" && is_version(&name[at + end.len()..]));
    is_shared_object || name.ends_with(b".node")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        let is = |name: &str| is_library(OsStr::new(name));
        for name in [
            "libz.so",
            "libz.so.1",
            "libz.so.1.2.11",
            "_x.cpython-311-x86_64-linux-gnu.so",
            "addon.node",
            "a.so.so",
        ] {
            assert!(is(name), "{name}");
        }
        for name in [
            "",
            "so",
            "libz.a",
            "x.sock",
            "libz.so.old",
            "x.so.1a",
            "node",
        ] {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn the_mount_on_top_counts() {
        let mount = |point: &str, kind: &str| Mount {
            id: 0,
            device: "8:1".into(),
            root: "/".into(),
            point: point.into(),
            kind: kind.into(),
        };
        let mounts = [
            mount("/", "ext4"),
            mount("/home", "ext4"),
            mount("/home", "nfs4"),
            mount("/home/ada/disk", "xfs"),
        ];
        let kind = |path: &str| kind_around(&mounts, Path::new(path));
        assert_eq!(kind("/srv"), Some("ext4"));
        assert_eq!(kind("/home/ada"), Some("nfs4"));
        assert_eq!(kind("/home/ada/disk/x"), Some("xfs"));
        assert_eq!(kind("/homes"), Some("ext4"));
    }

    #[test]
    fn what_nobody_read_was_not_loaded() {
        let file = tempfile::tempfile().unwrap();
        let judge = |read: i64, written: i64, read_after| {
            let time = |seconds| rustix::fs::Timespec {
                tv_sec: seconds,
                tv_nsec: 0,
            };
            let times = rustix::fs::Timestamps {
                last_access: time(read),
                last_modification: time(written),
            };
            rustix::fs::futimens(&file, &times).unwrap();
            may_have_been_read(&rustix::fs::fstat(&file).unwrap(), read_after)
        };
        assert!(!judge(200, 100, None), "it is empty");
        file.set_len(HEADER_BYTES.unsigned_abs()).unwrap();
        assert!(judge(200, 100, Some(150)));
        assert!(!judge(200, 100, Some(200)), "long ago");
        assert!(!judge(200, 200, Some(150)), "written since");
        assert!(judge(1, 2, None), "times are not kept");
    }

    #[test]
    fn bounds_end_a_look() {
        let count = |mut bounds: Bounds| (0..100).take_while(|_| bounds.take()).count();
        assert_eq!(count(Bounds::new(7, Duration::from_hours(1))), 7);
        assert_eq!(count(Bounds::new(7, Duration::ZERO)), 0);
    }
}
