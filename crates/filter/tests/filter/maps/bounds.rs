//! How many fields there may be, and how long.

use super::{REQUEST, RESPONSE};
use crate::harness::*;
use http::HeaderValue;
use palisade_filter::Bounds;

/// The statuses of replacing a field that is there, one that is not, and adding one, of the response's head.
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
    let mut fixture = script.start_bounded(bounds);
    let exchange = fixture.pass();
    assert_eq!(exchange.response.unwrap().headers["server"], "anything");
    fixture.statuses()
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
    let mut fixture = script.start_bounded(bounds);
    let exchange = fixture.pass();
    let failed = INTERNAL_FAILURE;
    assert_eq!(
        fixture.statuses(),
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
        let mut fixture = script.start_bounded(Bounds {
            header_bytes: 200,
            ..Bounds::default()
        });
        let mut exchange = crate::guest::exchange();
        let headers = &mut exchange.response.as_mut().unwrap().headers;
        headers.insert(
            "connection",
            HeaderValue::from_str(&"c".repeat(60)).unwrap(),
        );
        let id = fixture.instance.open(exchange);
        fixture.pass_parts(id);
        assert_eq!(fixture.statuses().last(), Some(&INTERNAL_FAILURE));
    }
}
