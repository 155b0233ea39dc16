//! Arguments, environment, random bytes and what is left of a process.

use super::{Context, errno::Errno, memory::GuestMemory};
use crate::sys;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

type Result<T = ()> = std::result::Result<T, Errno>;

/// Strings with a zero behind each, and where each begins: what `args_get` and `environ_get` copy.
#[derive(Debug, Default)]
pub(super) struct Strings {
    bytes: Vec<u8>,
    starts: Vec<u32>,
}

impl Strings {
    /// Adds one, of several pieces.
    pub(super) fn push(&mut self, pieces: &[&OsStr]) {
        self.starts.push(self.bytes.len() as u32);
        for piece in pieces {
            self.bytes.extend_from_slice(piece.as_bytes());
        }
        self.bytes.push(0);
    }

    fn put_sizes(&self, mut memory: GuestMemory<'_>, count: u32, bytes: u32) -> Result {
        memory.check(bytes, 4)?;
        memory.put_u32(count, self.starts.len() as u32)?;
        memory.put_u32(bytes, self.bytes.len() as u32)
    }

    fn put(&self, mut memory: GuestMemory<'_>, pointers: u32, buffer: u32) -> Result {
        memory.check(buffer, self.bytes.len() as u32)?;
        let list = memory.bytes_mut(pointers, self.starts.len() as u32 * 4)?;
        for (out, start) in list.chunks_exact_mut(4).zip(&self.starts) {
            // No overflow: the buffer ends within the memory.
            out.copy_from_slice(&(buffer + start).to_le_bytes());
        }
        memory
            .bytes_mut(buffer, self.bytes.len() as u32)?
            .copy_from_slice(&self.bytes);
        Ok(())
    }
}

impl Context {
    pub(super) fn args_sizes_get(
        &mut self,
        memory: GuestMemory<'_>,
        count: u32,
        bytes: u32,
    ) -> Result {
        self.arguments.put_sizes(memory, count, bytes)
    }

    pub(super) fn args_get(
        &mut self,
        memory: GuestMemory<'_>,
        pointers: u32,
        buffer: u32,
    ) -> Result {
        self.arguments.put(memory, pointers, buffer)
    }

    pub(super) fn environ_sizes_get(
        &mut self,
        memory: GuestMemory<'_>,
        count: u32,
        bytes: u32,
    ) -> Result {
        self.environment.put_sizes(memory, count, bytes)
    }

    pub(super) fn environ_get(
        &mut self,
        memory: GuestMemory<'_>,
        pointers: u32,
        buffer: u32,
    ) -> Result {
        self.environment.put(memory, pointers, buffer)
    }

    pub(super) fn random_get(
        &mut self,
        mut memory: GuestMemory<'_>,
        buffer: u32,
        length: u32,
    ) -> Result {
        Ok(sys::fill_randomly(memory.bytes_mut(buffer, length)?)?)
    }

    pub(super) fn sched_yield(&mut self, _: GuestMemory<'_>) -> Result {
        rustix::thread::sched_yield();
        Ok(())
    }

    /// A guest has no signals: wasi-libc raises its own without asking.
    pub(super) fn proc_raise(&mut self, _: GuestMemory<'_>, _signal: u32) -> Result {
        Err(Errno::NOT_SUPPORTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_lie_one_after_the_other() {
        let mut strings = Strings::default();
        strings.push(&["ab".as_ref()]);
        strings.push(&["c".as_ref(), "=".as_ref(), "d".as_ref()]);
        let mut bytes = [9; 32];
        strings.put(GuestMemory(&mut bytes), 4, 16).unwrap();
        assert_eq!(&bytes[..12], &[9, 9, 9, 9, 16, 0, 0, 0, 19, 0, 0, 0]);
        assert_eq!(
            &bytes[16..],
            b"ab\0c=d\0\x09\x09\x09\x09\x09\x09\x09\x09\x09"
        );
        let refused = |pointers, buffer| {
            let mut bytes = [0; 32];
            strings.put(GuestMemory(&mut bytes), pointers, buffer)
        };
        assert_eq!(refused(4, 26), Err(Errno::FAULT));
        assert_eq!(refused(25, 0), Err(Errno::FAULT));
        assert_eq!(refused(u32::MAX, u32::MAX), Err(Errno::FAULT));
    }
}
