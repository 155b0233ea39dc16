//! What an instance asks of the server around it.

use crate::{Exchange, StreamId};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use std::time::Duration;

/// The server, as an instance sees it. All calls come while the guest runs: an implementation notes what
/// is to be done, and calls no instance.
pub trait Host {
    /// Takes a line of the filter's log, without its line end. It is the guest's: any bytes.
    fn log(&self, level: LogLevel, line: &[u8]);

    /// The least level that is wanted: guests spare themselves what is below.
    fn log_level(&self) -> LogLevel {
        LogLevel::Info
    }

    /// Starts an HTTP call; [`Instance::on_http_call_response`](crate::Instance::on_http_call_response) brings the response, and a failure, later.
    ///
    /// # Errors
    ///
    /// When the filter may not call this upstream, or there is none of this name.
    fn call(&self, call: HttpCall) -> Result<(), CallRefused>;

    /// Whether there is room for one more call: beside each instance's bound, a filter may have one of its own. A
    /// guest that asks for one more gets the status `INTERNAL_FAILURE`.
    fn has_room_for_call(&self) -> bool {
        true
    }

    /// The guest wants [`Instance::on_tick`](crate::Instance::on_tick) this often from now on; `None`: no more.
    fn set_tick_period(&self, period: Option<Duration>) {
        let _ = period;
    }

    /// A property that this crate does not know, of the exchange if there is one: `upstream.address`, say.
    /// The parts of a path are parted by NUL; the value is in the ABI's form, numbers as 8 bytes, little-endian.
    fn property(&self, exchange: Option<&Exchange>, path: &[u8]) -> Option<Bytes> {
        let _ = (exchange, path);
        None
    }
}

/// Levels of log lines, with the ABI's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is its name")]
pub enum LogLevel {
    Trace = 0,
    Debug = 1,
    Info = 2,
    Warn = 3,
    Error = 4,
    Critical = 5,
}

impl LogLevel {
    pub(crate) fn of_number(number: u32) -> Option<Self> {
        const LEVELS: [LogLevel; 6] = [
            LogLevel::Trace,
            LogLevel::Debug,
            LogLevel::Info,
            LogLevel::Warn,
            LogLevel::Error,
            LogLevel::Critical,
        ];
        LEVELS.get(number as usize).copied()
    }
}

/// An HTTP call that a guest asks for. Method, path and authority are there, names and values are checked.
#[derive(Debug)]
pub struct HttpCall {
    /// Which call: for [`Instance::on_http_call_response`](crate::Instance::on_http_call_response).
    pub token: u32,
    /// The stream that it was asked for in, if any.
    pub stream: Option<StreamId>,
    /// The upstream that the guest named.
    pub upstream: String,
    /// The request: its URI is a path; its authority is the field `host`.
    pub request: Request<Bytes>,
    /// The request's trailers.
    pub trailers: HeaderMap,
    /// How long it may take.
    pub timeout: Duration,
}

/// The response to an [`HttpCall`].
#[derive(Debug)]
pub struct HttpCallResponse {
    /// Status, header fields and body. Its size is for the caller to bound.
    pub response: Response<Bytes>,
    /// Trailers.
    pub trailers: HeaderMap,
}

/// An HTTP call is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRefused;

/// Tells an instance on whatever thread it is that a queue of its has something in it.
pub trait Notify: Send + Sync {
    /// Has [`Instance::on_queue_ready`](crate::Instance::on_queue_ready) called with this queue, on the instance's own thread. Comes from
    /// any thread; must not block.
    fn queue_ready(&self, queue: u32);
}
