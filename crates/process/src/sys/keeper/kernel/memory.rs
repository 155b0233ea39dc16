//! Memory: whole pages of the kernel's, for there is no heap.

use super::{Errno, Result, call6, number};

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

/// Gives memory of [`allocate`] back.
pub(crate) fn release(memory: &'static mut [u8]) {
    // SAFETY: the slice is a whole mapping of `allocate` and this was its only reference.
    let _ = unsafe { call!(number::MUNMAP, memory.as_mut_ptr(), memory.len()) };
}

/// Gives the whole pages of memory back: they read as zero until somebody writes to them again.
pub(crate) fn empty(memory: &mut [u8]) {
    const PAGE: usize = 4096;
    const DONT_NEED: usize = 4;
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let end = (memory.as_ptr() as usize + memory.len()) / PAGE * PAGE;
    if start < end {
        // SAFETY: these pages lie within the slice, and zero is a value of its bytes (madvise(2)).
        let _ = unsafe { call!(number::MADVISE, start, end - start, DONT_NEED) };
    }
}

/// Has the kernel map all of this program's code now (madvise(2)). One that cannot, before Linux 5.14, does as it is executed.
pub(crate) fn populate_code() {
    const POPULATE_READ: usize = 22;
    const PAGE: usize = 4096;
    // Made by the linker, at the ends of the program's code.
    unsafe extern "C" {
        static __executable_start: u8;
        static etext: u8;
    }
    let start = (&raw const __executable_start) as usize;
    let end = (&raw const etext) as usize;
    // SAFETY: this program is mapped from there to there, and no byte of it changes.
    let _ = unsafe {
        call!(
            number::MADVISE,
            start,
            (end - start).next_multiple_of(PAGE),
            POPULATE_READ
        )
    };
}

/// One mapping of which parts are given out, one behind the other, until all are given back together.
pub(crate) struct Pool {
    start: *mut u8,
    length: usize,
    used: usize,
}

impl Pool {
    pub(crate) fn new(length: usize) -> Result<Self> {
        let memory = allocate(length.max(1))?;
        Ok(Self {
            start: memory.as_mut_ptr(),
            length: memory.len(),
            used: 0,
        })
    }

    /// Whether so much can be taken.
    pub(crate) fn has(&self, length: usize) -> bool {
        length <= self.length - self.used
    }

    /// Has the kernel find its pages now (madvise(2)); one that cannot, before Linux 5.14, does when they are written to.
    pub(crate) fn populate(&mut self) {
        const POPULATE_WRITE: usize = 23;
        // SAFETY: the mapping is this value's, and no byte of it changes.
        let _ = unsafe { call!(number::MADVISE, self.start, self.length, POPULATE_WRITE) };
    }

    /// So many bytes, all zero.
    pub(crate) fn take(&mut self, length: usize) -> Result<&'static mut [u8]> {
        let end = self.used.checked_add(length);
        let end = end.filter(|end| *end <= self.length).ok_or(Errno::INVAL)?;
        // SAFETY: this part of the mapping was given to nobody before, and it is there until `release`, whose caller
        // promises that nobody has a part any more.
        let part = unsafe { core::slice::from_raw_parts_mut(self.start.add(self.used), length) };
        self.used = end;
        Ok(part)
    }

    /// So many pointers, all null.
    pub(crate) fn take_pointers(&mut self, count: usize) -> Result<&'static mut [*const u8]> {
        const BYTES: usize = size_of::<*const u8>();
        self.used = self.used.next_multiple_of(BYTES);
        let part = self.take(count.checked_mul(BYTES).ok_or(Errno::INVAL)?)?;
        // SAFETY: the mapping begins at a page and the part at a multiple of a pointer's size; it holds `count` of them,
        // and zero is the null pointer.
        Ok(unsafe { core::slice::from_raw_parts_mut(part.as_mut_ptr().cast(), count) })
    }

    /// The same, copied.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Result<&'static [u8]> {
        let part = self.take(bytes.len())?;
        part.copy_from_slice(bytes);
        Ok(part)
    }

    /// Gives all of it back.
    ///
    /// # Safety
    ///
    /// Nobody may use a part that was given out any more.
    pub(crate) unsafe fn release(self) {
        // SAFETY: `new` made the mapping, and by the caller's promise nothing points into it any more.
        release(unsafe { core::slice::from_raw_parts_mut(self.start, self.length) });
    }
}
