//! Programs that are components, in the worker as the wasm wall starts it, but with no wall round it.

#[path = "component/guests.rs"]
mod guests;
#[path = "component/worker.rs"]
mod worker;

use guests::Missing;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_wasm::status::Status;
use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};
use worker::{Run, Worker};

fn main() -> ExitCode {
    let trials = vec![
        command("list", arguments_and_environment_are_told),
        command("copy", input_is_read_to_its_end),
        command("poll", input_is_waited_for),
        command("files", files_are_made_read_and_removed),
        command("escape", no_path_leads_out),
        command("exit", an_exit_code_is_kept),
        command("abort", a_trap_is_a_signal),
        command("unfinished", nothing_written_is_lost),
        command("grow", memory_has_its_limit),
        command("sleep", a_wait_ends_with_the_worker),
        command("random", random_bytes_are_random),
        sockets("connect", a_connection_carries_bytes),
        sockets("listen", a_listener_takes_a_connection),
        sockets("datagram", a_connected_socket_sends_to_nobody_else),
        sockets("resolve", names_are_those_of_the_hosts_file),
        sockets("request", a_request_is_answered),
        sockets("random-size", the_host_makes_no_huge_list),
        sockets("huge-list", the_host_takes_no_huge_list),
        sockets("handles", the_host_keeps_no_endless_table),
        sockets("code", a_code_is_kept_in_full),
        streams("0.3/hello", a_stream_is_written),
        streams("0.3/copy", a_stream_of_input_is_read_to_its_end),
        streams("0.3/wait", waits_are_waited_for_at_one_time),
        streams("0.3/read", a_file_is_a_stream),
        streams("0.3/ends", codes_and_traps_are_told),
        Trial::test("component/no program", what_is_no_program_is_refused),
        Trial::test("component/import", a_missing_import_is_refused),
        Trial::test("component/long name", a_long_name_is_cut),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test of `guests/component/command.c`.
fn command(name: &str, test: fn(&Worker)) -> Trial {
    trial(name, guests::command, test)
}

/// A test of `guests/component/sockets`.
fn sockets(name: &str, test: fn(&Worker)) -> Trial {
    trial(name, guests::sockets, test)
}

/// A test of `guests/component/streams`.
fn streams(name: &str, test: fn(&Worker)) -> Trial {
    trial(name, guests::streams, test)
}

fn trial(name: &str, code: fn() -> Result<Vec<u8>, Missing>, test: fn(&Worker)) -> Trial {
    Trial::ignorable_test(format!("component/{name}"), move || {
        match code() {
            Ok(code) => test(&Worker::new(code)),
            Err(Missing(reason)) => return Ok(Completion::ignored_with(reason)),
        }
        Ok::<_, Failed>(Completion::Completed)
    })
}

fn arguments_and_environment_are_told(worker: &Worker) {
    let run = worker.run(&["list", "two words", ""]);
    assert!(
        run.stdout
            .starts_with("argument prog.wasm\nargument list\nargument two words\nargument \n")
    );
    assert!(run.stdout.contains("variable GREETING=hello\n"));
    assert!(!run.stdout.contains("LISTEN_FDS"), "{}", run.stdout);
    assert_eq!(run.code(), Some(0));
    let phases: Vec<_> = run.phases().collect();
    assert_eq!(phases, ["engine", "loaded", "linked", "started"]);
}

fn input_is_read_to_its_end(worker: &Worker) {
    // More than one read gives, and more than a pipe holds.
    let words = "many words ".repeat(20_000);
    let run = worker.run_with_input(&["copy"], words.as_bytes());
    assert_eq!(run.stdout, words);
    assert_eq!(run.stderr, "end of input\n");
    // A file is read as well as a pipe, and an empty one.
    let file = worker.folder().join("file");
    fs::write(&file, &words).expect("write the file");
    assert_eq!(worker.run_with_file(&["copy"], &file).stdout, words);
    assert_eq!(
        worker
            .run_with_file(&["copy"], Path::new("/dev/null"))
            .stdout,
        ""
    );
}

fn input_is_waited_for(worker: &Worker) {
    let mut started = worker.start(&["poll"]);
    let mut input = started.take_input();
    // What the guest waits for comes when it waits, or before: both are right.
    thread::sleep(Duration::from_millis(50));
    input.write_all(b"late").expect("write to the guest");
    drop(input);
    let run = started.wait();
    assert_eq!(run.stdout, "polled 1\nlate");
}

fn files_are_made_read_and_removed(worker: &Worker) {
    let run = worker.run(&["files"]);
    assert_eq!(
        run.stdout,
        "open 0\nwrite 0\nseek 0\nread 0\nbytes written\nmkdir 0\nrename 0\nstat 0\nsize 7\n\
         absent -1 No such file or directory\nunlink 0\nrmdir 0\n"
    );
}

fn no_path_leads_out(worker: &Worker) {
    let folder = worker.folder();
    fs::write(folder.join("../secret"), "secret").expect("write the secret");
    fs::create_dir(folder.join("../sibling")).expect("make the sibling");
    fs::write(folder.join("inside"), "").expect("write the file");
    fs::create_dir(folder.join("inner")).expect("make the folder");
    symlink("/", folder.join("out")).expect("make the link");
    let run = worker.run(&["escape"]);
    for line in run.stdout.lines() {
        let denied = line.ends_with(" -1 Operation not permitted");
        // A link within may say what it likes, and one that could not be made is not there.
        let harmless = [
            "symbolic link 0",
            "through that -1 No such file or directory",
        ];
        assert!(denied || harmless.contains(&line), "{line}");
    }
    assert_eq!(run.stdout.lines().count(), 17);
    // The witness: nothing came in or went out.
    let secret = fs::read_to_string(folder.join("../secret"));
    assert_eq!(secret.expect("read the secret"), "secret");
    for made in ["../made", "../inside", "../inner", "secret"] {
        let made = folder.join(made);
        assert!(fs::symlink_metadata(&made).is_err(), "{}", made.display());
    }
    assert!(folder.join("../sibling").is_dir());
}

fn an_exit_code_is_kept(worker: &Worker) {
    // The adapter says only whether it went well: `exit-with-code` is newer, of WASI 0.2.12.
    for (code, told) in [(0, 0), (1, 1), (7, 1)] {
        assert_eq!(worker.run(&["exit", &code.to_string()]).code(), Some(told));
    }
}

fn a_trap_is_a_signal(worker: &Worker) {
    let run = worker.run(&["abort"]);
    assert_eq!(run.status.signal(), Some(6));
    assert!(
        matches!(run.told.last(), Some(Status::Trap(text)) if text.contains("unreachable") && text.contains("abort")),
        "{:?}",
        run.told
    );
}

fn nothing_written_is_lost(worker: &Worker) {
    let run = worker.run(&["unfinished"]);
    assert_eq!(
        (run.stdout.as_str(), run.status.signal()),
        ("no line", Some(6))
    );
}

fn memory_has_its_limit(worker: &Worker) {
    let run = worker.limited(64 << 20).run(&["grow"]);
    assert_eq!(
        (run.stdout.as_str(), run.code()),
        ("malloc -1 Out of memory\n", Some(0))
    );
}

fn a_wait_ends_with_the_worker(worker: &Worker) {
    let mut started = worker.start(&["sleep"]);
    started.wait_for_start();
    let began = Instant::now();
    started.kill();
    assert_eq!(started.wait().status.signal(), Some(9));
    assert!(began.elapsed() < Duration::from_secs(5));
}

fn random_bytes_are_random(worker: &Worker) {
    let run = worker.run(&["random"]);
    assert_eq!(run.stdout, "getentropy 0\nsum is something\n");
}

fn a_connection_carries_bytes(worker: &Worker) {
    let server = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = server.local_addr().expect("the address").to_string();
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, _) = server.accept().expect("accept");
            let mut bytes = [0; 6];
            connection.read_exact(&mut bytes).expect("read");
            connection.write_all(b"you said ").expect("write");
            connection.write_all(&bytes).expect("write");
        });
        worker.run(&["connect", &address])
    });
    assert!(
        run.stdout.starts_with("connect ok you said"),
        "{}",
        run.stdout
    );
    let nobody = {
        let closed = TcpListener::bind("127.0.0.1:0").expect("listen");
        closed.local_addr().expect("the address").to_string()
    };
    let run = worker.run(&["connect", &nobody]);
    assert_eq!(run.stdout, "connect error connection-refused\n");
}

