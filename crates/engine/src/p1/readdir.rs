//! `fd_readdir`.
//!
//! A cookie is the kernel's own (`d_off`): it stays good while the folder changes, and reading on costs no
//! reading anew. Nothing is kept between two calls.

use super::{Context, abi, abi::Rights, errno::Errno, memory::GuestMemory};
use rustix::fs::{RawDir, RawDirEntry, SeekFrom, seek};
use std::mem::MaybeUninit;

/// Bytes before a name: `dirent`.
const HEADER_BYTES: usize = 24;
/// Most that is asked of the kernel at once, in bytes.
const CHUNK_BYTES: usize = 32 * 1024;
/// Least: the longest name fits.
const LEAST_BYTES: usize = 512;

impl Context {
    pub(super) fn fd_readdir(
        &mut self,
        mut memory: GuestMemory<'_>,
        folder: u32,
        buffer: u32,
        length: u32,
        cookie: u64,
        used: u32,
    ) -> Result<(), Errno> {
        memory.check(used, 4)?;
        let out = memory.bytes_mut(buffer, length)?;
        let folder = self.table.get(folder)?.with(Rights::FD_READDIR)?;
        if i64::try_from(cookie).is_err() {
            return Err(Errno::INVALID);
        }
        seek(folder, SeekFrom::Start(cookie))?;
        let mut chunk = [MaybeUninit::uninit(); CHUNK_BYTES];
        // What the guest has room for takes about as many bytes of the kernel's.
        let wanted = out.len().clamp(LEAST_BYTES, CHUNK_BYTES);
        let mut entries = RawDir::new(folder, &mut chunk[..wanted]);
        let mut filled = 0;
        while filled < out.len() {
            match entries.next() {
                Some(entry) => filled += put_entry(&entry?, &mut out[filled..]),
                None => break,
            }
        }
        memory.put_u32(used, filled as u32)
    }
}

/// Writes as much as there is room for; the guest asks for a cut one again.
fn put_entry(entry: &RawDirEntry<'_>, out: &mut [u8]) -> usize {
    let name = entry.file_name().to_bytes();
    let written = put(&header(entry, name.len()), out);
    written + put(name, &mut out[written..])
}

fn header(entry: &RawDirEntry<'_>, name_length: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&entry.next_entry_cookie().to_le_bytes());
    header[8..16].copy_from_slice(&entry.ino().to_le_bytes());
    header[16..20].copy_from_slice(&(name_length as u32).to_le_bytes());
    header[20] = abi::filetype(entry.file_type());
    header
}

fn put(bytes: &[u8], out: &mut [u8]) -> usize {
    let count = bytes.len().min(out.len());
    out[..count].copy_from_slice(&bytes[..count]);
    count
}
