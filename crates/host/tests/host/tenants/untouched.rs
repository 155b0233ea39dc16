//! What a reload touches: what has changed, and nothing else, also of what is broken.

use super::{MAIN, SITE, Site, broken, page, reload};
use crate::control::Server;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::{
    fs,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::symlink},
    path::Path,
};

/// Tells which files are opened.
struct Opened(OwnedFd);

impl Opened {
    fn of<const COUNT: usize>(paths: [&Path; COUNT]) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        for path in paths {
            inotify::add_watch(&inotify, path, WatchFlags::OPEN).unwrap();
        }
        Self(inotify)
    }

    /// Since it was asked last.
    fn count(&self) -> usize {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.0, &mut buffer);
        let mut count = 0;
        while let Ok(event) = reader.next() {
            count += usize::from(event.events().contains(ReadFlags::OPEN));
        }
        count
    }
}

/// Reloads, and gives the one tenant that is broken.
fn the_broken(server: &Server) -> (String, String) {
    reload(server);
    let mut all = broken(server);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn another(site: &Site, round: usize) {
    let text = format!("{SITE}# {round}\n");
    site.file("other", &text);
}

#[test]
fn a_file_that_cannot_be_read_is_read_again_when_something_of_it_has_changed() {
    let site = Site::new("");
    site.tenant("other", SITE);
    let text = "[filters.f]\nmodule = 'f.wasm'\nconfiguration-file = 'f.json'\npolicy = 'f.toml'\n";
    site.tenant("bad", &format!("{SITE}{text}"));
    let at = |name: &str| site.path("tenants/bad").join(name);
    fs::write(at("f.json"), "{}").unwrap();
    fs::write(at("f.toml"), "no policy").unwrap();
    let server = site.start();
    let told = the_broken(&server);
    assert!(told.1.contains("f.toml"), "{}", told.1);
    let file = site.path("tenants.d/bad.toml");
    let opened = Opened::of([&file, &at("f.json"), &at("f.toml")]);
    for round in 0..3 {
        another(&site, round);
        assert_eq!(the_broken(&server), told);
        assert_eq!(opened.count(), 0, "nothing of it has changed");
    }
    // Either is a reason: it, and what it names.
    fs::write(at("f.toml"), "no policy, either").unwrap();
    let told_next = the_broken(&server);
    assert!(opened.count() > 0 && told_next != told, "{}", told_next.1);
    site.file("bad", "this is = not");
    assert!(the_broken(&server).1.contains("bad.toml:1"));
    // Not all of a line that is as long as the file.
    site.file("bad", &format!("{}=1", "x".repeat(1 << 19)));
    let told = the_broken(&server).1;
    assert!(
        told.starts_with("policy: unknown key `xxx") && told.len() < 5000,
        "{}",
        told.len()
    );
    // What is not mended is what it was, and what is serves.
    assert_eq!(page(&server, "bad.test"), "503");
    site.file("bad", SITE);
    reload(&server);
    assert_eq!(broken(&server), []);
    assert_eq!(page(&server, "bad.test"), "bad");
}

/// Whoever says which tenants have changed has no other one's files looked at.
#[test]
fn a_reload_of_one_tenant_is_of_no_other_one() {
    let site = Site::new("");
    let changed = |name: &str, to: &str| {
        let folder = site.path("tenants").join(name).join(to);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("index.html"), format!("{name}, {to}")).unwrap();
        site.file(name, &SITE.replace("'site'\n[", &format!("'{to}'\n[")));
    };
    for name in ["a", "b", "leaves"] {
        site.tenant(name, SITE);
    }
    let server = site.start();
    changed("a", "second");
    changed("b", "second");
    site.tenant("comes", SITE);
    fs::remove_file(site.path("tenants.d/leaves.toml")).unwrap();
    let (status, told) = server.admin("POST /reload?tenant=a&tenant=leaves");
    assert_eq!(status, 200, "{told}");
    assert_eq!(
        told["warnings"],
        serde_json::json!(["policy: there is no tenant leaves"])
    );
    let pages = |hosts: [&str; 2]| hosts.map(|host| page(&server, host));
    assert_eq!(pages(["a.test", "b.test"]), ["a, second", "b"]);
    // Who comes and goes is found in any case.
    assert_eq!(pages(["comes.test", "leaves.test"]), ["comes", "one"]);
    reload(&server);
    assert_eq!(page(&server, "b.test"), "b, second");
    // What a reload that failed was to look at is not forgotten.
    changed("a", "third");
    site.0.write("no = 'configuration'");
    assert_eq!(server.admin("POST /reload?tenant=a").0, 422);
    site.0.write(MAIN);
    assert_eq!(server.admin("POST /reload?tenant=b").0, 200);
    assert_eq!(page(&server, "a.test"), "a, third");
}

/// Whoever is no suspect is seen all the same where its folder is another one by now.
#[test]
fn a_folder_that_was_exchanged_is_looked_at_whoever_is_suspected() {
    let site = Site::new("");
    for name in ["a", "b", "other"] {
        site.tenant(name, SITE);
    }
    let server = site.start();
    let at = |name: &str| site.path("tenants").join(name);
    fs::rename(at("a"), at("c")).unwrap();
    fs::rename(at("b"), at("a")).unwrap();
    symlink("a", at("b")).unwrap();
    let (status, told) = server.admin("POST /reload?tenant=other");
    assert_eq!(status, 200, "{told}");
    let all = broken(&server);
    assert!(!all.is_empty(), "two tenants have one folder");
    for (_, message) in all {
        assert!(message.contains("folder"), "{message}");
    }
}

