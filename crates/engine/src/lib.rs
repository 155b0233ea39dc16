//! WebAssembly guests: Wasmtime in three configurations, WASI, and the worker that runs a program.
//!
//! | configuration | guests | what is on |
//! |---|---|---|
//! | [`palisade_compiler::settings::filter`] | plugins of a server, called many times | core modules, synchronous; pooled instances |
//! | [`palisade_compiler::settings::service`] | components that answer requests | components, asynchronous; pooled instances |
//! | [`palisade_compiler::settings::command`] | programs with a `main` | WASI preview 1 modules; components of WASI 0.2 and 0.3 |
//!
//! None has threads, shared memory, garbage collection or exceptions: each is surface that no guest here
//! needs. A guest that asks for one is refused when it is compiled.

mod component;
pub mod ended;
mod folders;
pub mod growth;
pub mod guest;
pub mod handles;
mod http;
mod limits;
pub mod lock;
pub mod p1;
pub mod permits;
mod resolve;
pub mod service;
mod status_pipe;
mod stream;
mod sys;
pub mod worker;
