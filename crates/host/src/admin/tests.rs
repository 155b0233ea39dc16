mod exposition;

use super::*;
use crate::{
    config::{self, Address},
    kinds::{BrokenBy, GuestKind},
    metrics::State,
};
use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

pub(super) struct Fixture {
    folder: TempDir,
    pub(super) report: Arc<Report>,
    reloads: mpsc::Receiver<Asked>,
    admin: Admin,
}

impl Fixture {
    pub(super) fn new() -> Self {
        let log = Log::start(&config::Log {
            path: Some("/dev/null".into()),
            ..config::Log::default()
        });
        let registry = Arc::new(Registry::default());
        let report = Arc::new(Report::new(
            "/srv/host.toml".into(),
            registry,
            Arc::default(),
            log.unwrap(),
        ));
        let (ask, reloads) = mpsc::channel(1);
        Self {
            folder: tempfile::tempdir().unwrap(),
            admin: Admin::new(report.clone(), ask),
            report,
            reloads,
        }
    }

    /// A server with some history.
    fn with_metrics() -> Self {
        let fixture = Self::new();
        let registry = &fixture.report.registry;
        let filter = registry.guest(GuestKind::Filter, "auth", 0);
        filter.requests.add(7);
        filter.cpu_ns.add(1_500_000);
        filter.fault("it trapped: \u{1b}[31munreachable");
        filter.set_state(State::Resting);
        registry.guest(GuestKind::Filter, "auth", 1).requests.add(3);
        registry
            .guest(GuestKind::Service, "site", 0)
            .requests
            .add(9);
        let route = registry.route("api", 0);
        route.count(Some(StatusCode::OK), None);
        route.count(Some(StatusCode::BAD_GATEWAY), None);
        route.count(None, Some(BrokenBy::Client));
        route.count_time(Duration::from_micros(700), 1);
        route.count_time(Duration::from_secs(11), 16);
        registry.route("", 0);
        let edge = EdgeMetrics::default();
        edge.accepted.add(4);
        edge.connections.set(2);
        edge.requests.add(10);
        *fixture.report.now() = Now {
            generation: 3,
            listeners: vec!["http://127.0.0.1:8080".into()],
            edge: vec![Arc::new(edge)],
            guests: Arc::new([
                Guest {
                    kind: GuestKind::Filter,
                    name: "auth".into(),
                    what: "filter",
                },
                Guest {
                    kind: GuestKind::Service,
                    name: "site".into(),
                    what: "files",
                },
            ]),
            reloads: 2,
            failed_reloads: 1,
            last_failure: Some((SystemTime::UNIX_EPOCH, "it was wrong".into())),
            ..Now::default()
        };
        fixture
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("admin.sock")
    }

    fn open_port(&self, token_file: Option<PathBuf>) -> AdminListener {
        let config = config::Admin {
            address: Address::Internet("127.0.0.1:0".parse().unwrap()),
            token_file,
        };
        AdminListener::open(&config, self.admin.clone()).unwrap()
    }

    fn open(&self) -> AdminListener {
        let config = config::Admin {
            address: Address::Unix(self.socket()),
            token_file: None,
        };
        AdminListener::open(&config, self.admin.clone()).unwrap()
    }
}

/// A socket at the loopback.
struct Port(std::net::SocketAddr);

/// What came back, whole.
struct Answer(String);

impl Port {
    fn of(listener: &AdminListener) -> Self {
        match *listener.address() {
            Address::Internet(address) => Self(address),
            Address::Unix(_) => panic!("no port"),
        }
    }

