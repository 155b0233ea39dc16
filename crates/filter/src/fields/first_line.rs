//! Pseudo fields: a message's first line.

use crate::abi::Status;
use http::{
    HeaderValue, Method, StatusCode, Uri, Version, header, request,
    uri::{Authority, PathAndQuery, Scheme},
};

pub(super) fn set_request_pseudo(
    parts: &mut request::Parts,
    name: &[u8],
    value: &[u8],
) -> Result<(), Status> {
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
pub(super) fn other_method(present: &Method, value: &[u8]) -> Result<Method, Status> {
    match Method::from_bytes(value) {
        Ok(method) if (method == Method::CONNECT) == (*present == Method::CONNECT) => Ok(method),
        _ => Err(Status::BadArgument),
    }
}

pub(super) fn with_path(uri: &Uri, value: &[u8]) -> Result<Uri, Status> {
    let path = checked_path(value)?;
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|_| Status::BadArgument)
}

/// A path from the root, with a query or without; or `*`.
pub(super) fn checked_path(value: &[u8]) -> Result<PathAndQuery, Status> {
    // What begins a fragment would be cut off.
    let is_path = value == b"*" || value.starts_with(b"/") && !value.contains(&b'#');
    match PathAndQuery::try_from(value) {
        Ok(path) if is_path => Ok(path),
        _ => Err(Status::BadArgument),
    }
}

/// A request that came without a scheme has its connection's.
pub(super) fn with_scheme(uri: &Uri, value: &[u8]) -> Result<Uri, Status> {
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

pub(super) fn checked_authority(value: &[u8]) -> Result<Authority, Status> {
    match Authority::try_from(value) {
        Ok(authority) if !value.contains(&b'@') && !value.is_empty() => Ok(authority),
        _ => Err(Status::BadArgument),
    }
}

/// In the URI, in the field, or in both: wherever it is said, it is said the same.
pub(super) fn set_authority(
    parts: &mut request::Parts,
    authority: Authority,
) -> Result<(), Status> {
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
