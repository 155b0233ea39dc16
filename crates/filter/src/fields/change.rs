//! Changes of a message's fields.

use super::{
    View,
    collected::{Collected, Pair},
    first_line::{
        checked_authority, final_status, other_method, set_request_pseudo, with_path, with_scheme,
    },
    is_host,
    known::Known,
    names::{Framing, check_trailer, field},
};
use crate::{Bounds, abi::Status};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request, response,
};

/// Whether there may be a field of this name. Most that filters take away are not there: among a few, to look at each
/// costs less than to make a name of the key and to hash it.
fn may_have(headers: &HeaderMap, key: &[u8]) -> bool {
    const FEW: usize = 16;
    let is_key = |name: &HeaderName| name.as_str().as_bytes().eq_ignore_ascii_case(key);
    headers.keys_len() > FEW || headers.keys().any(is_key)
}

/// What is kept of what a guest sets.
pub(crate) struct Written<'a> {
    pub(crate) bounds: &'a Bounds,
    /// Bytes of this message.
    pub(crate) bytes: &'a mut usize,
    /// `None`: the instance has one request alone, and nothing is set twice.
    pub(crate) known: Option<&'a mut Known>,
}

impl Written<'_> {
    fn field(&mut self, key: &[u8], value: &[u8]) -> Result<(HeaderName, HeaderValue), Status> {
        match &mut self.known {
            Some(known) => known.field(key, value),
            None => field(key, value),
        }
    }
}

