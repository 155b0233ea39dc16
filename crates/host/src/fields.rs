//! Header fields that a proxy does not pass on: those that clients may not set, and those of one connection.
//!
//! The edge takes both out before anything else sees a request. The fields of one connection are taken out once more where
//! a request goes to another server, and where its response comes back.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Whether a field concerns one connection alone, whatever the message.
pub(crate) fn is_of_connection(name: &HeaderName) -> bool {
    match *name {
        header::CONNECTION
        | header::TE
        | header::TRAILER
        | header::TRANSFER_ENCODING
        | header::PROXY_AUTHENTICATE
        | header::PROXY_AUTHORIZATION => true,
        _ => matches!(name.as_str(), "keep-alive" | "proxy-connection"),
    }
}

/// Whose fields of one connection are taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A request's, before filters see it: a change of protocol is for its service to refuse.
    Received,
    /// A request's, before a server sees it: with its framing.
    Request,
    /// A response's.
    Response,
}

/// Takes out what concerns one connection only.
pub(crate) fn take_out_connection_fields(headers: &mut HeaderMap, head: Head) {
    // Most requests have none: that is seen before room is made for what is found.
    if !headers.keys().any(|name| is_of_connection_of(name, head)) {
        return;
    }
    let mut found = [const { None }; MOST_KINDS];
    let mut count = 0;
    for name in headers.keys() {
        if is_of_connection_of(name, head) && count < MOST_KINDS {
            found[count] = Some(name.clone());
            count += 1;
        }
    }
    if headers.contains_key(header::CONNECTION) {
        take_out_named(headers);
    }
    for name in found.into_iter().flatten() {
        headers.remove(name);
    }
}

/// How many names [`is_of_connection_of`] knows.
const MOST_KINDS: usize = 11;

fn is_of_connection_of(name: &HeaderName, head: Head) -> bool {
    match *name {
        header::UPGRADE => head != Head::Received,
        header::EXPECT | header::CONTENT_LENGTH => head == Head::Request,
        _ => is_of_connection(name),
    }
}

/// A `connection` field may name others (RFC 9110, 7.6.1). Those that say what the message is about are not
/// for one connection, whatever it says; `upgrade` is one of [`is_of_connection_of`].
fn take_out_named(headers: &mut HeaderMap) {
    const NEVER: [&str; 7] = [
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "authorization",
        "cookie",
        "upgrade",
    ];
    let values: Vec<HeaderValue> = headers
        .get_all(header::CONNECTION)
        .iter()
        .cloned()
        .collect();
    let names = values.iter().filter_map(|value| value.to_str().ok());
    for name in names.flat_map(|names| names.split(',')).map(str::trim) {
        let is_kept = NEVER.iter().any(|kept| name.eq_ignore_ascii_case(kept));
        if !name.is_empty() && !is_kept && !name.eq_ignore_ascii_case("connection") {
            headers.remove(name);
        }
    }
}

/// Whether servers take this field for what a proxy in front of them says: where the request came from, what it
/// asked for, who the client has proved to be. This server is that proxy, and says it itself or not at all.
pub(crate) fn is_claim(name: &HeaderName) -> bool {
    let name = name.as_str();
    match name.as_bytes() {
        [b'x', b'-', ..] => is_x_claim(name),
        // CVE-2016-5385: CGI makes `HTTP_PROXY` of it. RFC 9440 has the certificates.
        [b'c' | b'f' | b'p' | b's' | b't' | b'w', ..] => matches!(
            name,
            "proxy"
                | "forwarded"
                | "forwarded-for"
                | "client-ip"
                | "client-cert"
                | "client-cert-chain"
                | "cf-connecting-ip"
                | "cf-connecting-ipv6"
                | "fastly-client-ip"
                | "true-client-ip"
                | "proxy-client-ip"
                | "wl-proxy-client-ip"
                | "ssl-client-cert"
                | "ssl-client-verify"
        ),
        _ => false,
    }
}

fn is_x_claim(name: &str) -> bool {
    // `x-forwarded-for`, `x-original-url`, `x-envoy-external-address`, `x-ssl-client-verify` and their kin.
    const BEGINNINGS: [&str; 6] = [
        "x-forwarded",
        "x-original-",
        "x-rewrite-",
        "x-envoy-",
        "x-ssl-client-",
        "x-client-cert",
    ];
    let is_known = BEGINNINGS.iter().any(|start| name.starts_with(start));
    is_known
        || matches!(
            name,
            "x-accel-mapping"
                | "x-azure-clientip"
                | "x-azure-socketip"
                | "x-appengine-user-ip"
                | "x-client-ip"
                | "x-cluster-client-ip"
                | "x-host"
                | "x-http-host-override"
                | "x-http-method"
                | "x-http-method-override"
                | "x-method-override"
                | "x-originating-ip"
                | "x-proxyuser-ip"
                | "x-real-ip"
                | "x-remote-addr"
                | "x-remote-ip"
                | "x-sendfile-type"
                | "x-true-ip"
                | "x-waws-unencoded-url"
        )
}
