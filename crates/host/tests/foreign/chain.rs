//! What passes between filters and their server beside the plain way of a request, by `guests/filters/steps.c`.

use crate::fixture::{Fixture, PATIENCE, Server};
use crate::raw_http::{Answer, Request, exchange};
use palisade_suite::guests::Filter;
use palisade_suite::served;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Instant,
};

/// Each case.
pub(crate) const CASES: &[(&str, fn())] = &[
    ("stray-calls-end", a_fresh_instance_ends_with_its_request),
    (
        "stray-calls-are-forgotten",
        a_kept_instance_forgets_calls_of_requests_that_ended,
    ),
    ("calls-are-bounded", calls_of_all_instances_have_a_bound),
    ("held-bodies-are-seen", held_bodies_are_seen_by_answers),
    ("made-trailers-go-out", trailers_that_a_filter_makes_go_out),
    (
        "made-trailers-go-out-by-http2",
        trailers_that_a_filter_makes_go_out_by_http2,
    ),
    (
        "trailers-end-two-that-hold",
        trailers_pass_two_filters_that_hold_the_body,
    ),
    (
        "trailers-end-a-held-body",
        a_body_that_trailers_end_is_judged,
    ),
    (
        "trailers-wait-for-a-held-body",
        trailers_wait_until_a_filter_lets_the_body_go,
    ),
    (
        "emptied-trailers-outlive-an-instance",
        trailers_that_were_emptied_go_on_after_a_fault,
    ),
    (
        "both-directions-outlive-an-instance",
        both_directions_of_a_request_go_on_after_a_fault,
    ),
    ("too-long-request", a_request_too_long_to_hold_is_refused),
    ("too-long-answer", an_answer_too_long_to_hold_is_an_error),
    (
        "answer-of-another-stream",
        an_answer_goes_to_the_stream_it_is_for,
    ),
    (
        "answer-of-one-that-failed",
        an_answer_of_a_filter_that_failed_is_nobodys,
    ),
    ("failed-body", a_body_that_a_filter_fails_over_is_an_error),
    ("log", a_filter_can_log_sizes_and_the_status),
    ("reload", a_filter_that_a_reload_replaces_is_told),
    ("stop", a_filter_is_told_that_the_server_stops),
    ("finish", a_filter_that_leaves_finishes_its_streams_first),
    ("empty-pieces", empty_pieces_are_not_shown),
    (
        "upgrade",
        a_change_of_protocol_is_refused_behind_filters_too,
    ),
    ("path", a_path_that_a_filter_sets_has_one_form),
    ("path-of-a-second-look", a_head_shown_again_is_as_it_was),
    ("answer-to-a-held-head", an_answer_to_a_held_head_is_heard),
    ("end-of-a-held-head", a_held_head_is_not_changed_at_the_end),
];

fn tell(request: &Request) -> Answer {
    Answer::new(200, [b"told ", &request.body[..]].concat())
}

/// A filter of `steps.c` before a service that tells bodies back.
fn fixture(settings: &str) -> Fixture {
    Fixture::new()
        .backend("teller", tell)
        .filter("steps", &served::filter(Filter::Steps), settings)
        .route("/", &["steps"], "teller")
}

/// The same, with an upstream that it may call.
fn fixture_with_gate(
    settings: &str,
    gate: impl Fn(&Request) -> Answer + Send + 'static,
) -> Fixture {
    let fixture = Fixture::new().backend("teller", tell).backend("gate", gate);
    let settings = fixture.grant("gate") + "\nconfiguration = \"gate\"\n" + settings;
    fixture
        .filter("steps", &served::filter(Filter::Steps), &settings)
        .route("/", &["steps"], "teller")
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        thread::yield_now();
    }
}

fn has_figure(server: &Server, name: &str, value: &str) -> bool {
    let figures = server.admin("/metrics");
    let mut lines = figures.lines();
    lines.any(|line| line.starts_with(name) && line.contains("\"steps\"") && line.ends_with(value))
}

