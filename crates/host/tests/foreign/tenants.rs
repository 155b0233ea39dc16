//! Tenants whose guests have the same names: nothing of one's is another one's, nor lost when another one changes.

use crate::{
    backend::Backend,
    density::{MANY, another},
    fixture::{Fixture, Server},
    raw_http::{Answer, Request, exchange},
};
use palisade_suite::{
    guests::{Component, Filter},
    served,
};
use rustix::process::{Pid, Signal};
use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

pub(crate) const CASES: &[(&str, fn())] = &[
    ("filters-share-nothing", filters_share_nothing),
    ("guests-reach-nothing-outside", guests_reach_nothing_outside),
    ("broken-code-is-its-tenants", broken_code_is_its_tenants),
    ("code-on-demand-lies-inside", code_on_demand_lies_inside),
    ("slow-filters-are-asked-aside", slow_filters_are_asked_aside),
    (
        "what-would-hold-up-others-is-ended",
        what_would_hold_up_others_is_ended,
    ),
];

/// A server whose own filter is called as those of its tenants are, and shares what it has by the same name.
fn fixture() -> Fixture {
    let shared = "isolation = \"kept\"\nvm-id = \"shared\"";
    let mut fixture = Fixture::new()
        .backend("teller", |_| Answer::new(200, "the main file's"))
        .backend("gate", |_| Answer::new(200, ""))
        .filter("count", &served::filter(Filter::Count), shared)
        .route("/", &["count"], "teller")
        .text("[tenants]\nhosts = [\"{tenant}.test\"]\nfolder = \"tenants/{tenant}\"\nmay = [\"connect\"]\n");
    fs::create_dir(fixture.folder().join("tenants.d")).expect("make a folder");
    fixture.edit(
        "workers = 1\n",
        "workers = 1\ninclude = [\"tenants.d/*.toml\"]\n",
    );
    fixture
}

/// A tenant's folder, with a page and these files of the suite's.
fn folder_of(fixture: &Fixture, tenant: &str, guests: &[(&str, &Path)]) {
    let folder = fixture.folder().join("tenants").join(tenant);
    fs::create_dir_all(folder.join("site")).expect("make folders");
    fs::write(folder.join("site/index.html"), tenant).expect("write a page");
    for (name, from) in guests {
        fs::copy(from, folder.join(name)).expect("copy a guest");
    }
}

fn write_file(fixture: &Fixture, tenant: &str, text: &str) {
    fixture.put(&format!("tenants.d/{tenant}.toml"), text);
}

const COUNT: &str = "[filters.count]\nmodule = \"count.wasm\"\nisolation = \"kept\"\nvm-id = \"shared\"\n\
    [services.site]\nfiles = \"site\"\n[[route]]\nfilters = [\"count\"]\nservice = \"site\"\n";

/// What all filters of its `vm-id` have counted, and what this instance has.
fn counted(server: &Server, host: &str) -> (String, String) {
    let answer = server.ask(&Request::new("GET", "/").header("host", host));
    assert_eq!(answer.status, 200, "{host}: {}", answer.text());
    let value = |name| answer.value(name).unwrap_or_default().to_owned();
    (value("x-shared"), value("x-kept"))
}

fn both(number: &str) -> (String, String) {
    (number.into(), number.into())
}

