//! A guest's memory, by its own addresses.
//!
//! No address is believed: each is checked against the memory's length of the moment, and what is read
//! through one is read once. The guest stands still meanwhile: it has one thread.

use super::errno::Errno;

/// Longest path in bytes: the kernel's `PATH_MAX` without the zero at its end.
const PATH_BYTES: usize = 4095;

/// The linear memory of the guest that calls. One without a memory has an empty one.
pub(super) struct GuestMemory<'memory>(pub(super) &'memory mut [u8]);

impl GuestMemory<'_> {
    /// Whether a range lies within: for results, before anything is done that brings them.
    pub(super) fn check(&self, at: u32, length: u32) -> Result<(), Errno> {
        self.bytes(at, length).map(|_| ())
    }

    pub(super) fn bytes(&self, at: u32, length: u32) -> Result<&[u8], Errno> {
        let (start, length) = (at as usize, length as usize);
        self.0
            .get(start..)
            .and_then(|rest| rest.get(..length))
            .ok_or(Errno::FAULT)
    }

    /// A path, or the text of a link. Longer ones than the kernel takes come to nothing here, before
    /// anybody copies them.
    pub(super) fn path(&self, at: u32, length: u32) -> Result<&[u8], Errno> {
        let path = self.bytes(at, length)?;
        match path.len() > PATH_BYTES {
            true => Err(Errno::NAME_TOO_LONG),
            false => Ok(path),
        }
    }

    pub(super) fn bytes_mut(&mut self, at: u32, length: u32) -> Result<&mut [u8], Errno> {
        let (start, length) = (at as usize, length as usize);
        self.0
            .get_mut(start..)
            .and_then(|rest| rest.get_mut(..length))
            .ok_or(Errno::FAULT)
    }

    /// Writes a value of fixed size.
    pub(super) fn put<const N: usize>(&mut self, at: u32, bytes: [u8; N]) -> Result<(), Errno> {
        self.bytes_mut(at, N as u32)?.copy_from_slice(&bytes);
        Ok(())
    }

    pub(super) fn put_u32(&mut self, at: u32, value: u32) -> Result<(), Errno> {
        self.put(at, value.to_le_bytes())
    }

    pub(super) fn put_u64(&mut self, at: u32, value: u64) -> Result<(), Errno> {
        self.put(at, value.to_le_bytes())
    }
}

/// The little-endian field of a record that was copied out of memory.
pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

/// As [`u16_at`].
pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

/// As [`u16_at`].
pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_range_reaches_beyond_the_end() {
        let mut bytes = [7; 16];
        let mut memory = GuestMemory(&mut bytes);
        assert_eq!(memory.bytes(12, 4), Ok(&[7; 4][..]));
        assert_eq!(memory.bytes(16, 0), Ok(&[][..]));
        for (at, length) in [(13, 4), (17, 0), (u32::MAX, 1), (1, u32::MAX)] {
            assert_eq!(memory.bytes(at, length), Err(Errno::FAULT));
            assert_eq!(memory.check(at, length), Err(Errno::FAULT));
            assert!(memory.bytes_mut(at, length).is_err());
        }
        assert_eq!(memory.put_u64(9, 0), Err(Errno::FAULT));
        assert_eq!(memory.path(12, 5), Err(Errno::FAULT));
        memory.put_u32(12, 0x0102_0304).unwrap();
        assert_eq!(u32_at(&bytes, 12), 0x0102_0304);
        assert_eq!(u16_at(&bytes, 14), 0x0102);
    }

    #[test]
    fn a_path_is_no_longer_than_the_kernel_takes() {
        let mut bytes = [b'a'; 5000];
        let memory = GuestMemory(&mut bytes);
        assert_eq!(memory.path(1, 4095).map(<[u8]>::len), Ok(4095));
        assert_eq!(memory.path(1, 4096), Err(Errno::NAME_TOO_LONG));
    }
}