/// What belongs to the client's connection is taken out before filters see the request, but for this.
fn a_change_of_protocol_is_refused_behind_filters_too() {
    let fixture = fixture("");
    let server = fixture.serve();
    let plain = Request::new("GET", "/").header("connection", "x-own");
    assert_eq!(server.ask(&plain).text(), "told ");
    let upgrade = Request::new("GET", "/")
        .header("connection", "upgrade")
        .header("upgrade", "websocket");
    assert_eq!(server.ask(&upgrade).status, 501);
}

/// Guards behind it, and its service, see no other spelling; what has two meanings gets nowhere.
fn a_path_that_a_filter_sets_has_one_form() {
    let fixture = fixture_with_gate("", |_| Answer::new(200, ""));
    let server = fixture.serve();
    for step in ["/go-to?", "/wait?/go-to?"] {
        for (path, seen) in [
            ("/plain", "/plain"),
            ("/a/../%62", "/b"),
            ("/a//./c?d=/../e", "/a/c?d=/../e"),
        ] {
            assert_eq!(server.get(&format!("{step}{path}")).text(), "told ");
            let asked = fixture.asked("teller");
            assert_eq!(asked.last().unwrap().path, seen, "{step}{path}");
        }
        let before = fixture.asked("teller").len();
        for path in ["/a%00", "/../a", "/a%2f.."] {
            let answer = server.get(&format!("{step}{path}"));
            assert_eq!(answer.status, 400, "{step}{path}");
        }
        assert_eq!(fixture.asked("teller").len(), before, "{step}");
    }
}

/// An instance that follows one which failed over a request is shown its head. Others have seen it meanwhile, and its path is
/// not looked at any more.
fn a_head_shown_again_is_as_it_was() {
    let fixture = fixture("isolation = \"kept\"");
    let mut server = fixture.serve();
    let answer = server.ask(&Request::new("POST", "/lead-astray").body("a"));
    assert_eq!(answer.text(), "told a");
    server.wait_for_line("proxy_on_tick");
    let asked = fixture.asked("teller");
    let paths: Vec<_> = asked.iter().map(|request| &*request.path).collect();
    assert_eq!(paths, ["/lead-astray"]);
}

