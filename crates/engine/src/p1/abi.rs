//! Numbers and layouts of preview 1, as its description in witx gives them.

use rustix::fs::{FileType, OFlags, Stat};
use std::ops::{BitAnd, BitOr, Not};

/// What a descriptor may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights(u64);

impl Rights {
    pub(super) const FD_DATASYNC: Self = Self(1 << 0);
    pub(super) const FD_READ: Self = Self(1 << 1);
    pub(super) const FD_SEEK: Self = Self(1 << 2);
    pub(super) const FD_FDSTAT_SET_FLAGS: Self = Self(1 << 3);
    pub(super) const FD_SYNC: Self = Self(1 << 4);
    pub(super) const FD_TELL: Self = Self(1 << 5);
    pub(super) const FD_WRITE: Self = Self(1 << 6);
    pub(super) const FD_ADVISE: Self = Self(1 << 7);
    pub(super) const FD_ALLOCATE: Self = Self(1 << 8);
    pub(super) const PATH_CREATE_DIRECTORY: Self = Self(1 << 9);
    pub(super) const PATH_CREATE_FILE: Self = Self(1 << 10);
    pub(super) const PATH_LINK_SOURCE: Self = Self(1 << 11);
    pub(super) const PATH_LINK_TARGET: Self = Self(1 << 12);
    pub(super) const PATH_OPEN: Self = Self(1 << 13);
    pub(super) const FD_READDIR: Self = Self(1 << 14);
    pub(super) const PATH_READLINK: Self = Self(1 << 15);
    pub(super) const PATH_RENAME_SOURCE: Self = Self(1 << 16);
    pub(super) const PATH_RENAME_TARGET: Self = Self(1 << 17);
    pub(super) const PATH_FILESTAT_GET: Self = Self(1 << 18);
    pub(super) const PATH_FILESTAT_SET_SIZE: Self = Self(1 << 19);
    pub(super) const PATH_FILESTAT_SET_TIMES: Self = Self(1 << 20);
    pub(super) const FD_FILESTAT_GET: Self = Self(1 << 21);
    pub(super) const FD_FILESTAT_SET_SIZE: Self = Self(1 << 22);
    pub(super) const FD_FILESTAT_SET_TIMES: Self = Self(1 << 23);
    pub(super) const PATH_SYMLINK: Self = Self(1 << 24);
    pub(super) const PATH_REMOVE_DIRECTORY: Self = Self(1 << 25);
    pub(super) const PATH_UNLINK_FILE: Self = Self(1 << 26);
    pub(super) const POLL_FD_READWRITE: Self = Self(1 << 27);
    pub(super) const SOCK_SHUTDOWN: Self = Self(1 << 28);
    pub(super) const SOCK_ACCEPT: Self = Self(1 << 29);

    pub(super) const NONE: Self = Self(0);
    pub(super) const ALL: Self = Self((1 << 30) - 1);

