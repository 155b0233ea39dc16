//! Filters against a server that notes what it is asked for.

#[path = "../../../../fuzz/checks/proxy_wasm_call.rs"]
mod guest;

mod harness;

mod allocator;
mod bounds;
mod buffers;
mod callbacks;
mod calls;
mod faults;
mod finish;
mod general;
mod load;
mod maps;
mod pointers;
mod properties;
mod shared;
mod streams;
mod untrusted;
mod wasi;
