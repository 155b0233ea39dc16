//! A map that a guest gave as a whole.

use super::{
    first_line::{checked_authority, checked_path, other_method, set_authority},
    names::{Framing, check_trailer, field},
};
use crate::{Bounds, abi::Status, pairs::Pairs};
use http::{HeaderMap, Method, Uri, header, request};

/// A name and a value.
pub(super) type Pair = (Box<[u8]>, Box<[u8]>);

/// A guest's map, sorted into what it says of the message. Framing is left out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) headers: HeaderMap,
    /// Without the colon.
    pub(super) pseudo: Vec<Pair>,
    /// Of all names and values.
    pub(super) bytes: usize,
    pub(super) has_length: bool,
}

impl Collected {
    pub(crate) fn of(pairs: &[u8], bounds: &Bounds) -> Result<Self, Status> {
        let pairs = Pairs::new(pairs).map_err(|_| Status::BadArgument)?;
        if pairs.len() > bounds.headers {
            return Err(Status::InternalFailure);
        }
        let mut collected = Self::default();
        for pair in pairs {
            let (key, value) = pair.map_err(|_| Status::BadArgument)?;
            collected.take(key, value, bounds)?;
        }
        Ok(collected)
    }

    fn take(&mut self, key: &[u8], value: &[u8], bounds: &Bounds) -> Result<(), Status> {
        self.bytes += key.len() + value.len();
        if self.bytes > bounds.header_bytes {
            return Err(Status::InternalFailure);
        }
        if let [b':', name @ ..] = key {
            self.pseudo.push((name.into(), value.into()));
            return Ok(());
        }
        let (name, value) = field(key, value)?;
        match Framing::of(&name) {
            Some(framing) => self.has_length |= framing == Framing::Length,
            None if name == header::HOST => {
                let value = value.as_bytes().into();
                self.pseudo.push((Box::from(&b"authority"[..]), value));
            }
            None => {
                let added = self.headers.try_append(name, value);
                added.map_err(|_| Status::InternalFailure)?;
            }
        }
        Ok(())
    }

    fn pseudo(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.pseudo.iter().rev().find(|(found, _)| **found == *name);
        found.map(|(_, value)| &**value)
    }

    /// Trailers of a request of a guest's own.
    pub(crate) fn into_trailers(self) -> Result<HeaderMap, Status> {
        match self.pseudo.is_empty() {
            true => self.headers.keys().try_for_each(check_trailer)?,
            false => return Err(Status::BadArgument),
        }
        Ok(self.headers)
    }

    /// A request of a guest's own: method, path and authority must be there.
    pub(crate) fn into_request(mut self) -> Result<request::Parts, Status> {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        let method = self.pseudo(b"method").ok_or(Status::BadArgument)?;
        parts.method = other_method(&Method::GET, method)?;
        let path = self.pseudo(b"path").ok_or(Status::BadArgument)?;
        parts.uri = Uri::from(checked_path(path)?);
        let authority = self.pseudo(b"authority").ok_or(Status::BadArgument)?;
        let authority = checked_authority(authority)?;
        parts.headers = std::mem::take(&mut self.headers);
        set_authority(&mut parts, authority)?;
        Ok(parts)
    }
}
