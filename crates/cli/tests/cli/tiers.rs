//! Machines that offer less: palisade refuses, or does what was accepted and says so.

use super::fixture::{Call, Fixture, User, cases, children_of, read_line, wait};
use std::{
    fs,
    io::BufReader,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

cases![
    without_namespaces_it_refuses,
    without_namespaces_it_goes_on_where_accepted,
    without_namespaces_files_stay_denied,
    without_namespaces_what_is_written_does_not_run,
    without_namespaces_metadata_stays_as_it_is,
    without_namespaces_processor_time_is_of_each_process,
    without_namespaces_nothing_is_left_running,
    without_namespaces_some_grants_are_refused,
    without_namespaces_there_is_a_temporary_folder,
    without_namespaces_what_is_temporary_does_not_run,
    without_namespaces_a_policy_says_what_is_temporary,
    without_namespaces_nothing_temporary_lies_in_what_is_shown,
    without_namespaces_a_file_is_moved_within_its_folder_alone,
    without_namespaces_what_git_executes_is_not_taken_for_protected,
    without_namespaces_explain_says_so,
    without_namespaces_nothing_unconfined_is_left,
    a_limit_that_cannot_be_held_is_refused,
    a_palisade_inside_without_namespaces,
];

/// `palisade run` on a host that has no user namespace to give: the limit is per namespace, so one
/// around the test can set its own to none.
pub(crate) fn run_without_namespaces(fixture: &Fixture, flags: &[&str], script: &str) -> Call {
    without_namespaces(fixture, "run", flags, script)
}

fn without_namespaces(fixture: &Fixture, verb: &str, flags: &[&str], script: &str) -> Call {
    const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    let program = fixture.program().to_str().unwrap();
    let words = ["-Ur", "/bin/sh", "-c", WITHOUT, "sh", program, verb];
    let guest = ["--", "/bin/sh", "-c", script];
    fixture.call(
        Path::new("/usr/bin/unshare"),
        words.iter().chain(flags).chain(&guest).copied(),
    )
}

const ACCEPTED: [&str; 2] = ["--allow-degraded", "namespaces"];

fn without_namespaces_it_refuses(fixture: &Fixture) {
    run_without_namespaces(fixture, &[], "echo ran")
        .run()
        .refuses(&[
            "host: ",
            "namespaces",
            "palisade doctor",
            "--allow-degraded namespaces",
        ]);
}

fn without_namespaces_it_goes_on_where_accepted(fixture: &Fixture) {
    let flags = [&ACCEPTED[..], &["--report", "report.json"]].concat();
    run_without_namespaces(fixture, &flags, "echo ran; exit 3")
        .run()
        .is_silent(3);
    let report: serde_json::Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    let rows = report["enforcement"].as_array().unwrap();
    let level = |name| rows.iter().find(|row| row["capability"] == name).unwrap()["actual"].clone();
    assert_eq!(
        (level("namespaces"), level("network")),
        ("none".into(), "degraded".into())
    );
    assert_eq!(
        (level("landlock"), level("seccomp")),
        ("full".into(), "full".into())
    );
}

fn without_namespaces_files_stay_denied(fixture: &Fixture) {
    fixture.write("secret", "x");
    fixture.write("in/file", "granted");
    fixture.make_folder("out");
    let flags = [&ACCEPTED[..], &["--read", "in", "--write", "out"]].concat();
    let script = "cat in/file; echo new > out/file; cat secret; echo no > in/file; echo no > beside; cat /etc/shadow";
    let outcome = run_without_namespaces(fixture, &flags, script).run();
    assert_eq!(outcome.text(), "granted", "{outcome:?}");
    assert_eq!(
        (fixture.read("out/file"), fixture.read("in/file")),
        ("new\n".into(), "granted".into())
    );
    assert!(!fixture.exists("beside"));
}

fn without_namespaces_what_is_written_does_not_run(fixture: &Fixture) {
    fixture.make_folder("out");
    let flags = [&ACCEPTED[..], &["--write", "out"]].concat();
    let script = "cp /bin/echo out/echo && out/echo ran";
    let outcome = run_without_namespaces(fixture, &flags, script).run();
    outcome.is(126);
    assert_eq!(outcome.text(), "");
    let flags = [&flags[..], &["--exec", "out"]].concat();
    run_without_namespaces(fixture, &flags, script)
        .run()
        .prints("ran\n");
}

fn without_namespaces_metadata_stays_as_it_is(fixture: &Fixture) {
    fixture.write("in/file", "x");
    fixture.write("secret", "x");
    fixture.make_folder("out");
    let flags = [&ACCEPTED[..], &["--read", "in", "--write", "out"]].concat();
    let about = || {
        ["in/file", "secret"].map(|name| {
            let about = fs::metadata(fixture.path(name)).unwrap();
            (about.mode(), about.mtime())
        })
    };
    let before = about();
    let script = "chmod 777 in/file secret; touch -d @1 in/file secret; touch out/new";
    run_without_namespaces(fixture, &flags, script).run().is(0);
    assert_eq!(about(), before);
    assert!(fixture.exists("out/new"));
}

/// It is the guest's alone, and goes with all that is in it.
fn without_namespaces_there_is_a_temporary_folder(fixture: &Fixture) {
    let script = "[ \"$HOME\" = \"$TMPDIR\" ] && mkdir -p $TMPDIR/a/b/c && f=$(mktemp -p $TMPDIR/a/b) && \
                  ln -s /etc $TMPDIR/a/etc && mkdir -m 0 $TMPDIR/closed && echo kept > $f && cat $f && \
                  stat -c %a $TMPDIR && echo $TMPDIR";
    let outcome = run_without_namespaces(fixture, &ACCEPTED, script).run();
    let text = outcome.text();
    let [kept, mode, folder] = text.lines().collect::<Vec<_>>()[..] else {
        panic!("{outcome:?}");
    };
    assert_eq!((kept, mode), ("kept", "700"));
    assert!(Path::new(folder).starts_with("/tmp"), "{folder}");
    assert!(!Path::new(folder).exists(), "{folder}");
}

fn without_namespaces_what_is_temporary_does_not_run(fixture: &Fixture) {
    let script = "cp /bin/echo $TMPDIR/echo && $TMPDIR/echo ran";
    let outcome = run_without_namespaces(fixture, &ACCEPTED, script).run();
    outcome.is(126);
    assert_eq!(outcome.text(), "");
}

/// Nothing bounds a folder of the host's, and who names one has one.
fn without_namespaces_a_policy_says_what_is_temporary(fixture: &Fixture) {
    let script = "echo ${TMPDIR-none}";
    let said = [
        (&["--tmp-size", "1M"][..], "none\n"),
        (&["--env", "TMPDIR=/elsewhere"], "/elsewhere\n"),
        (&["--write", "/tmp"], "none\n"),
    ];
    for (flags, expected) in said {
        let flags = [&ACCEPTED[..], flags].concat();
        run_without_namespaces(fixture, &flags, script)
            .run()
            .prints(expected);
    }
}

/// What is granted for reading may be executed: a temporary folder there would be by two rules what neither gives.
fn without_namespaces_nothing_temporary_lies_in_what_is_shown(fixture: &Fixture) {
    const ELSEWHERE: &str = "mkdir -p real && mount --bind real /tmp && \
                             echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    fixture.make_folder("real");
    let program = fixture.program().to_str().unwrap();
    let words = ["-Urm", "/bin/sh", "-c", ELSEWHERE, "sh", program, "run"];
    let act = "[ $TMPDIR ] && cp /bin/echo $TMPDIR/echo && $TMPDIR/echo ran; echo ${TMPDIR-none}";
    let call = |flags: &[&str]| {
        let guest = ["--", "/bin/sh", "-c", act];
        let words = words.iter().chain(&ACCEPTED).chain(flags).chain(&guest);
        fixture
            .call(Path::new("/usr/bin/unshare"), words.copied())
            .run()
    };
    call(&["--read", "real"]).prints("none\n");
    assert!(call(&[]).text().starts_with("/tmp/palisade-"));
}

/// Palisade empties the temporary folder with its own rights, which root's are more than a guest's: what another user
/// keeps in a granted folder must not come to lie there.
fn without_namespaces_a_file_is_moved_within_its_folder_alone(fixture: &Fixture) {
    fixture.write("out/a/file", "x");
    fixture.make_folder("out/b");
    let script = "python3 -c \"
import errno, os, sys
def act(call, to):
    try: call('out/a/file', to)
    except OSError as error: return errno.errorcode[error.errno]
for call in os.link, os.rename: print(*[act(call, to) for to in ('out/b/file', os.environ['TMPDIR'] + '/file', 'out/a/' + call.__name__)])
\"";
    let flags = [&ACCEPTED[..], &["--write", "out"]].concat();
    run_without_namespaces(fixture, &flags, script)
        .run()
        .prints("EXDEV EXDEV None\nEXDEV EXDEV None\n");
}

fn without_namespaces_processor_time_is_of_each_process(fixture: &Fixture) {
    let limit = ["--cpu-time", "1s"];
    let flags = [&ACCEPTED[..], &limit].concat();
    if fixture.user == User::Root {
        // A control group counts all of them.
        run_without_namespaces(fixture, &flags, "while :; do :; done")
            .run()
            .is(152);
        return;
    }
    run_without_namespaces(fixture, &flags, "echo ran")
        .run()
        .refuses(&["host: a limit on cpu-time", "--allow-degraded cpu-time"]);
    let flags = [&flags[..], &["--allow-degraded", "cpu-time"]].concat();
    // What other processes of the machine have used does not count.
    run_without_namespaces(fixture, &flags, "echo ran")
        .run()
        .prints("ran\n");
    run_without_namespaces(fixture, &flags, "while :; do :; done")
        .run()
        .is(137);
}

fn without_namespaces_nothing_is_left_running(fixture: &Fixture) {
    let flags = [&ACCEPTED[..], &["--report", "report.json"]].concat();
    let script = "(sleep 1000 & sleep 1000 &) ; setsid sleep 1000 & true";
    // It ends although its descendants would hold the pipes open for long.
    run_without_namespaces(fixture, &flags, script).run().is(0);
    let report: serde_json::Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    assert_eq!(report["usage"]["left_behind"], 3);
}

fn without_namespaces_some_grants_are_refused(fixture: &Fixture) {
    fixture.make_folder("a/b");
    for (flags, word) in [
        (&["--read", "a:/elsewhere"][..], "another path inside"),
        (
            &["--write", "a", "--read", "a/b"],
            "read-only inside a writable folder",
        ),
        (
            &["--write", "a", "--protect", "a/b"],
            "protected inside a writable folder",
        ),
        (&["--read", "a", "--write", "a/b"], "executable"),
        (&["--device", "/dev/zero"], "requests to a device"),
        (&["--device", "pts"], "a set of terminals"),
    ] {
        let flags = [&ACCEPTED[..], flags].concat();
        run_without_namespaces(fixture, &flags, "true")
            .run()
            .refuses(&["policy: ", word]);
    }
}

fn a_limit_that_cannot_be_held_is_refused(fixture: &Fixture) {
    // Root can make control groups here; an ordinary user would need them delegated.
    let outcome = fixture.script(&["--memory", "64M"], "echo ran").run();
    match fixture.user {
        User::Root => outcome.prints("ran\n"),
        User::Ordinary => outcome.refuses(&["host: ", "memory", "--allow-degraded memory"]),
    };
}

/// Behind the filter of the one outside there is no openat2(2) where files of the host can be written.
fn a_palisade_inside_without_namespaces(fixture: &Fixture) {
    let program = fixture.program().to_str().unwrap();
    let beside = fixture.program().parent().unwrap().to_str().unwrap();
    fixture.write("shown/file", "content\n");
    fixture.make_folder("shown/work");
    fixture.write("shown/secret", "secret\n");
    let outside = ["run", "--profile", "palisade", "--read", beside];
    let inside = [&["--", program, "run"][..], &ACCEPTED].concat();
    let nested = |outer: &[&str], inner: &[&str], script: &str| {
        let guest = ["--", "/bin/sh", "-c", script];
        fixture
            .palisade([&outside, outer, &inside, inner, &guest].concat())
            .run()
    };
    nested(&[], &[], "echo here").prints("here\n");
    let shown = ["--read", "shown", "--write", "shown/work"];
    let (read, write) = (["--read", "shown/file"], ["--write", "shown/work"]);
    nested(&shown, &read, "cat shown/file").prints("content\n");
    nested(&shown, &write, "echo new > shown/work/new").is_silent(0);
    assert_eq!(fixture.read("shown/work/new"), "new\n");
    let denied = nested(
        &shown,
        &read,
        "cat shown/file shown/secret; : > shown/work/other",
    );
    assert_eq!(denied.text(), "content\n");
    assert!(
        denied.stderr.contains("shown/secret: Permission denied"),
        "{denied:?}"
    );
    assert!(!fixture.exists("shown/work/other"));
}

/// Nothing but a mount keeps a guest from what lies in a folder that it may write to.
fn without_namespaces_what_git_executes_is_not_taken_for_protected(fixture: &Fixture) {
    fixture.make_folder("work/.git/hooks");
    fixture.write("work/.git/HEAD", "ref: refs/heads/main\n");
    fixture.write("work/.git/config", "A=1\n");
    fixture.write(
        "work/.git/hooks/policy.toml",
        "allow-degraded = ['namespaces']\n[grants]\nwrite = ['../..']\n",
    );
    let script = "echo '# more' >> work/.git/hooks/policy.toml; echo B=2 >> work/.git/config";
    let file = ["--policy", "work/.git/hooks/policy.toml"];
    let variables = ["--env-file", "work/.git/config", "--write", "work"];
    let variables = [&ACCEPTED[..], &variables].concat();
    for (flags, word) in [(&file[..], "its own policy"), (&variables, "variables")] {
        run_without_namespaces(fixture, flags, script)
            .run()
            .refuses(&["policy: ", word]);
    }
    assert!(!fixture.read("work/.git/hooks/policy.toml").contains("more"));
}

fn without_namespaces_explain_says_so(fixture: &Fixture) {
    let explain = |flags: &[&str]| without_namespaces(fixture, "explain", flags, "true").run();
    let accepted = explain(&ACCEPTED);
    accepted.is(0);
    let text = accepted.text();
    assert!(text.contains("weaker    namespaces (none"), "{text}");
    let elsewhere = [&ACCEPTED[..], &["--read", "/usr:/elsewhere"]].concat();
    explain(&elsewhere).refuses(&["policy: ", "/elsewhere"]);
}

/// The keeper that could make no domain has no wall around itself, and so must be gone.
fn without_namespaces_nothing_unconfined_is_left(fixture: &Fixture) {
    let mut call = run_without_namespaces(fixture, &ACCEPTED, "echo runs; cat");
    call.command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = call.command.spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut output), "runs\n");
    let is_confined = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains("\nSeccomp:\t2\n"))
    };
    // Palisade's own parts confine themselves once the guest runs.
    let deadline = Instant::now() + Duration::from_secs(20);
    let settled = std::iter::repeat_with(|| children_of(child.id()))
        .take_while(|_| Instant::now() < deadline)
        .find(|children| !children.is_empty() && children.iter().all(is_confined));
    drop(child.stdin.take());
    assert!(wait(&mut child).success());
    assert!(settled.is_some(), "some child has no filter");
}
