//! Pseudo fields, and fields that frame a message.

use super::{REQUEST, RESPONSE};
use crate::harness::*;
use http::{Method, StatusCode};

#[test]
fn pseudo_fields_change_the_message() {
    let mut script = Script::new();
    for (key, value) in [
        (":path", "/other?x=%20"),
        (":method", "PATCH"),
        (":authority", "other.example"),
        (":scheme", "http"),
    ] {
        let (key, value) = (script.text(key), script.text(value));
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_replace_header_map_value",
            REQUEST,
            key,
            value
        );
    }
    let (key, value) = (script.text(":status"), script.text("418"));
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_replace_header_map_value",
        RESPONSE,
        key,
        value
    );
    let (statuses, exchange) = script.run();
    assert_eq!(statuses, [OK; 5]);
    assert_eq!(exchange.request.uri, "/other?x=%20");
    assert_eq!(exchange.request.method, Method::PATCH);
    assert_eq!(exchange.request.headers["host"], "other.example");
    assert_eq!(exchange.response.unwrap().status, StatusCode::IM_A_TEAPOT);
}

#[test]
fn an_authority_is_said_the_same_wherever_it_is_said() {
    let mut script = Script::new();
    let (key, value) = (script.text("Host"), script.text("other.example:81"));
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_add_header_map_value",
        REQUEST,
        key,
        value
    );
    let mut fixture = script.start();
    let mut exchange = crate::guest::exchange();
    exchange.request.uri = "https://example.com:8080/path".parse().unwrap();
    let id = fixture.instance.open(exchange);
    let _ = fixture.instance.on_request_headers(id, true).unwrap();
    let exchange = fixture.instance.take(id).unwrap();
    assert_eq!(exchange.request.uri, "https://other.example:81/path");
    let hosts: Vec<_> = exchange.request.headers.get_all("host").iter().collect();
    assert_eq!(hosts, ["other.example:81"]);
}

#[test]
fn nothing_that_splits_or_retargets_a_message_gets_in() {
    let cases = [
        ("a\r\nb", "1"),
        ("", "1"),
        ("a b", "1"),
        ("a:", "1"),
        ("x-a", "1\r\nx-b: 2"),
        ("x-a", "1\n"),
        ("x-a", "\0"),
        (":path", "other"),
        (":path", ""),
        (":path", "/a b"),
        (":path", "/a\r\nb"),
        (":path", "/a#b"),
        (":path", "http://other.example/"),
        (":method", ""),
        (":method", "GET /"),
        (":method", "CONNECT"),
        (":authority", ""),
        (":authority", "a@b"),
        (":authority", "a/b"),
        (":authority", "a b"),
        (":scheme", "ftp"),
        (":status", "200"),
        (":protocol", "websocket"),
        (":", "1"),
    ];
    for function in [
        "proxy_add_header_map_value",
        "proxy_replace_header_map_value",
    ] {
        for (key, value) in cases {
            let mut script = Script::new();
            let (key_at, value_at) = (script.text(key), script.text(value));
            call!(script, REQUEST_HEADERS, function, REQUEST, key_at, value_at);
            let (statuses, exchange) = script.run();
            assert_eq!(statuses, [BAD_ARGUMENT], "{key:?}: {value:?}");
            assert_eq!(exchange.request.headers.len(), 6);
            assert_eq!(exchange.request.uri, "/path/file?query=1");
        }
    }
    for value in ["100", "101", "99", "1000", "abc", "2 0", ""] {
        let mut script = Script::new();
        let (key, value) = (script.text(":status"), script.text(value));
        call!(
            script,
            RESPONSE_HEADERS,
            "proxy_replace_header_map_value",
            RESPONSE,
            key,
            value
        );
        assert_eq!(script.statuses(), [BAD_ARGUMENT]);
    }
}

#[test]
fn a_filter_does_not_frame_messages() {
    let mut script = Script::new();
    let value = script.text("5");
    for name in [
        "transfer-encoding",
        "connection",
        "Keep-Alive",
        "proxy-connection",
        "upgrade",
        "te",
    ] {
        let key = script.text(name);
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_add_header_map_value",
            REQUEST,
            key,
            value
        );
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_remove_header_map_value",
            REQUEST,
            key
        );
    }
    let (statuses, exchange) = script.run();
    assert_eq!(statuses, [OK; 12]);
    assert_eq!(exchange.request.headers.len(), 6);
    assert_eq!(exchange.request.headers["content-length"], "4");
    for function in [
        "proxy_add_header_map_value",
        "proxy_replace_header_map_value",
    ] {
        let mut script = Script::new();
        let (key, value) = (script.text("content-length"), script.text("5"));
        call!(script, REQUEST_HEADERS, function, REQUEST, key, value);
        let (statuses, exchange) = script.run();
        assert_eq!(statuses, [OK]);
        assert!(!exchange.request.headers.contains_key("content-length"));
    }
}

#[test]
fn pseudo_fields_stay() {
    let mut script = Script::new();
    for name in [":path", ":method", ":authority", ":scheme", "host", ":else"] {
        let key = script.text(name);
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_remove_header_map_value",
            REQUEST,
            key
        );
    }
    let key = script.text(":status");
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_remove_header_map_value",
        RESPONSE,
        key
    );
    assert_eq!(script.statuses(), [BAD_ARGUMENT; 7]);
}
