use super::*;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, Request, StatusCode,
    header::{
        ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED,
        LOCATION, RANGE, RETRY_AFTER, VARY,
    },
};
use http_body_util::BodyExt;
use load::Wait;
use rustix::{
    fs::{FileType, Mode, Timespec, Timestamps},
    io::Errno,
};
use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    time::{Duration, Instant},
};
use tempfile::TempDir;

mod changes;
mod parts;
mod places;

/// A folder, and the service of it.
struct Fixture {
    folder: TempDir,
    files: Files,
}

/// A response, all of it.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Fixture {
    /// A fixture with these files, which looks at them with every request.
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            write(folder.path(), name, content);
        }
        let config = config::Files {
            root: folder.path().to_owned(),
            index: "index.html".to_owned(),
            precompressed: true,
            cache_control: Some(HeaderValue::from_static("max-age=60")),
        };
        let files = files_of(&config).unwrap();
        Self { folder, files }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn begin(&self, method: Method, target: &str, fields: &[(HeaderName, &str)]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(name, *value);
        }
        let request = request.body(()).unwrap().into_parts().0;
        block_on(self.files.respond(&request))
    }

    fn ask(&self, method: Method, target: &str, fields: &[(HeaderName, &str)]) -> Answer {
        let (head, body) = self.begin(method, target, fields).into_parts();
        Answer {
            status: head.status,
            headers: head.headers,
            body: block_on(body.collect()).unwrap().to_bytes().to_vec(),
        }
    }

    fn get(&self, target: &str) -> Answer {
        self.ask(Method::GET, target, &[])
    }

    fn get_with(&self, target: &str, fields: &[(HeaderName, &str)]) -> Answer {
        self.ask(Method::GET, target, fields)
    }

    fn status(&self, target: &str) -> u16 {
        self.get(target).status.as_u16()
    }
}

/// The files of one folder, which are looked at with every request.
fn files_of(config: &config::Files) -> Result<Files, FilesError> {
    files_that_may_be(config, Box::new(|| Ok(())))
}

/// The same of a folder that `check` is asked of.
fn files_that_may_be(config: &config::Files, check: Check) -> Result<Files, FilesError> {
    let root = std::iter::once(config.root.clone());
    let abi = palisade_process::Machine::probe().landlock_abi;
    let served = Served::open(root, None, abi, check, Box::new(|_| {}))?;
    let mut files = Files::new(config, &served)?;
    files.trust_ms = 0;
    Ok(files)
}

impl Answer {
    fn field(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// Writes a file that was last changed in 1994, so that a later change has another time on any kernel.
fn write(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    set_time(&path, 784_111_777);
}

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 123_456_789,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
}

/// Content that is different everywhere, and no piece long.
fn big(bytes: usize) -> Vec<u8> {
    (0..bytes as u32 / 4 + 1)
        .flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes())
        .take(bytes)
        .collect()
}

#[test]
fn a_file_has_its_content_and_says_what_it_is() {
    let fixture = Fixture::new(&[
        ("a.html", b"<p>"),
        ("b/c.unknown", b"?"),
        ("empty.json", b""),
    ]);
    let answer = fixture.get("/a.html?query");
    assert_eq!(
        (answer.status, &*answer.body),
        (StatusCode::OK, b"<p>".as_slice())
    );
    for (name, expected) in [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_LENGTH, "3"),
        (LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (CACHE_CONTROL, "max-age=60"),
        (HeaderName::from_static("x-content-type-options"), "nosniff"),
        (HeaderName::from_static("accept-ranges"), "bytes"),
    ] {
        assert_eq!(answer.field(name.clone()), Some(expected), "{name}");
    }
    assert_eq!(answer.field(VARY), None);
    let etag = answer.field(ETAG).unwrap();
    assert!(
        etag.len() > 10 && etag.starts_with('"') && etag.ends_with('"'),
        "{etag}"
    );
    let other = fixture.get("/b/c.unknown");
    assert_eq!(other.field(CONTENT_TYPE), Some("application/octet-stream"));
    assert_ne!(other.field(ETAG), Some(etag));
    let empty = fixture.get("/empty.json");
    assert_eq!((empty.status, empty.body.len()), (StatusCode::OK, 0));
    assert_eq!(empty.field(CONTENT_LENGTH), Some("0"));
    assert_eq!(empty.field(CONTENT_TYPE), Some("application/json"));
}