#[test]
fn what_cannot_be_loaded_is_tried_again_when_what_it_leads_to_has_changed() {
    let site = Site::new("");
    site.tenant("other", SITE);
    site.tenant("bad", SITE);
    let folder = site.path("tenants/bad");
    fs::rename(folder.join("site"), folder.join("later")).unwrap();
    let server = site.start();
    let told = the_broken(&server);
    let opened = Opened::of([&site.path("tenants.d/bad.toml"), &folder]);
    another(&site, 0);
    assert_eq!(the_broken(&server), told);
    assert_eq!(opened.count(), 0, "nothing of it has changed");
    fs::rename(folder.join("later"), folder.join("site")).unwrap();
    reload(&server);
    assert_eq!(broken(&server), []);
    assert_eq!(page(&server, "bad.test"), "bad");
    // Nor does a folder that is not there any more keep it from being tried once it is.
    fs::rename(&folder, site.path("tenants/aside")).unwrap();
    assert!(the_broken(&server).1.contains("make it"));
    fs::rename(site.path("tenants/aside"), &folder).unwrap();
    reload(&server);
    assert_eq!(broken(&server), []);
}

#[test]
fn what_another_one_has_is_had_once_that_lets_go_of_it() {
    let site = Site::new("");
    site.0
        .write(&MAIN.replace("'{tenant}.test'", "'*.apps.test', '{tenant}.test'"));
    let claim = |host: &str| SITE.replace("[[route]]", &format!("[[route]]\nhost = '{host}'"));
    site.tenant("b", &claim("shop.apps.test"));
    let server = site.start();
    site.tenant("a", &claim("shop.apps.test"));
    let told = the_broken(&server);
    let opened = Opened::of([&site.path("tenants.d/a.toml"), &site.path("tenants/a/site")]);
    site.file("b", &format!("{}# another\n", claim("shop.apps.test")));
    assert_eq!(the_broken(&server), told);
    assert_eq!(opened.count(), 0, "nothing of it has changed");
    assert_eq!(page(&server, "shop.apps.test"), "b");
    site.file("b", &claim("b.test"));
    reload(&server);
    assert_eq!(broken(&server), []);
    assert_eq!(opened.count(), 0, "it was loaded before");
    assert_eq!(page(&server, "shop.apps.test"), "a");
    // Whose file is as it was and is refused anew is told.
    site.file("a", &claim("a.test"));
    reload(&server);
    site.file("b", &claim("shop.apps.test"));
    reload(&server);
    site.file("a", &claim("shop.apps.test"));
    assert_eq!(the_broken(&server).0, "a");
    assert_eq!(page(&server, "a.test"), "a");
}

/// Each wants what the next one has, and the last what it may not have: all keep what they had, at once.
#[test]
fn a_chain_of_tenants_that_want_what_others_have_is_no_long_one() {
    const COUNT: usize = 200;
    let site = Site::new("");
    let main = MAIN.replace("'{tenant}.test'", "'*.apps.test'");
    site.0.write(&format!(
        "{main}[[route]]\nhost = 'x200.apps.test'\nservice = 'site'\n"
    ));
    let claim = |host: usize| {
        SITE.replace(
            "[[route]]",
            &format!("[[route]]\nhost = 'x{host}.apps.test'"),
        )
    };
    for at in 0..COUNT {
        site.tenant(&format!("t{at}"), &claim(at));
    }
    let server = site.start();
    assert_eq!(broken(&server), []);
    for at in 0..COUNT {
        site.file(&format!("t{at}"), &claim(at + 1));
    }
    reload(&server);
    let (_, status) = server.admin("GET /status");
    assert_eq!(status["broken_tenants_total"], COUNT);
    // The first of a hundred that are told; the last ones are refused one after the other.
    let message = status["broken_tenants"][0]["message"].as_str().unwrap();
    assert!(
        message.contains("too many files want at one time"),
        "{message}"
    );
    for at in [0, 1, 100, COUNT - 1] {
        assert_eq!(page(&server, &format!("x{at}.apps.test")), format!("t{at}"));
    }
}

/// By whatever name: a folder is one tenant's.
#[test]
fn a_folder_of_another_ones_is_no_tenants() {
    let named = |folder: &Path| format!("[tenant.b]\nfolder = '{}'\n", folder.display());
    let site = Site::new("");
    site.tenant("a", SITE);
    site.tenant("b", SITE);
    let tenants = site.path("tenants");
    symlink(&tenants, site.path("link")).unwrap();
    for name in [site.path("link/a"), site.path("link/a/site")] {
        site.0.write(&format!("{MAIN}{}", named(&name)));
        let server = site.start();
        let told = broken(&server);
        assert_eq!((told.len(), &*told[0].0), (1, "b"), "{told:?}");
        assert_eq!(
            (page(&server, "a.test"), page(&server, "b.test")),
            ("a".into(), "503".into())
        );
    }
    // One that turns while it is served, and whose file is as it was.
    site.0.write(MAIN);
    let server = site.start();
    assert_eq!(broken(&server), []);
    fs::rename(tenants.join("b"), site.path("aside")).unwrap();
    symlink(tenants.join("a"), tenants.join("b")).unwrap();
    let (name, told) = the_broken(&server);
    assert!(name == "b" && told.contains("link"), "{name}: {told}");
    assert_eq!(
        (page(&server, "a.test"), page(&server, "b.test")),
        ("a".into(), "503".into())
    );
    fs::remove_file(tenants.join("b")).unwrap();
    fs::rename(site.path("aside"), tenants.join("b")).unwrap();
    reload(&server);
    assert_eq!(broken(&server), []);
    assert_eq!(page(&server, "b.test"), "b");
}
