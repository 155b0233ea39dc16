use super::*;
use rustix::{
    fs::{CWD, FileType, Mode, OFlags},
    pipe::PipeFlags,
};
use std::{
    fs::{self, File},
    io::Read,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    time::{Instant, UNIX_EPOCH},
};

const PATIENCE: Duration = Duration::from_secs(10);

fn settings(path: &Path) -> config::Log {
    config::Log {
        path: Some(path.into()),
        ..config::Log::default()
    }
}

fn log_at(path: &Path) -> Log {
    Log::start(&settings(path)).unwrap()
}

fn info(message: &str) -> Line {
    Line::new(Level::Info, message)
}

fn lines(text: &str) -> Vec<serde_json::Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}")))
        .collect()
}

fn messages(path: &Path) -> Vec<String> {
    let lines = lines(&fs::read_to_string(path).unwrap());
    lines
        .iter()
        .map(|line| line["message"].as_str().unwrap().to_owned())
        .collect()
}

/// A log that goes into a pipe, as stderr may be one, and the pipe's reading end.
fn log_to_pipe() -> (Log, File) {
    let flags = PipeFlags::NONBLOCK | PipeFlags::CLOEXEC;
    let (reader, writer) = rustix::pipe::pipe_with(flags).unwrap();
    let sink = Sink::pipe(writer.into(), Format::Json);
    (Log::to(sink, &config::Log::default()), reader.into())
}

#[test]
fn a_line_in_both_forms() {
    let sink = Arc::new(Sink::open(Some(Path::new("/dev/null")), None, Format::Json).unwrap());
    let guest = Origin::new(Some((GuestKind::Filter, "auth".into())), sink.clone());
    let server = Origin::new(None, sink);
    let time = UNIX_EPOCH + Duration::from_millis(1_709_210_096_007);
    let hostile = Line::new(
        Level::Warn,
        "a\n{\"b\":1}\u{1b}[2J\u{9b}0m\u{202e}\u{2028}ü \\",
    )
    .of_request(17)
    .with("path", "/a b=c\"")
    .with("count", 3);
    let mut out = String::new();
    for origin in [&guest, &server] {
        line::write_json(&mut out, time, origin, &hostile);
        line::write_text(&mut out, time, origin, &hostile);
    }
    line::write_text(&mut out, time, &server, &info("plain").with("route", "api"));
    insta::assert_snapshot!(out);
    assert!(!out.contains(|c: char| c != '\n' && palisade_policy::acts_on_terminal(c)));
    for json in out.lines().filter(|line| line.starts_with('{')) {
        let read: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(
            read["message"], "a\n{\"b\":1}\u{1b}[2J\u{9b}0m\u{202e}\u{2028}ü \\",
            "nothing is lost"
        );
    }
}

#[test]
fn an_event_is_told_in_words_and_as_it_is() {
    let sink = Arc::new(Sink::open(None, None, Format::Json).unwrap());
    let guest = Origin::new(Some((GuestKind::Service, "shop".into())), sink);
    let lines = |target: &str| {
        let event = journal::Line {
            at_us: 7,
            entry: denied_request(target.into(), "it is not\ngranted".into()),
        };
        let line = Line::of_event(&event);
        let (mut json, mut text) = (String::new(), String::new());
        line::write_json(&mut json, UNIX_EPOCH, &guest, &line);
        line::write_text(&mut text, UNIX_EPOCH, &guest, &line);
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        (read, text, event)
    };
    let (json, text, event) = lines("tcp://a\u{1b}[2J\u{202e}:1");
    assert_eq!(json["event"], serde_json::to_value(&event).unwrap());
    let told = "denied: http tcp://a\\u{1b}[2J\\u{202e}:1: it is not\\ngranted\n";
    assert!(text.ends_with(told), "{text}");
    assert!(!text[..text.len() - 1].contains(palisade_policy::acts_on_terminal));
    let (json, ..) = lines(&"x".repeat(9000));
    assert!(json["event"].is_null() && json["message"].is_string());
}

