//! What one tenant can find out of another one, and take from it: by every way that filters, components, programs and
//! clients have. Each with a control: the same act on what is its own.

use crate::{
    backend::Backend,
    fixture::{Fixture, Server},
    raw_http::{Answer, Client, Request},
    served::served,
    soak::tls::Issuer,
};
use palisade_suite::{
    guests::{Component, Filter},
    served,
};
use std::{
    cell::RefCell,
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

pub(crate) const CASES: &[(&str, fn())] = &[
    (
        "neighbours-learn-nothing",
        tenants_learn_nothing_of_each_other,
    ),
    (
        "memory-of-instances-has-its-quota",
        memory_of_instances_has_its_quota,
    ),
];

/// Whose things nobody else knows, and who looks for them. The name is a word that stands nowhere else.
const OWNER: &str = "bluebird";
const SPY: &str = "kestrel";

/// A port of the loopback, which answers, and how often it was connected to.
struct Port {
    number: u16,
    came: Arc<AtomicUsize>,
}

impl Port {
    fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let number = listener.local_addr().expect("an address").port();
        let came = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&came);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                count.fetch_add(1, Ordering::SeqCst);
                let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
                head.find(String::is_empty);
                let _ = (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            }
        });
        Self { number, came }
    }
}

/// A tenant with a guest of each kind, a server of its own by each way, and names that are those of the other one, too.
struct Tenant {
    folder: PathBuf,
    port: Port,
    up: Backend,
}

fn tenant(fixture: &Fixture, name: &'static str) -> Tenant {
    let folder = fixture.folder().join("tenants").join(name);
    for part in ["site", "app", "data", "run"] {
        fs::create_dir_all(folder.join(part)).expect("make folders");
    }
    for (from, to) in [
        (served::filter(Filter::Spy), "spy.wasm"),
        (served::component(Component::Asks), "asks.wasm"),
        (served(), "app/served"),
    ] {
        fs::copy(from, folder.join(to)).expect("copy a guest");
    }
    fs::write(folder.join("site/index.html"), format!("page of {name}")).expect("write");
    fs::write(folder.join("data/secret"), format!("secret of {name}")).expect("write");
    let up = Backend::start(&folder.join("run/up"), move |_| {
        Answer::new(200, format!("server of {name}"))
    });
    let port = Port::open();
    let text = format!(
        "[filters.spy]\nmodule = 'spy.wasm'\nisolation = 'kept'\nvm-id = 'vm'\nlog = 'filter.log'\n\
         policy.grants.connect = ['unix:run/up']\n\
         [services.up]\nupstream = 'unix:run/up'\n\
         [services.dead]\nupstream = 'unix:run/dead'\n\
         [services.asks]\ncomponent = 'asks.wasm'\nlog = 'asks.log'\n\
         policy.grants.connect = ['tcp://127.0.0.1:{port}']\n\
         [services.app]\nprogram = ['{program}']\nlog = 'app.log'\n\
         policy.grants.read = ['app']\npolicy.grants.write = ['data']\n\
         [services.site]\nfiles = 'site'\n\
         [[route]]\npath = '/app'\nstrip = true\nservice = 'app'\n\
         [[route]]\npath = '/asks'\nservice = 'asks'\n\
         [[route]]\npath = '/up'\nservice = 'up'\n\
         [[route]]\npath = '/dead'\nservice = 'dead'\n\
         [[route]]\npath = '/only'\nmethods = ['PUT']\nservice = 'up'\n\
         [[route]]\nfilters = ['spy']\nservice = 'site'\n",
        port = port.number,
        program = folder.join("app/served").display(),
    );
    fixture.put(&format!("tenants.d/{name}.toml"), text);
    Tenant { folder, port, up }
}

fn fixture(more: &str) -> Fixture {
    let mut fixture = Fixture::new()
        .backend("teller", |_| Answer::new(200, "the main file's"))
        .route("/", &[], "teller")
        .text(
            "[tenants]\nhosts = ['{tenant}.test']\nfolder = 'tenants/{tenant}'\nmay = ['connect', 'program']\n",
        )
        .text(more);
    fs::create_dir(fixture.folder().join("tenants.d")).expect("make a folder");
    fixture.edit(
        "workers = 1\n",
        "workers = 1\ninclude = [\"tenants.d/*.toml\"]\n",
    );
    fixture
}