/// A filter of 0.2.100, in text.
fn filter_of_text(fixture: Fixture, body: &str, settings: &str) -> Fixture {
    let text = format!(
        r#"(module
        (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
        (import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
        (import "env" "proxy_add_header_map_value"
          (func $add (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_http_call"
          (func $call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_send_local_response"
          (func $respond (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 8) "x-lategate")
        (data (i32.const 32) "\03\00\00\00\07\00\00\00\03\00\00\00\05\00\00\00\01\00\00\00\0a\00\00\00\04\00\00\00:method\00GET\00:path\00/\00:authority\00gate\00")
        (func (export "proxy_abi_version_0_2_100"))
        (func (export "malloc") (param i32) (result i32) (i32.const 1024))
        {body})"#
    );
    let module = fixture.folder().join("of-text.wasm");
    fs::write(&module, wat::parse_str(text).expect("a module")).expect("write a file");
    fixture.filter("of-text", &module, settings)
}

/// A filter that holds a head while its body comes, and answers before it does, is heard, whether it inspects bodies or not.
fn an_answer_to_a_held_head_is_heard() {
    let fixture = Fixture::new()
        .backend("teller", tell)
        .backend("gate", |_| Answer::new(200, "gate"));
    let settings = fixture.grant("gate") + "\nisolation = \"kept\"";
    let body = r#"
        (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
          (drop (call $call (i32.const 14) (i32.const 4) (i32.const 32) (i32.const 64)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 30000) (i32.const 512)))
          (i32.const 1))
        (func (export "proxy_on_http_call_response") (param i32 i32 i32 i32 i32)
          (drop (call $effective (i32.const 2)))
          (drop (call $respond (i32.const 403) (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.const 0) (i32.const 0) (i32.const 0) (i32.const -1)))
          (drop (call $log (i32.const 2) (i32.const 8) (i32.const 6))))"#;
    let fixture = filter_of_text(fixture, body, &settings).route("/", &["of-text"], "teller");
    let mut server = fixture.serve();
    let mut stream = send(
        &server,
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nconnection: close\r\n\r\n",
    );
    server.wait_for_line("x-late");
    stream.write_all(b"a").expect("send the body");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(fixture.asked("teller").is_empty());
}

/// What others have seen of an answer's head is what goes out.
fn a_held_head_is_not_changed_at_the_end() {
    let body = r#"
        (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (i32.const 1))
        (func (export "proxy_on_log") (param i32)
          (drop (call $add (i32.const 2) (i32.const 8) (i32.const 6) (i32.const 14) (i32.const 4))))"#;
    for isolation in ["kept", "fresh"] {
        let fixture = Fixture::new();
        fs::create_dir(fixture.folder().join("files")).expect("make a folder");
        fs::write(fixture.folder().join("files/file"), "a file").expect("write a file");
        let settings = format!("isolation = {isolation:?}");
        let fixture = filter_of_text(fixture, body, &settings)
            .filter("null", &served::filter(Filter::Null), &settings)
            .text("[services.files]\nfiles = \"files\"\n")
            .route("/", &["null", "of-text"], "files");
        let server = fixture.serve();
        for _ in 0..3 {
            let answer = server.get("/file");
            assert_eq!(answer.text(), "a file");
            assert_eq!(answer.value("x-late"), None, "{isolation}: {answer:?}");
        }
    }
}

fn a_fresh_instance_ends_with_its_request() {
    let (open_gate, gate_opens) = mpsc::channel::<()>();
    let fixture = fixture_with_gate("", move |_| {
        let _ = gate_opens.recv();
        Answer::new(200, "")
    });
    let server = fixture.serve();
    let begin = Instant::now();
    for _ in 0..10 {
        assert_eq!(server.get("/stray-call").text(), "told ");
    }
    wait_until("no memory is held", || {
        has_figure(&server, "palisade_memory_bytes", " 0")
    });
    // Their calls would have been given up after 30 s.
    assert!(begin.elapsed().as_secs() < 25, "{:?}", begin.elapsed());
    drop(open_gate);
}

/// They count no more: it may make as many as before.
fn a_kept_instance_forgets_calls_of_requests_that_ended() {
    let (open_gate, gate_opens) = mpsc::channel::<()>();
    let fixture = fixture_with_gate("isolation = \"kept\"", move |_| {
        let _ = gate_opens.recv();
        Answer::new(200, "")
    });
    let mut server = fixture.serve();
    for _ in 0..60 {
        assert_eq!(server.get("/stray-call").text(), "told ");
    }
    let client = send(&server, b"GET /many-calls HTTP/1.1\r\nhost: test\r\n\r\n");
    server.wait_for_line("calls until refused: 100");
    drop((client, open_gate));
}

/// 100 of one instance, 1024 of all.
fn calls_of_all_instances_have_a_bound() {
    raise_file_limit();
    let fixture = Fixture::new().answer_time("8s").backend("teller", tell);
    let gate = fixture.folder().join("gate");
    let listener = UnixListener::bind(&gate).expect("listen");
    thread::spawn(move || {
        let silent: Vec<_> = listener.incoming().take(2000).collect();
        drop(silent);
    });
    let settings = format!(
        "configuration = \"gate\"\npolicy = {{ grants = {{ connect = [\"unix:{}\"] }}, limits = {{ time = \"10s\" }} }}",
        gate.display()
    );
    let fixture = fixture
        .text(&format!(
            "[services.gate]\nupstream = \"unix:{}\"",
            gate.display()
        ))
        .filter("steps", &served::filter(Filter::Steps), &settings)
        .route("/", &["steps"], "teller");
    let mut server = fixture.serve();
    let clients: Vec<_> = (0..11)
        .map(|_| send(&server, b"GET /many-calls HTTP/1.1\r\nhost: test\r\n\r\n"))
        .collect();
    const WORDS: &str = "calls until refused: ";
    wait_until("all have called", || {
        server.log().matches(WORDS).count() == clients.len()
    });
    let log = server.log();
    let counts = log.split(WORDS).skip(1).map(|rest| {
        let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next();
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0_u32)
    });
    assert_eq!(counts.sum::<u32>(), 1024, "{log}");
    // INTERNAL_FAILURE
    server.wait_for_line("refused with 10");
    drop(clients);
    wait_until("no memory is held", || {
        has_figure(&server, "palisade_memory_bytes", " 0")
    });
    let client = send(&server, b"GET /many-calls HTTP/1.1\r\nhost: test\r\n\r\n");
    wait_until("there is room again", || {
        server.log().matches(&format!("{WORDS}100")).count() == 11
    });
    drop(client);
}

fn raise_file_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, raised).expect("more descriptors");
}

fn send(server: &Server, bytes: &[u8]) -> UnixStream {
    let mut stream = UnixStream::connect(server.socket()).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(bytes).expect("send");
    stream
}

/// All that comes until the connection ends.
pub(crate) fn answer_to(server: &Server, bytes: &[u8]) -> String {
    let mut answer = Vec::new();
    let mut stream = send(server, bytes);
    stream.read_to_end(&mut answer).expect("an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn held_bodies_are_seen_by_answers() {
    for settings in ["", "isolation = \"kept\""] {
        let fixture = fixture_with_gate(settings, |_| Answer::new(200, " and more"));
        let mut server = fixture.serve();
        let answer = server.ask(&Request::new("POST", "/hold-request").body("abc"));
        assert_eq!(answer.text(), "told abc and more");
        server.wait_for_line("held bytes: 3");
        let answer = server.ask(&Request::new("POST", "/hold-answer").body("abcd"));
        assert_eq!(answer.text(), "told abcd and more");
        server.wait_for_line("held bytes: 9");
    }
}

/// Two filters: what one makes, the other one sees.
fn fixture_of_two() -> Fixture {
    let module = served::filter(Filter::Steps);
    Fixture::new()
        .backend("teller", tell)
        .filter("first", &module, "")
        .filter("second", &module, "")
        .route("/", &["first", "second"], "teller")
}

fn trailers_that_a_filter_makes_go_out() {
    let fixture = fixture_of_two();
    let mut server = fixture.serve();
    let answer = answer_to(
        &server,
        b"POST /make-trailers HTTP/1.1\r\nhost: test\r\nte: trailers\r\nconnection: te, close\r\n\
          content-length: 3\r\n\r\nabc",
    );
    assert!(
        answer.ends_with("\r\n0\r\nx-made: of an answer\r\n\r\n"),
        "{answer}"
    );
    assert!(answer.contains("told abc"), "{answer}");
    server.wait_for_line("of a request");
    server.wait_for_line("of an answer");
}

fn trailers_that_a_filter_makes_go_out_by_http2() {
    let fixture = fixture_of_two();
    let frames = ask_by_http2(&fixture.serve(), "/make-trailers", &[b"abc"]);
    let kinds: Vec<_> = frames.iter().map(|frame| frame.kind).collect();
    assert_eq!((kinds[0], kinds.last()), (HEADERS, Some(&HEADERS)));
    assert!(kinds.len() > 2 && kinds.contains(&DATA), "{kinds:?}");
}

fn trailers_pass_two_filters_that_hold_the_body() {
    let fixture = fixture_of_two();
    let answer = answer_to(
        &fixture.serve(),
        b"POST /hold-until-end HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
          transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-made: by the client\r\n\r\n",
    );
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("told abc"),
        "{answer}"
    );
}

/// Holds bodies to their ends, puts `judged` in their place then, and knows nothing of trailers.
const JUDGE: &str = r#"(module
    (import "env" "proxy_set_buffer_bytes" (func $set (param i32 i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 16) "judged")
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func $judge (param $buffer i32) (param $is_end i32) (result i32)
        (if (result i32) (local.get $is_end)
            (then
                (drop (call $set
                    (local.get $buffer) (i32.const 0) (i32.const 0x7fffffff) (i32.const 16) (i32.const 6)))
                (i32.const 0))
            (else (i32.const 1))))
    (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
        (call $judge (i32.const 0) (local.get 2)))
    (func (export "proxy_on_response_body") (param i32 i32 i32) (result i32)
        (call $judge (i32.const 1) (local.get 2))))"#;

