//! Requests to other servers, which behave as servers should not.

pub(crate) mod fake;
mod tls;

use bytes::Bytes;
use fake::{Fake, on_worker};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt;
use palisade_filter::Peer;
use palisade_host::{
    body::{Body, BodyError},
    client::{Client, Settings, Times, UpstreamError},
    config::{self, Server},
    services::upstream::Upstream,
};
use std::{
    cell::Cell,
    io::{Read, Write},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn config(servers: &[Server]) -> config::Upstream {
    config::Upstream {
        servers: servers.to_vec(),
        idle_connections: 4,
        connect_time: Duration::from_secs(5),
        answer_time: Duration::from_secs(20),
        retries: 1,
    }
}

fn upstream(servers: &[Server]) -> Upstream {
    Upstream::new(&config(servers), &Client::new(Settings::default()))
}

fn request(method: Method, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request.header("host", "one.example").body(body).unwrap()
}

fn get(path: &str) -> Request<Body> {
    request(Method::GET, path, Body::Empty)
}

fn post(path: &str) -> Request<Body> {
    request(Method::POST, path, Body::from("text"))
}

type Answer = Result<Response<Body>, UpstreamError>;

async fn ask(upstream: &Upstream, request: Request<Body>) -> Answer {
    upstream.respond(request, &Peer::default()).await
}

async fn text(answer: Answer) -> String {
    let body = answer.unwrap().into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[test]
fn a_connection_is_kept() {
    let server = Fake::start(|mut connection| {
        while connection.head().is_some() {
            connection.say(OK);
        }
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        for _ in 0..5 {
            assert_eq!(text(ask(&upstream, get("/")).await).await, "ok");
        }
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn requests_at_one_time_have_a_connection_each() {
    let server = Fake::start(|mut connection| {
        while connection.head().is_some() {
            connection.say(OK);
        }
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let ask = || async { text(ask(&upstream, get("/")).await).await };
        let answers = tokio::join!(ask(), ask(), ask());
        assert_eq!(answers, ("ok".into(), "ok".into(), "ok".into()));
        assert_eq!(server.connections(), 3);
        assert_eq!(ask().await, "ok");
        assert_eq!(server.connections(), 3);
    });
}

#[test]
fn a_kept_connection_that_the_server_closed_costs_nothing() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say(OK);
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        for request in [get("/"), post("/"), get("/"), post("/")] {
            assert_eq!(text(ask(&upstream, request).await).await, "ok");
            // Its end has come by now, and nobody has been told of it.
            server.wait_for_ends();
        }
        assert_eq!(server.connections(), 4);
    });
}

#[test]
fn a_kept_connection_that_breaks_under_a_request_is_tried_again_where_that_does_no_harm() {
    // Each connection answers once, and closes when it is asked again.
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say(OK);
        connection.head();
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        assert_eq!(text(ask(&upstream, get("/")).await).await, "ok");
        assert_eq!(text(ask(&upstream, get("/")).await).await, "ok");
        let error = ask(&upstream, post("/")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Closed { .. }), "{error}");
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
        assert_eq!(server.connections(), 2);
    });
}

#[test]
fn a_server_that_never_answers_is_asked_as_often_as_retries_say() {
    let server = Fake::start(|mut connection| {
        connection.head();
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let error = ask(&upstream, get("/")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Closed { .. }), "{error}");
        assert_eq!(server.connections(), 2, "once more");
        let error = ask(&upstream, post("/")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Closed { .. }), "{error}");
        assert_eq!(server.connections(), 3, "it may have been done");
    });
}

#[test]
fn what_is_no_http_is_no_answer() {
    for garbage in [
        "\0\0\0\0garbage\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ] {
        let server = Fake::start(move |mut connection| {
            connection.head();
            connection.say(garbage);
            connection.head();
        });
        on_worker(async {
            let upstream = upstream(&[server.address()]);
            let error = ask(&upstream, post("/")).await.unwrap_err();
            assert!(
                matches!(error, UpstreamError::Malformed { .. }),
                "{garbage}: {error}"
            );
            assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
        });
    }
}

#[test]
fn half_an_answer_is_told_as_such() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let answer = ask(&upstream, get("/")).await.unwrap();
        assert_eq!(answer.headers()["content-length"], "100");
        assert!(answer.into_body().collect().await.is_err());
    });
}

#[test]
fn too_slow_an_answer_is_not_waited_for_and_not_asked_for_again() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.wait_for_end();
    });
    on_worker(async {
        let config = config::Upstream {
            answer_time: Duration::from_millis(100),
            ..config(&[server.address()])
        };
        let upstream = Upstream::new(&config, &Client::new(Settings::default()));
        let error = ask(&upstream, get("/")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::AnswerTime { .. }), "{error}");
        assert_eq!(error.status(), StatusCode::GATEWAY_TIMEOUT);
        // Its connection is of no more use.
        server.ends().await;
        assert_eq!(server.connections(), 1);
    });
}