#[test]
fn big_files_arrive_whole_from_memory_and_from_disk() {
    for bytes in [
        load::PIECE_BYTES - 1,
        load::PIECE_BYTES,
        load::PIECE_BYTES + 1,
        5 * load::PIECE_BYTES + 77,
    ] {
        let content = big(bytes);
        let fixture = Fixture::new(&[("big", &content)]);
        // Out of the kernel's memory, where the file system lets one: it is read by a blocking thread then.
        let file = fs::File::open(fixture.path("big")).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        for _ in 0..2 {
            let answer = fixture.get("/big");
            assert_eq!(answer.field(CONTENT_LENGTH), Some(&*bytes.to_string()));
            assert!(answer.body == content, "{bytes}");
        }
    }
}

/// A file system that can't say what it has in memory: each read has to be made where waiting is no harm.
#[test]
fn what_may_have_to_be_waited_for_is_read_elsewhere() {
    let proc = Arc::new(OwnedFd::from(fs::File::open("/proc").unwrap()));
    let (file, stamp) = load::open_file(&proc, c"version").unwrap();
    let read = load::read_at(&file, &mut [0; 100], 0, Wait::Never);
    assert_eq!(read, Err(Fault::WouldWait));
    let content = fs::read("/proc/version").unwrap();
    let pieces = vec![
        stream::Piece::OfFile(7..content.len() as u64),
        stream::Piece::Ready(Bytes::from_static(b"between")),
        stream::Piece::OfFile(0..1),
    ];
    let body = stream::FileBody::new(pieces, Some(Arc::new(file)), stamp);
    let read = block_on(body.collect()).unwrap().to_bytes();
    assert_eq!(read, [&content[7..], b"between", &content[..1]].concat());
}

#[test]
fn head_is_get_without_a_body() {
    let fixture = Fixture::new(&[
        ("a.txt", b"text"),
        ("z.js", b"plain script"),
        ("z.js.gz", b"packed"),
        ("big", &big(300_000)),
        ("folder/index.html", b"index"),
    ]);
    let packed = [(ACCEPT_ENCODING, "gzip")];
    for target in [
        "/a.txt", "/z.js", "/big", "/folder/", "/folder", "/nothing", "/.hidden", "/",
    ] {
        for fields in [&[] as &[_], &packed] {
            let get = fixture.get_with(target, fields);
            let head = fixture.ask(Method::HEAD, target, fields);
            assert_eq!(
                (get.status, &get.headers),
                (head.status, &head.headers),
                "{target}"
            );
            assert_eq!(
                get.field(CONTENT_LENGTH),
                Some(&*get.body.len().to_string()),
                "{target}"
            );
            assert!(!get.body.is_empty() && head.body.is_empty(), "{target}");
        }
    }
    let ranged = fixture.ask(Method::HEAD, "/a.txt", &[(RANGE, "bytes=0-0")]);
    assert_eq!(
        (ranged.status, ranged.field(CONTENT_LENGTH)),
        (StatusCode::OK, Some("4"))
    );
}

#[test]
fn files_are_only_read() {
    let fixture = Fixture::new(&[("a", b"a")]);
    for method in [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::TRACE,
        Method::CONNECT,
    ] {
        for target in ["/a", "/none"] {
            let answer = fixture.ask(method.clone(), target, &[]);
            assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
            assert_eq!(answer.field(ALLOW), Some("GET, HEAD, OPTIONS"));
        }
    }
    for target in ["/a", "*"] {
        let answer = fixture.ask(Method::OPTIONS, target, &[]);
        assert_eq!(
            (answer.status, answer.field(ALLOW)),
            (StatusCode::NO_CONTENT, Some("GET, HEAD, OPTIONS"))
        );
    }
    assert_eq!(fs::read(fixture.path("a")).unwrap(), b"a");
}

#[test]
fn conditions_decide_between_200_304_and_412() {
    for content in [b"small".to_vec(), big(200_000)] {
        let fixture = Fixture::new(&[("a", &content)]);
        let etag = fixture.get("/a").field(ETAG).unwrap().to_owned();
        let at = "Sun, 06 Nov 1994 08:49:37 GMT";
        let fresh = fixture.get_with("/a", &[(IF_NONE_MATCH, &etag), (RANGE, "bytes=0-0")]);
        assert_eq!(
            (fresh.status, fresh.body.len()),
            (StatusCode::NOT_MODIFIED, 0)
        );
        assert_eq!(fresh.field(ETAG), Some(&*etag));
        assert_eq!(fresh.field(CACHE_CONTROL), Some("max-age=60"));
        assert_eq!(
            (fresh.field(CONTENT_LENGTH), fresh.field(CONTENT_TYPE)),
            (None, None)
        );
        assert_eq!(
            fixture.get_with("/a", &[(IF_MODIFIED_SINCE, at)]).status,
            StatusCode::NOT_MODIFIED
        );
        let head = fixture.ask(Method::HEAD, "/a", &[(IF_NONE_MATCH, "*")]);
        assert_eq!(head.status, StatusCode::NOT_MODIFIED);
        let failed = fixture.get_with("/a", &[(IF_MATCH, "\"other\"")]);
        assert_eq!(failed.status, StatusCode::PRECONDITION_FAILED);
        assert_eq!(fixture.get_with("/a", &[(IF_MATCH, &etag)]).body, content);
        // Of what is not there nothing is conditional.
        assert_eq!(
            fixture.get_with("/b", &[(IF_MATCH, "*")]).status,
            StatusCode::NOT_FOUND
        );
    }
}

