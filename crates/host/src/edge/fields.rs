//! Header fields of a request, in the form in which routes, filters and services see them: each name once, and nothing
//! that only a server in front could say.
//!
//! A program of WSGI, a filter's `get` and a component take different ones of a field that stands there twice: the first,
//! the last, or all of them with a comma in between. So they are joined here as RFC 9110, section 5.3, lets a proxy
//! do, and refused where the field's own definition has one value.

use crate::fields::{Head, is_claim, take_out_connection_fields};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// A field that there may be only one of stands there more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeated;

/// Takes out what is not the client's to say, or of one connection only, and joins what is there more than once.
pub(super) fn tidy(headers: &mut HeaderMap, underscores: bool) -> Result<(), Repeated> {
    let is_taken = |name: &HeaderName| is_claim(name) || !underscores && has_underscore(name);
    if headers.keys().any(is_taken) {
        let taken: Vec<_> = headers
            .keys()
            .filter(|name| is_taken(name))
            .cloned()
            .collect();
        for name in taken {
            headers.remove(name);
        }
    }
    // A repeated `connection` is for this server alone.
    take_out_connection_fields(headers, Head::Received);
    match headers.len() == headers.keys_len() {
        true => Ok(()),
        false => join_repeated(headers),
    }
}

/// Programs that know fields by the names of variables, as CGI has it, would take `X_Forwarded_For` for the field that
/// this server sets.
fn has_underscore(name: &HeaderName) -> bool {
    name.as_str().as_bytes().contains(&b'_')
}

/// Fields whose definition has one value: RFC 9110 and 9111, and RFC 6454 for `origin`. Two of them are two requests.
/// (`host` and the lengths `check` has refused.)
fn is_single(name: &HeaderName) -> bool {
    matches!(
        *name,
        header::AUTHORIZATION
            | header::CONTENT_LENGTH
            | header::CONTENT_LOCATION
            | header::CONTENT_RANGE
            | header::CONTENT_TYPE
            | header::DATE
            | header::FROM
            | header::HOST
            | header::IF_MODIFIED_SINCE
            | header::IF_RANGE
            | header::IF_UNMODIFIED_SINCE
            | header::MAX_FORWARDS
            | header::ORIGIN
            | header::PROXY_AUTHORIZATION
            | header::RANGE
            | header::REFERER
            | header::USER_AGENT
            | header::ACCESS_CONTROL_REQUEST_METHOD
            | header::SEC_WEBSOCKET_KEY
            | header::SEC_WEBSOCKET_VERSION
    )
}

fn join_repeated(headers: &mut HeaderMap) -> Result<(), Repeated> {
    let is_repeated = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    let repeated: Vec<_> = headers.keys().filter(is_repeated).cloned().collect();
    for name in repeated {
        if is_single(&name) {
            return Err(Repeated);
        }
        // RFC 9113, section 8.2.3; browsers of HTTP/1 send one.
        let between: &[u8] = match name {
            header::COOKIE => b"; ",
            _ => b", ",
        };
        let values = headers.get_all(&name).iter().map(HeaderValue::as_bytes);
        let joined = values.collect::<Vec<_>>().join(between);
        // It is of bytes that values may have.
        let joined = HeaderValue::from_bytes(&joined).map_err(|_| Repeated)?;
        headers.insert(name, joined);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