#[test]
fn answers_before_the_answer_are_passed_over() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection
            .say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        connection.say(OK);
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let request = Request::post("/").header("expect", "100-continue");
        let request = request.body(Body::from("text")).unwrap();
        assert_eq!(text(ask(&upstream, request).await).await, "ok");
        let seen = server.seen();
        assert!(!seen.to_lowercase().contains("expect"), "{seen}");
    });
}

/// Any number may come, and each is read; but not for ever, and not while others wait.
#[test]
fn answers_before_the_answer_come_to_an_end() {
    let server = Fake::start(|mut connection| {
        connection.head();
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
        while connection.say(&interim) {}
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let error = ask(&upstream, post("/")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Heads { .. }), "{error}");
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
        server.ends().await;
    });
}

#[test]
fn a_switch_of_protocols_that_nobody_asked_for_is_no_answer() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection
            .say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n");
        connection.wait_for_end();
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let error = ask(&upstream, post("/")).await.unwrap_err();
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY, "{error}");
    });
}

#[test]
fn servers_take_turns_and_one_that_refuses_is_passed_over() {
    let answers = |mut connection: fake::Connection| {
        while connection.head().is_some() {
            connection.say(OK);
        }
    };
    let (one, two) = (Fake::start(answers), Fake::start(answers));
    on_worker(async {
        let upstream = upstream(&[one.address(), fake::nobody(), two.address()]);
        for request in 0..12 {
            let request = if request % 2 == 0 {
                get("/")
            } else {
                post("/")
            };
            assert_eq!(text(ask(&upstream, request).await).await, "ok");
        }
        assert!(one.requests() >= 4 && two.requests() >= 4);
    });
}

#[test]
fn nobody_there_is_a_bad_gateway() {
    on_worker(async {
        let upstream = upstream(&[fake::nobody()]);
        let error = ask(&upstream, get("/")).await.unwrap_err();
        assert!(matches!(error, UpstreamError::Connect { .. }), "{error}");
        assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
        assert!(
            error
                .to_string()
                .starts_with("host: cannot connect to http://127.0.0.1:")
        );
    });
}

#[test]
fn a_name_that_nobody_knows_is_a_bad_gateway() {
    on_worker(async {
        let server = Server::Internet {
            host: "no_such_host.invalid".into(),
            port: 80,
            tls: false,
        };
        let error = ask(&upstream(&[server]), get("/")).await.unwrap_err();
        let is_expected = matches!(
            error,
            UpstreamError::Resolve { .. } | UpstreamError::ConnectTime { .. }
        );
        assert!(is_expected, "{error}");
    });
}

#[test]
fn a_unix_socket_is_a_server_too() {
    let server = Fake::start_local(|mut connection| {
        connection.head();
        connection.say(OK);
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        assert_eq!(text(ask(&upstream, get("/a?b")).await).await, "ok");
        assert!(
            server
                .seen()
                .starts_with("GET /a?b HTTP/1.1\r\nhost: one.example\r\n")
        );
    });
}

#[test]
fn framing_is_made_anew() {
    let server = Fake::start(|mut connection| {
        while connection.head().is_some() {
            connection.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive, x-a\r\nX-A: 1\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        }
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let smuggled = Request::post("/")
            .header("host", "one.example")
            .header("content-length", "0")
            .header("transfer-encoding", "chunked")
            .header("connection", "transfer-encoding")
            .body(Body::from("GET /admin HTTP/1.1\r\n\r\n"))
            .unwrap();
        let answer = ask(&upstream, smuggled).await.unwrap();
        let fields: Vec<_> = answer.headers().keys().map(|name| name.as_str()).collect();
        assert!(fields.is_empty(), "{fields:?}");
        assert_eq!(text(Ok(answer)).await, "ok");
        let seen = server.seen().to_lowercase();
        assert!(seen.contains("content-length: 23\r\n"), "{seen}");
        assert!(!seen.contains("transfer-encoding"), "{seen}");
        assert_eq!(server.requests(), 1);
    });
}

/// A body of so many parts of 64 KiB, that counts those which were taken.
struct Parts {
    left: usize,
    taken: Rc<Cell<usize>>,
    breaks_off: bool,
}

impl HttpBody for Parts {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.left == 0 {
            return Poll::Ready(self.breaks_off.then(|| Err("the client is gone".into())));
        }
        self.left -= 1;
        self.taken.set(self.taken.get() + 1);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 64 << 10])))))
    }
}

