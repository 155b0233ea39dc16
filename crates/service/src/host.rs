//! What a server does for its services. One for each service and worker.

use crate::Fault;
use bytes::Bytes;
use std::{pin::Pin, time::Duration};

/// Why a body broke off.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body of any kind, which stays on its thread.
pub type AnyBody = Pin<Box<dyn http_body::Body<Data = Bytes, Error = BodyError>>>;

/// A request under way.
pub type Sending = Pin<Box<dyn Future<Output = Result<http::Response<AnyBody>, SendError>>>>;

/// What a guest goes on with when its response has gone out.
pub type Errand = Pin<Box<dyn Future<Output = ()>>>;

/// Where a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The guest's standard output.
    Stdout,
    /// The guest's standard error.
    Stderr,
    /// This crate, about the guest: faults and denials.
    Wall,
}

/// What one request came to.
#[derive(Debug)]
pub struct Done<'a> {
    /// Time in the guest's code and its host functions, in ns.
    pub cpu_ns: u64,
    /// Why the guest did not answer as it should have.
    pub fault: Option<&'a Fault>,
}

/// Whom a request is sent to. The policy grants some of what the host stands for; whoever connects asks
/// [`Reach::gate`](crate::Reach::gate) about each address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name or address that the guest asked for, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether to speak TLS.
    pub tls: bool,
}

/// How long the guest is willing to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// For a connection.
    pub connect: Option<Duration>,
    /// For the first byte of the response.
    pub first_byte: Option<Duration>,
    /// For each part of the response's body.
    pub between_bytes: Option<Duration>,
}

/// Why a request had no response.
#[derive(Debug)]
pub enum SendError {
    /// Nobody there, or nobody who took the connection.
    Refused,
    /// It took too long.
    Timeout,
    /// No agreement about TLS.
    Tls,
    /// It broke off, or was no HTTP.
    Protocol,
    /// Anything else, in words that the guest may know.
    Other(String),
}

/// A request that a guest may not send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Where to, as a grant has it: `tcp://example.com:443`.
    pub target: String,
    /// Why, whose fault it is and what to do.
    pub why: String,
}

/// What a server does for a service on one of its threads.
pub trait Host {
    /// Takes a line for the service's log, without its end.
    fn log(&self, stream: Stream, line: &str);

    /// Sends a request for the guest.
    fn send(&self, request: http::Request<AnyBody>, target: Target, times: Times) -> Sending;

    /// Runs to its end what nobody waits for, on this thread, where [`Host::send`] may be called. It may be
    /// dropped: the guest is ended then. This may be called while the server stops.
    fn spawn(&self, errand: Errand);

    /// What a guest is to wait for before it runs; `None`: it may run now. `has_yielded`: it ran before, until others were to
    /// have their turn.
    fn turn(&self, has_yielded: bool) -> Option<Errand> {
        let _ = has_yielded;
        None
    }

    /// Counts that a guest has run for so long by the clock, in ns. `had_turn`: it had waited for that.
    fn ran(&self, ns: u64, had_turn: bool) {
        let _ = (ns, had_turn);
    }

    /// Counts what the guest asked for and was not granted.
    fn denied(&self, denied: &Denied);

    /// Counts a request whose guest has ended, by itself or not.
    fn done(&self, done: Done<'_>);

    /// Is told what memory all instances of this worker hold, in bytes, when that changes.
    fn memory(&self, bytes: u64);

    /// Counts an instance that was made in place of one that is gone.
    fn restarted(&self);
}
