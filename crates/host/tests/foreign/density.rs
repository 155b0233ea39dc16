//! More guests than are loaded with their configuration: each when it is first asked for, and for as long as there is room.

use crate::fixture::{Fixture, PATIENCE, Server};
use crate::raw_http::{Answer, Request, exchange};
use palisade_suite::guests::{Component, Filter};
use palisade_suite::served;
use serde_json::Value;
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::Barrier,
    thread,
    time::{Instant, SystemTime},
};

pub(crate) const CASES: &[(&str, fn())] = &[
    ("few-are-refused-with-their-configuration", few_are_refused),
    ("many-at-once-load-it-once", many_at_once_load_it_once),
    ("a-long-one-is-found-again", a_long_one_is_found_again),
    ("the-least-used-go", the_least_used_go),
    ("kept-instances-give-way", kept_instances_give_way),
    ("what-is-in-use-stays", what_is_in_use_stays),
    ("a-broken-one-is-told", a_broken_one_is_told),
    ("a-broken-filter-is-told", a_broken_filter_is_told),
    (
        "a-changed-module-is-served-after-a-reload",
        a_changed_module_is_served,
    ),
    ("filters-of-many-routes", filters_of_many_routes),
];

/// More than are loaded with their configuration.
pub(crate) const MANY: usize = 40;

/// So much of a component is loaded that three have room.
const THREE: &str = "[code]\nmappings = 6\n";

/// This guest under another name, which nobody has compiled before.
pub(crate) fn another(guest: &Path, number: usize) -> Vec<u8> {
    let mut bytes = fs::read(guest).expect("read the guest");
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a time").as_nanos();
    let text = format!("{number} {now} {}", std::process::id());
    // A custom section: its id, its length, its name and what it says.
    let payload = [&[1, b'n'], text.as_bytes()].concat();
    bytes.extend([0, payload.len() as u8]);
    bytes.extend(payload);
    bytes
}

/// Guests of this kind in files of their own.
fn others(fixture: &Fixture, guest: &Path) -> Vec<PathBuf> {
    let path = |number: usize| {
        let name = format!("{number}.wasm");
        fixture.put(&name, another(guest, number));
        fixture.folder().join(name)
    };
    (0..MANY).map(path).collect()
}

/// Components, each with a route of its number.
fn with_components(mut fixture: Fixture, guest: Component, settings: &str) -> Fixture {
    for (number, path) in others(&fixture, &served::component(guest))
        .iter()
        .enumerate()
    {
        let name = format!("c{number}");
        fixture =
            fixture
                .component(&name, path, settings)
                .route(&format!("/{number}/"), &[], &name);
    }
    fixture
}

fn status(server: &Server) -> Value {
    serde_json::from_str(&server.admin("/status")).expect("JSON")
}

fn code(server: &Server, key: &str) -> u64 {
    status(server)["code"][key].as_u64().expect("a figure")
}

/// Asks until it is so: what is told is done by threads of the server's own.
fn wait_until(server: &Server, is_so: impl Fn(&Server) -> bool) {
    let begin = Instant::now();
    while !is_so(server) {
        assert!(begin.elapsed() < PATIENCE, "{}", server.admin("/status"));
        thread::yield_now();
    }
}

pub(crate) fn reload(server: &Server) -> Answer {
    let answer = exchange(&server.places().admin, &Request::new("POST", "/reload"));
    answer.expect("an answer of the admin socket")
}

fn greets(server: &Server, number: usize) {
    let answer = server.get(&format!("/{number}/"));
    assert_eq!((answer.status, &*answer.text()), (200, "Hello, world!\n"));
}

fn few_are_refused() {
    let fixture = Fixture::new();
    fixture.put("broken.wasm", b"\0asm\x0d\0\x01\0\xff");
    let broken = fixture.folder().join("broken.wasm");
    let fixture = fixture.component("one", &broken, "").route("/", &[], "one");
    let refusal = fixture.refusal();
    assert!(refusal.contains("service one: guest: "), "{refusal}");
}

