//! `palisade serve` and the verbs that ask a running server.

use super::{
    cleanup::eventually,
    fixture::{Fixture, Outcome, cases, signal, wait},
    schema::violations,
};
use palisade_wall::journal::schema;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Child,
};

cases![
    a_first_server_serves_at_once,
    a_first_server_writes_nothing_over,
    a_bad_file_is_shown_with_its_line,
    a_file_can_be_checked,
    a_guest_that_could_change_the_server_is_refused,
    a_guest_that_could_lead_the_server_elsewhere_is_refused,
    what_is_the_servers_own_is_not_served,
    a_folder_that_takes_the_place_of_another_is_checked,
    nobody_to_ask_is_told,
    a_reload_that_fails_says_why,
    a_missing_folder_is_told_by_its_key,
    a_program_is_listed_by_its_name,
    the_lines_of_a_guest_are_printed,
    what_happens_to_a_program_is_told,
];

/// A server, its address, and what it said since.
struct Server {
    process: Child,
    address: String,
    stderr: BufReader<std::process::ChildStderr>,
}

/// Starts a server and waits until it says that it serves.
fn serve(fixture: &Fixture, words: &[&str]) -> Server {
    let words = ["serve"].iter().chain(words).copied();
    let mut process = fixture.palisade(words).spawn();
    let stderr = BufReader::new(process.stderr.take().unwrap());
    let mut server = Server {
        process,
        address: String::new(),
        stderr,
    };
    let mut said = String::new();
    while server.address.is_empty() {
        let before = said.len();
        let count = server.stderr.read_line(&mut said).unwrap();
        assert!(count > 0, "it ended: {said}");
        if let Some((_, rest)) = said[before..].split_once(" at http://") {
            server.address = rest.split([' ', ',']).next().unwrap().into();
        }
    }
    server
}

impl Server {
    /// Head and body of what it answers.
    fn get(&self, path: &str) -> (String, String) {
        get(&self.address, path)
    }

    /// Ends it; gives its exit code and what it said since.
    fn end(mut self) -> (i32, String) {
        signal(&self.process, Signal::TERM);
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (wait(&mut self.process).code().unwrap_or(-1), said)
    }
}

fn get(address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.into())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The port is taken by whoever comes first: a case takes any.
fn any_port(fixture: &Fixture, name: &str) {
    let text = fixture.read(name).replace("127.0.0.1:8080", "127.0.0.1:0");
    fs::write(fixture.path(name), text).unwrap();
}

fn a_first_server_serves_at_once(fixture: &Fixture) {
    let written = fixture.palisade(["serve", "--init", "first"]).run();
    written.is_silent(0);
    assert!(
        written.text().contains("palisade serve first/host.toml"),
        "{written:?}"
    );
    any_port(fixture, "first/host.toml");
    let server = serve(fixture, &["--workers", "1", "first/host.toml"]);
    for (path, wanted) in [
        ("/", "<title>It works</title>"),
        ("/hello/you?a=b", "/hello/you?a=b\n"),
    ] {
        let (head, body) = server.get(path);
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(
            head.contains("\r\nx-content-type-options: nosniff"),
            "the filter: {head}"
        );
        assert!(body.contains(wanted), "{path}: {body}");
    }
    let status = fixture.palisade(["status", "first/host.toml"]).run();
    status.is_silent(0);
    for line in ["headers", "hello", "site"] {
        let rows = status.text();
        let row = rows
            .lines()
            .find(|row| row.starts_with(line))
            .unwrap_or_else(|| panic!("{rows}"));
        assert!(row.contains(" ready "), "{row}");
    }
    fixture
        .palisade(["reload", "first/host.toml"])
        .run()
        .prints("generation 2 serves\n");
    let json = fixture
        .palisade(["status", "--json", "first/host.toml"])
        .run();
    let json: Value = serde_json::from_slice(&json.is_silent(0).stdout).unwrap();
    assert_eq!(
        (&json["generation"], &json["requests"]),
        (&2.into(), &2.into())
    );
    let admin = format!("unix:{}", fixture.text("first/admin.sock"));
    fixture
        .palisade(["reload", "--admin", &admin])
        .run()
        .prints("generation 3 serves\n");
    let (code, said) = server.end();
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("\"path\":\"/hello/you\""), "the log: {said}");
    assert!(!fixture.exists("first/admin.sock"));
}

