//! What lies where: inside the folder, outside of it, and what is no file.

use super::*;

#[test]
fn nothing_outside_the_folder_is_served() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let fixture = Fixture::new(&[("inside/a", b"a")]);
    let out = outside.path();
    symlink(out.join("secret"), fixture.path("file")).unwrap();
    symlink(out, fixture.path("folder")).unwrap();
    let up = format!("../{}/secret", out.file_name().unwrap().to_str().unwrap());
    symlink(&up, fixture.path("relative")).unwrap();
    symlink(format!("../{up}"), fixture.path("inside/deeper")).unwrap();
    symlink("/proc/self/root/etc/hostname", fixture.path("magic")).unwrap();
    symlink("/dev/null", fixture.path("device")).unwrap();
    symlink("loop", fixture.path("loop")).unwrap();
    // The links do lead there.
    for name in ["file", "folder/secret", "relative", "inside/deeper"] {
        assert_eq!(fs::read(fixture.path(name)).unwrap(), b"secret", "{name}");
    }
    let name = out.file_name().unwrap().to_str().unwrap();
    for target in [
        "/file",
        "/folder",
        "/folder/",
        "/folder/secret",
        "/relative",
        "/inside/deeper",
        "/magic",
        "/device",
        "/loop",
        &format!("/../{name}/secret"),
        &format!("/inside/../../{name}/secret"),
        &format!("/%2e%2e/{name}/secret"),
        &format!("/..%2f{name}%2Fsecret"),
        &format!("/inside/..%2F..%2F{name}/secret"),
        &format!("/..%5C{name}%5Csecret"),
        &format!("/%2e%2e%2f{name}%2fsecret"),
        &format!("/..%00/{name}/secret"),
        &format!("//{}", out.join("secret").display()),
        &format!("{}", out.join("secret").display()),
        "/inside/a%00",
        "/inside/a/",
        "/inside/a/../a",
        "/inside//a",
        "/%2Finside/a",
        "/inside%2Fa",
        "*",
        "host:1",
    ] {
        let answer = fixture.get(target);
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{target}");
        assert!(
            !String::from_utf8_lossy(&answer.body).contains("secret"),
            "{target}"
        );
    }
    assert_eq!(fixture.get("/inside/a").body, b"a");
}

#[test]
fn links_inside_the_folder_are_followed() {
    let fixture = Fixture::new(&[("data/v1/a", b"one"), ("data/v2/a", b"two")]);
    symlink("data/v1", fixture.path("current")).unwrap();
    symlink("../current/../v2/a", fixture.path("data/other")).unwrap();
    assert_eq!(fixture.get("/current/a").body, b"one");
    assert_eq!(fixture.get("/data/other").body, b"two");
    symlink("data/v2", fixture.path("next")).unwrap();
    fs::rename(fixture.path("next"), fixture.path("current")).unwrap();
    assert_eq!(fixture.get("/current/a").body, b"two");
}

#[test]
fn names_with_a_dot_before_them_are_not_there() {
    let fixture = Fixture::new(&[
        (".env", b"secret"),
        (".git/config", b"secret"),
        ("a/.htpasswd", b"secret"),
        (".well-known/acme-challenge/token", b"token"),
        (".well-known/.hidden", b"secret"),
        ("a/.well-known/x", b"secret"),
        ("..twice", b"secret"),
    ]);
    for target in [
        "/.env",
        "/%2Eenv",
        "/.git/config",
        "/.git",
        "/.git/",
        "/a/.htpasswd",
        "/.well-known/.hidden",
        "/a/.well-known/x",
        "/..twice",
    ] {
        assert_eq!(fixture.status(target), 404, "{target}");
    }
    assert_eq!(
        fixture.get("/.well-known/acme-challenge/token").body,
        b"token"
    );
}

