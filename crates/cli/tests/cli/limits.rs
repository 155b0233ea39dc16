//! Limits that a guest meets as an error of its own call. Those that end it are in `exit_codes`.

use super::fixture::{
    Fixture, Outcome, User, cases, children_of, ends_soon, finish, init_of, pidfd_of, signal,
};
use palisade_suite::guest;
use rustix::{net::sockopt, process::Signal};
use serde_json::Value;
use std::{
    fs,
    io::Read,
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

cases![
    tmp_size,
    tmp_size_covers_both_folders,
    tmp_holds_a_bounded_number_of_files,
    file_size_of_each_file,
    no_space_is_reserved_behind_a_files_end,
    files_of_each_process,
    processes_at_one_time,
    threads_count_as_processes,
    fork_bomb,
    processes_are_bounded_without_a_flag,
    memory,
    memory_counts_what_is_in_tmp,
    memory_counts_what_is_queued_in_sockets,
    terminals_are_bounded,
    reserved_memory_does_not_count,
    processor_share,
    time_runs_while_palisade_is_stopped,
    chains_of_processes_hold_up_no_end,
    who_keeps_time_is_due_before_the_guest,
    limits_from_a_file,
    refused_processes_are_told,
    used_up_folders_are_told,
];

fn tmp_size(fixture: &Fixture) {
    let write = "head -c 2M /dev/zero > /tmp/x";
    let outcome = fixture.script(&["--tmp-size", "1M"], write).run();
    assert!(
        outcome.code() == 1 && outcome.stderr.contains("No space left"),
        "{outcome:?}"
    );
    fixture
        .script(&["--tmp-size", "3M"], write)
        .run()
        .is_silent(0);
}

fn tmp_size_covers_both_folders(fixture: &Fixture) {
    let write = "head -c 2M /dev/zero > /tmp/x && head -c 2M /dev/zero > /dev/shm/x";
    fixture.script(&["--tmp-size", "3M"], write).run().is(1);
    fixture
        .script(&["--tmp-size", "5M"], write)
        .run()
        .is_silent(0);
}

/// An empty file takes memory of the kernel's too.
fn tmp_holds_a_bounded_number_of_files(fixture: &Fixture) {
    let fill =
        "cd /tmp; perl -e 'for (1..20000) { open(my $f, \">\", $_) or last; $n = $_ } print $n'";
    let outcome = fixture.script(&["--tmp-size", "4M"], fill).run();
    let made: u32 = outcome.text().parse().unwrap();
    assert!((100..2000).contains(&made), "{made}");
}

fn file_size_of_each_file(fixture: &Fixture) {
    fixture.make_folder("work");
    let two = "head -c 900K /dev/zero > work/one; head -c 900K /dev/zero > work/two";
    fixture
        .script(&["--write", "work", "--file-size", "1M"], two)
        .run()
        .is_silent(0);
    let handled = "trap '' XFSZ; head -c 2M /dev/zero > work/one";
    let outcome = fixture
        .script(&["--write", "work", "--file-size", "1M"], handled)
        .run();
    assert!(
        outcome.code() == 1 && outcome.stderr.contains("File too large"),
        "{outcome:?}"
    );
    assert_eq!(fixture.path("work/one").metadata().unwrap().len(), 1 << 20);
}

/// fallocate(1) says with `-n` that the file keeps its size, and with `-p` that a hole is punched.
fn no_space_is_reserved_behind_a_files_end(fixture: &Fixture) {
    fixture.make_folder("work");
    let reserve = ": > work/file; fallocate -n -l 8M work/file; fallocate -p -l 4K work/file; stat -c %b work/file";
    let blocks = |flags: &[&str]| {
        let words = [&["--write", "work"], flags].concat();
        let outcome = fixture.script(&words, reserve).run();
        fs::remove_file(fixture.path("work/file")).unwrap();
        (
            outcome.text().trim().parse::<u64>().unwrap(),
            outcome.stderr,
        )
    };
    let (reserved, _) = blocks(&[]);
    assert!(reserved * 512 > 7 << 20, "{reserved}");
    let (held, said) = blocks(&["--file-size", "1M"]);
    assert_eq!(held, 0, "{said}");
    assert!(said.contains("unsupported"), "{said}");
}

/// Opens a hundred files and prints for how many that went well.
const OPEN: &str = "perl -e 'for (1..100) { open(my $f, \"<\", \"/dev/null\") or last; push @f, $f } print scalar @f'";

fn files_of_each_process(fixture: &Fixture) {
    let outcome = fixture.script(&["--files", "32"], OPEN).run();
    let opened: u32 = outcome.text().parse().unwrap();
    assert!(
        (20..=29).contains(&opened),
        "stdin, stdout, stderr and a few of perl's own: {opened}"
    );
    fixture.script(&[], OPEN).run().prints("100");
    fixture
        .script(&["--files", "32"], "ulimit -n 64")
        .run()
        .is(2);
}

/// Forks up to so many children that stay, and prints how many there are.
fn forks(most: u32) -> String {
    format!(
        "exec perl -e 'for (1..{most}) {{ my $p = fork; last unless defined $p; if (!$p) {{ sleep 60; exit }} $n++ }} print $n + 0'"
    )
}

fn processes_at_one_time(fixture: &Fixture) {
    fixture
        .script(&["--processes", "32"], &forks(300))
        .run()
        .prints("31");
    fixture
        .script(&["--processes", "1"], &forks(300))
        .run()
        .prints("0");
    fixture.script(&[], &forks(300)).run().prints("300");
}

fn threads_count_as_processes(fixture: &Fixture) {
    // Perl's threads are an option of its build; clone(2) with CLONE_VM | CLONE_SIGHAND | CLONE_THREAD
    // wants a stack, so python is asked where there is one.
    let start = "import threading, time\nn = 0\ntry:\n    for _ in range(100):\n        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n        n += 1\nexcept RuntimeError:\n    pass\nprint(n, flush=True)\nimport os\nos._exit(0)";
    fixture.write("threads.py", start);
    let words = |limit: &'static str| {
        [
            "run",
            "--processes",
            limit,
            "--read",
            "threads.py",
            "--",
            "/usr/bin/python3",
            "threads.py",
        ]
    };
    fixture.palisade(words("16")).run().prints("15\n");
    fixture.palisade(words("200")).run().prints("100\n");
}

