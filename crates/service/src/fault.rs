//! How a guest failed.

use crate::limits::{OverMemory, PoolFull, TimeUp};
use http::StatusCode;
use palisade_engine::{ended::describe, permits::NoPermit};
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi_http::{p2, p3};

/// A guest did not answer as it should have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It broke a rule of WebAssembly, or of its interfaces: the rule, and the functions that were running.
    #[error("guest: it trapped: {0}")]
    Trap(String),
    /// It took longer than `limits.time`.
    #[error("guest: it took longer than limits.time allows; {0}")]
    Time(String),
    /// Its time was up, and most of that it had waited for its client.
    #[error("client: it took most of limits.time to send its request or to take its response")]
    Client,
    /// It computed longer than `limits.cpu-time`.
    #[error("guest: it computed longer than limits.cpu-time allows; {0}")]
    CpuTime(String),
    /// It asked for more than `limits.memory`.
    #[error("guest: it asked for more memory than limits.memory allows; {0}")]
    Memory(String),
    /// All memory that its owner's guests may have together is in use.
    #[error(
        "policy: all memory that its owner may have is in use: {0}; raise `memory` of the quotas"
    )]
    Pool(String),
    /// It ended itself before it answered.
    #[error("guest: it exited with code {0} before it answered")]
    Exit(i32),
    /// It returned and had set no response.
    #[error("guest: it returned without a response")]
    NoResponse,
    /// It answered with an error code.
    #[error("guest: it answered with the error {text}")]
    Code {
        /// The code, in its own words.
        text: String,
        /// What the client gets.
        status: StatusCode,
    },
    /// It returned and had not finished the body that it had begun.
    #[error("guest: it returned before it had finished its response's body")]
    Unfinished,
    /// It sent another number of bytes than it had announced, or gave its body up.
    #[error("guest: it broke its response's body off: {0}")]
    Broken(String),
    /// All instances that the service may have were in use for too long.
    #[error(transparent)]
    Busy(#[from] NoPermit),
    /// All instances that there can be of all services are in use.
    #[error(
        "host: no instance can be made: {0}; let services have fewer `instances`, so that all of them fit"
    )]
    Full(String),
    /// The request can't be shown to a guest.
    #[error("client: the request is none that a component can be given: {0}")]
    Request(String),
}

impl Fault {
    /// What the client gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Code { status, .. } => *status,
            Self::Busy(_) | Self::Full(_) | Self::Pool(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Request(_) => StatusCode::BAD_REQUEST,
            Self::Client => StatusCode::REQUEST_TIMEOUT,
            Self::Time(_) => StatusCode::GATEWAY_TIMEOUT,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Whether the guest broke down, rather than having said no or having had no chance.
    pub fn is_breakdown(&self) -> bool {
        !self.is_want_of_instances()
            && !matches!(self, Self::Code { .. } | Self::Request(_) | Self::Client)
    }

    /// Whether there was no instance for the request, or no memory of its owner's for one. Such a request may be made again in a moment.
    pub fn is_want_of_instances(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Full(_) | Self::Pool(_))
    }

    #[cold]
    pub(crate) fn of(error: &wasmtime::Error) -> Self {
        if let Some(exit) = error.downcast_ref::<I32Exit>() {
            return Self::Exit(exit.0);
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return Self::Full(error.to_string());
        }
        let text = describe(error);
        if error.is::<PoolFull>() {
            return Self::Pool(text);
        }
        match (
            error.downcast_ref(),
            error.downcast_ref(),
            error.downcast_ref(),
        ) {
            (Some(TimeUp::Wall), ..) => Self::Time(text),
            (Some(TimeUp::Processor), ..) => Self::CpuTime(text),
            (_, Some(OverMemory), _) => Self::Memory(text),
            (_, _, Some(Trap::Interrupt)) => Self::Time(text),
            _ => Self::Trap(text),
        }
    }

    pub(crate) fn of_code(code: &p2::bindings::http::types::ErrorCode) -> Self {
        let text = format!("{code:?}");
        Self::Code {
            status: status_of(&text),
            text,
        }
    }

    pub(crate) fn of_new_code(code: &p3::bindings::http::types::ErrorCode) -> Self {
        let text = format!("{code:?}");
        Self::Code {
            status: status_of(&text),
            text,
        }
    }
}

/// By the code's name: both versions of WASI have the same.
fn status_of(code: &str) -> StatusCode {
    let name = code
        .split_once("::")
        .map_or(code, |(_, name)| name)
        .split(['(', '{', ' '])
        .next()
        .unwrap_or_default();
    let is_of_another = ["Dns", "Destination", "Connection", "Tls", "HttpResponse"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    match (is_of_another, name.ends_with("Timeout")) {
        (true, true) => StatusCode::GATEWAY_TIMEOUT,
        (true, false) => StatusCode::BAD_GATEWAY,
        (false, _) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p2::bindings::http::types::ErrorCode;

    #[test]
    fn a_code_about_another_server_is_told_from_the_guests_own() {
        let status = |code| Fault::of_code(&code).status().as_u16();
        assert_eq!(status(ErrorCode::DestinationNotFound), 502);
        assert_eq!(status(ErrorCode::ConnectionTimeout), 504);
        assert_eq!(status(ErrorCode::HttpResponseBodySize(Some(1))), 502);
        assert_eq!(status(ErrorCode::HttpRequestDenied), 500);
        assert_eq!(status(ErrorCode::InternalError(Some("x".into()))), 500);
    }
}
