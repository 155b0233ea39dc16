//! Palisade itself, once a guest runs: whatever it were led to do, the kernel refuses.
//!
//! `guests/friendly/fault.c` has a process make a system call as if by a mistake of its own. The same
//! orders are carried out by a process that nothing holds.

use super::{
    cleanup::eventually,
    fixture::{Fixture, User, cases, children_of, init_of, signal, wait},
};
use palisade_suite::guest;
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
};

cases![
    a_part_that_could_not_be_made_ends_nobody,
    each_order_is_carried_out_by_a_process_that_nothing_holds,
    names_are_looked_up_by_somebody_who_does_nothing_else,
    nothing_is_done_for_a_guest,
    nothing_is_done_for_a_guest_where_it_may_write,
    nothing_is_done_for_a_guest_with_placeholders,
    nothing_is_done_for_a_guest_in_a_control_group,
    streams_are_relayed_by_somebody_who_does_nothing_else,
    the_guests_network_is_served_by_threads_that_change_nothing,
    tunnels_are_served_by_somebody_who_does_nothing_else,
    who_makes_sockets_in_a_control_group_does_nothing_else,
    what_was_made_is_removed_all_the_same,
];

/// An order, and what it is about.
const ORDERS: [(&str, &str); 11] = [
    ("read", "secret"),
    ("write", "secret"),
    ("create", "new"),
    ("mkdir", "folder"),
    ("chmod", "secret"),
    ("remove", "victim"),
    ("socket", ""),
    ("signal", ""),
    ("look", ""),
    ("fork", ""),
    ("execute", "program"),
];

/// Starts with too few processes for one part of palisade or another, beside one of the same user's. The user is
/// nobody else's, and so is the pid namespace: a signal to -1 goes to all that both have.
const TOO_FEW: &str = r#"
    as_user='setpriv --reuid 61237 --regid 61237 --clear-groups'
    $as_user sleep 300 & other=$!
    for most in 2 3 4 5 6 7 8 9 10 11 12; do
        prlimit --nproc=$most:$most $as_user "$1" run --connect 'tcp://*.example.com:443' -- /bin/true
        kill -0 $other || { echo "ended with $most processes"; exit 1; }
    done
    kill $other
"#;

/// Of fork(2) that fails one could take -1 for the child's number.
fn a_part_that_could_not_be_made_ends_nobody(fixture: &Fixture) {
    if fixture.user == User::Ordinary {
        // Processes of that user are other tests'.
        return;
    }
    let words = ["-p", "-f", "--mount-proc", "/bin/sh", "-c", TOO_FEW, "sh"];
    let mut call = fixture.call(Path::new("/usr/bin/unshare"), words);
    call.command.arg(fixture.program());
    let outcome = call.run();
    outcome.is(0);
    assert!(
        outcome
            .stderr
            .contains("cannot make a thread or process for the guest's network"),
        "{outcome:?}"
    );
}

const WILDCARD: [&str; 2] = ["--connect", "tcp://*.example.com:443"];

/// Or it would say nothing of palisade that one is refused.
fn each_order_is_carried_out_by_a_process_that_nothing_holds(fixture: &Fixture) {
    lay_out(fixture);
    let mut alone = alone(fixture);
    for (order, path) in ORDERS {
        assert_eq!(plant(fixture, alone.id(), order, path), 0, "{order}");
    }
    wait(&mut alone);
    assert!(fixture.exists("executed") && fixture.exists("new") && fixture.exists("folder"));
    assert!(!fixture.exists("victim"));
}

fn nothing_is_done_for_a_guest(fixture: &Fixture) {
    holds_supervisor_and_keeper(fixture, &[]);
}

/// There palisade may list names, and read or change nothing.
fn nothing_is_done_for_a_guest_where_it_may_write(fixture: &Fixture) {
    holds_supervisor_and_keeper(fixture, &["--write", "."]);
}

fn nothing_is_done_for_a_guest_with_placeholders(fixture: &Fixture) {
    fixture.make_folder("work");
    holds_supervisor_and_keeper(fixture, &["--write", "work", "--protect", "work/.env"]);
}

fn nothing_is_done_for_a_guest_in_a_control_group(fixture: &Fixture) {
    holds_supervisor_and_keeper(fixture, &["--memory", "100M", "--report", "report"]);
}

/// They pass signals on.
fn holds_supervisor_and_keeper(fixture: &Fixture, flags: &[&str]) {
    holds(fixture, flags, &["signal"], |palisade| {
        [&[palisade][..], &children_of(palisade)].concat()
    });
}

/// Who executes getent(1) and reads the system's settings changes nothing and reads nothing else.
fn names_are_looked_up_by_somebody_who_does_nothing_else(fixture: &Fixture) {
    let may = ["socket", "fork", "signal", "look"];
    holds(fixture, &WILDCARD, &may, child_named("palisade-names"));
}

/// Who reads what a guest sends through the proxy connects, and opens no file at all.
fn tunnels_are_served_by_somebody_who_does_nothing_else(fixture: &Fixture) {
    holds(fixture, &WILDCARD, &["socket"], |palisade| {
        let proxy = child_named("palisade-proxy")(palisade);
        let threads: Vec<u32> = proxy.iter().copied().flat_map(threads_of).collect();
        // One that hears of connections, one that takes them.
        if threads.len() == 2 {
            threads
        } else {
            Vec::new()
        }
    });
}

