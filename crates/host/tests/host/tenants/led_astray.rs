//! Links that come to lie in a tenant's folder after its file was looked at.

use super::{Site, broken, get, page, turn, wait_for_page};
use crate::program::served;
use palisade_suite::executable::copy_program;
use std::{
    fs,
    io::Write,
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    thread,
};

/// A tenant whose program is given its folder `data`, and dies when it is asked to.
fn with_program(site: &Site, name: &str, access: &str) {
    let folder = site.path("tenants").join(name);
    site.tenant(
        name,
        &format!(
            "[services.app]\nprogram = ['{}']\nstart-time = '2s'\nback-off = '1ms'\nback-off-most = '1ms'\n\
             policy.grants.read = ['app']\npolicy.grants.{access} = ['data']\n\
             [[route]]\nservice = 'app'\n",
            folder.join("app/served").display()
        ),
    );
    for name in ["app", "data"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    copy_program(&served(), &folder.join("app/served")).unwrap();
}

#[test]
fn a_program_starts_with_its_own_folders_or_not_at_all() {
    let site = Site::new("[tenant.a]\nmay = ['program']\n[tenant.b]\nmay = ['program']\n");
    with_program(&site, "a", "write");
    with_program(&site, "b", "write");
    let server = site.start();
    assert_eq!(broken(&server), []);
    let folder = site.path("tenants/a");
    fs::rename(folder.join("data"), folder.join("aside")).unwrap();
    // Out of the folder, to another tenant's, and to its own by a link that anybody could turn.
    for target in ["../../one", "../b", "aside"] {
        turn(&folder.join("data"), Path::new(target));
        let (status, said) = get(&server, "a.test", "/");
        assert_eq!(status, 503, "{target}: {said}");
    }
    server.wait_for("does not lie below");
    fs::remove_file(folder.join("data")).unwrap();
    fs::rename(folder.join("aside"), folder.join("data")).unwrap();
    wait_for_status(&server, "a.test", 200);
    // The program's own folder, too.
    fs::rename(folder.join("app"), folder.join("aside")).unwrap();
    symlink("aside", folder.join("app")).unwrap();
    get(&server, "a.test", "/die");
    wait_for_status(&server, "a.test", 503);
    assert_eq!(get(&server, "b.test", "/").0, 200);
}

#[test]
fn a_program_is_not_given_what_the_server_relies_on_by_a_folder_put_in_place_later() {
    // The site serves a folder of the tenant's, and nobody's guest may move it.
    let site = Site::new(
        "[tenant.a]\nmay = ['program']\n[services.shown]\nfiles = 'tenants/a/shown/site'\n\
         [[route]]\npath = '/shown'\nservice = 'shown'\n",
    );
    with_program(&site, "a", "write");
    let folder = site.path("tenants/a");
    fs::create_dir_all(folder.join("shown/site")).unwrap();
    let server = site.start();
    assert_eq!(broken(&server), []);
    fs::rename(folder.join("data"), folder.join("aside")).unwrap();
    fs::rename(folder.join("shown"), folder.join("data")).unwrap();
    symlink("data", folder.join("shown")).unwrap();
    let (status, said) = get(&server, "a.test", "/");
    assert_eq!(status, 503, "{said}");
    server.wait_for("it could change where");
}

#[test]
fn a_module_is_read_in_its_tenants_folder_alone() {
    let site = Site::new("");
    let main = super::MAIN.replace("folder =", "may = ['program']\nfolder =");
    site.0.write(&main);
    let module = b"\0asm\x01\0\0\0";
    fs::write(site.path("one/other.wasm"), module).unwrap();
    for (name, program) in [
        ("own", "tenants/own/site/own.wasm"),
        ("other", "one/other.wasm"),
        ("linked", "tenants/linked/site/link.wasm"),
    ] {
        site.tenant(
            name,
            &format!(
                "[services.app]\nprogram = ['{}']\n[[route]]\nservice = 'app'\n",
                site.path(program).display()
            ),
        );
    }
    fs::write(site.path("tenants/own/site/own.wasm"), module).unwrap();
    symlink(
        site.path("one/other.wasm"),
        site.path("tenants/linked/site/link.wasm"),
    )
    .unwrap();
    let server = site.start();
    let broken = broken(&server);
    let names: Vec<_> = broken.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["linked", "other"], "{broken:#?}");
    for (_, message) in &broken {
        assert!(message.contains("does not lie below"), "{message}");
    }
}

#[test]
fn a_socket_is_reached_in_its_tenants_folder_alone() {
    let site = Site::new("[tenant.a]\nmay = ['connect']\n");
    site.tenant(
        "a",
        "[services.app]\nupstream = 'unix:run/app'\n[[route]]\nservice = 'app'\n",
    );
    let folder = site.path("tenants/a");
    for (run, name) in [(folder.join("run"), "own"), (site.path("run"), "other")] {
        fs::create_dir(&run).unwrap();
        answer_at(&run.join("app"), name);
    }
    let server = site.start();
    assert_eq!(broken(&server), []);
    assert_eq!(page(&server, "a.test"), "own");
    fs::rename(folder.join("run"), folder.join("aside")).unwrap();
    symlink(site.path("run"), folder.join("run")).unwrap();
    assert_eq!(page(&server, "a.test"), "502");
    fs::remove_file(folder.join("run")).unwrap();
    fs::create_dir(folder.join("run")).unwrap();
    symlink(site.path("run/app"), folder.join("run/app")).unwrap();
    assert_eq!(page(&server, "a.test"), "502");
    fs::remove_dir_all(folder.join("run")).unwrap();
    fs::rename(folder.join("aside"), folder.join("run")).unwrap();
    wait_for_page(&server, "a.test", "own");
}

/// A server that gives each connection one answer.
fn answer_at(socket: &Path, body: &'static str) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let mut head = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
}

fn wait_for_status(server: &crate::control::Server, host: &str, wanted: u16) {
    let since = std::time::Instant::now();
    while get(server, host, "/").0 != wanted {
        assert!(
            since.elapsed() < std::time::Duration::from_secs(20),
            "{host} is not {wanted}"
        );
    }
}