/// It would make 1024 processes.
fn fork_bomb(fixture: &Fixture) {
    let bomb = "exec perl -e 'for (1..10) { fork } sleep 60'";
    let flags = ["--processes", "64", "--time", "1s", "--report", "-"];
    let outcome = fixture.script(&flags, bomb).run();
    let report = report(&outcome);
    outcome.says(124, &["--time"]);
    let ended = report["usage"]["left_behind"].as_u64().unwrap();
    assert!((1..=64).contains(&ended), "{ended}");
}

fn processes_are_bounded_without_a_flag(fixture: &Fixture) {
    let outcome = fixture
        .palisade(["run", "--", "/bin/bash", "-c", "ulimit -u"])
        .run();
    let bound: u32 = outcome.is_silent(0).text().trim().parse().unwrap();
    assert!(bound <= 5000, "{bound}");
}

fn report(outcome: &Outcome) -> Value {
    let text = outcome.text();
    let start = text
        .find("{\n")
        .unwrap_or_else(|| panic!("no report: {outcome:?}"));
    serde_json::from_str(&text[start..]).unwrap()
}

/// Touches so many MiB one by one.
fn allocate(mebibytes: u32) -> String {
    format!("exec perl -e 'for (1..{mebibytes}) {{ push @m, \"x\" x (1 << 20) }} print scalar @m'")
}

