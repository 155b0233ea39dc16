//! `poll_oneoff`.

use crate::harness::program;
use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

#[track_caller]
fn run(what: &str) {
    let outcome = program("timers").arguments([what]).stdin("12345").run();
    assert_eq!(outcome.output(), "");
}

#[test]
fn sleeps_take_as_long_as_asked_and_not_much_longer() {
    let begin = Instant::now();
    run("sleeps");
    // Four of 20 ms each; the rest is for a machine that builds beside.
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn files_are_always_ready_and_closed_descriptors_are_errors() {
    run("files");
}

#[test]
fn what_cannot_be_waited_for_is_refused() {
    run("refused");
}

/// A pipe that nobody writes to is not ready before the clock.
#[test]
fn the_nearest_clock_ends_a_wait() {
    let (reader, writer) = std::io::pipe().unwrap();
    let outcome = program("timers")
        .arguments(["nearest"])
        .stdin_from(reader)
        .run();
    assert_eq!(outcome.output(), "");
    drop(writer);
}

#[test]
fn a_wait_without_end_can_be_ended_from_outside() {
    let mut running = program("timers").arguments(["forever"]).start();
    let mut line = String::new();
    let stdout = running.child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert_eq!(line, "waits\n");
    assert!(running.child.try_wait().unwrap().is_none());
    running.child.kill().unwrap();
    assert_eq!(running.wait().signal(), Some(9));
}
