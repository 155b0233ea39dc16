//! What palisade was started with, and need not be able to change: limits, a working directory, a `/proc`.

use super::fixture::{Call, Fixture, User, cases};
use std::{fs, path::Path};

cases![
    hard_limits_hold_inside,
    limits_above_the_starters_are_lowered,
    a_small_limit_on_files_is_named,
    output_beyond_the_limit_on_files,
    a_report_beyond_the_limit_on_files,
    the_limit_on_files_is_the_guests_too,
    a_removed_working_directory,
    a_machine_without_proc_is_told_so,
    processors_are_the_starters,
    a_stream_that_is_closed_is_the_null_device,
    outputs_are_opened_by_name,
    inputs_are_opened_by_name,
];

/// The keeper may begin on another one than palisade runs on.
fn processors_are_the_starters(fixture: &Fixture) {
    let list = "/bin/grep Cpus_allowed_list /proc/self/status";
    let outside = shell(fixture, list).run().text();
    let inside = shell(fixture, &format!("PALISADE run -- {list}"));
    inside.run().prints(&outside);
    let pinned = format!("taskset -c 0 PALISADE run -- {list}");
    shell(fixture, &pinned)
        .run()
        .prints("Cpus_allowed_list:\t0\n");
}

/// Nothing that palisade opens takes its place.
fn a_stream_that_is_closed_is_the_null_device(fixture: &Fixture) {
    let guest = "import os; f = [os.readlink(f'/proc/self/fd/{n}') for n in range(3)]; \
                 open('seen', 'w').write('\\n'.join(f)); os._exit(7)";
    for closed in ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"] {
        let script = format!("exec PALISADE run --write . -- python3 -c \"{guest}\" {closed}");
        let outcome = shell(fixture, &script).run();
        assert_eq!(outcome.code(), 7, "{closed}: {outcome:?}");
        let seen = fixture.read("seen");
        let streams: Vec<_> = seen.lines().collect();
        assert_eq!(streams.len(), 3, "{closed}: {seen}");
        for (stream, name) in streams.iter().zip(["<&-", ">&-", "2>&-"]) {
            let is_closed = closed.split(' ').any(|one| one == name);
            assert!(!is_closed || *stream == "/dev/null", "{closed}: {seen}");
        }
    }
}

/// A shell script in which `PALISADE` is the program; bash(1), for its `ulimit`.
fn shell(fixture: &Fixture, script: &str) -> Call {
    let program = fixture.program().to_str().unwrap();
    let script = script.replace("PALISADE", program);
    fixture.call(Path::new("/bin/bash"), ["-c", &script])
}

/// Processes, locked memory, signals and queues, which palisade bounds itself.
fn hard_limits_hold_inside(fixture: &Fixture) {
    for limit in ["-u 150", "-l 0", "-i 10", "-q 0", "-n 40", "-c 0"] {
        let script = format!("ulimit {limit}; PALISADE run -- /bin/echo here");
        shell(fixture, &script).run().prints("here\n");
    }
}

fn limits_above_the_starters_are_lowered(fixture: &Fixture) {
    let script = "ulimit -u 150; PALISADE run --processes 400 -- /bin/bash -c 'ulimit -u'";
    shell(fixture, script).run().prints("150\n");
    let script = "ulimit -n 50; PALISADE run --files 400 -- /bin/bash -c 'ulimit -Hn'";
    shell(fixture, script).run().prints("50\n");
    let script = "ulimit -f 1000; PALISADE run --file-size 10M -- /bin/bash -c 'ulimit -f'";
    shell(fixture, script).run().prints("1000\n");
    // And below them the policy's hold.
    let script = "ulimit -n 50; PALISADE run --files 40 -- /bin/bash -c 'ulimit -Hn'";
    shell(fixture, script).run().prints("40\n");
}

/// Not by a signal.
fn a_small_limit_on_files_is_named(fixture: &Fixture) {
    for blocks in ["0", "1"] {
        let script = format!("ulimit -f {blocks}; exec PALISADE run -- /bin/true");
        let outcome = shell(fixture, &script).run();
        outcome.refuses(&["host: ", "`ulimit -f`", "--file-size"]);
    }
}

/// It is palisade that writes where the output is counted.
fn output_beyond_the_limit_on_files(fixture: &Fixture) {
    let script =
        "ulimit -f 100; exec PALISADE run --output 10M -- /usr/bin/head -c 1000000 /dev/zero > out";
    let outcome = shell(fixture, script).run();
    assert_eq!(outcome.status.code(), Some(125), "{outcome:?}");
    assert!(outcome.stderr.contains("File too large"), "{outcome:?}");
    assert_eq!(fs::metadata(fixture.path("out")).unwrap().len(), 100 << 10);
    // A disk that is full is told of in the same way.
    let full = "exec PALISADE run --output 10M -- /bin/echo lost > /dev/full";
    let outcome = shell(fixture, full).run();
    assert!(
        outcome
            .stderr
            .contains("some of what the guest wrote is lost"),
        "{outcome:?}"
    );
}