/// Who passes bytes on has no need of anything but its descriptors.
fn streams_are_relayed_by_somebody_who_does_nothing_else(fixture: &Fixture) {
    lay_out(fixture);
    let (_ours, theirs) = UnixStream::pair().unwrap();
    let guarded = start(fixture, &[], OwnedFd::from(theirs).into());
    is_held(fixture, guarded, &[], child_named("palisade-relay"));
}

/// Who answers a guest's calls on the network looks into it, and opens, changes and executes nothing.
fn the_guests_network_is_served_by_threads_that_change_nothing(fixture: &Fixture) {
    let may = ["socket", "look"];
    holds(fixture, &WILDCARD, &may, |palisade| {
        let mut threads = threads_of(palisade);
        threads.retain(|thread| *thread != palisade);
        // Once those have ended that start others.
        let names: Vec<_> = threads.iter().copied().map(name_of).collect();
        if names == ["palisade-broker"] {
            threads
        } else {
            Vec::new()
        }
    });
}

/// Under a limit on memory a process in the domain's group makes the guest's sockets.
fn who_makes_sockets_in_a_control_group_does_nothing_else(fixture: &Fixture) {
    let flags = ["--memory", "100M", "--connect", "tcp://127.0.0.1:1"];
    holds(fixture, &flags, &["socket"], |palisade| {
        let of_keeper = children_of(children_of(palisade)[0]).into_iter();
        of_keeper
            .filter(|child| *child != init_of(palisade))
            .collect()
    });
}

fn what_was_made_is_removed_all_the_same(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/.git/hooks",
        "--report",
        "report",
    ];
    let mut guarded = start(fixture, &flags, Stdio::piped());
    assert!(fixture.exists("work/.git"));
    drop(guarded.stdin.take());
    assert!(wait(&mut guarded).success());
    assert!(!fixture.exists("work/.git"));
    assert!(fixture.read("report").contains("\"exit_code\": 0"));
}

/// A guest with these flags, and [`is_held`].
fn holds(fixture: &Fixture, flags: &[&str], may: &[&str], parts: impl Fn(u32) -> Vec<u32>) {
    lay_out(fixture);
    let guarded = start(fixture, flags, Stdio::piped());
    is_held(fixture, guarded, may, parts);
}

/// Has each of these processes and threads of palisade's make each call but those that it may.
fn is_held(fixture: &Fixture, mut guarded: Child, may: &[&str], parts: impl Fn(u32) -> Vec<u32>) {
    let find = || parts(guarded.id());
    let mut found = Vec::new();
    eventually("each part is under a filter", || {
        // One that has begun others, and ends, is no part: those are that are still there at the next look.
        let before = std::mem::replace(&mut found, find());
        let all = !found.is_empty() && found.iter().all(|part| is_filtered(*part));
        (!all || before != found).then(|| format!("{found:?}"))
    });
    for part in found.iter().copied() {
        for (order, path) in ORDERS.iter().filter(|(order, _)| !may.contains(order)) {
            let name = name_of(part);
            assert_ne!(plant(fixture, part, order, path), 0, "{order}, by {name}");
        }
    }
    signal(&guarded, Signal::TERM);
    wait(&mut guarded);
    eventually("nothing of it is left", || {
        let left = found
            .iter()
            .find(|part| Path::new(&format!("/proc/{part}")).exists());
        left.map(ToString::to_string)
    });
    assert_eq!(fixture.read("secret"), "hunter2");
    assert!(fixture.exists("victim"));
    for made in ["new", "folder", "executed"] {
        assert!(!fixture.exists(made), "{made}");
    }
}

fn child_named(name: &str) -> impl Fn(u32) -> Vec<u32> {
    move |palisade| {
        let children = children_of(palisade).into_iter();
        children.filter(|child| name_of(*child) == name).collect()
    }
}

/// What the orders are about, as if none had ever been carried out.
fn lay_out(fixture: &Fixture) {
    fixture.write("secret", "hunter2");
    fixture.write("victim", "");
    fixture.write_program("program", "#!/bin/sh\n: > \"${0%/*}/executed\"\n");
    let _ = fs::remove_file(fixture.path("new"));
    let _ = fs::remove_dir(fixture.path("folder"));
    let _ = fs::remove_file(fixture.path("executed"));
}

/// A process of the user's that waits.
fn alone(fixture: &Fixture) -> Child {
    let mut call = fixture.call(Path::new("/bin/sleep"), ["1000"]);
    call.spawn()
}

/// A guest that has said that it runs, and reads until its input ends.
fn start(fixture: &Fixture, flags: &[&str], stderr: Stdio) -> Child {
    let mut call = fixture.script(flags, "echo ready; cat");
    call.command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = call.command.stderr(stderr).spawn().unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    BufReader::with_capacity(1, stdout)
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn threads_of(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names
        .map(|name| name.to_str().unwrap().parse().unwrap())
        .collect()
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
fn plant(fixture: &Fixture, process: u32, order: &str, path: &str) -> i32 {
    let planted = Command::new(guest("fault"))
        .args([&process.to_string(), order])
        .arg(fixture.path(path))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let answer = String::from_utf8_lossy(&planted.stdout).trim().parse();
    answer.unwrap_or_else(|_| panic!("{order} {path}: {planted:?}"))
}
