//! What the compiler can't check. The only `unsafe` code of the crate.
#![allow(
    unsafe_code,
    reason = "the engine asks that what a store holds may change threads, and here nothing does"
)]

mod on_thread;

pub(crate) use on_thread::OnThread;
