//! A guest's arguments and memory → the host functions of WASI preview 1.

#![no_main]

#[path = "../checks/host_call.rs"]
mod host_call;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    host_call::check(bytes);
});
