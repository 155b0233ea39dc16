//! What a filter tries on its server costs its own request at most: `guests/filters/hostile.c`.
//!
//! After each attack others are answered, on the same way and beside it; no byte that the filter made up is on the
//! wire, nobody was asked whom it may not ask, and the server is not much larger than before.
//!
//! Where attacks on the server stand, by who attacks:
//!
//! | who | what is tried | where |
//! |---|---|---|
//! | client | requests of two meanings, smuggling, paths of two readings, repeated fields | `tests/host/edge/smuggling.rs`, `readers.rs`, `src/path/`, `suites.rs` (h2spec) |
//! | client | slow heads, bodies and readers; descriptors; floods of connections, streams, resets and PINGs | `tests/host/edge/{limits,http2,accept,abandoned}.rs`, `suites.rs` (slowhttptest) |
//! | client | memory that stays when it has gone | [`memory_of_clients_comes_back`] |
//! | client | another tenant's certificate, host or session | `tests/host/edge/tls.rs` |
//! | client | lines and fields of the log that it makes up | `src/log/tests.rs` |
//! | filter | each of `guests/filters/hostile.def`: faults, memory, time, framing, calls, logs, shared data | [`attack_ends_well`] |
//! | filter | time below its limit, again and again | [`slow_callbacks_have_a_share`], [`slow_timers_have_a_share`] |
//! | filter | names that lead to this machine | [`a_name_leads_to_no_own_service`], `src/filters/reach/tests.rs` |
//! | component | lies about its answer | [`lies_of_a_component_are_not_passed_on`] |
//! | component | loops, memory, output, requests that are not granted, names that turn | `crates/service/tests/service`, `crates/service/src/outgoing.rs` |
//! | program | answers that are no HTTP or have no end, children, logs, its socket | `tests/host/program/attacks.rs` |
//! | program | more of the network than its socket or port | `tests/host/program/{direct,own_port}.rs` |
//! | program | paths of the server's that it can write to | `crates/cli/tests/cli/serve.rs`, `tests/host/access.rs` |
//! | upstream | no HTTP, heads without end, half answers, other protocols, certificates | `tests/host/upstream.rs`, `tests/host/upstream/tls.rs` |
//! | name server | forged, damaged, circular and boundless answers | `crates/network/src/names/dns/tests.rs` |

use crate::fixture::{Fixture, Server};
use crate::raw_http::{Answer, Client, Request, exchange};
use palisade_suite::guests::{Component, Filter, FilterAttack};
use palisade_suite::served;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::net::UnixStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// What the request gets that attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// An error of the server's: the filter faulted.
    Fault,
    /// The service's answer: what was tried came to nothing.
    Nothing,
    /// What the filter says, as far as it may say it.
    Answered,
    /// An answer of the server's, or of the service's: the server may see an error in it, or nothing.
    FaultOrNothing,
    /// The service's, but the filter's end, after the answer, is a fault.
    LateFault,
    /// It is not loaded, and what serves goes on serving.
    Start,
}

/// How each attack ends. One without a line does not compile.
const fn end(attack: FilterAttack) -> End {
    use FilterAttack as A;
    match attack {
        A::Trap | A::Loop | A::Recursion | A::TrapInAnswer => End::Fault,
        A::AllocateAndLoop | A::PauseForever | A::TrapInBody => End::Fault,
        A::MemoryHog
        | A::MemoryCreep
        | A::HeaderStorm
        | A::HeaderGiant
        | A::HeaderNewline
        | A::HeaderNames
        | A::HopByHop
        | A::LieOfLength
        | A::TrailerStorm
        | A::PairsLie
        | A::PairsCutOff
        | A::BodyBomb
        | A::BodyOutOfRange
        | A::CallStorm
        | A::CallNonsense
        | A::CallSmuggle
        | A::CallItself
        | A::LogFlood
        | A::DataFlood
        | A::DataStorm
        | A::TickFlap
        | A::QueueFlood
        | A::MetricFlood
        | A::PropertyFlood
        | A::PropertyPaths
        | A::Pointers
        | A::ActionNonsense
        | A::CloseStorm
        | A::AnswerLate
        | A::AnswerNonsense
        | A::AnswerSplit
        | A::AllocateNothing
        | A::AllocateOutside
        | A::AllocateOverItself
        | A::AllocateAndCall
        | A::Dawdle
        | A::DawdleInAnswer => End::FaultOrNothing,
        A::CallAnywhere
        | A::LogEscape
        | A::QueueGuess
        | A::PropertyOverride
        | A::Contexts
        | A::ContinueStorm
        | A::DawdleInTick
        | A::TickStorm
        | A::TrapInTick => End::Nothing,
        A::AnswerTwice => End::Answered,
        A::TrapInLog | A::TrapInDelete | A::LoopInLog => End::LateFault,
        A::TrapInStart | A::LoopInStart | A::RefuseStart | A::RefuseConfiguration => End::Start,
    }
}

