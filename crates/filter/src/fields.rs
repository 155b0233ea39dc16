//! Header fields and pseudo fields of messages, as guests see and change them.
//!
//! What a message is framed by is the server's: a guest's `transfer-encoding`, `connection` and the like are
//! left out, and `content-length` it can take away, not give. So no filter can make the next server see
//! another end of a message than this one does. Names and values are what HTTP has; a pseudo field is
//! part of the message's first line and must be fit for it.

mod change;
mod collected;
mod first_line;
mod known;
mod names;

pub(crate) use change::{Change, Mode, Written};
pub(crate) use collected::Collected;
pub(crate) use first_line::final_status;
pub(crate) use known::Known;

use crate::{Exchange, HttpCallResponse};
use http::{HeaderMap, HeaderValue, StatusCode, header, request};

/// A message's fields, to be read.
#[derive(Clone, Copy)]
pub(crate) enum View<'a> {
    Request(&'a request::Parts, &'static str),
    Response(StatusCode, &'a HeaderMap),
    Trailers(&'a HeaderMap),
    Nothing,
}

impl<'a> View<'a> {
    pub(crate) fn of_request(exchange: &'a Exchange) -> Self {
        let scheme = match exchange.peer.tls_version {
            Some(_) => "https",
            None => "http",
        };
        Self::Request(&exchange.request, scheme)
    }

    pub(crate) fn of_call(call: &'a HttpCallResponse) -> Self {
        Self::Response(call.response.status(), call.response.headers())
    }

    fn headers(self) -> Option<&'a HeaderMap> {
        match self {
            Self::Request(parts, _) => Some(&parts.headers),
            Self::Response(_, headers) | Self::Trailers(headers) => Some(headers),
            Self::Nothing => None,
        }
    }

    /// Calls `found` with the first value of a field.
    pub(crate) fn get<T>(self, key: &[u8], found: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match (self, key) {
            (Self::Request(parts, scheme), [b':', name @ ..]) => match name {
                b"path" => parts
                    .uri
                    .path_and_query()
                    .map(|path| found(path.as_str().as_bytes())),
                b"method" => Some(found(parts.method.as_str().as_bytes())),
                b"authority" => authority(parts).map(found),
                b"scheme" => Some(found(parts.uri.scheme_str().unwrap_or(scheme).as_bytes())),
                _ => None,
            },
            (Self::Response(status, _), b":status") => Some(found(status.as_str().as_bytes())),
            (_, [b':', ..]) => None,
            (Self::Request(parts, _), _) if is_host(key) => authority(parts).map(found),
            _ => {
                let name = str::from_utf8(key).ok()?;
                self.headers()?
                    .get(name)
                    .map(|value| found(value.as_bytes()))
            }
        }
    }

    /// All fields, the pseudo fields first. `host` is `:authority`.
    pub(crate) fn visit(self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        match self {
            Self::Request(..) => {
                for name in [":authority", ":path", ":method", ":scheme"] {
                    self.get(name.as_bytes(), |value| visit(name.as_bytes(), value));
                }
            }
            Self::Response(status, _) => visit(b":status", status.as_str().as_bytes()),
            Self::Trailers(_) | Self::Nothing => {}
        }
        let leaves_out_host = matches!(self, Self::Request(..));
        for (name, value) in self.headers().into_iter().flatten() {
            if !(leaves_out_host && name == header::HOST) {
                visit(name.as_str().as_bytes(), value.as_bytes());
            }
        }
    }

    /// How many fields [`View::visit`] gives.
    pub(crate) fn len(self) -> u32 {
        let count = match self {
            Self::Request(parts, _) => {
                // By the names in their order: a look-up hashes, which costs more than a few comparisons.
                let names = parts.headers.iter().map(|(name, _)| name);
                let hosts = names.filter(|name| matches!(**name, header::HOST)).count();
                let has_authority = hosts > 0 || parts.uri.authority().is_some();
                let pseudo = 2
                    + usize::from(has_authority)
                    + usize::from(parts.uri.path_and_query().is_some());
                parts.headers.len() + pseudo - hosts
            }
            Self::Response(_, headers) => headers.len() + 1,
            Self::Trailers(headers) => headers.len(),
            Self::Nothing => 0,
        };
        count as u32
    }

    /// Bytes of all names and values.
    pub(crate) fn bytes(self) -> usize {
        let mut bytes = 0;
        self.visit(&mut |name, value| bytes += name.len() + value.len());
        bytes
    }

    /// Of those of one name.
    fn bytes_of(self, key: &[u8]) -> usize {
        let mut bytes = 0;
        self.visit(&mut |name, value| {
            if name.eq_ignore_ascii_case(key) {
                bytes += name.len() + value.len();
            }
        });
        bytes
    }
}

fn authority(parts: &request::Parts) -> Option<&[u8]> {
    match parts.uri.authority() {
        Some(authority) => Some(authority.as_str().as_bytes()),
        None => parts.headers.get(header::HOST).map(HeaderValue::as_bytes),
    }
}

fn is_host(key: &[u8]) -> bool {
    key.len() == 4 && key.eq_ignore_ascii_case(b"host")
}
