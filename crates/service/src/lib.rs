//! Services: `wasi:http` components in the process of their server.
//!
//! ```text
//!  Component ──Worker::new──▶ Worker ──answer──▶ instance ──▶ head, then the body as it comes
//!  policy: one for all         of one thread      fresh for each request, or kept
//!  threads                                          ▲
//!     └────────────link────────▶ Code ──────────────┘
//!                                loaded when it is needed, one for all threads
//! ```
//!
//! A component exports `wasi:http/incoming-handler` of WASI 0.2 or `wasi:http/handler` of 0.3. Its guest is
//! driven by the task of the connection that asked: no task is spawned for a request and no channel stands
//! between, unless the guest goes on when its response has gone out.
//!
//! # What holds a guest
//!
//! | a guest that | is held by |
//! |---|---|
//! | reads or writes past its memory, jumps somewhere, recurses | the engine, as [`palisade_engine::guest`] says |
//! | loops or waits | `limits.time` of a request; a loop gives others their turn every few ms |
//! | computes | `limits.cpu-time` of a request |
//! | grows | `limits.memory` of an instance |
//! | opens handles, hands over long lists | bounds of this crate |
//! | keeps many requests waiting | its [share](palisade_engine::permits) of the pool on each thread |
//! | opens files | preopens of granted folders, each path resolved by the kernel below them (openat2(2)); FIFOs, sockets and devices are refused |
//! | sends requests | the verdict on each: `grants.connect`; 32 at one time of an instance, 256 of a thread's |
//! | opens sockets, looks names up | nobody may |
//! | writes to stdout and stderr | `limits.output` of a request; lines go to the service's log |
//!
//! Nothing is granted that the policy does not name. One wall only: who breaks out of the engine is in the
//! server.
//!
//! # What a request gets whose guest fails
//!
//! | the guest | status |
//! |---|---|
//! | traps, exits, runs out of time or memory, sets no response | 500 |
//! | waits for its client until its time is up | 408, and it is not the guest's fault |
//! | answers with an error code of its own | 500 |
//! | answers with an error code about a server that it asked | 502, or 504 for a timeout |
//! | can't be started, as all instances are in use | 503, after a wait for one of the service's own |
//! | fails when its response's head has gone out | the body breaks off |
//!
//! The instance is gone then; the next request gets another.

mod body;
mod call;
mod code;
mod component;
mod context;
mod drive;
mod fault;
mod host;
mod journal;
mod limits;
mod load;
mod open;
mod outgoing;
mod reach;
mod request_body;
mod response;
mod sends;
mod shared;
mod state;
mod sys;
mod worker;

pub use code::{Code, Imports, World};
pub use component::Component;
pub use fault::Fault;
pub use host::{
    AnyBody, BodyError, Denied, Done, Errand, Host, SendError, Sending, Stream, Target, Times,
};
pub use load::{Isolation, LoadError};
pub use reach::{Links, Reach, ReachError};
pub use response::ResponseBody;
pub use worker::{Worker, ask_oldest_to_leave};