const SECRET: &str = "nobody granted this";
/// What a client sends that attacks, and what some attacks put in place of it and of the answer.
const SENT: &str = "sent";
const SMUGGLED: &str = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";

fn fixture(attack: &str, isolation: &str) -> Fixture {
    let fixture = Fixture::new()
        .answer_time("1s")
        .backend("teller", |_| {
            Answer::new(200, "told").header("x-from", "the service")
        })
        .backend("granted", |_| Answer::new(200, "called"))
        .backend("secret", |_| Answer::new(200, SECRET));
    let itself = fixture.folder().join("socket");
    let settings = format!(
        "policy = {{ grants = {{ connect = [\"unix:{}\", \"unix:{}\"] }}, limits = {{ time = \"200ms\", memory = \"32M\" }} }}\n\
         configuration = \"{attack}\"\nvm-configuration = \"{attack}\"\nisolation = \"{isolation}\"",
        fixture.path_of("granted").display(),
        itself.display()
    );
    fixture
        .text(&format!(
            "[services.itself]\nupstream = \"unix:{}\"\n",
            itself.display()
        ))
        .filter("hostile", &served::filter(Filter::Hostile), &settings)
        .route("/beside", &[], "teller")
        .route("/", &["hostile"], "teller")
}

/// The attack, in an instance of its own for each request, and in one that is kept.
pub(crate) fn attack_ends_well(attack: FilterAttack) {
    for isolation in ["fresh", "kept"] {
        if end(attack) == End::Start {
            is_not_loaded(attack, isolation);
            continue;
        }
        let fixture = fixture(attack.name(), isolation);
        let mut server = fixture.serve();
        assert_eq!(server.get("/beside").status, 200);
        let before = resident_kib(&server);
        for _ in 0..3 {
            attack_once(attack, &server);
        }
        look_around(attack, &fixture, &mut server);
        let after = resident_kib(&server);
        assert!(
            after < before + 128 * 1024,
            "{isolation}: it grew from {before} KiB to {after} KiB"
        );
    }
}

/// A filter that does not start, or does not take its configuration, is refused before anybody's request meets it: with
/// a new server, and by one that serves.
fn is_not_loaded(attack: FilterAttack, isolation: &str) {
    let refusal = fixture(attack.name(), isolation).refusal();
    let says_why = |text: &str| {
        text.contains("filter hostile: guest: ") && text.contains("correct its configuration")
    };
    assert!(says_why(&refusal), "{refusal}");
    let harmless = FilterAttack::Contexts.name();
    let mut fixture = fixture(harmless, isolation);
    let server = fixture.serve();
    fixture.edit(
        &format!("\"{harmless}\""),
        &format!("\"{}\"", attack.name()),
    );
    let answer = exchange(&server.places().admin, &Request::new("POST", "/reload")).unwrap();
    assert_eq!(answer.status, 422, "{answer:?}");
    assert!(says_why(&answer.text()), "{answer:?}");
    assert_eq!(server.get("/other").text(), "told");
}

