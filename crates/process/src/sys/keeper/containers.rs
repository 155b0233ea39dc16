//! The keeper of one container: a program like the keeper of domains (`main.rs`), for what engines call a container.
//!
//! ```text
//! the engine's monitor            a subreaper, prctl(2)
//!   ├─ palisade-oci create        leaves once the container waits for its start
//!   ├─ keeper                     stays; ends the container with itself, and itself with the container
//!   └─ init                       PID 1 of the container's pid namespace
//!        └─ the container's program
//! ```
//!
//! All three are children of whoever is the monitor's: the keeper makes init with `CLONE_PARENT`, so that the monitor can wait
//! for the process whose pid it was told, as it does with every runtime. Init ends with the program's status. It watches the
//! keeper by a pidfd and ends everything with it; a guest cannot end init, which is PID 1.
//!
//! Where the pid namespace is joined, init is an ordinary process in it and the keeper ends by the control group what init leaves.

#![allow(
    unsafe_code,
    reason = "a program of system calls, all of it under sys/"
)]
#![no_std]
#![no_main]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the process wall speaks the x86-64 Linux system call ABI only");

mod container;
#[allow(
    dead_code,
    reason = "the keeper of domains makes calls that this one does not"
)]
mod kernel;
#[allow(dead_code, reason = "as above")]
mod message;
mod perform;
mod record;
#[allow(dead_code, reason = "as above")]
mod text;
mod title;
#[allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    missing_docs,
    reason = "the other end of each message uses the rest"
)]
#[path = "../../wire.rs"]
mod wire;

use title::Title;

fn exit(code: i32) -> ! {
    kernel::exit(code)
}

extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the entry point passes what the kernel left.
    let title = unsafe { Title::of_stack(stack) };
    title.set(b"palisade-keeper");
    let _ = kernel::set_session();
    // Whoever ignores it has no children to wait for (wait(2)).
    kernel::set_default_action(kernel::SIGCHLD);
    let _ = kernel::set_signal_mask(u64::MAX);
    let _ = kernel::close_from(3);
    container::serve(title)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Reached only by a bug. Ending here ends the container.
    exit(125)
}

/// Core's prebuilt objects name it; nothing unwinds here.
#[allow(unsafe_code, reason = "an exported symbol name")]
// SAFETY: the symbol has no other definition in a program without std.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
