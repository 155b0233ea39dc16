//! `palisade serve`: code of others on the path of real requests.
//!
//! ```text
//!  accept ──▶ connection ──▶ route ──▶ filters ──▶ service ──▶ filters ──▶ response ──▶ record
//!  edge       edge           request   chain       services    chain       edge         record
//!                                      proxy-wasm  files, other servers, programs behind
//!                                                  the process wall, wasi:http components
//! ```
//!
//! One thread a processor, each with sockets, instances and connections of its own: no lock and no other
//! thread stands between a request and its response.
//!
//! # Layers
//!
//! Each module stands on those below it, and needs none above it.
//!
//! | modules | what they are, and what they stand on |
//! |---|---|
//! | [`server`] | The whole: a configuration's file, the threads, the signals. Stands on all others. |
//! | [`reload`], [`admin`] | From one configuration to the next, and what operators ask. Know of what serves only its metrics and its log. |
//! | [`worker`] | The threads. Stands on the edge, and on whatever implements [`serve::Serve`]. |
//! | `request` | One request through route, filters and service: [`serve::Serve`] for a worker's state. |
//! | [`worker_state`] | What one worker makes of a generation: route targets, filters' handles, services. |
//! | [`generation`] | A configuration, loaded. Stands on filters and services. |
//! | `chain` | One request through the filters of its route. Stands on filters alone. |
//! | `filters`, [`services`] | What guests are on a worker. Neither knows the other; both ask other servers by the client. |
//! | [`edge`] | Listeners, connections, what may be asked. Knows of what serves the trait [`serve::Serve`]. |
//! | [`serve`] | The one trait between connections and what they are served with. |
//! | [`record`] | What is told of a request: by metrics and the log. |
//! | [`client`] | Connections to other servers. |
//! | [`metrics`], [`log`], [`route`], `budget` | What is counted, written, chosen and spent, as the configuration has it. |
//! | [`config`] | What was asked for. |
//! | [`kinds`], [`body`], [`path`], [`lookup`], [`io`], `beneath`, `fields`, `permits`, `responses`, `stamp`, `memory` | The ground: each stands alone, or on bodies. |

pub mod admin;
pub mod aside;
mod aside_thread;
mod beneath;
pub mod body;
mod budget;
mod chain;
pub mod client;
pub mod code;
pub mod config;
pub mod edge;
mod fields;
mod filters;
pub mod generation;
pub mod io;
pub mod kinds;
pub mod log;
pub mod lookup;
mod memory;
pub mod metrics;
pub mod path;
mod permits;
mod quota;
pub mod record;
pub mod reload;
mod request;
mod responses;
pub mod route;
pub mod serve;
pub mod server;
pub mod services;
mod stamp;
mod turns;
mod withheld;
pub mod worker;
pub mod worker_state;
