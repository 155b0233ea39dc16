//! The server's parts, by real sockets.

mod access;
mod config;
mod control;
mod edge;
#[path = "../../../../fuzz/checks/edits.rs"]
mod edits;
mod files;
mod path;
mod program;
#[path = "../shared/raw_http.rs"]
mod raw_http;
#[path = "../shared/served.rs"]
mod served;
mod tenants;
mod upstream;