fn filters_share_nothing() {
    let fixture = fixture();
    let count = served::filter(Filter::Count);
    let auth = served::filter(Filter::Auth);
    for tenant in ["a", "b"] {
        folder_of(&fixture, tenant, &[("count.wasm", &count)]);
        write_file(&fixture, tenant, COUNT);
    }
    // It names the main file's servers, one of which would let everybody pass.
    folder_of(&fixture, "caller", &[("auth.wasm", &auth)]);
    write_file(
        &fixture,
        "caller",
        "[filters.auth]\nmodule = \"auth.wasm\"\nconfiguration = \"gate\"\n\
         policy.grants.connect = [\"tcp://gate.test:80\"]\n[services.site]\nfiles = \"site\"\n\
         [[route]]\nfilters = [\"auth\"]\nservice = \"site\"\n",
    );
    let mut server = fixture.serve();
    for number in ["1", "2"] {
        assert_eq!(counted(&server, "a.test"), both(number));
    }
    assert_eq!(counted(&server, "b.test"), both("1"));
    assert_eq!(counted(&server, "elsewhere"), both("1"));
    let refused = server.ask(&Request::new("GET", "/").header("host", "caller.test"));
    assert_eq!(refused.status, 403, "{}", refused.text());
    assert!(
        fixture.asked("gate").is_empty(),
        "another file's server was asked"
    );
    let figures = server.admin("/metrics");
    for name in ["\"a/count\"", "\"b/count\"", "\"count\""] {
        assert!(figures.contains(name), "{name}: {figures}");
    }

    // Another filter for b: its own begins anew, and a's goes on.
    write_file(&fixture, "b", &COUNT.replace("\"shared\"", "\"other\""));
    server.wait_for_line("generation=2");
    assert_eq!(counted(&server, "b.test"), both("1"));
    assert_eq!(counted(&server, "a.test"), both("3"));
    assert_eq!(counted(&server, "elsewhere"), both("2"));

    // One that goes takes what it shared along, and nothing of the others'.
    fs::remove_file(fixture.folder().join("tenants.d/a.toml")).expect("remove a file");
    server.wait_for_line("generation=3");
    write_file(&fixture, "a", COUNT);
    server.wait_for_line("generation=4");
    assert_eq!(counted(&server, "a.test"), both("1"));
    assert_eq!(counted(&server, "b.test"), both("2"));
}

fn guests_reach_nothing_outside() {
    let fixture = fixture();
    let hello = served::component(Component::Hello);
    let count = served::filter(Filter::Count);
    let service = |keys: &str| {
        format!(
            "[services.hello]\ncomponent = \"hello.wasm\"\n{keys}\n[[route]]\nservice = \"hello\"\n"
        )
    };
    for (tenant, file) in [
        ("fine", service("policy.grants.read = [\"data\"]")),
        ("granted", service("policy.grants.read = [\"link\"]")),
        ("behind", service("policy.grants.write = [\"link/run\"]")),
        ("code", service("").replace("hello.wasm", "link/hello.wasm")),
        ("module", COUNT.replace("count.wasm", "link/count.wasm")),
        (
            "socket",
            "[services.up]\nupstream = \"unix:link/up\"\n[[route]]\nservice = \"up\"\n".into(),
        ),
        ("writer", service("policy.grants.write = [\".\"]")),
    ] {
        folder_of(&fixture, tenant, &[("hello.wasm", &hello)]);
        let folder = fixture.folder().join("tenants").join(tenant);
        fs::create_dir(folder.join("data")).expect("make a folder");
        symlink("../../outside", folder.join("link")).expect("make a link");
        write_file(&fixture, tenant, &file);
    }
    let outside = fixture.folder().join("outside");
    fs::create_dir_all(outside.join("run")).expect("make folders");
    fs::copy(&hello, outside.join("hello.wasm")).expect("copy a guest");
    fs::copy(&count, outside.join("count.wasm")).expect("copy a guest");
    let _up = Backend::start(&outside.join("up"), |_| Answer::new(200, "outside"));
    let server = fixture.serve();
    let status: serde_json::Value = serde_json::from_str(&server.admin("/status")).expect("JSON");
    let broken = status["broken_tenants"].as_array().expect("a list");
    let names: Vec<_> = broken
        .iter()
        .map(|broken| broken["tenant"].as_str())
        .collect();
    let all = ["behind", "code", "granted", "module", "socket", "writer"];
    assert_eq!(names, all.map(Some), "{broken:#?}");
    let ask = |tenant: &str| {
        let host = format!("{tenant}.test");
        server
            .ask(&Request::new("GET", "/").header("host", &host))
            .status
    };
    assert_eq!(ask("fine"), 200);
    for tenant in all {
        assert_eq!(ask(tenant), 503, "{tenant}");
    }
}

