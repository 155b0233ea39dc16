//! Addresses: whose they are, which stay, which go.

use super::{
    limits::wait_until,
    stand_in::{Server, anywhere, at, at_path, edge},
};
use crate::raw_http::Client;
use palisade_host::config::{Address, Limits, Listener};
use std::{
    fs,
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    time::Duration,
};

fn start(listeners: Vec<Listener>) -> Result<Server, String> {
    Server::try_start(&edge(listeners, Limits::default()), 2).map_err(|error| error.to_string())
}

fn refused(listeners: Vec<Listener>) -> String {
    start(listeners).err().expect("it does not start")
}

#[test]
fn an_address_has_one_server() {
    let first = start(vec![anywhere()]).expect("it starts");
    let told = refused(vec![at(first.address())]);
    assert!(told.contains("is in use by another program"), "{told}");
    assert_eq!(first.connect().get("/").text(), "first");
    let address = first.address();
    assert_eq!(first.stop(Duration::from_secs(10)), 0);
    let second = start(vec![at(address)]).expect("the address is free");
    assert_eq!(second.connect().get("/").text(), "first");
}

#[test]
fn an_address_is_named_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let told = refused(vec![at_path(&path), at_path(&path)]);
    assert!(told.contains("is named twice"), "{told}");
}

#[test]
fn both_families_share_a_port() {
    // Of a port that is free in one family another test may have the other.
    let pair = || {
        let first = start(vec![at("[::1]:0".parse().expect("an address"))]).expect("it starts");
        let everywhere: std::net::SocketAddr = ([0, 0, 0, 0], first.address().port()).into();
        let second = start(vec![at(everywhere)]).ok()?;
        Some((first, second, everywhere))
    };
    let (first, second, everywhere) = (0..16)
        .find_map(|_| pair())
        .expect("IPv4 is another address");
    assert!(first.address().is_ipv6());
    assert_eq!(first.connect().get("/").text(), "first");
    let mut client = Client::connect(([127, 0, 0, 1], everywhere.port()).into());
    let peer = client.get("/peer").text();
    assert!(
        peer.contains(&format!(
            "local_address: Some(127.0.0.1:{})",
            everywhere.port()
        )),
        "{peer}"
    );
    drop(second);
}

#[test]
fn answers_do_not_wait_to_be_filled_up() {
    // TCP_NODELAY is inherited from the listening socket.
    let server = start(vec![anywhere()]).expect("it starts");
    let mut client = server.connect();
    assert_eq!(client.get("/").status, 200);
    let listening = palisade_host::edge::Listening::bind(
        &Address::Internet(([127, 0, 0, 1], 0).into()),
        None,
        1,
    )
    .expect("an address");
    let socket = listening.sockets().next().expect("a socket");
    let Address::Internet(address) = listening.address() else {
        panic!("an internet address");
    };
    let _client = Client::connect(*address);
    let ready = rustix::event::PollFd::new(&socket, rustix::event::PollFlags::IN);
    rustix::event::poll(&mut [ready], None).expect("a client comes");
    let accepted = rustix::net::accept(socket).expect("a client");
    assert!(rustix::net::sockopt::tcp_nodelay(&accepted).expect("an option"));
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).expect("the socket").permissions().mode() & 0o777
}

#[test]
fn a_unix_socket_has_its_mode_and_goes_with_its_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    for (mode, expected) in [(None, 0o600), (Some(0o666), 0o666), (Some(0o660), 0o660)] {
        let listener = Listener {
            mode,
            ..at_path(&path)
        };
        let server = start(vec![listener]).expect("it starts");
        assert_eq!(mode_of(&path), expected);
        let mut client = Client::connect_unix(&path).expect("a connection");
        assert_eq!(client.get("/").text(), "first");
        assert!(client.get("/peer").text().contains("address: None"));
        drop(client);
        assert_eq!(server.stop(Duration::from_secs(10)), 0);
        let left: Vec<_> = fs::read_dir(&folder).expect("the folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_unix_socket_has_one_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let server = start(vec![at_path(&path)]).expect("it starts");
    let told = refused(vec![at_path(&path)]);
    assert!(told.contains("is in use by another program"), "{told}");
    assert_eq!(
        Client::connect_unix(&path)
            .expect("a connection")
            .get("/")
            .text(),
        "first"
    );
    drop(server);
}

#[test]
fn a_socket_of_a_stranger_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let stranger = UnixListener::bind(&path).expect("a socket");
    let told = refused(vec![at_path(&path)]);
    assert!(told.contains("is in use by another program"), "{told}");
    assert!(path.exists());
    drop(stranger);
    // What it left behind is in nobody's use.
    let server = start(vec![at_path(&path)]).expect("it starts");
    assert_eq!(
        Client::connect_unix(&path)
            .expect("a connection")
            .get("/")
            .text(),
        "first"
    );
    drop(server);
}