#[test]
fn days() {
    let shown = |seconds| Rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
    for (seconds, date) in [
        (0, "1970-01-01"),
        (951_782_400, "2000-02-29"),
        (951_868_800, "2000-03-01"),
        (1_709_164_800, "2024-02-29"),
        (4_107_542_400, "2100-03-01"),
        (1_767_225_599, "2025-12-31"),
    ] {
        assert!(shown(seconds).starts_with(date), "{}", shown(seconds));
    }
}

#[test]
fn lines_come_in_order_to_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let (server, own) = (folder.path().join("server"), folder.path().join("own"));
    let log = log_at(&server);
    let quiet = log
        .of_guest(GuestKind::Filter, "quiet", None, None)
        .unwrap();
    let loud = log
        .of_guest(GuestKind::Service, "loud", Some(&own), None)
        .unwrap();
    for number in 0..100 {
        log.write(info(&format!("server {number}")));
        quiet.write(info("from the filter"));
        loud.write(info(&format!("own {number}")));
        log.write(Line::new(Level::Debug, "nobody asked for this"));
    }
    log.access(Access::new(1, None, Method::GET, "/nor-for-this"));
    assert!(log.flush(PATIENCE));
    let wanted: Vec<_> = (0..100).map(|number| format!("own {number}")).collect();
    assert_eq!(messages(&own), wanted);
    let of_server = messages(&server);
    assert_eq!(of_server.len(), 200);
    assert_eq!(of_server[..2], ["server 0", "from the filter"]);
    assert_eq!(log.dropped(), 0);
}

#[test]
fn an_access_line_has_what_was_asked_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = Log::start(&config::Log {
        access: true,
        ..settings(&path)
    })
    .unwrap();
    let client = Some("2001:db8::1".parse().unwrap());
    log.access(Access {
        status: Some(StatusCode::NOT_FOUND),
        bytes: 12,
        time: Duration::from_micros(1500),
        first: Some(Duration::from_micros(20)),
        route: "site".into(),
        broken_by: Some(BrokenBy::Client),
        ..Access::new(7, client, Method::POST, "/a\u{1b}")
    });
    log.access(Access::new(8, None, Method::GET, "/"));
    assert!(log.flush(PATIENCE));
    let mut lines = lines(&fs::read_to_string(path).unwrap());
    for line in &mut lines {
        line["time"] = "now".into();
    }
    let wanted = [
        serde_json::json!({
            "time": "now", "level": "info", "request": 7, "message": "request", "client": "2001:db8::1",
            "method": "POST", "path": "/a\u{1b}", "status": 404, "bytes": 12, "time_us": 1500, "time_first_us": 20,
            "route": "site", "broken_by": "client",
        }),
        serde_json::json!({
            "time": "now", "level": "info", "request": 8, "message": "request", "method": "GET", "path": "/",
            "bytes": 0, "time_us": 0, "route": "",
        }),
    ];
    assert_eq!(lines, wanted);
}

/// What guests and clients can say, from every byte there is to what is longer than a line.
fn said() -> Vec<Vec<u8>> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 56) as u8
    };
    let every_byte = (0..=255).map(|byte| vec![b'a', byte, b'b']);
    let every_escape = [
        "\\",
        "\"",
        "\\u0000",
        "\\n",
        "\"}\n{\"level\":\"critical\"",
        "\u{2028}",
        "\u{85}",
        "\u{10ffff}",
    ];
    let truncated = ["\u{20ac}", "\u{1f600}", "\u{7ff}"]
        .iter()
        .flat_map(|c| (1..c.len()).map(|end| c.as_bytes()[..end].to_vec()));
    let surrogates = [
        b"\xed\xa0\x80".to_vec(),
        b"\xc0\x80".to_vec(),
        b"\xf8\x88\x80\x80\x80".to_vec(),
    ];
    let long = [
        b"\0".repeat(100_000),
        "\u{202e}".repeat(9000).into_bytes(),
        b"\xff".repeat(20_000),
    ];
    let noise = (0..500).map(|length| (0..length).map(|_| next()).collect::<Vec<_>>());
    every_byte
        .chain(every_escape.map(|text| text.as_bytes().to_vec()))
        .chain(truncated)
        .chain(surrogates)
        .chain(long)
        .chain(noise.collect::<Vec<_>>())
        .collect()
}

