//! System calls that name files: where in their arguments, and what for.

use libc::{
    AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, O_ACCMODE, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH,
    O_RDONLY, O_TMPFILE, O_TRUNC, c_long,
};

/// A call that names files, or changes where relative paths begin.
#[derive(Debug)]
pub(crate) struct FileCall {
    pub(crate) number: c_long,
    /// The kernel's name.
    pub(crate) name: &'static str,
    pub(crate) files: &'static [Named],
    /// Which argument has flags, among them `AT_EMPTY_PATH`, with which the file is one that is open.
    pub(crate) flags: Option<u8>,
}

/// A file that a call names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    /// Which argument is the folder that a relative path begins in; `None` is the working directory.
    pub(crate) folder: Option<u8>,
    /// Which argument points to the path.
    pub(crate) path: u8,
    pub(crate) purpose: Purpose,
}

/// What for, by the call's kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Is(Use),
    /// The name itself: a link is not followed.
    Name(Use),
    /// Flags as open(2) has them, in this argument.
    OpenFlags(u8),
    /// A `struct open_how`, to which this argument points.
    OpenHow(u8),
}

/// Which the libc crate does not name everywhere.
const FCHMODAT2: c_long = 452;

impl FileCall {
    /// Whether FIFOs are made by it.
    pub(crate) fn makes_nodes(&self) -> bool {
        self.name.starts_with("mknod")
    }

    /// Whether a link at the end of a path is followed, with these flags of the call's or of open(2).
    pub(crate) fn follows(&self, file: &Named, flags: u64) -> bool {
        let has = |flag: i32| flags as i32 & flag != 0;
        match file.purpose {
            Purpose::Name(_) => false,
            Purpose::OpenFlags(_) | Purpose::OpenHow(_) => {
                !(has(O_NOFOLLOW) || has(O_CREAT) && has(O_EXCL))
            }
            Purpose::Is(_) if self.number == libc::SYS_linkat => has(AT_SYMLINK_FOLLOW),
            Purpose::Is(_) => !has(AT_SYMLINK_NOFOLLOW),
        }
    }
}

/// What a guest wants of a file, the less first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// Whether it is there, and its attributes.
    Look,
    Read,
    /// Or to load it as a library.
    Execute,
    /// To make it, or to give its name to another file.
    Make,
    Write,
    /// To take its name away, which is the folder's.
    Remove,
}

impl Use {
    /// Of the flags of open(2).
    pub(crate) fn of_open(flags: u64) -> Self {
        // The kernel reads an `int`.
        let flags = flags as i32;
        let has = |flag| flags & flag != 0;
        if has(O_PATH) {
            return Self::Look;
        }
        match has(O_CREAT) || flags & O_TMPFILE == O_TMPFILE {
            true => Self::Make,
            false if flags & O_ACCMODE != O_RDONLY || has(O_TRUNC) => Self::Write,
            false => Self::Read,
        }
    }
}

const fn at(folder: u8, purpose: Purpose) -> Named {
    Named {
        folder: Some(folder),
        path: folder + 1,
        purpose,
    }
}

const LOOK: Purpose = Purpose::Is(Use::Look);
const READ: Purpose = Purpose::Is(Use::Read);
const EXECUTE: Purpose = Purpose::Is(Use::Execute);
const WRITE: Purpose = Purpose::Is(Use::Write);
const LOOK_AT_NAME: Purpose = Purpose::Name(Use::Look);
const MAKE: Purpose = Purpose::Name(Use::Make);
const REMOVE: Purpose = Purpose::Name(Use::Remove);
const CHANGE_NAME: Purpose = Purpose::Name(Use::Write);

macro_rules! call {
    ($name:ident($($file:expr),+)) => { call!($name($($file),+), None) };
    ($name:ident($($file:expr),+), $flags:expr) => {
        FileCall {
            number: libc::$name,
            name: without_prefix(stringify!($name)),
            files: &[$($file),+],
            flags: $flags,
        }
    };
}

