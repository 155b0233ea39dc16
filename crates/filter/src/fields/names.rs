//! Names and values of fields, and which of them are the server's.

use crate::abi::Status;
use http::{HeaderName, HeaderValue, header};

/// Fields that say where a message ends, or concern one connection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Other,
}

impl Framing {
    pub(super) fn of(name: &HeaderName) -> Option<Self> {
        // As text, which is told apart by its length first: seven names would be compared with, one after the other.
        match name.as_str() {
            "content-length" => Some(Self::Length),
            "transfer-encoding" | "connection" | "upgrade" | "te" | "keep-alive"
            | "proxy-connection" => Some(Self::Other),
            _ => None,
        }
    }
}

/// A trailer must not say what a header alone can say: RFC 9110, section 6.5.1.
pub(super) fn check_trailer(name: &HeaderName) -> Result<(), Status> {
    let is_header = *name == header::HOST
        || *name == header::AUTHORIZATION
        || *name == header::SET_COOKIE
        || *name == header::CONTENT_ENCODING
        || *name == header::CONTENT_TYPE
        || *name == header::CONTENT_RANGE
        || *name == header::TRAILER;
    match is_header {
        true => Err(Status::BadArgument),
        false => Ok(()),
    }
}

pub(super) fn field(key: &[u8], given: &[u8]) -> Result<(HeaderName, HeaderValue), Status> {
    Ok((name(key)?, value(given)?))
}

pub(super) fn name(key: &[u8]) -> Result<HeaderName, Status> {
    HeaderName::from_bytes(key).map_err(|_| Status::BadArgument)
}

pub(super) fn value(given: &[u8]) -> Result<HeaderValue, Status> {
    HeaderValue::from_bytes(given).map_err(|_| Status::BadArgument)
}
