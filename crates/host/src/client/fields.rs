//! Header fields on their way through.
//!
//! | fields | what becomes of them |
//! |---|---|
//! | `connection` and what it names, `keep-alive`, `proxy-…`, `te`, `trailer`, `upgrade` | of one connection only: taken out, both ways |
//! | `transfer-encoding`, `content-length` of a request | taken out: the body's framing is made anew; `0` stays |
//! | `expect` | taken out: the client is told to go on as soon as the server reads its body |
//! | `host` | the client's; HTTP/2 has it in `:authority` |
//! | `cookie` | HTTP/2 may have several, HTTP/1 has one |
//! | `x-forwarded-…`, `forwarded`, `x-real-ip` | replaced: what the client said the edge has taken out, and a filter knows no better |
//! | `via` | as it is: whoever asks this server need not know that there is another |

use super::UpstreamError;
use crate::{
    body::Body,
    config::Server,
    fields::{Head, take_out_connection_fields},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header, request, response,
    uri::PathAndQuery,
};
use http_body::Body as _;
use palisade_filter::Peer;
use std::{cell::RefCell, net::IpAddr, rc::Rc};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Makes a request one of HTTP/1.1 to `server`, on a connection of its own.
///
/// # Errors
///
/// When it cannot be sent to a server: `CONNECT`, or an upgrade of the connection.
pub(crate) fn prepare(
    parts: &mut request::Parts,
    body: &Body,
    server: &Server,
) -> Result<(), UpstreamError> {
    if parts.method == Method::CONNECT {
        return Err(UpstreamError::Tunnel);
    }
    if parts.version < Version::HTTP_2 && parts.headers.contains_key(header::UPGRADE) {
        refuse_upgrade(&parts.headers)?;
    }
    let says_nothing = body.is_end_stream() && says_that_it_is_empty(parts);
    take_out_connection_fields(&mut parts.headers, Head::Request);
    if says_nothing {
        let none = HeaderValue::from_static("0");
        parts.headers.insert(header::CONTENT_LENGTH, none);
    }
    if parts.version == Version::HTTP_2 {
        join_cookies(&mut parts.headers);
    }
    name_host(parts, server);
    parts.version = Version::HTTP_11;
    Ok(())
}

/// Whether a request without a body tells so: as its client does, and where its method has one be expected. Some servers
/// answer 411 to a POST without a length (RFC 9110, section 8.6).
fn says_that_it_is_empty(parts: &request::Parts) -> bool {
    let expects_body = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
    expects_body || parts.headers.contains_key(header::CONTENT_LENGTH)
}

/// Makes a response one of this server's own connection.
pub(super) fn clean_response(parts: &mut response::Parts) {
    let is_chunked = parts.headers.contains_key(header::TRANSFER_ENCODING);
    take_out_connection_fields(&mut parts.headers, Head::Response);
    if is_chunked {
        // RFC 9112, 6.3: the length is not what it says.
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    parts.version = Version::HTTP_11;
}

/// An `upgrade` that the client would do without (`h2c`) is no more than an offer.
fn refuse_upgrade(headers: &HeaderMap) -> Result<(), UpstreamError> {
    let mut protocols = headers.get_all(header::UPGRADE).iter();
    let is_offer = protocols.all(|protocol| {
        let protocol = protocol.as_bytes();
        protocol.eq_ignore_ascii_case(b"h2c") || protocol.to_ascii_lowercase().starts_with(b"tls/")
    });
    match is_offer {
        true => Ok(()),
        false => Err(UpstreamError::Upgrade),
    }
}

/// RFC 9113, 8.2.3.
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(_)) = (cookies.next(), cookies.next()) else {
        return;
    };
    let mut joined = first.as_bytes().to_vec();
    for cookie in headers.get_all(header::COOKIE).iter().skip(1) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(cookie.as_bytes());
    }
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(header::COOKIE, joined);
    }
}

/// A target with a host in it has the last word about the host (RFC 9112, 3.2.2); the server is asked for
/// the path alone.
fn name_host(parts: &mut request::Parts, server: &Server) {
    if name_host_of_target(parts) {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    } else if !parts.headers.contains_key(header::HOST)
        && let Some(host) = host_of(server)
    {
        parts.headers.insert(header::HOST, host);
    }
}

