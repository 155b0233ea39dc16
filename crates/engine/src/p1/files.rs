//! `fd_…`: what a guest does with what it has open.

use super::{
    Context,
    abi::{self, Rights},
    errno::Errno,
    memory::GuestMemory,
    table::{Descriptor, Prestat},
};
use crate::sys::{
    self,
    transfer::{self, Parts, PartsError},
};
use rustix::{
    fs::{
        Advice, FallocateFlags, FileType, OFlags, SeekFrom, Timespec, Timestamps, UTIME_NOW,
        UTIME_OMIT, fadvise, fallocate, fcntl_getfl, fcntl_setfl, fdatasync, fstat, fsync,
        ftruncate, futimens, seek, tell,
    },
    net::{SocketType, sockopt::socket_type},
    termios::isatty,
};
use std::{num::NonZeroU64, os::fd::BorrowedFd};

type Result<T = ()> = std::result::Result<T, Errno>;

impl From<PartsError> for Errno {
    fn from(error: PartsError) -> Self {
        match error {
            PartsError::OutOfMemory => Self::FAULT,
            PartsError::TooMany => Self::INVALID,
        }
    }
}

impl Context {
    fn file(&self, number: u32, right: Rights) -> Result<BorrowedFd<'_>> {
        self.table.get(number)?.with(right)
    }

    pub(super) fn fd_read(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        list: u32,
        count: u32,
        moved: u32,
    ) -> Result {
        memory.check(moved, 4)?;
        let file = self.file(number, Rights::FD_READ)?;
        let bytes = transfer::read(file, Parts::read(memory.0, list, count)?)?;
        memory.put_u32(moved, bytes)
    }

    pub(super) fn fd_write(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        list: u32,
        count: u32,
        moved: u32,
    ) -> Result {
        memory.check(moved, 4)?;
        let file = self.file(number, Rights::FD_WRITE)?;
        let bytes = transfer::write(file, Parts::read(memory.0, list, count)?)?;
        memory.put_u32(moved, bytes)
    }

    pub(super) fn fd_pread(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        list: u32,
        count: u32,
        offset: u64,
        moved: u32,
    ) -> Result {
        memory.check(moved, 4)?;
        let file = self.file(number, Rights::FD_READ)?;
        let parts = Parts::read(memory.0, list, count)?;
        let bytes = transfer::read_at(file, parts, signed(offset)?)?;
        memory.put_u32(moved, bytes)
    }

    pub(super) fn fd_pwrite(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        list: u32,
        count: u32,
        offset: u64,
        moved: u32,
    ) -> Result {
        memory.check(moved, 4)?;
        let file = self.file(number, Rights::FD_WRITE)?;
        let parts = Parts::read(memory.0, list, count)?;
        let bytes = transfer::write_at(file, parts, signed(offset)?)?;
        memory.put_u32(moved, bytes)
    }

    pub(super) fn fd_seek(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        offset: i64,
        whence: u32,
        position: u32,
    ) -> Result {
        memory.check(position, 8)?;
        let right = match (whence, offset) {
            (1, 0) => Rights::FD_TELL,
            _ => Rights::FD_SEEK,
        };
        let to = match whence {
            0 => SeekFrom::Start(u64::try_from(offset).map_err(|_| Errno::INVALID)?),
            1 => SeekFrom::Current(offset),
            2 => SeekFrom::End(offset),
            _ => return Err(Errno::INVALID),
        };
        let at = seek(self.file(number, right)?, to)?;
        memory.put_u64(position, at)
    }

    pub(super) fn fd_tell(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        position: u32,
    ) -> Result {
        memory.check(position, 8)?;
        let at = tell(self.file(number, Rights::FD_TELL)?)?;
        memory.put_u64(position, at)
    }

    pub(super) fn fd_close(&mut self, _: GuestMemory<'_>, number: u32) -> Result {
        let closed = self.table.remove(number)?;
        Ok(sys::close(closed.into_file())?)
    }

    pub(super) fn fd_renumber(&mut self, _: GuestMemory<'_>, from: u32, to: u32) -> Result {
        match self.table.renumber(from, to)? {
            Some(closed) => Ok(sys::close(closed.into_file())?),
            None => Ok(()),
        }
    }

    pub(super) fn fd_sync(&mut self, _: GuestMemory<'_>, number: u32) -> Result {
        Ok(fsync(self.file(number, Rights::FD_SYNC)?)?)
    }

    /// The right to sync everything is enough: wasi-libc leaves the lesser one out where a file is open
    /// for reading only.
    pub(super) fn fd_datasync(&mut self, _: GuestMemory<'_>, number: u32) -> Result {
        let descriptor = self.table.get(number)?;
        let file = descriptor
            .with(Rights::FD_DATASYNC)
            .or_else(|_| descriptor.with(Rights::FD_SYNC))?;
        Ok(fdatasync(file)?)
    }

    pub(super) fn fd_advise(
        &mut self,
        _: GuestMemory<'_>,
        number: u32,
        offset: u64,
        length: u64,
        advice: u32,
    ) -> Result {
        let advice = match advice {
            0 => Advice::Normal,
            1 => Advice::Sequential,
            2 => Advice::Random,
            3 => Advice::WillNeed,
            4 => Advice::DontNeed,
            5 => Advice::NoReuse,
            _ => return Err(Errno::INVALID),
        };
        signed(offset)?;
        signed(length)?;
        let file = self.file(number, Rights::FD_ADVISE)?;
        Ok(fadvise(file, offset, NonZeroU64::new(length), advice)?)
    }

    pub(super) fn fd_allocate(
        &mut self,
        _: GuestMemory<'_>,
        number: u32,
        offset: u64,
        length: u64,
    ) -> Result {
        signed(offset)?;
        signed(length)?;
        let file = self.file(number, Rights::FD_ALLOCATE)?;
        Ok(fallocate(file, FallocateFlags::empty(), offset, length)?)
    }

    pub(super) fn fd_filestat_set_size(
        &mut self,
        _: GuestMemory<'_>,
        number: u32,
        size: u64,
    ) -> Result {
        signed(size)?;
        Ok(ftruncate(
            self.file(number, Rights::FD_FILESTAT_SET_SIZE)?,
            size,
        )?)
    }

    pub(super) fn fd_filestat_set_times(
        &mut self,
        _: GuestMemory<'_>,
        number: u32,
        accessed: u64,
        modified: u64,
        which: u32,
    ) -> Result {
        let times = timestamps(accessed, modified, which)?;
        let file = self.file(number, Rights::FD_FILESTAT_SET_TIMES)?;
        Ok(futimens(file, &times)?)
    }

    pub(super) fn fd_filestat_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        filestat: u32,
    ) -> Result {
        memory.check(filestat, 64)?;
        let file = self.file(number, Rights::FD_FILESTAT_GET)?;
        let mut bytes = abi::filestat(&fstat(file)?);
        if bytes[16] == abi::SOCKET_STREAM {
            bytes[16] = kind_of_socket(file);
        }
        memory.put(filestat, bytes)
    }

    pub(super) fn fd_fdstat_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        fdstat: u32,
    ) -> Result {
        memory.check(fdstat, 24)?;
        let descriptor = self.table.get(number)?;
        let (kind, flags) = descriptor.nature(|file| Ok((kind(file)?, fcntl_getfl(file)?)))?;
        let mut base = descriptor.base & !unusable(flags);
        if kind == abi::DIRECTORY || kind == abi::CHARACTER_DEVICE && isatty(descriptor.file()) {
            // How wasi-libc's isatty(3) knows a terminal. In a folder there is nowhere to go.
            base = base & !(Rights::FD_SEEK | Rights::FD_TELL);
        }
        let bytes = abi::fdstat(kind, abi::fdflags(flags), base, descriptor.inheriting);
        memory.put(fdstat, bytes)
    }

    pub(super) fn fd_fdstat_set_flags(
        &mut self,
        _: GuestMemory<'_>,
        number: u32,
        flags: u32,
    ) -> Result {
        let flags = abi::open_flags(flags).ok_or(Errno::INVALID)?;
        let descriptor = self.table.get(number)?;
        let file = descriptor.with(Rights::FD_FDSTAT_SET_FLAGS)?;
        descriptor.forget_nature();
        Ok(fcntl_setfl(file, flags)?)
    }

    /// Takes rights away: there is no way back.
    pub(super) fn fd_fdstat_set_rights(
        &mut self,
        _: GuestMemory<'_>,
        number: u32,
        base: u64,
        inheriting: u64,
    ) -> Result {
        let descriptor: &mut Descriptor = self.table.get_mut(number)?;
        let (base, inheriting) = (Rights::from_bits(base), Rights::from_bits(inheriting));
        if !(descriptor.base.contains(base) && descriptor.inheriting.contains(inheriting)) {
            return Err(Errno::NOT_CAPABLE);
        }
        (descriptor.base, descriptor.inheriting) = (base, inheriting);
        Ok(())
    }

    /// Guests ask for 3, 4, … until a number is not open; what is no folder they pass over.
    pub(super) fn fd_prestat_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        prestat: u32,
    ) -> Result {
        let (tag, length): (u8, u32) = match &self.table.get(number)?.prestat {
            Prestat::Folder(name) => (0, name.len() as u32),
            Prestat::Listener => (1, 0),
            Prestat::None => return Err(Errno::BAD_DESCRIPTOR),
        };
        let mut bytes = [0; 8];
        bytes[0] = tag;
        bytes[4..].copy_from_slice(&length.to_le_bytes());
        memory.put(prestat, bytes)
    }

    pub(super) fn fd_prestat_dir_name(
        &mut self,
        mut memory: GuestMemory<'_>,
        number: u32,
        buffer: u32,
        length: u32,
    ) -> Result {
        let Prestat::Folder(name) = &self.table.get(number)?.prestat else {
            return Err(Errno::BAD_DESCRIPTOR);
        };
        let out = memory.bytes_mut(buffer, length)?;
        let out = out.get_mut(..name.len()).ok_or(Errno::NAME_TOO_LONG)?;
        out.copy_from_slice(name);
        Ok(())
    }
}

