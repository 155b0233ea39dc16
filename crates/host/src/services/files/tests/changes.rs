//! Files that change while they are served.

use super::*;

const BIG: usize = 6 * load::PIECE_BYTES;

/// What is done to a file, and what that is called.
type Act<'act> = (&'static str, &'act dyn Fn(&Path));

/// What arrives of a body, and whether it broke off.
fn rest_of(body: Body) -> (Vec<u8>, bool) {
    let mut body = body;
    let mut bytes = Vec::new();
    block_on(async {
        loop {
            match body.frame().await {
                None => return (bytes, false),
                Some(Ok(frame)) => bytes.extend(frame.into_data().unwrap()),
                Some(Err(_)) => {
                    assert!(body.frame().await.is_none(), "something follows the error");
                    return (bytes, true);
                }
            }
        }
    })
}

/// Begins to send a file, does something to it, and gives what arrives.
fn change_while_sent(act: impl FnOnce(&Path)) -> (Vec<u8>, Vec<u8>, bool) {
    let content = big(BIG);
    let fixture = Fixture::new(&[("f", &content)]);
    let response = fixture.begin(Method::GET, "/f", &[]);
    assert_eq!(response.headers()[CONTENT_LENGTH], *BIG.to_string());
    let mut body = response.into_body();
    let first = block_on(body.frame())
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap();
    assert!(!first.is_empty() && first.len() <= load::PIECE_BYTES);
    act(&fixture.path("f"));
    let (rest, is_broken) = rest_of(body);
    let received = [&first[..], &rest].concat();
    (content, received, is_broken)
}

#[test]
fn a_file_that_is_changed_in_its_place_breaks_off() {
    let open = |path: &Path| fs::File::options().write(true).open(path).unwrap();
    let acts: [Act<'_>; 4] = [
        ("cut", &|path| {
            open(path).set_len(load::PIECE_BYTES as u64 + 10).unwrap();
        }),
        ("emptied", &|path| drop(fs::File::create(path).unwrap())),
        ("written over", &|path| {
            let mut file = open(path);
            file.seek(SeekFrom::End(-10)).unwrap();
            file.write_all(b"other text").unwrap();
        }),
        ("longer", &|path| {
            let mut file = fs::File::options().append(true).open(path).unwrap();
            file.write_all(b"more").unwrap();
        }),
    ];
    for (name, act) in acts {
        let (content, received, is_broken) = change_while_sent(act);
        assert!(is_broken, "{name}: {} bytes", received.len());
        assert!(
            received.len() < content.len() && content.starts_with(&received),
            "{name}"
        );
    }
}

