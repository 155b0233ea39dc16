//! `path_…`: what a guest does with names below a folder.

use super::{
    Context,
    abi::{self, Rights},
    errno::Errno,
    memory::GuestMemory,
    table::Descriptor,
};
use crate::resolve::{Entry, ITSELF, is_plain_name};
use rustix::{
    fs::{
        AtFlags, FileType, Mode, OFlags, Stat, fstat, linkat, mkdirat, readlinkat, readlinkat_raw,
        renameat, statat, symlinkat, unlinkat, utimensat,
    },
    io::Errno as Kernel,
};
use std::os::fd::BorrowedFd;

/// What opening a file to read it needs one of.
const READS: [Rights; 2] = [Rights::FD_READ, Rights::FD_READDIR];
/// What opening a file to write it needs one of. The right to set a size is none of them: Go asks for it
/// also where it only reads.
const WRITES: [Rights; 3] = [Rights::FD_WRITE, Rights::FD_DATASYNC, Rights::FD_ALLOCATE];
/// The kernel's `MAXSYMLINKS`.
const MOST_LINKS: usize = 40;

type Result<T = ()> = std::result::Result<T, Errno>;

impl Context {
    fn folder(&self, number: u32, right: Rights) -> Result<BorrowedFd<'_>> {
        self.table.get(number)?.with(right)
    }

    pub(super) fn path_create_directory(
        &mut self,
        memory: GuestMemory<'_>,
        folder: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let folder = self.folder(folder, Rights::PATH_CREATE_DIRECTORY)?;
        let entry = self.resolver.entry(folder, memory.path(path, length)?)?;
        Ok(mkdirat(entry.parent(), entry.name, all_modes())?)
    }

    pub(super) fn path_remove_directory(
        &mut self,
        memory: GuestMemory<'_>,
        folder: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let folder = self.folder(folder, Rights::PATH_REMOVE_DIRECTORY)?;
        let entry = self.resolver.entry(folder, memory.path(path, length)?)?;
        Ok(unlinkat(entry.parent(), entry.name, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn path_unlink_file(
        &mut self,
        memory: GuestMemory<'_>,
        folder: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let folder = self.folder(folder, Rights::PATH_UNLINK_FILE)?;
        let entry = self.resolver.entry(folder, memory.path(path, length)?)?;
        Ok(unlinkat(entry.parent(), entry.name, AtFlags::empty())?)
    }

    pub(super) fn path_rename(
        &mut self,
        memory: GuestMemory<'_>,
        old_folder: u32,
        old: u32,
        old_length: u32,
        new_folder: u32,
        new: u32,
        new_length: u32,
    ) -> Result {
        let old_folder = self.folder(old_folder, Rights::PATH_RENAME_SOURCE)?;
        let new_folder = self.folder(new_folder, Rights::PATH_RENAME_TARGET)?;
        let (old, new) = (memory.path(old, old_length)?, memory.path(new, new_length)?);
        let old = self.resolver.entry(old_folder, old)?;
        let new = self.resolver.entry(new_folder, new)?;
        Ok(renameat(old.parent(), old.name, new.parent(), new.name)?)
    }

    pub(super) fn path_symlink(
        &mut self,
        memory: GuestMemory<'_>,
        text: u32,
        text_length: u32,
        folder: u32,
        path: u32,
        length: u32,
    ) -> Result {
        let folder = self.folder(folder, Rights::PATH_SYMLINK)?;
        let (text, path) = (memory.path(text, text_length)?, memory.path(path, length)?);
        let entry = self.resolver.entry(folder, path)?;
        Ok(symlinkat(text, entry.parent(), entry.name)?)
    }

    pub(super) fn path_link(
        &mut self,
        memory: GuestMemory<'_>,
        old_folder: u32,
        lookup: u32,
        old: u32,
        old_length: u32,
        new_folder: u32,
        new: u32,
        new_length: u32,
    ) -> Result {
        let follow = follows(lookup)?;
        let old_folder = self.folder(old_folder, Rights::PATH_LINK_SOURCE)?;
        let new_folder = self.folder(new_folder, Rights::PATH_LINK_TARGET)?;
        let (old, new) = (memory.path(old, old_length)?, memory.path(new, new_length)?);
        let new = self.resolver.entry(new_folder, new)?;
        match follow {
            true => self.link_followed(old_folder, old.to_vec(), &new),
            false => self.link(old_folder, old, &new),
        }
    }

    fn link(&self, folder: BorrowedFd<'_>, old: &[u8], new: &Entry<'_>) -> Result {
        let old_entry = self.resolver.entry(folder, old)?;
        if old_entry.names_folder() {
            // linkat(2) would follow a link in front of a slash, to wherever.
            self.resolver
                .open(folder, old, OFlags::PATH | OFlags::DIRECTORY)?;
            return Err(Errno::NOT_PERMITTED);
        }
        let (from, to) = (old_entry.parent(), new.parent());
        Ok(linkat(
            from,
            old_entry.name,
            to,
            new.name,
            AtFlags::empty(),
        )?)
    }

    /// Walks links at the end of the path here: linkat(2) follows them out of the folder, and links what
    /// is open only for root.
    fn link_followed(&self, folder: BorrowedFd<'_>, mut old: Vec<u8>, new: &Entry<'_>) -> Result {
        for _ in 0..MOST_LINKS {
            let entry = self.resolver.entry(folder, &old)?;
            if entry.names_folder() {
                break;
            }
            match readlinkat(entry.parent(), entry.name, Vec::new()) {
                Ok(text) if text.as_bytes().starts_with(b"/") => return Err(Errno::NOT_CAPABLE),
                Ok(text) => {
                    let parent = old.len() - entry.name.len();
                    drop(entry);
                    old.truncate(parent);
                    old.extend_from_slice(text.as_bytes());
                }
                Err(Kernel::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.link(folder, &old, new)
    }

    pub(super) fn path_readlink(
        &mut self,
        mut memory: GuestMemory<'_>,
        folder: u32,
        path: u32,
        length: u32,
        buffer: u32,
        buffer_length: u32,
        used: u32,
    ) -> Result {
        memory.check(buffer, buffer_length)?;
        memory.check(used, 4)?;
        let folder = self.folder(folder, Rights::PATH_READLINK)?;
        // Path and buffer may overlap.
        let path = memory.path(path, length)?.to_vec();
        let entry = self.resolver.entry(folder, &path)?;
        if entry.names_folder() {
            // readlinkat(2) would follow a link in front of a slash, to wherever.
            self.resolver.find(folder, &path, true)?;
            return Err(Errno::INVALID);
        }
        let buffer = memory.bytes_mut(buffer, buffer_length)?;
        let count = readlinkat_raw(entry.parent(), entry.name, buffer)?;
        memory.put_u32(used, count as u32)
    }

    pub(super) fn path_filestat_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        folder: u32,
        lookup: u32,
        path: u32,
        length: u32,
        filestat: u32,
    ) -> Result {
        memory.check(filestat, 64)?;
        let follow = follows(lookup)?;
        let folder = self.folder(folder, Rights::PATH_FILESTAT_GET)?;
        let stat = self.stat(folder, memory.path(path, length)?, follow)?;
        memory.put(filestat, abi::filestat(&stat))
    }

    /// One system call for a plain name that is no link, three otherwise.
    fn stat(&self, folder: BorrowedFd<'_>, path: &[u8], follow: bool) -> Result<Stat> {
        if is_plain_name(path) {
            let stat = statat(folder, path, ITSELF)?;
            let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
            if !(is_link && follow) {
                return Ok(stat);
            }
        }
        Ok(fstat(self.resolver.find(folder, path, follow)?)?)
    }

    pub(super) fn path_filestat_set_times(
        &mut self,
        memory: GuestMemory<'_>,
        folder: u32,
        lookup: u32,
        path: u32,
        length: u32,
        accessed: u64,
        modified: u64,
        which: u32,
    ) -> Result {
        let follow = follows(lookup)?;
        let times = super::files::timestamps(accessed, modified, which)?;
        let folder = self.folder(folder, Rights::PATH_FILESTAT_SET_TIMES)?;
        let file = self
            .resolver
            .find(folder, memory.path(path, length)?, follow)?;
        Ok(utimensat(file, c"", &times, AtFlags::EMPTY_PATH)?)
    }

    pub(super) fn path_open(
        &mut self,
        mut memory: GuestMemory<'_>,
        folder: u32,
        lookup: u32,
        path: u32,
        length: u32,
        oflags: u32,
        base: u64,
        inheriting: u64,
        fdflags: u32,
        opened: u32,
    ) -> Result {
        memory.check(opened, 4)?;
        self.table.has_room()?;
        let (base, inheriting) = (Rights::from_bits(base), Rights::from_bits(inheriting));
        let mut flags = access(base) | open_flags(oflags, fdflags)?;
        if !follows(lookup)? {
            flags |= OFlags::NOFOLLOW;
        }
        let descriptor = self.table.get(folder)?;
        let folder = descriptor.with(needed(oflags))?;
        if !descriptor.inheriting.contains(base | inheriting) {
            return Err(Errno::NOT_CAPABLE);
        }
        let file = self
            .resolver
            .open(folder, memory.path(path, length)?, flags)?;
        let number = self.table.insert(Descriptor::new(file, base, inheriting))?;
        memory.put_u32(opened, number)
    }
}

/// The umask takes from it.
fn all_modes() -> Mode {
    Mode::RWXU | Mode::RWXG | Mode::RWXO
}

fn follows(lookup: u32) -> Result<bool> {
    match lookup {
        0 => Ok(false),
        abi::SYMLINK_FOLLOW => Ok(true),
        _ => Err(Errno::INVALID),
    }
}

/// The access mode comes from the rights that are asked for: there is no other place for it.
fn access(base: Rights) -> OFlags {
    let any = |rights: &[Rights]| rights.iter().any(|right| base.contains(*right));
    match (any(&READS), any(&WRITES)) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    }
}

fn open_flags(oflags: u32, fdflags: u32) -> Result<OFlags> {
    const OFLAGS: [(u32, OFlags); 4] = [
        (abi::OFLAGS_CREAT, OFlags::CREATE),
        (abi::OFLAGS_DIRECTORY, OFlags::DIRECTORY),
        (abi::OFLAGS_EXCL, OFlags::EXCL),
        (abi::OFLAGS_TRUNC, OFlags::TRUNC),
    ];
    let known = OFLAGS.iter().fold(0, |bits, (bit, _)| bits | bit);
    let exclusive = abi::OFLAGS_CREAT | abi::OFLAGS_DIRECTORY;
    if oflags & !known != 0 || oflags & exclusive == exclusive {
        return Err(Errno::INVALID);
    }
    let set = OFLAGS.iter().filter(|(bit, _)| oflags & bit != 0);
    let flags = abi::open_flags(fdflags).ok_or(Errno::INVALID)?;
    Ok(set.fold(flags, |flags, (_, flag)| flags | *flag))
}

/// What the folder must be good for.
fn needed(oflags: u32) -> Rights {
    let when = |flag, right| match oflags & flag {
        0 => Rights::NONE,
        _ => right,
    };
    Rights::PATH_OPEN
        | when(abi::OFLAGS_CREAT, Rights::PATH_CREATE_FILE)
        | when(abi::OFLAGS_TRUNC, Rights::PATH_FILESTAT_SET_SIZE)
}
