//! Why the proxy for wildcards refused.

use serde::Serialize;
use std::{fmt, net::SocketAddr};

/// Why the proxy refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyRefusal {
    /// The request is none that it takes.
    Request(RequestFault),
    /// What the tunnel starts with is not TLS to the host that was asked for.
    Hello(HelloFault),
}

impl fmt::Display for ProxyRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(fault) => write!(f, "the proxy refuses the request: {fault}"),
            Self::Hello(fault) => write!(f, "the proxy refuses the tunnel: {fault}"),
        }
    }
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum RequestFault {
    /// Not HTTP.
    #[error("it is not a well-formed HTTP request")]
    Syntax,
    /// Another method. What a proxy for plain HTTP does is not done here.
    #[error("its method is not CONNECT: only HTTPS goes through this proxy")]
    Method,
    /// An HTTP version that is neither 1.0 nor 1.1.
    #[error("it is neither HTTP/1.0 nor HTTP/1.1")]
    Version,
    /// Not `name:port`.
    #[error("it does not ask for `name:port`")]
    Authority,
    /// An address in place of a name; which one, where it is written as every program reads it.
    #[error("it asks for an address, which goes straight to its host where it is granted")]
    Address(Option<SocketAddr>),
    /// No `Host`, where HTTP/1.1 has one, or several.
    #[error("it does not have one `Host`")]
    Host,
    /// `Host` names another host or port.
    #[error("its `Host` is not the host that it asks for")]
    OtherHost,
    /// A body, or a header that announces something else than a tunnel.
    #[error("it has a header that does not belong to CONNECT")]
    Header,
    /// More than [`MAX_REQUEST_BYTES`](crate::proxy::request::MAX_REQUEST_BYTES) or 32 headers.
    #[error("it is too long")]
    TooLong,
}

/// What is wrong with the first bytes of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum HelloFault {
    /// Something else than TLS.
    #[error("what is sent is not TLS")]
    NotTls,
    /// TLS that contradicts itself.
    #[error("the TLS in it is malformed")]
    Malformed,
    /// No name: nobody can tell which host is meant.
    #[error("the TLS in it names no host (SNI)")]
    NoName,
    /// Another name than the request's; at most 255 characters of it.
    #[error("the TLS in it names the host {0:?}")]
    OtherName(String),
    /// The name that counts is encrypted. Clients that only pretend look the same: they are meant
    /// to.
    #[error("the TLS in it encrypts the host's name (ECH)")]
    Encrypted,
    /// More than [`MAX_HELLO_BYTES`](crate::proxy::hello::MAX_HELLO_BYTES).
    #[error("the TLS in it starts with a message that is too long")]
    TooLong,
}
