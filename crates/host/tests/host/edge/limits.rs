//! Bounds on what a client sends and on the time that it takes.

use super::stand_in::{Server, short};
use crate::raw_http::{Client, get};
use palisade_host::config::Limits;
use std::{
    io,
    time::{Duration, Instant},
};

fn fields(count: usize, length: usize) -> String {
    let value = "v".repeat(length);
    let fields: String = (0..count)
        .map(|number| format!("x-{number}: {value}\r\n"))
        .collect();
    format!("GET / HTTP/1.1\r\nhost: a\r\n{fields}\r\n")
}

/// Who answers strangers starts nothing; what its components may do with files stays.
#[test]
fn workers_execute_nothing() {
    let server = Server::start(Limits::default());
    assert_eq!(
        server.connect().get("/walls").text(),
        "worker permission denied\nbeside permission denied\nfile moved\n"
    );
    let bare = std::process::Command::new("/bin/true").status();
    assert!(bare.expect("the test itself may").success());
}

#[test]
fn a_head_is_bounded_in_bytes() {
    let limits = Limits {
        header_bytes: 1000,
        ..Limits::default()
    };
    let server = Server::start(limits);
    let mut client = server.connect();
    client.send(fields(1, 800));
    assert_eq!(client.answer().status, 200);
    client.send(fields(1, 1200));
    assert_eq!(client.answer().status, 431);
    assert_eq!(client.read_to_end().expect("the connection ends"), "");
}

#[test]
fn a_head_is_bounded_also_before_its_end_has_come() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send(format!(
        "GET / HTTP/1.1\r\nhost: a\r\nx: {}",
        "v".repeat(40 << 10)
    ));
    assert_eq!(client.answer().status, 431);
}

#[test]
fn a_head_is_bounded_in_fields() {
    for most in [10, 100, 150] {
        let limits = Limits {
            headers: most,
            ..Limits::default()
        };
        let server = Server::start(limits);
        let mut client = server.connect();
        client.send(fields(most - 1, 1));
        assert_eq!(client.answer().status, 200, "{most} fields");
        client.send(fields(most, 1));
        assert_eq!(client.answer().status, 431, "{most} fields and one");
    }
}

fn small_bodies() -> Limits {
    Limits {
        body_bytes: 10,
        ..Limits::default()
    }
}

#[test]
fn a_body_is_bounded_by_its_announced_length() {
    let server = Server::start(small_bodies());
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n0123456789");
    assert_eq!(client.answer().text(), "0123456789");
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 11\r\n\r\n");
    let answer = client.answer();
    assert_eq!(answer.status, 413);
    assert!(answer.closes(), "{answer:?}");
}

#[test]
fn a_body_is_bounded_while_it_comes() {
    let server = Server::start(small_bodies());
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n8\r\n01234567\r\n",
    );
    client.send("3\r\n89a\r\n0\r\n\r\n");
    assert_eq!(client.answer().status, 413);
}

#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let server = Server::start(small_bodies());
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 3000000\r\n\r\n");
    assert_eq!(client.answer().status, 413);
    // A server that had closed would reset the connection, which can take the answer from the client.
    for _ in 0..30 {
        client.send(vec![b'x'; 100_000]);
    }
    client.end();
    assert_eq!(client.read_to_end().expect("the connection ends"), "");
    assert!(client.tcp().take_error().is_ok_and(|error| error.is_none()));
}

#[test]
fn a_head_that_does_not_end_gets_408() {
    let server = Server::start(short());
    let mut client = server.connect();
    client.send("GET / HTTP/1.1\r\nhost:");
    assert_eq!(client.answer().status, 408);
    assert_eq!(client.read_to_end().expect("the connection ends"), "");
    assert_eq!(server.figure(|metrics| metrics.timed_out.get()), 1);
}

