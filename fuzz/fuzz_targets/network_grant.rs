//! Text of a policy → network grants.

#![no_main]

#[path = "../checks/network_grant.rs"]
mod network_grant;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    network_grant::check(text);
});
