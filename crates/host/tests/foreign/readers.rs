//! One request, several readers: what routes, a filter (`guests/filters/guard.c`), the log and a program of WSGI, as
//! Python's own server runs it, take from the same bytes.

use crate::fixture::{Fixture, PATIENCE};
use crate::raw_http::{Answer, Request, exchange};
use palisade_suite::{guests::Filter, served};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

/// Each case.
pub(crate) const CASES: &[(&str, fn())] = &[
    (
        "ambiguous-paths",
        ambiguous_paths_need_a_route_that_takes_them,
    ),
    (
        "other-routes",
        a_reading_that_leads_to_another_route_is_refused,
    ),
    (
        "random-paths",
        a_guard_sees_what_the_program_serves_whatever_is_asked,
    ),
    ("fields", filter_and_program_see_the_same_fields),
    (
        "fields-of-http2",
        crumbs_and_schemes_of_http_2_are_formed_before_filters,
    ),
    ("log", the_log_tells_what_was_served),
];

/// Says what it was asked for, as every program of WSGI sees it.
const PROGRAM: &str = r#"
import socket, sys
from wsgiref.simple_server import WSGIServer, WSGIRequestHandler

def tell(environ, start):
    start("200 OK", [("Content-Type", "text/plain")])
    names = ["PATH_INFO", "HTTP_X_SAW", "HTTP_HOST", "HTTP_COOKIE", "HTTP_X_USER", "HTTP_X_ORIGINAL_URL",
             "HTTP_X_REWRITE_URL", "HTTP_TRUE_CLIENT_IP", "CONTENT_LENGTH"]
    return [f"{name}={environ.get(name, '')}\n".encode("latin-1") for name in names]

class Handler(WSGIRequestHandler):
    def address_string(self):
        return "client"
    def get_environ(self):
        self.client_address = ("client", 0)
        return super().get_environ()
    def log_message(self, *words):
        pass

class Server(WSGIServer):
    address_family = socket.AF_UNIX
    def server_bind(self):
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 80
        self.setup_environ()

server = Server(sys.argv[1], Handler)
server.set_app(tell)
server.serve_forever()
"#;

/// A server of Python's, ended with this.
struct Program {
    child: Child,
    socket: PathBuf,
}