/// The client's trailers, and those that another filter makes: before the service and behind it.
fn a_body_that_trailers_end_is_judged() {
    let steps = served::filter(Filter::Steps);
    let fixture = Fixture::new().backend("teller", tell);
    let judge = put_module(&fixture, JUDGE);
    let fixture = fixture
        .filter("first", &steps, "")
        .filter("judge", &judge, "")
        .filter("last", &steps, "")
        .route("/make-trailers", &["first", "judge", "last"], "teller")
        .route("/", &["judge"], "teller");
    let server = fixture.serve();
    let by_client = "POST / HTTP/1.1\r\nhost: test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                     3\r\nbad\r\n0\r\nx: y\r\n\r\n";
    let by_filters = "POST /make-trailers HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 3\r\n\r\n\
                      bad";
    for request in [by_client, by_filters] {
        let answer = answer_to(&server, request.as_bytes());
        assert!(
            answer.contains("judged") && !answer.contains("told"),
            "{answer}"
        );
    }
    let bodies: Vec<_> = fixture
        .asked("teller")
        .into_iter()
        .map(|asked| asked.body)
        .collect();
    assert_eq!(bodies, [b"judged", b"judged"]);
}

pub(crate) fn put_module(fixture: &Fixture, text: &str) -> PathBuf {
    fixture.put(
        "module.wasm",
        wat::parse_str(text).expect("read the module's text"),
    );
    fixture.folder().join("module.wasm")
}