/// Both tenants, and all that was answered to the spy.
struct Both {
    server: Server,
    owner: Tenant,
    spy: Tenant,
    heard: RefCell<String>,
}

/// A word of the host's, as proxy-wasm numbers them.
const NOT_FOUND: &str = "1 ";
const EMPTY: &str = "7 ";

impl Both {
    fn ask(&self, tenant: &str, request: Request) -> Answer {
        let request = request.header("host", &format!("{tenant}.test"));
        let answer = self.server.ask(&request);
        if tenant == SPY {
            self.hear(&answer);
        }
        answer
    }

    fn hear(&self, answer: &Answer) {
        let mut heard = self.heard.borrow_mut();
        for (name, value) in &answer.headers {
            *heard += &format!("{name}: {value}\n");
        }
        *heard += &answer.text();
        *heard += "\n";
    }

    fn get(&self, tenant: &str, path: &str) -> String {
        let answer = self.ask(tenant, Request::new("GET", path));
        assert_eq!(answer.status, 200, "{tenant}{path}: {}", answer.text());
        answer.text()
    }

    /// What the tenant's filter says of one call of its own.
    fn act(&self, tenant: &str, act: &str, fields: &[(&str, &str)]) -> String {
        let request = Request::new("GET", "/").header("x-act", act);
        let request = fields.iter().fold(request, |request, (name, value)| {
            request.header(&format!("x-{name}"), value)
        });
        let answer = self.ask(tenant, request);
        assert_eq!(answer.status, 200, "{act}: {}", answer.text());
        answer.text()
    }

    /// The number of what the filter made or found.
    fn number(&self, tenant: &str, act: &str, fields: &[(&str, &str)]) -> String {
        let told = self.act(tenant, act, fields);
        told.strip_prefix("0 ").expect("it is made").to_owned()
    }
}

pub(crate) fn tenants_learn_nothing_of_each_other() {
    let fixture = fixture(
        "[[listen]]\naddress = 'unix:tls'\ntls = [\n\
         { certificate = 'bluebird-certificate.pem', key = 'bluebird-key.pem' },\n\
         { certificate = 'kestrel-certificate.pem', key = 'kestrel-key.pem' }]\n",
    );
    let issuer = Issuer::new();
    for name in [OWNER, SPY] {
        issuer.certify_name(&fixture, &format!("{name}.test"), &format!("{name}-"));
    }
    let (owner, spy) = (tenant(&fixture, OWNER), tenant(&fixture, SPY));
    let both = Both {
        server: fixture.serve(),
        owner,
        spy,
        heard: RefCell::default(),
    };
    assert_eq!(
        both.ask(OWNER, Request::new("GET", "/")).text(),
        "page of bluebird"
    );
    assert_eq!(both.get(SPY, "/"), "page of kestrel");
    shared_data(&both);
    shared_queues(&both);
    metrics(&both);
    properties(&both);
    calls_of_filters(&both);
    requests_of_components(&both);
    what_programs_see(&both);
    files(&both);
    answers(&both);
    connections(&both, &issuer);
    for log in ["filter.log", "asks.log", "app.log"] {
        let path = both.spy.folder.join(log);
        let lines = fs::read_to_string(path).expect("its own log");
        // The spy's own words come back to it.
        let of_others = |line: &&str| !line.contains("a request to bluebird.test");
        let lines: Vec<_> = lines.lines().filter(of_others).collect();
        *both.heard.borrow_mut() += &lines.join("\n");
    }
    let heard = both.heard.borrow();
    let told = heard.lines().find(|line| line.contains(OWNER));
    assert_eq!(told, None, "the spy was told of its neighbour");
    assert!(heard.contains("kestrel"), "it was told of itself");
    assert!(
        both.owner.up.asked().is_empty(),
        "the owner's server was asked"
    );
    assert_eq!(both.owner.port.came.load(Ordering::SeqCst), 0);
    assert!(
        fixture.asked("teller").is_empty(),
        "the main file's server was asked"
    );
}

