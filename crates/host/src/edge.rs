//! Where requests come in: sockets, TLS, connections.
//!
//! ```text
//!  listen ──▶ accept ──▶ connection ──▶ check ──▶ form ──▶ Serve::respond
//!  sockets    limit on   TLS, HTTP/1    what may  as all
//!             them all   or HTTP/2      be asked  see it
//!                  └────── watch ──────┘
//!                  what takes too long
//! ```
//!
//! hyper parses, after a look at the bytes of HTTP/1 (`heads`); `check` refuses what it lets through and a service might
//! understand differently; `form` leaves one way to understand the rest. Time is
//! kept in ticks by one sweep a worker, so that no timer is armed for a request (`watch`).

mod accept;
mod body;
mod check;
mod connection;
mod connections;
mod fields;
mod form;
mod heads;
mod host;
mod io;
mod listen;
mod listeners;
mod stream;
mod sys;
mod tls;
mod watch;

pub use body::{Part, Received, ReceivedFault, Sent};
pub use listen::{ListenError, Listening, Name, adopt_inherited, may_filter_sockets};
pub use tls::TlsError;

pub(crate) use accept::{Accepting, Bound};
pub(crate) use connections::Connections;
pub(crate) use listeners::{ListenerChanges, Listeners};
pub(crate) use tls::Certificate;
pub(crate) use watch::{ClientRates, Noticed, Sweep};

use crate::{
    config::{Address, Config, Limits, Listener},
    metrics::Counter,
};
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// What the edge needs of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Edge {
    /// Where requests come in.
    pub listeners: Vec<Listener>,
    /// Bounds of every connection and request.
    pub limits: Limits,
}

impl From<&Config> for Edge {
    fn from(config: &Config) -> Self {
        Self {
            listeners: config.listeners.clone(),
            limits: config.limits.clone(),
        }
    }
}

/// Why the edge could not become what it was asked to be. It is what it was before.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum EdgeError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("cannot start a thread that serves")]
    Thread(#[source] std::io::Error),
    #[error(transparent)]
    Confine(#[from] palisade_process::ConfineError),
    #[error("a worker thread died; restart the server")]
    WorkerGone,
}

/// Something that an operator should know.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant is its message")]
pub enum Notice {
    #[error(
        "this process has no descriptor left for a new connection: clients wait; raise `ulimit -n` or \
         lower `limits.connections`"
    )]
    DescriptorsExhausted,
    #[error("all {0} connections are taken: clients wait; raise `limits.connections`")]
    ConnectionsFull(usize),
    #[error("cannot accept a connection at {address}")]
    Accept {
        address: Name,
        source: std::io::Error,
    },
}

impl Notice {
    pub(crate) fn accept(address: &Address, source: std::io::Error) -> Self {
        Self::Accept {
            address: Name(address.clone()),
            source,
        }
    }
}

/// What one worker's connections came to.
#[derive(Debug, Default)]
pub struct EdgeMetrics {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections now.
    pub connections: Counter,
    /// Requests begun.
    pub requests: Counter,
    /// Requests refused before anything else saw them.
    pub refused: Counter,
    /// Connections ended because the client was too slow.
    pub timed_out: Counter,
    /// TLS handshakes that failed.
    pub handshakes_failed: Counter,
    /// Times that the worker had to wait for a descriptor or for room under the limit.
    pub waits: Counter,
}

/// What all workers have in common.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Connections now, of all workers.
    pub(crate) connections: AtomicUsize,
    /// A worker waits for a descriptor: idle connections are let go sooner.
    pub(crate) starved: AtomicBool,
    /// Clients that have asked a moment ago.
    pub(crate) client_rates: ClientRates,
}
