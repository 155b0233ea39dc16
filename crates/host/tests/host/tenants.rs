//! Tenants: files that the main file includes, each with what it is given and nothing else.

mod led_astray;
mod operators;
mod quotas;
mod untouched;

use crate::control::{Fixture, Server, ask};
use std::{
    fs,
    net::TcpStream,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A main file that gives each tenant a host and a folder.
const MAIN: &str = "admin = 'unix:admin.sock'\nworkers = 2\nlog.format = 'json'\n\
    include = ['tenants.d/*.toml']\n\
    [tenants]\nhosts = ['{tenant}.test']\nfolder = 'tenants/{tenant}'\n\
    [[listen]]\naddress = '127.0.0.1:0'\n\
    [services.site]\nfiles = 'one'\n[[route]]\nservice = 'site'\n";

/// A tenant's file that serves a folder of its own.
const SITE: &str = "[services.site]\nfiles = 'site'\n[[route]]\nservice = 'site'\n";

struct Site(Fixture);

impl Site {
    fn new(more: &str) -> Self {
        let site = Self(Fixture::new());
        site.0.write(&format!("{MAIN}{more}"));
        fs::create_dir(site.path("tenants.d")).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// A tenant's folder, whose page is its name, and its file.
    fn tenant(&self, name: &str, file: &str) {
        let folder = self.path("tenants").join(name).join("site");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("index.html"), name).unwrap();
        self.file(name, file);
    }

    fn file(&self, name: &str, text: &str) {
        let new = self.path(".new.toml");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path("tenants.d").join(format!("{name}.toml"))).unwrap();
    }

    fn start(&self) -> Server {
        self.0.start(&["--no-watch"])
    }
}

