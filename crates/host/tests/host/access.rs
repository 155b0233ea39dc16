//! Requests, as the log's lines and their routes' metrics tell of them once they are over.

use super::{
    control::{Fixture, Server},
    edge::http2::{handshake, with_client},
    program::served,
    raw_http::{Client, get},
};
use bytes::Bytes;
use http::{Method, Request, Version};
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use std::{
    collections::HashSet,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

/// A server that answers each path in its own wrong way, and no second request on a connection.
struct Backend {
    port: u16,
    /// Lets `/whole` go on.
    go: Sender<()>,
}

impl Backend {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (go, may_go) = mpsc::channel();
        // It ends with the test's process. One connection at a time would wait for the one that is held.
        let may_go = std::sync::Arc::new(std::sync::Mutex::new(may_go));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let may_go = std::sync::Arc::clone(&may_go);
                thread::spawn(move || serve(stream, &|| may_go.lock().unwrap().recv().is_ok()));
            }
        });
        Self { port, go }
    }
}

fn serve(mut stream: TcpStream, wait_for_go: &dyn Fn() -> bool) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.extend(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let mut say = |text: &str| stream.write_all(text.as_bytes()).is_ok();
    let ten = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n";
    match head.split([' ', '?']).nth(1).unwrap() {
        "/whole" => {
            say(&format!("{ten}0123"));
            wait_for_go();
            say("456789");
        }
        "/early" => drop(say(&format!("{ten}0123"))),
        "/chunked" => drop(say(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\n0123\r\n",
        )),
        "/head" => drop(say(ten)),
        "/304" => drop(say(
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n",
        )),
        "/failed" => drop(say("HTTP/1.1 500 Oh\r\ncontent-length: 10\r\n\r\n0123")),
        "/endless" => {
            say("HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n");
            while say(&"x".repeat(64 << 10)) {}
        }
        stalled => {
            if stalled == "/stall" {
                say(&format!("{ten}0123"));
            }
            // Until the server hangs up.
            while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {}
        }
    }
}

/// A server with a line for each request, and a backend below `/up`.
fn start(more: &str) -> (Fixture, Backend, Server) {
    let (fixture, backend) = (Fixture::new(), Backend::start());
    fixture.write(&config(backend.port, more));
    let server = fixture.start(&["--no-watch"]);
    (fixture, backend, server)
}

fn config(port: u16, more: &str) -> String {
    format!(
        "admin = 'unix:admin.sock'\nworkers = 1\nlog = {{ format = 'json', access = true, level = 'error' }}\n\
         [[listen]]\naddress = '127.0.0.1:0'\n[services.up]\nupstream = 'http://127.0.0.1:{port}'\n\
         [[route]]\nname = 'up'\npath = '/up'\nstrip = true\nservice = 'up'\n{more}"
    )
}

