//! Standard streams, signals, and what happens to a guest's processes at the end.

use super::{
    cleanup::eventually,
    fixture::{
        Call, Fixture, Outcome, User, cases, ends_soon, finish, init_of, pidfd_of, read_line,
        signal, wait,
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    pipe::PipeFlags,
    process::Signal,
};
use std::{
    fs,
    io::{BufReader, Read},
    os::{fd::OwnedFd, unix::fs::PermissionsExt},
    path::Path,
    process::{ChildStdout, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

cases![
    stdin_to_its_end,
    no_input,
    input_that_is_not_read,
    what_the_guest_leaves_is_for_the_next,
    pipes_are_the_same_pipes,
    a_pipe_between_two_guests_leads_one_way,
    files_are_the_same_files,
    files_can_be_opened_again_as_they_are,
    input_does_not_become_writable,
    output_does_not_become_readable,
    output_does_not_become_a_program,
    output_does_not_become_setuid,
    stdout_and_stderr_stay_apart,
    reader_that_goes_away,
    reader_that_stands_still,
    speed_of_a_pipe,
    a_flood_on_stderr_waits_for_its_reader,
    a_flood_on_stderr_ends_with_its_reader,
    output_limit_passes_all_on,
    signals_are_forwarded,
    ignored_signals_stay_ignored,
    a_starter_that_ignores_its_children,
    what_palisade_ignores_the_guest_ignores,
    a_shell_pipeline_gets_the_signal,
    orphans_are_ended,
    daemons_are_ended,
    guest_ends_with_palisade,
];

fn stdin_to_its_end(fixture: &Fixture) {
    let input: Vec<u8> = (0..3_000_000u32)
        .map(|number| (number % 251) as u8)
        .collect();
    let outcome = fixture
        .palisade(["run", "--", "/bin/cat"])
        .input(input.clone())
        .run();
    outcome.is_silent(0);
    assert!(
        outcome.stdout == input,
        "{} of {} bytes",
        outcome.stdout.len(),
        input.len()
    );
}

fn no_input(fixture: &Fixture) {
    fixture
        .palisade(["run", "--", "/usr/bin/wc", "-c"])
        .run()
        .prints("0\n");
}

fn input_that_is_not_read(fixture: &Fixture) {
    fixture
        .palisade(["run", "--", "/bin/true"])
        .input(vec![0; 1 << 20])
        .run()
        .is_silent(0);
}

fn what_the_guest_leaves_is_for_the_next(fixture: &Fixture) {
    let script = format!(
        "{} run -- /usr/bin/head -c 3 >/dev/null; cat",
        fixture.program().display()
    );
    // A file: head gives back what it read too much, which a pipe can't take.
    fixture.write("input", "abcdef");
    let mut call = fixture.call("/bin/sh".as_ref(), ["-c", &script]);
    let input = fs::File::open(fixture.path("input")).unwrap();
    let child = call
        .command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child, b"").prints("def");
}

fn pipes_are_the_same_pipes(fixture: &Fixture) {
    let mut child = fixture
        .script(
            &[],
            "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2",
        )
        .spawn();
    let inode = |fd: &dyn std::os::fd::AsFd| rustix::fs::fstat(fd.as_fd()).unwrap().st_ino;
    let inodes = [
        inode(child.stdin.as_ref().unwrap()),
        inode(child.stdout.as_ref().unwrap()),
        inode(child.stderr.as_ref().unwrap()),
    ];
    child.stdin = None;
    finish(child, b"").prints(&inodes.map(|inode| format!("pipe:[{inode}]\n")).concat());
}

/// Else what the one behind it reads elsewhere could go back. An ordinary user's guests own the pipe.
fn a_pipe_between_two_guests_leads_one_way(fixture: &Fixture) {
    if fixture.user != User::Root {
        return;
    }
    let program = fixture.program().display().to_string();
    let before = "echo word; (: </proc/self/fd/1) && echo read >&2; exit 0";
    let behind = "(: >/proc/self/fd/0) && echo written >&2; cat";
    let script =
        format!("{program} run -- /bin/sh -c '{before}' | {program} run -- /bin/sh -c '{behind}'");
    let child = fixture
        .call("/bin/sh".as_ref(), ["-c", &script])
        .command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let outcome = finish(child, b"");
    assert_eq!(outcome.stdout, b"word\n", "{outcome:?}");
    // Who comes second has a pipe of its own, which it may use as it likes.
    let is_both_ways = ["read\n", "written\n"].map(|told| outcome.stderr.contains(told));
    assert_ne!(is_both_ways, [true, true], "{outcome:?}");
}

fn files_are_the_same_files(fixture: &Fixture) {
    fixture.write("out", "kept\n");
    let out = fs::File::options()
        .append(true)
        .open(fixture.path("out"))
        .unwrap();
    let mut call = fixture.palisade(["run", "--", "/bin/echo", "appended"]);
    let child = call
        .command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    finish(child, b"").is_silent(0);
    assert_eq!(fixture.read("out"), "kept\nappended\n");
}

/// A file that permission bits keep from nobody, whoever the guest runs as.
fn open_to_all(fixture: &Fixture, name: &str, content: &str) {
    fixture.write(name, content);
    fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(0o777)).unwrap();
}

/// A script with files for its standard streams, which it opens anew by their names in `/proc`.
fn with_files(
    fixture: &Fixture,
    script: &str,
    input: Option<&str>,
    output: Option<&str>,
) -> Outcome {
    let mut call = fixture.palisade(["run", "--", "/bin/sh", "-c", script]);
    if let Some(name) = input {
        let file = fs::File::open(fixture.path(name)).unwrap();
        call.command.stdin(file);
    } else {
        call.command.stdin(Stdio::null());
    }
    match output {
        Some(name) => {
            let file = fs::File::options().append(true).open(fixture.path(name));
            call.command.stdout(file.unwrap());
        }
        None => drop(call.command.stdout(Stdio::piped())),
    }
    let child = call.command.stderr(Stdio::piped()).spawn().unwrap();
    finish(child, b"")
}

fn files_can_be_opened_again_as_they_are(fixture: &Fixture) {
    open_to_all(fixture, "in", "input\n");
    open_to_all(fixture, "out", "kept\n");
    let script =
        "read line < /dev/stdin && echo \"$line\" >> /dev/stdout && cat /etc/hosts > /tmp/x";
    with_files(fixture, script, Some("in"), Some("out")).is_silent(0);
    assert_eq!(fixture.read("out"), "kept\ninput\n");
}

fn input_does_not_become_writable(fixture: &Fixture) {
    open_to_all(fixture, "in", "input\n");
    let script =
        "for way in '>' '>>'; do (eval \"echo x $way /proc/self/fd/0\") 2>/dev/null; done; cat";
    with_files(fixture, script, Some("in"), None).prints("input\n");
    assert_eq!(fixture.read("in"), "input\n");
}

fn output_does_not_become_readable(fixture: &Fixture) {
    open_to_all(fixture, "log", "of somebody else\n");
    let script = "cat < /proc/self/fd/1 >&2; exit 3";
    let outcome = with_files(fixture, script, None, Some("log"));
    assert!(outcome.stderr.contains("Permission denied"), "{outcome:?}");
    assert!(!outcome.stderr.contains("somebody"), "{outcome:?}");
}

fn output_does_not_become_a_program(fixture: &Fixture) {
    open_to_all(fixture, "out", "");
    let script = "echo '#!/bin/sh'; echo 'exit 7'; exec /proc/self/fd/1";
    with_files(fixture, script, None, Some("out")).is(126);
}

fn output_does_not_become_setuid(fixture: &Fixture) {
    open_to_all(fixture, "out", "");
    let script =
        "chmod 6755 /proc/self/fd/1 2>/dev/null; chmod 2755 /proc/self/fd/1 2>/dev/null; exit 0";
    with_files(fixture, script, None, Some("out")).is_silent(0);
    let mode = fs::metadata(fixture.path("out"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o6000, 0);
}

fn stdout_and_stderr_stay_apart(fixture: &Fixture) {
    let outcome = fixture.script(&[], "echo out; echo err >&2; exit 4").run();
    assert_eq!(
        (
            outcome.code(),
            outcome.text().as_str(),
            outcome.stderr.as_str()
        ),
        (4, "out\n", "err\n")
    );
}

fn reader_that_goes_away(fixture: &Fixture) {
    for flags in [&[][..], &["--output", "1G"]] {
        let mut child = fixture.script(flags, "exec yes").spawn();
        let mut first = [0; 2];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        assert_eq!(&first, b"y\n");
        finish(child, b"").is_silent(141);
    }
}

/// A first signal is for the guest, a second for what it printed and nobody reads.
fn reader_that_stands_still(fixture: &Fixture) {
    let (_reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut call = fixture.script(&["--output", "1G"], "exec yes");
    let stdout = Stdio::from(writer.try_clone().unwrap());
    let mut child = call
        .command
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn()
        .unwrap();
    eventually("the pipe is full", || {
        has_room(&writer).then(|| "it has room".into())
    });
    let init = pidfd_of(init_of(child.id()));
    signal(&child, Signal::TERM);
    assert!(ends_soon(&init));
    signal(&child, Signal::TERM);
    assert_eq!(wait(&mut child).code(), Some(143));
}

fn has_room(pipe: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pipe, PollFlags::OUT)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

/// Gibibytes through a pipe take no longer than without palisade, its start included: the pipe is the
/// same. The fastest of a few tries each, and room for luck, for the machine does other things too;
/// bytes that took a way through palisade would cost twice as much.
fn speed_of_a_pipe(fixture: &Fixture) {
    const TRIES: u32 = 12;
    const MOST: f64 = 1.5;
    let write = ["-c", "4G", "/dev/zero"];
    let [mut bare, mut walled] = [Duration::MAX; 2];
    for _ in 0..TRIES {
        bare = bare.min(time_to_read(fixture.call("/usr/bin/head".as_ref(), write)));
        let words = ["run", "--", "/usr/bin/head"].into_iter().chain(write);
        walled = walled.min(time_to_read(fixture.palisade(words)));
        if walled.as_secs_f64() <= bare.as_secs_f64() * MOST {
            return;
        }
    }
    panic!("bare {bare:?}, behind the wall {walled:?}");
}

fn time_to_read(mut call: Call) -> Duration {
    let began = Instant::now();
    let mut child = call
        .command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let bytes = count_bytes(child.stdout.take().unwrap());
    assert!(wait(&mut child).success());
    assert_eq!(bytes, 4 << 30);
    began.elapsed()
}

fn count_bytes(mut from: ChildStdout) -> u64 {
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match from.read(&mut buffer).unwrap() {
            0 => return bytes,
            length => bytes += length as u64,
        }
    }
}

fn output_limit_passes_all_on(fixture: &Fixture) {
    let outcome = fixture
        .script(
            &["--output", "64M"],
            "head -c 20M /dev/zero; head -c 3M /dev/zero >&2; echo end",
        )
        .run();
    outcome.is(0);
    assert_eq!(outcome.stdout.len(), (20 << 20) + 4);
    assert!(outcome.text().ends_with("end\n"));
    assert_eq!(outcome.stderr.len(), 3 << 20);
}

fn signals_are_forwarded(fixture: &Fixture) {
    for (number, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
    ] {
        // One process: a shell that is just forking takes the signal for its child, which has none
        // of its handlers yet, and goes on waiting for it.
        let script = format!(
            "$| = 1; $SIG{{{name}}} = sub {{ print \"got {name}\\n\"; exit 7 }}; print \"ready\\n\"; sleep 60 while 1"
        );
        let mut child = fixture
            .palisade(["run", "--", "perl", "-e", &script])
            .spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(read_line(&mut stdout), "ready\n");
        signal(&child, number);
        assert_eq!(read_line(&mut stdout), format!("got {name}\n"));
        finish(child, b"").is_silent(7);
    }
}

/// A guest that does not care ends when it wants; palisade waits with it.
fn ignored_signals_stay_ignored(fixture: &Fixture) {
    let mut child = fixture
        .script(&[], "trap '' TERM; echo ready; read go; exit 3")
        .spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    signal(&child, Signal::TERM);
    finish(child, b"go\n").is_silent(3);
}

/// Whoever ignores SIGCHLD cannot wait for children, and so it is for what he starts.
fn a_starter_that_ignores_its_children(fixture: &Fixture) {
    let words = [
        "-e",
        "$SIG{CHLD} = 'IGNORE'; exec @ARGV",
        fixture.program().to_str().unwrap(),
    ];
    let run = ["run", "--", "/bin/sh", "-c", "/bin/true; exit 3"];
    fixture
        .call(Path::new("/usr/bin/perl"), words.into_iter().chain(run))
        .run()
        .is_silent(3);
}

/// nohup(1), also where the keeper starts late.
fn what_palisade_ignores_the_guest_ignores(fixture: &Fixture) {
    let guest = "$| = 1; $SIG{USR1} = sub { exit 3 }; print qq(ready\n); sleep 60 while 1";
    for flags in ["", "--allow-degraded memory --memory 64M"] {
        let program = fixture.program().to_str().unwrap();
        let words = ["--ignore-signal=HUP", program, "run"].into_iter();
        let words = words.chain(flags.split_whitespace());
        let words = words.chain(["--", "perl", "-e", guest]);
        let mut child = fixture.call(Path::new("/usr/bin/env"), words).spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(read_line(&mut stdout), "ready\n");
        signal(&child, Signal::HUP);
        signal(&child, Signal::USR1);
        finish(child, b"").is_silent(3);
    }
}

fn a_shell_pipeline_gets_the_signal(fixture: &Fixture) {
    let mut child = fixture
        .script(&[], "echo ready; sleep 60 | sleep 60")
        .spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    signal(&child, Signal::TERM);
    finish(child, b"").is_silent(143);
}

/// Whether any process of the machine has this word for an argument.
fn is_somewhere(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|words| {
            words
                .split(|byte| *byte == 0)
                .any(|word| word == argument.as_bytes())
        })
}

/// A length of sleep that nobody else sleeps.
fn own_sleep() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}.{number}", 1000 + std::process::id())
}