/// `SYS_open` is `open`.
const fn without_prefix(name: &'static str) -> &'static str {
    name.split_at(4).1
}

/// All of them that every architecture has.
pub(crate) const FILE_CALLS: &[FileCall] = &[
    call!(SYS_openat(at(0, Purpose::OpenFlags(2)))),
    call!(SYS_openat2(at(0, Purpose::OpenHow(2)))),
    call!(SYS_newfstatat(at(0, LOOK)), Some(3)),
    call!(SYS_statx(at(0, LOOK)), Some(2)),
    call!(SYS_faccessat(at(0, LOOK))),
    call!(SYS_faccessat2(at(0, LOOK)), Some(3)),
    call!(SYS_readlinkat(at(0, LOOK_AT_NAME))),
    call!(SYS_execve(here(0, EXECUTE))),
    call!(SYS_execveat(at(0, EXECUTE)), Some(4)),
    call!(SYS_chdir(here(0, READ))),
    FileCall {
        number: libc::SYS_fchdir,
        name: "fchdir",
        files: &[],
        flags: None,
    },
    call!(SYS_truncate(here(0, WRITE))),
    call!(SYS_fchmodat(at(0, WRITE))),
    call!(SYS_fchownat(at(0, WRITE)), Some(4)),
    call!(SYS_utimensat(at(0, WRITE)), Some(3)),
    call!(SYS_mknodat(at(0, MAKE))),
    call!(SYS_statfs(here(0, LOOK))),
    call!(SYS_setxattr(here(0, WRITE))),
    call!(SYS_lsetxattr(here(0, CHANGE_NAME))),
    call!(SYS_removexattr(here(0, WRITE))),
    call!(SYS_lremovexattr(here(0, CHANGE_NAME))),
    call!(SYS_getxattr(here(0, LOOK))),
    call!(SYS_lgetxattr(here(0, LOOK_AT_NAME))),
    call!(SYS_listxattr(here(0, LOOK))),
    call!(SYS_llistxattr(here(0, LOOK_AT_NAME))),
    call!(SYS_inotify_add_watch(here(1, READ))),
    FileCall {
        number: FCHMODAT2,
        name: "fchmodat2",
        files: &[at(0, WRITE)],
        flags: Some(3),
    },
    call!(SYS_mkdirat(at(0, MAKE))),
    call!(SYS_unlinkat(at(0, REMOVE))),
    call!(SYS_renameat2(at(0, REMOVE), at(2, MAKE))),
    call!(SYS_linkat(at(0, READ), at(2, MAKE)), Some(4)),
    call!(SYS_symlinkat(at(1, MAKE))),
];

/// As [`FILE_CALLS`]: what only old architectures have.
#[cfg(target_arch = "x86_64")]
pub(crate) const FILE_CALLS_OLD: &[FileCall] = &[
    call!(SYS_open(here(0, Purpose::OpenFlags(1)))),
    call!(SYS_creat(here(0, Purpose::Is(Use::Make)))),
    call!(SYS_stat(here(0, LOOK))),
    call!(SYS_lstat(here(0, LOOK_AT_NAME))),
    call!(SYS_access(here(0, LOOK))),
    call!(SYS_readlink(here(0, LOOK_AT_NAME))),
    call!(SYS_chmod(here(0, WRITE))),
    call!(SYS_chown(here(0, WRITE))),
    call!(SYS_lchown(here(0, CHANGE_NAME))),
    call!(SYS_mknod(here(0, MAKE))),
    call!(SYS_utime(here(0, WRITE))),
    call!(SYS_utimes(here(0, WRITE))),
    call!(SYS_futimesat(at(0, WRITE))),
    call!(SYS_mkdir(here(0, MAKE))),
    call!(SYS_rmdir(here(0, REMOVE))),
    call!(SYS_unlink(here(0, REMOVE))),
    call!(SYS_rename(here(0, REMOVE), here(1, MAKE))),
    call!(SYS_renameat(at(0, REMOVE), at(2, MAKE))),
    call!(SYS_link(here(0, READ), here(1, MAKE))),
    call!(SYS_symlink(here(1, MAKE))),
];
/// As [`FILE_CALLS`]: what only old architectures have.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const FILE_CALLS_OLD: &[FileCall] = &[];

const fn here(path: u8, purpose: Purpose) -> Named {
    Named {
        folder: None,
        path,
        purpose,
    }
}

/// The call of this number.
pub(crate) fn find(number: c_long) -> Option<&'static FileCall> {
    all().find(|call| call.number == number)
}

pub(crate) fn all() -> impl Iterator<Item = &'static FileCall> {
    FILE_CALLS.iter().chain(FILE_CALLS_OLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_the_kernels_name_and_stands_here_once() {
        let numbers: BTreeSet<_> = all().map(|call| call.number).collect();
        assert_eq!(numbers.len(), all().count());
        let openat = all().find(|call| call.number == libc::SYS_openat);
        assert_eq!(openat.unwrap().name, "openat");
    }

    #[test]
    fn flags_tell_what_a_file_is_opened_for() {
        let of = |flags: i32| Use::of_open(flags as u64);
        assert_eq!(of(O_RDONLY), Use::Read);
        assert_eq!(of(libc::O_DIRECTORY), Use::Read);
        assert_eq!(of(O_PATH | libc::O_RDWR), Use::Look);
        assert_eq!(of(libc::O_WRONLY), Use::Write);
        assert_eq!(of(O_TRUNC), Use::Write);
        assert_eq!(of(libc::O_RDWR | O_CREAT), Use::Make);
        assert_eq!(of(libc::O_RDWR | O_TMPFILE), Use::Make);
        assert_eq!(Use::of_open(u64::from(u32::MAX) << 32), Use::Read);
    }
}
