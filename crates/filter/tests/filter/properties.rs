//! What filters can know.

use crate::harness::*;
use palisade_filter::{Bounds, Exchange};
use std::time::{Duration, UNIX_EPOCH};

fn get(callback: usize, path: &str) -> (u32, Vec<u8>) {
    get_of(crate::guest::exchange(), callback, path)
}

fn get_of(mut exchange: Box<Exchange>, callback: usize, path: &str) -> (u32, Vec<u8>) {
    let mut script = Script::new();
    let path = script.text(path);
    call!(script, callback, "proxy_get_property", path, DATA, LENGTH);
    // As the bytes of a property would come back from a property, they come back whole.
    let key = script.text("copy");
    call!(script, callback, "proxy_set_property", key, GIVEN);
    let mut fixture = script.start();
    exchange.started = Some(UNIX_EPOCH + Duration::from_secs(5));
    let id = fixture.instance.open(exchange);
    fixture.pass_parts(id);
    let exchange = fixture.instance.close(id).unwrap().unwrap();
    let copy = exchange.properties.get(&b"copy"[..]);
    (
        fixture.statuses()[0],
        copy.map(|copy| copy.to_vec()).unwrap_or_default(),
    )
}

#[test]
fn a_request_has_the_size_that_its_head_says() {
    let mut exchange = crate::guest::exchange();
    let length = http::HeaderValue::from_static("1234");
    exchange.request.headers.insert("content-length", length);
    let (status, size) = get_of(exchange, REQUEST_HEADERS, "request\0size");
    assert_eq!((status, size), (OK, 1234_u64.to_le_bytes().to_vec()));
}

#[test]
fn texts() {
    let cases = [
        ("plugin_name", "filter"),
        ("plugin_root_id", "root"),
        ("plugin_vm_id", "filter"),
        ("route_name", "route"),
        ("xds\0route_name", "route"),
        ("cluster_name", "service"),
        ("request\0path", "/path/file?query=1"),
        ("request\0path\0", "/path/file?query=1"),
        ("request.path", "/path/file?query=1"),
        ("request\0url_path", "/path/file"),
        ("request\0query", "query=1"),
        ("request\0host", "example.com:8080"),
        ("request\0scheme", "https"),
        ("request\0method", "GET"),
        ("request\0useragent", "test/1"),
        ("request\0protocol", "HTTP/1.1"),
        ("request\0headers\0x-one", "1"),
        ("request\0headers\0:authority", "example.com:8080"),
        ("response\0headers\0server", "upstream"),
        ("response\0trailers\0x-trailer", "answer"),
        ("source\0address", "192.0.2.1:40000"),
        ("destination\0address", "192.0.2.2:8080"),
        ("connection\0tls_version", "TLSv1.3"),
        ("connection\0requested_server_name", "example.com"),
        // The server's own.
        ("node\0id", "node"),
        ("upstream.address", "192.0.2.9:80"),
    ];
    for (path, value) in cases {
        let (status, bytes) = get(REQUEST_HEADERS, path);
        assert_eq!(status, OK, "{path:?}");
        assert_eq!(String::from_utf8_lossy(&bytes), value, "{path:?}");
    }
}

#[test]
fn numbers() {
    let cases = [
        ("listener_direction", 1),
        ("connection_id", 7),
        ("connection\0id", 7),
        ("source\0port", 40000),
        ("destination\0port", 8080),
        ("request\0size", 4),
        ("request\0time", 5_000_000_000),
        ("response\0code", 200),
        ("response\0size", 6),
    ];
    for (path, number) in cases {
        let expected = (OK, u64::to_le_bytes(number).to_vec());
        assert_eq!(get(RESPONSE_HEADERS, path), expected, "{path:?}");
    }
    let (status, bytes) = get(RESPONSE_HEADERS, "request\0duration");
    let duration = u64::from_le_bytes(bytes.try_into().unwrap());
    assert!(status == OK && duration > 1_000_000_000_000);
    assert_eq!(get(REQUEST_HEADERS, "connection\0mtls"), (OK, vec![0]));
    let (_, map) = get(REQUEST_HEADERS, "response\0trailers");
    assert_eq!(map, crate::guest::pairs(&[("x-trailer", "answer")]));
    let (_, map) = get(REQUEST_HEADERS, "request\0headers");
    assert_eq!(map[0], 9);
}