/// A name of this machine's own in its table of hosts, beside `localhost`.
pub(crate) fn own_name() -> Option<String> {
    let table = std::fs::read_to_string("/etc/hosts").ok()?;
    let own = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let is_own = words.next()? == "127.0.0.1";
        let name = words.find(|name| *name != "localhost").filter(|_| is_own);
        name.map(str::to_owned)
    };
    table.lines().find_map(own)
}

/// A service at the loopback's, and what comes of a filter that calls it by this name.
fn call_own_service(name: &str, more: &str) -> (u16, usize, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("an address").port();
    let came = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&came);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            count.fetch_add(1, Ordering::SeqCst);
            let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.find(String::is_empty);
            let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let settings = format!(
        "policy = {{ grants = {{ connect = [\"tcp://{name}:{port}\"{more}] }} }}\nconfiguration = \"asked\""
    );
    let fixture = Fixture::new()
        .text(&format!(
            "[services.asked]\nupstream = \"http://{name}:{port}\"\n"
        ))
        .backend("teller", |_| Answer::new(200, "told"))
        .filter("auth", &served::filter(Filter::Auth), &settings)
        .route("/", &["auth"], "teller");
    let server = fixture.serve();
    let answer = server.ask(&Request::new("GET", "/").header("authorization", "secret"));
    let metrics = server.admin("/metrics");
    (answer.status, came.load(Ordering::SeqCst), metrics)
}

/// A name that is granted leads to no service of this machine's, unless the address is granted too.
pub(crate) fn a_name_leads_to_no_own_service() {
    let name = own_name().expect("the trial is ignored without one");
    let denials = "palisade_denials_total{kind=\"filter\",guest=\"auth\"} 1";
    let (status, came, metrics) = call_own_service(&name, "");
    assert_eq!((status, came), (403, 0));
    assert!(metrics.contains(denials), "{metrics}");
    for granted in [", \"tcp://127.0.0.0/8:*\"", ", \"tcp://127.0.0.1:*\""] {
        let (status, came, _) = call_own_service(&name, granted);
        assert_eq!((status, came), (200, 1), "{granted}");
    }
    for written in ["127.0.0.1", "localhost"] {
        let (status, came, _) = call_own_service(written, "");
        assert_eq!((status, came), (200, 1), "{written}");
    }
}

fn attack_once(attack: FilterAttack, server: &Server) {
    let begin = Instant::now();
    let answer = server.try_ask(&Request::new("POST", "/attack").body(SENT));
    assert!(
        begin.elapsed() < Duration::from_secs(30),
        "it held its request for {:?}",
        begin.elapsed()
    );
    let status = answer.as_ref().map(|answer| answer.status);
    let is_service = answer
        .as_ref()
        .is_some_and(|answer| answer.text() == "told");
    let is_fault = status.is_none_or(|status| status >= 500);
    let is_right = match end(attack) {
        End::Fault => is_fault && (attack != FilterAttack::TrapInBody || status == Some(500)),
        End::Nothing | End::LateFault => is_service,
        End::Start => unreachable!("it is not loaded"),
        End::Answered => answer
            .as_ref()
            .is_some_and(|answer| answer.text() == "answered by the filter\n"),
        End::FaultOrNothing => is_fault || is_service || status.is_some_and(|status| status < 500),
    };
    assert!(is_right, "{:?}: {answer:?}", end(attack));
    if let Some(answer) = answer {
        assert_eq!(answer.value("x-injected"), None, "it split the answer");
        assert!(
            !answer.text().contains("<html>") && !answer.text().contains(SECRET),
            "{answer:?}"
        );
        assert_framed(&answer.headers, &answer.body);
        let is_upgrade = answer.value("upgrade").is_some() || answer.status == 101;
        assert!(!is_upgrade, "{answer:?}");
    }
}

