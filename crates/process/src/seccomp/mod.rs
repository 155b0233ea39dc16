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
//! Why not libseccomp or seccompiler: the filter is made at every start, and the whole of it takes
//! some ten microseconds here; libseccomp is a C library that the static launcher would carry, and
//! needs about a millisecond for as many rules. And the order of the tests decides what a call
//! costs: the kernel answers a call from a bitmap only when no argument is read on the way to its
//! `ALLOW`, which [`compile`] promises and its tests check.
//!
//! What a filter cannot see: memory behind a pointer. Calls that keep what matters there
//! (`clone3`, `openat2`, io_uring) are absent where it matters.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the system-call table is written for x86-64 and aarch64");

mod allow_list;
mod compile;
mod describe;
mod filter;
mod instruction;
#[cfg(test)]
mod machine;
mod prctl;
mod syscalls;
#[cfg(test)]
mod tests;

pub use allow_list::{Groups, allow_list};
pub use compile::{CompileError, compile};
pub use describe::Description;
pub use filter::{Action, Argument, Case, Check, Expect, Filter, Rule, Test, Width, int, long};
pub use instruction::Instruction;
pub use syscalls::name;
