//! Where operators ask is nobody's to reach by a guest or an upstream server.

use super::{MAIN, SITE, Site, broken, get, page, reload, turn};
use crate::{
    control::{Server, ask},
    program::served,
};
use palisade_suite::{executable::copy_program, ports::free_ports};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
};

/// A tenant whose program is granted this.
fn program(site: &Site, name: &str, grants: &str) {
    let folder = site.path("tenants").join(name);
    fs::create_dir_all(folder.join("app")).unwrap();
    copy_program(&served(), &folder.join("app/served")).unwrap();
    site.tenant(
        name,
        &format!(
            "[services.app]\nprogram = ['{}']\npolicy.grants.read = ['app']\n{grants}\n[[route]]\nservice = 'app'\n",
            folder.join("app/served").display()
        ),
    );
}

fn upstream(address: &str) -> String {
    format!("[services.up]\nupstream = '{address}'\n[[route]]\nservice = 'up'\n")
}

fn component(grant: &str) -> String {
    format!(
        "[services.api]\ncomponent = 'site/index.html'\npolicy.grants.connect = ['{grant}']\n[[route]]\nservice = 'api'\n"
    )
}

fn filter(grant: &str) -> String {
    format!(
        "[filters.auth]\nmodule = 'site/index.html'\npolicy.grants.connect = ['{grant}']\n{}",
        SITE.replace("[[route]]", "[[route]]\nfilters = ['auth']")
    )
}

fn connect(grant: &str) -> String {
    format!("policy.grants.connect = ['{grant}']")
}

fn site_with(admin: &str) -> Site {
    let site = Site::new("");
    let main = MAIN.replace("folder =", "may = ['connect', 'program']\nfolder =");
    site.0.write(&main.replace("'unix:admin.sock'", admin));
    site
}