/// The server, and nobody else, says where a message ends and what its connection is for.
fn assert_framed(fields: &[(String, String)], body: &[u8]) {
    let values = |name: &str| -> Vec<&str> {
        let found = fields.iter().filter(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str()).collect()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() + codings.len() <= 1, "{fields:?}");
    assert!(
        lengths
            .iter()
            .all(|length| *length == body.len().to_string())
            && codings.iter().all(|coding| *coding == "chunked"),
        "{fields:?}"
    );
    let connection = values("connection");
    assert!(
        connection
            .iter()
            .all(|value| ["close", "keep-alive"].contains(value)),
        "{fields:?}"
    );
    let trailers: Vec<_> = fields
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("trailer ")?, value)))
        .collect();
    let bytes: usize = trailers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert!(bytes <= 64 << 10, "{bytes} bytes of trailers");
    let of_heads = [
        "content-length",
        "transfer-encoding",
        "host",
        ":path",
        "authorization",
        "x-injected",
    ];
    let found = trailers.iter().find(|(name, _)| of_heads.contains(name));
    assert_eq!(found, None, "a trailer says what a head alone may say");
}

/// A filter that calls itself has every instance there is, and other filters none, until the first of its calls has
/// waited as long as it may.
fn wait_for_its_end(server: &Server) {
    let begin = Instant::now();
    while server.get("/other").status != 200 {
        assert!(
            begin.elapsed() < Duration::from_secs(20),
            "it goes on calling itself"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn look_around(attack: FilterAttack, fixture: &Fixture, server: &mut Server) {
    if attack == FilterAttack::CallItself {
        assert_eq!(server.get("/beside").text(), "told", "no filter is asked");
        wait_for_its_end(server);
    }
    let other = server.get("/other");
    assert_eq!(
        (other.status, other.text().as_str()),
        (200, "told"),
        "{}",
        server.log()
    );
    assert_eq!(server.get("/beside").text(), "told");
    assert!(server.is_alive());
    assert!(
        fixture.asked("secret").is_empty(),
        "it reached whom it may not"
    );
    for request in fixture
        .asked("teller")
        .iter()
        .chain(&fixture.asked("granted"))
    {
        // Its own request is its to change.
        let of_another = if request.path == "/attack" {
            ""
        } else {
            "x-from-another"
        };
        let strange = [
            "x-injected",
            of_another,
            ":pseudo",
            "",
            "upgrade",
            "keep-alive",
            "te",
            "proxy-connection",
        ];
        let found = strange.iter().find(|name| request.value(name).is_some());
        assert_eq!(found, None, "{request:?}");
        assert!(
            request.path.starts_with('/')
                && !request.path.contains(char::is_control)
                && !request.path.contains("smuggled"),
            "{request:?}"
        );
        assert_framed(&request.headers, &request.body);
    }
    let log = server.log();
    assert!(
        !log.lines().any(|line| line.starts_with('{')),
        "a forged line:\n{log}"
    );
    assert!(
        !log.contains('\u{1b}'),
        "a terminal would obey this:\n{log}"
    );
    assert!(
        log.len() < 64 << 20,
        "it wrote {} bytes to the log",
        log.len()
    );
}

/// Two workers at once: what filters share is no place to wait for one another for long, and the server's own lengths
/// hold on a connection that is kept.
pub(crate) fn neighbours_go_on_during_attacks() {
    for attack in [FilterAttack::DataStorm, FilterAttack::LieOfLength] {
        let fixture = fixture(attack.name(), "fresh").workers(2);
        let server = fixture.serve();
        let socket = server.socket();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let mut client = Client::connect_unix(socket).expect("a connection");
                    for _ in 0..3 {
                        let asked = Request::new("POST", "/attack").body(SENT);
                        let answer = client.ask(&asked).expect("an answer");
                        let texts = [
                            "told".to_owned(),
                            SMUGGLED.to_owned(),
                            format!("told{SMUGGLED}"),
                        ];
                        let is_right = answer.status == 500 || texts.contains(&answer.text());
                        assert!(is_right, "{answer:?}");
                        // An error that comes before the body was read ends the connection.
                        if answer.status == 500 || answer.closes() {
                            client = Client::connect_unix(socket).expect("a connection");
                        }
                        let beside = client.ask(&Request::new("GET", "/beside"));
                        assert_eq!(beside.expect("an answer").text(), "told");
                    }
                });
            }
        });
        for request in fixture.asked("teller") {
            assert!(
                ["/attack", "/beside"].contains(&request.path.as_str()),
                "{request:?}"
            );
            assert_framed(&request.headers, &request.body);
        }
    }
}