#[test]
fn a_file_that_is_removed_or_replaced_is_sent_to_its_end() {
    let acts: [Act<'_>; 3] = [
        ("removed", &|path| fs::remove_file(path).unwrap()),
        ("replaced", &|path| {
            fs::write(path.with_extension("new"), vec![0; BIG]).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
        }),
        ("forbidden", &|path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (name, act) in acts {
        let (content, received, is_broken) = change_while_sent(act);
        assert!(
            !is_broken && received == content,
            "{name}: {} bytes",
            received.len()
        );
    }
}

#[test]
fn the_next_request_sees_a_change() {
    for bytes in [10, BIG] {
        let (one, two) = (big(bytes), vec![b'2'; bytes]);
        let fixture = Fixture::new(&[("f", &one)]);
        let first = fixture.get("/f");
        assert!(first.body == one);
        fs::write(fixture.path("f"), &two).unwrap();
        let second = fixture.get("/f");
        assert!(second.body == two);
        assert_ne!(first.field(ETAG), second.field(ETAG));
        // Also where nothing but the kernel's own time tells.
        fs::write(fixture.path("f"), &one).unwrap();
        set_time(&fixture.path("f"), 784_111_777);
        assert!(fixture.get("/f").body == one);
        fs::remove_file(fixture.path("f")).unwrap();
        assert_eq!(fixture.status("/f"), 404);
        assert_eq!(fixture.files.cache.borrow().size(), (0, 0));
        fs::create_dir(fixture.path("f")).unwrap();
        assert_eq!(fixture.status("/f"), 301);
        write(fixture.folder.path(), "f/index.html", b"index");
        assert_eq!(fixture.get("/f/").body, b"index");
    }
}

#[test]
fn a_sibling_that_comes_or_goes_is_seen() {
    let fixture = Fixture::new(&[("f", b"plain")]);
    let get = || fixture.get_with("/f", &[(ACCEPT_ENCODING, "gzip")]).body;
    assert_eq!(get(), b"plain");
    write(fixture.folder.path(), "f.gz", b"packed");
    assert_eq!(get(), b"packed");
    set_time(&fixture.path("f"), 784_111_778);
    assert_eq!(get(), b"plain");
    set_time(&fixture.path("f.gz"), 784_111_778);
    assert_eq!(get(), b"packed");
    fs::remove_file(fixture.path("f.gz")).unwrap();
    assert_eq!(get(), b"plain");
}

/// For a moment nobody looks: that is what makes it fast.
#[test]
fn what_was_looked_at_lately_is_believed() {
    let mut fixture = Fixture::new(&[("f", b"one"), ("f.gz", b"packed")]);
    fixture.files.trust_ms = u64::MAX;
    let first = fixture.get("/f");
    fs::remove_file(fixture.path("f")).unwrap();
    let second = fixture.get("/f");
    assert_eq!((first.body, first.headers), (second.body, second.headers));
    fixture.files.trust_ms = 0;
    assert_eq!(fixture.status("/f"), 404);
}

/// A big file's headers are kept, and its content is opened each time: they have to fit.
#[test]
fn kept_headers_never_go_with_other_content() {
    let mut fixture = Fixture::new(&[("f", &big(BIG))]);
    fixture.files.trust_ms = u64::MAX;
    let first = fixture.get("/f");
    fs::write(fixture.path("f"), big(BIG + 1)).unwrap();
    let second = fixture.get("/f");
    assert_eq!(second.field(CONTENT_LENGTH), Some(&*(BIG + 1).to_string()));
    assert_ne!(first.field(ETAG), second.field(ETAG));
    assert_eq!(second.body.len(), BIG + 1);
}

/// An entry is used again once the file is old enough for every change to show.
#[test]
fn an_unchanged_file_is_not_read_again() {
    let fixture = Fixture::new(&[("f", b"one"), ("f.br", b"packed")]);
    let find = || block_on(fixture.files.find("/f")).unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while !Rc::ptr_eq(&find(), &find()) {
        assert!(Instant::now() < end, "read with every request");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = find();
    assert!(Rc::ptr_eq(&before, &find()));
    fs::set_permissions(fixture.path("f"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!Rc::ptr_eq(&before, &find()));
}

#[test]
fn a_folder_that_is_replaced_is_followed() {
    let sites = tempfile::tempdir().unwrap();
    for (name, content) in [("v1", b"one"), ("v2", b"two")] {
        write(sites.path(), &format!("{name}/f"), content);
    }
    let current = sites.path().join("current");
    symlink("v1", &current).unwrap();
    let mut fixture = Fixture::new(&[]);
    let config = config::Files {
        root: current.clone(),
        index: "index.html".to_owned(),
        precompressed: false,
        cache_control: None,
    };
    fixture.files = files_of(&config).unwrap();
    assert_eq!(fixture.get("/f").body, b"one");
    symlink("v2", sites.path().join("next")).unwrap();
    fs::rename(sites.path().join("next"), &current).unwrap();
    // It is opened beside the requests.
    while fixture.get("/f").body != b"two" {
        std::thread::yield_now();
    }
    // For a moment, or for good: what was there is still the same.
    fs::remove_file(&current).unwrap();
    assert_eq!(fixture.get("/f").body, b"two");
}

/// Whoever writes all the time gets no reader a mixture; a small file is read again until it stands still.
#[test]
fn readers_of_a_file_under_rewriting_see_one_state() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let fixture = Fixture::new(&[("f", &[b'a'; 5000])]);
    let (path, is_over) = (fixture.path("f"), AtomicBool::new(false));
    let (mut whole, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for letter in (b'a'..=b'z').cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                fs::write(path.with_extension("new"), vec![letter; 5000]).unwrap();
                fs::rename(path.with_extension("new"), &path).unwrap();
            }
        });
        for _ in 0..300 {
            let answer = fixture.get("/f");
            match answer.status {
                StatusCode::OK => {
                    let [first, ..] = answer.body[..] else {
                        panic!("empty")
                    };
                    assert!(answer.body == [first; 5000]);
                    whole += 1;
                }
                status => {
                    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
                    assert_eq!(answer.field(RETRY_AFTER), Some("1"));
                    refused += 1;
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(whole > 0, "{refused} refused");
}
