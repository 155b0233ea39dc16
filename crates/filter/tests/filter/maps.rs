//! Header fields: read, changed, refused.

mod bounds;
mod pseudo;
mod trailers;

use crate::harness::*;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use palisade_filter::Direction;

const REQUEST: u32 = 0;
const REQUEST_TRAILER: u32 = 1;
const RESPONSE: u32 = 2;
const RESPONSE_TRAILER: u32 = 3;

/// Reads a field in a callback.
fn get(callback: usize, map: u32, key: &str) -> (u32, Vec<String>) {
    let mut script = Script::new();
    let key = script.text(key);
    call!(
        script,
        callback,
        "proxy_get_header_map_value",
        map,
        key,
        DATA,
        LENGTH
    );
    script.show(callback);
    let mut fixture = script.start();
    fixture.pass();
    (fixture.statuses()[0], fixture.lines())
}

#[test]
fn fields_and_pseudo_fields_are_read() {
    let cases = [
        (REQUEST, ":path", "/path/file?query=1"),
        (REQUEST, ":method", "GET"),
        (REQUEST, ":authority", "example.com:8080"),
        (REQUEST, ":scheme", "https"),
        (REQUEST, "host", "example.com:8080"),
        (REQUEST, "HOST", "example.com:8080"),
        (REQUEST, "X-One", "1"),
        (REQUEST, "x-two", "a"),
        (RESPONSE, ":status", "200"),
        (RESPONSE, "server", "upstream"),
        (REQUEST_TRAILER, "x-trailer", "request"),
        (RESPONSE_TRAILER, "x-trailer", "answer"),
    ];
    for (map, key, value) in cases {
        for callback in [REQUEST_HEADERS, RESPONSE_BODY, LOG] {
            assert_eq!(
                get(callback, map, key),
                (OK, vec![value.to_owned()]),
                "{key}"
            );
        }
    }
    for key in ["x-none", ":status", ":else", "", "\u{e9}", "a b"] {
        assert_eq!(get(REQUEST_HEADERS, REQUEST, key).0, NOT_FOUND, "{key}");
    }
    assert_eq!(get(REQUEST_HEADERS, RESPONSE, ":path").0, NOT_FOUND);
    for map in [4, 5, 6, 7, 8, u32::MAX] {
        assert_eq!(get(REQUEST_HEADERS, map, "x-one").0, BAD_ARGUMENT, "{map}");
    }
    // There is no exchange.
    assert_eq!(get(CONFIGURE, REQUEST, "x-one").0, BAD_ARGUMENT);
}

#[test]
fn a_map_is_read_as_a_whole() {
    let mut script = Script::new();
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_header_map_size",
        REQUEST,
        NUMBER
    );
    script.show_number(REQUEST_HEADERS, 4);
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_header_map_pairs",
        REQUEST,
        DATA,
        LENGTH
    );
    script.show(REQUEST_HEADERS);
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_header_map_pairs",
        6,
        DATA,
        LENGTH
    );
    let mut fixture = script.start();
    fixture.pass();
    assert_eq!(fixture.statuses(), [OK, OK, BAD_ARGUMENT]);
    let map = [
        (":authority", "example.com:8080"),
        (":path", "/path/file?query=1"),
        (":method", "GET"),
        (":scheme", "https"),
        ("user-agent", "test/1"),
        ("x-one", "1"),
        ("x-two", "a"),
        ("x-two", "b"),
        ("content-length", "4"),
    ];
    let expected = String::from_utf8_lossy(&crate::guest::pairs(&map)).into_owned();
    let bytes: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(
        fixture.lines(),
        [format!("{}\0\0\0", bytes as u8 as char), expected]
    );
}

#[test]
fn fields_are_added_replaced_and_removed() {
    let mut script = Script::new();
    let (one, two, new) = (
        script.text("x-one"),
        script.text("X-Two"),
        script.text("x-new"),
    );
    let (value, none) = (script.text("new"), script.text("x-none"));
    for (callback, map) in [(REQUEST_HEADERS, REQUEST), (RESPONSE_HEADERS, RESPONSE)] {
        call!(
            script,
            callback,
            "proxy_add_header_map_value",
            map,
            one,
            value
        );
        call!(
            script,
            callback,
            "proxy_replace_header_map_value",
            map,
            two,
            value
        );
        call!(
            script,
            callback,
            "proxy_replace_header_map_value",
            map,
            new,
            value
        );
        call!(script, callback, "proxy_remove_header_map_value", map, none);
    }
    let agent = script.text("user-agent");
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_remove_header_map_value",
        REQUEST,
        agent
    );
    let (statuses, exchange) = script.run();
    assert_eq!(statuses, [OK; 9]);
    let values = |name: &str| -> Vec<_> {
        let values = exchange.request.headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap()).collect()
    };
    assert_eq!(values("x-one"), ["1", "new"]);
    assert_eq!(values("x-two"), ["new"]);
    assert_eq!(values("x-new"), ["new"]);
    assert_eq!(values("user-agent"), [""; 0]);
    let response = exchange.response.unwrap();
    assert_eq!(response.headers["x-one"], "new");
    assert_eq!(response.headers["server"], "upstream");
}

