//! What hyper lets through and a service behind might understand differently, or is too much.
//!
//! `heads` and hyper have refused before: malformed heads, folded lines, lines that a bare LF ends, spaces before
//! colons, NUL and CR in values, more than one length or a coding beside it, codings that do not end in `chunked`.

use super::{host::Host, watch::Bounds};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri, Version,
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
        check_ends(&parts.headers)?;
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

/// A path, an address with a path, or `*` for OPTIONS.
fn check_target(method: &Method, uri: &Uri) -> Result<(), StatusCode> {
    // A tunnel, and what would send a client's own secrets back to whoever has it ask (RFC 9110, section 9.3.8).
    if matches!(*method, Method::CONNECT | Method::TRACE) {
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

/// One host. Of HTTP/1 a target that names one has the last word (RFC 9112, section 3.2.2); of HTTP/2 both are the
/// same (RFC 9113, section 8.3.1).
fn check_host(parts: &Parts) -> Result<(), StatusCode> {
    let fields = parts.headers.iter();
    let mut hosts = fields.filter_map(|(name, value)| matches!(*name, HOST).then_some(value));
    let (host, second) = (hosts.next(), hosts.next());
    let host = host.map(|host| Host::parse(host.as_bytes()));
    let authority = parts.uri.authority();
    let authority = authority.map(|authority| Host::parse(authority.as_str().as_bytes()));
    let is_http2 = parts.version == Version::HTTP_2;
    let is_one = match (authority, host) {
        (Some(None), _) | (_, Some(None)) => false,
        (None, None) => parts.version < Version::HTTP_11,
        (Some(_), None) => parts.version != Version::HTTP_11,
        (Some(authority), Some(host)) if is_http2 => authority == host,
        (_, Some(_)) => true,
    };
    match is_one && second.is_none() {
        true => Ok(()),
        false => Err(StatusCode::BAD_REQUEST),
    }
}

/// No space at either end of a value (RFC 9113, section 8.2.1): who reads the field next as HTTP/1 takes it away, and
/// filters would see it.
fn check_ends(headers: &HeaderMap) -> Result<(), StatusCode> {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let has_space = |value: &HeaderValue| {
        let value = value.as_bytes();
        is_space(value.first()) || is_space(value.last())
    };
    match headers.values().any(has_space) {
        true => Err(StatusCode::BAD_REQUEST),
        false => Ok(()),
    }
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