#[test]
fn a_client_gets_the_coding_that_it_likes() {
    let fixture = Fixture::new(&[
        ("a.css", b"plain"),
        ("a.css.br", b"brotli"),
        ("a.css.gz", b"gzipped"),
        ("b.css", b"plain"),
        ("old.css", b"new"),
        ("old.css.gz", b"of before"),
        ("only.css.gz", b"no plain one"),
    ]);
    set_time(&fixture.path("old.css.gz"), 784_111_776);
    let get = |target: &str, codings| {
        let answer = fixture.get_with(target, &[(ACCEPT_ENCODING, codings)]);
        let text = |name| answer.field(name).map(str::to_owned);
        (
            String::from_utf8(answer.body.clone()).unwrap(),
            text(CONTENT_ENCODING),
            text(VARY),
            text(CONTENT_TYPE),
        )
    };
    let css = Some("text/css; charset=utf-8".to_owned());
    let vary = Some("accept-encoding".to_owned());
    for (codings, content, coding) in [
        ("br, gzip", "brotli", Some("br")),
        ("gzip, zstd", "gzipped", Some("gzip")),
        ("br;q=0.1, gzip;q=0.2", "gzipped", Some("gzip")),
        ("zstd", "plain", None),
        ("", "plain", None),
    ] {
        let expected = (
            content.to_owned(),
            coding.map(str::to_owned),
            vary.clone(),
            css.clone(),
        );
        assert_eq!(get("/a.css", codings), expected, "{codings}");
    }
    assert_eq!(
        get("/b.css", "br, gzip"),
        ("plain".to_owned(), None, None, css.clone())
    );
    // A sibling that was forgotten when the file was changed.
    assert_eq!(get("/old.css", "gzip"), ("new".to_owned(), None, None, css));
    assert_eq!(fixture.status("/only.css"), 404);
    // As a file of its own it is what its name says.
    let packed = get("/a.css.gz", "gzip");
    assert_eq!(
        (&*packed.0, packed.1, packed.3.as_deref()),
        ("gzipped", None, Some("application/gzip"))
    );
    // Each variant is something else, and a part is one of the variant.
    let plain = fixture.get("/a.css");
    let coded = fixture.get_with("/a.css", &[(ACCEPT_ENCODING, "gzip"), (RANGE, "bytes=1-2")]);
    assert_ne!(plain.field(ETAG), coded.field(ETAG));
    assert_eq!(
        (&*coded.body, coded.field(CONTENT_RANGE)),
        (b"zi".as_slice(), Some("bytes 1-2/7"))
    );
}

#[test]
fn what_is_kept_has_bounds() {
    let names: Vec<_> = (0..400).map(|number| format!("file-{number}")).collect();
    let content = big(10_000);
    let files: Vec<_> = names.iter().map(|name| (&**name, &*content)).collect();
    let mut fixture = Fixture::new(&files);
    let bounds = Bounds {
        entries: 50,
        bytes: 300_000,
    };
    fixture.files.cache = RefCell::new(Cache::new(bounds));
    for round in 0..2 {
        for name in &names {
            assert!(
                fixture.get(&format!("/{name}")).body == content,
                "{round} {name}"
            );
            assert_eq!(fixture.status(&format!("/{name}-not")), 404);
        }
    }
    let (entries, bytes) = fixture.files.cache.borrow().size();
    assert!(
        (1..=50).contains(&entries) && bytes <= 300_000,
        "{entries} {bytes}"
    );
    assert!(bytes > 200_000, "{bytes}");
}

