//! A copy of a folder that is made the same again and again, without copying all of it each time.
//!
//! The second time only what has changed is copied: on either side, a file with the same inode and the same
//! time of change (`st_ctime`, which nobody can set) is the same file. To remove and make all of it anew
//! would take minutes where `cp -a` takes a second: ext4 does not give out an inode that was freed a moment
//! ago, and looks at each of them again for every new file (`recently_deleted` in fs/ext4/ialloc.c).
//!
//! Somebody who may write to either folder can put a link or a FIFO in the place of anything at any time: all
//! is named by its folder's descriptor, no link is followed, and no FIFO waited for.

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
        UTIME_OMIT, chmod, chownat, fchmod, fchown, flistxattr, fstat, futimens, ioctl_ficlone,
        mkdirat, openat, readlinkat, renameat_with, statat, symlinkat, unlinkat,
    },
    io::Errno,
    process::{Gid, Uid, geteuid},
};
use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// A copy, and how its files were left.
#[derive(Debug, Default)]
pub(super) struct Mirror {
    root: Option<Kept>,
}

/// Something that was copied.
#[derive(Debug)]
struct Kept {
    source: Stamp,
    copy: Stamp,
    /// What is in it, where it is a folder.
    entries: Entries,
}

type Entries = HashMap<OsString, Kept>;

/// What shows that a file is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    changed: Time,
}

/// Seconds and nanoseconds.
type Time = (i64, u64);

impl Stamp {
    fn of(data: &Stat) -> Self {
        Self {
            device: data.st_dev,
            inode: data.st_ino,
            changed: changed(data),
        }
    }
}

fn changed(data: &Stat) -> Time {
    (data.st_ctime, data.st_ctime_nsec)
}

impl Mirror {
    /// Makes `name` in the folder `holder` what the folder `source` is, except for names that it is to be `without`, and for `holder`
    /// itself if that lies there. Gives how much could not be copied.
    pub(super) fn refresh(
        &mut self,
        source: &Path,
        holder: &Path,
        name: &OsStr,
        without: &dyn Fn(&OsStr, bool) -> bool,
    ) -> io::Result<usize> {
        let source = open_folder(CWD, source.as_os_str())?;
        let holder = open_folder(CWD, holder.as_os_str())?;
        let mut pass = Pass {
            skipped: identity(&fstat(&holder)?),
            without,
            left_out: 0,
            latest: Time::default(),
            may_clone: true,
            buffer: vec![0; BUFFER_BYTES],
        };
        let root = pass.folder(&source, holder.as_fd(), name, self.root.take())?;
        self.root = pass.is_older_than_changes(&holder)?.then_some(root);
        Ok(pass.left_out)
    }
}

/// Removes `name` from the folder `holder`.
pub(super) fn remove_from(holder: &Path, name: &OsStr) -> io::Result<()> {
    remove(open_folder(CWD, holder.as_os_str())?.as_fd(), name)
}

/// What is read at once. Files that are no larger are read and written, which is the quickest for them.
const BUFFER_BYTES: usize = 128 << 10;

/// One time through all of it.
struct Pass<'a> {
    /// Where copies are made: not part of one.
    skipped: (u64, u64),
    without: &'a dyn Fn(&OsStr, bool) -> bool,
    left_out: usize,
    /// The latest time of change of what was made.
    latest: Time,
    /// Whether the file system may share blocks between files.
    may_clone: bool,
    buffer: Vec<u8>,
}