fn shared_data(both: &Both) {
    let secret = [("name", "key"), ("value", "private")];
    assert_eq!(both.act(OWNER, "set-data", &secret), "0 ");
    assert_eq!(both.act(OWNER, "get-data", &secret), "0 private");
    for key in [
        "key",
        "vm/key",
        "bluebird/key",
        "bluebird/vm/key",
        "/key",
        "",
        "vm\tkey",
    ] {
        let told = both.act(SPY, "get-data", &[("name", key)]);
        assert_eq!(told, NOT_FOUND, "{key}");
    }
    // Its own of the same name is another one.
    let own = [("name", "key"), ("value", "own")];
    assert_eq!(both.act(SPY, "set-data", &own), "0 ");
    assert_eq!(both.act(SPY, "get-data", &own), "0 own");
    assert_eq!(both.act(OWNER, "get-data", &secret), "0 private");
}

fn shared_queues(both: &Both) {
    let queue = both.number(OWNER, "register-queue", &[("name", "queue")]);
    let item = [("number", &*queue), ("value", "private")];
    assert_eq!(both.act(OWNER, "enqueue", &item), "0 ");
    let resolved = both.number(
        OWNER,
        "resolve-queue",
        &[("name", "queue"), ("value", "vm")],
    );
    assert_eq!(resolved, queue);
    for vm_id in ["vm", "", "bluebird", "bluebird/vm", "/vm"] {
        let told = both.act(SPY, "resolve-queue", &[("name", "queue"), ("value", vm_id)]);
        assert!(!told.starts_with('0'), "{vm_id}: {told}");
    }
    let guesses = (0..64).map(|number| number.to_string());
    for number in guesses.chain([queue.clone(), "4294967295".into()]) {
        let guess = [("number", &*number), ("value", "of the spy")];
        for act in ["dequeue", "enqueue"] {
            let told = both.act(SPY, act, &guess);
            assert!(!told.starts_with('0'), "{act} {number}: {told}");
        }
    }
    let own = both.number(SPY, "register-queue", &[("name", "queue")]);
    assert_eq!(both.act(SPY, "dequeue", &[("number", &own)]), EMPTY);
    let of_spy = [("number", &*own), ("value", "of the spy")];
    assert_eq!(both.act(SPY, "enqueue", &of_spy), "0 ");
    assert_eq!(both.act(OWNER, "dequeue", &item), "0 private");
    assert_eq!(
        both.act(OWNER, "dequeue", &item),
        EMPTY,
        "nobody else wrote"
    );
    assert_eq!(both.act(SPY, "dequeue", &of_spy), "0 of the spy");
}

fn metrics(both: &Both) {
    let metric = both.number(OWNER, "define-metric", &[("name", "hits")]);
    let of_owner = [("number", &*metric)];
    for _ in 0..3 {
        assert_eq!(both.act(OWNER, "increment-metric", &of_owner), "0 ");
    }
    assert_eq!(both.act(OWNER, "get-metric", &of_owner), "0 3");
    let guesses = (0..64).map(|number| number.to_string());
    for number in guesses.chain([metric.clone(), "4294967295".into()]) {
        let guess = [("number", &*number), ("value", "9")];
        for act in ["get-metric", "record-metric", "increment-metric"] {
            let told = both.act(SPY, act, &guess);
            assert!(!told.starts_with('0'), "{act} {number}: {told}");
        }
    }
    // The same name is another metric, of whatever kind.
    let own = both.number(SPY, "define-gauge", &[("name", "hits")]);
    assert_eq!(both.act(SPY, "get-metric", &[("number", &own)]), "0 0");
    let record = [("number", &*own), ("value", "7")];
    assert_eq!(both.act(SPY, "record-metric", &record), "0 ");
    assert_eq!(both.act(SPY, "get-metric", &record), "0 7");
    assert_eq!(both.act(OWNER, "get-metric", &of_owner), "0 3");
    let figures = both.server.admin("/metrics");
    for (family, guest, value) in [
        ("palisade_filter_counter_total{", "\"bluebird/spy\"", " 3"),
        ("palisade_filter_gauge{", "\"kestrel/spy\"", " 7"),
    ] {
        let is_it = |line: &str| {
            line.starts_with(family)
                && line.contains(guest)
                && line.contains("\"hits\"")
                && line.ends_with(value)
        };
        assert!(figures.lines().any(is_it), "{family}: {figures}");
    }
}