/// Cgroups are root's to give here; without one palisade refuses unless less was accepted.
fn memory(fixture: &Fixture) {
    match fixture.user {
        User::Root => {
            fixture
                .script(&["--memory", "64M"], &allocate(300))
                .run()
                .says(137, &["limit: ", "--memory"]);
            fixture
                .script(&["--memory", "512M"], &allocate(100))
                .run()
                .prints("100");
        }
        User::Ordinary => {
            fixture
                .script(&["--memory", "64M"], "true")
                .run()
                .refuses(&["memory", "--allow-degraded memory"]);
            let accepted = ["--memory", "64M", "--allow-degraded", "memory"];
            assert_ne!(fixture.script(&accepted, &allocate(300)).run().code(), 0);
            fixture.script(&accepted, &allocate(10)).run().prints("10");
        }
    }
}

fn memory_counts_what_is_in_tmp(fixture: &Fixture) {
    if fixture.user == User::Root {
        let fill = "head -c 300M /dev/zero > /tmp/x";
        assert_ne!(fixture.script(&["--memory", "64M"], fill).run().code(), 0);
        fixture
            .script(&["--memory", "512M"], fill)
            .run()
            .is_silent(0);
    }
}

/// Connections to somebody who never reads: what is queued there is the guest's, though palisade made the
/// sockets. The witness is the kernel's own count.
fn memory_counts_what_is_queued_in_sockets(fixture: &Fixture) {
    const CONNECTIONS: usize = 60;
    const FILL: &str = "import socket, sys, time\n\
         all = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(60)]\n\
         idle = 0\n\
         while idle < 5:\n\
         \x20   moved = 0\n\
         \x20   for one in all:\n\
         \x20       one.setblocking(False)\n\
         \x20       try:\n\
         \x20           while True: moved += one.send(b'x' * 65536)\n\
         \x20       except BlockingIOError: pass\n\
         \x20   idle = 0 if moved else idle + 1\n\
         \x20   time.sleep(0.05)\n\
         print('full', flush=True)\n\
         sys.stdin.read()\n";
    if fixture.user == User::Ordinary {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    sockopt::set_socket_recv_buffer_size(&server, 4096).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let deaf = thread::spawn(move || {
        let taken = server.incoming().flatten().take(CONNECTIONS);
        taken.collect::<Vec<_>>()
    });
    fixture.write("fill.py", FILL);
    let grant = format!("tcp://127.0.0.1:{port}");
    let words = [
        "run",
        "--memory",
        "32M",
        "--connect",
        &grant,
        "--read",
        "fill.py",
    ];
    let guest = ["--", "/usr/bin/python3", "fill.py", &port];
    let before_kb = queued_kb();
    let mut child = fixture.palisade([&words[..], &guest].concat()).spawn();
    let mut full = [0; 5];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut full)
        .unwrap();
    let grown_kb = queued_kb().saturating_sub(before_kb);
    assert!(
        grown_kb < 24 << 10,
        "{grown_kb} KiB wait under a limit of 32 MiB"
    );
    finish(child, b"").is_silent(0);
    assert_eq!(deaf.join().unwrap().len(), CONNECTIONS);
}

/// What all TCP sockets of the machine hold: `mem` in `/proc/net/sockstat`, in pages.
fn queued_kb() -> usize {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap();
    let tcp = text.lines().find(|line| line.starts_with("TCP:")).unwrap();
    let (_, pages) = tcp.rsplit_once("mem ").unwrap();
    pages.trim().parse::<usize>().unwrap() * 4
}

/// All instances of `/dev/pts` but the host's share one bound (`kernel.pty.max`).
fn terminals_are_bounded(fixture: &Fixture) {
    let open = "import os\nn = 0\n\
         try:\n\
         \x20   while n < 400: os.openpty(); n += 1\n\
         except OSError: pass\n\
         print(n)";
    fixture.write("open.py", open);
    let flags = [
        "run", "--files", "1000", "--device", "pts", "--read", "open.py",
    ];
    let guest = ["--", "/usr/bin/python3", "open.py"];
    fixture
        .palisade([&flags[..], &guest].concat())
        .run()
        .prints("256\n");
}