#[test]
fn a_head_that_comes_slowly_has_one_time_for_all_of_it() {
    let server = Server::start(short());
    let mut trickler = server.connect();
    let begun = Instant::now();
    // A byte now and then does not lengthen the time. Reading with a time-out paces the client.
    trickler
        .tcp()
        .set_read_timeout(Some(Duration::from_millis(100)))
        .expect("a time");
    for byte in get("/").repeat(10).bytes() {
        if trickler.try_send([byte]).is_err() {
            break;
        }
        match trickler.try_answer() {
            Ok(answer) => {
                assert_eq!(answer.status, 408);
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("no answer: {error}"),
        }
        assert!(begun.elapsed().as_secs() < 10, "the head was waited for");
    }
}

#[test]
fn a_connection_without_a_request_ends() {
    let server = Server::start(short());
    let mut silent = server.connect();
    let mut kept = server.connect();
    assert_eq!(kept.get("/").text(), "first");
    assert_eq!(silent.read_to_end().expect("it ends"), "");
    assert_eq!(kept.read_to_end().expect("it ends"), "");
}

#[test]
fn a_request_under_way_is_not_idle() {
    let server = Server::start(short());
    let mut client = server.connect();
    client.send(get("/gate"));
    server.wait_for_request();
    // Another connection's end shows that the time has passed.
    assert_eq!(server.connect().read_to_end().expect("it ends"), "");
    server.open_gate(1);
    assert_eq!(client.answer().text(), "first");
}

#[test]
fn a_body_that_does_not_come_gets_408() {
    let server = Server::start(short());
    let mut client = server.connect();
    client.send("POST /echo HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nab");
    let answer = client.answer();
    assert_eq!(answer.status, 408);
    assert!(answer.closes(), "{answer:?}");
}

#[test]
fn an_answer_that_does_not_go_on_is_broken_off() {
    let server = Server::start(short());
    let mut client = server.connect();
    client.send(get("/stalled"));
    client.read_exactly(40).expect("it begins");
    wait_until_gone(&server);
    assert_eq!(server.figure(|metrics| metrics.timed_out.get()), 1);
}

#[test]
fn an_answer_that_is_not_taken_ends_the_connection() {
    let server = Server::start(short());
    let mut client = server.connect();
    client.send(get("/endless"));
    client.read_exactly(1000).expect("it begins");
    wait_until_gone(&server);
    assert_eq!(server.figure(|metrics| metrics.timed_out.get()), 1);
    let rest = std::iter::repeat_with(|| client.read_exactly(10_000)).find_map(Result::err);
    assert_eq!(
        rest.map(|error| error.kind()),
        Some(io::ErrorKind::ConnectionReset)
    );
}

#[test]
fn an_answer_that_is_taken_slowly_goes_on() {
    let server = Server::start(short());
    let mut client = server.connect();
    client.send(get("/endless"));
    let mut silent = server.connect();
    let mut ended = 0;
    // Each silent connection that ends shows that a time-out has passed.
    while ended < 3 {
        client.read_exactly(4_000_000).expect("it goes on");
        silent
            .tcp()
            .set_read_timeout(Some(Duration::from_millis(50)))
            .expect("a time");
        if silent.read_to_end().is_ok() {
            ended += 1;
            silent = server.connect();
        }
    }
}

/// Waits until the server has no connection.
pub(crate) fn wait_until_gone(server: &Server) {
    wait_until("every connection ends", || {
        server.figure(|metrics| metrics.connections.get()) == 0
    });
}

/// Waits for what the server does by itself.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 20, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_sends_no_more_gets_its_answer() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send(get("/gate"));
    client.end();
    server.wait_for_request();
    server.open_gate(1);
    assert_eq!(client.answer().text(), "first");
    assert_eq!(client.read_to_end().expect("the connection ends"), "");
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send([get("/"), get("/none"), get("/")].concat());
    let statuses = [
        client.answer().status,
        client.answer().status,
        client.answer().status,
    ];
    assert_eq!(statuses, [200, 404, 200]);
}

#[test]
fn http_1_0_is_spoken() {
    let server = Server::start(Limits::default());
    let mut client: Client = server.connect();
    client.send("GET / HTTP/1.0\r\n\r\n");
    let text = client.read_to_end().expect("the connection ends");
    assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\nfirst"), "{text}");
}