fn orphans_are_ended(fixture: &Fixture) {
    let seconds = own_sleep();
    let outcome = fixture
        .script(&[], &format!("sleep {seconds} & sleep {seconds} & exit 5"))
        .run();
    outcome.is_silent(5);
    assert!(!is_somewhere(&seconds), "they end before palisade does");
}

fn daemons_are_ended(fixture: &Fixture) {
    let seconds = own_sleep();
    let daemon = format!(
        "setsid sh -c 'trap \"\" TERM HUP INT; (sleep {seconds} >/dev/null 2>&1 </dev/null &) ; echo up'"
    );
    let outcome = fixture.script(&[], &daemon).run();
    outcome.prints("up\n");
    assert!(!is_somewhere(&seconds));
}

fn guest_ends_with_palisade(fixture: &Fixture) {
    let seconds = own_sleep();
    let mut child = fixture
        .script(
            &[],
            &format!("trap '' TERM HUP; echo ready; sleep {seconds}"),
        )
        .spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    eventually("the guest sleeps", || {
        (!is_somewhere(&seconds)).then(|| seconds.clone())
    });
    signal(&child, Signal::KILL);
    wait(&mut child);
    assert_eq!(read_line(&mut stdout), "", "the guest held the other end");
    eventually("the guest is gone", || {
        is_somewhere(&seconds).then(|| seconds.clone())
    });
}

