//! Header fields of requests that are not the client's to say, and those of one connection only: the edge takes both out
//! before anything looks at a request.

use http::{HeaderName, header};

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
