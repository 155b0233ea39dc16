//! The guests of this repository do what their tables say: `guests/filters/README.md`, `guests/services/README.md`.

use crate::chain;
use crate::fixture::{Fixture, Server};
use crate::hostile;
use crate::raw_http::{Answer, Request, exchange};
use crate::readers;
use palisade_suite::guests::{Component, Filter};
use palisade_suite::served;
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::mpsc,
    thread,
};

/// A filter without a test does not compile.
pub(crate) fn filter_test(filter: Filter) -> fn() {
    match filter {
        Filter::Null => null_changes_nothing,
        Filter::Headers => headers_changes_both_directions,
        Filter::Body => body_masks_both_directions,
        Filter::Auth => auth_asks_first,
        Filter::Count => count_counts,
        Filter::Guard => readers::no_other_spelling_reaches_the_program,
        Filter::Heads => crate::heads::whatever_a_filter_does_is_the_same_with_a_body,
        Filter::Mono => mono_filters_pictures,
        Filter::Waits => a_trap_does_not_take_its_neighbours_along,
        Filter::Steps => chain::held_bodies_are_seen_by_answers,
        Filter::Spy => crate::neighbours::tenants_learn_nothing_of_each_other,
        Filter::Hostile => hostile::other_paths_are_unharmed,
    }
}

/// A component without a test does not compile.
pub(crate) fn component_test(component: Component) -> fn() {
    match component {
        Component::Hello => hello_greets,
        Component::Echo => echo_echoes_and_what_filters_make_of_it,
        Component::Faulty => faulty_costs_its_own_request,
        Component::Lies => hostile::lies_of_a_component_are_not_passed_on,
        Component::Spin => crate::tenants::a_loop_leaves_others_their_time,
        Component::Asks => crate::neighbours::tenants_learn_nothing_of_each_other,
        Component::Mono => mono_answers_pictures,
    }
}

fn tell_headers(request: &Request) -> Answer {
    let headers: String = request
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    Answer::new(200, headers).header("x-powered-by", "the backend")
}

fn null_changes_nothing() {
    let fixture = Fixture::new()
        .backend("teller", tell_headers)
        .filter("null", &served::filter(Filter::Null), "")
        .route("/plain", &[], "teller")
        .route("/", &["null"], "teller");
    let server = fixture.serve();
    let with = |path: &str| {
        let mut answer = server.ask(&Request::new("GET", path).header("x-mine", "value"));
        answer.headers.retain(|(name, _)| name != "date");
        answer
    };
    assert_eq!(with("/"), with("/plain"));
}

fn headers_changes_both_directions() {
    let fixture = Fixture::new()
        .backend("teller", tell_headers)
        .filter("headers", &served::filter(Filter::Headers), "")
        .route("/", &["headers"], "teller");
    let request = Request::new("GET", "/")
        .header("host", "example.org")
        .header("x-internal", "yes");
    let answer = fixture
        .serve()
        .ask(&request.header("x-forwarded-host", "forged"));
    assert_eq!(
        (answer.value("x-filter"), answer.value("x-powered-by")),
        (Some("palisade"), None)
    );
    let asked = &fixture.asked("teller")[0];
    assert_eq!(
        (asked.value("x-forwarded-host"), asked.value("x-internal")),
        (Some("example.org"), None)
    );
}

fn body_masks_both_directions() {
    let fixture = Fixture::new()
        .backend("echo", |request| {
            Answer::new(200, [&request.body[..], b" and secret"].concat())
        })
        .filter(
            "body",
            &served::filter(Filter::Body),
            "configuration = \"secret\"",
        )
        .route("/", &["body"], "echo");
    let answer = fixture
        .serve()
        .ask(&Request::new("POST", "/").body("a secretsecret word"));
    assert_eq!(fixture.asked("echo")[0].body, b"a ************ word");
    assert_eq!(answer.text(), "a ************ word and ******");
}

