//! The graceful end, and changes, under load: no request is lost.

use super::{
    http2,
    limits::wait_until,
    listen::wait_until_refused,
    stand_in::{Server, anywhere, at_path, edge},
};
use crate::raw_http::{Client, get};
use palisade_host::{config::Limits, edge::may_filter_sockets};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

const TIME: Duration = Duration::from_secs(20);

#[test]
fn a_request_under_way_is_answered_before_the_end() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    let mut idle = server.connect();
    assert_eq!(idle.get("/").text(), "first");
    client.send(get("/gate"));
    server.wait_for_request();
    let gate = server.gate();
    let stop = thread::spawn(move || server.stop(TIME));
    // The end of the idle connection shows that the server is stopping.
    assert_eq!(idle.read_to_end().expect("it ends"), "");
    gate.add_permits(1);
    let answer = client.answer();
    assert_eq!(answer.text(), "first");
    assert!(answer.closes(), "{answer:?}");
    assert_eq!(stop.join().expect("no panic"), 0);
}

#[test]
fn a_request_that_takes_too_long_is_cut_off() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send(get("/forever"));
    wait_until("the request begins", || {
        server.figure(|metrics| metrics.requests.get()) == 1
    });
    assert_eq!(server.stop(Duration::from_millis(500)), 1);
    assert!(client.try_answer().is_err());
}

#[test]
fn a_call_that_never_ends_does_not_hold_the_end_up() {
    let server = Server::start(Limits::default());
    let mut client = server.connect();
    client.send(get("/stuck"));
    wait_until("the request begins", || {
        server.figure(|metrics| metrics.requests.get()) == 1
    });
    let (stopped, stop) = std::sync::mpsc::channel();
    thread::spawn(move || stopped.send(server.stop(Duration::from_millis(100))));
    assert_eq!(stop.recv_timeout(TIME), Ok(1));
}

#[test]
fn http_2_is_told_to_go_and_gets_its_answers() {
    let server = Server::start(Limits::default());
    let (address, gate) = (server.address(), server.gate());
    let (begun, begins) = std::sync::mpsc::channel();
    let client = thread::spawn(move || {
        http2::with_client(async || {
            let tcp = tokio::net::TcpStream::connect(address)
                .await
                .expect("a connection");
            let mut sender = http2::handshake(tcp).await;
            let mut waiting = sender.clone();
            let waits =
                tokio::task::spawn_local(async move { http2::get(&mut waiting, "/gate").await });
            http2::get(&mut sender, "/").await.expect("an answer");
            begun.send(()).expect("the test waits");
            // Closed for new requests as soon as the server says that it goes away.
            while !sender.is_closed() && http2::get(&mut sender, "/").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            gate.add_permits(1);
            waits.await.expect("no panic").map(|(status, _)| status)
        })
    });
    begins.recv().expect("the client has begun");
    server.wait_for_request();
    assert_eq!(server.stop(TIME), 0);
    assert_eq!(client.join().expect("no panic").expect("an answer"), 200);
}

/// Clients that ask as fast as they are answered, so many times on each connection, or until the server says
/// `close`.
struct Load {
    stopping: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn begin(address: SocketAddr, requests: usize) -> Self {
        let stopping = Arc::new(AtomicBool::new(false));
        let answers = Arc::new(AtomicUsize::new(0));
        let clients = (0..4).map(|_| {
            let (stopping, answers) = (Arc::clone(&stopping), Arc::clone(&answers));
            thread::spawn(move || ask(address, requests, &stopping, &answers))
        });
        Self {
            clients: clients.collect(),
            stopping,
            answers,
        }
    }

    /// Waits for so many more answers.
    fn wait_for(&self, more: usize) {
        let enough = self.answers.load(Ordering::Relaxed) + more;
        wait_until("answers come", || {
            self.answers.load(Ordering::Relaxed) >= enough
        });
    }

    fn end(self) -> Vec<String> {
        self.stopping.store(true, Ordering::Relaxed);
        let failures = self
            .clients
            .into_iter()
            .flat_map(|client| client.join().expect("no panic"));
        failures.collect()
    }
}

/// Returns the requests that were lost.
fn ask(
    address: SocketAddr,
    requests: usize,
    stopping: &AtomicBool,
    answers: &AtomicUsize,
) -> Vec<String> {
    let mut failures = Vec::new();
    while !stopping.load(Ordering::Relaxed) {
        // Who is refused or never let in has lost no request.
        let Ok(mut client) = Client::try_connect(address, Duration::from_millis(200)) else {
            continue;
        };
        for _ in 0..requests {
            match client.try_get("/") {
                Ok(answer) if answer.status == 200 => {
                    answers.fetch_add(1, Ordering::Relaxed);
                    if answer.closes() {
                        break;
                    }
                }
                other => {
                    failures.push(format!("{other:?}"));
                    break;
                }
            }
        }
    }
    failures
}

/// Requests on a connection: hardly any time between two connections, and hardly any between two requests.
const REQUESTS: [usize; 2] = [1, 100];

#[test]
fn no_request_is_lost_when_the_server_stops() {
    for requests in REQUESTS {
        let server = Server::start(Limits::default());
        let load = Load::begin(server.address(), requests);
        load.wait_for(200);
        assert_eq!(server.stop(TIME), 0);
        assert_eq!(
            load.end(),
            Vec::<String>::new(),
            "{requests} on a connection"
        );
    }
}

#[test]
fn no_request_is_lost_when_generations_change() {
    for requests in REQUESTS {
        let mut server = Server::start(Limits::default());
        let load = Load::begin(server.address(), requests);
        for name in ["second", "third", "fourth", "fifth"] {
            load.wait_for(100);
            let edge = edge(vec![anywhere()], Limits::default());
            server.swap(name, &edge).expect("a swap");
        }
        load.wait_for(100);
        assert_eq!(
            load.end(),
            Vec::<String>::new(),
            "{requests} on a connection"
        );
        assert_eq!(server.connect().get("/").text(), "fifth");
    }
}

#[test]
fn no_request_is_lost_when_an_address_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let elsewhere = at_path(&folder.path().join("socket"));
    for requests in REQUESTS {
        let mut server = Server::start(Limits::default());
        let address = server.address();
        let load = Load::begin(address, requests);
        load.wait_for(200);
        let edge = edge(vec![elsewhere.clone()], Limits::default());
        server.swap("second", &edge).expect("a swap");
        wait_until_refused(address);
        let mut failures = load.end();
        if !may_filter_sockets() {
            // Who connects in the very moment in which the socket is closed is reset.
            failures.retain(|failure| !failure.contains("ConnectionReset"));
        }
        assert_eq!(failures, Vec::<String>::new(), "{requests} on a connection");
    }
}
