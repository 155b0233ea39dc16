//! What is called before `main`, and before Rust's runtime is set up for it; and what comes last, after it.
#![allow(
    unsafe_code,
    reason = "the linker is told where a pointer goes, and the C library calls what it points to; calls without a wrapper at the end"
)]

use std::{ptr, slice};

const PAGE: usize = 4096;

/// The C library calls what this section points to, one after another. Rust's own entry, which keeps the arguments for
/// [`std::env::args_os`], stands before (`.init_array.00099`); where there is none no arguments are seen here.
// SAFETY: it has the type of what the section holds, and uses nothing that the runtime sets up (`early::begin`).
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[used]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    super::begin();
}

/// What the C library calls for Rust's own `main`. It does what of the runtime's start matters to a program: a standard stream
/// that is closed is `/dev/null`, and a reader that has gone is an error (`EPIPE`) and no signal.
// SAFETY: the program has no other of that name, and this one has the type that the C library calls it with.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code, reason = "tests have a `main` of their own"))]
extern "C" fn main(_count: libc::c_int, _arguments: *const *const libc::c_char) -> libc::c_int {
    /// What the runtime ends with where somebody panics.
    const PANICKED: u8 = 101;
    super::open_missing_streams();
    if super::has_begun() {
        populate_memory();
    }
    // SAFETY: nothing else handles signals yet (signal(7)).
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let code = std::panic::catch_unwind(crate::run).unwrap_or(PANICKED);
    // As the runtime does at its end.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    code.into()
}

/// Has the kernel make at once the pages of heap and stack that a start comes to use: one at a time, when each is first touched,
/// they take several times as long. Before Linux 5.14 it knows nothing of this, and they come so.
fn populate_memory() {
    /// What the C library begins its heap with (`M_TOP_PAD` of mallopt(3)), and how much of that every start uses.
    const HEAP: usize = 128 << 10;
    const USED: usize = 96 << 10;
    const STACK: usize = 36 << 10;
    // SAFETY: it is asked where the heap ends, and changes nothing.
    let heaps_end = unsafe { libc::sbrk(0) }.addr();
    let here = 0u8;
    let stacks_end = (&raw const here).addr();
    let heap = heaps_end.saturating_sub(HEAP);
    let stack = stacks_end.saturating_sub(STACK);
    for (start, length) in [(heap, USED), (stack, STACK)] {
        let start = start / PAGE * PAGE;
        let address = ptr::without_provenance_mut(start);
        // SAFETY: pages that are there already stay as they are; elsewhere the kernel makes what a touch would (madvise(2)).
        let _ = unsafe { libc::madvise(address, length, libc::MADV_POPULATE_WRITE) };
    }
}

/// The end of this process, with nothing in between (_exit(2)).
pub(super) fn end(code: u8) -> ! {
    // What counts its own steps (`tools/profile`) writes them down at exit(3).
    if cfg!(counting) {
        std::process::exit(code.into());
    }
    // SAFETY: it ends all threads at once; none holds what outlives this process.
    unsafe { libc::_exit(code.into()) }
}

/// Takes the program's pages that are only read out of the page table, as many as there are: whatever is used again comes back
/// from the page cache. To end a process the kernel takes out each page that is left, while somebody waits for that end.
pub(super) fn let_go_of_own_pages() {
    // SAFETY: it has no conditions.
    let [headers, count] =
        [libc::AT_PHDR, libc::AT_PHNUM].map(|kind| unsafe { libc::getauxval(kind) });
    let headers = ptr::with_exposed_provenance::<libc::Elf64_Phdr>(headers as usize);
    if headers.is_null() {
        return;
    }
    // SAFETY: the kernel tells where the program's headers are and how many (getauxval(3)); nobody changes them.
    let headers = unsafe { slice::from_raw_parts(headers, count as usize) };
    let own = headers.iter().find(|header| header.p_type == libc::PT_PHDR);
    let Some(own) = own else { return };
    let base = (headers.as_ptr() as usize).wrapping_sub(own.p_vaddr as usize);
    let is_read = |header: &&libc::Elf64_Phdr| {
        header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0
    };
    for header in headers.iter().filter(is_read) {
        let start = base.wrapping_add(header.p_vaddr as usize);
        let end = (start + header.p_filesz as usize) / PAGE * PAGE;
        let start = start.next_multiple_of(PAGE);
        if start < end {
            let address = ptr::with_exposed_provenance_mut(start);
            // SAFETY: these pages are of this command's file, nobody may write to them and nothing in it maps others there: they come
            // back as they are (madvise(2)). A host's program may have its code elsewhere than in its file, so this is no library's.
            let _ = unsafe { libc::madvise(address, end - start, libc::MADV_DONTNEED) };
        }
    }
}
