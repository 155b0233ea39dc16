//! Memory: whole pages of the kernel's, for there is no heap.

use super::{Result, call6, number};

/// Anonymous private memory that is given back when the process ends.
pub(crate) fn allocate(length: usize) -> Result<&'static mut [u8]> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let address = unsafe {
        call!(
            number::MMAP,
            0,
            length,
            PROT_READ_WRITE,
            MAP_PRIVATE_ANONYMOUS,
            -1isize,
            0
        )?
    };
    // SAFETY: the mapping is `length` zeroed bytes, aligned to a page, and nothing else points to it.
    Ok(unsafe { core::slice::from_raw_parts_mut(address as *mut u8, length) })
}

/// Gives memory of [`allocate`] back that was read by many.
///
/// # Safety
///
/// It is a whole mapping of `allocate`, and nobody reads it again.
pub(crate) unsafe fn release_read(memory: &'static [u8]) {
    // SAFETY: the caller's word.
    let _ = unsafe { call!(number::MUNMAP, memory.as_ptr(), memory.len()) };
}

/// Gives memory of [`allocate`] back.
pub(crate) fn release(memory: &'static mut [u8]) {
    // SAFETY: the slice is a whole mapping of `allocate` and this was its only reference.
    let _ = unsafe { call!(number::MUNMAP, memory.as_mut_ptr(), memory.len()) };
}