fn many_at_once_load_it_once() {
    const CLIENTS: usize = 16;
    let fixture = with_components(Fixture::new().workers(2).quiet(), Component::Hello, "");
    let server = fixture.serve();
    let (begin, socket) = (Barrier::new(CLIENTS), server.socket());
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                begin.wait();
                let answer = exchange(socket, &Request::new("GET", "/7/")).expect("an answer");
                assert_eq!((answer.status, &*answer.text()), (200, "Hello, world!\n"));
            });
        }
    });
    assert_eq!(code(&server, "loads"), 1);
    assert_eq!(code(&server, "modules"), 1);
    // The rest is compiled meanwhile, each once, and not loaded.
    wait_until(&server, |server| code(server, "compiling") == 0);
    assert_eq!(code(&server, "compiled"), MANY as u64);
    assert_eq!(code(&server, "loads"), 1);
    drop(server);
    // What the configuration names is found again.
    let server = fixture.serve();
    (0..MANY).for_each(|number| greets(&server, number));
    wait_until(&server, |server| code(server, "compiling") == 0);
    assert_eq!(code(&server, "compiled"), 0);
    assert_eq!(code(&server, "loads"), MANY as u64);
}

/// One that no worker reads has to be read first, to tell whether its code is in the cache.
fn a_long_one_is_found_again() {
    const LAST: usize = MANY - 1;
    let fixture = with_components(Fixture::new().quiet(), Component::Hello, "");
    let mut long = another(&served::component(Component::Hello), LAST);
    let payload = [&[1, b'l'][..], &vec![0; 2 << 20]].concat();
    // A custom section's length in LEB128, here always of four bytes.
    let length = [0, 7, 14, 21].map(|shift| (payload.len() >> shift) as u8 & 0x7f);
    let [one, two, three, four] = length;
    long.extend([0, one | 0x80, two | 0x80, three | 0x80, four]);
    long.extend(payload);
    fixture.put(&format!("{LAST}.wasm"), long);
    let server = fixture.serve();
    greets(&server, LAST);
    wait_until(&server, |server| code(server, "compiling") == 0);
    drop(server);
    let server = fixture.serve();
    greets(&server, LAST);
    wait_until(&server, |server| code(server, "compiling") == 0);
    assert_eq!(code(&server, "compiled"), 0);
}

fn the_least_used_go() {
    let fixture = Fixture::new().quiet().text(THREE);
    let fixture = with_components(fixture, Component::Hello, "");
    let server = fixture.serve();
    for _ in 0..2 {
        for number in 0..MANY {
            greets(&server, number);
            // Asked for again and again.
            greets(&server, 0);
        }
    }
    wait_until(&server, |server| code(server, "modules") <= 3);
    assert_eq!(code(&server, "most_mappings"), 6);
    assert!(code(&server, "evictions") >= (MANY - 3) as u64);
    let loads = code(&server, "loads");
    greets(&server, 0);
    assert_eq!(code(&server, "loads"), loads, "the most used one went");
}

/// Instances that wait for a request keep their code loaded, and are asked to go.
fn kept_instances_give_way() {
    let fixture = Fixture::new().quiet().text(THREE);
    let fixture = with_components(fixture, Component::Hello, "isolation = \"kept\"");
    let server = fixture.serve();
    (0..MANY).for_each(|number| greets(&server, number));
    // Each load is followed by a look at who could go.
    wait_until(&server, |server| {
        greets(server, 1);
        greets(server, 2);
        code(server, "modules") <= 4
    });
}

/// The code of a request under way is loaded as long as that takes.
fn what_is_in_use_stays() {
    let fixture = Fixture::new().quiet().text("[code]\nmappings = 3\n");
    let fixture = with_components(fixture, Component::Echo, "");
    let server = fixture.serve();
    let mut stream = UnixStream::connect(server.socket()).expect("connect");
    stream
        .write_all(
            b"POST /0/ HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nconnection: close\r\n\r\nab",
        )
        .expect("send");
    let mut seen = Vec::new();
    let mut piece = [0; 1024];
    // The guest has had its part, and waits for more.
    while !seen.ends_with(b"ab\r\n") {
        let length = stream.read(&mut piece).expect("read");
        assert!(length > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..length]);
    }
    for number in 1..MANY {
        let answer = server.ask(&Request::new("POST", &format!("/{number}/")).body("x"));
        assert_eq!((answer.status, &*answer.text()), (200, "x"));
    }
    wait_until(&server, |server| code(server, "modules") <= 2);
    assert!(code(&server, "evictions") > 0);
    stream.write_all(b"cd").expect("send");
    stream.read_to_end(&mut seen).expect("read");
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        seen.contains("cd\r\n") && seen.ends_with("0\r\n\r\n"),
        "{seen}"
    );
}

