//! A WebAssembly program, as somebody gives it → the compiler, and the worker that sets it up.

#![no_main]

#[path = "../checks/wasm_module.rs"]
mod wasm_module;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    wasm_module::check(bytes);
});
