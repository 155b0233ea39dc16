//! Text of a server's file → its configuration.

#![no_main]

#[path = "../checks/host_config.rs"]
mod host_config;

libfuzzer_sys::fuzz_target!(|text: &[u8]| {
    host_config::check(text);
});