fn a_broken_one_is_told() {
    let fixture = with_components(Fixture::new(), Component::Hello, "");
    fixture.put("broken.wasm", b"\0asm\x0d\0\x01\0\xff");
    let broken = fixture.folder().join("broken.wasm");
    let fixture = fixture
        .component("broken", &broken, "")
        .route("/broken", &[], "broken");
    let mut server = fixture.serve();
    let answer = server.get("/broken");
    assert_eq!(
        (answer.status, &*answer.text()),
        (500, "the service failed\n")
    );
    greets(&server, 0);
    let status = status(&server);
    assert_eq!(status["code"]["broken"], 1);
    let guests = status["guests"].as_array().expect("guests");
    let guest = guests.iter().find(|guest| guest["name"] == "broken");
    let guest = guest.expect("the broken one");
    assert_eq!(guest["state"], "broken");
    let fault = guest["last_fault"]["message"].as_str().expect("a fault");
    assert!(fault.starts_with("guest: "), "{fault}");
    let line = server.wait_for_line("broken.wasm");
    assert!(line.contains("guest: "), "{line}");
    // What was mended is found by a reload.
    fixture.put(
        "broken.wasm",
        another(&served::component(Component::Hello), MANY),
    );
    assert_eq!(reload(&server).status, 200);
    let answer = server.get("/broken");
    assert_eq!((answer.status, &*answer.text()), (200, "Hello, world!\n"));
}

/// Requests do not go without it, unless its owner said so.
fn a_broken_filter_is_told() {
    let fixture = with_components(Fixture::new().quiet(), Component::Hello, "");
    fixture.put("broken.wasm", b"\0asm\x01\0\0\0\xff");
    let broken = fixture.folder().join("broken.wasm");
    let fixture = fixture
        .filter("closed", &broken, "")
        .filter("open", &broken, "on-failure = \"open\"")
        .route("/closed", &["closed"], "c0")
        .route("/open", &["open"], "c0");
    let server = fixture.serve();
    assert_eq!(server.get("/closed").status, 500);
    let answer = server.get("/open");
    assert_eq!((answer.status, &*answer.text()), (200, "Hello, world!\n"));
}

fn a_changed_module_is_served() {
    let fixture = with_components(Fixture::new().quiet(), Component::Hello, "");
    let server = fixture.serve();
    greets(&server, 0);
    let echo = served::component(Component::Echo);
    fixture.put("0.wasm", another(&echo, 0));
    // As long as nobody says so it is the one that was loaded.
    greets(&server, 0);
    assert_eq!(reload(&server).status, 200);
    let answer = server.ask(&Request::new("POST", "/0/").body("mine"));
    assert_eq!((answer.status, &*answer.text()), (200, "mine"));
    fixture.put("0.wasm", b"\0asm\x0d\0\x01\0\xff");
    // One new module: its failure is the reload's.
    let failed = reload(&server);
    assert!(
        failed.text().contains("service c0: guest: "),
        "{}",
        failed.text()
    );
    let answer = server.ask(&Request::new("POST", "/0/").body("mine"));
    assert_eq!((answer.status, &*answer.text()), (200, "mine"));
}

/// Each filter has an instance that is kept, and gives way to others.
fn filters_of_many_routes() {
    let mut fixture = Fixture::new()
        .quiet()
        .text(THREE)
        .backend("backend", |_| Answer::new(200, "unchanged"));
    let filter = served::filter(Filter::Headers);
    for (number, path) in others(&fixture, &filter).iter().enumerate() {
        let name = format!("f{number}");
        fixture =
            fixture
                .filter(&name, path, "")
                .route(&format!("/{number}/"), &[&name], "backend");
    }
    let server = fixture.serve();
    for _ in 0..2 {
        for number in 0..MANY {
            let answer = server.get(&format!("/{number}/"));
            assert_eq!(answer.status, 200);
            assert!(answer.value("x-filter").is_some(), "no filter saw it");
        }
    }
    wait_until(&server, |server| code(server, "modules") <= 4);
    assert!(code(&server, "evictions") >= (MANY - 4) as u64);
}