#[test]
fn a_map_is_set_as_a_whole() {
    let mut script = Script::new();
    let map = script.map(&[
        (":path", "/new"),
        ("host", "new.example"),
        ("x-a", "1"),
        ("X-A", "2"),
        ("transfer-encoding", "chunked"),
    ]);
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_set_header_map_pairs",
        REQUEST,
        map
    );
    let map = script.map(&[(":status", "201"), ("content-length", "99"), ("x-b", "")]);
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_set_header_map_pairs",
        RESPONSE,
        map
    );
    let (statuses, exchange) = script.run();
    assert_eq!(statuses, [OK; 2]);
    assert_eq!(exchange.request.uri, "/new");
    assert_eq!(exchange.request.method, Method::GET);
    let mut names: Vec<_> = exchange
        .request
        .headers
        .keys()
        .map(|name| name.as_str())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["host", "x-a"]);
    assert_eq!(exchange.request.headers["host"], "new.example");
    assert_eq!(exchange.request.headers.get_all("x-a").iter().count(), 2);
    let response = exchange.response.unwrap();
    assert_eq!(response.status, StatusCode::CREATED);
    assert_eq!(response.headers["content-length"], "6");
    assert_eq!(response.headers.len(), 2);
}

#[test]
fn a_map_that_is_not_right_changes_nothing() {
    let maps: [&[(&str, &str)]; 6] = [
        &[("x-a", "1"), ("a b", "1")],
        &[("x-a", "1"), ("x-b", "\r\n")],
        &[("x-a", "1"), (":path", "a")],
        &[("x-a", "1"), (":status", "200")],
        &[("x-a", "1"), ("host", "a@b")],
        &[(":method", "POST"), ("host", "")],
    ];
    for map in maps {
        let mut script = Script::new();
        let map = script.map(map);
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_set_header_map_pairs",
            REQUEST,
            map
        );
        let (statuses, exchange) = script.run();
        assert_eq!(statuses, [BAD_ARGUMENT]);
        assert_eq!(exchange.request.headers.len(), 6);
        assert_eq!(exchange.request.method, Method::GET);
        assert_eq!(exchange.request.headers["host"], "example.com:8080");
    }
    let bytes = crate::guest::pairs(&[("x-a", "1")]);
    for cut in 2..bytes.len() {
        let mut script = Script::new();
        let map = script.bytes(&bytes[..cut]);
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_set_header_map_pairs",
            REQUEST,
            map
        );
        assert_eq!(script.statuses(), [BAD_ARGUMENT], "{cut}");
    }
}

#[test]
fn a_field_is_removed_among_few_and_among_many() {
    for count in [1, 16, 17, 40] {
        let mut script = Script::new();
        for key in ["X-0", "x-none"] {
            let key = script.text(key);
            let name = "proxy_remove_header_map_value";
            call!(script, REQUEST_HEADERS, name, REQUEST, key);
        }
        let mut fixture = script.start();
        let mut exchange = crate::guest::exchange();
        let names = (0..count).map(|number| format!("x-{number}").try_into().unwrap());
        exchange.request.headers = names
            .map(|name: HeaderName| (name, HeaderValue::from_static("1")))
            .collect();
        let id = fixture.instance.open(exchange);
        let _ = fixture.instance.on_request_headers(id, true).unwrap();
        let headers = fixture.instance.take(id).unwrap().request.headers;
        assert_eq!(fixture.statuses(), [OK, OK]);
        assert_eq!(headers.len(), count - 1);
        assert!(!headers.contains_key("x-0"));
    }
}

#[test]
fn fields_are_changed_while_they_are_here() {
    let mut script = Script::new();
    let (key, value) = (script.text("x-a"), script.text("1"));
    let maps = [REQUEST, REQUEST_TRAILER, RESPONSE, RESPONSE_TRAILER];
    let callbacks = [
        REQUEST_HEADERS,
        REQUEST_BODY,
        REQUEST_TRAILERS,
        RESPONSE_HEADERS,
        RESPONSE_BODY,
        RESPONSE_TRAILERS,
        LOG,
    ];
    for callback in callbacks {
        for map in maps {
            call!(
                script,
                callback,
                "proxy_add_header_map_value",
                map,
                key,
                value
            );
        }
    }
    let mut expected = [BAD_ARGUMENT; 28];
    for (callback, map) in [(0, 0), (2, 1), (3, 2), (5, 3)] {
        expected[callback * 4 + map] = OK;
    }
    assert_eq!(script.statuses(), expected);
}

#[test]
fn what_waits_can_be_changed_until_it_goes_on() {
    let mut script = Script::new();
    let (key, value) = (script.text("x-a"), script.text("1"));
    call!(script, REQUEST_HEADERS, "return", 1);
    for _ in 0..2 {
        call!(script, TICK, "proxy_set_effective_context", 2);
        call!(
            script,
            TICK,
            "proxy_add_header_map_value",
            REQUEST,
            key,
            value
        );
        call!(script, TICK, "proxy_continue_stream", 0);
    }
    let mut fixture = script.start();
    let id = fixture.open();
    let _ = fixture.instance.on_request_headers(id, true).unwrap();
    fixture.instance.on_tick().unwrap();
    assert_eq!(fixture.statuses(), [OK, OK, OK, OK, BAD_ARGUMENT, OK]);
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let resumed = fixture
        .instance
        .poll_resumed(id, Direction::Request, &mut context);
    assert!(resumed.is_ready());
}