/// Go, Java and Node reserve far more than they use.
fn reserved_memory_does_not_count(fixture: &Fixture) {
    let reserve = "import mmap\nm = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=0)\nprint('reserved')";
    fixture.write("reserve.py", reserve);
    let flags: &[&str] = match fixture.user {
        User::Root => &["--memory", "128M"],
        User::Ordinary => &["--memory", "128M", "--allow-degraded", "memory"],
    };
    let words = ["run"]
        .iter()
        .chain(flags)
        .chain(&[
            "--read",
            "reserve.py",
            "--",
            "/usr/bin/python3",
            "reserve.py",
        ])
        .copied();
    fixture.palisade(words).run().prints("reserved\n");
}

/// Spins for a second of wall time and prints the processor time it got, in hundredths.
fn processor_share(fixture: &Fixture) {
    let spin = "exec perl -e '$e = time + 2; 1 while time < $e; print int(100 * (times)[0])'";
    let (flags, most) = match fixture.user {
        User::Root => (&["--cpu", "0.2"][..], 80),
        User::Ordinary => (&["--cpu", "1", "--allow-degraded", "cpu"][..], 210),
    };
    let outcome = fixture.script(flags, spin).run();
    outcome.is_silent(0);
    let used: u32 = outcome.text().parse().unwrap();
    assert!(used <= most, "{used} hundredths of two seconds");
    if fixture.user == User::Ordinary {
        fixture
            .script(&["--cpu", "1"], "true")
            .run()
            .refuses(&["cpu", "--allow-degraded cpu"]);
    }
}

/// Also if the guest has something to tell palisade all the time: that it was stopped.
fn time_runs_while_palisade_is_stopped(fixture: &Fixture) {
    const GUEST: &str = "$p = $$; if (!fork) { setpgrp; while (1) { for $s (qw(STOP CONT)) { \
         kill $s, $p; select undef, undef, undef, 1e-4 } } } syswrite STDOUT, qq(up\n); sleep 1 while 1";
    let words = ["run", "--time", "2", "--", "perl", "-e", GUEST];
    let mut child = fixture.palisade(words).spawn();
    let mut up = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    let guest = pidfd_of(children_of(init_of(child.id()))[0]);
    signal(&child, Signal::STOP);
    assert!(ends_soon(&guest));
    signal(&child, Signal::CONT);
    finish(child, b"").says(124, &["--time"]);
}

/// Init reaps so many at one time before it looks at its clock and whom else it hears, and ends who makes processes before it reaps
/// the last of them.
fn chains_of_processes_hold_up_no_end(fixture: &Fixture) {
    const LONG_ENOUGH: &str = "60";
    const SOON: Duration = Duration::from_secs(30);
    let program = guest("chains");
    let program = program.to_str().unwrap();
    let run = |flags: &[&str], first: &str| {
        let began = Instant::now();
        let words = ["run", "--processes", "4000", "--read", program];
        let guest = ["--", program, "300", LONG_ENOUGH, first];
        let words = words.iter().chain(flags).chain(&guest);
        let outcome = fixture.palisade(words).run();
        assert!(began.elapsed() < SOON, "{outcome:?}");
        outcome
    };
    run(&["--time", "1"], LONG_ENOUGH).says(124, &["--time"]);
    run(&[], "1").is(0);
}

