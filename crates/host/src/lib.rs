//! `palisade serve`: code of others on the path of real requests.
//!
//! ```text
//!  listener ──▶ route ──▶ filter ──▶ filter ──▶ service
//!                         proxy-wasm            wasi:http component, program behind the process wall,
//!                                               files, another server
//! ```
//!
//! One thread a processor, each with sockets, instances and connections of its own: no lock and no other
//! thread stands between a request and its answer.

pub mod admin;
pub mod body;
mod budget;
mod chain;
pub mod client;
pub mod config;
pub mod edge;
mod fields;
mod filters;
pub mod generation;
pub mod io;
pub mod kinds;
pub mod log;
mod memory;
pub mod metrics;
pub mod path;
mod permits;
pub mod record;
pub mod reload;
mod request;
mod responses;
pub mod route;
pub mod serve;
pub mod server;
pub mod services;
mod stamp;
pub mod worker;
pub mod worker_state;
