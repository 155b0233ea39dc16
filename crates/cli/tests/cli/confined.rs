//! Palisade itself, once a guest runs: whatever it were led to do, the kernel refuses.
//!
//! `guests/friendly/fault.c` has a process make a system call as if by a mistake of its own. The same
//! orders are carried out by a process that nothing holds.

use super::{
    cleanup::eventually,
    stage::{Stage, cases, children_of, init_of, signal, wait},
};
use palisade_suite::guest;
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

cases![
    names_are_looked_up_by_somebody_who_does_nothing_else,
    nothing_is_done_for_a_guest,
    nothing_is_done_for_a_guest_with_limits_and_placeholders,
    the_guests_network_is_served_by_threads_that_change_nothing,
    who_makes_sockets_does_nothing_else,
    what_was_made_is_removed_all_the_same,
];

/// An order, and what it is about.
const ORDERS: [(&str, &str); 9] = [
    ("read", "secret"),
    ("write", "secret"),
    ("create", "new"),
    ("mkdir", "folder"),
    ("chmod", "secret"),
    ("remove", "victim"),
    ("socket", ""),
    ("fork", ""),
    ("execute", "program"),
];

fn nothing_is_done_for_a_guest(stage: &Stage) {
    holds_against_every_order(stage, &[]);
}

fn nothing_is_done_for_a_guest_with_limits_and_placeholders(stage: &Stage) {
    stage.make_folder("work");
    holds_against_every_order(stage, &["--write", "work", "--protect", "work/.env"]);
    if stage.user.name() == "root" {
        holds_against_every_order(stage, &["--memory", "100M", "--report", "report"]);
    }
}

/// Who executes getent(1) and reads the system's settings changes nothing and reads nothing else.
fn names_are_looked_up_by_somebody_who_does_nothing_else(stage: &Stage) {
    lay_out(stage);
    let mut guarded = start(stage, &["--connect", "tcp://*.example.com:443"]);
    let find = || {
        let mut children = children_of(guarded.id()).into_iter();
        children.find(|child| name_of(*child) == "palisade-names")
    };
    eventually("somebody looks names up", || {
        find().is_none().then(String::new)
    });
    let names = find().unwrap();
    eventually("it is under a filter", || {
        (!is_filtered(names)).then(|| names.to_string())
    });
    for (order, path) in ORDERS {
        if !["socket", "fork"].contains(&order) {
            assert_ne!(
                plant(stage, names, order, path),
                0,
                "{order}, by who looks names up"
            );
        }
    }
    signal(&guarded, Signal::TERM);
    wait(&mut guarded);
    assert!(!stage.exists("executed") && !stage.exists("new") && stage.exists("victim"));
}

/// Who answers a guest's calls on the network opens files of `/proc`, and makes, changes and executes
/// nothing.
fn the_guests_network_is_served_by_threads_that_change_nothing(stage: &Stage) {
    lay_out(stage);
    let mut guarded = start(stage, &["--connect", "tcp://*.example.com:443"]);
    eventually("its threads run", || {
        let threads = threads_beside_the_first(guarded.id());
        let mut names: Vec<_> = threads.into_iter().map(name_of).collect();
        names.sort();
        (names != ["palisade-broker", "proxy"]).then(|| names.join(", "))
    });
    for thread in threads_beside_the_first(guarded.id()) {
        eventually("it is under a filter", || {
            (!is_filtered(thread)).then(|| thread.to_string())
        });
        for (order, path) in ORDERS {
            if !["socket", "read", "write"].contains(&order) {
                assert_ne!(
                    plant(stage, thread, order, path),
                    0,
                    "{order}, by thread {thread}"
                );
            }
        }
    }
    signal(&guarded, Signal::TERM);
    wait(&mut guarded);
    assert!(!stage.exists("executed") && !stage.exists("new") && stage.exists("victim"));
}

