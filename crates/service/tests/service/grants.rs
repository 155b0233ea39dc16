//! What a guest may use beside its request, and what is refused.

use crate::{
    Loaded,
    fixture::{self, Fixture, policy},
    guests,
};
use palisade_engine::permits::Share;
use palisade_service::{Component, Imports, Isolation, Links, LoadError, Stream, World};
use std::time::Duration;

pub(crate) fn words_go_to_the_log_by_lines(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    assert_eq!(fixture.get("/words").text(), "said\n");
    let line = |stream, text: &str| (stream, text.to_owned());
    assert_eq!(
        fixture.metrics().lines,
        [
            line(Stream::Stdout, "one"),
            line(Stream::Stderr, "to the terminal \\u{1b}[2J"),
            line(Stream::Stdout, "two"),
            line(Stream::Stdout, "three"),
        ]
    );
}

pub(crate) fn output_has_its_limit(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\noutput = \"10KiB\"");
    for requests in 1..=2 {
        assert_eq!(fixture.get("/flood").text(), "said\n");
        let metrics = fixture.metrics();
        let told: usize = metrics.lines.iter().map(|(_, line)| line.len()).sum();
        assert!(told < requests * (11 << 10), "{told}");
        let cuts = metrics
            .lines
            .iter()
            .filter(|(stream, _)| *stream == Stream::Wall);
        assert_eq!(cuts.count(), requests, "told once");
    }
}

pub(crate) fn variables_are_those_granted(component: &Loaded) {
    assert_eq!(Fixture::new(component, "").get("/env").text(), "[]");
    let fixture = Fixture::new(component, "[grants]\nenv = [\"GREETING=hello\"]");
    assert_eq!(fixture.get("/env").text(), "[(\"GREETING\", \"hello\")]");
}

pub(crate) fn files_are_those_granted(component: &Loaded) {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("site");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("page"), "a page").unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
    let grant = |access| format!("[grants]\n{access} = [\"{}:/site\"]", folder.display());
    let none = Fixture::new(component, "");
    assert_eq!(
        none.get("/read?/site//page").text(),
        "no such folder among 0"
    );
    let reads = Fixture::new(component, &grant("read"));
    assert_eq!(reads.get("/read?/site//page").text(), "a page");
    for path in ["../secret", "link", "/etc/passwd"] {
        let text = reads.get(&format!("/read?/site//{path}")).text();
        assert!(text != "secret" && text.len() < 40, "{path}: {text}");
    }
    assert_ne!(reads.get("/write?/site//new").text(), "7");
    assert!(!folder.join("new").exists());
    let writes = Fixture::new(component, &grant("write"));
    assert_eq!(writes.get("/write?/site//new").text(), "7");
    assert_eq!(
        std::fs::read_to_string(folder.join("new")).unwrap(),
        "written"
    );
}

/// A page, a FIFO and a link to it, and what lets a guest write there.
fn folder_with_fifo() -> (tempfile::TempDir, String) {
    use rustix::fs::{CWD, FileType, mknodat};
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("page"), "a page").unwrap();
    let fifo = folder.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, 0o666.into(), 0).unwrap();
    std::os::unix::fs::symlink("fifo", folder.path().join("link")).unwrap();
    let path = folder.path().canonicalize().unwrap();
    let policy = format!(
        "[grants]\nwrite = [\"{}:/site\"]\n[limits]\ntime = \"10s\"",
        path.display()
    );
    (folder, policy)
}

/// Each open of a FIFO would hold a thread for ever, also at the end.
pub(crate) fn what_is_no_file_is_not_opened(component: &Loaded) {
    let (folder, policy) = folder_with_fifo();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let fixture = Fixture::new(component, &policy);
    for path in ["fifo", "link", "socket"] {
        for act in ["read", "write"].repeat(16) {
            let text = fixture.get(&format!("/{act}?/site//{path}")).text();
            assert_eq!(text, "unsupported", "{act} {path}");
        }
    }
    assert_eq!(fixture.get("/read?/site//page").text(), "a page");
    assert_eq!(fixture.get("/read?/site//none").text(), "no-entry");
    assert_eq!(fixture.get("/read?/site//page/x").text(), "not-directory");
    assert_eq!(fixture.metrics().faults, 0);
}

