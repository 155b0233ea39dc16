//! Bytes of a guest's → the proxy for wildcards.

#![no_main]

#[path = "../checks/connect_request.rs"]
mod connect_request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    connect_request::check(bytes);
});
