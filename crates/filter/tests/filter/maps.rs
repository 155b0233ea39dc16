//! Header fields: read, changed, refused.

use crate::harness::*;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use palisade_filter::{Bounds, Direction, Exchange, Part};

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
    let mut bed = script.start();
    bed.pass();
    (bed.statuses()[0], bed.lines())
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
    let mut bed = script.start();
    bed.pass();
    assert_eq!(bed.statuses(), [OK, OK, BAD_ARGUMENT]);
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
        bed.lines(),
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
    let mut bed = script.start();
    let mut exchange = crate::guest::exchange();
    exchange.request.uri = "https://example.com:8080/path".parse().unwrap();
    let id = bed.instance.open(exchange);
    let _ = bed.instance.on_request_headers(id, true).unwrap();
    let exchange = bed.instance.take(id).unwrap();
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
        let mut bed = script.start();
        let mut exchange = crate::guest::exchange();
        let names = (0..count).map(|number| format!("x-{number}").try_into().unwrap());
        exchange.request.headers = names
            .map(|name: HeaderName| (name, HeaderValue::from_static("1")))
            .collect();
        let id = bed.instance.open(exchange);
        let _ = bed.instance.on_request_headers(id, true).unwrap();
        let headers = bed.instance.take(id).unwrap().request.headers;
        assert_eq!(bed.statuses(), [OK, OK]);
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

/// An exchange whose bodies end without trailers.
fn without_trailers() -> Box<Exchange> {
    let mut exchange = crate::guest::exchange();
    exchange.request_rest.trailers = None;
    exchange.response_rest.trailers = None;
    exchange
}

/// Has a script call functions of maps with trailers of this direction.
struct Trailers {
    script: Script,
    part: Part,
    map: u32,
}

impl Trailers {
    /// Of both directions: the parts and maps, and the callback of the body before them.
    const WAYS: [(Part, u32, usize); 2] = [
        (Part::RequestBody, REQUEST_TRAILER, REQUEST_BODY),
        (Part::ResponseBody, RESPONSE_TRAILER, RESPONSE_BODY),
    ];

    fn add(&mut self, callback: usize, key: &str) {
        let (key, value) = (self.script.text(key), self.script.text("1"));
        let name = "proxy_add_header_map_value";
        call!(self.script, callback, name, self.map, key, value);
    }

    fn remove(&mut self, callback: usize, key: &str) {
        let key = self.script.text(key);
        let name = "proxy_remove_header_map_value";
        call!(self.script, callback, name, self.map, key);
    }

    /// What the exchange has once its body has ended, and the guest was called at its period.
    fn made(self) -> (Vec<u32>, Option<HeaderMap>) {
        let mut bed = self.script.start();
        let id = bed.instance.open(without_trailers());
        let _ = bed.instance.on_part(id, self.part, true).unwrap();
        bed.instance.on_tick().unwrap();
        let exchange = bed.instance.take(id).unwrap();
        let rest = match self.part.direction() {
            Direction::Request => exchange.request_rest,
            Direction::Response => exchange.response_rest,
        };
        (bed.statuses(), rest.trailers.map(|trailers| *trailers))
    }
}

#[test]
fn trailers_can_be_made_where_a_body_ends_without() {
    for (part, map, callback) in Trailers::WAYS {
        let script = Script::new();
        let mut trailers = Trailers { script, part, map };
        for key in ["x-a", "content-type", "host", "authorization"] {
            trailers.add(callback, key);
        }
        let (statuses, made) = trailers.made();
        assert_eq!(made.unwrap()["x-a"], "1");
        assert_eq!(statuses, [OK, BAD_ARGUMENT, BAD_ARGUMENT, BAD_ARGUMENT]);
    }
}

#[test]
fn trailers_can_be_made_while_the_end_of_a_body_waits() {
    for (way, (part, map, callback)) in Trailers::WAYS.into_iter().enumerate() {
        let script = Script::new();
        let mut trailers = Trailers { script, part, map };
        call!(trailers.script, callback, "return", 1);
        call!(trailers.script, TICK, "proxy_set_effective_context", 2);
        trailers.add(TICK, "x-a");
        call!(trailers.script, TICK, "proxy_continue_stream", way as u32);
        trailers.add(TICK, "x-late");
        let (statuses, made) = trailers.made();
        assert_eq!(statuses, [OK, OK, OK, BAD_ARGUMENT]);
        let made = made.unwrap();
        assert_eq!(
            (made.len(), &made["x-a"]),
            (1, &HeaderValue::from_static("1"))
        );
    }
}

#[test]
fn a_body_that_ends_without_trailers_has_none_unless_one_is_made() {
    for (part, map, callback) in Trailers::WAYS {
        let script = Script::new();
        let mut trailers = Trailers { script, part, map };
        trailers.add(callback, "host");
        trailers.add(callback, "content-length");
        trailers.remove(callback, "x-a");
        trailers.add(callback, "x-a");
        trailers.remove(callback, "x-a");
        assert_eq!(trailers.made(), (vec![BAD_ARGUMENT, OK, OK, OK, OK], None));
    }
}

