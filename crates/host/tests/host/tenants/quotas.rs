//! How many programs of a tenant are alive at one time.

use super::{Site, broken, get, page};
use crate::{
    control::{Server, ask},
    program::served,
};
use palisade_suite::executable::copy_program;
use std::{
    fs,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

/// A tenant with two programs, at `/one` and `/two`.
fn with_two(site: &Site, name: &str) {
    let folder = site.path("tenants").join(name);
    fs::create_dir_all(folder.join("app")).unwrap();
    copy_program(&served(), &folder.join("app/served")).unwrap();
    let service = |name: &str| {
        format!(
            "[services.{name}]\nprogram = ['{}']\nstart-time = '2s'\npolicy.grants.read = ['app']\n\
             [[route]]\npath = '/{name}'\nstrip = true\nservice = '{name}'\n",
            folder.join("app/served").display()
        )
    };
    let site_of_all = "[services.site]\nfiles = 'site'\n[[route]]\nservice = 'site'\n";
    let file = [&*service("one"), &service("two"), site_of_all].concat();
    site.tenant(name, &file);
}

/// Waits for these states of a tenant's programs: that one has ended is told when it has.
fn wait_for_states(server: &Server, tenant: &str, wanted: [&str; 2]) {
    let since = Instant::now();
    while states(server, tenant) != wanted {
        let told = states(server, tenant);
        assert!(since.elapsed() < Duration::from_secs(10), "{told:?}");
    }
}

/// States of a tenant's programs: of `one` and of `two`.
fn states(server: &Server, tenant: &str) -> [String; 2] {
    let (_, status) = server.admin("GET /status");
    ["one", "two"].map(|name| {
        let wanted = format!("{tenant}/{name}");
        let guests = status["guests"].as_array().unwrap();
        let guest = guests.iter().find(|guest| guest["name"] == *wanted);
        guest.unwrap()["state"].as_str().unwrap().to_owned()
    })
}

#[test]
fn a_tenant_has_so_many_programs_alive_and_another_one_its_own() {
    let site = Site::new(
        "[tenant.a]\nmay = ['program']\nquotas.domains = 1\n[tenant.b]\nmay = ['program']\n",
    );
    with_two(&site, "a");
    with_two(&site, "b");
    let server = site.start();
    assert_eq!(broken(&server), []);
    // One that nobody asks now rests for the other.
    assert_eq!(get(&server, "a.test", "/one/").0, 200);
    wait_for_states(&server, "a", ["ready", "idle"]);
    assert_eq!(get(&server, "a.test", "/two/").0, 200);
    wait_for_states(&server, "a", ["idle", "ready"]);
    for path in ["/one/", "/two/"] {
        assert_eq!(get(&server, "b.test", path).0, 200);
    }
    wait_for_states(&server, "b", ["ready", "ready"]);
    // One with a request under way does not.
    let address = server.address();
    let hangs = thread::spawn(move || {
        let stream = TcpStream::connect(address).unwrap();
        let request = "GET /two/hang HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";
        ask(stream, request)
    });
    while !server
        .metrics()
        .contains(r#"palisade_requests_total{kind="service",guest="a/two"} 2"#)
    {
        thread::yield_now();
    }
    let stream = TcpStream::connect(server.address()).unwrap();
    let request = "GET /one/ HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n";
    let refused = ask(stream, request);
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("retry-after: "), "{refused}");
    for path in ["/one/", "/two/"] {
        assert_eq!(get(&server, "b.test", path).0, 200);
    }
    assert_eq!(page(&server, "a.test"), "a", "what is no program is served");
    let metrics = server.metrics();
    let told = r#"palisade_tenant_refused_total{tenant="a",quota="domains"} "#;
    assert!(metrics.contains(told), "{metrics}");
    assert!(!metrics.contains(r#"{tenant="b""#), "{metrics}");
    drop(server);
    let _ = hangs.join();
}
