//! Servers on listeners that they are started with.

use crate::harness::program;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
};

#[test]
fn a_guest_accepts_and_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let running = program("echo")
        .arguments(["2"])
        .env("LISTEN_FDS", "1")
        .env("LISTEN_PID", "1")
        .listener(listener)
        .start();
    for text in ["first".to_owned(), "second ".repeat(20_000)] {
        let mut stream = TcpStream::connect(address).unwrap();
        let mut sender = stream.try_clone().unwrap();
        let sent = text.clone();
        let sending = std::thread::spawn(move || {
            sender.write_all(sent.as_bytes()).unwrap();
            sender.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = String::new();
        stream.read_to_string(&mut back).unwrap();
        sending.join().unwrap();
        assert!(back == text);
    }
    assert_eq!(
        running.wait().output(),
        "tag 1, type 6, LISTEN_FDS 1, LISTEN_PID -\n"
    );
}

#[test]
fn local_sockets_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let running = program("echo").arguments(["1"]).listener(listener).start();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"hello").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut back = String::new();
    stream.read_to_string(&mut back).unwrap();
    assert_eq!(back, "hello");
    running.wait().output();
}
