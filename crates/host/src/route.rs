//! Which requests go where: the first route of the file that fits has the request.
//!
//! ```text
//!  host ──HostMap──▶ its own, and of each `*.NAME` above it ──┐
//!                    routes for any host ─────────────────────┴──PathMap──▶ places in the file: the first that fits
//! ```
//!
//! So what a request takes does not grow with the number of hosts and paths in the file.
//!
//! Paths are taken as [`path::normalize`](crate::path::normalize) leaves them. A prefix fits whole segments, and
//! what is escaped is compared as what it means: a route for `/@me` gets `/%40me` too, because its service
//! would take the two for the same. An escaped slash is part of a segment.

#[cfg(test)]
mod tests;

use crate::{
    config,
    lookup::{HostMap, PathMap, rest, segments},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header::HOST, request::Parts};

/// The routes of one file, in its order.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
    /// Where to look for the first that fits, in any of these.
    by_host: HostMap<PathMap<Vec<usize>>>,
    for_any_host: PathMap<Vec<usize>>,
}

/// One route, made ready to be compared with requests whose host and path fit.
#[derive(Clone, Debug)]
struct Route {
    methods: Vec<Method>,
    headers: Vec<(HeaderName, Option<HeaderValue>)>,
    /// Segments of its path.
    segments: usize,
}

impl Routes {
    /// Makes routes ready.
    pub fn new(routes: &[config::Route]) -> Self {
        let mut made = Self {
            routes: Vec::with_capacity(routes.len()),
            ..Self::default()
        };
        for (place, route) in routes.iter().enumerate() {
            let by_path = match &route.host {
                Some(host) => made.by_host.entry(host),
                None => &mut made.for_any_host,
            };
            by_path.entry(&route.path).push(place);
            made.routes.push(Route {
                methods: route.methods.clone(),
                headers: route.headers.clone(),
                segments: segments(&route.path).len(),
            });
        }
        made
    }

    /// The place of the first route that fits a request whose path is normal.
    pub fn find(&self, request: &Parts) -> Option<usize> {
        self.find_path(request, request.uri.path())
    }

    /// The same of the request with another path.
    pub fn find_path(&self, request: &Parts, path: &str) -> Option<usize> {
        let mut first = self.first_of(&self.for_any_host, request, path, usize::MAX);
        if !self.by_host.is_empty()
            && let Some(host) = host(request)
        {
            for by_path in self.by_host.fitting(host) {
                first = self
                    .first_of(by_path, request, path, first.unwrap_or(usize::MAX))
                    .or(first);
            }
        }
        first
    }

    /// What is left of a normal path when the route's own is taken away: it begins with a slash, or is empty where
    /// the path ends with the route's. For a path that the route fits.
    pub fn rest<'path>(&self, route: usize, path: &'path str) -> &'path str {
        rest(
            path,
            self.routes.get(route).map_or(0, |route| route.segments),
        )
    }

    /// The first of these that fits, if it stands before a place that is known to fit.
    fn first_of(
        &self,
        by_path: &PathMap<Vec<usize>>,
        request: &Parts,
        path: &str,
        before: usize,
    ) -> Option<usize> {
        let mut first = None;
        by_path.for_each_fitting(path, |places| {
            let most = first.unwrap_or(before);
            let mut earlier = places.iter().take_while(|place| **place < most);
            let fitting = earlier.find(|place| self.routes[**place].fits(request));
            first = fitting.copied().or(first);
        });
        first
    }
}

impl Route {
    fn fits(&self, request: &Parts) -> bool {
        (self.methods.is_empty() || self.methods.contains(&request.method))
            && fit_headers(&self.headers, &request.headers)
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

fn fit_headers(asked: &[(HeaderName, Option<HeaderValue>)], headers: &HeaderMap) -> bool {
    asked.iter().all(|(name, value)| match value {
        None => headers.contains_key(name),
        Some(value) => headers.get_all(name).iter().any(|found| found == value),
    })
}