/// A filter that is told the end of a body before its trailers, and still holds it, is shown them afterwards.
fn trailers_wait_until_a_filter_lets_the_body_go() {
    let fixture = fixture_with_gate("", |_| Answer::new(200, " and more"));
    let mut server = fixture.serve();
    let answer = answer_to(
        &server,
        b"POST /hold-request HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
          transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-made: by the client\r\n\r\n",
    );
    assert!(answer.contains("told abc and more"), "{answer}");
    server.wait_for_line("by the client");
}

/// Traps over a request without a body. Of trailers it takes `x-made` away and holds them; none, it lets pass.
const EMPTIER: &str = r#"(module
    (import "env" "proxy_remove_header_map_value" (func $remove (param i32 i32 i32) (result i32)))
    (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 16) "x-made")
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (if (local.get 2) (then unreachable))
        (i32.const 0))
    (func (export "proxy_on_request_trailers") (param i32 i32) (result i32)
        (if (i32.eqz (local.get 1)) (then (return (i32.const 0))))
        (drop (call $remove (i32.const 1) (i32.const 16) (i32.const 6)))
        (drop (call $log (i32.const 2) (i32.const 16) (i32.const 6)))
        (i32.const 1)))"#;

fn trailers_that_were_emptied_go_on_after_a_fault() {
    let fixture = Fixture::new().backend("teller", tell);
    let emptier = put_module(&fixture, EMPTIER);
    let fixture = fixture
        .filter("emptier", &emptier, "isolation = \"kept\"")
        .route("/", &["emptier"], "teller");
    let mut server = fixture.serve();
    let mut client = send(
        &server,
        b"POST / HTTP/1.1\r\nhost: test\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
          3\r\nabc\r\n0\r\nx-made: by the client\r\n\r\n",
    );
    server.wait_for_line("x-made");
    assert_eq!(server.get("/").status, 500);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains("told abc"), "{answer}");
}

