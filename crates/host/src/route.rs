//! Which requests go where: the first route of the file that fits has the request.
//!
//! Paths are taken as [`path::normalize`](crate::path::normalize) leaves them. A prefix fits whole segments, and
//! what is escaped is compared as what it means: a route for `/@me` gets `/%40me` too, because its service
//! would take the two for the same. An escaped slash is part of a segment.

use crate::config;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header::HOST, request::Parts};
use percent_encoding::percent_decode_str;
use std::net::Ipv6Addr;

/// The routes of a configuration, in its order.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
    /// Whether any route asks for a host.
    by_host: bool,
}

/// One route, made ready to be compared.
#[derive(Clone, Debug)]
struct Route {
    host: Option<Host>,
    path: Prefix,
    methods: Vec<Method>,
    headers: Vec<(HeaderName, Option<HeaderValue>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    Name(Box<str>),
    /// `*.name`: what ends in this, which begins with a dot. Any number of labels may stand before.
    Below(Box<str>),
    Ipv6(Ipv6Addr),
}

/// The beginning of a path. Without segments it fits everything, also `*` and what has no path.
#[derive(Clone, Debug)]
struct Prefix {
    /// As it was written, without a slash at its end.
    text: Box<str>,
    has_escapes: bool,
    /// Each without escapes.
    segments: Box<[Box<[u8]>]>,
}

impl Routes {
    /// Makes routes ready.
    pub fn new(routes: &[config::Route]) -> Self {
        let routes: Vec<_> = routes.iter().map(Route::new).collect();
        Self {
            by_host: routes.iter().any(|route| route.host.is_some()),
            routes,
        }
    }

    /// The place of the first route that fits a request whose path is normal. Allocates nothing.
    pub fn find(&self, request: &Parts) -> Option<usize> {
        self.find_path(request, request.uri.path())
    }

    /// The same of the request with another path.
    pub fn find_path(&self, request: &Parts, path: &str) -> Option<usize> {
        let host = match self.by_host {
            true => host(request),
            false => None,
        };
        self.routes.iter().position(|route| {
            route.path.fits(path)
                && route
                    .host
                    .as_ref()
                    .is_none_or(|asked| host.is_some_and(|host| asked.fits(host)))
                && (route.methods.is_empty() || route.methods.contains(&request.method))
                && fit_headers(&route.headers, &request.headers)
        })
    }

    /// What is left of a normal path when the route's own is taken away: it begins with a slash, or is empty where
    /// the path ends with the route's. For a path that the route fits.
    pub fn rest<'path>(&self, route: usize, path: &'path str) -> &'path str {
        let count = self
            .routes
            .get(route)
            .map_or(0, |route| route.path.segments.len());
        let mut slashes = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/');
        slashes.nth(count).map_or("", |(start, _)| &path[start..])
    }
}

impl Route {
    fn new(route: &config::Route) -> Self {
        Self {
            host: route.host.as_deref().map(Host::new),
            path: Prefix::new(&route.path),
            methods: route.methods.clone(),
            headers: route.headers.clone(),
        }
    }
}

/// The host that a request asks for, as it was written, without port and without a dot at its end; an IPv6 address in
/// its brackets. What the request line says counts (RFC 9112, section 3.2.2; HTTP/2's `:authority`), and the field
/// `Host` where it says nothing.
pub fn host(request: &Parts) -> Option<&str> {
    let host = match request.uri.host() {
        Some(host) => host,
        None => without_port(request.headers.get(HOST)?.to_str().ok()?),
    };
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then_some(host)
}

fn without_port(authority: &str) -> &str {
    let end = match authority.starts_with('[') {
        true => authority.find(']').map(|end| end + 1),
        false => authority.find(':'),
    };
    &authority[..end.unwrap_or(authority.len())]
}

impl Host {
    fn new(host: &str) -> Self {
        let host = host.strip_suffix('.').unwrap_or(host);
        let address = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        match (address.parse(), host.strip_prefix('*')) {
            (Ok(address), _) => Self::Ipv6(address),
            (_, Some(below)) => Self::Below(below.into()),
            _ => Self::Name(host.into()),
        }
    }

    fn fits(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host.eq_ignore_ascii_case(name),
            Self::Below(end) => match host.len().checked_sub(end.len()) {
                None | Some(0) => false,
                Some(start) => host.as_bytes()[start..].eq_ignore_ascii_case(end.as_bytes()),
            },
            Self::Ipv6(address) => {
                let inner = host
                    .strip_prefix('[')
                    .and_then(|host| host.strip_suffix(']'));
                inner.is_some_and(|inner| inner.parse() == Ok(*address))
            }
        }
    }
}

impl Prefix {
    fn new(path: &str) -> Self {
        let text = normal_path(path);
        let text = text.trim_end_matches('/');
        let segments = text
            .split('/')
            .skip(1)
            .map(|segment| percent_decode_str(segment).collect());
        Self {
            text: text.into(),
            has_escapes: text.contains('%'),
            segments: segments.collect(),
        }
    }

    fn fits(&self, path: &str) -> bool {
        if self.segments.is_empty() {
            return true;
        }
        if let Some(rest) = path.strip_prefix(&*self.text) {
            return rest.is_empty() || rest.starts_with('/');
        }
        // Few paths have escapes.
        (self.has_escapes || path.contains('%')) && self.fits_unescaped(path)
    }

    fn fits_unescaped(&self, path: &str) -> bool {
        let mut segments = path.split('/').skip(1);
        self.segments.iter().all(|segment| {
            segments
                .next()
                .is_some_and(|found| percent_decode_str(found).eq(segment.iter().copied()))
        })
    }
}

/// A route's path as requests have it, where that can be said.
fn normal_path(path: &str) -> String {
    let uri = path.parse::<Uri>().ok();
    let normal = uri.and_then(|uri| match crate::path::normalize(&uri) {
        Ok(Some(normal)) => Some(normal.path().to_owned()),
        _ => None,
    });
    normal.unwrap_or_else(|| path.to_owned())
}

fn fit_headers(asked: &[(HeaderName, Option<HeaderValue>)], headers: &HeaderMap) -> bool {
    asked.iter().all(|(name, value)| match value {
        None => headers.contains_key(name),
        Some(value) => headers.get_all(name).iter().any(|found| found == value),
    })
}

#[cfg(test)]
mod tests;
