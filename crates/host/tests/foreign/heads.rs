//! Requests without a body, of which filters inspect heads alone, take a way of their own through the server. Whatever a filter
//! does on that way has to end as on the other one, which a request with a body takes.

use crate::chain::wait_until;
use crate::fixture::{Fixture, Server};
use crate::own::get_figure;
use crate::raw_http::{Answer, Client, Request, get};
use palisade_suite::guests::Filter;
use palisade_suite::served;
use std::fs;

const NAMES: [&str; 2] = ["first", "second"];

/// Steps, and what a filter does there.
const ACTS: [(&str, &[&str]); 3] = [
    (
        "request",
        &["nothing", "respond", "trap", "break", "call", "wait"],
    ),
    (
        "answer",
        &["nothing", "respond", "trap", "break", "call", "wait"],
    ),
    ("end", &["nothing", "respond", "trap", "break", "call"]),
];

/// Two filters before files: `/` by both, `/one/` by the first, `/twice/` by the first, two times where it may be,
/// `/feeds/` by a third.
fn fixture(isolation: &str, settings: &str) -> Fixture {
    let mut fixture = Fixture::new().backend("gate", |_| Answer::new(200, "gate"));
    let grant = fixture.grant("gate");
    for name in NAMES {
        let settings =
            format!("{grant}\nisolation = {isolation:?}\nconfiguration = {name:?}\n{settings}");
        fixture = fixture.filter(name, &served::filter(Filter::Heads), &settings);
    }
    for folder in ["files", "files/one", "files/twice"] {
        let folder = fixture.folder().join(folder);
        fs::create_dir(&folder).expect("make a folder");
        fs::write(folder.join("file"), "a file").expect("write a file");
        fs::write(folder.join("large"), vec![b'a'; 3 << 20]).expect("write a file");
    }
    // A request that has a fresh instance waits for no other one of that filter's.
    let twice = match isolation {
        "kept" => &["first", "first"][..],
        _ => &["first"],
    };
    let feeds = "isolation = \"kept\"\nconfiguration = \"feeds\"";
    fixture
        .filter("feeds", &served::filter(Filter::Heads), feeds)
        .text("[services.files]\nfiles = \"files\"\n")
        .route("/feeds/", &["feeds"], "files")
        .route("/one/", &["first"], "files")
        .route("/twice/", twice, "files")
        .route("/", &NAMES, "files")
}

/// The filters that have seen an answer.
fn seen_by(answer: &Answer) -> Vec<String> {
    let seen = answer.headers.iter().filter(|(name, _)| name == "x-seen");
    seen.map(|(_, value)| value.clone()).collect()
}

/// What a client sees, and what filters have said and counted meanwhile.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    answer: Option<(u16, Vec<String>, usize)>,
    lines: Vec<String>,
    counts: Vec<(String, u64)>,
}

impl Outcome {
    fn forget_crossings(&mut self) {
        self.counts.retain(|(name, _)| !name.contains("crossings"));
    }
}

/// A server, and how many marks its log has.
struct Marked(Server, usize);

