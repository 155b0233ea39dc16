//! The worker binary, with the descriptors that its supervisor would pass, and guests of one concern each.
//!
//! Guests are C programs of `guests/wasi`, compiled here by Debian's clang-19 with wasi-libc, and modules in
//! text where C has no words for it.

mod constants;
mod escapes;
mod files;
mod folders;
mod harness;
mod listeners;
mod pointers;
mod process;
mod refusals;
mod rights;
mod timers;
mod traps;