/// Init asks for short slices, so that hundreds of busy processes do not hold up their own end; the guest has such
/// as before. Kernels before 6.12 tell of no slices at all.
fn who_keeps_time_is_due_before_the_guest(fixture: &Fixture) {
    // Init does so once the guest is on its way.
    const GUEST: &str = "sub told { syscall(315, 0 + shift, my $told = chr(0) x 48, 48, 0) and die; unpack 'x8 Q x8 Q', $told } \
         for (1 .. 1000) { last if (told(1))[0]; select undef, undef, undef, 0.01 } print join(' ', told(1), told($$)), qq(\n)";
    let outcome = fixture.palisade(["run", "--", "perl", "-e", GUEST]).run();
    outcome.is_silent(0);
    let told = outcome.text();
    let words = told.split_whitespace();
    let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
    let [init_flags, init_slice_ns, flags, slice_ns] = numbers[..] else {
        panic!("{told}");
    };
    assert_eq!((init_flags, flags), (1, 0), "SCHED_FLAG_RESET_ON_FORK");
    assert!(slice_ns == 0 || init_slice_ns == 100_000, "{told}");
    assert!(slice_ns == 0 || init_slice_ns < slice_ns, "{told}");
}

fn limits_from_a_file(fixture: &Fixture) {
    fixture.write("policy.toml", "[limits]\nfiles = 32\ntime = '200ms'\n");
    fixture
        .script(&["--policy", "policy.toml"], "sleep 60")
        .run()
        .says(124, &["--time"]);
    fixture
        .script(&["--policy", "policy.toml", "--time", "60s"], "ulimit -n")
        .run()
        .prints("32\n");
}

/// Where a group counts them: an ordinary user has none here.
fn refused_processes_are_told(fixture: &Fixture) {
    let bomb = "exec perl -e 'for (1..100) { my $p = fork; exit 3 unless defined $p; if (!$p) { sleep 60; exit } }'";
    let mut flags = vec!["--processes", "16", "--report", "report.json"];
    if fixture.user == User::Root {
        // What makes a group: that one counts what it refuses.
        flags.extend(["--memory", "1G"]);
    }
    let outcome = fixture.script(&flags, bomb).run();
    outcome.is(3);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let denials = report["denials"].as_array().unwrap();
    if fixture.user == User::Ordinary {
        assert!(
            denials.is_empty() && outcome.stderr.is_empty(),
            "{outcome:?}"
        );
        return;
    }
    assert_eq!(denials[0]["grant"], "--processes");
    assert_eq!(denials[0]["count"], 1);
    outcome.says(
        3,
        &["limit: the guest wanted more processes than --processes allows"],
    );
    let why = fixture.palisade(["why", "report.json"]).run();
    assert!(
        why.text().contains("a larger `--processes` would allow it"),
        "{why:?}"
    );
    // Who copes with it is left alone.
    fixture.script(&flags, "true").run().is_silent(0);
}

fn used_up_folders_are_told(fixture: &Fixture) {
    let room = "head -c 10M /dev/zero > /tmp/x";
    let files = "exec perl -e 'while (1) { open(my $f, q(>), q(/dev/shm/).++$n) or exit 4 }'";
    for (fill, code, what) in [
        (room, 1, "more room in /tmp"),
        (files, 4, "more files in /tmp"),
    ] {
        let flags = ["--tmp-size", "2M", "--report", "report.json"];
        let outcome = fixture.script(&flags, fill).run();
        outcome.says(
            code,
            &[&format!(
                "limit: the guest wanted {what} and /dev/shm than --tmp-size allows"
            )],
        );
        let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
        assert_eq!(report["denials"][0]["grant"], "--tmp-size");
        let why = fixture.palisade(["why", "report.json"]).run();
        assert!(why.text().contains("--tmp-size"), "{why:?}");
        // It says so itself, and has made room since.
        let copes = format!("({fill}) 2> /dev/null; rm -f /tmp/x /dev/shm/*; exit 5");
        fixture
            .script(&["--tmp-size", "2M"], &copes)
            .run()
            .is_silent(5);
    }
    let granted = ["--read", "/usr", "--tmp-size", "2M"];
    fixture
        .script(
            &granted,
            "head -c 10M /dev/zero > /tmp/x 2> /dev/null || exit 0",
        )
        .run()
        .is_silent(0);
}
