//! Properties: what filters can know of an exchange, its connection and themselves.
//!
//! Paths and forms are Envoy's. Numbers, times (ns since 1970) and durations (ns) are 8 bytes, little-endian;
//! a truth is one byte; a map is as [`crate::pairs`] writes it. The parts of a path are parted by NUL, or by dots
//! where there is none. What this crate does not know, a filter may have set; last the host is asked.

use crate::{Exchange, abi::Status, fields::View, pairs, state::State};
use bytes::Bytes;
use http::{HeaderMap, Version, header};
use std::{
    borrow::Cow,
    net::SocketAddr,
    time::{SystemTime, UNIX_EPOCH},
};

/// What a property costs beside its path and value.
const PROPERTY_BYTES: usize = 64;

/// What a property costs of [`crate::Bounds::property_bytes`].
pub(crate) fn cost(path: &[u8], value: &[u8]) -> usize {
    path.len() + value.len() + PROPERTY_BYTES
}

/// A path with its parts parted by NUL, and none at its end.
pub(crate) fn normalize(path: &[u8]) -> Cow<'_, [u8]> {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    if path.contains(&0) || !path.contains(&b'.') {
        return Cow::Borrowed(path);
    }
    Cow::Owned(
        path.iter()
            .map(|byte| if *byte == b'.' { 0 } else { *byte })
            .collect(),
    )
}

/// Writes a property behind what is there.
pub(crate) fn read(state: &State, path: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
    let path = normalize(path);
    if read_own(state, &path, out).is_some() {
        return Ok(());
    }
    let exchange = state.exchange();
    let set = exchange.and_then(|exchange| exchange.properties.get(&path).cloned());
    let found: Option<Bytes> = set.or_else(|| state.host.property(exchange, &path));
    out.extend_from_slice(&found.ok_or(Status::NotFound)?);
    Ok(())
}

fn read_own(state: &State, path: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let settings = &state.loaded.settings;
    match path {
        b"plugin_name" => text(out, &settings.name),
        b"plugin_root_id" => text(out, &settings.root_id),
        b"plugin_vm_id" => text(out, &settings.vm_id),
        // Inbound: the server is what clients reach.
        b"listener_direction" => number(out, 1),
        _ => read_exchange(state.exchange()?, path, out),
    }
}

fn read_exchange(exchange: &Exchange, path: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let peer = &exchange.peer;
    match path {
        b"route_name" | b"xds\0route_name" => text(out, &exchange.route),
        b"cluster_name" | b"xds\0cluster_name" => text(out, &exchange.service),
        b"connection_id" | b"connection\0id" => number(out, peer.number),
        _ => {
            let end = path.iter().position(|byte| *byte == 0)?;
            let (object, attribute) = (&path[..end], &path[end + 1..]);
            match object {
                b"request" => read_request(exchange, attribute, out),
                b"response" => read_response(exchange, attribute, out),
                b"source" => address(out, peer.address?, attribute),
                b"destination" => address(out, peer.local_address?, attribute),
                b"connection" => read_connection(exchange, attribute, out),
                _ => None,
            }
        }
    }
}

fn read_request(exchange: &Exchange, attribute: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let view = View::of_request(exchange);
    let body_bytes = request_bytes(exchange);
    match attribute {
        b"path" => field(out, view, b":path"),
        b"url_path" => text(out, exchange.request.uri.path()),
        b"query" => text(out, exchange.request.uri.query().unwrap_or_default()),
        b"host" => field(out, view, b":authority"),
        b"scheme" => field(out, view, b":scheme"),
        b"method" => field(out, view, b":method"),
        b"referer" => field(out, view, b"referer"),
        b"useragent" => field(out, view, b"user-agent"),
        b"id" => field(out, view, b"x-request-id"),
        b"protocol" => text(out, protocol(exchange.request.version)?),
        b"headers" => map(out, view),
        b"time" => time(out, exchange.started?),
        b"duration" => duration(out, exchange),
        b"size" => number(out, body_bytes),
        b"total_size" => number(out, body_bytes + view.bytes() as u64),
        _ => field(out, view, attribute.strip_prefix(b"headers\0")?),
    }
}

