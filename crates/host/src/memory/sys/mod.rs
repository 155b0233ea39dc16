//! What the C library's allocator tells, and is told.
#![allow(unsafe_code, reason = "both are the C library's own functions")]

/// Bytes that were allocated and not freed, and those that were freed, of all arenas (mallinfo(3)). What has a mapping of its own is not among them:
/// it is gone with its free(3).
#[cfg(target_env = "gnu")]
pub(super) fn used_and_free_bytes() -> (usize, usize) {
    // SAFETY: it has no argument, and takes the locks that it needs.
    let told = unsafe { libc::mallinfo2() };
    (told.uordblks, told.fordblks)
}

/// Gives whole free pages of all arenas back to the kernel (malloc_trim(3)).
#[cfg(target_env = "gnu")]
pub(super) fn give_back() {
    // SAFETY: it takes a number, and the locks that it needs.
    unsafe { libc::malloc_trim(0) };
}

/// Another C library has an allocator of its own, which sees to it.
#[cfg(not(target_env = "gnu"))]
pub(super) fn used_and_free_bytes() -> (usize, usize) {
    (0, 0)
}

/// See above.
#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back() {}