impl Marked {
    /// What comes of a request by filters that have their instances already.
    fn outcome(&mut self, request: &Request) -> Outcome {
        for path in ["/file", "/one/file"] {
            let answer = self.0.get(path);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        self.lines();
        let before = self.counts();
        let answer = self
            .0
            .try_ask(request)
            .map(|answer| (answer.status, seen_by(&answer), answer.body.len()));
        let counts = self.counts().into_iter().zip(before);
        let counts = counts.map(|((name, now), (_, before))| (name, now - before));
        let counts = counts.collect();
        Outcome {
            answer,
            lines: self.lines(),
            counts,
        }
    }

    /// What filters have said since they were asked for that.
    fn lines(&mut self) -> Vec<String> {
        let Self(server, marks) = self;
        *marks += 1;
        let mark = format!("mark-{marks}");
        let request = Request::new("GET", "/one/file").header("x-first-end", &mark);
        assert_eq!(server.ask(&request).status, 200);
        server.wait_for_line(&mark);
        let log = server.take_log();
        let words = log.iter().filter_map(|line| {
            let at = line
                .find("first sees")
                .or_else(|| line.find("second sees"))?;
            Some(line[at..].to_owned())
        });
        words.take_while(|line| !line.contains(&mark)).collect()
    }

    /// Of both filters: requests, calls into them, errors, faults.
    fn counts(&self) -> Vec<(String, u64)> {
        let figures = self.0.admin("/metrics");
        let is_count = |line: &&str| {
            let is_of_filter = NAMES.iter().any(|name| line.contains(&format!("{name:?}")));
            let is_size = ["cpu", "seconds", "bytes"]
                .iter()
                .any(|size| line.contains(size));
            is_of_filter && !is_size
        };
        let lines = figures.lines().filter(is_count);
        let counts = lines.filter_map(|line| {
            let (name, count) = line.rsplit_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        });
        counts.collect()
    }
}

pub(crate) fn whatever_a_filter_does_is_the_same_with_a_body() {
    let mut seen = 0;
    for (isolation, failure) in [
        ("kept", "close"),
        ("kept", "open"),
        ("fresh", "close"),
        ("fresh", "open"),
    ] {
        let settings = format!("on-failure = {failure:?}");
        let fixture = fixture(isolation, &settings);
        let mut server = Marked(fixture.serve(), 0);
        for (path, names) in [
            ("/file", &NAMES[..]),
            ("/large", &NAMES),
            ("/one/file", &NAMES[..1]),
            ("/twice/file", &NAMES[..1]),
        ] {
            for name in names {
                for (step, acts) in ACTS {
                    for act in acts {
                        let field = format!("x-{name}-{step}");
                        let request = Request::new("GET", path).header(&field, act);
                        let mut without = server.outcome(&request);
                        let mut with = server.outcome(&request.body("a"));
                        // Whether it is answered before the request is over is chance.
                        if *act == "call" {
                            without.forget_crossings();
                            with.forget_crossings();
                        }
                        assert_eq!(
                            without, with,
                            "{isolation}, {settings}: {path}, {field}: {act}"
                        );
                        seen += usize::from(!without.lines.is_empty());
                    }
                }
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

/// A path that a filter sets is brought into its one form before anybody else sees it, or the request is refused.
pub(crate) fn a_path_that_a_filter_sets_has_one_form() {
    for isolation in ["kept", "fresh"] {
        paths_have_one_form(&fixture(isolation, "").serve());
    }
}

fn paths_have_one_form(server: &Server) {
    for name in NAMES {
        for (path, status, bytes) in [
            ("/large", 200, 3 << 20),
            ("/one/../%66ile", 200, 6),
            ("/..%2f..%2fetc/passwd", 400, 0),
            ("/../file", 400, 0),
            ("/a%00", 400, 0),
        ] {
            let set = Request::new("GET", "/file").header("x-path", path);
            let set = set.header(&format!("x-{name}-request"), "path");
            server.get("/file");
            for request in [set.clone(), set.body("a")] {
                let answer = server.ask(&request);
                assert_eq!(answer.status, status, "{name}: {path}: {answer:?}");
                if status == 200 {
                    assert_eq!(answer.body.len(), bytes, "{name}: {path}");
                }
            }
        }
    }
}

/// A filter that cannot start is met when its turn comes, and the one before it has seen the request by then.
pub(crate) fn a_second_filter_that_does_not_start() {
    for (failure, status) in [("close", 500), ("open", 200)] {
        let settings = format!("vm-id = \"both\"\non-failure = {failure:?}");
        let fixture = fixture("fresh", &settings);
        let server = fixture.serve();
        let stop = |name: &str| {
            let stop = Request::new("GET", "/one/file").header("x-first-request", "stop");
            assert_eq!(server.ask(&stop.header("x-stopped", name)).status, 200);
        };
        let get = Request::new("GET", "/file");
        let ask = |request: &Request| {
            let answer = server.ask(request);
            (answer.status, seen_by(&answer).join(" "))
        };
        for _ in 0..3 {
            stop("second");
            for request in [get.clone(), get.clone().body("a")] {
                assert_eq!(ask(&request), (status, "first".to_owned()), "{failure}");
            }
            stop("nobody");
            for request in [get.clone(), get.clone().body("a")] {
                assert_eq!(ask(&request), (200, "second first".to_owned()), "{failure}");
            }
        }
        for name in ["palisade_faults_total", "palisade_errors_total"] {
            assert_eq!(get_figure(&server, name, "second"), 6, "{failure}: {name}");
        }
    }
}

/// A request that is to have the only instance waits until the answer that holds it is sent, and no longer: also where another
/// filter leaves its worker never without work.
pub(crate) fn a_request_for_a_file_waits_for_an_instance() {
    let fixture = fixture("fresh", "instances = 1\nwait-time = \"1h\"");
    let server = fixture.serve();
    let feed = Request::new("GET", "/feeds/").header("x-feeds-request", "feed");
    assert_eq!(server.ask(&feed).status, 404);
    wait_until("it feeds itself", || {
        get_figure(&server, "palisade_crossings_total", "feeds") > 100
    });
    let connect = || Client::connect_unix(server.socket()).expect("a connection");
    let mut slow = connect();
    slow.send(get("/one/large"));
    let head = slow.read_exactly(12).expect("an answer");
    assert_eq!(head, b"HTTP/1.1 200");
    let mut waiting = [connect(), connect()];
    for client in &mut waiting {
        client.send(get("/one/file"));
    }
    slow.read_exactly(3 << 20).expect("the answer's body");
    drop(slow);
    for client in &mut waiting {
        assert_eq!(client.answer().status, 200);
    }
}

/// An instance whose request is over lasts until its worker has nothing else to do. Requests that are there before that have its place
/// among those that its filter may have.
pub(crate) fn requests_that_are_there_already_take_one_place_in_turn() {
    let fixture = fixture("fresh", "instances = 1\nwait-time = \"1ms\"");
    let server = fixture.serve();
    let mut client = Client::connect_unix(server.socket()).expect("a connection");
    for path in ["/file", "/one/file"] {
        assert_eq!(client.get(path).status, 200, "{path}");
        client.send(get(path).repeat(50));
        for _ in 0..50 {
            assert_eq!(client.answer().status, 200, "{path}");
        }
    }
}