#[test]
fn trailers_that_are_not_there_are_empty() {
    let mut script = Script::new();
    let key = script.text("x-trailer");
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_header_map_pairs",
        REQUEST_TRAILER,
        DATA,
        LENGTH
    );
    call!(
        script,
        REQUEST_HEADERS,
        "proxy_get_header_map_value",
        REQUEST_TRAILER,
        key,
        DATA,
        LENGTH
    );
    let mut bed = script.start();
    let id = bed.instance.open(without_trailers());
    let _ = bed.instance.on_request_headers(id, true).unwrap();
    assert_eq!(bed.statuses(), [OK, NOT_FOUND]);
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
    let mut bed = script.start();
    let id = bed.open();
    let _ = bed.instance.on_request_headers(id, true).unwrap();
    bed.instance.on_tick().unwrap();
    assert_eq!(bed.statuses(), [OK, OK, OK, OK, BAD_ARGUMENT, OK]);
    let waker = std::task::Waker::noop();
    let mut context = std::task::Context::from_waker(waker);
    let resumed = bed
        .instance
        .poll_resumed(id, Direction::Request, &mut context);
    assert!(resumed.is_ready());
}

/// The statuses of replacing a field that is there, one that is not, and adding one, of the answer's head.
fn set_in_full_map(bounds: Bounds) -> Vec<u32> {
    let mut script = Script::new();
    let [server, other, value] = ["Server", "x-other", "anything"].map(|text| script.text(text));
    let (add, replace) = (
        "proxy_add_header_map_value",
        "proxy_replace_header_map_value",
    );
    for (name, key) in [
        (replace, server),
        (replace, server),
        (replace, other),
        (add, server),
        (replace, server),
    ] {
        call!(script, RESPONSE_HEADERS, name, RESPONSE, key, value);
    }
    let mut bed = script.start_bounded(bounds);
    let exchange = bed.pass();
    assert_eq!(exchange.response.unwrap().headers["server"], "anything");
    bed.statuses()
}

#[test]
fn a_field_is_replaced_where_there_is_room_for_no_more() {
    let expected = [OK, OK, INTERNAL_FAILURE, INTERNAL_FAILURE, OK];
    let headers = crate::guest::exchange().response.unwrap().headers;
    let number = Bounds {
        headers: headers.len(),
        ..Bounds::default()
    };
    assert_eq!(set_in_full_map(number), expected);
    let values = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    let bytes = Bounds {
        header_bytes: ":status200".len() + values.sum::<usize>(),
        ..Bounds::default()
    };
    assert_eq!(set_in_full_map(bytes), expected);
}

#[test]
fn fields_are_bounded_in_number_and_bytes() {
    let bounds = Bounds {
        headers: 8,
        header_bytes: 200,
        ..Bounds::default()
    };
    let mut script = Script::new();
    let (key, value) = (script.text("x-a"), script.text("1"));
    for _ in 0..3 {
        call!(
            script,
            REQUEST_HEADERS,
            "proxy_add_header_map_value",
            REQUEST,
            key,
            value
        );
    }
    let long = script.text(&"v".repeat(90));
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_add_header_map_value",
        RESPONSE,
        key,
        long
    );
    // In place of itself it takes no more.
    for _ in 0..3 {
        call!(
            script,
            RESPONSE_HEADERS,
            "proxy_replace_header_map_value",
            RESPONSE,
            key,
            value
        );
    }
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_add_header_map_value",
        RESPONSE,
        key,
        long
    );
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_add_header_map_value",
        RESPONSE,
        key,
        long
    );
    let fields: Vec<_> = (0..9).map(|_| ("a", "b")).collect();
    let map = script.map(&fields);
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_set_header_map_pairs",
        RESPONSE,
        map
    );
    let text = "v".repeat(200);
    let map = script.map(&[("a", &text)]);
    call!(
        script,
        RESPONSE_HEADERS,
        "proxy_set_header_map_pairs",
        RESPONSE,
        map
    );
    let mut bed = script.start_bounded(bounds);
    let exchange = bed.pass();
    let failed = INTERNAL_FAILURE;
    assert_eq!(
        bed.statuses(),
        [OK, OK, failed, OK, OK, OK, OK, OK, failed, failed, failed]
    );
    assert_eq!(exchange.request.headers.len(), 8);
}

/// What is refused, or changes nothing, makes no room.
#[test]
fn fields_that_stay_count_after_a_replacement_that_failed() {
    let (long, short) = ("v".repeat(90), "v".repeat(30));
    // A value that is none; and a field that no guest changes.
    for (key, value) in [("x-a", "split\nin two lines"), ("connection", "close")] {
        let mut script = Script::new();
        let [name, long, short, key, value] =
            ["x-a", &long, &short, key, value].map(|text| script.text(text));
        let add = "proxy_add_header_map_value";
        let replace = "proxy_replace_header_map_value";
        for (function, key, value) in [
            (replace, name, long),
            (replace, name, long),
            (replace, key, value),
            (add, name, short),
        ] {
            call!(script, RESPONSE_HEADERS, function, RESPONSE, key, value);
        }
        let mut bed = script.start_bounded(Bounds {
            header_bytes: 200,
            ..Bounds::default()
        });
        let mut exchange = crate::guest::exchange();
        let headers = &mut exchange.response.as_mut().unwrap().headers;
        headers.insert(
            "connection",
            HeaderValue::from_str(&"c".repeat(60)).unwrap(),
        );
        let id = bed.instance.open(exchange);
        bed.pass_parts(id);
        assert_eq!(bed.statuses().last(), Some(&INTERNAL_FAILURE));
    }
}