/// Those of Envoy, and what a host might keep beside them. What they say is looked through at the end.
fn properties(both: &Both) {
    for path in [
        "plugin_name",
        "plugin_root_id",
        "plugin_vm_id",
        "cluster_name",
        "cluster_metadata",
        "route_name",
        "route_metadata",
        "listener_metadata",
        "listener_direction",
        "node",
        "node.id",
        "node.cluster",
        "node.metadata",
        "xds",
        "xds.cluster_name",
        "xds.route_name",
        "xds.node",
        "xds.listener_metadata",
        "upstream",
        "upstream.address",
        "upstream.port",
        "upstream.local_address",
        "source.address",
        "destination.address",
        "connection.requested_server_name",
        "connection.id",
        "request",
        "request.host",
        "request.headers",
        "request.headers.host",
        "request.id",
        "request.path",
        "response.code",
        "metadata",
        "filter_state",
        "wasm",
        "tenant",
        "tenants",
        "bluebird",
        "key",
        "",
    ] {
        both.act(SPY, "property", &[("name", path)]);
    }
    let root = both.act(SPY, "property", &[("name", "request.host")]);
    assert_eq!(root, "0 kestrel.test");
}

fn calls_of_filters(both: &Both) {
    // Whatever host it names, a call goes to the server that its own file calls so.
    for host in ["kestrel.test", "bluebird.test"] {
        let call = [("name", "up"), ("value", host)];
        assert_eq!(both.act(SPY, "call", &call), "0 server of kestrel");
    }
    let socket = format!("unix:{}", both.owner.folder.join("run/up").display());
    let port = format!("http://127.0.0.1:{}", both.owner.port.number);
    for name in [
        "bluebird/up",
        "../bluebird/up",
        "teller",
        "/teller",
        "site",
        "app",
        "asks",
        "bluebird.test",
        &socket,
        &port,
        &port["http://".len()..],
    ] {
        let told = both.act(SPY, "call", &[("name", name), ("value", "bluebird.test")]);
        assert!(!told.starts_with('0'), "{name}: {told}");
    }
    assert_eq!(both.spy.up.asked().len(), 2);
}

fn requests_of_components(both: &Both) {
    let own = format!("127.0.0.1:{}", both.spy.port.number);
    assert_eq!(both.get(SPY, &format!("/asks?{own}")), "answered 200");
    let port = both.owner.port.number;
    for authority in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("[::1]:{port}"),
        "bluebird.test".into(),
        "bluebird.test:80".into(),
        "up".into(),
    ] {
        let told = both.get(SPY, &format!("/asks?{authority}"));
        assert!(!told.starts_with("answered"), "{authority}: {told}");
    }
    assert_eq!(both.spy.port.came.load(Ordering::SeqCst), 1);
}

