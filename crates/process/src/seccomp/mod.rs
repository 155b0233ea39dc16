//! The system-call filter: what a guest may ask the kernel for.
//!
//! ```text
//!   Groups ──allow_list──▶ Filter ──compile──▶ [Instruction]      (loading it is not done here)
//!   what the plan needs    data: number → rule   classic BPF
//! ```
//!
//! All of this is pure data without `unsafe`. The program that comes out is handed to
//! `seccomp(SECCOMP_SET_MODE_FILTER)` by the launch path.
//!
//! Why not libseccomp or seccompiler: the filter is made and loaded at every start, so its size and
//! the order of its tests are start-up time, and they are all that this compiler is about. List and
//! program together take ten microseconds. When the kernel loads a program it walks it once for each
//! of its calls: one that compares 256 numbers one after the other takes 0.5 ms to load here, the
//! present one 0.06 ms. And afterwards a call costs 5 ns more than without a filter where the kernel
//! answers it from its bitmap, and 20 ns where the program runs; the bitmap applies only if no
//! argument is read on the way to an `ALLOW`, which [`compile`](compile()) promises and its tests check.
//!
//! What a filter cannot see: memory behind a pointer. Calls that keep what matters there
//! (`clone3`, `openat2`, io_uring) are absent where it matters; [`open_how`] is the exception.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the system-call table is written for x86-64 and aarch64");

mod allow_list;
mod apart;
mod compile;
mod container;
mod describe;
mod filter;
mod instruction;
#[cfg(test)]
mod machine;
pub mod open_how;
mod prctl;
mod rules;
mod sockets;
mod supervisor;
mod syscalls;
#[cfg(test)]
mod tests;

pub use allow_list::{Groups, NEW_NAMESPACES, allow_list};
pub(crate) use apart::{proxy, relay};
pub(crate) use compile::program;
pub use compile::{CompileError, compile};
pub(crate) use container::init;
pub use container::{Remedy, attendant, container, container_refusals, container_remedy, watched};
pub use describe::Description;
pub use filter::{Action, Argument, Case, Check, Expect, Filter, Rule, Test, Width, int, long};
pub use instruction::Instruction;
pub use sockets::HostNetwork;
pub(crate) use supervisor::{broker, holder, maker, supervisor};
pub use syscalls::{call_name, call_number};