impl Pass<'_> {
    fn folder(
        &mut self,
        source: &OwnedFd,
        parent: BorrowedFd<'_>,
        name: &OsStr,
        kept: Option<Kept>,
    ) -> io::Result<Kept> {
        let data = fstat(source)?;
        let reopened = kept.and_then(|kept| Some((reopen(parent, name, &kept)?, kept)));
        let (copy, stamps, mut old) = match reopened {
            Some((copy, kept)) => (copy, Some((kept.source, kept.copy)), kept.entries),
            None => (make_folder(parent, name)?, None, Entries::new()),
        };
        let is_as_left = stamps.is_some_and(|(_, left)| is_now(&copy, left));
        open_up(&copy)?;
        if !is_as_left {
            remove_others(&copy, &old)?;
        }
        let mut entries = Entries::new();
        for name in names_in(source)? {
            let old = old.remove(&name);
            if let Some(kept) = self.entry(source, &copy, &name, old)? {
                entries.insert(name, kept);
            }
        }
        for name in old.into_keys() {
            remove(copy.as_fd(), &name)?;
        }
        let stamps = match stamps {
            Some((of_source, left)) if of_source == Stamp::of(&data) && is_now(&copy, left) => {
                (of_source, left)
            }
            _ => (Stamp::of(&data), self.settle(&copy, &data)?),
        };
        Ok(Kept {
            source: stamps.0,
            copy: stamps.1,
            entries,
        })
    }

    /// Links stay links; sockets, FIFOs, devices and what the user may not read are left out.
    fn entry(
        &mut self,
        source: &OwnedFd,
        copy: &OwnedFd,
        name: &OsStr,
        kept: Option<Kept>,
    ) -> io::Result<Option<Kept>> {
        match self.copy_entry(source, copy, name, kept) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.left_out += 1;
                remove(copy.as_fd(), name).map(|()| None)
            }
            copied => copied,
        }
    }

    fn copy_entry(
        &mut self,
        source: &OwnedFd,
        copy: &OwnedFd,
        name: &OsStr,
        kept: Option<Kept>,
    ) -> io::Result<Option<Kept>> {
        let data = statat(source, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(data.st_mode);
        if (self.without)(name, kind == FileType::Directory) {
            return remove(copy.as_fd(), name).map(|()| None);
        }
        if kind == FileType::Directory {
            let folder = open_folder(source, name)?;
            return match identity(&data) == self.skipped {
                true => Ok(None),
                false => self.folder(&folder, copy.as_fd(), name, kept).map(Some),
            };
        }
        if let Some(kept) = kept.filter(|kept| is_same(kept, &data, copy, name)) {
            return Ok(Some(kept));
        }
        remove(copy.as_fd(), name)?;
        let (source, copy) = match kind {
            FileType::Symlink => (Stamp::of(&data), self.link(source, copy, name, &data)?),
            FileType::RegularFile => self.file(source, copy, name)?,
            _ => return Err(ErrorKind::PermissionDenied.into()),
        };
        Ok(Some(Kept {
            source,
            copy,
            entries: Entries::new(),
        }))
    }

    fn link(
        &mut self,
        source: &OwnedFd,
        copy: &OwnedFd,
        name: &OsStr,
        data: &Stat,
    ) -> io::Result<Stamp> {
        symlinkat(readlinkat(source, name, Vec::new())?, copy, name)?;
        if geteuid().is_root() {
            let (owner, group) = owner_of(data);
            chownat(copy, name, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(self.made(&statat(copy, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn file(
        &mut self,
        source: &OwnedFd,
        copy: &OwnedFd,
        name: &OsStr,
    ) -> io::Result<(Stamp, Stamp)> {
        let source = open_itself(source, name, OFlags::empty())?;
        let data = fstat(&source)?;
        if FileType::from_raw_mode(data.st_mode) != FileType::RegularFile {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let copy = openat(copy, name, flags, Mode::RUSR | Mode::WUSR)?;
        let (source, copy) = (File::from(source), File::from(copy));
        self.contents(&source, &copy, data.st_size)?;
        Ok((Stamp::of(&data), self.settle(&copy, &data)?))
    }

    /// By sharing blocks where the file system can, until the first time that it can't.
    fn contents(&mut self, mut source: &File, mut copy: &File, bytes: i64) -> io::Result<()> {
        if self.may_clone && bytes > 0 {
            self.may_clone = ioctl_ficlone(copy, source).is_ok();
            if self.may_clone {
                return Ok(());
            }
        }
        if bytes > BUFFER_BYTES as i64 {
            // By copy_file_range(2).
            return io::copy(&mut source, &mut copy).map(drop);
        }
        loop {
            match source.read(&mut self.buffer)? {
                0 => return Ok(()),
                length => copy.write_all(&self.buffer[..length])?,
            }
        }
    }

    /// Owner, mode and time as they were: build tools look at them. A copied program is nobody else's: it does not
    /// run as its owner.
    fn settle(&mut self, copy: impl AsFd, data: &Stat) -> io::Result<Stamp> {
        let runs_as_owner = Mode::SUID | Mode::SGID;
        if geteuid().is_root() {
            let (owner, group) = owner_of(data);
            fchown(&copy, owner, group)?;
        }
        let mode = Mode::from_raw_mode(data.st_mode);
        let kept = match FileType::from_raw_mode(data.st_mode) {
            FileType::Directory => mode,
            _ => mode - runs_as_owner,
        };
        fchmod(&copy, kept)?;
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
            last_modification: Timespec {
                tv_sec: data.st_mtime,
                tv_nsec: data.st_mtime_nsec as _,
            },
        };
        futimens(&copy, &times)?;
        Ok(self.made(&fstat(&copy)?))
    }

    fn made(&mut self, data: &Stat) -> Stamp {
        self.latest = self.latest.max(changed(data));
        Stamp::of(data)
    }

    /// Waits until a change gets a later time than what was made: a clock of file systems ticks a few hundred
    /// times a second, some much less often. `false` where it never does.
    fn is_older_than_changes(&self, holder: &OwnedFd) -> io::Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(3);
        const TICK: Duration = Duration::from_millis(1);
        let began = Instant::now();
        loop {
            // Changes nothing but the time.
            fchmod(holder, Mode::RWXU)?;
            if changed(&fstat(holder)?) > self.latest {
                return Ok(true);
            }
            if began.elapsed() > PATIENCE {
                return Ok(false);
            }
            thread::sleep(TICK);
        }
    }
}

/// The folder that was made last time, if it is still there.
fn reopen(parent: BorrowedFd<'_>, name: &OsStr, kept: &Kept) -> Option<OwnedFd> {
    let folder = open_folder(parent, name).ok()?;
    let now = Stamp::of(&fstat(&folder).ok()?);
    let is_itself = (now.device, now.inode) == (kept.copy.device, kept.copy.inode);
    // Access lists would hold for what is made in it.
    let is_plain = now == kept.copy || !has_attributes(&folder);
    (is_itself && is_plain).then_some(folder)
}

/// Attributes that somebody has set: labels are the system's.
fn has_attributes(folder: &OwnedFd) -> bool {
    const LABELS: &[u8] = b"security.";
    let mut names = [0; 4096];
    let Ok(length) = flistxattr(folder, &mut names) else {
        // There are none here, or more than anybody looks at.
        return flistxattr(folder, &mut [0; 0]).is_ok_and(|length| length > 0);
    };
    let mut names = names[..length].split(|byte| *byte == 0);
    names.any(|name| !name.is_empty() && !name.starts_with(LABELS))
}

fn make_folder(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    remove(parent, name)?;
    mkdirat(parent, name, Mode::RWXU)?;
    open_folder(parent, name)
}

fn is_now(folder: &OwnedFd, left: Stamp) -> bool {
    fstat(folder).is_ok_and(|now| Stamp::of(&now) == left)
}

fn is_same(kept: &Kept, source: &Stat, copy: &OwnedFd, name: &OsStr) -> bool {
    let is_as_left = |now: Stat| Stamp::of(&now) == kept.copy;
    kept.source == Stamp::of(source)
        && statat(copy, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_as_left)
}

fn remove_others(folder: &OwnedFd, kept: &Entries) -> io::Result<()> {
    let names = names_in(folder)?.into_iter();
    let mut others = names.filter(|name| !kept.contains_key(name));
    others.try_for_each(|name| remove(folder.as_fd(), &name))
}

/// Removes whatever it is, also what a run has made read-only. A run may have made folders in folders, as many as it likes: those
/// that are not empty are put beside the first, so that few descriptors are open.
fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut left = vec![name.to_owned()];
    let mut number = 0_u64;
    while let Some(name) = left.pop() {
        let folder = open_to_change(parent, &name)?;
        for entry in names_in(&folder)? {
            match unlinkat(&folder, &entry, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR) => {}
                Err(error) => return Err(error.into()),
            }
            if unlinkat(&folder, &entry, AtFlags::REMOVEDIR).is_ok() {
                continue;
            }
            // Who moves a folder writes to it: its `..` is another one then.
            drop(open_to_change(folder.as_fd(), &entry)?);
            left.push(move_to(parent, &folder, &entry, &mut number)?);
        }
        unlinkat(parent, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Puts a folder into another one, under a name that is not taken there.
fn move_to(
    parent: BorrowedFd<'_>,
    folder: &OwnedFd,
    name: &OsStr,
    number: &mut u64,
) -> io::Result<OsString> {
    loop {
        *number += 1;
        let new = OsString::from(format!(".palisade-removes-{number}"));
        match renameat_with(folder, name, parent, &new, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(new),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A folder, opened up for its owner.
fn open_to_change(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let folder = openat(parent, name, OFlags::PATH | FOLDER, Mode::empty())?;
    if is_closed(&fstat(&folder)?) {
        // Whom it is closed to cannot open it otherwise.
        chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)?;
    }
    open_folder(parent, name)
}

/// Lets its owner change what is in it.
fn open_up(folder: &OwnedFd) -> io::Result<()> {
    match is_closed(&fstat(folder)?) {
        true => Ok(fchmod(folder, Mode::RWXU)?),
        false => Ok(()),
    }
}

fn is_closed(folder: &Stat) -> bool {
    folder.st_mode & 0o700 != 0o700
}

/// All at once: what is read may change meanwhile.
fn names_in(folder: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if ![&b"."[..], b".."].contains(&name) {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

const FOLDER: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn open_folder(parent: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    open_itself(parent, name, OFlags::DIRECTORY)
}

fn open_itself(parent: impl AsFd, name: &OsStr, flags: OFlags) -> io::Result<OwnedFd> {
    let never = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags | never, Mode::empty())?)
}

fn identity(data: &Stat) -> (u64, u64) {
    (data.st_dev, data.st_ino)
}

fn owner_of(data: &Stat) -> (Option<Uid>, Option<Gid>) {
    let (owner, group) = (Uid::from_raw(data.st_uid), Gid::from_raw(data.st_gid));
    (Some(owner), Some(group))
}

#[cfg(test)]
mod tests;