fn what_programs_see(both: &Both) {
    let app = |tenant: &str, path: &str| both.get(tenant, &format!("/app{path}"));
    // The owner's runs at the same time, with all that it has.
    let owner = both.owner.folder.display().to_string();
    let spy = both.spy.folder.display().to_string();
    assert_eq!(
        app(OWNER, &format!("/read{owner}/data/secret")),
        "secret of bluebird"
    );
    assert_eq!(
        app(SPY, &format!("/read{spy}/data/secret")),
        "secret of kestrel"
    );
    assert_eq!(app(OWNER, "/listen/bluebird-name"), "done");
    assert_eq!(app(OWNER, "/abstract/bluebird-name"), "done");
    assert_eq!(app(SPY, "/abstract/bluebird-name"), "ECONNREFUSED");
    for path in [
        "data/secret",
        "site/index.html",
        "app/served",
        "app.log",
        "run/up",
        "",
    ] {
        let told = app(SPY, &format!("/read{owner}/{path}"));
        assert_eq!(told, "ENOENT", "{path}");
    }
    for path in [owner.clone(), format!("{spy}/../bluebird/data")] {
        assert_eq!(app(SPY, &format!("/list{path}")), "ENOENT", "{path}");
    }
    let folder = fixture_folder(&both.spy.folder);
    for path in [
        "host.toml",
        "tenants.d/bluebird.toml",
        "bluebird-key.pem",
        "admin",
        "socket",
    ] {
        let told = app(SPY, &format!("/read{folder}/{path}"));
        assert_eq!(told, "ENOENT", "{path}");
    }
    for socket in [
        format!("{owner}/run/up"),
        format!("{folder}/admin"),
        format!("{folder}/socket"),
    ] {
        assert_ne!(app(SPY, &format!("/unix{socket}")), "done", "{socket}");
    }
    assert_ne!(
        app(SPY, &format!("/connect/{}", both.owner.port.number)),
        "done"
    );
    // Folders that programs of all tenants have, and where a server might keep sockets of theirs.
    for path in [
        "/",
        "/tmp",
        "/run",
        "/dev/shm",
        "/var/tmp",
        "/dev",
        "/proc/self/fd",
    ] {
        both.ask(SPY, Request::new("GET", &format!("/app/list{path}")));
    }
    processes(both, &app);
}

/// Only those of its own domain, whatever it asks the kernel.
fn processes(both: &Both, app: &dyn Fn(&str, &str) -> String) {
    let pids = |tenant: &str| -> Vec<u32> {
        let names = app(tenant, "/list/proc");
        names.lines().filter_map(|name| name.parse().ok()).collect()
    };
    let (own, others) = (pids(SPY), pids(OWNER));
    assert_eq!(own.len(), others.len(), "{own:?} {others:?}");
    for pid in &own {
        for file in [
            "cmdline",
            "environ",
            "mountinfo",
            "maps",
            "status",
            "net/unix",
            "cgroup",
            "cwd",
        ] {
            both.ask(
                SPY,
                Request::new("GET", &format!("/app/read/proc/{pid}/{file}")),
            );
        }
    }
    for file in [
        "/proc/net/unix",
        "/proc/mounts",
        "/proc/keys",
        "/proc/sysvipc/shm",
        "/proc/locks",
    ] {
        both.ask(SPY, Request::new("GET", &format!("/app/read{file}")));
    }
    let server = both.server.process();
    for pid in [server, server + 1, server + 2] {
        if !own.contains(&pid) {
            assert_eq!(app(SPY, &format!("/signal/{pid}")), "ESRCH");
        }
    }
}

/// The folder of the server's own files, from that of a tenant.
fn fixture_folder(tenant: &Path) -> String {
    let above = tenant.parent().and_then(Path::parent);
    above.expect("a folder").display().to_string()
}

/// What the spy has the server open for it.
fn files(both: &Both) {
    let site = both.spy.folder.join("site");
    for (name, target) in [
        ("log", "../../bluebird/app.log"),
        ("page", "../../bluebird/site/index.html"),
        ("config", "../../../tenants.d/bluebird.toml"),
        ("folder", "../../bluebird"),
    ] {
        symlink(target, site.join(name)).expect("make a link");
    }
    symlink("index.html", site.join("own")).expect("make a link");
    assert_eq!(both.get(SPY, "/own"), "page of kestrel");
    for path in [
        "/log",
        "/page",
        "/config",
        "/folder/app.log",
        "/../bluebird/app.log",
        "/..%2fbluebird/app.log",
    ] {
        let answer = both.ask(SPY, Request::new("GET", path));
        assert!(
            matches!(answer.status, 400 | 404),
            "{path}: {}",
            answer.status
        );
    }
}