/// Traps over a request without a body. Before that it holds all bodies of requests and heads of answers, and
/// afterwards none.
const HOLDER: &str = r#"(module
    (import "env" "proxy_set_shared_data" (func $set (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_get_shared_data" (func $get (param i32 i32 i32 i32 i32) (result i32)))
    (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 16) "holds body")
    (data (i32.const 32) "holds head")
    (func (export "proxy_abi_version_0_2_1"))
    (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
        (if (local.get 2) (then
            (drop (call $set (i32.const 16) (i32.const 4) (i32.const 16) (i32.const 4) (i32.const 0)))
            unreachable))
        (i32.const 0))
    (func $hold (param $words i32) (result i32)
        (if (i32.eqz (call $get (i32.const 16) (i32.const 4) (i32.const 64) (i32.const 68) (i32.const 72)))
            (then (return (i32.const 0))))
        (drop (call $log (i32.const 2) (local.get $words) (i32.const 10)))
        (i32.const 1))
    (func (export "proxy_on_request_body") (param i32 i32 i32) (result i32) (call $hold (i32.const 16)))
    (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (call $hold (i32.const 32))))"#;

/// The service answers before it has the body: an instance that goes down had both wait.
fn both_directions_of_a_request_go_on_after_a_fault() {
    let fixture = Fixture::new();
    let early = fixture.folder().join("early");
    let listener = UnixListener::bind(&early).expect("listen");
    let service = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut asked = Vec::new();
        let mut byte = [0];
        while !asked.ends_with(b"abc") {
            if asked.ends_with(b"\r\n\r\n") {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntold")
                    .expect("answer");
            }
            stream.read_exact(&mut byte).expect("more of the request");
            asked.push(byte[0]);
        }
    });
    let holder = put_module(&fixture, HOLDER);
    let fixture = fixture
        .text(&format!(
            "[services.early]\nupstream = \"unix:{}\"",
            early.display()
        ))
        .filter("holder", &holder, "isolation = \"kept\"")
        .route("/", &["holder"], "early");
    let mut server = fixture.serve();
    let mut client = send(
        &server,
        b"POST / HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc",
    );
    server.wait_for_line("holds body");
    server.wait_for_line("holds head");
    assert_eq!(server.get("/").status, 500);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("told"), "{answer}");
    drop(client);
    service.join().expect("the service gets the body");
}

fn a_request_too_long_to_hold_is_refused() {
    let fixture = fixture("body-size = \"1K\"");
    let mut server = fixture.serve();
    let long = Request::new("POST", "/hold-until-end").body("x".repeat(50_000));
    let answer = server.ask(&long);
    assert_eq!(answer.status, 413, "{answer:?}\n{}", server.log());
    assert!(fixture.asked("teller").is_empty(), "a part of it was told");
    let short = server.ask(&Request::new("POST", "/hold-until-end").body("abc"));
    assert_eq!(short.text(), "told abc");
}

fn an_answer_too_long_to_hold_is_an_error() {
    let fixture = Fixture::new().backend("gate", |_| Answer::new(200, ""));
    let settings = fixture.grant("gate") + "\nconfiguration = \"gate\"\nbody-size = \"1K\"";
    let fixture = fixture
        .text("[services.files]\nfiles = \"pages\"")
        .filter("steps", &served::filter(Filter::Steps), &settings)
        .route("/", &["steps"], "files");
    let pages = fixture.folder().join("pages");
    fs::create_dir(&pages).expect("a folder");
    fs::write(pages.join("hold-answer"), "x".repeat(5000)).expect("a page");
    fs::write(pages.join("other"), "x".repeat(5000)).expect("a page");
    let server = fixture.serve();
    assert_eq!(server.get("/hold-answer").status, 500);
    assert!(has_figure(&server, "palisade_errors_total", " 1"));
    assert_eq!(server.get("/other").text(), "x".repeat(5000));
}