#[test]
fn folders_have_an_index_and_a_slash() {
    let fixture = Fixture::new(&[
        ("index.html", b"root"),
        ("a b/index.html", b"index"),
        ("a b/ü/index.html", b"deep"),
        ("no-index/x", b""),
        ("index-is-folder/index.html/x", b""),
        ("evil.example/index.html", b""),
        ("javascript:alert(1)/index.html", b""),
    ]);
    assert_eq!(fixture.get("/").body, b"root");
    assert_eq!(fixture.get("/a%20b/").body, b"index");
    assert_eq!(
        fixture.get("/a%20b/").field(CONTENT_TYPE),
        Some("text/html; charset=utf-8")
    );
    for (target, address) in [
        ("/a%20b", "./a%20b/"),
        ("/a%20b?x=1&y=//z", "./a%20b/?x=1&y=//z"),
        ("/a%20b/%C3%BC", "./%C3%BC/"),
        ("/a%20b/ü?ü", "./%C3%BC/?%C3%BC"),
        ("/no-index", "./no-index/"),
        ("/evil.example", "./evil.example/"),
        ("/javascript:alert(1)", "./javascript:alert(1)/"),
    ] {
        let answer = fixture.get(target);
        assert_eq!(
            (answer.status.as_u16(), answer.field(LOCATION)),
            (301, Some(address)),
            "{target}"
        );
    }
    // The path is to be normal; where it is not, no address of another host comes of it.
    for target in [
        "//evil.example",
        "//evil.example/%2e%2e",
        "//evil.example/a%20b",
        "/\\evil.example",
    ] {
        let answer = fixture.get(target);
        assert_eq!(
            (answer.status.as_u16(), answer.field(LOCATION)),
            (404, None),
            "{target}"
        );
    }
    for target in [
        "/no-index/",
        "/index-is-folder/",
        "/index.html/",
        "/none",
        "/none/",
    ] {
        assert_eq!(fixture.status(target), 404, "{target}");
    }
}

/// Who opens a FIFO wakes its other end, and who opens a device may rewind a tape.
#[test]
fn what_is_no_file_is_never_opened() {
    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

    let fixture = Fixture::new(&[("file", b"x")]);
    rustix::fs::mkfifoat(CWD, fixture.path("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
    let _listener = UnixListener::bind(fixture.path("socket")).unwrap();
    let device = fixture.path("device");
    // Where the tests may make one.
    let null = rustix::fs::makedev(1, 3);
    let has_device =
        rustix::fs::mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR, null).is_ok();
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, fixture.folder.path(), WatchFlags::OPEN).unwrap();
    let opened = || {
        let mut room = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&watch, &mut room);
        let mut names = Vec::new();
        while let Ok(event) = reader.next() {
            names.extend(
                event
                    .file_name()
                    .map(|name| name.to_str().unwrap().to_owned()),
            );
        }
        names
    };
    for target in ["/fifo", "/socket", "/device", "/fifo/", "/socket/x"] {
        assert_eq!(fixture.status(target), 404, "{target}");
    }
    assert_eq!(opened(), Vec::<String>::new(), "device: {has_device}");
    assert_eq!(fixture.status("/file"), 200);
    assert_eq!(opened(), ["file"]);
}

#[test]
fn what_the_server_may_not_read_is_forbidden() {
    let fixture = Fixture::new(&[
        ("secret", b"secret"),
        ("closed/a", b"a"),
        ("open", b"open"),
        ("open.gz", b"packed"),
    ]);
    let chmod = |name, mode| {
        fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (name, mode) in [
        ("", 0o755),
        ("open", 0o644),
        ("secret", 0o000),
        ("open.gz", 0o000),
        ("closed", 0o000),
    ] {
        chmod(name, mode);
    }
    let config = config::Files {
        root: fixture.folder.path().to_owned(),
        index: "secret".to_owned(),
        precompressed: true,
        cache_control: None,
    };
    let answers = as_ordinary_user(move || {
        let request = |target: &str| {
            Request::builder()
                .uri(target)
                .body(())
                .unwrap()
                .into_parts()
                .0
        };
        let files = files_of(&config).unwrap();
        [
            "/secret",
            "/closed/a",
            "/closed/b",
            "/closed",
            "/",
            "/open",
            "/none",
        ]
        .map(|target| block_on(files.respond(&request(target))).status().as_u16())
    });
    chmod("closed", 0o755);
    // Of a folder that can't be entered nobody can say what is in it.
    assert_eq!(answers, [403, 403, 403, 301, 403, 200, 404]);
}

/// Does something without root's rights over files. Credentials are a thread's own to the kernel.
fn as_ordinary_user<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    use rustix::process::{Gid, Uid, geteuid};
    let thread = std::thread::spawn(move || {
        if geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(65534), Gid::from_raw(65534));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        }
        act()
    });
    thread.join().unwrap()
}
