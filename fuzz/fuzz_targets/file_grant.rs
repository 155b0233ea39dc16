//! Text of a policy → grants of files, and patterns of what is hidden.

#![no_main]

#[path = "../checks/file_grant.rs"]
mod file_grant;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    file_grant::check(text);
});
