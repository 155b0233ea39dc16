//! Exit codes as people know them, and one clear line where the guest could not have said why.

use super::fixture::{Fixture, User, cases, children_of, init_of, read_line};
use std::{fs, io::BufReader};

cases![
    own_code,
    own_high_code,
    killed_by_a_signal,
    expected_signals_need_no_comment,
    wall_clock_limit,
    processor_time_limit,
    processor_time_of_all_processes,
    processor_time_of_children_that_nobody_waits_for,
    processor_time_of_palisade_for_a_guest,
    processor_time_of_who_makes_sockets_for_a_guest,
    output_limit,
    file_size_limit,
    not_executable,
    not_found,
    scripts,
    foreign_architecture_is_not_found_out_by_its_code,
];

fn own_code(fixture: &Fixture) {
    fixture.script(&[], "exit 7").run().is_silent(7);
    fixture.script(&[], "true").run().is_silent(0);
}

fn own_high_code(fixture: &Fixture) {
    fixture.script(&[], "exit 255").run().is_silent(255);
    fixture.script(&[], "exit 125").run().is_silent(125);
}

fn killed_by_a_signal(fixture: &Fixture) {
    fixture
        .script(&[], "kill -KILL $$")
        .run()
        .says(137, &["guest: ended by SIGKILL"]);
    fixture
        .script(&[], "kill -SEGV $$")
        .run()
        .says(139, &["guest: ended by SIGSEGV"]);
}

fn expected_signals_need_no_comment(fixture: &Fixture) {
    fixture.script(&[], "kill -TERM $$").run().is_silent(143);
    fixture.script(&[], "kill -PIPE $$").run().is_silent(141);
}

fn wall_clock_limit(fixture: &Fixture) {
    fixture
        .script(&["--time", "200ms"], "sleep 60")
        .run()
        .says(124, &["limit: ", "--time"]);
    fixture
        .script(&["--time", "60s"], "exit 3")
        .run()
        .is_silent(3);
}

/// Control groups are root's to give here: without one, what nobody waits for is not counted.
const CPU_TIME_ACCEPTED: [&str; 4] = ["--allow-degraded", "cpu-time", "--time", "60s"];

fn processor_time_limit(fixture: &Fixture) {
    let spin = "while :; do :; done";
    let flags = [&["--cpu-time", "300ms"], &CPU_TIME_ACCEPTED[..]].concat();
    fixture
        .script(&flags, spin)
        .run()
        .says(152, &["limit: ", "--cpu-time"]);
}

/// Children that were not waited for count, and so do those that were.
fn processor_time_of_all_processes(fixture: &Fixture) {
    let flags = [&["--cpu-time", "1s"], &CPU_TIME_ACCEPTED[..]].concat();
    let at_once = "for i in 1 2 3 4; do (while :; do :; done) & done; wait";
    fixture
        .script(&flags, at_once)
        .run()
        .says(152, &["--cpu-time"]);
    let in_turn = "while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done";
    fixture
        .script(&flags, in_turn)
        .run()
        .says(152, &["--cpu-time"]);
}

/// Each of these children is gone unseen: its parent waits for none.
fn processor_time_of_children_that_nobody_waits_for(fixture: &Fixture) {
    const BURN: &str = "$SIG{CHLD} = qq(IGNORE); for (1 .. 30) { if (!fork) { do { @t = times } \
         while $t[0] + $t[1] < 0.1; exit } 1 while wait > 0 } print qq(burned\n)";
    fixture.write("burn.pl", BURN);
    let of = |flags: &[&str]| {
        let read = ["--read", "burn.pl", "--report", "report.json"];
        let words = [&["run"], flags, &read, &["--", "perl", "burn.pl"]].concat();
        fixture.palisade(words).run()
    };
    if fixture.user == User::Ordinary {
        of(&["--cpu-time", "1s"]).refuses(&["cpu-time", "--allow-degraded cpu-time"]);
        return;
    }
    of(&["--cpu-time", "1s"]).says(152, &["--cpu-time"]);
    of(&["--cpu-time", "60s"]).prints("burned\n");
    let report: serde_json::Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let used_us = |name: &str| report["usage"][name].as_u64().unwrap();
    let all_us = used_us("user_us") + used_us("system_us");
    assert!((2_800_000..6_000_000).contains(&all_us), "{report}");
}