/// What a file that is open in this way never does.
fn unusable(flags: OFlags) -> Rights {
    match flags & OFlags::RWMODE {
        OFlags::RDWR => Rights::NONE,
        OFlags::WRONLY => Rights::FD_READ,
        _ => Rights::FD_WRITE | Rights::FD_ALLOCATE | Rights::FD_FILESTAT_SET_SIZE,
    }
}

fn kind(file: BorrowedFd<'_>) -> Result<u8> {
    let mode = fstat(file)?.st_mode;
    Ok(match abi::filetype(FileType::from_raw_mode(mode)) {
        abi::SOCKET_STREAM => kind_of_socket(file),
        kind => kind,
    })
}

fn kind_of_socket(file: BorrowedFd<'_>) -> u8 {
    match socket_type(file) {
        Ok(SocketType::DGRAM) => abi::SOCKET_DGRAM,
        _ => abi::SOCKET_STREAM,
    }
}

/// What the kernel calls negative is out of every file.
fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).map_err(|_| Errno::INVALID)
}

/// `fstflags`: for each of the two times, the given one or the present.
pub(super) fn timestamps(accessed: u64, modified: u64, which: u32) -> Result<Timestamps> {
    if which & !0b1111 != 0 {
        return Err(Errno::INVALID);
    }
    Ok(Timestamps {
        last_access: timestamp(accessed, which & 0b11)?,
        last_modification: timestamp(modified, which >> 2)?,
    })
}

fn timestamp(nanoseconds: u64, which: u32) -> Result<Timespec> {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    match which {
        0 => Ok(special(UTIME_OMIT)),
        1 => Ok(Timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as i64,
        }),
        2 => Ok(special(UTIME_NOW)),
        _ => Err(Errno::INVALID),
    }
}