#[test]
fn what_is_not_known_is_not_found() {
    for path in [
        "",
        "\0",
        "else",
        "request",
        "request\0",
        "request\0else",
        "request\0headers\0x-none",
        "request\0referer",
        "request\0id",
        "response\0grpc_status",
        "response\0code_details",
        "source\0else",
        "connection\0uri_san_peer_certificate",
        "upstream\0port",
        "copy",
    ] {
        assert_eq!(get(REQUEST_HEADERS, path).0, NOT_FOUND, "{path:?}");
    }
    let of_the_exchange = ["request\0path", "upstream\0address", "route_name"];
    for path in of_the_exchange {
        assert_eq!(get(CONFIGURE, path).0, NOT_FOUND, "{path:?}");
    }
    assert_eq!(get(CONFIGURE, "plugin_name").0, OK);
}

#[test]
fn filters_set_properties_that_others_read() {
    let mut script = Script::new();
    let (path, value) = (script.text("a\0b"), script.text("value"));
    let (same, own) = (script.text("a.b"), script.text("request\0path"));
    call!(script, CONFIGURE, "proxy_set_property", path, value);
    call!(script, REQUEST_HEADERS, "proxy_set_property", path, value);
    call!(script, REQUEST_HEADERS, "proxy_set_property", own, value);
    let mut other = Script::new();
    let other_path = other.text("a\0b");
    call!(
        other,
        REQUEST_HEADERS,
        "proxy_get_property",
        other_path,
        DATA,
        LENGTH
    );
    other.show(REQUEST_HEADERS);
    let mut first = script.start();
    let id = first.open();
    let _ = first.instance.on_request_headers(id, true).unwrap();
    let exchange = first.instance.take(id).unwrap();
    assert_eq!(first.statuses(), [NOT_FOUND, OK, OK]);
    let mut second = other.start();
    let id = second.instance.open(exchange);
    let _ = second.instance.on_request_headers(id, true).unwrap();
    assert_eq!(second.lines(), ["value"]);
    // What the server says of the exchange is not overwritten.
    let mut script = Script::new();
    let (own, value) = (script.text("request\0path"), script.text("/forged"));
    call!(script, REQUEST_HEADERS, "proxy_set_property", own, value);
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_property",
        own,
        DATA,
        LENGTH
    );
    script.show(REQUEST_HEADERS);
    assert_eq!(script.lines(), ["/path/file?query=1"]);
    let _ = same;
}

#[test]
fn properties_are_bounded() {
    let bounds = Bounds {
        property_bytes: 200,
        ..Bounds::default()
    };
    let mut script = Script::new();
    let (path, other, third) = (script.text("p"), script.text("q"), script.text("r"));
    let (value, long) = (script.text("1234"), script.text(&"v".repeat(150)));
    call!(script, REQUEST_HEADERS, "proxy_set_property", path, value);
    call!(script, REQUEST_HEADERS, "proxy_set_property", path, long);
    call!(script, REQUEST_HEADERS, "proxy_set_property", other, value);
    call!(script, REQUEST_HEADERS, "proxy_set_property", third, value);
    call!(script, REQUEST_HEADERS, "proxy_set_property", path, value);
    let mut fixture = script.start_bounded(bounds);
    let exchange = fixture.pass();
    let failed = INTERNAL_FAILURE;
    assert_eq!(fixture.statuses(), [OK, failed, OK, failed, OK]);
    assert_eq!(exchange.properties.iter().count(), 2);
}
