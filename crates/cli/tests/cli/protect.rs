//! Protected paths while others are at work on the host: the user, programs, guests of other domains.

use super::{
    cleanup::{eventually, everything_below},
    fixture::{
        Call, Fixture, User, cases, children_of, ends_soon, ends_within, kill_and_await_keeper,
        pidfd_of, read_line, signal, wait,
    },
};
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags},
    process::{Pid, Signal, kill_process, pidfd_send_signal},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufReader, Read},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Child, ChildStdout},
    time::Duration,
};

cases![
    what_is_replaced_outside_ends_the_domain,
    a_read_grant_in_a_writable_folder_that_is_replaced_ends_the_domain,
    a_placeholder_that_is_taken_away_ends_the_domain,
    another_domain_that_takes_a_protected_path_away_ends_the_domain,
    work_outside_that_leaves_the_path_alone_does_not,
    what_lies_in_a_protected_folder_may_be_replaced,
    a_file_that_nobody_else_may_read_is_guarded,
    cleaning_goes_to_the_folder_that_was_granted,
    a_file_of_somebody_else_in_a_placeholder_s_place_stays,
    a_locked_placeholder_is_not_waited_for,
    what_two_sudden_ends_leave_goes_with_the_next_run,
    what_two_sudden_ends_leave_is_held_by_two_runs,
    groups_that_two_sudden_ends_leave_are_swept,
];

/// Longer than anything here takes, shorter than what waits for ever.
const SOON: Duration = Duration::from_secs(15);

/// A running palisade whose guest waits for a line, then writes to the path it was told of.
struct Run {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Run {
    fn begin(mut call: Call) -> Self {
        let mut child = call.spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let line = read_line(&mut stdout);
        if line != "ready\n" {
            let mut said = String::new();
            let mut stderr = child.stderr.take().unwrap();
            stderr.read_to_string(&mut said).unwrap();
            panic!("the guest does not begin: {line:?}, {said}");
        }
        Self { child, stdout }
    }

    fn that_writes(fixture: &Fixture, flags: &[&str], path: &str) -> Self {
        let script = format!("echo ready; read go; echo evil >> {path} && echo written");
        Self::begin(fixture.script(flags, &script))
    }

    /// Lets the guest write, and waits for its end.
    fn go_on(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.stdout.read_to_string(&mut said).unwrap();
        wait(&mut self.child);
        said
    }