/// The next request's line.
fn line(server: &Server) -> Value {
    serde_json::from_str(&server.wait_for(r#""message":"request""#)).unwrap()
}

/// What a line says of the answer: status, bytes, who broke it off.
fn told(line: &Value) -> (Option<u64>, u64, Option<&str>) {
    (
        line["status"].as_u64(),
        line["bytes"].as_u64().unwrap(),
        line["broken_by"].as_str(),
    )
}

fn assert_figures(server: &Server, wanted: &[&str]) {
    let page = server.metrics();
    for wanted in wanted {
        assert!(
            page.lines().any(|line| line == *wanted),
            "{wanted}:\n{page}"
        );
    }
}

#[test]
fn a_line_is_written_when_the_answer_is_over() {
    let (_fixture, backend, server) = start("");
    let mut client = Client::connect(server.address());
    client.send(get("/up/whole?secret"));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n0123") {
        head += &String::from_utf8(client.read_exactly(1).unwrap()).unwrap();
    }
    Client::connect(server.address()).get("/none");
    let first = line(&server);
    assert_eq!(
        (&first["path"], &first["route"]),
        (&"/none".into(), &"".into())
    );
    assert_eq!(
        first["time_first_us"],
        Value::Null,
        "all of it went out at once"
    );
    assert_eq!(told(&first), (Some(404), 23, None));
    backend.go.send(()).unwrap();
    assert_eq!(client.read_exactly(6).unwrap(), b"456789");
    let second = line(&server);
    assert_eq!(
        (
            &second["path"],
            &second["route"],
            &second["method"],
            &second["client"]
        ),
        (
            &"/up/whole".into(),
            &"up".into(),
            &"GET".into(),
            &"127.0.0.1".into()
        )
    );
    assert_eq!(told(&second), (Some(200), 10, None));
    let first_us = second["time_first_us"].as_u64().unwrap();
    assert!(first_us > 0 && second["time_us"].as_u64().unwrap() >= first_us);
    assert_figures(
        &server,
        &[
            r#"palisade_route_requests_total{route="up",code="2xx"} 1"#,
            r#"palisade_route_requests_total{route="",code="4xx"} 1"#,
            r#"palisade_route_duration_seconds_count{route="up"} 1"#,
            r#"palisade_route_broken_off_total{route="up",by="client"} 0"#,
        ],
    );
}

#[test]
fn answers_that_break_off_are_told_and_counted() {
    let (_fixture, _backend, server) = start("[limits]\nbody-time = '1s'\n");
    for (path, status, bytes, by) in [
        ("/up/early", 200, 4, "service"),
        ("/up/chunked", 200, 4, "service"),
        ("/up/stall", 200, 4, "limit"),
        ("/up/failed", 500, 4, "service"),
    ] {
        let mut client = Client::connect(server.address());
        client.send(get(path));
        // Nobody could take it for a whole one: neither the length that it announced is there, nor the last chunk.
        let answer = client.read_to_end().unwrap_or_default();
        assert!(
            !answer.ends_with("456789") && !answer.ends_with("\r\n0\r\n\r\n"),
            "{answer}"
        );
        assert_eq!(
            told(&line(&server)),
            (Some(status), bytes, Some(by)),
            "{path}"
        );
    }
    let mut client = Client::connect(server.address());
    client.send(get("/up/endless"));
    client.read_exactly(100_000).unwrap();
    drop(client);
    let (status, bytes, by) = (200, 100_000, "client");
    let gone = line(&server);
    assert_eq!(
        (gone["status"].as_u64(), gone["broken_by"].as_str()),
        (Some(status), Some(by))
    );
    assert!(
        (bytes..1_000_000_000).contains(&gone["bytes"].as_u64().unwrap()),
        "{gone}"
    );
    assert_figures(
        &server,
        &[
            // Each of the first four, once; the client's going is no fault of the service's.
            r#"palisade_errors_total{kind="service",guest="up"} 4"#,
            r#"palisade_requests_total{kind="service",guest="up"} 5"#,
            r#"palisade_route_requests_total{route="up",code="none"} 0"#,
            r#"palisade_route_requests_total{route="up",code="2xx"} 4"#,
            r#"palisade_route_broken_off_total{route="up",by="service"} 3"#,
            r#"palisade_route_broken_off_total{route="up",by="limit"} 1"#,
            r#"palisade_route_broken_off_total{route="up",by="client"} 1"#,
        ],
    );
}

#[test]
fn an_upload_that_is_cut_off_is_its_clients_fault() {
    let (_fixture, _backend, server) = start("[limits]\nbody-size = '1KiB'\n");
    let mut client = Client::connect(server.address());
    let part = format!("258\r\n{}\r\n", "x".repeat(0x258));
    client.send(format!(
        "POST /up/stall HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n{part}"
    ));
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n0123") {
        head += &String::from_utf8(client.read_exactly(1).unwrap()).unwrap();
    }
    client.send(part);
    assert_eq!(told(&line(&server)), (Some(200), 4, Some("client")));
    assert_figures(
        &server,
        &[r#"palisade_errors_total{kind="service",guest="up"} 0"#],
    );
}

#[test]
fn answers_without_a_body_are_whole() {
    let (_fixture, _backend, server) = start("");
    for (request, status, bytes) in [
        (
            "HEAD /up/head HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            200,
            0,
        ),
        (
            "HEAD /none HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            404,
            0,
        ),
        (
            "GET /up/304 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            304,
            0,
        ),
        (
            "GET /%2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            400,
            38,
        ),
        // The edge refuses it.
        (
            "GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close\r\n\r\n",
            400,
            54,
        ),
    ] {
        let mut client = Client::connect(server.address());
        client.send(request);
        let answer = client.read_to_end().unwrap();
        let line = line(&server);
        assert_eq!(
            told(&line),
            (Some(status), bytes, None),
            "{request}{answer}"
        );
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len() as u64, bytes, "{request}{answer}");
    }
}

