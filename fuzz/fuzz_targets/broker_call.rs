//! Memory of a guest that calls → addresses and messages of the broker.

#![no_main]

#[path = "../checks/broker_call.rs"]
mod broker_call;

libfuzzer_sys::fuzz_target!(|memory: &[u8]| {
    broker_call::check(memory);
});