fn parts(left: usize, breaks_off: bool) -> (Body, Rc<Cell<usize>>) {
    let taken = Rc::new(Cell::new(0));
    let body = Parts {
        left,
        taken: Rc::clone(&taken),
        breaks_off,
    };
    (Body::new(body), taken)
}

#[test]
fn a_body_goes_no_faster_than_the_server_takes_it() {
    const PARTS: usize = 4000;
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.wait_for_go();
        connection.read_chunks();
        connection.say(OK);
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let (body, taken) = parts(PARTS, false);
        let answer = ask(&upstream, request(Method::PUT, "/", body));
        let looks = async {
            // Until nothing moves any more: what the kernel's buffers take.
            let mut before = usize::MAX;
            while taken.get() == 0 || taken.get() != before {
                before = taken.get();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            let held = taken.get();
            server.go();
            held
        };
        let (answer, held) = tokio::join!(answer, looks);
        assert!(
            held < PARTS / 4,
            "{held} parts were taken while the server took none"
        );
        assert_eq!(text(answer).await, "ok");
        assert_eq!(taken.get(), PARTS);
    });
}

#[test]
fn an_answer_goes_no_faster_than_it_is_taken() {
    const BYTES: usize = 256 << 20;
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"
        ));
        connection.pour(BYTES);
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let answer = ask(&upstream, get("/")).await.unwrap();
        let mut before = usize::MAX;
        while server.poured() == 0 || server.poured() != before {
            before = server.poured();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert!(
            server.poured() < BYTES / 4,
            "{} bytes left the server",
            server.poured()
        );
        let mut body = answer.into_body();
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            length += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(length, BYTES);
    });
}

#[test]
fn a_body_that_breaks_off_is_the_clients_fault() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.wait_for_end();
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let (body, _) = parts(3, true);
        let error = ask(&upstream, request(Method::PUT, "/", body))
            .await
            .unwrap_err();
        assert!(
            matches!(error, UpstreamError::RequestBody { .. }),
            "{error}"
        );
        assert_eq!(error.status(), StatusCode::BAD_REQUEST);
        assert!(server.connections() <= 1);
    });
}

#[test]
fn an_answer_may_come_before_the_request_is_whole() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say("HTTP/1.1 413 Too Much\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        connection.read_some();
        connection.wait_for_end();
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let (body, _) = parts(100_000, false);
        let answer = ask(&upstream, request(Method::PUT, "/", body)).await;
        assert_eq!(answer.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    });
}

#[test]
fn idle_connections_are_few_and_do_not_stay() {
    let server = Fake::start(|mut connection| {
        while connection.head().is_some() {
            connection.say(OK);
        }
    });
    on_worker(async {
        let settings = Settings {
            idle_time: Duration::from_millis(100),
            ..Settings::default()
        };
        let config = config::Upstream {
            idle_connections: 1,
            ..config(&[server.address()])
        };
        let upstream = Upstream::new(&config, &Client::new(settings));
        let ask = || async { text(ask(&upstream, get("/")).await).await };
        tokio::join!(ask(), ask(), ask());
        // Two at once, the third when its time is over: the server sees all of them end.
        server.ends().await;
        assert_eq!(ask().await, "ok");
        assert_eq!(server.connections(), 4);
    });
}

#[test]
fn a_client_sends_what_it_is_given() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say(OK);
    });
    on_worker(async {
        let client = Client::new(Settings::default());
        let times = Times {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(20),
        };
        let request = Request::get("http://two.example/x?y").header("x-forwarded-for", "kept");
        let request = request.body(Body::Empty).unwrap();
        let answer = client.send(&server.address(), request, &times).await;
        assert_eq!(text(answer).await, "ok");
        let seen = server.seen();
        assert!(seen.starts_with("GET /x?y HTTP/1.1\r\n"), "{seen}");
        assert!(seen.contains("host: two.example\r\n"), "{seen}");
        assert!(seen.contains("x-forwarded-for: kept\r\n"), "{seen}");
    });
}

#[test]
fn the_server_learns_who_asked() {
    let server = Fake::start(|mut connection| {
        connection.head();
        connection.say(OK);
    });
    on_worker(async {
        let upstream = upstream(&[server.address()]);
        let peer = Peer {
            address: Some("192.0.2.7:1".parse().unwrap()),
            ..Peer::default()
        };
        let request = Request::get("/")
            .header("host", "one.example")
            .header("x-forwarded-for", "203.0.113.9")
            .body(Body::Empty)
            .unwrap();
        let answer = upstream.respond(request, &peer).await;
        assert_eq!(text(answer).await, "ok");
        let seen = server.seen();
        assert!(seen.contains("x-forwarded-for: 192.0.2.7\r\n"), "{seen}");
        assert!(!seen.contains("203.0.113.9"), "{seen}");
    });
}

/// A stream that a test's server speaks over.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}