fn a_listener_takes_a_connection(worker: &Worker) {
    let mut started = worker.start(&["listen", "127.0.0.1:0"]);
    let line = started.read_line();
    let port = line
        .trim_end()
        .strip_prefix("bound ok ")
        .unwrap_or_else(|| panic!("{line}"));
    let mut connection =
        TcpStream::connect(("127.0.0.1", port.parse().expect("a number"))).expect("connect");
    connection.write_all(b"from outside").expect("write");
    assert_eq!(started.wait().stdout, "listen ok from outside\n");
}

/// The witnesses are the two sockets, not the guest's word.
fn a_connected_socket_sends_to_nobody_else(worker: &Worker) {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("bind"));
    let [friend, other] = sockets.each_ref().map(|socket| {
        socket.set_nonblocking(true).expect("set the socket");
        socket.local_addr().expect("the address").to_string()
    });
    let received = |socket: &UdpSocket| socket.recv(&mut [0; 100]).is_ok();
    let run = worker.run(&["datagram", &friend, ""]);
    assert_eq!(run.stdout, "datagram ok 1\n");
    assert!(
        received(&sockets[0]),
        "the control: what is connected gets it"
    );
    worker.run(&["datagram", "", &other]);
    assert!(received(&sockets[1]), "the control: what is named gets it");
    let run = worker.run(&["datagram", &friend, &other]);
    assert_eq!(run.stdout, "datagram error invalid-argument\n");
    assert!(!received(&sockets[0]) && !received(&sockets[1]));
}

