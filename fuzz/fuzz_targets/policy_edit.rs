//! A policy's text → the same with values added to it.

#![no_main]

#[path = "../../crates/cli/src/commands/why/apply/edit.rs"]
mod edit;
#[path = "../checks/policy_edit.rs"]
mod policy_edit;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    policy_edit::check(bytes);
});
