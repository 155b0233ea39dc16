//! A filter's arguments and memory → the host functions of proxy-wasm.

#![no_main]

#[path = "../checks/proxy_wasm_call.rs"]
mod proxy_wasm_call;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    proxy_wasm_call::check(bytes);
});