fn a_first_server_writes_nothing_over(fixture: &Fixture) {
    fixture.write("mine/site/index.html", "mine");
    fixture
        .palisade(["serve", "--init", "mine"])
        .run()
        .refuses(&["mine/site/index.html is there already"]);
    assert_eq!(fixture.read("mine/site/index.html"), "mine");
    assert!(!fixture.exists("mine/host.toml"));
}

fn a_bad_file_is_shown_with_its_line(fixture: &Fixture) {
    fixture.write(
        "host.toml",
        "workers = 2\n\n[[listn]]\naddress = '127.0.0.1:0'\n",
    );
    let outcome = fixture.palisade(["serve"]).run();
    outcome.says(125, &["policy: ", "unknown key `listn`"]);
    for part in ["host.toml:3:3", "did you mean `listen`?"] {
        assert!(outcome.stderr.contains(part), "{outcome:?}");
    }
    fixture
        .palisade(["serve", "nothing.toml"])
        .run()
        .refuses(&["nothing.toml", "No such file"]);
    fixture
        .palisade(["serve", "--workers", "none"])
        .run()
        .refuses(&["--workers", "is not a valid count"]);
}

fn a_file_can_be_checked(fixture: &Fixture) {
    fixture
        .palisade(["serve", "--init", "first"])
        .run()
        .is_silent(0);
    let checked = fixture
        .palisade(["serve", "--check", "first/host.toml"])
        .run();
    checked.says(0, &["configuration is valid"]);
    fixture.write("first/services/hello.wasm", "this is no component");
    fixture
        .palisade(["serve", "--check", "first/host.toml"])
        .run()
        .refuses(&["hello"]);
}

fn nobody_to_ask_is_told(fixture: &Fixture) {
    fixture
        .palisade(["serve", "--init", "first"])
        .run()
        .is_silent(0);
    for verb in ["reload", "status"] {
        fixture
            .palisade([verb, "first/host.toml"])
            .run()
            .refuses(&["host: cannot reach the server", "admin.sock"]);
        fixture.palisade([verb]).run().refuses(&["host.toml"]);
        fixture
            .palisade([verb, "--admin", "here"])
            .run()
            .refuses(&["usage: --admin"]);
    }
    fixture.write("host.toml", "workers = 1\n");
    fixture
        .palisade(["reload"])
        .run()
        .refuses(&["has no `admin`", "SIGHUP"]);
}