/// Whatever goes wrong.
fn answers(both: &Both) {
    for (request, status) in [
        (Request::new("GET", "/none"), 404),
        (Request::new("GET", "/%00"), 400),
        (Request::new("GET", "/dead"), 502),
        (Request::new("GET", "/app/none"), 404),
        (Request::new("GET", "/app/cut"), 200),
        (Request::new("TRACE", "/"), 405),
        (
            Request::new("GET", "/up")
                .header("upgrade", "websocket")
                .header("connection", "upgrade"),
            501,
        ),
        (Request::new("GET", "/").header("range", "bytes=900-"), 416),
    ] {
        let request = request.header("host", "kestrel.test");
        let told = format!("{} {}", request.method, request.path);
        if let Some(answer) = both.server.try_ask(&request) {
            both.hear(&answer);
            assert_eq!(answer.status, status, "{told}");
        }
    }
}

/// A connection that was made with one tenant's certificate is for no host of the other's.
fn connections(both: &Both, issuer: &Issuer) {
    let tls = &both.server.places().tls;
    let ask = |name: &'static str, host: &str| {
        let stream = issuer.connect_to(tls, name).expect("a connection");
        let request = Request::new("GET", "/").header("host", host);
        Client::over(stream).ask(&request).expect("an answer")
    };
    assert_eq!(
        ask("kestrel.test", "kestrel.test").text(),
        "page of kestrel"
    );
    assert_eq!(
        ask("bluebird.test", "bluebird.test").text(),
        "page of bluebird"
    );
    for host in ["bluebird.test", "BLUEBIRD.test.", "bluebird.test:443"] {
        let refused = ask("kestrel.test", host);
        both.hear(&refused);
        assert_eq!(refused.status, 421, "{host}");
    }
}

/// Instances that requests hold, until the tenant has no memory for one more. No other tenant's wants any for that.
fn memory_of_instances_has_its_quota() {
    const MOST: usize = 60;
    let fixture = fixture("[tenant.bluebird.quotas]\nmemory = '2M'\n");
    for name in [OWNER, SPY] {
        let folder = fixture.folder().join("tenants").join(name);
        fs::create_dir_all(&folder).expect("make a folder");
        let echo = served::component(Component::Echo);
        fs::copy(echo, folder.join("echo.wasm")).expect("copy a guest");
        fixture.put(
            &format!("tenants.d/{name}.toml"),
            "[services.echo]\ncomponent = 'echo.wasm'\n[[route]]\nservice = 'echo'\n",
        );
    }
    let server = fixture.serve();
    // The answer's first part is there, and its instance waits for more.
    let begin = |tenant: &str| {
        let mut client = Client::connect_unix(server.socket()).expect("a connection");
        client.send(format!(
            "POST / HTTP/1.1\r\nhost: {tenant}.test\r\ncontent-length: 2\r\n\r\na"
        ));
        let status = client.read_exactly(12).expect("an answer");
        (client, String::from_utf8_lossy(&status[9..]).into_owned())
    };
    let mut held = Vec::new();
    let mut refused = loop {
        let (client, status) = begin(OWNER);
        if status != "200" || held.len() == MOST {
            assert_eq!(status, "503", "{} are held", held.len());
            break client;
        }
        held.push(client);
    };
    assert!(held.len() > 1, "one has all of it");
    let rest = refused.read_to_end().unwrap_or_default();
    assert!(rest.contains("retry-after: "), "{rest}");
    for _ in 0..=held.len() {
        let (client, status) = begin(SPY);
        assert_eq!(status, "200");
        held.push(client);
    }
    let figures = server.admin("/metrics");
    let told = "palisade_tenant_refused_total{tenant=\"bluebird\",quota=\"memory\"} 1";
    assert!(figures.contains(told), "{figures}");
    assert!(!figures.contains("tenant=\"kestrel\""), "{figures}");
    // What was held is free again once its requests are over.
    for client in &mut held {
        client.send("b");
    }
    let whole = Request::new("POST", "/")
        .body("ab")
        .header("host", "bluebird.test");
    let is_served = (0..100).any(|_| {
        let answer = server.ask(&whole);
        thread::sleep(Duration::from_millis(20));
        (answer.status, &*answer.text()) == (200, "ab")
    });
    assert!(is_served, "it stays refused");
}