/// Bytes of the request's body: as many as its head says, as Envoy has it, else those that have come so far.
fn request_bytes(exchange: &Exchange) -> u64 {
    let said = exchange.request.headers.get(header::CONTENT_LENGTH);
    let said = said.and_then(|length| length.to_str().ok()?.parse().ok());
    let rest = &exchange.request_rest;
    said.unwrap_or(rest.passed_bytes + rest.body.len() as u64)
}

fn read_response(exchange: &Exchange, attribute: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let rest = &exchange.response_rest;
    let body_bytes = rest.passed_bytes + rest.body.len() as u64;
    // The head may be with the client already.
    if attribute == b"size" {
        return number(out, body_bytes);
    }
    let parts = exchange.response.as_ref()?;
    let view = View::Response(parts.status, &parts.headers);
    match attribute {
        b"code" => number(out, parts.status.as_u16().into()),
        b"grpc_status" => number(out, grpc_status(&parts.headers, rest.trailers.as_deref())?),
        b"headers" => map(out, view),
        b"trailers" => map(out, View::Trailers(rest.trailers.as_deref()?)),
        b"total_size" => number(out, body_bytes + view.bytes() as u64),
        b"code_details" => {
            let response = exchange.local_response.as_ref()?;
            text(out, &response.details)
        }
        _ => match attribute.strip_prefix(b"trailers\0") {
            Some(name) => field(out, View::Trailers(rest.trailers.as_deref()?), name),
            None => field(out, view, attribute.strip_prefix(b"headers\0")?),
        },
    }
}

fn read_connection(exchange: &Exchange, attribute: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let peer = &exchange.peer;
    match attribute {
        b"tls_version" => text(out, peer.tls_version?),
        b"requested_server_name" => text(out, peer.server_name.as_deref()?),
        // No client shows a certificate here.
        b"mtls" => {
            out.push(0);
            Some(())
        }
        _ => None,
    }
}

fn text(out: &mut Vec<u8>, text: &str) -> Option<()> {
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn number(out: &mut Vec<u8>, number: u64) -> Option<()> {
    out.extend_from_slice(&number.to_le_bytes());
    Some(())
}

fn field(out: &mut Vec<u8>, view: View<'_>, name: &[u8]) -> Option<()> {
    view.get(name, |value| out.extend_from_slice(value))
}

fn map(out: &mut Vec<u8>, view: View<'_>) -> Option<()> {
    pairs::write(out, |visit| view.visit(visit));
    Some(())
}

fn time(out: &mut Vec<u8>, time: SystemTime) -> Option<()> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    number(out, since.as_nanos() as u64)
}

/// Of an exchange that is over, as Envoy has it: it has a response.
fn duration(out: &mut Vec<u8>, exchange: &Exchange) -> Option<()> {
    let elapsed = exchange.started?.elapsed().ok()?;
    number(out, elapsed.as_nanos() as u64)
}

fn address(out: &mut Vec<u8>, address: SocketAddr, attribute: &[u8]) -> Option<()> {
    match attribute {
        b"address" => text(out, &address.to_string()),
        b"port" => number(out, address.port().into()),
        _ => None,
    }
}

fn protocol(version: Version) -> Option<&'static str> {
    Some(match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_11 => "HTTP/1.1",
        Version::HTTP_2 => "HTTP/2",
        Version::HTTP_3 => "HTTP/3",
        _ => return None,
    })
}

fn grpc_status(headers: &HeaderMap, trailers: Option<&HeaderMap>) -> Option<u64> {
    let name = header::HeaderName::from_static("grpc-status");
    let value = trailers
        .and_then(|trailers| trailers.get(&name))
        .or_else(|| headers.get(&name))?;
    value.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parted_by_nul_or_by_dots() {
        for path in ["request\0path", "request\0path\0", "request.path"] {
            assert_eq!(&*normalize(path.as_bytes()), b"request\0path");
        }
        let with_dot = b"request\0headers\0x.y";
        assert_eq!(&*normalize(with_dot), with_dot);
        assert_eq!(&*normalize(b"plugin_name"), b"plugin_name");
        assert_eq!(&*normalize(b""), b"");
    }
}
