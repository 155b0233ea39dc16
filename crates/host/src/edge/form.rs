//! The one form of a request's head, which the log, routes, filters and services all see.
//!
//! | of the request | its form |
//! |---|---|
//! | target of HTTP/1 | a path: `http://host/path` becomes `/path`, and its host the field `host` (RFC 9112, 3.2.2) |
//! | target of HTTP/2 | with `:authority`, beside which there is no field `host`, and the connection's own scheme |
//! | host | small letters, no dot at its end, addresses of IPv6 written one way |
//! | path | [`path::normalize`] |
//! | fields | [`fields::tidy`]: each name once |
//!
//! `check` has refused what has none. A head that has its form already, as nearly all have, is looked at and left.

use super::{fields, host::Host};
use crate::path;
use http::{HeaderValue, Uri, Version, header::HOST, request::Parts, uri::Authority, uri::Scheme};

/// Why a head has no form: to be answered with 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formless {
    /// Its path, which concerns nothing but this request.
    Path,
    /// A field that there may be only one of.
    Repeated,
}

/// Brings a head that `check` let pass into its form.
pub(super) fn form(parts: &mut Parts, is_secure: bool, underscores: bool) -> Result<(), Formless> {
    match parts.version {
        Version::HTTP_2 => form_target_of_http2(parts, is_secure),
        _ => form_target_of_http1(parts),
    }
    form_host(parts);
    fields::tidy(&mut parts.headers, underscores).map_err(|fields::Repeated| Formless::Repeated)?;
    match path::normalize(&parts.uri) {
        Ok(None) => {}
        Ok(Some(uri)) => parts.uri = uri,
        Err(_) => return Err(Formless::Path),
    }
    Ok(())
}

/// A target with a host in it has the last word about the host, and is a path from then on.
fn form_target_of_http1(parts: &mut Parts) {
    let Some(authority) = parts.uri.authority() else {
        return;
    };
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        parts.headers.insert(HOST, host);
    }
    if let Some(target) = parts.uri.path_and_query() {
        parts.uri = Uri::from(target.clone());
    }
}

/// Of HTTP/2 `check` has seen that both hosts are the same.
fn form_target_of_http2(parts: &mut Parts, is_secure: bool) {
    let scheme = match is_secure {
        true => Scheme::HTTPS,
        false => Scheme::HTTP,
    };
    if parts.uri.authority().is_none() {
        return;
    }
    parts.headers.remove(HOST);
    if parts.uri.scheme() != Some(&scheme) {
        change(&mut parts.uri, |uri| uri.scheme = Some(scheme));
    }
}

fn form_host(parts: &mut Parts) {
    let given = match parts.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => match parts.headers.get(HOST) {
            Some(host) => host.as_bytes(),
            None => return,
        },
    };
    let Some(formed) = Host::parse(given).and_then(|host| host.formed(given)) else {
        return;
    };
    if parts.uri.authority().is_none() {
        if let Ok(host) = HeaderValue::try_from(formed) {
            parts.headers.insert(HOST, host);
        }
    } else if let Ok(authority) = Authority::try_from(formed) {
        change(&mut parts.uri, |uri| uri.authority = Some(authority));
    }
}

/// What there is of it stays where it cannot be changed: `check` has read all of its parts.
fn change(uri: &mut Uri, with: impl FnOnce(&mut http::uri::Parts)) {
    let mut parts = uri.clone().into_parts();
    with(&mut parts);
    if let Ok(changed) = Uri::from_parts(parts) {
        *uri = changed;
    }
}

#[cfg(test)]
mod tests;