/// More than any buffer, as one guest writes it.
const FLOOD_BYTES: u64 = 1 << 30;
const FLOOD: &str = "exec head -c 1G /dev/zero >&2";

/// As the pipe itself, counted on its way, and relayed because the shell before palisade holds it as well.
fn floods(fixture: &Fixture) -> [Call; 3] {
    let program = fixture.program().display();
    let relayed =
        format!("{{ {program} run -- /bin/sh -c '{FLOOD}'; exit $?; }} 2>&1 >&3 | cat >&2");
    [
        fixture.script(&[], FLOOD),
        fixture.script(&["--output", "2G"], FLOOD),
        fixture.call(
            Path::new("/bin/sh"),
            ["-c", &format!("exec 3>&1; {relayed}")],
        ),
    ]
}

/// Nothing is kept for a reader that takes its time, and nothing is lost.
fn a_flood_on_stderr_waits_for_its_reader(fixture: &Fixture) {
    const MOST_KB: u64 = 32 << 10;
    for mut call in floods(fixture) {
        let mut child = call.spawn();
        drop(child.stdin.take());
        let mut stderr = child.stderr.take().unwrap();
        let mut begun = vec![0; 1 << 20];
        stderr.read_exact(&mut begun).unwrap();
        let held = resident_kb(child.id());
        assert!(held < MOST_KB, "{held} KiB");
        let rest = std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
        let held = peak_kb(child.id()).unwrap_or(0);
        assert!(held < MOST_KB, "{held} KiB");
        wait(&mut child);
        assert_eq!(rest + begun.len() as u64, FLOOD_BYTES);
    }
}

fn a_flood_on_stderr_ends_with_its_reader(fixture: &Fixture) {
    for mut call in floods(fixture) {
        let mut child = call.spawn();
        let mut stderr = child.stderr.take().unwrap();
        stderr.read_exact(&mut [0; 4096]).unwrap();
        drop(stderr);
        // Nobody is left to be told why.
        assert!(!wait(&mut child).success());
    }
}

fn resident_kb(pid: u32) -> u64 {
    status_kb(pid, "VmRSS:").unwrap()
}

/// `None` once it has ended.
fn peak_kb(pid: u32) -> Option<u64> {
    status_kb(pid, "VmHWM:")
}

fn status_kb(pid: u32, field: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}