fn status_of(server: &Server, tenant: &str, path: &str) -> u16 {
    let host = format!("{tenant}.test");
    server
        .ask(&Request::new("GET", path).header("host", &host))
        .status
}

const HELLO: &str =
    "[services.hello]\ncomponent = \"code/hello.wasm\"\n[[route]]\nservice = \"hello\"\n";

/// A tenant whose component lies in a folder of its own.
fn with_hello(fixture: &Fixture, tenant: &str, component: &[u8]) {
    folder_of(fixture, tenant, &[]);
    let folder = fixture.folder().join("tenants").join(tenant).join("code");
    fs::create_dir(&folder).expect("make a folder");
    fs::write(folder.join("hello.wasm"), component).expect("write a component");
    write_file(fixture, tenant, HELLO);
}

/// Few are loaded with their configuration: one that cannot be is its tenant's matter alone, and what served goes on.
fn broken_code_is_its_tenants() {
    const BROKEN: &[u8] = b"\0asm\x0d\0\x01\0\xff";
    let fixture = fixture();
    let hello = fs::read(served::component(Component::Hello)).expect("read the guest");
    for (tenant, component) in [("a", &*hello), ("b", BROKEN), ("c", &hello)] {
        with_hello(&fixture, tenant, component);
    }
    let mut server = fixture.serve();
    let broken = |server: &Server| {
        let status: serde_json::Value =
            serde_json::from_str(&server.admin("/status")).expect("JSON");
        let broken = status["broken_tenants"].as_array().expect("a list").clone();
        let told = broken.iter().map(|one| {
            let message = one["message"].as_str().expect("why");
            assert!(message.contains("/hello: guest: "), "{message}");
            let tenant = one["tenant"].as_str().expect("whose").to_owned();
            (tenant, one["serves_on"].as_bool().expect("whether"))
        });
        told.collect::<Vec<_>>()
    };
    assert_eq!(broken(&server), [("b".into(), false)]);
    for (tenant, status) in [("a", 200), ("b", 503), ("c", 200)] {
        assert_eq!(status_of(&server, tenant, "/"), status, "{tenant}");
    }
    fixture.put("tenants/c/code/hello.wasm", BROKEN);
    server.wait_for_line("generation=2");
    assert_eq!(broken(&server), [("b".into(), false), ("c".into(), true)]);
    for tenant in ["a", "c"] {
        assert_eq!(status_of(&server, tenant, "/"), 200, "{tenant}");
    }
}

/// What is opened for a request, long after its file was looked at, lies below the tenant's folder all the same.
fn code_on_demand_lies_inside() {
    let fixture = fixture();
    let hello = served::component(Component::Hello);
    folder_of(&fixture, "many", &[]);
    let mut text = String::new();
    for number in 0..MANY {
        fixture.put(
            &format!("tenants/many/{number}.wasm"),
            another(&hello, number),
        );
        text += &format!(
            "[services.c{number}]\ncomponent = \"{number}.wasm\"\n\
             [[route]]\npath = \"/{number}\"\nservice = \"c{number}\"\n"
        );
    }
    write_file(&fixture, "many", &text);
    // Behind all the others when nobody asks.
    for (tenant, number) in [("turned", MANY), ("upright", MANY + 1)] {
        with_hello(&fixture, tenant, &another(&hello, number));
    }
    let server = fixture.serve();
    let folder = fixture.folder().join("tenants/turned/code");
    let outside = fixture.folder().join("outside");
    fs::rename(&folder, &outside).expect("move a folder");
    symlink("../../outside", &folder).expect("make a link");
    assert_eq!(status_of(&server, "turned", "/"), 500);
    assert_eq!(status_of(&server, "upright", "/"), 200);
    assert_eq!(status_of(&server, "many", "/3"), 200);
}

/// How long most of a tenant's requests take, nine in ten of them.
fn usual_time(server: &Server, tenant: &str) -> Duration {
    let mut times: Vec<_> = (0..100)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(status_of(server, tenant, "/"), 200);
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[90]
}