    /// The guest has not written and is ended, whatever it waits for; palisade says why.
    #[track_caller]
    fn assert_ended(mut self, what: &str) -> String {
        let ended = ends_within(&self.child, SOON);
        let _ = self.child.kill();
        let status = self.child.wait().unwrap();
        assert!(ended, "{what}: the guest runs on");
        assert_eq!(status.code(), Some(137), "{what}");
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert!(said.starts_with("palisade: host: "), "{what}: {said}");
        said
    }
}

fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

type Act = (&'static str, fn(&Fixture));

/// What editors, git and people do.
const TAKEN_AWAY: [Act; 6] = [
    ("renamed over", |fixture| {
        fixture.write("work/.git/config.lock", "new");
        rename(
            &fixture.path("work/.git/config.lock"),
            &fixture.path("work/.git/config"),
        );
    }),
    ("removed", |fixture| {
        fs::remove_file(fixture.path("work/.git/config")).unwrap();
    }),
    ("renamed", |fixture| {
        rename(
            &fixture.path("work/.git/config"),
            &fixture.path("work/.git/config~"),
        );
    }),
    ("exchanged", |fixture| {
        let [one, other] = ["work/.git/config", "work/.git/other"].map(|name| fixture.path(name));
        rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
    }),
    ("its folder renamed", |fixture| {
        rename(&fixture.path("work/.git"), &fixture.path("work/.old"));
    }),
    ("moved out of the grant", |fixture| {
        rename(&fixture.path("work/.git/config"), &fixture.path("config"));
    }),
];

fn lay_out(fixture: &Fixture) {
    let _ = fs::remove_dir_all(fixture.path("work"));
    fixture.write("work/.git/config", "old");
    fixture.write("work/.git/other", "other");
}

fn what_is_replaced_outside_ends_the_domain(fixture: &Fixture) {
    for (what, act) in TAKEN_AWAY {
        lay_out(fixture);
        fixture.write("report", "");
        let path = "work/.git/config";
        let flags = ["--write", "work", "--protect", path, "--report", "report"];
        let run = Run::that_writes(fixture, &flags, path);
        act(fixture);
        let said = run.assert_ended(what);
        assert!(said.contains("/work/.git"), "{what}: {said}");
        let report: Value = serde_json::from_str(&fixture.read("report")).unwrap();
        assert_eq!(report["ending"], json!("unprotected"), "{what}");
        let lost = report["lost"].as_str().unwrap();
        assert!(
            lost.starts_with(&fixture.text("work/.git")),
            "{what}: {lost}"
        );
    }
}

fn a_read_grant_in_a_writable_folder_that_is_replaced_ends_the_domain(fixture: &Fixture) {
    for (what, act) in TAKEN_AWAY {
        lay_out(fixture);
        let path = "work/.git/config";
        let run = Run::that_writes(fixture, &["--write", "work", "--read", path], path);
        act(fixture);
        run.assert_ended(what);
    }
}

fn a_placeholder_that_is_taken_away_ends_the_domain(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = ["--write", "work", "--protect", "work/.env"];
    for what in ["removed", "renamed over", "renamed"] {
        let run = Run::that_writes(fixture, &flags, "work/.env");
        match what {
            "removed" => fs::remove_file(fixture.path("work/.env")).unwrap(),
            "renamed" => rename(&fixture.path("work/.env"), &fixture.path("work/old")),
            _ => {
                fixture.write("work/new", "new");
                rename(&fixture.path("work/new"), &fixture.path("work/.env"));
            }
        }
        run.assert_ended(what);
        if what == "renamed over" {
            assert_eq!(fixture.read("work/.env"), "new", "somebody else's");
            fs::remove_file(fixture.path("work/.env")).unwrap();
        }
        assert!(!fixture.exists("work/.env"), "{what}");
    }
}

fn another_domain_that_takes_a_protected_path_away_ends_the_domain(fixture: &Fixture) {
    lay_out(fixture);
    let flags = ["--write", "work", "--protect", "work/.git/config"];
    let run = Run::that_writes(fixture, &flags, "work/.git/config");
    let act = "mv work/.git/other work/.git/config";
    let flags = ["--write", "work", "--no-guard"];
    fixture.script(&flags, act).run().is_silent(0);
    run.assert_ended("by another guest");
    assert_eq!(fixture.read("work/.git/config"), "other");
}

fn work_outside_that_leaves_the_path_alone_does_not(fixture: &Fixture) {
    lay_out(fixture);
    let flags = ["--write", "work", "--protect", "work/.git/config"];
    let run = Run::that_writes(fixture, &flags, "work/.git/config");
    fixture.write("work/.git/config", "written in place");
    let read_only = fs::Permissions::from_mode(0o444);
    fs::set_permissions(fixture.path("work/.git/config"), read_only).unwrap();
    fixture.write("work/.git/new", "");
    rename(
        &fixture.path("work/.git/new"),
        &fixture.path("work/.git/other"),
    );
    fs::remove_file(fixture.path("work/.git/other")).unwrap();
    assert_eq!(run.go_on(), "", "refused, not ended");
    assert_eq!(fixture.read("work/.git/config"), "written in place");
}

fn what_lies_in_a_protected_folder_may_be_replaced(fixture: &Fixture) {
    lay_out(fixture);
    let run = Run::that_writes(
        fixture,
        &["--write", "work", "--protect", "work/.git"],
        "work/.git/config",
    );
    for (what, act) in &TAKEN_AWAY[..2] {
        fixture.write("work/.git/config", "old");
        act(fixture);
        assert!(!ends_within(&run.child, Duration::ZERO), "{what}");
    }
    fixture.write("work/.git/config", "new");
    assert_eq!(run.go_on(), "");
    assert_eq!(fixture.read("work/.git/config"), "new");
}

/// The guest's user may not even read it: the folder that it lies in is watched instead.
fn a_file_that_nobody_else_may_read_is_guarded(fixture: &Fixture) {
    lay_out(fixture);
    let closed = fs::Permissions::from_mode(0o000);
    fs::set_permissions(fixture.path("work/.git/config"), closed).unwrap();
    let flags = ["--write", "work", "--protect", "work/.git/config"];
    let run = Run::that_writes(fixture, &flags, "work/.git/config");
    rename(
        &fixture.path("work/.git/config"),
        &fixture.path("work/.git/config~"),
    );
    run.assert_ended("renamed");
}

/// Ends palisade and its keeper at one time: nobody cleans.
fn kill_both(mut run: Run) {
    let keepers = children_of(run.child.id());
    assert_eq!(keepers.len(), 1, "palisade has one child");
    let keeper = pidfd_of(keepers[0]);
    // Stopped first, so that neither sees the other's end.
    for process in [
        Pid::from_child(&run.child),
        Pid::from_raw(keepers[0] as i32).unwrap(),
    ] {
        kill_process(process, Signal::STOP).unwrap();
    }
    pidfd_send_signal(&keeper, Signal::KILL).unwrap();
    signal(&run.child, Signal::KILL);
    wait(&mut run.child);
    assert!(ends_soon(&keeper), "the keeper stays");
}

/// Another guest may move folders that it was granted, and put links in their places.
fn cleaning_goes_to_the_folder_that_was_granted(fixture: &Fixture) {
    for ends_suddenly in [true, false] {
        let _ = fs::remove_dir_all(fixture.path("work"));
        fixture.make_folder("work/sub");
        fixture.write("elsewhere/.env", "");
        fixture.make_folder("elsewhere/.git");
        let flags = [
            "--write",
            "work",
            "--protect",
            "work/sub/.env",
            "--protect",
            "work/sub/.git/hooks",
        ];
        let script = "echo ready; read go";
        let run = Run::begin(fixture.script(&flags, script));
        if ends_suddenly {
            // Palisade; its keeper and the domain go on.
            signal(&run.child, Signal::STOP);
        }
        rename(&fixture.path("work/sub"), &fixture.path("work/moved"));
        symlink("../elsewhere", fixture.path("work/sub")).unwrap();
        match ends_suddenly {
            true => kill_and_await_keeper(run.child),
            false => drop(run.assert_ended("its folder moved")),
        }
        assert!(fixture.exists("elsewhere/.env"), "{ends_suddenly}");
        assert!(fixture.exists("elsewhere/.git"), "{ends_suddenly}");
        assert!(!fixture.exists("work/moved/.env"), "{ends_suddenly}");
        assert!(!fixture.exists("work/moved/.git"), "{ends_suddenly}");
    }
}

/// Empty as it may be.
fn a_file_of_somebody_else_in_a_placeholder_s_place_stays(fixture: &Fixture) {
    fixture.make_folder("work");
    for ends_suddenly in [true, false] {
        let flags = ["--write", "work", "--protect", "work/.env"];
        let run = Run::that_writes(fixture, &flags, "work/.env");
        if ends_suddenly {
            signal(&run.child, Signal::STOP);
        }
        fixture.write("work/new", "");
        rename(&fixture.path("work/new"), &fixture.path("work/.env"));
        match ends_suddenly {
            true => kill_and_await_keeper(run.child),
            false => drop(run.assert_ended("replaced")),
        }
        assert!(fixture.exists("work/.env"), "{ends_suddenly}");
        fs::remove_file(fixture.path("work/.env")).unwrap();
    }
}

/// A guest of an earlier run may have made what looks like a placeholder, and hold a lock on it.
fn a_locked_placeholder_is_not_waited_for(fixture: &Fixture) {
    for is_folder in [false, true] {
        let path = fixture.path("work/.env");
        match is_folder {
            true => fixture.make_folder("work/.env"),
            false => fixture.write("work/.env", ""),
        }
        let mode = if is_folder { 0o1555 } else { 0o1444 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let file = File::open(&path).unwrap();
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        let words = match is_folder {
            true => [
                "--write",
                "work",
                "--protect",
                "work/.env/x",
                "--time",
                "1s",
            ],
            false => ["--write", "work", "--protect", "work/.env", "--time", "1s"],
        };
        let mut child = fixture.script(&words, "true").spawn();
        let ended = ends_within(&child, SOON);
        if !ended {
            child.kill().unwrap();
        }
        assert!(ended, "palisade waits for a lock");
        let outcome = super::fixture::finish(child, b"");
        outcome.refuses(&["host: ", "locks", "work/.env"]);
        // Once it is let go the placeholder is held, and goes with the run.
        drop(file);
        fixture.script(&words, "true").run().is_silent(0);
        assert!(!fixture.exists("work/.env"));
    }
}

fn what_two_sudden_ends_leave_goes_with_the_next_run(fixture: &Fixture) {
    fixture.make_folder("work");
    // A person's own, as empty as a placeholder.
    fixture.write("work/kept", "");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/.env",
        "--protect",
        "work/.git/hooks",
        "--protect",
        "work/kept",
    ];
    let run = Run::that_writes(fixture, &flags, "work/.env");
    kill_both(run);
    assert!(fixture.exists("work/.env"), "nobody was left to remove it");
    let run = Run::that_writes(fixture, &flags, "work/.env");
    assert_eq!(run.go_on(), "", "protected again");
    assert!(!fixture.exists("work/.env") && !fixture.exists("work/.git"));
    assert!(fixture.exists("work/kept"), "not palisade's");
}

/// Two runs take it over, one after the other; it goes with the last.
fn what_two_sudden_ends_leave_is_held_by_two_runs(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = ["--write", "work", "--protect", "work/.env"];
    kill_both(Run::that_writes(fixture, &flags, "work/.env"));
    let first = Run::that_writes(fixture, &flags, "work/.env");
    let second = Run::that_writes(fixture, &flags, "work/.env");
    kill_both(first);
    assert!(fixture.exists("work/.env"), "the second holds it");
    let third = Run::that_writes(fixture, &flags, "work/.env");
    assert_eq!(second.go_on(), "");
    assert!(fixture.exists("work/.env"), "the third holds it");
    assert_eq!(third.go_on(), "");
    assert!(!fixture.exists("work/.env"), "gone with the last");
}

fn groups_that_two_sudden_ends_leave_are_swept(fixture: &Fixture) {
    let flags = ["--memory", "64M"];
    let refused = fixture.script(&flags, "true").run();
    if fixture.user == User::Ordinary && refused.code() == 125 {
        // Nothing was delegated to this user, so nothing can be left.
        refused.refuses(&["host: ", "memory"]);
        return;
    }
    let run = Run::begin(fixture.script(&flags, "echo ready; read go"));
    let process = run.child.id();
    kill_both(run);
    assert!(
        !groups_of(process).is_empty(),
        "nobody was left to remove them"
    );
    eventually("the next run sweeps", || {
        fixture.script(&flags, "true").run().is_silent(0);
        let left = groups_of(process);
        (!left.is_empty()).then(|| format!("{left:?}"))
    });
}

/// Leaves of a process, wherever they are.
fn groups_of(process: u32) -> Vec<PathBuf> {
    let prefixes = [format!("{process}-"), format!("palisade-{process}-")];
    let is_own = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    let groups = everything_below(Path::new("/sys/fs/cgroup"));
    groups.into_iter().filter(is_own).collect()
}
