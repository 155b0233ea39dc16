//! Bytes between two sides.

use super::CHUNK_BYTES;
use rustix::io::Errno;

/// Bytes that were taken and not passed on yet.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    pub(super) bytes: Vec<u8>,
    pub(super) start: usize,
    pub(super) is_over: bool,
}

impl Rest {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    pub(super) fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<usize> {
        self.start = 0;
        self.bytes.resize(CHUNK_BYTES, 0);
        let outcome = read(&mut self.bytes);
        self.bytes.truncate(*outcome.as_ref().unwrap_or(&0));
        outcome
    }

    /// `false` if the other side has no room for all of it.
    pub(super) fn write(
        &mut self,
        mut write: impl FnMut(&[u8]) -> rustix::io::Result<usize>,
    ) -> rustix::io::Result<bool> {
        while !self.is_empty() {
            match write(&self.bytes[self.start..]) {
                Ok(written) => self.start += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }
}
