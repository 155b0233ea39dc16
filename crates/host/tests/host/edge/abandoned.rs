//! Clients that go away while nobody has answered them: by HTTP/1, where only the socket tells.

use super::{
    limits::wait_until,
    stand_in::{Server, anywhere, at_path, edge},
};
use crate::raw_http::get;
use palisade_host::config::Limits;
use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::UnixStream,
    path::Path,
};

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn start(socket: &Path) -> Server {
    let edge = edge(vec![anywhere(), at_path(socket)], Limits::default());
    Server::try_start(&edge, 1).expect("a server")
}

fn connections(server: &Server) -> u64 {
    server.figure(|metrics| metrics.connections.get())
}

fn begins(server: &Server, requests: u64) {
    wait_until("the request begins", || {
        server.figure(|metrics| metrics.requests.get()) == requests
    });
}

/// Nothing is written to it that would show that it has gone.
#[test]
fn a_client_that_goes_is_not_answered_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = start(&socket);
    let mut client = server.connect();
    client.send(get("/forever"));
    begins(&server, 1);
    drop(client);
    wait_until("it is missed by TCP", || connections(&server) == 0);
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(get("/forever").as_bytes()).unwrap();
    begins(&server, 2);
    drop(client);
    wait_until("it is missed at a socket", || connections(&server) == 0);
}

/// The control: the end of what a client sends is not its own.
#[test]
fn a_client_that_only_stops_sending_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = start(&socket);
    let mut client = server.connect();
    client.send(get("/gate"));
    client.end();
    let mut local = UnixStream::connect(&socket).unwrap();
    local.write_all(get("/gate").as_bytes()).unwrap();
    local.shutdown(Shutdown::Write).unwrap();
    begins(&server, 2);
    // It is asked whether it is there, and is; once.
    assert_eq!(client.read_exactly(INTERIM.len()).unwrap(), INTERIM);
    // Whoever goes now is missed at a later look.
    let mut other = server.connect();
    other.send(get("/forever"));
    begins(&server, 3);
    drop(other);
    wait_until("the other is missed", || connections(&server) == 2);
    server.open_gate(2);
    assert_eq!(client.answer().text(), "first");
    let mut answer = String::new();
    local.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("first"),
        "{answer}"
    );
}

/// One of HTTP/1.0 knows no interim answers, and is given none.
#[test]
fn an_old_client_is_not_asked_whether_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(&folder.path().join("socket"));
    let mut old = server.connect();
    old.send("GET /gate HTTP/1.0\r\nhost: x\r\n\r\n");
    old.end();
    begins(&server, 1);
    let mut other = server.connect();
    other.send(get("/forever"));
    begins(&server, 2);
    drop(other);
    wait_until("the other is missed", || connections(&server) == 1);
    server.open_gate(1);
    assert_eq!(old.answer().text(), "first");
}