fn names_are_those_of_the_hosts_file(worker: &Worker) {
    let run = worker.run(&["resolve", "localhost"]);
    assert!(run.stdout.contains("(127, 0, 0, 1)"), "{}", run.stdout);
    let run = worker.run(&["resolve", "no-such-name.invalid"]);
    assert_eq!(run.stdout, "resolve error name-unresolvable\n");
}

/// What a grant has to do with it is for the tests of the command.
fn a_request_is_answered(worker: &Worker) {
    let server = TcpListener::bind("127.0.0.1:0").expect("listen");
    let address = server.local_addr().expect("the address").to_string();
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            let (mut connection, _) = server.accept().expect("accept");
            let mut head = [0; 24];
            connection.read_exact(&mut head).expect("read");
            assert_eq!(&head, b"GET /path?query HTTP/1.1");
            connection
                .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
                .expect("write");
            // Not closed on what has not been read: that would take the answer back.
            let _ = connection.read(&mut [0; 4096]);
        });
        worker.run(&["request", "http", &address])
    });
    assert_eq!(run.stdout, "request ok 200 abc\n");
    let nobody = {
        let closed = TcpListener::bind("127.0.0.1:0").expect("listen");
        closed.local_addr().expect("the address").to_string()
    };
    for (authority, code) in [
        (nobody.as_str(), "ConnectionRefused"),
        ("no-such-name.invalid", "DnsError"),
    ] {
        let run = worker.run(&["request", "http", authority]);
        assert!(run.stdout.contains(code), "{}", run.stdout);
    }
}

fn the_host_makes_no_huge_list(worker: &Worker) {
    assert_eq!(
        worker.run(&["random", "100000"]).stdout,
        "random ok 100000\n"
    );
    assert_eq!(
        worker.run(&["random", "1000000000000"]).status.signal(),
        Some(6)
    );
}

fn the_host_takes_no_huge_list(worker: &Worker) {
    let run = worker.run(&["huge-list"]);
    assert_eq!(
        (run.stdout.as_str(), run.status.signal()),
        ("", Some(6)),
        "{:?}",
        run.told
    );
}

