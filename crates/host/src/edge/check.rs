//! What hyper lets through and a service behind might understand differently, or is too much.
//!
//! hyper has refused before: malformed heads, folded lines, spaces before colons, NUL and CR in values,
//! lengths of HTTP/1 that contradict each other, codings that do not end in `chunked`. It removes `content-length`
//! beside `transfer-encoding` and closes the connection after such a request.

use super::watch::Bounds;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version,
    header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
    request::Parts,
};

/// The status that the request is refused with, or nothing. `length` is that of its body, where it is told.
pub(super) fn check(parts: &Parts, length: Option<u64>, bounds: &Bounds) -> Result<(), StatusCode> {
    if parts.headers.len() > bounds.headers {
        return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    check_target(&parts.method, &parts.uri)?;
    check_host(parts)?;
    if parts.version == Version::HTTP_2 {
        // Also a message without a body must not promise one to whoever reads it next as HTTP/1.
        check_lengths(&parts.headers, length)?;
    }
    if length == Some(0) {
        return Ok(());
    }
    check_coding(parts)?;
    if length.is_some_and(|length| length > bounds.body_bytes) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    Ok(())
}

/// Takes out fields whose names have an underscore. Programs that know fields by the names of variables, as CGI
/// has it, would take `X_Forwarded_For` for the field that this server sets.
pub(super) fn take_out_underscores(headers: &mut HeaderMap) {
    let has_underscore = |name: &&HeaderName| name.as_str().as_bytes().contains(&b'_');
    // Most have none, and an empty list is nothing.
    let names: Vec<_> = headers.keys().filter(has_underscore).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// A path, an address with a path, or `*` for OPTIONS.
fn check_target(method: &Method, uri: &Uri) -> Result<(), StatusCode> {
    if method == Method::CONNECT {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let is_known = match uri.scheme_str() {
        None => uri.authority().is_none(),
        Some(scheme) => matches!(scheme, "http" | "https") && uri.authority().is_some(),
    };
    let path = uri.path();
    let is_path = path.starts_with('/') || (path == "*" && method == Method::OPTIONS);
    if is_known && is_path {
        Ok(())
    } else {
        Err(StatusCode::BAD_REQUEST)
    }
}

/// One host, and the same wherever it is named.
fn check_host(parts: &Parts) -> Result<(), StatusCode> {
    let fields = parts.headers.iter();
    let mut hosts = fields.filter_map(|(name, value)| matches!(*name, HOST).then_some(value));
    let (host, second) = (hosts.next(), hosts.next());
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let is_one = match (authority, host) {
        (_, None) if is_http_1_1(parts) => false,
        (None, None) => parts.version < Version::HTTP_11,
        (None, Some(host)) => is_host(host.as_bytes()),
        (Some(authority), None) => is_host(authority.as_bytes()),
        (Some(authority), Some(host)) => {
            is_host(host.as_bytes()) && host.as_bytes().eq_ignore_ascii_case(authority.as_bytes())
        }
    };
    if is_one && second.is_none() {
        Ok(())
    } else {
        Err(StatusCode::BAD_REQUEST)
    }
}

fn is_http_1_1(parts: &Parts) -> bool {
    parts.version == Version::HTTP_11
}

/// A name or address, with a port or without. No user, no comma, nothing that could be a path.
fn is_host(host: &[u8]) -> bool {
    let is_of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(byte);
    !host.is_empty() && host.iter().all(is_of_host)
}

/// No coding but `chunked`, once: nothing here or behind undoes another.
fn check_coding(parts: &Parts) -> Result<(), StatusCode> {
    let mut codings = parts.headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, None) => Ok(()),
        (Some(coding), None) if is_chunked(coding) => Ok(()),
        (Some(_), None) => Err(StatusCode::NOT_IMPLEMENTED),
        _ => Err(StatusCode::BAD_REQUEST),
    }
}

/// One length, and the true one.
fn check_lengths(headers: &HeaderMap, length: Option<u64>) -> Result<(), StatusCode> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    match (lengths.next(), lengths.next()) {
        (None, None) => Ok(()),
        (Some(told), None) if length.is_some() && parse_length(told) == length => Ok(()),
        _ => Err(StatusCode::BAD_REQUEST),
    }
}

/// Digits alone.
fn parse_length(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok()?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}
