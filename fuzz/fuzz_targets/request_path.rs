//! A client's request target → routes and files.

#![no_main]

#[path = "../checks/request_path.rs"]
mod request_path;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    request_path::check(bytes);
});