/// A filter that is slow, and may be: a machine that does much else makes it slower still.
fn dawdling(attack: FilterAttack, isolation: &str, share: u32) -> Fixture {
    let mut fixture = fixture(attack.name(), isolation);
    fixture.edit("time = \"200ms\"", "time = \"10s\"");
    let isolation = format!("isolation = \"{isolation}\"");
    fixture.edit(&isolation, &format!("{isolation}\nslow-share = {share}"));
    fixture
}

/// A filter whose every callback takes nearly all the time that it may has its share of the worker, and no more.
pub(crate) fn slow_callbacks_have_a_share() {
    const ASKED: usize = 60;
    for isolation in ["fresh", "kept"] {
        let fixture = dawdling(FilterAttack::Dawdle, isolation, 1);
        let mut server = fixture.serve();
        let statuses: Vec<_> = (0..ASKED).map(|_| server.get("/attack").status).collect();
        let refused = statuses.iter().filter(|status| **status == 503).count();
        assert!(refused > 0, "{isolation}: it is never too much");
        assert!(
            // Over one of them it runs out: the body of that one's answer waits.
            statuses
                .iter()
                .all(|status| [200, 503, 504].contains(status)),
            "{isolation}: {statuses:?}"
        );
        assert!(statuses[..4].iter().all(|status| *status != 503));
        assert_eq!(server.get("/beside").text(), "told");
        let log = server.log();
        assert!(log.contains("slow-share"), "{isolation}: {log}");
        let begin = Instant::now();
        while server.get("/other").status != 200 {
            assert!(
                begin.elapsed() < Duration::from_secs(100),
                "it rests for ever"
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The same of what it does unasked: 90 ms every time that 1 ms is over.
pub(crate) fn slow_timers_have_a_share() {
    let fixture = dawdling(FilterAttack::DawdleInTick, "kept", 1);
    let server = fixture.serve();
    assert_eq!(server.get("/other").text(), "told");
    let cpu_seconds = || {
        let metrics = server.admin("/metrics");
        let of_filter = "palisade_cpu_seconds_total{kind=\"filter\",guest=\"hostile\"} ";
        let value = metrics
            .lines()
            .find_map(|line| line.strip_prefix(of_filter));
        value
            .and_then(|value| value.parse::<f64>().ok())
            .expect("its time")
    };
    // A second of it is free; what it waits for a processor is not its own.
    let begin = Instant::now();
    loop {
        let (before, window) = (cpu_seconds(), Instant::now());
        while window.elapsed() < Duration::from_secs(1) {
            assert_eq!(server.get("/beside").text(), "told");
        }
        if cpu_seconds() - before < 0.4 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "it goes on");
    }
}

/// An answer that is not as its fields say breaks off, or is an error; nobody finds another one behind it.
pub(crate) fn lies_of_a_component_are_not_passed_on() {
    let fixture = Fixture::new()
        .backend("teller", |_| Answer::new(200, "told"))
        .component("lies", &served::component(Component::Lies), "")
        .route("/beside", &[], "teller")
        .route("/", &[], "lies");
    let server = fixture.serve();
    for sent in ["", "x"] {
        let text = exchange_bytes(server.socket(), sent);
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
        let lines: Vec<_> = head.split("\r\n").skip(1).collect();
        let fields: Vec<_> = lines
            .iter()
            .filter_map(|line| line.split_once(": "))
            .collect();
        assert_eq!(fields.len(), lines.len(), "{head}");
        let values = |name: &str| -> Vec<&str> {
            let found = fields
                .iter()
                .filter(|(field, _)| field.eq_ignore_ascii_case(name));
            found.map(|(_, value)| *value).collect()
        };
        for name in [
            "upgrade",
            "keep-alive",
            "proxy-connection",
            "x-injected",
            "transfer-encoding",
        ] {
            assert_eq!(values(name), [""; 0], "{name}: {head}");
        }
        assert_eq!(values("connection"), ["close"], "{head}");
        let length: usize = values("content-length")[..]
            .try_into()
            .map(|[length]: [&str; 1]| length.parse().expect("a length"))
            .expect("one length");
        assert!(body.len() <= length, "more than was announced: {text}");
        assert!(!head.starts_with("HTTP/1.1 101"), "{head}");
        assert_eq!(server.get("/beside").text(), "told");
    }
}

/// All that comes.
fn exchange_bytes(socket: &Path, sent: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    let bytes = sent.len();
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close";
    let asked = format!("{head}\r\ncontent-length: {bytes}\r\n\r\n{sent}");
    stream.write_all(asked.as_bytes()).expect("ask");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// What the whole server has in memory.
pub(crate) fn resident_kib(server: &Server) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.process())).expect("its status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number")
}

/// Clients that held connections, and some that read nothing of their answers: once they are gone, so is what they took.
pub(crate) fn memory_of_clients_comes_back() {
    const IDLE: usize = 1500;
    const SLOW: usize = 300;
    let fixture = Fixture::new()
        .text("[services.site]\nfiles = \"site\"\n")
        .route("/", &[], "site");
    std::fs::create_dir(fixture.folder().join("site")).expect("make a folder");
    fixture.put("site/big", vec![b'x'; 8 << 20]);
    fixture.put("site/index.html", "small");
    let server = fixture.serve();
    assert_eq!(server.get("/").text(), "small");
    let before = resident_kib(&server);
    let idle: Vec<_> = (0..IDLE)
        .map(|_| {
            let mut client = Client::connect_unix(server.socket()).expect("a connection");
            let answer = client.ask(&Request::new("GET", "/")).expect("an answer");
            assert_eq!(answer.text(), "small");
            client
        })
        .collect();
    let slow: Vec<_> = (0..SLOW)
        .map(|_| {
            let mut stream = UnixStream::connect(server.socket()).expect("a connection");
            let asked = b"GET /big HTTP/1.1\r\nhost: localhost\r\n\r\n";
            stream.write_all(asked).expect("ask");
            let mut begun = [0; 1];
            stream
                .read_exact(&mut begun)
                .expect("an answer that begins");
            stream
        })
        .collect();
    let most = resident_kib(&server);
    assert!(
        most > before + 24 * 1024,
        "{before} KiB, {most} KiB: it proves nothing"
    );
    // One of them stays.
    let mut others = idle;
    let mut one = others.pop().expect("a client");
    drop((others, slow));
    let begin = Instant::now();
    while resident_kib(&server) > before + 12 * 1024 {
        let now = resident_kib(&server);
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "{before} KiB at first, {most} KiB, and {now} KiB after all have gone"
        );
        thread::sleep(Duration::from_millis(100));
    }
    let answer = one.ask(&Request::new("GET", "/")).expect("an answer");
    assert_eq!(answer.text(), "small");
}

/// Requests that do not attack.
pub(crate) fn other_paths_are_unharmed() {
    let fixture = fixture("trap", "kept");
    let server = fixture.serve();
    for _ in 0..10 {
        assert_eq!(server.get("/other").text(), "told");
    }
}

/// With `on-failure = "open"` requests pass a filter that fails, and with a spent budget it is left alone.
pub(crate) fn open_failure_lets_requests_pass() {
    let settings = "configuration = \"trap\"\non-failure = \"open\"\nfaults = { most = 3, within = \"1m\", rest = \"1m\" }";
    let fixture = Fixture::new()
        .backend("teller", |_| Answer::new(200, "told"))
        .filter("hostile", &served::filter(Filter::Hostile), settings)
        .route("/", &["hostile"], "teller");
    let mut server = fixture.serve();
    for _ in 0..8 {
        assert_eq!(server.get("/attack").text(), "told");
    }
    server.wait_for_line("out of use");
    assert_eq!(server.get("/attack").text(), "told");
}
