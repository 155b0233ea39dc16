//! The library as a host program uses it.

use palisade::{Domain, Ending, Exit, Launcher, Machine, Stdio};
use std::{
    io::{Read, Write},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

fn shell(script: &str) -> palisade::Builder {
    Domain::builder("/bin/sh").args(["-c", script])
}

#[test]
fn output_and_exit_are_the_guests() {
    let output = shell("echo out; echo err >&2; exit 7")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(
        (output.stdout, output.stderr),
        (b"out\n".to_vec(), b"err\n".to_vec())
    );
    assert_eq!(output.report.exit, Exit::Code(7));
    assert_eq!(output.report.ending, Ending::Guest);
}

#[test]
fn input_is_passed_in_and_ends() {
    let mut domain = shell("tr a-z A-Z")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    domain.stdin.take().unwrap().write_all(b"word").unwrap();
    let mut shown = String::new();
    domain
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut shown)
        .unwrap();
    assert_eq!(shown, "WORD");
    assert_eq!(domain.wait().unwrap().exit_code, 0);
}

/// Namespaces, signals and descriptors are per process or thread: nothing of one launch may show in
/// another, and no thread of the host may be forked.
#[test]
fn many_threads_of_a_host_start_guests_at_once() {
    let threads: Vec<_> = (0..8)
        .map(|number: u8| {
            thread::spawn(move || {
                for _ in 0..5 {
                    let output = shell(&format!("echo {number}; exit {number}"))
                        .stdout(Stdio::piped())
                        .spawn()
                        .unwrap()
                        .wait_with_output()
                        .unwrap();
                    assert_eq!(output.stdout, format!("{number}\n").into_bytes());
                    assert_eq!(output.report.exit, Exit::Code(number));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_launcher_that_parks_ahead_serves_different_plans() {
    let launcher = Arc::new(Launcher::new(Machine::probe()).park_ahead());
    for round in 0..6u8 {
        // Every other guest has another file system than the one that was made ahead.
        let builder = shell(&format!("test -e /usr/bin/env && exit {round}"));
        let builder = if round % 2 == 0 {
            builder
        } else {
            builder.tmp_size(8 << 20)
        };
        let report = builder
            .launcher(Arc::clone(&launcher))
            .spawn()
            .unwrap()
            .wait()
            .unwrap();
        assert_eq!(report.exit, Exit::Code(round));
        launcher.wait_until_parked().unwrap();
    }
}

#[test]
fn a_dropped_domain_is_ended() {
    let mut domain = shell("echo up; sleep 1000")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = domain.stdout.take().unwrap();
    let mut byte = [0; 3];
    pipe.read_exact(&mut byte).unwrap();
    drop(domain);
    // The guest held the pipe's other end; now nobody does.
    assert_eq!(pipe.read(&mut byte).unwrap(), 0);
}

#[test]
fn limits_end_the_guest() {
    let began = Instant::now();
    let report = shell("sleep 1000")
        .time(Duration::from_millis(200))
        .spawn()
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!((report.ending, report.exit_code), (Ending::TimeLimit, 124));
    assert!(began.elapsed() < Duration::from_secs(20));
    let output = shell("yes")
        .stdout(Stdio::piped())
        .output(1000)
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(
        (output.report.ending, output.stdout.len()),
        (Ending::OutputLimit, 1000)
    );
}

#[test]
fn what_is_not_granted_is_not_there() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(folder.path().join("secret"), "x").unwrap();
    let script = format!("test -e {}/secret", folder.path().display());
    assert_eq!(shell(&script).spawn().unwrap().wait().unwrap().exit_code, 1);
    assert_eq!(
        shell(&script)
            .read(folder.path())
            .spawn()
            .unwrap()
            .wait()
            .unwrap()
            .exit_code,
        0
    );
}

#[test]
fn an_error_names_whose_fault_it_is() {
    let missing = shell("true").read("/no/such/path").spawn().unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("policy: /no/such/path does not exist"),
        "{missing}"
    );
    let unknown = Domain::builder("no-such-program").spawn().unwrap_err();
    assert!(
        unknown
            .to_string()
            .starts_with("guest: 'no-such-program' was not found"),
        "{unknown}"
    );
}