/// A message's fields, to be changed.
pub(crate) enum Change<'a> {
    Request(&'a mut request::Parts),
    Response(&'a mut response::Parts),
    Trailers(&'a mut HeaderMap),
}

/// Whether a field is set beside those of its name, or in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Add,
    Replace,
}

impl Change<'_> {
    fn headers(&mut self) -> &mut HeaderMap {
        match self {
            Self::Request(parts) => &mut parts.headers,
            Self::Response(parts) => &mut parts.headers,
            Self::Trailers(headers) => headers,
        }
    }

    fn view(&self) -> View<'_> {
        match self {
            Self::Request(parts) => View::Request(parts, ""),
            Self::Response(parts) => View::Response(parts.status, &parts.headers),
            Self::Trailers(headers) => View::Trailers(headers),
        }
    }

    /// Sets a field.
    pub(crate) fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
        mut written: Written<'_>,
    ) -> Result<(), Status> {
        let counted = self.count(key, value, mode, written.bounds, *written.bytes)?;
        // What was to be replaced still counts where it stays.
        if self.put(key, value, mode, &mut written)? {
            *written.bytes = counted;
        }
        Ok(())
    }

    /// Sets a field for which there are bytes. `false`: it is the server's, and no guest gives it.
    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
        written: &mut Written<'_>,
    ) -> Result<bool, Status> {
        if self.set_pseudo(key, value)? {
            return Ok(true);
        }
        let (name, value) = written.field(key, value)?;
        if let Some(framing) = Framing::of(&name) {
            self.set_framing(framing)?;
            return Ok(false);
        }
        if let Self::Trailers(_) = self {
            check_trailer(&name)?;
        }
        let headers = self.headers();
        let is_full = headers.len() >= written.bounds.headers;
        if is_full && (mode == Mode::Add || !headers.contains_key(&name)) {
            return Err(Status::InternalFailure);
        }
        let result = match mode {
            Mode::Add => headers.try_append(name, value).map(drop),
            Mode::Replace => headers.try_insert(name, value).map(drop),
        };
        result.map(|()| true).map_err(|_| Status::InternalFailure)
    }

    /// The count of bytes once this is set; counts anew what there is, and what makes room for it, where that is
    /// too much.
    fn count(
        &self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
        bounds: &Bounds,
        written: usize,
    ) -> Result<usize, Status> {
        let bytes = key.len() + value.len();
        let counted = written.saturating_add(bytes);
        if counted <= bounds.header_bytes {
            return Ok(counted);
        }
        let stays = match mode {
            Mode::Add => self.view().bytes(),
            Mode::Replace => self.view().bytes() - self.view().bytes_of(key),
        };
        match stays.saturating_add(bytes) {
            counted if counted <= bounds.header_bytes => Ok(counted),
            _ => Err(Status::InternalFailure),
        }
    }

    /// `false`: it is no pseudo field.
    fn set_pseudo(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Status> {
        match self {
            Self::Request(parts) if is_host(key) => set_request_pseudo(parts, b"authority", value)?,
            Self::Request(parts) if key.starts_with(b":") => {
                set_request_pseudo(parts, &key[1..], value)?;
            }
            Self::Response(parts) if key == b":status" => parts.status = final_status(value)?,
            _ if key.starts_with(b":") => return Err(Status::BadArgument),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A length that a guest gives may be wrong: whoever sends the body says how long it is.
    fn set_framing(&mut self, framing: Framing) -> Result<(), Status> {
        if framing == Framing::Length {
            self.headers().remove(header::CONTENT_LENGTH);
        }
        Ok(())
    }

    /// Takes all fields of a name away.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), Status> {
        if key.starts_with(b":") || matches!(self, Self::Request(_)) && is_host(key) {
            // A message without them is none.
            return Err(Status::BadArgument);
        }
        if !may_have(self.headers(), key) {
            return Ok(());
        }
        let Ok(name) = HeaderName::from_bytes(key) else {
            return Ok(());
        };
        match Framing::of(&name) {
            Some(framing) => self.set_framing(framing),
            None => {
                self.headers().remove(name);
                Ok(())
            }
        }
    }

    /// Puts these fields in place of all that there are. Pseudo fields that are not among them stay.
    pub(crate) fn set_all(&mut self, pairs: &[u8], written: Written<'_>) -> Result<(), Status> {
        let collected = Collected::of(pairs, written.bounds)?;
        if matches!(self, Self::Trailers(_)) {
            collected.headers.keys().try_for_each(check_trailer)?;
        }
        let keeps_length = collected.has_length;
        let mut staged = match self {
            Self::Request(parts) => Staged::Request(parts.method.clone(), parts.uri.clone()),
            Self::Response(parts) => Staged::Response(parts.status),
            Self::Trailers(_) => Staged::Trailers,
        };
        for (name, value) in &collected.pseudo {
            staged.set(name, value)?;
        }
        *written.bytes = collected.bytes;
        self.replace_fields(collected.headers, keeps_length);
        self.commit(staged, &collected.pseudo)
    }

    fn replace_fields(&mut self, mut headers: HeaderMap, keeps_length: bool) {
        let present = self.headers();
        for (name, value) in present.iter() {
            let stays = match Framing::of(name) {
                Some(Framing::Length) => keeps_length,
                Some(Framing::Other) => true,
                None => false,
            };
            if stays {
                headers.append(name.clone(), value.clone());
            }
        }
        let host = present.remove(header::HOST);
        *present = headers;
        if let (Self::Request(parts), Some(host)) = (self, host) {
            parts.headers.insert(header::HOST, host);
        }
    }

    fn commit(&mut self, staged: Staged, pseudo: &[Pair]) -> Result<(), Status> {
        match (self, staged) {
            (Self::Request(parts), Staged::Request(method, uri)) => {
                (parts.method, parts.uri) = (method, uri);
                for (name, value) in pseudo.iter().filter(|(name, _)| &**name == b"authority") {
                    set_request_pseudo(parts, name, value)?;
                }
            }
            (Self::Response(parts), Staged::Response(status)) => parts.status = status,
            _ => {}
        }
        Ok(())
    }
}

/// The first line of a message while its new fields are checked.
enum Staged {
    Request(Method, Uri),
    Response(StatusCode),
    Trailers,
}

impl Staged {
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), Status> {
        match self {
            Self::Request(method, uri) => match name {
                b"method" => *method = other_method(method, value)?,
                b"path" => *uri = with_path(uri, value)?,
                b"scheme" => *uri = with_scheme(uri, value)?,
                b"authority" => drop(checked_authority(value)?),
                _ => return Err(Status::BadArgument),
            },
            Self::Response(status) if name == b"status" => *status = final_status(value)?,
            _ => return Err(Status::BadArgument),
        }
        Ok(())
    }
}