pub(crate) fn what_is_no_file_is_not_opened_by_a_task(component: &Loaded) {
    let (_folder, policy) = folder_with_fifo();
    let fixture = Fixture::new(component, &policy);
    for path in ["fifo", "link"].repeat(16) {
        let text = fixture.get(&format!("/open?{path}")).text();
        assert!(text.ends_with("Unsupported"), "{path}: {text}");
    }
    let text = fixture.get("/open?page").text();
    assert!(text.contains("RegularFile"), "{text}");
    let text = fixture.get("/open?../page").text();
    assert!(text.ends_with("NotPermitted"), "{text}");
}

pub(crate) fn there_are_no_sockets(component: &Loaded) {
    // Also where requests may be sent.
    let fixture = Fixture::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:80\"]");
    let text = fixture.get("/socket").text();
    assert!(
        text.contains("connect Err(") && text.contains("look up Err("),
        "{text}"
    );
}

pub(crate) fn a_request_is_sent_only_where_granted(component: &Loaded) {
    let fixture = Fixture::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:8080\"]");
    for target in ["127.0.0.1:8081/x", "127.0.0.2:8080/x", "example.com/x"] {
        let text = fixture.get(&format!("/send?{target}")).text();
        assert_eq!(text, "ErrorCode::HttpRequestDenied", "{target}");
    }
    let metrics = fixture.metrics();
    assert_eq!(metrics.denied, 3);
    assert!(metrics.sent.is_empty());
    assert!(
        metrics.lines[0].1.contains("tcp://127.0.0.1:8081"),
        "{:?}",
        metrics.lines
    );
}

pub(crate) fn a_request_is_sent_where_granted(component: &Loaded) {
    let fixture = Fixture::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:8080\"]");
    assert_eq!(fixture.get("/send?127.0.0.1:8080/x").text(), "200 sent /x");
    let metrics = fixture.metrics();
    let (target, times) = &metrics.sent[0];
    assert_eq!((target.host.as_str(), target.port), ("127.0.0.1", 8080));
    assert_eq!(times.connect, Some(Duration::from_secs(5)));
    assert_eq!(metrics.denied, 0);
}

/// Each guest sends a hundred requests, and keeps the answers as long as its client goes on.
pub(crate) fn requests_under_way_have_their_limits(component: &Loaded) {
    let fixture = Fixture::new(component, "[grants]\nconnect = [\"tcp://127.0.0.1:8080\"]");
    fixture.run(async {
        let ask = || async {
            let (parts, body) = fixture::channel();
            parts.data("begun");
            let request = fixture::request("/send-many?127.0.0.1:8080/x", body);
            let mut response = fixture.ask_async(request).await.unwrap().into_body();
            let told = fixture::next(&mut response).await.into_data().unwrap();
            (String::from_utf8(told.to_vec()).unwrap(), parts, response)
        };
        const REFUSED: &str = "Some(Err(ErrorCode::ConnectionLimitReached))";
        let mut under_way = Vec::new();
        for _ in 0..8 {
            let (told, parts, response) = ask().await;
            assert_eq!(told, format!("32 {REFUSED}"));
            under_way.push((parts, response));
        }
        assert_eq!(ask().await.0, format!("0 {REFUSED}"));
        under_way.pop();
        assert_eq!(
            ask().await.0,
            format!("32 {REFUSED}"),
            "there is room again"
        );
    });
    let metrics = fixture.metrics();
    assert_eq!((metrics.faults, metrics.denied), (0, 0));
    assert_eq!(metrics.lines.len(), 10, "each is told once");
}

pub(crate) fn memory_that_is_held_is_told(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    fixture.run(async {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        let response = fixture
            .ask_async(fixture::request("/echo", body))
            .await
            .unwrap();
        // Another request's end tells it.
        fixture
            .ask_async(fixture::request("/hello", fixture::whole("")))
            .await
            .unwrap();
        assert!(fixture.metrics().memory_bytes >= 1 << 20);
        drop(response);
    });
    assert_eq!(fixture.metrics().memory_bytes, 0);
}

pub(crate) fn what_cannot_be_held_is_refused_when_loaded(component: &Loaded) {
    let load = |text| {
        Component::new(
            &Imports::new(&guests::engine()),
            &policy(text),
            Isolation::Fresh,
            Share::default(),
            Links::Followed,
        )
    };
    let error = load("[limits]\nmemory = \"100GiB\"").unwrap_err();
    assert!(matches!(error, LoadError::Memory { .. }), "{error}");
    let error = load("[limits]\nprocesses = 1").unwrap_err();
    assert!(error.to_string().starts_with("policy: "), "{error}");
    let code = load("").unwrap().link(component);
    assert_eq!(code.unwrap().world(), World::Preview2);
}