/// The guest itself uses less than half of what it may: palisade sends for it.
fn processor_time_of_palisade_for_a_guest(fixture: &Fixture) {
    const SEND: &str = "socket $s, 2, 2, 0 or die $!; $to = pack qq(SnC4x8), 2, shift, 127, 0, 0, 1; \
         $text = qq(.) x 60000; do { send $s, $text, 0, $to or die $! for (1 .. 100); @t = times } \
         while $t[0] + $t[1] < 0.45; print qq(sent\n)";
    let outside = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port().to_string();
    let grant = format!("udp://127.0.0.1:{port}");
    let flags = [
        &[
            "--cpu-time",
            "1s",
            "--connect",
            &grant,
            "--report",
            "r.json",
        ],
        &CPU_TIME_ACCEPTED[..],
    ]
    .concat();
    let words = [&["run"], &flags[..], &["--", "perl", "-e", SEND, &port]].concat();
    fixture.palisade(words).run().says(152, &["--cpu-time"]);
    let report: serde_json::Value = serde_json::from_str(&fixture.read("r.json")).unwrap();
    let used_us = |name: &str| report["usage"][name].as_u64().unwrap();
    let all_us = used_us("user_us") + used_us("system_us");
    assert!((1_000_000..1_500_000).contains(&all_us), "{report}");
}

/// A process of palisade's outside the domain's namespaces, in the group that counts.
fn processor_time_of_who_makes_sockets_for_a_guest(fixture: &Fixture) {
    // It is there once a call was answered.
    const CONNECT: &str = "socket $s, 2, 1, 0 or die $!; connect $s, pack qq(SnC4x8), 2, 9, 127, 0, 0, 1; \
         $| = 1; print qq(up\n); <STDIN>";
    let words = ["run", "--cpu-time", "60s", "--connect", "tcp://127.0.0.1:9"];
    let guest = ["--", "perl", "-e", CONNECT];
    let mut call = fixture.palisade(words.iter().chain(&guest));
    if fixture.user == User::Ordinary {
        call.run()
            .refuses(&["cpu-time", "--allow-degraded cpu-time"]);
        return;
    }
    let mut child = call.spawn();
    read_line(&mut BufReader::new(child.stdout.take().unwrap()));
    let init = init_of(child.id());
    let keepers = children_of(child.id()).into_iter();
    let others = keepers.flat_map(children_of).filter(|pid| *pid != init);
    let others: Vec<_> = others.map(counting_group).collect();
    let counting = counting_group(init);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(!others.is_empty(), "nobody makes sockets");
    assert!(counting.contains("palisade"), "{counting}");
    assert!(others.iter().all(|group| *group == counting), "{others:?}");
}

/// Where the processor time of a process is counted: of version 1 if that counts, else of version 2.
fn counting_group(pid: u32) -> String {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let find = |part: &str| groups.lines().find(|line| line.contains(part));
    let found = find("cpuacct").or_else(|| find("0::"));
    found.unwrap().to_owned()
}

fn output_limit(fixture: &Fixture) {
    let flags = ["--output", "1M", "--time", "60s"];
    let outcome = fixture
        .script(&flags, "head -c 10M /dev/zero; exit 0")
        .run();
    outcome.says(153, &["limit: ", "--output"]);
    assert_eq!(
        outcome.stdout.len(),
        1 << 20,
        "what came before the limit is passed on"
    );
    let exactly = fixture.script(&flags, "head -c 1M /dev/zero").run();
    exactly.is_silent(0);
    assert_eq!(exactly.stdout.len(), 1 << 20);
    let both = fixture
        .script(&flags, "head -c 1M /dev/zero; echo one byte too many >&2")
        .run();
    both.says(153, &["--output"]);
}

fn file_size_limit(fixture: &Fixture) {
    let write = "exec head -c 2M /dev/zero > /tmp/large";
    fixture
        .script(&["--file-size", "1M"], write)
        .run()
        .says(153, &["--file-size"]);
    fixture
        .script(&["--file-size", "2M"], write)
        .run()
        .is_silent(0);
}

fn not_executable(fixture: &Fixture) {
    fixture.write("plain", "no program");
    fixture
        .palisade(["run", "--read", "plain", "--", "./plain"])
        .run()
        .says(126, &["guest: ", "plain", "cannot be executed"]);
    fixture
        .palisade(["run", "--", "/usr"])
        .run()
        .says(126, &["cannot be executed"]);
}

fn not_found(fixture: &Fixture) {
    fixture
        .palisade(["run", "--", "no-such-program"])
        .run()
        .says(127, &["guest: ", "'no-such-program'", "not found"]);
    fixture
        .palisade(["run", "--", "/no/such/program"])
        .run()
        .says(127, &["not found"]);
}

fn scripts(fixture: &Fixture) {
    fixture.write_program("with", "#!/bin/sh\nexit 5\n");
    fixture
        .palisade(["run", "--read", "with", "--", "./with"])
        .run()
        .is_silent(5);
    fixture.write_program("without", "exit $1\n");
    fixture
        .palisade(["run", "--read", "without", "--", "./without", "6"])
        .run()
        .is_silent(6);
    fixture.write_program("through-env", "#!/usr/bin/env sh\nexit 8\n");
    fixture
        .palisade(["run", "--read", ".", "--", "./through-env"])
        .run()
        .is_silent(8);
}

/// SIGSYS by the guest's own hand is told as what it is.
fn foreign_architecture_is_not_found_out_by_its_code(fixture: &Fixture) {
    fixture.script(&[], "exit 159").run().is_silent(159);
}