#[test]
fn whatever_is_said_is_one_line() {
    let sink = Arc::new(Sink::open(Some(Path::new("/dev/null")), None, Format::Json).unwrap());
    for bytes in said() {
        let text = String::from_utf8_lossy(&bytes);
        let name = text.chars().take(64).collect::<String>();
        let origin = Origin::new(Some((GuestKind::Service, (&*name).into())), sink.clone());
        let line = Line::new(Level::Info, text.clone()).with("field", &*text);
        let mut json = String::new();
        line::write_json(&mut json, UNIX_EPOCH, &origin, &line);
        let mut plain = String::new();
        line::write_text(&mut plain, UNIX_EPOCH, &origin, &line);
        for written in [&json, &plain] {
            let line = written.strip_suffix('\n').unwrap();
            assert!(
                !line.contains(palisade_policy::acts_on_terminal),
                "{line:?}"
            );
            assert!(!line.contains('\n') && line.len() < 150_000, "{bytes:?}");
        }
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        let kept = &text[..text.floor_char_boundary(8 << 10)];
        assert_eq!(
            (&read["message"], &read["field"]),
            (&kept.into(), &kept.into())
        );
        assert_eq!(read["service"], *name, "no other field is in its place");
        assert_eq!(read.as_object().unwrap().len(), 5, "{json}");
    }
}

#[test]
fn whatever_is_said_comes_whole_to_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = log_at(&path);
    let mut wanted = Vec::new();
    for bytes in said() {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        wanted.push(text[..text.floor_char_boundary(8 << 10)].to_owned());
        log.write(info(&text));
        // One at a time: what is dropped is another test's.
        assert!(log.flush(PATIENCE));
    }
    assert_eq!(log.dropped(), 0);
    assert!(messages(&path) == wanted, "a line is lost or changed");
}

#[test]
fn a_full_disk_drops_and_counts() {
    let log = log_at(Path::new("/dev/full"));
    for _ in 0..50 {
        log.write(info("nowhere to go"));
    }
    assert!(log.flush(PATIENCE), "nothing waits");
    assert_eq!(log.dropped(), 50);
}

#[test]
fn a_pipe_that_nobody_reads_any_more_drops_and_counts() {
    let (log, reader) = log_to_pipe();
    drop(reader);
    log.write(info("into the void"));
    assert!(log.flush(PATIENCE));
    assert_eq!(log.dropped(), 1);
}