#[test]
fn http_2_is_told_in_the_same_way() {
    let (_fixture, _backend, server) = start("");
    let request = |method, path: &str| {
        Request::builder()
            .method(method)
            .uri(format!("http://test{path}"))
            .version(Version::HTTP_2)
            .body(Full::new(Bytes::new()))
            .unwrap()
    };
    with_client(async || {
        let stream = tokio::net::TcpStream::connect(server.address())
            .await
            .unwrap();
        let mut sender = handshake(stream).await;
        let head = sender
            .send_request(request(Method::HEAD, "/none"))
            .await
            .unwrap();
        assert_eq!(head.headers()["content-length"], "23");
        let body = head.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(&body[..], b"", "an answer to HEAD has no body");
        assert_eq!(told(&line(&server)), (Some(404), 0, None));
        for (method, path, status, bytes) in [
            (Method::HEAD, "/up/head", 200, 0),
            (Method::GET, "/up/304", 304, 0),
            (Method::GET, "/none", 404, 23),
        ] {
            let answer = sender.send_request(request(method, path)).await.unwrap();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len() as u64, bytes, "{path}");
            assert_eq!(told(&line(&server)), (Some(status), bytes, None), "{path}");
        }
        let answer = sender
            .send_request(request(Method::GET, "/up/early"))
            .await
            .unwrap();
        assert!(answer.into_body().collect().await.is_err());
        assert_eq!(told(&line(&server)), (Some(200), 4, Some("service")));
    });
    // Clients that go away: over a body, and before there is a head.
    with_client(async || {
        let stream = tokio::net::TcpStream::connect(server.address());
        let mut sender = handshake(stream.await.unwrap()).await;
        let endless = sender.send_request(request(Method::GET, "/up/endless"));
        assert_eq!(endless.await.unwrap().status(), 200);
    });
    let gone = line(&server);
    assert_eq!(
        (&gone["status"], &gone["broken_by"]),
        (&200.into(), &"client".into())
    );
    with_client(async || {
        let stream = tokio::net::TcpStream::connect(server.address());
        let mut sender = handshake(stream.await.unwrap()).await;
        tokio::task::spawn_local(sender.send_request(request(Method::GET, "/up/never")));
        let is_asked = r#"palisade_requests_total{kind="service",guest="up"} 5"#;
        while !server.metrics().contains(is_asked) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(told(&line(&server)), (None, 0, Some("client")));
    assert_figures(
        &server,
        &[
            r#"palisade_errors_total{kind="service",guest="up"} 1"#,
            r#"palisade_route_requests_total{route="up",code="none"} 1"#,
            r#"palisade_route_broken_off_total{route="up",by="client"} 2"#,
        ],
    );
}

#[test]
fn what_an_http_2_client_does_not_take_in_time_breaks_a_limit() {
    let (_fixture, _backend, server) = start("[limits]\nbody-time = '1s'\n");
    with_client(async || {
        let stream = tokio::net::TcpStream::connect(server.address());
        let mut sender = handshake(stream.await.unwrap()).await;
        let endless = Request::builder()
            .uri("http://test/up/endless")
            .version(Version::HTTP_2)
            .body(Full::new(Bytes::new()))
            .unwrap();
        // Nobody reads its body: the window opens no further.
        let answer = sender.send_request(endless).await.unwrap();
        let gone = line(&server);
        assert_eq!(
            (&gone["status"], &gone["broken_by"]),
            (&200.into(), &"limit".into())
        );
        assert!(answer.into_body().collect().await.is_err());
    });
}

#[test]
fn a_program_that_dies_over_its_answer_is_to_blame() {
    let (fixture, backend) = (Fixture::new(), Backend::start());
    let program = served();
    let service = format!(
        "[services.program]\nprogram = [{program:?}]\nback-off = '10ms'\npolicy.grants.read = [{:?}]\n\
         [[route]]\nname = 'program'\nservice = 'program'\n",
        program.parent().unwrap()
    );
    fixture.write(&config(backend.port, &service));
    let server = fixture.start(&["--no-watch"]);
    for path in ["/die", "/cut"] {
        let mut client = Client::connect(server.address());
        client.send(get(path));
        assert!(client.try_answer().is_err(), "{path}");
        let line = line(&server);
        assert_eq!(told(&line), (Some(200), 4, Some("service")), "{line}");
    }
    assert_eq!(Client::connect(server.address()).get("/").status, 200);
    assert_eq!(told(&line(&server)).0, Some(200));
    assert_figures(
        &server,
        &[
            r#"palisade_errors_total{kind="service",guest="program"} 2"#,
            r#"palisade_route_broken_off_total{route="program",by="service"} 2"#,
        ],
    );
}

/// Nothing that a client says begins a line, looks like another's, or acts on the terminal that the log is read in.
#[test]
fn what_a_client_says_is_one_line_of_the_log() {
    let (_fixture, _backend, server) = start("");
    let forged = "%0a%7b%22message%22:%22request%22,%22status%22:299%7d";
    let requests = [
        format!("GET /up/chunked{forged} HTTP/1.1\r\nhost: a\r\n"),
        "GET /none%1b%5b2J%0d%0a HTTP/1.1\r\nhost: a\r\n".into(),
        "GET /none\",\"status\":299,\"x\":\" HTTP/1.1\r\nhost: a\r\n".into(),
        "GET /none HTTP/1.1\r\nhost: a\r\nuser-agent: \"}\u{9b}2J\u{2028}{\"status\":299\r\n".into(),
        "GET /none HTTP/1.1\r\nhost: a\r\nreferer: \\\",\"status\":299\r\nx-forwarded-for: 9.9.9.9\r\n".into(),
        "LOOK\"x /none HTTP/1.1\r\nhost: a\r\n".into(),
        "GET /none HTTP/1.1\r\nhost: a\r\nx: a\x1b[2J\r\n".into(),
    ];
    let mut told = 0;
    for (number, request) in requests.iter().enumerate() {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let request = format!("{request}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // One that is refused may find the connection reset.
        let _ = stream.read_to_end(&mut answer);
        // A request of the test's own, which ends what there is to see of this one.
        let marker = format!("/marker-{number}");
        Client::connect(server.address()).get(&marker);
        loop {
            let text = server.wait_for(r#""message":"request""#);
            assert!(!text.chars().any(char::is_control), "{text:?}");
            let line: Value = serde_json::from_str(&text).unwrap();
            assert_ne!(line["status"], 299, "{text}");
            assert_eq!(line["client"], "127.0.0.1", "{text}");
            if line["path"] == marker.as_str() {
                break;
            }
            told += 1;
        }
    }
    assert!((4..=requests.len()).contains(&told), "{told} lines");
}

#[test]
fn an_answer_that_never_comes_is_the_services_error() {
    let (_fixture, _backend, server) = start("[limits]\nanswer-time = '300ms'\n");
    let answer = Client::connect(server.address()).get("/up/never");
    assert_eq!(answer.status, 504);
    assert_eq!(told(&line(&server)).0, Some(504));
    assert_figures(
        &server,
        &[r#"palisade_errors_total{kind="service",guest="up"} 1"#],
    );
}

#[test]
fn numbers_of_requests_go_on_through_reloads_and_differ_between_starts() {
    let (fixture, backend, server) = start("");
    let mut numbers = HashSet::new();
    for _ in 0..2 {
        let mut ask = |server: &Server| {
            Client::connect(server.address()).get("/none");
            let number = line(server)["request"].as_u64().unwrap();
            assert!(number < 1 << 53, "readers of JSON would round {number}");
            assert!(numbers.insert(number), "{number} twice");
        };
        ask(&server);
        ask(&server);
        fixture.write(&config(backend.port, "[limits]\nheaders = 50\n"));
        assert_eq!(server.admin("POST /reload").0, 200);
        ask(&server);
    }
    drop(server);
    let again = fixture.start(&["--no-watch"]);
    Client::connect(again.address()).get("/none");
    assert!(numbers.insert(line(&again)["request"].as_u64().unwrap()));
}