    async fn ask(&self, request: &str, head: &str) -> Answer {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        let request = format!("{request} HTTP/1.1\r\n{head}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        Answer(answer)
    }
}

impl Answer {
    fn status(&self) -> &str {
        &self.0[9..12]
    }
}

async fn ask(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream
        .write_all(format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn run(act: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(act);
}

#[test]
fn only_the_servers_user_reaches_the_socket() {
    run(async {
        let fixture = Fixture::new();
        let listener = fixture.open();
        let mode = std::fs::metadata(fixture.socket())
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(listener);
        assert!(!fixture.socket().exists(), "it is gone with the server");
    });
}

#[test]
fn metrics_are_in_the_format_of_prometheus() {
    run(async {
        let fixture = Fixture::with_metrics();
        let _listener = fixture.open();
        let answer = ask(&fixture.socket(), "GET /metrics").await;
        let (head, page) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(
            head.contains("content-type: text/plain; version=0.0.4"),
            "{head}"
        );
        let page: Vec<_> = page
            .lines()
            .filter(|line| !line.starts_with("palisade_start_time_seconds "))
            .collect();
        exposition::check(&format!("{}\n", page.join("\n")));
        insta::assert_snapshot!(page.join("\n"));
    });
}

#[test]
fn status_is_json() {
    run(async {
        let fixture = Fixture::with_metrics();
        let _listener = fixture.open();
        let answer = ask(&fixture.socket(), "GET /status").await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut status: serde_json::Value = serde_json::from_str(body).unwrap();
        for key in ["pid", "started", "uptime_s"] {
            assert!(!status[key].is_null());
            status[key] = key.into();
        }
        status["guests"][0]["last_fault"]["time"] = "then".into();
        insta::assert_snapshot!(serde_json::to_string_pretty(&status).unwrap());
    });
}

#[test]
fn a_reload_is_answered_when_it_has_ended() {
    run(async {
        let mut fixture = Fixture::new();
        let _listener = fixture.open();
        let mut reloads = std::mem::replace(&mut fixture.reloads, mpsc::channel(1).1);
        let reloaded = |generation, error: Option<&str>| Reloaded {
            generation,
            warnings: Vec::new(),
            error: error.map(Into::into),
        };
        for (outcome, status) in [
            (reloaded(2, None), "HTTP/1.1 200 "),
            (reloaded(2, Some("broken")), "HTTP/1.1 422 "),
        ] {
            let socket = fixture.socket();
            let asking = tokio::spawn(async move { ask(&socket, "POST /reload").await });
            let asked = reloads.recv().await.unwrap();
            assert!(!asking.is_finished());
            assert_eq!(asked.suspects, Suspects::All);
            asked.answer.send(outcome.clone()).unwrap();
            let answer = asking.await.unwrap();
            assert!(answer.starts_with(status), "{answer}");
            assert_eq!(
                answer.contains("broken"),
                outcome.error.is_some(),
                "{answer}"
            );
        }
        drop(reloads);
        let answer = ask(&fixture.socket(), "POST /reload").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    });
}

#[test]
fn a_reload_is_of_everything_or_of_tenants_that_are_named() {
    let named = |names: &[&str]| Suspects::from_iter(names.iter().map(|name| Arc::from(*name)));
    for (query, wanted) in [
        ("", Some(Suspects::All)),
        ("tenant=a", Some(named(&["a"]))),
        ("tenant=a&tenant=b%7Cc", Some(named(&["a", "b|c"]))),
        ("tenant=a&x=b", None),
        ("a", None),
        ("tenant=%ff", None),
    ] {
        assert_eq!(suspects(query), wanted, "{query}");
    }
}

#[test]
fn what_there_is_not_is_told() {
    run(async {
        let fixture = Fixture::new();
        let _listener = fixture.open();
        for (request, wanted) in [
            ("GET /nothing", "HTTP/1.1 404 "),
            ("GET //", "HTTP/1.1 404 "),
            ("GET /reload", "HTTP/1.1 405 "),
            ("POST /reload?all", "HTTP/1.1 400 "),
            ("POST /metrics", "HTTP/1.1 405 "),
            ("BREW /status", "HTTP/1.1 405 "),
        ] {
            let answer = ask(&fixture.socket(), request).await;
            assert!(answer.starts_with(wanted), "{request}: {answer}");
        }
    });
}

/// A page in a browser on this machine can send requests here, under a name of its own.
#[test]
fn a_port_answers_no_web_page() {
    run(async {
        let fixture = Fixture::new();
        let listener = fixture.open_port(None);
        let port = Port::of(&listener);
        let ask = async |head: &str| port.ask("GET /status", head).await.status().to_owned();
        let host = format!("host: {}\r\n", port.0);
        assert_eq!(ask(&host).await, "200");
        assert_eq!(ask("host: attacker.example\r\n").await, "403");
        assert_eq!(
            ask("host: localhost\r\nhost: attacker.example\r\n").await,
            "403"
        );
        assert_eq!(ask("").await, "403");
        let page = format!("{host}origin: http://attacker.example\r\n");
        assert_eq!(ask(&page).await, "403");
        assert_eq!(
            ask(&format!("{host}sec-fetch-site: cross-site\r\n")).await,
            "403"
        );
    });
}

#[test]
fn an_address_that_others_reach_wants_its_token() {
    run(async {
        let fixture = Fixture::new();
        let file = fixture.folder.path().join("token");
        let secret = "s".repeat(40);
        std::fs::write(&file, &secret).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let listener = fixture.open_port(Some(file.clone()));
        let port = Port::of(&listener);
        let host = format!("host: {}\r\n", port.0);
        for request in [
            "GET /",
            "GET /overview",
            "GET /metrics",
            "GET /status",
            "POST /reload",
            "GET /none",
        ] {
            let answer = port.ask(request, &host).await;
            assert_eq!(answer.status(), "401", "{request}");
            assert!(
                answer.0.contains("www-authenticate: Basic "),
                "{}",
                answer.0
            );
        }
        let with = |secret: &str| format!("{host}authorization: Bearer {secret}\r\n");
        assert_eq!(
            port.ask("GET /status", &with(&secret)).await.status(),
            "200"
        );
        listener.set_token(None);
        assert_eq!(
            port.ask("GET /status", &host).await.status(),
            "200",
            "it is the loopback"
        );
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let config = config::Admin {
            address: Address::Internet("127.0.0.1:0".parse().unwrap()),
            token_file: Some(file),
        };
        let error = AdminListener::open(&config, fixture.admin.clone()).unwrap_err();
        assert!(error.to_string().contains("is open to others"), "{error}");
    });
}

/// What keeps a browser from doing with an answer what it should not.
#[test]
fn every_answer_tells_browsers_what_it_is() {
    run(async {
        let fixture = Fixture::with_metrics();
        let listener = fixture.open_port(None);
        let port = Port::of(&listener);
        let host = format!("host: {}\r\n", port.0);
        for (request, status, kind) in [
            ("GET /", "200", "text/html; charset=utf-8"),
            ("GET /overview", "200", "application/json"),
            (
                "GET /overview?view=guests&sort=cpu&search=a&from=0&count=5",
                "200",
                "application/json",
            ),
            ("GET /overview?view=%3Cscript%3E", "400", "application/json"),
            (
                "GET /metrics",
                "200",
                "text/plain; version=0.0.4; charset=utf-8",
            ),
            ("GET /status", "200", "application/json"),
            ("GET /%3Cscript%3E", "404", "application/json"),
            ("HEAD /", "405", "application/json"),
            ("POST /overview", "405", "application/json"),
        ] {
            let answer = port.ask(request, &host).await;
            assert_eq!(answer.status(), status, "{request}");
            let head = answer.0.split("\r\n\r\n").next().unwrap();
            for field in [
                &*format!("content-type: {kind}"),
                "cache-control: no-store",
                "x-content-type-options: nosniff",
                "x-frame-options: DENY",
                "content-security-policy: default-src 'none'; ",
                "frame-ancestors 'none'",
                "cross-origin-resource-policy: same-origin",
                "cross-origin-opener-policy: same-origin",
            ] {
                assert!(head.contains(field), "{request}: no {field} in {head}");
            }
            assert!(!answer.0.contains("access-control-"), "{request}");
        }
    });
}

/// The answer, which comes before anybody's time is up.
async fn ask_at_once(socket: &Path, request: &str) -> String {
    let answer = tokio::time::timeout(Duration::from_secs(4), ask(socket, request));
    answer.await.expect("it has a turn")
}

#[test]
fn who_says_nothing_gives_up_its_place() {
    run(async {
        let fixture = Fixture::new();
        let _listener = fixture.open();
        let mut silent = Vec::new();
        for number in 0..70 {
            let mut stream = UnixStream::connect(fixture.socket()).await.unwrap();
            let begun = &b"GET /status HTTP/1.1\r\nhost: x\r\n"[..number % 20];
            stream.write_all(begun).await.unwrap();
            silent.push(stream);
        }
        let answer = ask_at_once(&fixture.socket(), "GET /status").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        // The first that came are gone, and the last that came are not.
        assert_eq!(silent[0].read(&mut [0]).await.unwrap_or(0), 0);
        let mut last = silent.pop().unwrap();
        let rest = &b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n"[69 % 20..];
        last.write_all(rest).await.unwrap();
        let mut answer = String::new();
        last.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    });
}

#[test]
fn who_takes_no_answer_gives_up_its_place() {
    run(async {
        let fixture = Fixture::new();
        let guests = (0..1500).map(|number| Guest {
            kind: GuestKind::Service,
            name: format!("{number}"),
            what: "files",
        });
        // More than a socket holds.
        fixture.report.now().guests = guests.collect();
        let _listener = fixture.open();
        let mut slow = Vec::new();
        for _ in 0..70 {
            let mut stream = UnixStream::connect(fixture.socket()).await.unwrap();
            let request = b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n";
            stream.write_all(request).await.unwrap();
            stream.readable().await.unwrap();
            slow.push(stream);
        }
        let answer = ask_at_once(&fixture.socket(), "GET /nothing").await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    });
}

/// Signals, reloads and the watchdog are the thread's that answers here.
#[test]
fn a_long_answer_holds_up_no_other_one_and_is_made_one_at_a_time() {
    run(async {
        let fixture = Fixture::new();
        let (counted, begun) = std::sync::mpsc::channel();
        let (go, may_go) = std::sync::mpsc::channel::<()>();
        let may_go = Mutex::new(may_go);
        let registry = &fixture.report.registry;
        registry.count_by(GuestKind::Service, "slow", move || {
            counted.send(()).unwrap();
            let may_go = may_go.lock().unwrap_or_else(|poison| poison.into_inner());
            let _ = may_go.recv();
            crate::metrics::GuestSum::default()
        });
        let _listener = fixture.open();
        let requests = ["GET /metrics", "GET /overview", "GET /status"];
        let long = requests.map(|request| {
            let socket = fixture.socket();
            tokio::spawn(async move { ask(&socket, request).await })
        });
        let mut begins = 0;
        while begins == 0 {
            let answer = ask_at_once(&fixture.socket(), "GET /nothing").await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
            begins += begun.try_iter().count();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        begins += begun.try_iter().count();
        assert_eq!(begins, 1, "several are computed at a time");
        drop(go);
        for answer in long {
            let answer = answer.await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    });
}
