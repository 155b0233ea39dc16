//! Filters on the path of requests: [proxy-wasm] modules, ABI 0.2.x, in the process of their server.
//!
//! ```text
//!  Filter ──start──▶ Instance ──open──▶ stream          one a request
//!  code, settings    memory, root       headers, bodies, trailers of an Exchange
//!  one a server      one a worker
//! ```
//!
//! This crate knows no server: it calls a module's callbacks, one after the other and on the caller's
//! thread, and what the module asks of its surroundings goes through [`Host`].
//!
//! # One exchange
//!
//! ```text
//!  open ─▶ on_request_headers ─▶ on_request_body … ─▶ on_response_headers ─▶ on_response_body … ─▶ close
//!              │ Pause                                                                    │
//!              └▶ poll_resumed ─▶ goes on, or Exchange::local_response, or is_closed      └▶ done, log, delete
//! ```
//!
//! An [`Exchange`] goes from filter to filter by [`Instance::take`] and [`Instance::put`], which move a pointer.
//! A [`Fault`] ends the instance, and one exchange with it: the others are taken out ([`Instance::streams`]) and
//! opened in a new one.
//!
//! # How it differs from Envoy
//!
//! A module that is made for Envoy finds the same callbacks in the same order, and the same host functions
//! with the same results, but for these:
//!
//! | | here | Envoy |
//! |---|---|---|
//! | fields of the request in callbacks of the response | can be read | `BAD_ARGUMENT` |
//! | `content-length`, `transfer-encoding`, `connection` and others that frame a message | a length can be taken away; all else is left out | as the filter says |
//! | a pseudo field taken away, a path without `/`, an informational status, CONNECT | `BAD_ARGUMENT` | a broken message, refused later |
//! | a map with a length that is wrong | `BAD_ARGUMENT`, nothing changes | an empty map |
//! | queues of another `vm_id` | `NOT_FOUND` | everybody's |
//! | `proxy_on_done` of a stream that is not done | waited for, as the specification has it | not looked at |
//! | a head that a module of 0.2.100 holds while its body comes | goes on: it can't be changed from the body's callback | held |
//! | what goes beyond a bound | `INTERNAL_FAILURE` | most has none |
//! | a function that gives memory, called by the allocator | `INTERNAL_FAILURE` | calls the allocator again |
//! | gRPC calls | `UNIMPLEMENTED` | made |
//! | callbacks and functions of TCP streams | not called, `UNIMPLEMENTED` | for network filters |
//!
//! # What a guest can make grow
//!
//! Its own memory up to [`Limits::memory_bytes`]; of the host's what [`Bounds`] says for an instance and its
//! exchanges, and [`SharedBounds`] for what is shared.
//!
//! [proxy-wasm]: https://github.com/proxy-wasm/spec

mod abi;
mod callbacks;
mod exchange;
mod fault;
mod fields;
mod filter;
mod host;
mod imports;
mod instance;
mod metrics;
mod pairs;
mod parts;
mod phase;
mod properties;
mod settings;
mod shared;
mod space;
mod state;

pub use exchange::{
    Action, Direction, Exchange, LocalResponse, Message, Part, Peer, Properties, StreamId,
};
pub use fault::{Fault, FaultKind, LoadError};
pub use filter::Filter;
pub use host::{CallRefused, Host, HttpCall, HttpCallResponse, LogLevel, Notify};
pub use instance::{Finish, Instance, InstanceMetrics};
pub use metrics::{Histogram, Metric, MetricValue};
pub use palisade_engine::guest::{Isolation, Limits, Program};
pub use settings::{Bounds, Settings, SharedBounds};
pub use shared::Shared;