/// One stream of a kept instance answers for another one, which waits for the service.
fn an_answer_goes_to_the_stream_it_is_for() {
    let (asked, is_asked) = mpsc::channel();
    let (let_tell, may_tell) = mpsc::channel::<()>();
    let fixture = Fixture::new().backend("teller", move |request| {
        if request.path == "/be-answered" {
            asked.send(()).expect("the test waits");
            let _ = may_tell.recv();
        }
        Answer::new(200, "told")
    });
    let module = served::filter(Filter::Steps);
    let fixture = fixture
        .backend("other", tell)
        .filter("steps", &module, "isolation = \"kept\"")
        .filter("beside", &module, "isolation = \"kept\"")
        .route("/answer-other", &["steps", "beside"], "other")
        .route("/", &["steps", "beside"], "teller");
    let server = fixture.serve();
    let socket = server.socket();
    thread::scope(|scope| {
        let waits = scope.spawn(|| exchange(socket, &Request::new("GET", "/be-answered")));
        is_asked.recv().expect("the service is asked");
        let other = server.get("/answer-other");
        assert_eq!((other.status, other.text().as_str()), (200, "told "));
        drop(let_tell);
        let answered = waits.join().expect("a thread").expect("an answer");
        assert_eq!(answered.status, 418, "{answered:?}");
    });
}

fn an_answer_of_a_filter_that_failed_is_nobodys() {
    let module = served::filter(Filter::Steps);
    let fixture = Fixture::new()
        .backend("teller", tell)
        .filter("steps", &module, "on-failure = \"open\"")
        .filter("null", &served::filter(Filter::Null), "")
        .route("/", &["steps", "null"], "teller");
    let answer = fixture.serve().get("/answer-and-trap");
    assert_eq!((answer.status, answer.text().as_str()), (200, "told "));
}

fn a_filter_can_log_sizes_and_the_status() {
    let fixture = fixture("");
    let mut server = fixture.serve();
    let answer = server.ask(&Request::new("POST", "/").body("12345"));
    assert_eq!(answer.text(), "told 12345");
    server.wait_for_line("request's bytes: 5");
    server.wait_for_line("answer's bytes: 10");
    server.wait_for_line("answer's status: 200");
}

fn a_filter_that_a_reload_replaces_is_told() {
    let mut fixture = fixture_with_gate("isolation = \"kept\"\nroot-id = \"first\"", |_| {
        Answer::new(200, "")
    });
    let mut server = fixture.serve();
    assert_eq!(server.get("/").status, 200);
    assert!(!server.log().contains("it leaves"));
    fixture.edit("root-id = \"first\"", "root-id = \"second\"");
    let answer = exchange(&server.places().admin, &Request::new("POST", "/reload"));
    assert_eq!(answer.expect("an answer").status, 200);
    server.wait_for_line("it leaves");
    // The answer to a call that it made then.
    server.wait_for_line("it has left");
    assert_eq!(server.get("/").status, 200);
}

fn a_filter_that_leaves_finishes_its_streams_first() {
    let (open_gate, gate_opens) = mpsc::channel::<()>();
    let mut fixture = fixture_with_gate("isolation = \"kept\"\nroot-id = \"first\"", move |_| {
        let _ = gate_opens.recv();
        Answer::new(200, "")
    });
    let mut server = fixture.serve();
    assert_eq!(server.get("/finish-later").status, 200);
    fixture.edit("root-id = \"first\"", "root-id = \"second\"");
    let answer = exchange(&server.places().admin, &Request::new("POST", "/reload"));
    assert_eq!(answer.expect("an answer").status, 200);
    // The call of the stream, and that of the filter that leaves.
    drop(open_gate);
    server.wait_for_line("a stream is finished");
    server.wait_for_line("it leaves");
    server.wait_for_line("it has left");
}

fn a_filter_is_told_that_the_server_stops() {
    let fixture = fixture_with_gate("isolation = \"kept\"", |_| Answer::new(200, ""));
    let mut server = fixture.serve();
    assert_eq!(server.get("/").status, 200);
    let process = Pid::from_raw(server.process().cast_signed()).expect("a process");
    kill_process(process, Signal::TERM).expect("stop it");
    server.wait_for_line("it leaves");
    server.wait_for_line("it has left");
}