fn get(server: &Server, host: &str, path: &str) -> (u16, String) {
    let stream = TcpStream::connect(server.address()).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let answer = ask(stream, &request);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn page(server: &Server, host: &str) -> String {
    let (status, body) = get(server, host, "/");
    match status {
        200 => body,
        _ => status.to_string(),
    }
}

fn reload(server: &Server) {
    let (status, answer) = server.admin("POST /reload");
    assert_eq!(status, 200, "{answer}");
}

/// Why each tenant's file cannot be served, by its name.
fn broken(server: &Server) -> Vec<(String, String)> {
    let (_, status) = server.admin("GET /status");
    let broken = status["broken_tenants"].as_array().unwrap();
    assert_eq!(status["broken_tenants_total"], broken.len());
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    broken
        .iter()
        .map(|tenant| (text(&tenant["tenant"]), text(&tenant["message"])))
        .collect()
}

#[test]
fn a_tenant_is_served_at_its_hosts() {
    let site = Site::new("[tenant.b]\nhosts = ['b.org', '*.b.org']\n");
    site.tenant("a", SITE);
    site.tenant("b", SITE);
    let server = site.start();
    assert_eq!(broken(&server), []);
    for (host, wanted) in [
        ("a.test", "a"),
        ("A.test.", "a"),
        ("a.test:80", "a"),
        ("b.org", "b"),
        ("www.b.org", "b"),
        ("b.test", "one"),
        ("x.a.test", "one"),
        ("other", "one"),
    ] {
        assert_eq!(page(&server, host), wanted, "{host}");
    }
    // Names in figures and in the status are the tenant's.
    let metrics = server.metrics();
    for part in ["guest=\"a/site\"", "route=\"b/route-0\"", "guest=\"site\""] {
        assert!(metrics.contains(part), "{part}: {metrics}");
    }
    let (_, status) = server.admin("GET /status");
    let names: Vec<_> = status["guests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|guest| &guest["name"])
        .collect();
    assert_eq!(names, ["site", "a/site", "b/site"]);
    assert_eq!(status["tenants"], 2);
}

#[test]
fn tenants_of_one_host_are_told_apart_by_path() {
    let site = Site::new("");
    let main = MAIN
        .replace("'{tenant}.test'", "'apps.test'")
        .replace("folder", "paths = ['/{tenant}']\nfolder");
    site.0.write(&main);
    let stripped = |name: &str| {
        SITE.replace(
            "[[route]]",
            &format!("[[route]]\npath = '/{name}'\nstrip = true"),
        )
    };
    site.tenant("a", &stripped("a"));
    site.tenant("ab", &stripped("ab"));
    let server = site.start();
    assert_eq!(broken(&server), []);
    let at = |path: &str| get(&server, "apps.test", path);
    assert_eq!(at("/a/"), (200, "a".into()));
    assert_eq!(at("/%61/"), (200, "a".into()));
    assert_eq!(at("/ab/../a/"), (200, "a".into()));
    assert_eq!(at("/ab/"), (200, "ab".into()));
    assert_eq!(at("/"), (200, "one".into()));
    assert_eq!(at("/abc/").0, 404);
}

/// One reader takes it for one tenant's path, and another for another one's.
#[test]
fn a_path_that_could_be_another_tenants_is_refused() {
    let site = Site::new("");
    let main = MAIN
        .replace("'{tenant}.test'", "'apps.test'")
        .replace("folder", "paths = ['/{tenant}', '/x/{tenant}']\nfolder");
    site.0.write(&main);
    let taken = SITE.replace("[[route]]", "[[route]]\nambiguous-paths = ['separators']");
    site.tenant("a", &taken);
    site.tenant("b", &taken);
    let server = site.start();
    assert_eq!(broken(&server), []);
    assert_eq!(
        get(&server, "apps.test", "/a/x%2Fy").0,
        404,
        "it is a's, however it is read"
    );
    assert_eq!(
        get(&server, "apps.test", "/x/a%2Fb").0,
        400,
        "it would be the main file's to one and a's to another"
    );
    assert_eq!(get(&server, "apps.test", "/x%2Fb/a").0, 400);
}

#[test]
fn a_broken_file_leaves_its_old_version_and_all_others_serving() {
    let site = Site::new("");
    site.tenant("a", SITE);
    site.tenant("b", SITE);
    site.tenant("bad", "this is = not");
    let server = site.start();
    let told = broken(&server);
    assert_eq!((told.len(), &*told[0].0), (1, "bad"), "{told:?}");
    assert_eq!(page(&server, "a.test"), "a");
    // Its requests are nobody else's.
    let head = head_of_refusal(&server, "bad.test", "503");
    assert!(head.contains("retry-after: 10\r\n"), "{head}");

    site.file("a", "[[route]]\nservice = 'nothing'\n");
    fs::write(site.path("tenants/b/site/index.html"), "b2").unwrap();
    site.file("bad", SITE);
    reload(&server);
    let told = server.wait_for("what it was before serves on");
    assert!(
        told.contains("\"tenant\":\"a\"") && told.contains("nothing"),
        "{told}"
    );
    let [(name, message)] = &broken(&server)[..] else {
        panic!("{:?}", broken(&server));
    };
    assert_eq!(name, "a");
    assert!(
        message.contains("a.toml:2:11") && message.contains("no service `nothing`"),
        "{message}"
    );
    assert_eq!(page(&server, "a.test"), "a");
    assert_eq!(page(&server, "bad.test"), "bad");

    // The main file's owner can take away what it had.
    site.0
        .write(&MAIN.replace("{tenant}.test", "{tenant}.other"));
    reload(&server);
    assert_eq!(page(&server, "a.test"), "one");
    assert_eq!(page(&server, "a.other"), "503");
    assert_eq!(page(&server, "b.other"), "b2");
    site.file("a", SITE);
    reload(&server);
    assert_eq!(broken(&server), []);
    assert_eq!(page(&server, "a.other"), "a");
}

#[test]
fn a_mistake_in_the_main_file_changes_nothing() {
    let site = Site::new("");
    site.tenant("a", SITE);
    let server = site.start();
    site.tenant("b", SITE);
    site.0.write(&format!("{MAIN}[tenant.a]\nhosst = ['x']\n"));
    let (status, answer) = server.admin("POST /reload");
    assert_eq!(status, 422, "{answer}");
    assert_eq!(
        (page(&server, "a.test"), page(&server, "b.test")),
        ("a".into(), "one".into())
    );
    site.0.write(MAIN);
    fs::rename(site.path("tenants.d"), site.path("away")).unwrap();
    let (status, answer) = server.admin("POST /reload");
    assert_eq!(status, 422, "{answer}");
    assert!(
        answer["error"].as_str().unwrap().contains("tenants.d"),
        "{answer}"
    );
    assert_eq!(page(&server, "a.test"), "a");
}

#[test]
fn files_that_come_change_and_go_are_seen() {
    let site = Site::new("");
    site.tenant("a", SITE);
    let server = site.0.start(&[]);
    site.tenant("b", SITE);
    server.wait_for("reloaded");
    assert_eq!(page(&server, "b.test"), "b");

    fs::create_dir(site.path("tenants/a/second")).unwrap();
    fs::write(site.path("tenants/a/second/index.html"), "a2").unwrap();
    site.file("a", &SITE.replace("'site'\n[[", "'second'\n[["));
    server.wait_for("reloaded");
    assert_eq!(page(&server, "a.test"), "a2");

    fs::remove_file(site.path("tenants.d/b.toml")).unwrap();
    server.wait_for("reloaded");
    assert_eq!(page(&server, "b.test"), "one");
    let (_, status) = server.admin("GET /status");
    assert_eq!(status["tenants"], 1);
    assert!(
        !server.metrics().contains("\"b/site\""),
        "{}",
        server.metrics()
    );

    // One that is broken is read again when it changes.
    site.file("c", "broken");
    server.wait_for("reloaded");
    assert_eq!(broken(&server).len(), 1);
    site.tenant("c", SITE);
    server.wait_for("reloaded");
    assert_eq!(page(&server, "c.test"), "c");
    fs::remove_file(site.path("tenants.d/c.toml")).unwrap();
    server.wait_for("reloaded");
    assert_eq!(page(&server, "c.test"), "one");
}

/// What two files have a route for is whose was first, and at the start nobody's.
#[test]
fn a_second_claim_is_refused_and_names_both_files() {
    let site = Site::new("");
    site.0
        .write(&MAIN.replace("'{tenant}.test'", "'*.apps.test', '{tenant}.test'"));
    let claim = |host: &str| SITE.replace("[[route]]", &format!("[[route]]\nhost = '{host}'"));
    site.tenant("b", &claim("shop.apps.test"));
    let server = site.start();
    assert_eq!(page(&server, "shop.apps.test"), "b");
    site.tenant("a", &claim("shop.apps.test"));
    reload(&server);
    let [(name, message)] = &broken(&server)[..] else {
        panic!("{:?}", broken(&server));
    };
    assert_eq!(name, "a");
    for part in ["shop.apps.test", "a.toml", "b.toml"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(page(&server, "shop.apps.test"), "b");
    // Whoever lets go of it leaves it to the other one.
    site.file("b", &claim("b.test"));
    reload(&server);
    assert_eq!(broken(&server), []);
    assert_eq!(page(&server, "shop.apps.test"), "a");
    drop(server);
    site.file("b", &claim("shop.apps.test"));
    let server = site.start();
    let names: Vec<_> = broken(&server).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(page(&server, "shop.apps.test"), "503");
}

/// A server that is started anew has no old version of what is broken, and other routes would fit.
#[test]
fn requests_of_a_tenant_that_never_served_are_nobody_elses() {
    let site = Site::new("");
    let main = MAIN
        .replace("'{tenant}.test'", "'apps.test', '*.apps.test'")
        .replace("folder", "paths = ['/', '/a', '/b', '/c']\nfolder");
    site.0.write(&main);
    let at = |path: &str, more: &str| {
        SITE.replace(
            "[[route]]",
            &format!("[[route]]\nhost = 'apps.test'\npath = '{path}'\nstrip = true"),
        ) + more
    };
    let wild = "[[route]]\nhost = '*.apps.test'\npath = '/a'\nstrip = true\nservice = 'site'\n";
    site.tenant("a", &at("/a", wild));
    site.tenant("b", &at("/b", ""));
    let told = |server: &Server| {
        ["/a/", "/b/", "/c/", "/"].map(|path| match get(server, "apps.test", path) {
            (200, body) => body,
            (status, _) => status.to_string(),
        })
    };
    let server = site.start();
    assert_eq!(broken(&server), []);
    assert_eq!(told(&server), ["a", "b", "404", "one"]);
    assert_eq!(get(&server, "x.apps.test", "/a/"), (200, "a".into()));
    drop(server);
    site.file("b", "this is = not");
    let server = site.start();
    assert_eq!(told(&server), ["a", "503", "503", "503"]);
    // By a name b may have claimed it.
    assert_eq!(get(&server, "x.apps.test", "/a/").0, 503);
    assert_eq!(page(&server, "other.test"), "one");
    let head = ask(
        TcpStream::connect(server.address()).unwrap(),
        "GET /b/ HTTP/1.1\r\nhost: apps.test\r\nconnection: close\r\n\r\n",
    );
    assert!(head.contains("retry-after: 10\r\n"), "{head}");
    // Without a file it has nothing.
    fs::remove_file(site.path("tenants.d/b.toml")).unwrap();
    reload(&server);
    assert_eq!(told(&server), ["a", "404", "404", "404"]);
}

/// Each with a control: the same act within what it has.
#[test]
fn no_file_of_a_tenant_leads_out_of_its_folder() {
    let site = Site::new("[tenant.other]\nhosts = ['other.test']\n");
    fs::write(site.path("secret.json"), "{}").unwrap();
    let files = |root: &str| SITE.replace("files = 'site'", &format!("files = '{root}'"));
    let logged =
        |log: &str| SITE.replace("files = 'site'", &format!("files = 'site'\nlog = '{log}'"));
    site.tenant("other", SITE);
    for (name, file) in [
        ("dots", files("../other/site")),
        ("absolute", files(&site.path("one").display().to_string())),
        ("link", files("link")),
        ("deep", files("deep/one")),
        ("log", logged("../../host.log")),
        ("loglink", logged("logs/own.log")),
        (
            "host",
            SITE.replace("[[route]]", "[[route]]\nhost = 'other.test'"),
        ),
        (
            "wild",
            SITE.replace("[[route]]", "[[route]]\nhost = '*.test'"),
        ),
        (
            "route",
            SITE.replace("service = 'site'", "service = 'main'"),
        ),
        (
            "listener",
            format!("{SITE}[[listen]]\naddress = '127.0.0.1:0'\n"),
        ),
        ("fine", files("current")),
        ("finelog", logged("own.log")),
    ] {
        site.tenant(name, &file);
    }
    let folder = |name: &str| site.path("tenants").join(name);
    symlink(site.path("one"), folder("link").join("link")).unwrap();
    symlink(site.path("."), folder("deep").join("deep")).unwrap();
    symlink("../..", folder("loglink").join("logs")).unwrap();
    symlink("site", folder("fine").join("current")).unwrap();
    // Files that are somebody else's, in the folder of tenants' files.
    symlink(site.path("secret.json"), site.path("tenants.d/stolen.toml")).unwrap();
    symlink("finelog.toml", site.path("tenants.d/linked.toml")).unwrap();
    for name in ["linked", "stolen"] {
        fs::create_dir_all(folder(name).join("site")).unwrap();
    }
    let server = site.start();
    let broken = broken(&server);
    let names: Vec<_> = broken.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        names,
        [
            "absolute", "deep", "dots", "host", "link", "listener", "log", "loglink", "route",
            "stolen", "wild"
        ],
        "{broken:#?}"
    );
    for (_, message) in &broken {
        assert!(
            !message.contains("{}"),
            "a file is told that is not its own: {message}"
        );
    }
    assert_eq!(page(&server, "other.test"), "other");
    assert_eq!(page(&server, "fine.test"), "fine");
    assert!(folder("finelog").join("own.log").exists());
    assert!(!site.path("host.log").exists() && !site.path("own.log").exists());
    for name in ["link", "deep", "dots"] {
        assert_eq!(page(&server, &format!("{name}.test")), "503");
    }
    // A link that is turned while it is served: its own folder's is followed, another one's is not.
    fs::create_dir(folder("fine").join("next")).unwrap();
    fs::write(folder("fine").join("next/index.html"), "next").unwrap();
    turn(&folder("fine").join("current"), Path::new("next"));
    wait_for_page(&server, "fine.test", "next");
    turn(&folder("fine").join("current"), &site.path("one"));
    // Who asks has the server look, a tenth of a second after it did last.
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(300) {
        assert_ne!(page(&server, "fine.test"), "one");
    }
    server.wait_for("the folders stay as they were");
    assert_ne!(page(&server, "fine.test"), "one");
}

fn turn(link: &Path, target: &Path) {
    let new = link.with_extension("new");
    symlink(target, &new).unwrap();
    fs::rename(new, link).unwrap();
}

fn wait_for_page(server: &Server, host: &str, wanted: &str) {
    let since = Instant::now();
    while page(server, host) != wanted {
        assert!(
            since.elapsed() < Duration::from_secs(20),
            "{host} has no {wanted}"
        );
    }
}

#[test]
fn a_check_tells_of_every_broken_file() {
    let site = Site::new("");
    site.tenant("a", SITE);
    let check = || {
        let output = site.0.command(&["--check"]).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, said) = check();
    assert_eq!(code, Some(0), "{said}");
    site.tenant("b", "workers = 2");
    site.tenant("c", "listen = []");
    let (code, said) = check();
    assert_eq!(code, Some(125), "{said}");
    for part in ["tenant b: ", "b.toml:1:1", "tenant c: ", "c.toml:1:1"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Requests of all, one after the other, until somebody says that it is enough; the number of them.
fn ask_all(
    server: &Server,
    count: usize,
    stop: &Arc<AtomicBool>,
    failed: &Arc<AtomicUsize>,
) -> thread::JoinHandle<usize> {
    let (address, stop, failed) = (server.address(), Arc::clone(stop), Arc::clone(failed));
    thread::spawn(move || {
        let mut asked = 0;
        while !stop.load(Ordering::Relaxed) {
            let name = format!("t{}", (asked * 7) % count);
            let stream = TcpStream::connect(address).unwrap();
            let answer = ask(
                stream,
                &format!("GET / HTTP/1.1\r\nhost: {name}.test\r\nconnection: close\r\n\r\n"),
            );
            let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
            let is_right = answer.starts_with("HTTP/1.1 200 ")
                && body.is_some_and(|body| body.starts_with(&name));
            failed.fetch_add(usize::from(!is_right), Ordering::Relaxed);
            asked += 1;
        }
        asked
    })
}

#[test]
fn one_among_a_thousand_changes_under_load_and_no_request_is_lost() {
    const COUNT: usize = 1000;
    let site = Site::new("");
    for at in 0..COUNT {
        site.tenant(&format!("t{at}"), SITE);
    }
    let server = site.0.start(&[]);
    assert_eq!(broken(&server), []);
    let (stop, failed) = (Arc::default(), Arc::default());
    let clients: Vec<_> = (0..2)
        .map(|_| ask_all(&server, COUNT, &stop, &failed))
        .collect();
    for round in 0..5 {
        let second = site.path("tenants/t7").join(format!("site{round}"));
        fs::create_dir(&second).unwrap();
        fs::write(second.join("index.html"), format!("t7 {round}")).unwrap();
        site.file(
            "t7",
            &SITE.replace("'site'\n[[", &format!("'site{round}'\n[[")),
        );
        server.wait_for("reloaded");
        assert_eq!(page(&server, "t7.test"), format!("t7 {round}"));
        let added = format!("n{round}");
        site.tenant(&added, SITE);
        server.wait_for("reloaded");
        assert_eq!(page(&server, &format!("{added}.test")), added);
        fs::remove_file(site.path("tenants.d").join(format!("{added}.toml"))).unwrap();
        server.wait_for("reloaded");
        assert_eq!(page(&server, &format!("{added}.test")), "one");
    }
    stop.store(true, Ordering::Relaxed);
    let asked: usize = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    assert!(asked > 100, "{asked}");
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {asked}");
    let (_, status) = server.admin("GET /status");
    assert_eq!(
        (&status["reloads"], &status["failed_reloads"]),
        (&15.into(), &0.into())
    );
}

/// Asks until it is refused so; gives the answer's head.
fn head_of_refusal(server: &Server, host: &str, status: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let mut answers =
        (0..100).map(|_| ask(TcpStream::connect(server.address()).unwrap(), &request));
    let refused = answers.find(|answer| answer.starts_with(&format!("HTTP/1.1 {status} ")));
    refused.unwrap_or_else(|| panic!("{host} is never refused"))
}

#[test]
fn a_tenant_past_its_rate_is_refused_and_no_other_one() {
    let site = Site::new("[tenant.a.quotas]\nrate = 1\n");
    site.tenant("a", SITE);
    site.tenant("b", SITE);
    let server = site.start();
    assert_eq!(page(&server, "a.test"), "a");
    let head = head_of_refusal(&server, "a.test", "429");
    assert!(head.contains("retry-after: 1\r\n"), "{head}");
    for _ in 0..20 {
        assert_eq!(page(&server, "b.test"), "b");
        assert_eq!(page(&server, "elsewhere"), "one");
    }
    let metrics = server.metrics();
    let refused = "palisade_tenant_refused_total{tenant=\"a\",quota=\"rate\"}";
    assert!(metrics.contains(refused), "{metrics}");
    assert!(!metrics.contains("tenant=\"b\""), "{metrics}");
    let (_, status) = server.admin("GET /status");
    assert_eq!(status["quotas"].as_array().unwrap().len(), 1);
    assert_eq!(status["quotas"][0]["tenant"], "a");
    // Another bound is in place at once, of a tenant whose file is as it was.
    site.0.write(MAIN);
    reload(&server);
    for _ in 0..20 {
        assert_eq!(page(&server, "a.test"), "a");
    }
}

#[test]
fn a_client_that_asks_too_often_is_refused_on_whatever_connection() {
    let site = Site::new("");
    site.0.write(&format!("limits.client-rate = 1\n{MAIN}"));
    let server = site.start();
    let head = head_of_refusal(&server, "elsewhere", "429");
    assert!(head.contains("retry-after: "), "{head}");
    site.0.write(MAIN);
    reload(&server);
    for _ in 0..20 {
        assert_eq!(page(&server, "elsewhere"), "one");
    }
}