/// The second wall: whoever is sent astray by a wrong name or link reads nothing there.
#[test]
fn readers_open_what_is_served_and_nothing_else() {
    let fixture = Fixture::new(&[("f", b"served")]);
    let other = tempfile::tempdir().unwrap();
    write(other.path(), "f", b"not served");
    symlink(other.path().join("f"), fixture.path("astray")).unwrap();
    let (_, folders) = fixture.files.root();
    let read = |path: PathBuf| {
        let work = move || fs::read(path).map_err(|error| Errno::from_io_error(&error));
        let work = move || work().map_err(|errno| Fault::from(errno.unwrap_or(Errno::IO)));
        block_on(folders.readers.read(work))
    };
    assert_eq!(read(fixture.path("f")).unwrap(), b"served");
    for path in [
        other.path().join("f"),
        fixture.path("astray"),
        "/etc/passwd".into(),
        "/proc/self/environ".into(),
    ] {
        assert_eq!(read(path.clone()), Err(Fault::Forbidden), "{path:?}");
        // It is there for everybody else.
        fs::read(&path).unwrap();
    }
    let (own, program) = (fixture.path("f"), || {
        std::process::Command::new("/bin/true").status()
    });
    let writes = move || {
        let refusals = [
            fs::write(&own, "").map(drop),
            fs::remove_file(&own),
            program().map(drop),
        ];
        Ok(refusals.map(|refusal| refusal.unwrap_err().kind()))
    };
    let refused = block_on(folders.readers.read(writes)).unwrap();
    assert_eq!(refused, [io::ErrorKind::PermissionDenied; 3]);
    program().unwrap();
}

/// A big file is open for those who come next, and closed soon after: who removes it gets its space back.
#[test]
fn big_files_are_held_for_a_moment() {
    let fixture = Fixture::new(&[("big", &big(2 * load::PIECE_BYTES))]);
    let of_it = fs::metadata(fixture.path("big")).unwrap();
    let is_it = |file: fs::DirEntry| {
        let file = fs::metadata(file.path());
        file.is_ok_and(|file| (file.dev(), file.ino()) == (of_it.dev(), of_it.ino()))
    };
    let count = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().map(Result::unwrap);
        open.map(is_it).filter(|is_it| *is_it).count()
    };
    let request = Request::get("/big").body(()).unwrap().into_parts().0;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    for _ in 0..2 {
        let answer = runtime.block_on(fixture.files.respond(&request));
        assert_eq!(answer.status(), StatusCode::OK);
        drop(answer);
        assert_eq!(count(), 1, "the next one has the same");
    }
    let until = Instant::now() + Duration::from_secs(20);
    while count() > 0 {
        assert!(Instant::now() < until, "it is still open");
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    }
}

/// A folder that takes the place of one that was served is asked about as the first one was.
#[test]
fn a_folder_that_may_not_be_served_is_not_followed() {
    use std::sync::atomic::{AtomicU32, Ordering};

    let sites = tempfile::tempdir().unwrap();
    write(sites.path(), "v1/f", b"one");
    write(sites.path(), "v2/f", b"two");
    let current = sites.path().join("current");
    symlink("v1", &current).unwrap();
    let config = config::Files {
        root: current.clone(),
        index: "index.html".to_owned(),
        precompressed: false,
        cache_control: None,
    };
    let asked = Arc::new(AtomicU32::new(0));
    let check = {
        let asked = Arc::clone(&asked);
        move || match asked.fetch_add(1, Ordering::SeqCst) {
            0 => Err("not that one".to_owned()),
            _ => Ok(()),
        }
    };
    let fixture = Fixture {
        files: files_that_may_be(&config, Box::new(check)).unwrap(),
        folder: sites,
    };
    symlink("v2", fixture.path("next")).unwrap();
    fs::rename(fixture.path("next"), &current).unwrap();
    while asked.load(Ordering::SeqCst) == 0 {
        assert_eq!(fixture.get("/f").body, b"one");
    }
    let refused = Instant::now();
    while fixture.get("/f").body != b"two" {
        std::thread::yield_now();
    }
    // It is not asked again at each request.
    assert!(refused.elapsed() > Duration::from_millis(500));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn a_folder_has_to_be_there_and_an_index_has_to_be_a_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let new = |name: &str, index: &str| {
        let config = config::Files {
            root: folder.path().join(name),
            index: index.to_owned(),
            precompressed: false,
            cache_control: None,
        };
        files_of(&config).map(drop)
    };
    assert!(new("", "index.html").is_ok());
    for name in ["none", "file"] {
        let error = new(name, "index.html").unwrap_err();
        assert!(matches!(error, FilesError::Root { .. }) && error.to_string().contains(name));
    }
    for index in ["", ".", "..", "a/b", "../x", "a\0"] {
        assert!(
            matches!(new("", index), Err(FilesError::Index(_))),
            "{index}"
        );
    }
}
