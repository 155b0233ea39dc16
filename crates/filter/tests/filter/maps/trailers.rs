//! Trailers: read, made, and none where there are none.

use super::{REQUEST_TRAILER, RESPONSE_TRAILER};
use crate::harness::*;
use http::{HeaderMap, HeaderValue};
use palisade_filter::{Direction, Exchange, Part};

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
        let mut fixture = self.script.start();
        let id = fixture.instance.open(without_trailers());
        let _ = fixture.instance.on_part(id, self.part, true).unwrap();
        fixture.instance.on_tick().unwrap();
        let exchange = fixture.instance.take(id).unwrap();
        let rest = match self.part.direction() {
            Direction::Request => exchange.request_rest,
            Direction::Response => exchange.response_rest,
        };
        (fixture.statuses(), rest.trailers.map(|trailers| *trailers))
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
    let mut fixture = script.start();
    let id = fixture.instance.open(without_trailers());
    let _ = fixture.instance.on_request_headers(id, true).unwrap();
    assert_eq!(fixture.statuses(), [OK, NOT_FOUND]);
}