/// A terminal that somebody holds: nobody waits, memory has a bound, and later it is told what was lost.
#[test]
fn a_place_that_takes_nothing_holds_nobody_up() {
    const LINES: usize = 60_000;
    let (log, mut reader) = log_to_pipe();
    let began = Instant::now();
    for number in 0..LINES {
        log.write(
            info("a line of some length, so that a pipe is soon full")
                .with("number", number as u64),
        );
    }
    assert!(began.elapsed() < PATIENCE, "nobody waits");
    assert!(!log.flush(Duration::from_millis(300)), "the pipe is full");
    assert!(log.dropped() > 0);
    let read = std::thread::spawn(move || {
        let flags = rustix::fs::fcntl_getfl(&reader).unwrap();
        rustix::fs::fcntl_setfl(&reader, flags - OFlags::NONBLOCK).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    assert!(log.flush(PATIENCE), "there is room again");
    log.write(info("last"));
    assert!(log.flush(PATIENCE));
    let dropped = log.dropped();
    drop(log);
    let lines = lines(&read.join().unwrap());
    let lost: u64 = lines.iter().filter_map(|line| line["lost"].as_u64()).sum();
    assert_eq!(lost, dropped, "it is told how many");
    let written = lines.iter().filter(|line| line["number"].is_u64()).count();
    assert_eq!(written + dropped as usize, LINES);
    assert_eq!(lines.last().unwrap()["message"], "last");
}

#[test]
fn a_noisy_guest_loses_its_own_lines_only() {
    let folder = tempfile::tempdir().unwrap();
    let quiet = folder.path().join("quiet");
    let (log, _reader) = log_to_pipe();
    let noisy = log
        .of_guest(GuestKind::Filter, "noisy", None, None)
        .unwrap();
    let quiet_guest = log
        .of_guest(GuestKind::Filter, "quiet", Some(&quiet), None)
        .unwrap();
    let text = "x".repeat(8000);
    for _ in 0..2000 {
        noisy.write(info(&text));
    }
    quiet_guest.write(info("still heard"));
    log.flush(Duration::from_millis(300));
    assert_eq!(messages(&quiet), ["still heard"]);
    assert!(log.dropped() > 0);
}

#[test]
fn files_that_were_moved_away_are_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (path, own) = (folder.path().join("log"), folder.path().join("own"));
    let log = log_at(&path);
    let guest = log
        .of_guest(GuestKind::Service, "api", Some(&own), None)
        .unwrap();
    let write = |text: &str| {
        log.write(info(text));
        guest.write(info(text));
        assert!(log.flush(PATIENCE));
    };
    write("before");
    for path in [&path, &own] {
        fs::rename(path, path.with_extension("1")).unwrap();
    }
    log.reopen();
    write("after");
    for path in [&path, &own] {
        assert_eq!(messages(&path.with_extension("1")), ["before"]);
        assert_eq!(messages(path), ["after"]);
    }
}

/// Whatever a guest puts in its log's place, where it can.
#[test]
fn nothing_but_a_file_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("precious"), "").unwrap();
    symlink(at("precious"), at("link")).unwrap();
    symlink(at("nothing"), at("broken link")).unwrap();
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    rustix::fs::mknodat(CWD, at("read fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let _reader = rustix::fs::open(at("read fifo"), flags, Mode::empty()).unwrap();
    let _listener = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    for (name, why) in [
        ("link", "it is a link: name what it leads to"),
        ("broken link", "it is a link: name what it leads to"),
        ("fifo", "it is no file"),
        ("read fifo", "it is no file"),
        ("socket", "it is no file"),
        ("folder", "Is a directory"),
    ] {
        let refused = Log::start(&settings(&at(name))).expect_err(name);
        assert!(refused.to_string().contains(why), "{name}: {refused}");
    }
    assert!(!at("nothing").exists());
    let log = log_at(&at("log"));
    fs::remove_file(at("log")).unwrap();
    symlink(at("precious"), at("log")).unwrap();
    log.write(info("before"));
    log.reopen();
    log.write(info("after"));
    assert!(log.flush(PATIENCE));
    assert_eq!(fs::read_to_string(at("precious")).unwrap(), "");
    let mode = fs::metadata(at("precious")).unwrap().permissions().mode();
    assert_ne!(mode & 0o777, 0o640, "the mode of a new log");
}

#[test]
fn other_settings_take_over_without_losing_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let log = log_at(&first);
    log.write(info("one"));
    assert!(log.flush(PATIENCE));
    assert!(
        log.prepare(&settings(&folder.path().join("no/such/folder")))
            .is_err()
    );
    let mut next = settings(&second);
    next.level = Level::Debug;
    let prepared = log.prepare(&next).unwrap();
    log.write(info("two"));
    assert!(log.flush(PATIENCE));
    log.apply(prepared);
    log.write(Line::new(Level::Debug, "three"));
    assert!(log.flush(PATIENCE));
    assert_eq!(messages(&first), ["one", "two"]);
    assert_eq!(messages(&second), ["three"]);
}

#[test]
fn a_message_has_a_bound() {
    let long = "ü".repeat(10_000);
    let line = Line::new(Level::Info, long.clone()).with("field", &*long);
    assert!(line.bytes() < 17_000, "{}", line.bytes());
}
