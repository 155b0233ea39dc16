//! The keeper: the small program that makes domains, stands at their head and cleans up after them.
//!
//! It is a static program without a C library, embedded in this crate and started from a sealed
//! memory file, so that a big multi-threaded host never forks itself and nothing of the host's
//! memory is shared with a half-made domain.
//!
//! ```text
//! supervisor (the caller)
//!   └─ keeper           outside; one per launcher; kills and cleans when the supervisor is gone
//!        └─ init        PID 1 of the domain's namespaces: builds the root, reaps, keeps time
//!             └─ guest
//! ```
//!
//! A domain is *parked* before it is needed: its namespaces exist and init waits for one launch
//! message. What a guest is and may do arrives in that message, as a list of instructions
//! (`wire::op`). Keeper and init read messages from their supervisor only.

#![allow(
    unsafe_code,
    reason = "a program of system calls, all of it under sys/"
)]
#![no_std]
#![no_main]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the process wall speaks the x86-64 Linux system call ABI only");

mod clean;
mod door;
mod holder;
mod init;
mod kernel;
mod maker;
mod message;
mod namespace;
mod park;
mod perform;
mod privileges;
mod quotas;
mod record;
mod text;
mod title;
#[allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "the other end of each message uses the rest"
)]
#[path = "../../wire.rs"]
mod wire;

use kernel::{Errno, Fd};
use record::{record_bytes, record_from, send_record};
use title::Title;
use wire::{Record, Step};

/// The control socket, as the supervisor arranged it.
const CONTROL: Fd = 0;
/// A pidfd of the supervisor.
const SUPERVISOR: Fd = 1;

/// `/dev/null`.
const NOTHING: Fd = 2;

/// A step that failed, which of its items, and the kernel's answer.
struct Failure {
    step: Step,
    item: u32,
    errno: Errno,
}

/// Names the step in which a call failed.
trait During<T> {
    fn during(self, step: Step, item: u32) -> Result<T, Failure>;
}

impl<T> During<T> for kernel::Result<T> {
    fn during(self, step: Step, item: u32) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step, item, errno })
    }
}

fn exit(code: i32) -> ! {
    kernel::exit(code)
}

extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the entry point passes what the kernel left.
    let title = unsafe { Title::of_stack(stack) };
    title.set(wire::KEEPERS_TITLE);
    // The keeper outlives Ctrl-C at the terminal of its supervisor: it is what cleans up.
    let _ = kernel::set_session();
    // Both are inherited. Whoever ignores the first has no children to wait for (wait(2)); Rust's
    // runtime ignores the other in every program of its own.
    kernel::set_default_action(kernel::SIGCHLD);
    kernel::set_default_action(kernel::SIGPIPE);
    let _ = kernel::set_signal_mask(u64::MAX);
    let _ = kernel::close_from(3);
    park::serve(title)
}

fn failed(kind: u64, failure: &Failure) -> Record {
    let mut record = Record {
        kind,
        ..Record::default()
    };
    record.words[0] = failure.step as u64;
    record.words[1] = u64::from(failure.item);
    record.words[2] = u64::from(failure.errno.0);
    record
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // Reached only by a bug. Ending here ends the domain: init is its PID 1, the keeper its parent.
    exit(125)
}

/// Core's prebuilt objects name it; nothing unwinds here.
#[allow(unsafe_code, reason = "an exported symbol name")]
// SAFETY: the symbol has no other definition in a program without std.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
