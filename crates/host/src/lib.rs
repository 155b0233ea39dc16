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

pub mod account;
pub mod admin;
pub mod body;
mod budget;
mod chain;
pub mod component;
pub mod config;
pub mod edge;
mod fields;
pub mod figures;
pub mod files;
mod filters;
pub mod io;
pub mod kinds;
pub mod log;
mod memory;
pub mod path;
pub mod program;
pub mod reload;
mod request;
mod responses;
pub mod route;
pub mod server;
pub mod site;
mod stamp;
mod turns;
pub mod upstream;
pub mod worker;