    /// What a guest asks for. Rights that this version does not know are no rights: some programs ask
    /// for every bit.
    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits) & Self::ALL
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn contains(self, other: Self) -> bool {
        self & other == other
    }

    /// Of a socket.
    pub(super) fn of_socket() -> Self {
        Self::FD_READ
            | Self::FD_WRITE
            | Self::FD_FDSTAT_SET_FLAGS
            | Self::FD_FILESTAT_GET
            | Self::POLL_FD_READWRITE
            | Self::SOCK_SHUTDOWN
    }

    /// Of a folder.
    pub(super) fn of_folder() -> Self {
        let files = Self::FD_READ
            | Self::FD_WRITE
            | Self::FD_DATASYNC
            | Self::FD_SEEK
            | Self::FD_TELL
            | Self::FD_ALLOCATE
            | Self::FD_FILESTAT_SET_SIZE;
        Self::ALL & !files & !Self::SOCK_SHUTDOWN & !Self::SOCK_ACCEPT
    }

    /// Of a standard stream: all that is about bytes, and nothing about names, whatever it is.
    pub(super) fn of_stream() -> Self {
        let common = Self::FD_FDSTAT_SET_FLAGS
            | Self::FD_SYNC
            | Self::FD_ADVISE
            | Self::FD_FILESTAT_GET
            | Self::FD_FILESTAT_SET_TIMES
            | Self::POLL_FD_READWRITE;
        Self::ALL & !(Self::of_folder() & !common) & !Self::SOCK_ACCEPT
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Rights {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// `lookupflags`: follow a symbolic link at the end of a path.
pub(super) const SYMLINK_FOLLOW: u32 = 1;

/// `oflags`.
pub(super) const OFLAGS_CREAT: u32 = 1;
/// `oflags`.
pub(super) const OFLAGS_DIRECTORY: u32 = 2;
/// `oflags`.
pub(super) const OFLAGS_EXCL: u32 = 4;
/// `oflags`.
pub(super) const OFLAGS_TRUNC: u32 = 8;

/// rustix has the name for the whole of `O_SYNC`.
const DSYNC: OFlags = OFlags::from_bits_retain(libc::O_DSYNC as u32);

/// `fdflags` and what open(2) calls them. The kernel has `O_RSYNC` as a name of `O_SYNC`, and that
/// contains `O_DSYNC`: the last that fits is the one.
const FDFLAGS: [(u32, OFlags); 5] = [
    (1, OFlags::APPEND),
    (4, OFlags::NONBLOCK),
    (2, DSYNC),
    (8, OFlags::RSYNC),
    (16, OFlags::SYNC),
];

/// `fdflags`: do not wait.
pub(super) const FDFLAGS_NONBLOCK: u32 = 4;

/// Gives `None` for bits that are no flags.
pub(super) fn open_flags(fdflags: u32) -> Option<OFlags> {
    let known = FDFLAGS.iter().fold(0, |bits, (bit, _)| bits | bit);
    if fdflags & !known != 0 {
        return None;
    }
    let set = FDFLAGS.iter().filter(|(bit, _)| fdflags & bit != 0);
    Some(set.fold(OFlags::empty(), |flags, (_, flag)| flags | *flag))
}

/// The reverse; the strongest alone of the three that synchronise.
pub(super) fn fdflags(flags: OFlags) -> u16 {
    let set = |(_, flag): &&(u32, OFlags)| flags.contains(*flag);
    let (plain, synchronous) = FDFLAGS.split_at(2);
    let plain = plain
        .iter()
        .filter(set)
        .fold(0, |bits, (bit, _)| bits | bit);
    let strongest = synchronous.iter().rfind(set).map_or(0, |(bit, _)| *bit);
    (plain | strongest) as u16
}

/// `filetype`.
pub(super) const UNKNOWN: u8 = 0;
/// `filetype`: the only one whose descriptors may be terminals.
pub(super) const CHARACTER_DEVICE: u8 = 2;
/// `filetype`.
pub(super) const DIRECTORY: u8 = 3;
/// `filetype`.
pub(super) const SOCKET_DGRAM: u8 = 5;
/// `filetype`.
pub(super) const SOCKET_STREAM: u8 = 6;

/// `filetype`. FIFOs have none; sockets that are not open count as streams.
pub(super) fn filetype(kind: FileType) -> u8 {
    match kind {
        FileType::BlockDevice => 1,
        FileType::CharacterDevice => CHARACTER_DEVICE,
        FileType::Directory => DIRECTORY,
        FileType::RegularFile => 4,
        FileType::Socket => SOCKET_STREAM,
        FileType::Symlink => 7,
        FileType::Fifo | FileType::Unknown => UNKNOWN,
    }
}

/// `filestat`: 64 bytes.
pub(super) fn filestat(stat: &Stat) -> [u8; 64] {
    let kind = filetype(FileType::from_raw_mode(stat.st_mode));
    let fields = [
        stat.st_dev,
        stat.st_ino,
        u64::from(kind),
        stat.st_nlink,
        stat.st_size as u64,
        nanoseconds(stat.st_atime, stat.st_atime_nsec as i64),
        nanoseconds(stat.st_mtime, stat.st_mtime_nsec as i64),
        nanoseconds(stat.st_ctime, stat.st_ctime_nsec as i64),
    ];
    let mut bytes = [0; 64];
    for (out, field) in bytes.chunks_exact_mut(8).zip(fields) {
        out.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}

/// `timestamp`: since 1970. Times before have no number: they read as its beginning.
pub(super) fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    u64::try_from(total.max(0)).unwrap_or(u64::MAX)
}

/// `fdstat`: 24 bytes.
pub(super) fn fdstat(kind: u8, flags: u16, base: Rights, inheriting: Rights) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[0] = kind;
    bytes[2..4].copy_from_slice(&flags.to_le_bytes());
    bytes[8..16].copy_from_slice(&base.bits().to_le_bytes());
    bytes[16..24].copy_from_slice(&inheriting.bits().to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_read_back() {
        let flags = open_flags(1 | 4).unwrap();
        assert_eq!(flags, OFlags::APPEND | OFlags::NONBLOCK);
        assert_eq!(fdflags(flags | OFlags::RDWR), 5);
        for synchronous in [2, 16] {
            assert_eq!(
                fdflags(open_flags(synchronous).unwrap()),
                synchronous as u16
            );
        }
        assert_eq!(open_flags(32), None);
    }

    #[test]
    fn times_before_the_epoch_read_as_its_beginning() {
        assert_eq!(nanoseconds(-1, 999), 0);
        assert_eq!(nanoseconds(1, 5), 1_000_000_005);
        assert_eq!(nanoseconds(i64::MAX, 0), u64::MAX);
    }

    #[test]
    fn rights_of_a_folder_name_no_bytes() {
        let bytes = Rights::FD_READ | Rights::FD_WRITE;
        assert_eq!(Rights::of_folder() & bytes, Rights::NONE);
        assert!(Rights::of_folder().contains(Rights::PATH_OPEN | Rights::FD_READDIR));
        assert_eq!(Rights::from_bits(u64::MAX), Rights::ALL);
        assert!(Rights::of_stream().contains(bytes | Rights::FD_SYNC | Rights::SOCK_SHUTDOWN));
        let names = Rights::PATH_OPEN | Rights::FD_READDIR | Rights::PATH_FILESTAT_GET;
        assert_eq!(Rights::of_stream() & names, Rights::NONE);
    }
}