fn empty_pieces_are_not_shown() {
    let fixture = fixture("");
    let mut server = fixture.serve();
    let frames = ask_by_http2(&server, "/tell-pieces", &[b"", b"", b"abc", b"", b"de"]);
    assert_eq!(frames[0].kind, HEADERS);
    server.wait_for_line("request's bytes: 5");
    let log = server.log();
    let pieces = log.lines().filter(|line| line.contains("piece of "));
    let empty = pieces.filter(|line| line.ends_with("piece of 0")).count();
    assert_eq!(empty, 0, "{log}");
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const END_STREAM: u8 = 1;

/// A frame of HTTP/2 (RFC 9113, 4.1).
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
}

/// Posts these pieces, each in a frame of its own; the frames of the answer.
fn ask_by_http2(server: &Server, path: &str, pieces: &[&[u8]]) -> Vec<Frame> {
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    sent.extend(frame(SETTINGS, 0, 0, &[]));
    // :method POST and :scheme http stand in the static table, :path and :authority with other values.
    let length = u8::try_from(path.len()).expect("a short path");
    let head = [
        &[0x83, 0x86, 0x04, length],
        path.as_bytes(),
        b"\x01\x04test",
    ]
    .concat();
    sent.extend(frame(HEADERS, 4, 1, &head));
    for (at, piece) in pieces.iter().enumerate() {
        let flags = u8::from(at + 1 == pieces.len()) * END_STREAM;
        sent.extend(frame(DATA, flags, 1, piece));
    }
    let mut stream = send(server, &sent);
    let mut frames = Vec::new();
    loop {
        let frame = read_frame(&mut stream);
        if frame.stream != 1 || !matches!(frame.kind, HEADERS | DATA) {
            continue;
        }
        let is_last = frame.flags & END_STREAM != 0;
        frames.push(frame);
        if is_last {
            return frames;
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame");
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn read_frame(stream: &mut UnixStream) -> Frame {
    let mut head = [0; 9];
    stream.read_exact(&mut head).expect("a frame");
    let [high, middle, low, kind, flags, at @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    stream.read_exact(&mut payload).expect("its payload");
    Frame {
        kind,
        flags,
        stream: u32::from_be_bytes(at),
    }
}

/// A service that sends these, and then nothing.
fn send_in_parts(path: &Path, parts: &'static [&'static str]) {
    let listener = UnixListener::bind(path).expect("listen");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                asked.push(byte[0]);
            }
            for part in parts {
                let _ = stream.write_all(part.as_bytes());
            }
            // It ends with its client.
            let _ = stream.read(&mut byte);
        }
    });
}

/// A filter that fails over the first part of an answer's body has its client told so, and the log, however head and body
/// come.
fn a_body_that_a_filter_fails_over_is_an_error() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    const TOGETHER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\npart\r\n";
    let ways: [&'static [&'static str]; 3] = [&[HEAD, "part"], &[TOGETHER], &[CHUNKED]];
    for (isolation, parts) in ["fresh", "kept"]
        .iter()
        .flat_map(|isolation| ways.map(|parts| (isolation, parts)))
    {
        let fixture = Fixture::new();
        let service = fixture.folder().join("service");
        send_in_parts(&service, parts);
        let log = fixture.folder().join("access.log");
        let settings = format!(
            "configuration = \"trap-in-body\"\nvm-configuration = \"trap-in-body\"\nisolation = \"{isolation}\""
        );
        let fixture = fixture
            .log_to(log.to_str().expect("Unicode"))
            .text(&format!(
                "[services.service]\nupstream = \"unix:{}\"",
                service.display()
            ))
            .filter("hostile", &served::filter(Filter::Hostile), &settings)
            .route("/", &["hostile"], "service");
        let server = fixture.serve();
        let answer = server.try_ask(&Request::new("GET", "/attack"));
        let answer = answer.unwrap_or_else(|| panic!("no answer: {parts:?}, {isolation}"));
        assert_eq!(answer.status, 500, "{parts:?}, {isolation}: {answer:?}");
        let lines = || fs::read_to_string(&log).unwrap_or_default();
        wait_until("a line", || lines().contains("/attack"));
        assert!(lines().contains("status=500"), "{}", lines());
    }
}