fn auth_asks_first() {
    let fixture = Fixture::new()
        .backend("teller", tell_headers)
        .backend("gate", |request| {
            let is_right = request.value("authorization") == Some("right");
            Answer::new(if is_right { 200 } else { 401 }, "")
        });
    let settings = fixture.grant("gate") + "\nconfiguration = \"gate\"";
    let fixture = fixture
        .filter("auth", &served::filter(Filter::Auth), &settings)
        .filter(
            "ungranted",
            &served::filter(Filter::Auth),
            "configuration = \"gate\"",
        )
        .route("/ungranted", &["ungranted"], "teller")
        .route("/", &["auth"], "teller");
    let server = fixture.serve();
    let ask =
        |path: &str, key: &str| server.ask(&Request::new("GET", path).header("authorization", key));
    let refused = ask("/", "wrong");
    assert_eq!(
        (refused.status, refused.text().as_str()),
        (403, "refused\n")
    );
    assert_eq!(ask("/ungranted", "right").status, 403);
    assert!(
        fixture.asked("teller").is_empty(),
        "a refused request passed"
    );
    assert_eq!(ask("/", "right").status, 200);
    assert_eq!(
        fixture.asked("gate").len(),
        2,
        "each request but the ungranted one is asked about once"
    );
}

/// Two requests have a stream in the instance in which a third one traps: one waits for its filter, one for the
/// service. Both go on in a new instance.
fn a_trap_does_not_take_its_neighbours_along() {
    let (gate_asked, is_gate_asked) = mpsc::channel();
    let (open_gate, gate_opens) = mpsc::channel::<()>();
    let (teller_asked, is_teller_asked) = mpsc::channel();
    let (let_tell, teller_may) = mpsc::channel::<()>();
    let fixture = Fixture::new()
        .backend("gate", move |_| {
            gate_asked.send(()).expect("the test waits");
            // The second time there is nobody to wait for.
            let _ = gate_opens.recv();
            Answer::new(200, "")
        })
        .backend("teller", move |request| {
            if request.path == "/slow" {
                teller_asked.send(()).expect("the test waits");
                let _ = teller_may.recv();
            }
            Answer::new(200, "told")
        });
    let settings = fixture.grant("gate") + "\nconfiguration = \"gate\"\nisolation = \"kept\"";
    let fixture = fixture
        .filter("waits", &served::filter(Filter::Waits), &settings)
        .route("/", &["waits"], "teller");
    let mut server = fixture.serve();
    let socket = server.socket();
    let get = |path| exchange(socket, &Request::new("GET", path)).expect("an answer");
    thread::scope(|scope| {
        let waits = scope.spawn(|| get("/wait"));
        is_gate_asked.recv().expect("the gate is asked");
        let is_slow = scope.spawn(|| get("/slow"));
        is_teller_asked.recv().expect("the service is asked");
        assert_eq!(get("/trap").status, 500);
        drop((open_gate, let_tell));
        for neighbour in [waits, is_slow] {
            let answer = neighbour.join().expect("an answer");
            assert_eq!((answer.status, answer.value("x-seen")), (200, Some("yes")));
        }
    });
    assert_eq!(
        fixture.asked("gate").len(),
        2,
        "asked again in the new instance"
    );
    server.wait_for_line("a trap in");
    assert_eq!(server.log().matches("a trap in").count(), 1);
}

fn count_counts() {
    let fixture = Fixture::new()
        .backend("teller", tell_headers)
        .filter(
            "kept",
            &served::filter(Filter::Count),
            "isolation = \"kept\"",
        )
        .filter(
            "fresh",
            &served::filter(Filter::Count),
            "isolation = \"fresh\"",
        )
        .route("/kept", &["kept"], "teller")
        .route("/fresh", &["fresh"], "teller");
    let mut server = fixture.serve();
    for number in ["1", "2", "3"] {
        let kept = server.get("/kept/path");
        assert_eq!(
            (kept.value("x-shared"), kept.value("x-kept")),
            (Some(number), Some(number))
        );
        let fresh = server.get("/fresh");
        assert_eq!(
            (fresh.value("x-shared"), fresh.value("x-kept")),
            (Some(number), Some("1"))
        );
    }
    server.wait_for_line("/kept/path");
    let figures = server.admin("/metrics");
    let counted = figures
        .lines()
        .filter(|line| line.contains("requests_counted") && line.ends_with(" 3"));
    assert_eq!(counted.count(), 2, "{figures}");
}