impl Program {
    fn start(folder: &Path) -> Self {
        let socket = folder.join("wsgi");
        let child = Command::new("/usr/bin/python3")
            .args(["-c", PROGRAM])
            .arg(&socket)
            .stdin(Stdio::null())
            .spawn()
            .expect("start python3");
        let begin = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            assert!(begin.elapsed() < PATIENCE, "python3 does not listen");
            thread::yield_now();
        }
        Self { child, socket }
    }

    /// What it says with no wall before it.
    fn get(&self, path: &str) -> Answer {
        exchange(&self.socket, &Request::new("GET", path)).expect("an answer")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program behind a guard of `/admin`; `more` is of its route.
fn fixture(more: &str) -> (Fixture, Program) {
    let fixture = Fixture::new();
    let program = Program::start(fixture.folder());
    let fixture = fixture
        .text(&format!(
            "[services.wsgi]\nupstream = \"unix:{}\"",
            program.socket.display()
        ))
        .filter("guard", &served::filter(Filter::Guard), "")
        .route("/", &["guard"], "wsgi")
        .text(more);
    (fixture, program)
}

fn path_of(answer: &Answer) -> String {
    let text = answer.text();
    let path = text
        .lines()
        .find_map(|line| line.strip_prefix("PATH_INFO="));
    path.unwrap_or_default().to_owned()
}

/// Spellings, whether the program takes them for `/admin/secret` where nobody stands before it, and the kind that a route
/// can take; none: no route can.
const SPELLINGS: &[(&str, bool, &str)] = &[
    ("/admin%2Fsecret", true, "separators"),
    ("/admin%2fsecret", true, "separators"),
    ("/%61dmin%2Fsecret", true, "separators"),
    ("/admin%5Csecret", false, "separators"),
    ("/admin;x/secret", false, "parameters"),
    ("/admin%3Bx/secret", false, "parameters"),
    ("/admin;/secret", false, "parameters"),
    ("/;x/admin/secret", false, "parameters"),
    ("/admin%252Fsecret", false, "encodings"),
    ("/admin%25%32Fsecret", false, "encodings"),
    ("/%2561dmin/secret", false, "encodings"),
    ("/admin%25u002Fsecret", false, "encodings"),
    ("/admin%FFsecret", false, "bytes"),
    ("/admin./secret", false, "dots"),
    ("/admin%20/secret", false, "dots"),
    ("/admin%2E/secret", false, "dots"),
    ("/admin/secret%00", false, ""),
    ("/admin%00/secret", false, ""),
    ("/admin%c0%afsecret", false, ""),
    ("/admin\\secret", false, ""),
    ("/x/..;/admin/secret", false, ""),
    ("/x%2F..%2Fadmin%2Fsecret", false, ""),
    ("/..%2Fadmin/secret", false, ""),
    ("/admin%2", false, ""),
    ("/admin%u002Fsecret", false, ""),
];

pub(crate) fn no_other_spelling_reaches_the_program() {
    let (fixture, program) = fixture("");
    // With no wall, they do.
    for (spelling, is_taken, _) in SPELLINGS {
        let is_secret = path_of(&program.get(spelling)) == "/admin/secret";
        assert_eq!(is_secret, *is_taken, "{spelling}");
    }
    let server = fixture.serve();
    assert_eq!(path_of(&server.get("/public")), "/public");
    // The same path after all: the filter sees it.
    for guarded in [
        "/admin",
        "/admin/secret",
        "//admin//secret",
        "/%61dmin/secret",
        "/./admin/secret",
        "/x/../admin/secret",
        "/x/%2e%2e/admin/secret",
        "/admin/",
        "/admin?x",
    ] {
        assert_eq!(server.get(guarded).status, 403, "{guarded}");
    }
    for (spelling, ..) in SPELLINGS {
        let answer = server.get(spelling);
        assert_eq!(answer.status, 400, "{spelling}: {answer:?}");
    }
}

fn ambiguous_paths_need_a_route_that_takes_them() {
    for kind in ["separators", "parameters", "encodings", "bytes", "dots"] {
        let (mut fixture, _program) = fixture("");
        fixture.edit(
            "path = \"/\"\n",
            &format!("path = \"/\"\nambiguous-paths = [{kind:?}]\n"),
        );
        let server = fixture.serve();
        for (spelling, _, of) in SPELLINGS {
            let expected = if *of == kind { 200 } else { 400 };
            assert_eq!(server.get(spelling).status, expected, "{kind}: {spelling}");
        }
    }
}

/// A route that takes them is no way past another one.
fn a_reading_that_leads_to_another_route_is_refused() {
    let (mut fixture, program) = fixture("");
    let all =
        "ambiguous-paths = [\"separators\", \"parameters\", \"encodings\", \"bytes\", \"dots\"]";
    fixture.edit(
        "[[route]]\npath = \"/\"\nfilters = [\"guard\"]",
        &format!("[[route]]\npath = \"/admin\"\nfilters = [\"guard\"]\nservice = \"wsgi\"\n\n[[route]]\npath = \"/\"\n{all}"),
    );
    let server = fixture.serve();
    assert_eq!(server.get("/admin/secret").status, 403);
    assert_eq!(path_of(&program.get("/admin%2Fsecret")), "/admin/secret");
    for spelling in [
        "/admin%2Fsecret",
        "/admin;x/secret",
        "/admin%5Csecret",
        "/admin%252Fsecret",
        "/admin%25252Fsecret",
        "/admin./secret",
        "/x%252F..%252Fadmin/secret",
        "/admin%253Bx/secret",
        "/%2561dmin",
    ] {
        assert_eq!(server.get(spelling).status, 400, "{spelling}");
    }
    for (spelling, path) in [
        ("/a%2Fb", "/a/b"),
        ("/a;x", "/a;x"),
        ("/adminx%2Fb", "/adminx/b"),
    ] {
        assert_eq!(path_of(&server.get(spelling)), path, "{spelling}");
    }
}

/// Targets put together at random, the same in each run: of those that get through, guard and program saw the same path, and
/// it is not the guarded one, however often somebody decodes it.
fn a_guard_sees_what_the_program_serves_whatever_is_asked() {
    const PIECES: [&str; 32] = [
        "/", "/", "/", "admin", "admin", "secret", "..", ".", "%2F", "%2f", "%5C", "\\", ";",
        ";x=1", "%3B", "%25", "%252F", "%2e", "%2E%2E", "%00", "%61dmin", "a%64min", "%C0%AF",
        "%C3%A4", "%FF", "%20", "x", "?", "#", "@", "%40", "http://h",
    ];
    let (fixture, program) = fixture("");
    let server = fixture.serve();
    let (mut random, mut taken, mut guarded) = (1_u64, 0, 0);
    for _ in 0..3000 {
        let mut target = String::from("/");
        for _ in 0..7 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            target += PIECES[(random >> 59) as usize];
        }
        // The first line ends there; what a client sends behind it is no target.
        let answer = server.get(target.trim_end_matches('#'));
        match answer.status {
            200 => taken += 1,
            403 => guarded += 1,
            status => assert_eq!(status, 400, "{target}"),
        }
        if answer.status != 200 {
            continue;
        }
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let saw = body
            .lines()
            .find_map(|line| line.strip_prefix("HTTP_X_SAW="));
        let saw = saw
            .and_then(|saw| saw.split(['|', '?']).next())
            .unwrap_or_default();
        let served = program.get(saw);
        assert!(path_of(&served) == path_of(&answer), "{target}: {body}");
        let mut path = path_of(&answer);
        for _ in 0..3 {
            assert!(!leads_to_admin(&path), "{target}: {body}");
            path = decoded(&path);
        }
    }
    assert!(
        taken > 100 && guarded > 20,
        "{taken} taken, {guarded} guarded"
    );
}