/// Requests of one tenant that compute for ever have a worker between those of another one, a few ms each, and not before them.
pub(crate) fn a_loop_leaves_others_their_time() {
    const LOOPS: usize = 6;
    // Each request waits for two or three looks at sockets, a tick apart. Before there were turns, for 61 pieces of 4 ms.
    const MOST: Duration = Duration::from_millis(40);
    let fixture = fixture();
    with_hello(
        &fixture,
        "quick",
        &fs::read(served::component(Component::Hello)).expect("read the guest"),
    );
    with_hello(
        &fixture,
        "loops",
        &fs::read(served::component(Component::Spin)).expect("read the guest"),
    );
    let mut server = fixture.serve();
    let alone = usual_time(&server, "quick");
    let socket = server.socket().to_owned();
    let socket = &*socket;
    thread::scope(|scope| {
        for _ in 0..LOOPS {
            scope.spawn(move || {
                let request = Request::new("GET", "/").header("host", "loops.test");
                // It ends with the server.
                let _ = exchange(socket, &request);
            });
        }
        while !server
            .admin("/metrics")
            .contains("palisade_requests_total{kind=\"service\",guest=\"loops/hello\"} 6")
        {
            thread::yield_now();
        }
        let beside = usual_time(&server, "quick");
        println!("alone {alone:?}, beside {LOOPS} loops {beside:?}");
        server.kill();
        assert!(beside < alone + MOST, "alone {alone:?}, beside {beside:?}");
    });
}

/// The scheduling class of the server's thread of this name (the 41st field of proc_pid_stat(5)), if there is one.
fn class_of_thread(server: &Server, name: &str) -> Option<u32> {
    let threads = fs::read_dir(format!("/proc/{}/task", server.process())).expect("threads");
    let stats =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("stat")).ok());
    let stat = stats
        .into_iter()
        .find(|stat| stat.contains(&format!("({name})")))?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(38)?.parse().ok()
}

/// A tenant with a page, and the folder of one with a filter that can take long.
fn quick_and_slow() -> Fixture {
    let fixture = fixture();
    folder_of(&fixture, "quick", &[]);
    write_file(
        &fixture,
        "quick",
        "[services.site]\nfiles = \"site\"\n[[route]]\nservice = \"site\"\n",
    );
    folder_of(
        &fixture,
        "slow",
        &[("hostile.wasm", &served::filter(Filter::Hostile))],
    );
    fixture
}

/// Answers so many requests together, once all of them are there.
fn answer_at_once(listener: &UnixListener, requests: usize) {
    let streams = listener.incoming().take(requests).map(|stream| {
        let mut stream = stream.expect("a request");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a whole head");
            head.extend(byte);
        }
        stream
    });
    for mut stream in streams.collect::<Vec<_>>() {
        // Who asked for it may be gone.
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nup");
    }
}

/// Requests that a tenant's filters have met before it was known to be slow, and whose answers all come at once: what they
/// would take of the worker is bounded.
pub(crate) fn what_would_hold_up_others_is_ended() {
    const REQUESTS: usize = 48;
    // A callback takes 20 ms and more; all of them would take a second.
    const MOST: Duration = Duration::from_millis(700);
    let fixture = quick_and_slow();
    let up = UnixListener::bind(fixture.folder().join("tenants/slow/up")).expect("listen");
    write_file(
        &fixture,
        "slow",
        "[filters.hostile]\nmodule = \"hostile.wasm\"\nconfiguration = \"dawdle-in-answer\"\nisolation = \"kept\"\n\
         slow-share = 1\n[services.up]\nupstream = \"unix:up\"\n[[route]]\nfilters = [\"hostile\"]\nservice = \"up\"\n",
    );
    let mut server = fixture.serve();
    let socket = server.socket().to_owned();
    let (answered, longest) = thread::scope(|scope| {
        scope.spawn(|| answer_at_once(&up, REQUESTS));
        let ask = || {
            let request = Request::new("GET", "/").header("host", "slow.test");
            exchange(&socket, &request).map(|answer| answer.status)
        };
        let asked: Vec<_> = (0..REQUESTS).map(|_| scope.spawn(ask)).collect();
        let mut longest = Duration::ZERO;
        while !asked.iter().all(thread::ScopedJoinHandle::is_finished) {
            let began = Instant::now();
            assert_eq!(status_of(&server, "quick", "/"), 200);
            longest = longest.max(began.elapsed());
        }
        let answers = asked
            .into_iter()
            .map(|asked| asked.join().expect("an answer"));
        let answered = answers.filter(|answer| matches!(answer, Ok(200))).count();
        (answered, longest)
    });
    println!("{answered} of {REQUESTS} answered; a neighbour waited for {longest:?}");
    assert!(
        (1..REQUESTS).contains(&answered),
        "{answered}: {}",
        server.log()
    );
    assert!(longest < MOST, "{longest:?}");
    server.wait_for_line("too much of the worker's time");
}