fn a_report_beyond_the_limit_on_files(fixture: &Fixture) {
    let long = "x".repeat(120_000);
    let script = format!(
        "ulimit -f 100; exec PALISADE run --report report.json -- /bin/echo {long} > /dev/null"
    );
    let outcome = shell(fixture, &script).run();
    assert_eq!(outcome.status.code(), Some(125), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot write the report"));
}

/// By the signal, as outside: palisade catches it for itself alone.
fn the_limit_on_files_is_the_guests_too(fixture: &Fixture) {
    fixture.make_folder("work");
    let script =
        "ulimit -f 100; exec PALISADE run --write work -- /usr/bin/head -c 1000000 /dev/zero";
    let script = format!("{script} > work/out");
    let outcome = shell(fixture, &script).run();
    assert_eq!(outcome.status.code(), Some(128 + 25), "{outcome:?}");
}

fn a_removed_working_directory(fixture: &Fixture) {
    fixture.make_folder("kept");
    fixture.write("kept/file", "content\n");
    let kept = fixture.text("kept");
    let gone = "mkdir gone; cd gone; rmdir ../gone; exec PALISADE run";
    let run = |flags: &str| shell(fixture, &format!("{gone} {flags}")).run();
    run("-- /bin/pwd").prints("/\n");
    run("--cwd / -- /bin/pwd").prints("/\n");
    run(&format!("--read {kept} --cwd {kept} -- /bin/cat file")).prints("content\n");
    run(&format!("--read {kept}:/there -- /bin/cat /there/file")).prints("content\n");
    run("--read here -- /bin/true").refuses(&["host: cannot tell the working directory", "cd "]);
    run("--cwd here -- /bin/true").refuses(&["host: cannot tell the working directory"]);
}

/// What can be known without it is not what is said.
fn a_machine_without_proc_is_told_so(fixture: &Fixture) {
    let program = fixture.program().to_str().unwrap();
    let hide = "mount -t tmpfs tmpfs /proc && exec \"$@\"";
    let words = ["-Urm", "/bin/sh", "-c", hide, "sh", program];
    let call = |more: &[&str]| {
        let words = words.iter().chain(more);
        fixture.call(Path::new("/usr/bin/unshare"), words).run()
    };
    for flags in [
        &["run", "--"][..],
        &["run", "--memory", "1G", "--"],
        &["explain", "--no-system", "--read", "/usr", "--"],
    ] {
        let outcome = call(&[flags, &["/bin/true"]].concat());
        outcome.refuses(&["host: /proc is not mounted", "mount -t proc"]);
    }
    let doctor = call(&["doctor"]);
    assert!(
        doctor.text().contains("/proc is not mounted") && !doctor.text().contains("/dev/null"),
        "{doctor:?}"
    );
}

/// Programs write their log to `/dev/stderr`, nginx among them. A pipe that the shell outside holds, too, is
/// another case than one that it only made.
fn outputs_are_opened_by_name(fixture: &Fixture) {
    let write = "echo one > /dev/stdout; echo two >> /dev/stderr; echo three >> /proc/self/fd/1\n";
    fixture.write("write.sh", write);
    let run = "PALISADE run --read write.sh -- /bin/sh write.sh";
    for script in [
        format!("{run} 2>&1 | cat"),
        format!("{{ {run} 2>&1; true; }} | cat"),
    ] {
        shell(fixture, &script).run().prints("one\ntwo\nthree\n");
    }
    if fixture.user == User::Root {
        // Only the way round in which the guest holds it, whoever shares it.
        let turned = "(: < /dev/stdout) 2> /dev/null && echo read; (: > /dev/stdin) 2> /dev/null && echo written";
        fixture.write("turned.sh", turned);
        let run = "PALISADE run --read turned.sh -- /bin/sh turned.sh";
        let script = format!("echo | {{ {run}; cat > /dev/null; }} | cat");
        shell(fixture, &script).run().prints("");
    }
    // Counted, each has a pipe of its own.
    let counted = format!("{} | cat", run.replace("--read", "--output 1M --read"));
    assert_eq!(shell(fixture, &counted).run().text(), "one\nthree\n");
}

fn inputs_are_opened_by_name(fixture: &Fixture) {
    let run = "PALISADE run -- /bin/cat /dev/stdin";
    for script in [
        format!("echo one | {run}"),
        format!("echo one | {{ {run}; true; }}"),
    ] {
        shell(fixture, &script).run().prints("one\n");
    }
}