fn the_host_keeps_no_endless_table(worker: &Worker) {
    let run = worker.run(&["handles"]);
    assert_eq!(
        (run.stdout.as_str(), run.status.signal()),
        ("", Some(6)),
        "{:?}",
        run.told
    );
}

fn a_code_is_kept_in_full(worker: &Worker) {
    for code in [0, 42, 255] {
        assert_eq!(worker.run(&["code", &code.to_string()]).code(), Some(code));
    }
}

fn a_stream_is_written(worker: &Worker) {
    let run = worker.run(&["hello"]);
    assert_eq!(
        (run.stdout.as_str(), run.code()),
        ("hello\n", Some(0)),
        "{:?}",
        run.told
    );
}

fn a_stream_of_input_is_read_to_its_end(worker: &Worker) {
    let words = "many words ".repeat(20_000);
    assert_eq!(
        worker.run_with_input(&["copy"], words.as_bytes()).stdout,
        words
    );
    let file = worker.folder().join("file");
    fs::write(&file, &words).expect("write the file");
    assert_eq!(worker.run_with_file(&["copy"], &file).stdout, words);
    assert_eq!(worker.run(&["copy"]).stdout, "");
}

fn waits_are_waited_for_at_one_time(worker: &Worker) {
    assert_eq!(worker.run(&["wait"]).stdout, "at one time\n");
}

fn a_file_is_a_stream(worker: &Worker) {
    let folder = worker.folder();
    fs::write(folder.join("note"), "noted\n").expect("write the file");
    fs::write(folder.join("../secret"), "secret").expect("write the secret");
    symlink("../secret", folder.join("in")).expect("make the link");
    assert_eq!(worker.run(&["read", "note"]).stdout, "noted\n");
    for way_out in ["../secret", "in", "/etc/hostname"] {
        let run = worker.run(&["read", way_out]);
        assert_eq!(run.stdout, "ErrorCode::NotPermitted\n", "{way_out}");
    }
}

fn codes_and_traps_are_told(worker: &Worker) {
    assert_eq!(worker.run(&["code", "42"]).code(), Some(42));
    assert_eq!(worker.run(&["nothing"]).code(), Some(1));
    let run = worker.run(&["trap"]);
    assert_eq!(
        (run.stdout.as_str(), run.status.signal()),
        ("no line", Some(6))
    );
}

fn refusal(text: &str) -> String {
    let run = Worker::new(guests::compile(
        &wat::parse_str(text).expect("read the text"),
    ))
    .run(&[]);
    assert_eq!(run.code(), Some(125));
    match run.told.as_slice() {
        [.., Status::Refused(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn what_is_no_program_is_refused() -> Result<(), Failed> {
    assert!(refusal("(component)").contains("exports no `wasi:cli/run`"));
    Ok(())
}

fn a_missing_import_is_refused() -> Result<(), Failed> {
    let text = refusal(&importing("host:other/thing"));
    assert!(text.contains("host:other/thing"), "{text}");
    Ok(())
}

/// More than the pipe to the supervisor takes would stop the worker for good: nobody reads it meanwhile.
fn a_long_name_is_cut() -> Result<(), Failed> {
    let text = refusal(&importing(&format!("host:{}/thing", "o".repeat(90_000))));
    assert!(text.len() < 4096, "{} bytes", text.len());
    assert!(text.contains("host:oooo"), "{text}");
    Ok(())
}

fn importing(name: &str) -> String {
    format!(
        r#"(component
            (import "{name}" (instance $thing (export "f" (func))))
            (core module $m (func (export "run") (result i32) (i32.const 0)))
            (core instance $i (instantiate $m))
            (func $run (result (result)) (canon lift (core func $i "run")))
            (instance $run (export "run" (func $run)))
            (export "wasi:cli/run@0.2.0" (instance $run)))"#
    )
}

impl Run {
    fn code(&self) -> Option<i32> {
        self.status.code()
    }

    fn phases(&self) -> impl Iterator<Item = &str> {
        self.told.iter().filter_map(|line| match line {
            Status::Phase { name, .. } => Some(name.as_str()),
            _ => None,
        })
    }
}