/// What a check says, by tenants.
fn told(site: &Site) -> String {
    let output = site.0.command(&["--check"]).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// Each with a control: another port, or a token.
#[test]
fn no_grant_and_no_upstream_leads_to_a_port_without_a_token() {
    let (port, other) = (free_ports(1), free_ports(1));
    let site = site_with(&format!("'127.0.0.1:{port}'"));
    for (name, grant) in [
        ("every", "tcp://127.0.0.1:*".to_owned()),
        ("exact", format!("tcp://127.0.0.1:{port}")),
        ("wide", format!("tcp://127.0.0.0/8:1-{port}")),
        ("named", format!("tcp://localhost:{port}")),
    ] {
        program(&site, name, &connect(&grant));
    }
    site.tenant("up", &upstream(&format!("http://127.0.0.1:{port}")));
    site.tenant("upname", &upstream(&format!("http://localhost:{port}")));
    site.tenant(
        "upmapped",
        &upstream(&format!("http://[::ffff:127.0.0.1]:{port}")),
    );
    site.tenant("upzero", &upstream(&format!("http://0.0.0.0:{port}")));
    site.tenant("component", &component("tcp://127.0.0.1:*"));
    site.tenant("filter", &filter("tcp://127.0.0.1:*"));
    for (name, grant) in [
        ("fine", format!("tcp://127.0.0.1:{other}")),
        ("public", "internet".to_owned()),
        ("private", "tcp://10.0.0.0/8:*".to_owned()),
        ("datagrams", "udp://127.0.0.1:*".to_owned()),
        ("second", format!("tcp://[::1]:{port}")),
    ] {
        program(&site, name, &connect(&grant));
    }
    site.tenant("upfine", &upstream(&format!("http://127.0.0.1:{other}")));
    let refused = [
        "every",
        "exact",
        "wide",
        "named",
        "up",
        "upname",
        "upmapped",
        "upzero",
        "component",
        "filter",
    ];
    let said = told(&site);
    for name in refused {
        let line = format!("tenant {name}: ");
        let line = said.lines().find(|text| text.contains(&line));
        let line = line.unwrap_or_else(|| panic!("{name} is not refused: {said}"));
        assert!(
            line.contains("operators ask") && line.contains("token-file"),
            "{line}"
        );
    }
    assert!(said.contains("cannot be served: 10;"), "{said}");

    fs::write(site.path("token"), "t".repeat(40)).unwrap();
    set_mode(&site.path("token"), 0o600);
    let main = fs::read_to_string(site.path("host.toml")).unwrap();
    let with_token = format!("{{ listen = '127.0.0.1:{port}', token-file = 'token' }}");
    site.0
        .write(&main.replace(&format!("'127.0.0.1:{port}'"), &with_token));
    for name in ["component", "filter"] {
        fs::remove_file(site.path(&format!("tenants.d/{name}.toml"))).unwrap();
    }
    let said = told(&site);
    assert!(said.contains("configuration is valid"), "{said}");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The main file's own guests are held as tenants' are: a request could come from anybody.
#[test]
fn the_main_file_gives_away_no_socket_of_its_operators() {
    let port = free_ports(1);
    for (admin, more) in [
        (
            format!("127.0.0.1:{port}"),
            upstream(&format!("http://127.0.0.1:{port}")),
        ),
        ("unix:admin.sock".into(), upstream("unix:admin.sock")),
        (
            "unix:admin.sock".into(),
            upstream("unix:two/link/admin.sock"),
        ),
    ] {
        let site = site_with(&format!("'{admin}'"));
        symlink("..", site.path("two/link")).unwrap();
        let main = fs::read_to_string(site.path("host.toml")).unwrap();
        site.0.write(&format!("{main}{more}"));
        let said = told(&site);
        assert!(said.contains("operators ask"), "{admin}: {said}");
    }
    let site = site_with("'unix:admin.sock'");
    let main = fs::read_to_string(site.path("host.toml")).unwrap();
    let app = |grant: &str| {
        format!(
            "{main}[services.app]\nprogram = ['{}']\npolicy.grants.connect = ['{grant}']\n",
            served().display()
        )
    };
    site.0.write(&app("unix:admin.sock:/run/else"));
    let said = told(&site);
    assert!(
        said.contains("operators ask") && said.contains("take another socket"),
        "{said}"
    );
    site.0.write(&app("unix:other.sock"));
    assert!(!told(&site).contains("operators ask"));
}

/// The port of operators, from the line that the server begins with.
fn admin_port(server: &Server) -> u16 {
    let address = server.ready().split_once("admin at ").unwrap().1;
    address.rsplit_once(':').unwrap().1.trim().parse().unwrap()
}

fn ask_port(port: u16, request: &str) -> String {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    ask(
        stream,
        &format!("{request} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    )
}

/// A port that the kernel chose is known once the server runs: connections are judged, too.
#[test]
fn who_is_led_to_a_port_of_operators_is_not_connected() {
    let site = site_with("'127.0.0.1:0'");
    let server = site.start();
    let port = admin_port(&server);
    let answering = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = answering.local_addr().unwrap().port();
    site.tenant("up", &upstream(&format!("http://127.0.0.1:{port}")));
    program(&site, "app", &connect("tcp://127.0.0.1:*"));
    if let Some(name) = own_name() {
        site.tenant("named", &upstream(&format!("http://{name}:{port}")));
    }
    assert!(ask_port(port, "POST /reload").starts_with("HTTP/1.1 200 "));
    assert_eq!(
        get(&server, "app.test", &format!("/connect/{other}")),
        (200, "done".into())
    );
    assert_eq!(
        get(&server, "app.test", &format!("/connect/{port}")),
        (200, "EACCES".into())
    );
    assert_eq!(get(&server, "up.test", "/metrics").0, 502);
    if own_name().is_some() {
        assert_eq!(get(&server, "named.test", "/metrics").0, 502);
    }
    assert!(ask_port(port, "GET /metrics").contains("palisade_info"));
}

/// A name of this machine's own, which is none of a loopback by its letters.
fn own_name() -> Option<String> {
    let table = fs::read_to_string("/etc/hosts").ok()?;
    let own = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let is_own = words.next()? == "127.0.0.1";
        let name = words.find(|name| *name != "localhost").filter(|_| is_own);
        name.map(str::to_owned)
    };
    table.lines().find_map(own)
}

#[test]
fn who_is_led_to_a_socket_of_operators_is_not_connected() {
    let site = site_with("'unix:admin.sock'");
    let main = fs::read_to_string(site.path("host.toml")).unwrap();
    site.0.write(&format!(
        "{main}[services.up]\nupstream = 'unix:up.sock'\n[[route]]\nhost = 'up.test'\nservice = 'up'\n"
    ));
    let text = fs::read_to_string(site.path("host.toml")).unwrap();
    // The first route that fits.
    site.0
        .write(&text.replacen("[[route]]\nservice = 'site'\n", "", 1));
    program(&site, "app", "policy.grants.connect = ['unix:run/up.sock']");
    site.tenant("linked", &upstream("unix:run/up.sock"));
    for name in ["app", "linked"] {
        let run = site.path("tenants").join(name).join("run");
        fs::create_dir_all(&run).unwrap();
        drop(UnixListener::bind(run.join("up.sock")).unwrap());
    }
    drop(UnixListener::bind(site.path("up.sock")).unwrap());
    let server = site.start();
    assert_eq!(broken(&server), []);
    // By a link, which the main file's are followed by, and by a second name.
    turn(&site.path("up.sock"), Path::new("admin.sock"));
    assert_eq!(get(&server, "up.test", "/metrics").0, 502);
    for name in ["app", "linked"] {
        let socket = site.path("tenants").join(name).join("run/up.sock");
        fs::remove_file(&socket).unwrap();
        fs::hard_link(site.path("admin.sock"), &socket).unwrap();
    }
    assert_eq!(get(&server, "linked.test", "/metrics").0, 502);
    assert_eq!(get(&server, "app.test", "/").0, 503);
    server.wait_for("the socket of this server's operators");
    // What is there when a file is read is told at once.
    for name in ["app", "linked"] {
        let file = fs::read_to_string(site.path(&format!("tenants.d/{name}.toml"))).unwrap();
        site.file(&format!("{name}2"), &file);
        let (from, to) = (site.path("tenants").join(name), format!("{name}2"));
        fs::rename(from, site.path("tenants").join(to)).unwrap();
        fs::remove_file(site.path(&format!("tenants.d/{name}.toml"))).unwrap();
    }
    let file = fs::read_to_string(site.path("tenants.d/app2.toml")).unwrap();
    site.file("app2", &file.replace("tenants/app/", "tenants/app2/"));
    site.0
        .write(&text.replace("unix:up.sock", "unix:gone.sock"));
    reload(&server);
    let broken = broken(&server);
    let names: Vec<_> = broken.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["app2", "linked2"], "{broken:#?}");
    for (_, message) in &broken {
        assert!(message.contains("operators ask"), "{message}");
    }
}

/// A tenant serves on when its own file is broken, but not with what another main file refuses.
#[test]
fn what_a_new_main_file_refuses_does_not_serve_on() {
    let port = free_ports(1);
    let site = site_with("'unix:admin.sock'");
    program(&site, "app", &connect(&format!("tcp://127.0.0.1:{port}")));
    site.tenant("a", SITE);
    let server = site.start();
    assert_eq!(get(&server, "app.test", "/").0, 200);
    site.file("a", "broken");
    let main = fs::read_to_string(site.path("host.toml")).unwrap();
    site.0
        .write(&main.replace("'unix:admin.sock'", &format!("'127.0.0.1:{port}'")));
    let (status, answer) = server.admin("POST /reload");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(get(&server, "app.test", "/").0, 503);
    assert_eq!(page(&server, "a.test"), "a", "its file's own fault");
    let told = ask_port(port, "GET /status");
    assert!(told.contains("operators ask"), "{told}");
}