/// One request holds the only instance. Those that come meanwhile wait, or are told to come again.
pub(crate) fn a_fresh_filter_has_so_many_instances() {
    let (asked, is_asked) = mpsc::channel();
    let (let_tell, may_tell) = mpsc::channel::<()>();
    let null = served::filter(Filter::Null);
    let fixture = Fixture::new()
        .backend("slow", move |_| {
            asked.send(()).expect("the test waits");
            // The second time there is nobody to wait for.
            let _ = may_tell.recv();
            Answer::new(200, "told")
        })
        .filter("hasty", &null, "instances = 1\nwait-time = \"20ms\"")
        .filter("patient", &null, "instances = 1\nwait-time = \"1h\"")
        .route("/hasty", &["hasty"], "slow")
        .route("/", &["patient", "hasty"], "slow");
    let mut server = fixture.serve();
    let socket = server.socket();
    let get = |path| exchange(socket, &Request::new("GET", path)).expect("an answer");
    thread::scope(|scope| {
        let holds = scope.spawn(|| get("/"));
        is_asked.recv().expect("the service is asked");
        for _ in 0..3 {
            let busy = get("/hasty");
            assert_eq!((busy.status, busy.value("retry-after")), (503, Some("1")));
        }
        let waits = scope.spawn(|| get("/"));
        drop(let_tell);
        for answer in [holds, waits] {
            assert_eq!(answer.join().expect("an answer").text(), "told");
        }
    });
    let told = server.wait_for_line("raise `instances`");
    assert!(told.contains("hasty"), "{told}");
    assert_eq!(server.log().matches("raise `instances`").count(), 1);
    assert_eq!(get_figure(&server, "palisade_faults_total", "hasty"), 0);
    assert_eq!(get_figure(&server, "palisade_errors_total", "hasty"), 3);
}

/// A client that goes on slowly holds the only instance of one component, and none of another's; a reload makes no
/// other.
pub(crate) fn a_component_has_so_many_instances() {
    let settings = "instances = 1\nwait-time = \"20ms\"";
    let fixture = Fixture::new()
        .component("echo", &served::component(Component::Echo), settings)
        .component("hello", &served::component(Component::Hello), settings)
        .route("/hello", &[], "hello")
        .route("/", &[], "echo");
    let mut server = fixture.serve();
    let mut slow = UnixStream::connect(server.socket()).expect("connect");
    let head =
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\nconnection: close\r\n\r\n";
    slow.write_all(format!("{head}begun").as_bytes())
        .expect("send");
    let mut answer = String::new();
    while !answer.contains("begun") {
        let mut bytes = [0; 1024];
        let count = slow.read(&mut bytes).expect("read");
        assert!(count > 0, "{answer}");
        answer += &String::from_utf8_lossy(&bytes[..count]);
    }
    for _ in 0..3 {
        let busy = server.get("/");
        assert_eq!((busy.status, busy.value("retry-after")), (503, Some("1")));
        assert_eq!(server.get("/hello").status, 200);
        let reloaded = exchange(&server.places().admin, &Request::new("POST", "/reload"));
        assert_eq!(reloaded.expect("an answer").status, 200);
    }
    slow.write_all(b" end").expect("send");
    slow.read_to_string(&mut answer).expect("read to the end");
    assert!(answer.contains(" end"), "{answer}");
    assert_eq!(server.ask(&Request::new("POST", "/").body("x")).text(), "x");
    server.wait_for_line("raise `instances`");
    assert_eq!(server.log().matches("raise `instances`").count(), 1);
    assert_eq!(get_figure(&server, "palisade_faults_total", "echo"), 0);
    assert_eq!(get_figure(&server, "palisade_errors_total", "echo"), 3);
}

/// The guest has its time up while it waits for the rest of what it echoes.
pub(crate) fn a_client_that_stalls_is_to_blame_for_its_answer() {
    let settings = "policy.limits.time = \"300ms\"";
    let fixture = Fixture::new()
        .component("echo", &served::component(Component::Echo), settings)
        .route("/", &[], "echo");
    let mut server = fixture.serve();
    let mut slow = UnixStream::connect(server.socket()).expect("connect");
    slow.write_all(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nbegun")
        .expect("send");
    let mut answer = Vec::new();
    // However the connection ends.
    let _ = slow.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains("begun"), "{answer}");
    server.wait_for_line("client: it took most of limits.time");
    assert_eq!(get_figure(&server, "palisade_errors_total", "echo"), 0);
    let metrics = server.admin("/metrics");
    let is_it = |line: &str| {
        line.starts_with("palisade_route_broken_off_total") && line.ends_with("by=\"client\"} 1")
    };
    assert!(metrics.lines().any(is_it), "{metrics}");
}

