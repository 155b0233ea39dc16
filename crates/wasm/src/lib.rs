//! The wasm wall: a WebAssembly engine in a worker behind the process wall.
//!
//! ```text
//!  supervisor ──order, code, streams──▶ domain of the process wall
//!      │                                 └─ palisade-worker: engine, WASI
//!      │ cache miss                           └─ guest
//!      └──module──▶ domain that is granted nothing
//!                    └─ palisade-compiler
//! ```
//!
//! Two walls, one policy. The guest sees what its host functions show it; the worker that holds these sees
//! what the policy grants, as any program behind the process wall.
//!
//! This crate is the supervisor's half and knows no engine: linking one would slow the launcher of native
//! programs. `palisade-engine` is the other half.

pub mod cache;
pub mod code;
pub mod compile;
pub mod error;
mod held;
pub mod launch;
pub mod module;
pub mod order;
pub mod plan;
pub mod programs;
pub mod status;
mod sys;
mod wall;

pub use wall::WasmWall;

/// Where the worker has its constants for openat2(2), and why.
pub use palisade_process::seccomp::open_how;
