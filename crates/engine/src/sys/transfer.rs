//! Bytes between a guest's memory and the kernel, with no copy of ours.

use rustix::io::Errno;
use std::{
    marker::PhantomData,
    os::fd::{AsRawFd, BorrowedFd},
};

/// The kernel's `UIO_MAXIOV`.
pub(crate) const MOST_PARTS: u32 = 1024;
/// Parts that are kept without an allocation.
const FEW: usize = 8;

const NOTHING: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// A list of parts of one memory, each of which lies within it. They may overlap: only the kernel looks
/// through them.
pub(crate) struct Parts<'memory> {
    few: [libc::iovec; FEW],
    many: Vec<libc::iovec>,
    count: usize,
    memory: PhantomData<&'memory mut [u8]>,
}

/// Why there is no list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartsError {
    /// The list or one of its parts reaches out of the memory.
    OutOfMemory,
    /// More than [`MOST_PARTS`].
    TooMany,
}

impl<'memory> Parts<'memory> {
    /// Reads a list of pairs of an address and a length, 4 bytes each, once, and checks each.
    pub(crate) fn read(
        memory: &'memory mut [u8],
        list: u32,
        count: u32,
    ) -> Result<Self, PartsError> {
        if count > MOST_PARTS {
            return Err(PartsError::TooMany);
        }
        let count = count as usize;
        let mut parts = Self {
            few: [NOTHING; FEW],
            many: Vec::new(),
            count,
            memory: PhantomData,
        };
        if count > FEW {
            parts.many.resize(count, NOTHING);
        }
        let (start, length) = (memory.as_mut_ptr(), memory.len());
        let pairs = memory
            .get(list as usize..)
            .and_then(|rest| rest.get(..count * 8))
            .ok_or(PartsError::OutOfMemory)?;
        for (part, pair) in parts.as_mut().iter_mut().zip(pairs.chunks_exact(8)) {
            let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| pair[at + byte]));
            let (at, bytes) = (word(0) as usize, word(4) as usize);
            if at > length || bytes > length - at {
                return Err(PartsError::OutOfMemory);
            }
            part.iov_base = start.wrapping_add(at).cast();
            part.iov_len = bytes;
        }
        Ok(parts)
    }

    fn as_mut(&mut self) -> &mut [libc::iovec] {
        match self.count <= FEW {
            true => &mut self.few[..self.count],
            false => &mut self.many,
        }
    }

    fn as_ref(&self) -> &[libc::iovec] {
        match self.count <= FEW {
            true => &self.few[..self.count],
            false => &self.many,
        }
    }
}

/// Makes one of the calls. A single part goes by the call without a list: the kernel needs not copy
/// one then.
macro_rules! transfer {
    ($parts:expr, $one:ident, $many:ident, $file:expr $(, $offset:expr)?) => {{
        let file = $file.as_raw_fd();
        // SAFETY: each part lies within a memory that `Parts` borrows as the only one, so that nothing
        // in this process looks at it during the call, in which alone the kernel uses the list.
        let count = unsafe {
            match $parts.as_ref() {
                [part] => libc::$one(file, part.iov_base, part.iov_len $(, $offset)?),
                list => libc::$many(file, list.as_ptr(), list.len() as i32 $(, $offset)?),
            }
        };
        counted(count)
    }};
}

/// readv(2)
pub(crate) fn read(file: BorrowedFd<'_>, parts: Parts<'_>) -> Result<u32, Errno> {
    transfer!(parts, read, readv, file)
}

/// writev(2)
pub(crate) fn write(file: BorrowedFd<'_>, parts: Parts<'_>) -> Result<u32, Errno> {
    transfer!(parts, write, writev, file)
}

/// preadv(2)
pub(crate) fn read_at(file: BorrowedFd<'_>, parts: Parts<'_>, offset: i64) -> Result<u32, Errno> {
    transfer!(parts, pread64, preadv64, file, offset)
}

/// pwritev(2)
pub(crate) fn write_at(file: BorrowedFd<'_>, parts: Parts<'_>, offset: i64) -> Result<u32, Errno> {
    transfer!(parts, pwrite64, pwritev64, file, offset)
}

/// recvmsg(2); gives also the flags of the message.
pub(crate) fn receive(
    socket: BorrowedFd<'_>,
    mut parts: Parts<'_>,
    flags: i32,
) -> Result<(u32, i32), Errno> {
    // SAFETY: all fields of the structure may be zero: no address and no control data are asked for.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    let parts = parts.as_mut();
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: the message and its list live through the call, and as for `transfer`.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    Ok((counted(count)?, message.msg_flags))
}

/// The kernel moves at most 2 GiB at once.
fn counted(count: isize) -> Result<u32, Errno> {
    u32::try_from(count).map_err(|_| last_error())
}

/// What the last call of libc's in this thread said.
pub(super) fn last_error() -> Errno {
    let number = std::io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(number.unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write as _, os::fd::AsFd};

    fn list(pairs: &[(u32, u32)]) -> Vec<u8> {
        let words = pairs.iter().flat_map(|(at, bytes)| [*at, *bytes]);
        words.flat_map(u32::to_le_bytes).collect()
    }

    fn memory(pairs: &[(u32, u32)]) -> Vec<u8> {
        let mut memory = list(pairs);
        memory.resize(memory.len().max(64) + 64, b'.');
        memory
    }

    #[test]
    fn no_part_reaches_beyond_the_end() {
        let error = |pairs: &[(u32, u32)]| {
            let mut memory = memory(pairs);
            Parts::read(&mut memory, 0, pairs.len() as u32).err()
        };
        assert_eq!(error(&[(0, 128)]), None);
        assert_eq!(error(&[(128, 0)]), None);
        for pair in [(0, 129), (128, 1), (129, 0), (1, u32::MAX), (u32::MAX, 1)] {
            assert_eq!(error(&[(0, 1), pair]), Some(PartsError::OutOfMemory));
        }
        let mut small = [0; 16];
        let read = |list, count| Parts::read(&mut small, list, count).err();
        assert_eq!(
            [read].map(|mut read| read(9, 1)),
            [Some(PartsError::OutOfMemory)]
        );
        assert_eq!(
            Parts::read(&mut small, 0, MOST_PARTS + 1).err(),
            Some(PartsError::TooMany)
        );
    }

    #[test]
    fn bytes_arrive_part_by_part_also_where_parts_overlap() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abcdef").unwrap();
        let pairs: Vec<_> = (0..10).map(|part| (100 + part % 2, 1)).collect();
        let mut memory = memory(&pairs);
        let parts = Parts::read(&mut memory, 0, 10).unwrap();
        assert_eq!(read_at(file.as_fd(), parts, 0), Ok(6));
        // The last bytes that were read into the two places.
        assert_eq!(&memory[100..102], b"ef");
        let parts = Parts::read(&mut memory, 0, 2).unwrap();
        assert_eq!(write_at(file.as_fd(), parts, 1), Ok(2));
        assert_eq!(
            write(file.as_fd(), Parts::read(&mut memory, 0, 1).unwrap()),
            Ok(1)
        );
    }
}
