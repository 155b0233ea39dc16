//! Header fields and pseudo fields of messages, as guests see and change them.
//!
//! What a message is framed by is the server's: a guest's `transfer-encoding`, `connection` and the like are
//! left out, and `content-length` it can take away, not give. So no filter can make the next server see
//! another end of a message than this one does. Names and values are what HTTP has; a pseudo field is
//! part of the message's first line and must be fit for it.

use crate::{Bounds, Exchange, HttpCallAnswer, abi::Status, pairs::Pairs};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header, request,
    response,
    uri::{Authority, PathAndQuery, Scheme},
};

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

    pub(crate) fn of_answer(answer: &'a HttpCallAnswer) -> Self {
        Self::Response(answer.response.status(), answer.response.headers())
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

/// Whether there may be a field of this name. Most that filters take away are not there: among a few, to look at each
/// costs less than to make a name of the key and to hash it.
fn may_have(headers: &HeaderMap, key: &[u8]) -> bool {
    const FEW: usize = 16;
    let is_key = |name: &HeaderName| name.as_str().as_bytes().eq_ignore_ascii_case(key);
    headers.keys_len() > FEW || headers.keys().any(is_key)
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

    /// Sets a field. `written` counts the bytes that guests have set of this message.
    pub(crate) fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
        bounds: &Bounds,
        written: &mut usize,
    ) -> Result<(), Status> {
        let counted = self.count(key, value, mode, bounds, *written)?;
        // What was to be replaced still counts where it stays.
        if self.put(key, value, mode, bounds)? {
            *written = counted;
        }
        Ok(())
    }

    /// Sets a field for which there are bytes. `false`: it is the server's, and no guest gives it.
    fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        mode: Mode,
        bounds: &Bounds,
    ) -> Result<bool, Status> {
        if self.set_pseudo(key, value)? {
            return Ok(true);
        }
        let (name, value) = field(key, value)?;
        if let Some(framing) = Framing::of(&name) {
            self.set_framing(framing)?;
            return Ok(false);
        }
        if let Self::Trailers(_) = self {
            check_trailer(&name)?;
        }
        let headers = self.headers();
        let is_full = headers.len() >= bounds.headers;
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
    pub(crate) fn set_all(
        &mut self,
        pairs: &[u8],
        bounds: &Bounds,
        written: &mut usize,
    ) -> Result<(), Status> {
        let collected = Collected::of(pairs, bounds)?;
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
        *written = collected.bytes;
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

fn set_request_pseudo(parts: &mut request::Parts, name: &[u8], value: &[u8]) -> Result<(), Status> {
    match name {
        b"method" => parts.method = other_method(&parts.method, value)?,
        b"path" => parts.uri = with_path(&parts.uri, value)?,
        b"scheme" => parts.uri = with_scheme(&parts.uri, value)?,
        b"authority" => set_authority(parts, checked_authority(value)?)?,
        _ => return Err(Status::BadArgument),
    }
    Ok(())
}

/// CONNECT makes a tunnel of a request: it is neither given nor taken.
fn other_method(present: &Method, value: &[u8]) -> Result<Method, Status> {
    match Method::from_bytes(value) {
        Ok(method) if (method == Method::CONNECT) == (*present == Method::CONNECT) => Ok(method),
        _ => Err(Status::BadArgument),
    }
}

fn with_path(uri: &Uri, value: &[u8]) -> Result<Uri, Status> {
    let path = checked_path(value)?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|_| Status::BadArgument)
}

/// A path from the root, with a query or without; or `*`.
fn checked_path(value: &[u8]) -> Result<PathAndQuery, Status> {
    // What begins a fragment would be cut off.
    let is_path = value == b"*" || value.starts_with(b"/") && !value.contains(&b'#');
    match PathAndQuery::try_from(value) {
        Ok(path) if is_path => Ok(path),
        _ => Err(Status::BadArgument),
    }
}

/// A request that came without a scheme has its connection's.
fn with_scheme(uri: &Uri, value: &[u8]) -> Result<Uri, Status> {
    let scheme = match value {
        b"http" => Scheme::HTTP,
        b"https" => Scheme::HTTPS,
        _ => return Err(Status::BadArgument),
    };
    let mut parts = uri.clone().into_parts();
    if parts.scheme.is_some() {
        parts.scheme = Some(scheme);
    }
    Uri::from_parts(parts).map_err(|_| Status::BadArgument)
}

fn checked_authority(value: &[u8]) -> Result<Authority, Status> {
    match Authority::try_from(value) {
        Ok(authority) if !value.contains(&b'@') && !value.is_empty() => Ok(authority),
        _ => Err(Status::BadArgument),
    }
}

/// In the URI, in the field, or in both: wherever it is said, it is said the same.
fn set_authority(parts: &mut request::Parts, authority: Authority) -> Result<(), Status> {
    let is_in_uri = parts.uri.authority().is_some();
    if !is_in_uri || parts.headers.contains_key(header::HOST) || parts.version < Version::HTTP_2 {
        let value = HeaderValue::from_str(authority.as_str()).map_err(|_| Status::BadArgument)?;
        parts.headers.insert(header::HOST, value);
    }
    if is_in_uri {
        let mut uri = parts.uri.clone().into_parts();
        uri.authority = Some(authority);
        parts.uri = Uri::from_parts(uri).map_err(|_| Status::BadArgument)?;
    }
    Ok(())
}

/// A status that ends an exchange: 1xx is followed by another.
pub(crate) fn final_status(value: &[u8]) -> Result<StatusCode, Status> {
    match StatusCode::from_bytes(value) {
        Ok(status) if !status.is_informational() => Ok(status),
        _ => Err(Status::BadArgument),
    }
}

/// Fields that say where a message ends, or concern one connection alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Other,
}

impl Framing {
    fn of(name: &HeaderName) -> Option<Self> {
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
fn check_trailer(name: &HeaderName) -> Result<(), Status> {
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

fn field(key: &[u8], value: &[u8]) -> Result<(HeaderName, HeaderValue), Status> {
    let name = HeaderName::from_bytes(key).map_err(|_| Status::BadArgument)?;
    let value = HeaderValue::from_bytes(value).map_err(|_| Status::BadArgument)?;
    Ok((name, value))
}

/// A name and a value.
type Pair = (Box<[u8]>, Box<[u8]>);

/// A guest's map, sorted into what it says of the message. Framing is left out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) headers: HeaderMap,
    /// Without the colon.
    pub(crate) pseudo: Vec<Pair>,
    /// Of all names and values.
    pub(crate) bytes: usize,
    has_length: bool,
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