/// Whether the target has a host in it.
fn name_host_of_target(parts: &mut request::Parts) -> bool {
    let Some(authority) = parts.uri.authority() else {
        return false;
    };
    let host = authority.as_str();
    // What comes before `@` is for the client's own use.
    let host = host.rsplit('@').next().unwrap_or(host);
    let had = parts.headers.get(header::HOST);
    let is_same = had.is_some_and(|had| had == host);
    if !is_same && let Ok(host) = HeaderValue::try_from(host) {
        parts.headers.insert(header::HOST, host);
    }
    true
}

/// What a request that names no host gets.
fn host_of(server: &Server) -> Option<HeaderValue> {
    let Server::Internet { host, port, tls } = server else {
        return Some(HeaderValue::from_static("localhost"));
    };
    let is_bare_v6 = host.contains(':') && !host.starts_with('[');
    let host = match is_bare_v6 {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let usual = if *tls { 443 } else { 80 };
    HeaderValue::try_from(match *port == usual {
        true => host,
        false => format!("{host}:{port}"),
    })
    .ok()
}

/// What a server is told about the client, for the clients that asked last. Clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ForwardedCache(Rc<RefCell<[Option<Known>; 32]>>);

thread_local! {
    static OF_THREAD: ForwardedCache = ForwardedCache::default();
}

#[derive(Clone, Debug)]
struct Known {
    address: Option<IpAddr>,
    is_secure: bool,
    x_forwarded_for: Option<HeaderValue>,
    forwarded: HeaderValue,
}

impl ForwardedCache {
    /// The thread's own: it is larger than all else of a client, and says the same for every one.
    pub(super) fn of_thread() -> Self {
        OF_THREAD.with(Self::clone)
    }

    /// Tells for whom the request is sent, in place of whatever the client said.
    pub(crate) fn tell(&self, headers: &mut HeaderMap, peer: &Peer) {
        take_out_claims(headers);
        let known = self.of(
            peer.address.map(|address| address.ip()),
            peer.tls_version.is_some(),
        );
        if let Some(host) = headers.get(header::HOST).cloned() {
            headers.insert(X_FORWARDED_HOST, host);
        }
        let protocol = HeaderValue::from_static(if known.is_secure { "https" } else { "http" });
        headers.insert(X_FORWARDED_PROTO, protocol);
        if let Some(address) = known.x_forwarded_for {
            headers.insert(X_FORWARDED_FOR, address);
        }
        headers.insert(header::FORWARDED, known.forwarded);
    }

    /// The same for a guest in this process, which sees the request's target as it came.
    pub(crate) fn tell_guest(&self, parts: &mut request::Parts, peer: &Peer) {
        name_host_of_target(parts);
        self.tell(&mut parts.headers, peer);
    }

    fn of(&self, address: Option<IpAddr>, is_secure: bool) -> Known {
        let mut entries = self.0.borrow_mut();
        let place = place_of(address, entries.len());
        match &entries[place] {
            Some(known) if known.address == address && known.is_secure == is_secure => {
                known.clone()
            }
            _ => entries[place]
                .insert(Known::new(address, is_secure))
                .clone(),
        }
    }
}

fn place_of(address: Option<IpAddr>, places: usize) -> usize {
    let bytes = match address {
        None => 0,
        Some(IpAddr::V4(address)) => u128::from(u32::from(address)),
        Some(IpAddr::V6(address)) => u128::from(address),
    };
    (bytes % (places as u128 - 1)) as usize
}

impl Known {
    fn new(address: Option<IpAddr>, is_secure: bool) -> Self {
        let protocol = if is_secure { "https" } else { "http" };
        let text = match address {
            None => format!("for=unknown;proto={protocol}"),
            Some(IpAddr::V4(address)) => format!("for={address};proto={protocol}"),
            Some(IpAddr::V6(address)) => format!("for=\"[{address}]\";proto={protocol}"),
        };
        let value = |text: String| HeaderValue::try_from(text).ok();
        Self {
            address,
            is_secure,
            x_forwarded_for: address.and_then(|address| value(address.to_string())),
            forwarded: value(text).unwrap_or(HeaderValue::from_static("for=unknown")),
        }
    }
}

/// Whatever a client says about where it comes from, servers behind a proxy tend to believe.
fn take_out_claims(headers: &mut HeaderMap) {
    let is_claim = |name: &HeaderName| {
        let name = name.as_str();
        name.starts_with("x-forwarded-") || name == "x-real-ip"
    };
    while let Some(name) = headers.keys().find(|name| is_claim(name)).cloned() {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests;