/// As a lenient reader resolves it.
fn leads_to_admin(path: &str) -> bool {
    let mut names = Vec::new();
    for name in path.split(['/', '\\']) {
        match name.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name.trim_end_matches(['.', ' '])),
        }
    }
    names.first() == Some(&"admin")
}

fn decoded(path: &str) -> String {
    let bytes = percent_encoding::percent_decode_str(path);
    bytes.decode_utf8_lossy().into_owned()
}

/// What the filter saw, and what the program was told beside it.
fn assert_same(answer: &Answer, path: &str, fields: [&str; 4]) {
    let [scheme, host, cookie, user] = fields;
    assert_eq!(
        answer.text(),
        format!(
            "PATH_INFO={path}\nHTTP_X_SAW={path}|{scheme}|{host}|{cookie}|{user}||\nHTTP_HOST={host}\n\
             HTTP_COOKIE={cookie}\nHTTP_X_USER={user}\nHTTP_X_ORIGINAL_URL=\nHTTP_X_REWRITE_URL=\n\
             HTTP_TRUE_CLIENT_IP=\nCONTENT_LENGTH=\n"
        )
    );
}

fn filter_and_program_see_the_same_fields() {
    let (fixture, _program) = fixture("");
    let server = fixture.serve();
    let request = |host: &str| Request::new("GET", "/a").header("host", host);
    let twice = request("A.Example.")
        .header("cookie", "a=1")
        .header("x-user", "low")
        .header("cookie", "b=2")
        .header("X-User", "root")
        .header("X-Original-URL", "/admin/secret")
        .header("X-Rewrite-URL", "/admin/secret")
        .header("True-Client-IP", "10.0.0.1");
    assert_same(
        &server.ask(&twice),
        "/a",
        ["http", "a.example", "a=1; b=2", "low, root"],
    );
    let mut absolute = request("one");
    absolute.path = "https://two:80/a".into();
    assert_same(&server.ask(&absolute), "/a", ["http", "two:80", "", ""]);
    for single in ["authorization", "content-type", "range"] {
        let twice = request("a").header(single, "1").header(single, "2");
        assert_eq!(server.ask(&twice).status, 400, "{single}");
    }
}

fn crumbs_and_schemes_of_http_2_are_formed_before_filters() {
    let (fixture, _program) = fixture("");
    let server = fixture.serve();
    let fields = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "//a"),
        (":authority", "A.Example."),
        ("cookie", "a=1"),
        ("x-user", "low"),
        ("cookie", "b=2"),
        ("x-user", "root"),
        ("x-original-url", "/admin"),
    ];
    let answer = crate::soak::http2::ask_with(server.socket(), &fields).expect("an answer");
    assert_same(
        &answer,
        "/a",
        ["http", "a.example", "a=1; b=2", "low, root"],
    );
}

fn the_log_tells_what_was_served() {
    let (fixture, _program) = fixture("");
    let fixture = fixture.log_to("log");
    let server = fixture.serve();
    for path in ["/x/..//%61", "http://h/b"] {
        assert_eq!(server.get(path).status, 200);
    }
    let log = fixture.folder().join("log");
    let begin = Instant::now();
    for path in ["/a", "/b"] {
        let line = format!(" path={path} ");
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains(&line)) {
            let log = fs::read_to_string(&log);
            assert!(begin.elapsed() < PATIENCE, "{log:?}");
            thread::yield_now();
        }
    }
}
