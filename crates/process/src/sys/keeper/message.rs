//! Reading messages of the supervisor's.

use crate::kernel;
use kernel::{CStr, Errno, Fd};

/// A cursor over a message. Reading past the end is a failure, never a panic.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    rest: &'static [u8],
}

impl Reader {
    pub(crate) fn new(rest: &'static [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What `from`, an earlier place in the same message, has up to here.
    pub(crate) fn passed_since(&self, from: &Self) -> &'static [u8] {
        let length = from.rest.len().saturating_sub(self.rest.len());
        &from.rest[..length]
    }

    /// What is left.
    pub(crate) fn rest(&self) -> &'static [u8] {
        self.rest
    }

    /// Bytes that are left.
    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn u32(&mut self) -> kernel::Result<u32> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or(Errno::INVAL)?;
        self.rest = rest;
        Ok(u32::from_ne_bytes(*bytes))
    }

    pub(crate) fn u64(&mut self) -> kernel::Result<u64> {
        let low = self.u32()?;
        Ok(u64::from(self.u32()?) << 32 | u64::from(low))
    }

    /// Bytes behind their length; a NUL follows them in the message and is not part of them.
    pub(crate) fn bytes(&mut self) -> kernel::Result<&'static [u8]> {
        let with_nul = self.bytes_with_nul()?;
        Ok(&with_nul[..with_nul.len() - 1])
    }

    pub(crate) fn text(&mut self) -> kernel::Result<CStr<'static>> {
        CStr::new(self.bytes_with_nul()?).ok_or(Errno::INVAL)
    }

    fn bytes_with_nul(&mut self) -> kernel::Result<&'static [u8]> {
        let length = (self.u32()? as usize).checked_add(1).ok_or(Errno::INVAL)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Errno::INVAL)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// Fills the buffer from a socket.
pub(crate) fn read_exactly(socket: Fd, mut buffer: &mut [u8]) -> kernel::Result<()> {
    while !buffer.is_empty() {
        let length = kernel::read(socket, buffer)?;
        if length == 0 {
            return Err(Errno::INVAL);
        }
        buffer = &mut buffer[length..];
    }
    Ok(())
}