/// Where others leave no processor to the thread aside, a callback's time is up by the clock, or its share used up: then it is asked again.
fn ask_until_it_has_time(server: &mut Server, request: &Request) -> Answer {
    let began = Instant::now();
    loop {
        let answer = server.ask(request);
        match answer.status {
            200 => return answer,
            500 | 503 if began.elapsed() < Duration::from_secs(60) => {}
            status => panic!("{status}: {}", server.log()),
        }
    }
}

/// Callbacks that take long hold up a thread on which nobody else waits. Requests are answered there as on a worker, bodies of both
/// directions whole, and a reload reaches it.
pub(crate) fn slow_filters_are_asked_aside() {
    const CLIENTS: usize = 4;
    const SCHED_IDLE: u32 = 5;
    // A callback takes 50 ms and more. On the worker one of them would stand before most requests.
    const MOST: Duration = Duration::from_millis(40);
    let fixture = quick_and_slow();
    let folder = fixture.folder().join("tenants/slow");
    let echo = Backend::start(&folder.join("up"), |request| {
        Answer::new(200, [&*request.body, &*request.body].concat())
    });
    let file = "[filters.hostile]\nmodule = \"hostile.wasm\"\nconfiguration = \"dawdle\"\nisolation = \"kept\"\nslow-share = 50\n\
        [services.up]\nupstream = \"unix:up\"\n[[route]]\nfilters = [\"hostile\"]\nservice = \"up\"\n";
    write_file(&fixture, "slow", file);
    let mut server = fixture.serve();
    let alone = usual_time(&server, "quick");
    let body = vec![b'a'; 300_000];
    let post = Request::new("POST", "/attack")
        .header("host", "slow.test")
        .body(body.clone());
    let began = Instant::now();
    while class_of_thread(&server, "aside").is_none() {
        server.ask(&post);
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{}",
            server.log()
        );
    }
    assert_eq!(class_of_thread(&server, "aside"), Some(SCHED_IDLE));
    let answer = ask_until_it_has_time(&mut server, &post);
    assert_eq!(answer.body.len(), 600_000);
    assert!(echo.asked().iter().all(|request| request.body == body));
    let is_over = AtomicBool::new(false);
    let socket = server.socket().to_owned();
    let beside = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let request = Request::new("GET", "/attack").header("host", "slow.test");
                    exchange(&socket, &request).expect("an answer");
                }
            });
        }
        let beside = usual_time(&server, "quick");
        is_over.store(true, Ordering::Relaxed);
        beside
    });
    println!("alone {alone:?}, beside slow callbacks {beside:?}");
    assert!(beside < alone + MOST, "alone {alone:?}, beside {beside:?}");
    // The tenant is slow still, and has another file.
    write_file(
        &fixture,
        "slow",
        &format!("{file}[[route]]\npath = \"/gone\"\nservice = \"up\"\n"),
    );
    assert_eq!(crate::density::reload(&server).status, 200);
    ask_until_it_has_time(&mut server, &post);
    // It ends in time, with that thread.
    let process = Pid::from_raw(server.process() as i32).expect("a process");
    rustix::process::kill_process(process, Signal::TERM).expect("end it");
    let began = Instant::now();
    while server.is_alive() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{}",
            server.log()
        );
        thread::sleep(Duration::from_millis(5));
    }
}