#[test]
fn a_file_is_not_taken_for_a_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("precious");
    fs::write(&path, "kept").expect("a file");
    let told = refused(vec![at_path(&path)]);
    assert!(told.contains("is no socket"), "{told}");
    assert_eq!(fs::read_to_string(&path).expect("the file"), "kept");
}

#[test]
fn an_address_that_stays_keeps_its_connections() {
    let mut server = start(vec![anywhere()]).expect("it starts");
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "first");
    let address = server.address();
    server
        .swap("second", &edge(vec![anywhere()], Limits::default()))
        .expect("a swap");
    assert_eq!(server.address(), address);
    assert_eq!(client.get("/").text(), "second");
    assert_eq!(server.connect().get("/").text(), "second");
}

#[test]
fn a_request_under_way_keeps_its_generation() {
    let mut server = start(vec![anywhere()]).expect("it starts");
    let mut client = server.connect();
    client.send(crate::raw_http::get("/gate"));
    server.wait_for_request();
    server
        .swap("second", &edge(vec![anywhere()], Limits::default()))
        .expect("a swap");
    server.open_gate(1);
    assert_eq!(client.answer().text(), "first");
    assert_eq!(client.get("/").text(), "second");
}

#[test]
fn an_address_that_goes_serves_whom_it_let_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let mut server = start(vec![anywhere(), at_path(&path)]).expect("it starts");
    let gone = server.address();
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "first");
    let other = at("127.0.0.1:0".parse().expect("an address"));
    let mut unix = Client::connect_unix(&path).expect("a connection");
    server
        .swap("second", &edge(vec![at_path(&path)], Limits::default()))
        .expect("a swap");
    assert_eq!(client.get("/").text(), "second");
    assert_eq!(unix.get("/").text(), "second");
    wait_until_refused(gone);
    server
        .swap("third", &edge(vec![other], Limits::default()))
        .expect("a swap");
    assert!(!path.exists());
    assert_eq!(unix.get("/").text(), "third");
    assert_eq!(server.connect().get("/").text(), "third");
}

/// Connections to an address that went are refused, once its last ones were accepted.
pub(crate) fn wait_until_refused(address: std::net::SocketAddr) {
    wait_until("nobody is let in", || {
        TcpStream::connect_timeout(&address, Duration::from_millis(50)).is_err()
    });
}

#[test]
fn a_swap_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let precious = folder.path().join("precious");
    fs::write(&precious, "kept").expect("a file");
    let new = folder.path().join("socket");
    let mut server = start(vec![anywhere()]).expect("it starts");
    let broken = vec![anywhere(), at_path(&new), at_path(&precious)];
    server
        .swap("second", &edge(broken, Limits::default()))
        .expect_err("a file is no socket");
    assert!(!new.exists());
    assert_eq!(server.connect().get("/").text(), "first");
    assert_eq!(server.addresses().len(), 1);
}

#[test]
fn a_unix_socket_gets_another_mode_while_it_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let mut server = start(vec![at_path(&path)]).expect("it starts");
    let listener = Listener {
        mode: Some(0o666),
        ..at_path(&path)
    };
    server
        .swap("second", &edge(vec![listener], Limits::default()))
        .expect("a swap");
    assert_eq!(mode_of(&path), 0o666);
    assert_eq!(
        Client::connect_unix(&path)
            .expect("a connection")
            .get("/")
            .text(),
        "second"
    );
}

/// Where the child process that a test runs itself in listens.
const INHERITED: &str = "PALISADE_TEST_INHERITED";

#[test]
fn a_socket_of_the_service_manager_is_taken_over() {
    if let Ok(address) = std::env::var(INHERITED) {
        let address = address.parse().expect("an address");
        palisade_host::edge::adopt_inherited();
        let mut server = start(vec![at(address)]).expect("the socket is there already");
        assert_eq!(Client::connect(address).get("/").text(), "first");
        // An address that goes lets nobody in, whoever made its socket.
        server
            .swap("second", &edge(vec![anywhere()], Limits::default()))
            .expect("a swap");
        return wait_until_refused(address);
    }
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address");
    // As descriptor 3, where systemd puts the first.
    let script = "LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\" 3<&0 0</dev/null";
    let output = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "edge::listen::a_socket_of_the_service_manager_is_taken_over",
            "--nocapture",
        ])
        .env(INHERITED, address.to_string())
        .stdin(std::os::fd::OwnedFd::from(socket))
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}