/// Under a limit on memory a process in the domain's group makes the guest's sockets.
fn who_makes_sockets_does_nothing_else(stage: &Stage) {
    lay_out(stage);
    if stage.user.name() != "root" {
        // Who has no control group has no such process.
        return;
    }
    let flags = ["--memory", "100M", "--connect", "tcp://127.0.0.1:1"];
    let mut guarded = start(stage, &flags);
    let keeper = children_of(guarded.id())[0];
    let own: Vec<_> = children_of(keeper)
        .into_iter()
        .filter(|child| *child != init_of(guarded.id()))
        .collect();
    let [maker] = own[..] else {
        panic!("{own:?}");
    };
    for (order, path) in ORDERS {
        if order != "socket" {
            assert_ne!(
                plant(stage, maker, order, path),
                0,
                "{order}, by who makes sockets"
            );
        }
    }
    signal(&guarded, Signal::TERM);
    wait(&mut guarded);
    assert!(!stage.exists("executed") && !stage.exists("new") && stage.exists("victim"));
}

fn what_was_made_is_removed_all_the_same(stage: &Stage) {
    stage.make_folder("work");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/.git/hooks",
        "--report",
        "report",
    ];
    let mut guarded = start(stage, &flags);
    assert!(stage.exists("work/.git"));
    drop(guarded.stdin.take());
    assert!(wait(&mut guarded).success());
    assert!(!stage.exists("work/.git"));
    assert!(stage.read("report").contains("\"exit_code\": 0"));
}

fn holds_against_every_order(stage: &Stage, flags: &[&str]) {
    lay_out(stage);
    let mut alone = alone(stage);
    for (order, path) in ORDERS {
        assert_eq!(
            plant(stage, alone.id(), order, path),
            0,
            "{order}, by a process that nothing holds"
        );
    }
    wait(&mut alone);
    assert!(stage.exists("executed"), "the witness of an execution");
    lay_out(stage);
    let mut guarded = start(stage, flags);
    let keeper = children_of(guarded.id());
    for part in [guarded.id()].into_iter().chain(keeper) {
        eventually("it is under a filter", || {
            (!is_filtered(part)).then(|| part.to_string())
        });
        for (order, path) in ORDERS {
            assert_ne!(
                plant(stage, part, order, path),
                0,
                "{order}, by process {part}: {flags:?}"
            );
        }
    }
    signal(&guarded, Signal::TERM);
    wait(&mut guarded);
    assert_eq!(stage.read("secret"), "hunter2");
    assert!(stage.exists("victim"));
    for made in ["new", "folder", "executed"] {
        assert!(!stage.exists(made), "{made}");
    }
}

/// What the orders are about, as if none had ever been carried out.
fn lay_out(stage: &Stage) {
    stage.write("secret", "hunter2");
    stage.write("victim", "");
    stage.write_program("program", "#!/bin/sh\n: > \"${0%/*}/executed\"\n");
    let _ = fs::remove_file(stage.path("new"));
    let _ = fs::remove_dir(stage.path("folder"));
    let _ = fs::remove_file(stage.path("executed"));
}

/// A process of the user's that waits.
fn alone(stage: &Stage) -> Child {
    let mut call = stage.call(Path::new("/bin/sleep"), ["1000"]);
    call.spawn()
}

/// A guest that has said that it runs, and reads until its input ends.
fn start(stage: &Stage, flags: &[&str]) -> Child {
    let mut child = stage.script(flags, "echo ready; cat").spawn();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::with_capacity(1, stdout)
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn threads_beside_the_first(process: u32) -> Vec<u32> {
    let names = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let threads = names.map(|entry| {
        entry
            .unwrap()
            .file_name()
            .to_str()
            .unwrap()
            .parse()
            .unwrap()
    });
    threads.filter(|thread| *thread != process).collect()
}

fn name_of(process: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    name.trim_end().into()
}

fn is_filtered(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line == "Seccomp:\t2")
}

/// The kernel's answer to the order: zero, or an error number.
fn plant(stage: &Stage, process: u32, order: &str, path: &str) -> i32 {
    let planted = Command::new(guest("fault"))
        .args([&process.to_string(), order])
        .arg(stage.path(path))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&planted.stdout).trim().parse();
    answer.unwrap_or_else(|_| panic!("{order} {path}: {planted:?}"))
}
