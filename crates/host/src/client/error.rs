//! Why there is no response from another server.

use crate::{body::Body, responses};
use http::{Response, StatusCode};
use palisade_network::ResolveError;
use std::{fmt, io, sync::Arc, time::Duration};

/// There is no response.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum UpstreamError {
    #[error("{}: {server} has no address: {source}", source.fault())]
    Resolve {
        server: Arc<str>,
        source: ResolveError,
    },
    #[error("host: cannot connect to {server}: {source}; see whether it runs")]
    Connect { server: Arc<str>, source: io::Error },
    #[error(
        "host: {server} was not connected to in time; see whether it runs, or raise connect-time"
    )]
    ConnectTime { server: Arc<str> },
    #[error(
        "host: no TLS with {server}: {source}; see whether its certificate is of this name and trusted here"
    )]
    Tls { server: Arc<str>, source: io::Error },
    #[error("host: {server} broke off before it answered{}", Because(source))]
    Closed {
        server: Arc<str>,
        source: Option<hyper::Error>,
    },
    #[error("host: {server} sent an invalid HTTP response: {source}")]
    Malformed {
        server: Arc<str>,
        source: hyper::Error,
    },
    #[error("host: the heads of {server}'s response have more than 128 KiB")]
    Heads { server: Arc<str> },
    #[error("host: {server} switched to a protocol that nobody asked for")]
    Switched { server: Arc<str> },
    #[error("host: {server} did not answer in time; raise answer-time if that was meant")]
    AnswerTime { server: Arc<str> },
    #[error("client: the request's body broke off: {source}")]
    RequestBody { source: hyper::Error },
    #[error("client: tunnels (CONNECT) are not offered")]
    Tunnel,
    #[error(
        "client: the connection's protocol cannot be changed here (WebSocket); reach the program by a listener of its own"
    )]
    Upgrade,
    /// A program that cannot take requests now.
    #[error("{reason}")]
    NotReady {
        reason: String,
        retry_after: Duration,
    },
}

impl UpstreamError {
    /// Whether whoever asked may not reach that server.
    pub(crate) fn is_denial(&self) -> bool {
        match self {
            Self::Resolve { source, .. } => matches!(source, ResolveError::Withheld(_)),
            // The kernel's own refusal has a number.
            Self::Connect { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied && source.raw_os_error().is_none()
            }
            _ => false,
        }
    }

    /// The status that the client gets.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Tls { .. }
            | Self::Closed { .. }
            | Self::Malformed { .. }
            | Self::Heads { .. }
            | Self::Switched { .. } => StatusCode::BAD_GATEWAY,
            Self::ConnectTime { .. } | Self::AnswerTime { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::RequestBody { .. } => StatusCode::BAD_REQUEST,
            Self::Tunnel | Self::Upgrade => StatusCode::NOT_IMPLEMENTED,
            Self::NotReady { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// What the client gets.
    pub(crate) fn response(&self) -> Response<Body> {
        let text = match self.status() {
            StatusCode::GATEWAY_TIMEOUT => "the service did not answer in time\n",
            StatusCode::SERVICE_UNAVAILABLE => "the service is not ready\n",
            StatusCode::BAD_REQUEST => "the request broke off\n",
            StatusCode::NOT_IMPLEMENTED => "this is not passed through\n",
            _ => "the service could not be reached\n",
        };
        let response = responses::plain(self.status(), text);
        match self.retry_after() {
            Some(seconds) => responses::with_retry_after(response, seconds),
            None => response,
        }
    }

    /// After how many seconds the client may ask again, where that can be told.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::NotReady { retry_after, .. } => {
                Some(retry_after.as_millis().div_ceil(1000).max(1) as u64)
            }
            _ => None,
        }
    }

    /// Whether no server was reached.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Resolve { .. }
                | Self::Connect { .. }
                | Self::ConnectTime { .. }
                | Self::Tls { .. }
        )
    }
}

struct Because<'a>(&'a Option<hyper::Error>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(error) => write!(formatter, ": {error}"),
            None => Ok(()),
        }
    }
}
