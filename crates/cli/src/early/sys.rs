//! What is called before `main`, and before Rust's runtime is set up for it.
#![allow(
    unsafe_code,
    reason = "the linker is told where a pointer goes, and the C library calls what it points to"
)]

/// The C library calls what this section points to, one after another. Rust's own entry, which keeps the arguments for
/// [`std::env::args_os`], stands before (`.init_array.00099`); where there is none no arguments are seen here.
// SAFETY: it has the type of what the section holds, and uses nothing that the runtime sets up (`early::begin`).
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[used]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    super::begin();
}

/// The end of this process, with nothing in between (_exit(2)).
pub(super) fn end(code: u8) -> ! {
    // SAFETY: it ends all threads at once; none holds what outlives this process.
    unsafe { libc::_exit(code.into()) }
}
