//! What lies at a path that a guest has named, found out without anybody hearing of it.
//!
//! To look a name up on a server, or in what a program serves, is to send it there: a guest without a network would have
//! one. So each folder on the way is opened by itself, as a name in the one before, links are followed by hand, and no name
//! is asked for where others than this kernel and its disks would answer. Nothing is mounted on the way either (autofs).

use super::{Found, Host, Mount, ThisHost, path_from};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags},
    io::Errno,
};
use std::{
    cell::Cell,
    collections::{BTreeSet, VecDeque},
    ffi::{OsStr, OsString},
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;
/// Folders that lie in one another.
const MOST_DEPTH: usize = 128;
/// Names on all ways together: who names long ones is not to hold anybody up.
const MOST_STEPS: usize = 200_000;

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    /// The kernel's answer.
    Errno(Errno),
    /// Others would have to be asked.
    Elsewhere,
}

impl From<Errno> for Missed {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// The mounts where this kernel alone answers, with its disks and memory.
#[derive(Debug)]
pub struct LocalMounts {
    /// By their number.
    ids: BTreeSet<u64>,
    /// Names that may still be looked up.
    steps: Cell<usize>,
}

impl LocalMounts {
    /// Those of this process; none where nobody tells.
    pub fn here() -> Self {
        Self::of(&ThisHost.mounts().unwrap_or_default())
    }

    /// What lies at an absolute path, after links, if that is known here.
    pub fn look(&self, path: &Path) -> Option<Found> {
        self.find(path).ok()
    }

    pub(crate) fn of(mounts: &[Mount]) -> Self {
        let local = mounts
            .iter()
            .filter(|mount| LOCAL.contains(&mount.kind.as_str()));
        Self {
            ids: local.map(|mount| mount.id).collect(),
            steps: Cell::new(MOST_STEPS),
        }
    }

    /// Finds what lies at an absolute path, after links.
    pub(crate) fn find(&self, path: &Path) -> Result<Found, Missed> {
        self.find_with(path, true)
    }

    /// The same, if no link stands at its end.
    pub(crate) fn find_unlinked(&self, path: &Path) -> Result<Found, Missed> {
        self.find_with(path, false)
    }

    fn find_with(&self, path: &Path, follows: bool) -> Result<Found, Missed> {
        let mut folders = vec![Step::to(
            &rustix::fs::CWD,
            OsStr::new("/"),
            PathBuf::from("/"),
        )?];
        let mut rest: VecDeque<OsString> = parts(path).collect();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                folders.truncate((folders.len() - 1).max(1));
                continue;
            }
            let left = self.steps.get().checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
            self.steps.set(left);
            if folders.len() > MOST_DEPTH {
                return Err(Errno::NAMETOOLONG.into());
            }
            let folder = folders.last().ok_or(Errno::NOENT)?;
            self.refuse_elsewhere(folder)?;
            let step = Step::to(&folder.file, &name, folder.path.join(&name))?;
            if step.kind() != FileType::Symlink {
                folders.push(step);
                continue;
            }
            self.refuse_elsewhere(&step)?;
            links += 1;
            if links > MOST_LINKS || !follows && rest.is_empty() {
                return Err(Errno::LOOP.into());
            }
            let target = path_from(&rustix::fs::readlinkat(&step.file, "", Vec::new())?);
            if target.is_absolute() {
                folders.truncate(1);
            }
            for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
                rest.push_front(part);
            }
        }
        let last = folders.pop().ok_or(Errno::NOENT)?;
        self.refuse_elsewhere(&last)?;
        Ok(Found::of(last.path, &rustix::fs::fstat(&last.file)?)?)
    }

    fn refuse_elsewhere(&self, step: &Step) -> Result<(), Missed> {
        let has_number = step.about.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        let is_local = has_number && self.ids.contains(&step.about.stx_mnt_id);
        is_local.then_some(()).ok_or(Missed::Elsewhere)
    }
}

/// A name on the way, open by `O_PATH`: neither a FIFO nor a device hears of that, and nothing is mounted for it.
struct Step {
    path: PathBuf,
    file: OwnedFd,
    /// As far as it is known here: no server is asked.
    about: Statx,
}

impl Step {
    fn to(folder: &impl AsFd, name: &OsStr, path: PathBuf) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let as_known = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let about = rustix::fs::statx(&file, "", as_known, wanted)?;
        Ok(Self { path, file, about })
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.about.stx_mode.into())
    }
}

fn parts(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// File systems, by the kernel's names.
#[rustfmt::skip]
const LOCAL: [&str; 18] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "zfs", "jfs", "tmpfs", "ramfs", "overlay", "squashfs",
    "erofs", "vfat", "exfat", "ntfs3", "iso9660",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Kind;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_as_the_kernel_does() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        std::fs::write(base.join("a/file"), "12").unwrap();
        symlink("../a/b/..", base.join("a/up")).unwrap();
        symlink(base.join("a"), base.join("absolute")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let found = LocalMounts::here()
            .find(&base.join("absolute/up/../a/up/file"))
            .unwrap();
        assert_eq!(
            (found.canonical, found.kind),
            (base.join("a/file"), Kind::File)
        );
        assert_eq!(found.size_bytes, 2);
        let missed = |path: &str| LocalMounts::here().find(&base.join(path)).unwrap_err();
        assert_eq!(missed("loop"), Missed::Errno(Errno::LOOP));
        assert_eq!(missed("a/none"), Missed::Errno(Errno::NOENT));
        assert_eq!(missed("a/file/x"), Missed::Errno(Errno::NOTDIR));
        assert_eq!(
            LocalMounts::here()
                .find(Path::new("/../.."))
                .unwrap()
                .canonical,
            Path::new("/")
        );
    }

    #[test]
    fn long_ways_are_not_gone() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let deep = base.join("a/".repeat(MOST_DEPTH));
        std::fs::create_dir_all(&deep).unwrap();
        let mounts = LocalMounts::here();
        assert_eq!(mounts.find(&deep), Err(Missed::Errno(Errno::NAMETOOLONG)));
        mounts.steps.set(3);
        assert_eq!(
            mounts.find(&base.join("a/a")),
            Err(Missed::Errno(Errno::NAMETOOLONG))
        );
        assert_eq!(
            mounts.find(Path::new("/")).unwrap().canonical,
            Path::new("/")
        );
    }

    #[test]
    fn nobody_else_is_asked() {
        for path in ["/proc/self/cwd", "/proc/1/status", "/sys/kernel"] {
            assert_eq!(
                LocalMounts::here().find(Path::new(path)),
                Err(Missed::Elsewhere),
                "{path}"
            );
        }
    }
}
