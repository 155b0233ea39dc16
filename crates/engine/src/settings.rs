//! The three configurations. The compiler and whoever runs its code must agree on every setting: both ask here.

use wasmtime::Config;

/// Stack of a guest, in bytes: as much as a native program's main thread has (8 MiB), a guest's call
/// frames being about as large.
pub const STACK_BYTES: usize = 8 << 20;

/// Programs: one guest in a process of its own, which is behind the process wall.
///
/// Time is the process wall's to limit, so the code carries no checks for it.
pub fn command() -> Config {
    let mut config = Config::new();
    config.max_wasm_stack(STACK_BYTES);
    config.async_stack_size(STACK_BYTES + (1 << 20));
    config.wasm_component_model_async(true);
    // WASI's addresses have 32 bits.
    config.wasm_memory64(false);
    config
}