/// A guest's figure, as Prometheus is told it.
pub(crate) fn get_figure(server: &Server, name: &str, guest: &str) -> u64 {
    let metrics = server.admin("/metrics");
    let is_it = |line: &&str| line.starts_with(name) && line.contains(&format!("\"{guest}\""));
    let line = metrics
        .lines()
        .find(is_it)
        .unwrap_or_else(|| panic!("{metrics}"));
    let (_, value) = line.rsplit_once(' ').expect("a value");
    value.parse().expect("a number")
}

/// A colour picture, and the grey one that it becomes.
fn pictures() -> (Vec<u8>, Vec<u8>) {
    let colours = (0..90_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect::<Vec<_>>();
    let grey = colours.chunks(3).map(|colour| {
        let [red, green, blue] = [colour[0], colour[1], colour[2]].map(u32::from);
        ((77 * red + 150 * green + 29 * blue) >> 8) as u8
    });
    let mono = [b"P5\n200 150\n255\n".to_vec(), grey.collect()].concat();
    ([b"P6\n200 150\n255\n", &colours[..]].concat(), mono)
}

fn mono_filters_pictures() {
    let (colour, mono) = pictures();
    let fixture = Fixture::new()
        .backend("pictures", move |request| match request.path.as_str() {
            "/picture" => Answer::new(200, colour.clone()),
            _ => Answer::new(200, "no picture"),
        })
        .filter("mono", &served::filter(Filter::Mono), "")
        .route("/", &["mono"], "pictures");
    let server = fixture.serve();
    assert!(server.get("/picture").body == mono, "it is another picture");
    assert_eq!(server.get("/text").text(), "no picture");
}

fn hello_greets() {
    let hello = served::component(Component::Hello);
    let fixture = Fixture::new()
        .component("hello", &hello, "")
        .route("/", &[], "hello");
    let answer = fixture.serve().get("/");
    assert_eq!(
        (answer.text().as_str(), answer.value("content-type")),
        ("Hello, world!\n", Some("text/plain"))
    );
}

fn echo_echoes_and_what_filters_make_of_it() {
    let echo = served::component(Component::Echo);
    let fixture = Fixture::new()
        .component("echo", &echo, "")
        .component("kept", &echo, "isolation = \"kept\"")
        .filter(
            "body",
            &served::filter(Filter::Body),
            "configuration = \"secret\"",
        )
        .route("/masked", &["body"], "echo")
        .route("/kept", &["body"], "kept")
        .route("/", &[], "echo");
    let server = fixture.serve();
    for path in ["/masked", "/kept"] {
        for _ in 0..3 {
            let text = "a secret. ".repeat(20_000);
            let answer = server.ask(&Request::new("POST", path).body(text));
            assert_eq!(answer.status, 200);
            assert!(answer.text() == "a ******. ".repeat(20_000), "{path}");
            let nothing = server.ask(&Request::new("POST", path));
            assert_eq!((nothing.status, nothing.text().as_str()), (200, ""));
        }
    }
    let (colour, _) = pictures();
    for body in [Vec::new(), b"x".to_vec(), colour.repeat(20)] {
        assert!(
            server
                .ask(&Request::new("POST", "/").body(body.clone()))
                .body
                == body,
            "it is another body"
        );
    }
}

fn faulty_costs_its_own_request() {
    let faulty = served::component(Component::Faulty);
    let fixture = Fixture::new()
        .component("fresh", &faulty, "")
        .component("kept", &faulty, "isolation = \"kept\"")
        .route("/kept", &[], "kept")
        .route("/", &[], "fresh");
    let server = fixture.serve();
    for path in ["/fresh", "/kept"] {
        for _ in 0..3 {
            let trapped = server.ask(&Request::new("POST", path).body("x"));
            assert_eq!(trapped.status, 500);
            let answer = server.get(path);
            assert_eq!(
                (answer.status, answer.text().as_str()),
                (200, "Nothing was sent.\n")
            );
        }
    }
}

fn mono_answers_pictures() {
    let component = served::component(Component::Mono);
    let fixture = Fixture::new()
        .component("mono", &component, "")
        .route("/", &[], "mono");
    let server = fixture.serve();
    let (colour, mono) = pictures();
    assert!(
        server.ask(&Request::new("POST", "/").body(colour)).body == mono,
        "it is another picture"
    );
    assert_eq!(
        server
            .ask(&Request::new("POST", "/").body("no picture"))
            .body,
        b""
    );
}