fn a_reload_that_fails_says_why(fixture: &Fixture) {
    fixture
        .palisade(["serve", "--init", "first"])
        .run()
        .is_silent(0);
    any_port(fixture, "first/host.toml");
    let server = serve(fixture, &["--no-watch", "first/host.toml"]);
    let good = fixture.read("first/host.toml");
    fixture.write("first/filters/headers.wasm", "\0asm and then nothing");
    let outcome = fixture.palisade(["reload", "first/host.toml"]).run();
    outcome.is(1);
    for words in ["filter headers", "generation 1 serves on"] {
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    fs::write(fixture.path("first/host.toml"), good + "\n[[route]]\n").unwrap();
    let outcome = fixture.palisade(["reload", "first/host.toml"]).run();
    outcome.is(1);
    assert!(
        outcome.stderr.contains("this [[route]] has no `service`"),
        "{outcome:?}"
    );
    let (head, _) = server.get("/hello/x");
    assert!(
        head.starts_with("http/1.1 200"),
        "the old one serves: {head}"
    );
    // A file that nobody can read any more says where its server is.
    let broken = fixture.read("first/host.toml") + "\n[[route\n";
    fs::write(fixture.path("first/host.toml"), broken).unwrap();
    let outcome = fixture.palisade(["reload", "first/host.toml"]).run();
    outcome.is(1);
    assert!(outcome.stderr.contains("not valid TOML"), "{outcome:?}");
    let status = fixture.palisade(["status", "first/host.toml"]).run();
    status.is_silent(0);
    assert!(status.text().contains("not valid TOML"), "{status:?}");
}

fn a_missing_folder_is_told_by_its_key(fixture: &Fixture) {
    fixture.write(
        "host.toml",
        "[[listen]]\naddress = '127.0.0.1:0'\n[services.site]\nfiles = 'none'\n[[route]]\nservice = 'site'\n",
    );
    let outcome = fixture.palisade(["serve", "--check"]).run();
    outcome.says(125, &["service site: ", "name one in `files`"]);
}

/// It would choose its own policy at the next reload, or code that runs in the server.
fn a_guest_that_could_change_the_server_is_refused(fixture: &Fixture) {
    fixture.make_folder("work");
    fixture.make_folder("cache");
    let config = |folder: &str| {
        format!(
            "[[listen]]\naddress = '127.0.0.1:0'\n\
             [[route]]\nservice = 'shop'\n\
             [services.shop]\nprogram = ['/bin/true']\npolicy.grants.write = ['{folder}']\n"
        )
    };
    let check = |folder: &str| {
        fixture.write("host/host.toml", &config(folder));
        let words = ["serve", "--check", "host/host.toml"];
        let call = fixture.palisade(words);
        call.env("XDG_CACHE_HOME", &fixture.text("cache")).run()
    };
    let allowed = check(&fixture.text("work"));
    allowed.is(0);
    for folder in ["host", "host/host.toml", "cache"] {
        let refused = check(&fixture.text(folder));
        assert!(!refused.status.success(), "{refused:?}");
        let words = ["service shop: policy: it could change", "outside the wall"];
        assert!(
            words.iter().all(|word| refused.stderr.contains(word)),
            "{refused:?}"
        );
    }
    // What is started the next time.
    let beside = fixture.program().parent().unwrap().to_owned();
    for path in [
        beside.clone(),
        beside.join("palisade-host"),
        beside.join("palisade"),
    ] {
        let refused = check(path.to_str().unwrap());
        assert!(refused.stderr.contains("could change"), "{refused:?}");
    }
    // By a link to it, which is the same folder.
    std::os::unix::fs::symlink(fixture.text("host"), fixture.path("link")).unwrap();
    let refused = check(&fixture.text("link"));
    assert!(refused.stderr.contains("could change"), "{refused:?}");
}

/// Keys and logs would be answers.
fn what_is_the_servers_own_is_not_served(fixture: &Fixture) {
    fixture.make_folder("host/site");
    std::os::unix::fs::symlink(".", fixture.path("host/here")).unwrap();
    let check = |lines: &str, root: &str| {
        let config = format!(
            "{lines}\n[[listen]]\naddress = '127.0.0.1:0'\n[[route]]\nservice = 'site'\n\
             [services.site]\nfiles = '{root}'\n"
        );
        fixture.write("host/host.toml", &config);
        fixture
            .palisade(["serve", "--check", "host/host.toml"])
            .run()
    };
    for root in [".", "here", "here/here"] {
        let words = [
            "service site: policy: the folder",
            "host.toml",
            "the server's own",
        ];
        check("", root).refuses(&words);
    }
    check("[log]\npath = 'site/log'", "site").refuses(&["site/log", "the server's own"]);
    check("[log]\npath = 'log'", "site").is(0);
}

/// What may be served is asked again when a folder's path leads elsewhere, and not only of the configuration.
fn a_folder_that_takes_the_place_of_another_is_checked(fixture: &Fixture) {
    for (folder, content) in [("v1", "one"), ("v2", "two"), ("host", "keys and all")] {
        fixture.make_folder(folder);
        fixture.write(&format!("{folder}/page"), content);
    }
    let lead_to = |folder: &str| {
        let link = fixture.path("next");
        std::os::unix::fs::symlink(folder, &link).unwrap();
        fs::rename(link, fixture.path("current")).unwrap();
    };
    lead_to("v1");
    fixture.write(
        "host/host.toml",
        "[[listen]]\naddress = '127.0.0.1:0'\n[[route]]\nservice = 'site'\n\
         [services.site]\nfiles = '../current'\n",
    );
    let mut server = serve(fixture, &["--no-watch", "host/host.toml"]);
    assert_eq!(server.get("/page").1, "one");
    lead_to("host");
    // It is asked for until the server has seen that.
    let mut said = String::new();
    let asking = server.address.clone();
    let (is_over, over) = std::sync::mpsc::channel::<()>();
    let asker = std::thread::spawn(move || {
        while over.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            assert_eq!(get(&asking, "/page").1, "one");
        }
    });
    while !said.contains("the folders stay as they were") {
        assert!(server.stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    drop(is_over);
    asker.join().unwrap();
    assert!(
        said.contains("host.toml in it, which is the server's own"),
        "{said}"
    );
    lead_to("v2");
    while server.get("/page").1 != "two" {}
    assert_eq!(server.end().0, 0);
}

/// Whether a file with these lines is served where a program may write to `data`.
fn check_beside_writer(fixture: &Fixture, lines: &str) -> Outcome {
    let config = format!(
        "{lines}\n[[listen]]\naddress = '127.0.0.1:0'\n\
         [[route]]\nservice = 'shop'\n\
         [services.shop]\nprogram = ['/bin/true']\npolicy.grants.write = ['../data']\n"
    );
    fixture.write("host/host.toml", &config);
    let words = ["serve", "--check", "host/host.toml"];
    fixture
        .palisade(words)
        .env("XDG_CACHE_HOME", &fixture.text("cache"))
        .run()
}

/// It would have the server serve, read, write, connect to or listen at something else.
fn a_guest_that_could_lead_the_server_elsewhere_is_refused(fixture: &Fixture) {
    for folder in ["host", "cache", "data/public", "outside"] {
        fixture.make_folder(folder);
    }
    fixture.write("data/file", "");
    std::os::unix::fs::symlink("../data/public", fixture.path("outside/link")).unwrap();
    let files = |root: &str| {
        format!("[services.site]\nfiles = '{root}'\n[[route]]\npath = '/s'\nservice = 'site'")
    };
    let other = |grants: &str| {
        format!(
            "[services.site]\nprogram = ['/bin/true']\n[services.site.policy.grants]\n{grants}\n[[route]]\npath = '/s'\nservice = 'site'"
        )
    };
    let refused = [
        (files("../data/public"), "the server"),
        (files("../outside/link"), "the server"),
        (other("read = ['../data/public']"), "service site"),
        (other("read = ['../data/file']"), "service site"),
        (other("write = ['../data/public']"), "service site"),
    ];
    for (lines, user) in refused {
        let outcome = check_beside_writer(fixture, &lines);
        let user = format!("{user} uses outside the wall");
        outcome.refuses(&["service shop: policy: it could put", &user]);
    }
    let of_server = [
        "admin = 'unix:../data/admin'".to_owned(),
        "[log]\npath = '../data/log'".to_owned(),
        "[[listen]]\naddress = 'unix:../data/socket'".to_owned(),
        "[services.site]\nupstream = 'unix:../data/socket'\n[[route]]\npath = '/s'\nservice = 'site'".to_owned(),
        other("").replace("[services.site.policy", "log = '../data/log'\n[services.site.policy"),
    ];
    for lines in of_server {
        let outcome = check_beside_writer(fixture, &lines);
        outcome.refuses(&["service shop: policy: it could change", "outside the wall"]);
    }
    // What is granted itself is a mount, which keeps its name.
    for lines in [
        files("../data"),
        files("../outside"),
        other("read = ['../data']"),
        other("write = ['../data']"),
    ] {
        check_beside_writer(fixture, &lines).is(0);
    }
}

/// A server around a program with a name that no other case has.
fn serve_program(fixture: &Fixture, name: &str) -> Server {
    let configuration = format!(
        "[[listen]]\naddress = '127.0.0.1:0'\n\
         [services.{name}]\n\
         program = ['/usr/bin/python3', '-u', '-m', 'http.server', '8000', '--bind', '127.0.0.1']\n\
         port = 8000\nlog = 'program.log'\n\
         [[route]]\npath = '/'\nservice = '{name}'\n"
    );
    fixture.write("host.toml", &configuration);
    let server = serve(fixture, &["--workers", "1", "host.toml"]);
    assert!(server.get("/").0.starts_with("http/1.1 200"));
    server
}

fn own_name(fixture: &Fixture, what: &str) -> String {
    format!("{what}-{}-{}", fixture.user.name(), std::process::id())
}

fn a_program_is_listed_by_its_name(fixture: &Fixture) {
    let name = own_name(fixture, "listed");
    let server = serve_program(fixture, &name);
    let list = || {
        let listed = fixture.palisade(["ps", "--json"]).run();
        let rows: Vec<Value> = serde_json::from_slice(&listed.is_silent(0).stdout).unwrap();
        rows.into_iter().find(|row| row["name"] == *name)
    };
    let row = list().unwrap();
    assert_eq!(row["supervisor"], server.process.id());
    assert_eq!(row["command"][0], "/usr/bin/python3");
    fixture
        .palisade(["exec", &name, "--", "sh", "-c", "exit 3"])
        .run()
        .is_silent(3);
    fixture.palisade(["kill", &name]).run().is_silent(0);
    assert!(list().is_none());
    // It is started again by who asks for it, as after any end.
    assert!(server.get("/").0.starts_with("http/1.1 200"));
    assert_ne!(list().unwrap()["id"], row["id"]);
    let (code, said) = server.end();
    assert_eq!(code, 0, "{said}");
    assert!(list().is_none());
}

fn the_lines_of_a_guest_are_printed(fixture: &Fixture) {
    let name = own_name(fixture, "printed");
    let server = serve_program(fixture, &name);
    assert!(server.get("/no-such-page").0.starts_with("http/1.1 404"));
    assert_eq!(server.end().0, 0);
    let printed = fixture.palisade(["logs", &name, "host.toml"]).run();
    printed.is_silent(0);
    assert!(printed.text().contains("GET /no-such-page"), "{printed:?}");
    let last = fixture.palisade(["logs", "-n", "1", &name]).run();
    assert_eq!(last.is_silent(0).text().lines().count(), 1);
    fixture
        .palisade(["logs", "nobody"])
        .run()
        .refuses(&["policy: host.toml", "no filter or service is called nobody"]);
    // A log is followed into the file that takes its place, and what it says does not act on a terminal.
    let mut process = fixture
        .palisade(["logs", "-n", "0", "--follow", &name])
        .spawn();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    let next = |out: &mut BufReader<_>| {
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        line
    };
    let told = format!("{}\n", "one \u{1b}[2J");
    // It may not have begun to follow yet, and what came before is not new.
    let log = fixture.path("program.log");
    let mut lines = fs::OpenOptions::new().append(true).open(&log).unwrap();
    let writer = std::thread::spawn(move || {
        while lines.write_all(told.as_bytes()).is_ok() && !log.with_extension("stop").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    assert_eq!(next(&mut out), "one \\u{1b}[2J\n");
    fixture.write("program.stop", "");
    writer.join().unwrap();
    fixture.write("other", "two\n");
    fs::rename(fixture.path("other"), fixture.path("program.log")).unwrap();
    while next(&mut out) != "two\n" {}
    signal(&process, Signal::INT);
    wait(&mut process);
}

/// Answers each request with how a connection went that it may not make.
const TRIES: &str = "
import http.server, socket
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        try: socket.create_connection(('127.0.0.1', 2)); said = b'connected'
        except OSError as error: said = error.strerror.encode()
        self.send_response(200); self.end_headers(); self.wfile.write(said)
http.server.HTTPServer(('127.0.0.1', 8000), Answer).serve_forever()
";

/// With what `palisade run --events` tells of a guest, in the same words.
fn what_happens_to_a_program_is_told(fixture: &Fixture) {
    let name = own_name(fixture, "told");
    fixture.write("tries.py", TRIES);
    let configure = |events: bool| {
        let configuration = format!(
            "[log]\npath = 'host.log'\nformat = 'json'\nevents = {events}\n\
             [[listen]]\naddress = '127.0.0.1:0'\n\
             [services.{name}]\n\
             program = ['/usr/bin/python3', '-u', '{}']\n\
             port = 8000\n\
             policy.grants = {{ read = ['tries.py'], connect = ['tcp://127.0.0.1:1'] }}\n\
             [[route]]\npath = '/'\nservice = '{name}'\n",
            fixture.text("tries.py")
        );
        fixture.write("host.toml", &configuration);
    };
    let events = || -> Vec<Value> {
        let log = fixture.read("host.log");
        let lines = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_it = lines.filter(|line| line["service"] == *name);
        of_it
            .map(|line| line["event"].clone())
            .filter(|event| !event.is_null())
            .collect()
    };
    let ask = || {
        let server = serve(fixture, &["--workers", "1", "host.toml"]);
        assert!(server.get("/").1.contains("Permission denied"));
        server
    };
    configure(false);
    assert_eq!(ask().end().0, 0);
    assert_eq!(events(), [Value::Null; 0]);
    configure(true);
    let server = ask();
    // A denial is told when it is one, and not at the end of a service that has none.
    eventually("the denial is told", || {
        let all = events();
        let is_told = all.iter().any(|event| event["event"] == "verdict");
        (!is_told).then(|| format!("{all:?}"))
    });
    assert_eq!(server.end().0, 0);
    let all = events();
    for event in &all {
        assert_eq!(violations(&schema(), event), [""; 0], "{event}");
    }
    let kinds: Vec<_> = all
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["start", "verdict", "end"], "{all:?}");
    assert_eq!(all[0]["command"][0], "/usr/bin/python3");
    let denied = &all[1];
    assert_eq!(
        (
            &denied["verdict"],
            &denied["target"],
            &denied["process"]["name"]
        ),
        (
            &json!("deny"),
            &json!("tcp://127.0.0.1:2"),
            &json!("python3")
        )
    );
}
