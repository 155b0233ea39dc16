//! What git executes unasked in a checkout that is granted for writing, with git itself.

use super::fixture::{Fixture, Outcome, User, cases, ends_within, read_line, wait};
use std::{
    fs,
    io::{BufReader, Read},
    os::unix::fs::symlink,
    path::Path,
    time::Duration,
};

cases![
    hooks_and_settings_are_not_the_guest_s,
    a_file_opens_them_as_the_flag_does,
    git_that_would_change_them_is_told_the_flag,
    git_works_in_a_guarded_checkout,
    settings_that_are_replaced_outside_end_the_guest_and_the_flag_is_named,
    hooks_that_are_missing_are_held_and_gone_at_the_end,
    a_linked_worktree_keeps_its_way_to_the_repository,
    the_repository_keeps_the_ways_of_its_worktrees,
    a_bare_repository_is_guarded,
    a_second_grant_that_leads_there_is_guarded_too,
    a_link_for_hooks_is_refused,
    explain_names_what_is_kept,
    a_profile_says_who_commits,
    a_home_that_is_granted_whole_is_warned_of,
];

/// Git as the user, with no wall.
#[track_caller]
fn git(fixture: &Fixture, words: &str) -> Outcome {
    let who = "-c user.name=n -c user.email=e -c init.defaultBranch=main";
    let words = who.split(' ').chain(words.split(' '));
    let outcome = fixture.call(Path::new("/usr/bin/git"), words).run();
    outcome.is(0);
    outcome
}

/// A checkout with one commit at `work`, and a clone of it at `origin`.
fn check_out(fixture: &Fixture) {
    git(fixture, "init -q work");
    fixture.write("work/file", "first\n");
    git(fixture, "-C work add file");
    git(fixture, "-C work commit -qm first");
    git(fixture, "clone -q --bare work origin");
    git(fixture, "-C work remote add origin ../origin");
}

fn git_that_would_change_them_is_told_the_flag(fixture: &Fixture) {
    check_out(fixture);
    let set = [
        "--",
        "/usr/bin/git",
        "-C",
        "work",
        "config",
        "core.editor",
        "vi",
    ];
    let run = |flags: &[&str]| {
        let words = [&["run", "--write", "work"], flags, &set].concat();
        fixture.palisade(words).run()
    };
    let refused = run(&[]);
    assert_ne!(refused.code(), 0, "{refused:?}");
    assert!(
        refused.stderr.contains("note: git's hooks and settings"),
        "{refused:?}"
    );
    assert!(
        refused.stderr.contains("--no-guard leaves them"),
        "{refused:?}"
    );
    run(&["--no-guard"]).is_silent(0);
}

/// Tries to write each, and says which it could.
const TRY: &str =
    "for path in $PATHS; do { echo evil > $path; } 2>/dev/null && echo $path; done; true";

fn written(fixture: &Fixture, flags: &[&str], paths: &str) -> String {
    let paths = format!("PATHS={paths}");
    let flags = [flags, &["--env", &paths]].concat();
    let outcome = fixture.script(&flags, TRY).run();
    outcome.is_silent(0);
    outcome.text()
}

const OF_GIT: &str = "work/.git/hooks/pre-commit work/.git/config work/.git/HEAD2 work/.git/hooks2";

fn hooks_and_settings_are_not_the_guest_s(fixture: &Fixture) {
    check_out(fixture);
    let settings = fixture.read("work/.git/config");
    assert_eq!(
        written(fixture, &["--write", "work"], OF_GIT),
        "work/.git/HEAD2\nwork/.git/hooks2\n"
    );
    for act in [
        "mv work/.git work/.old",
        "mv work/.git/hooks work/.git/h",
        "mv work/.git/HEAD2 work/.git/config",
        "rm -r work/.git/config",
        "ln -sf /tmp work/.git/hooks/x",
        "mkdir work/.git/hooks/x",
    ] {
        let outcome = fixture.script(&["--write", "work"], act).run();
        assert_ne!(outcome.code(), 0, "{act}");
    }
    assert_eq!(fixture.read("work/.git/config"), settings);
    assert!(!fixture.exists("work/.git/hooks/pre-commit"));
    let all = OF_GIT.replace(' ', "\n") + "\n";
    assert_eq!(
        written(fixture, &["--write", "work", "--no-guard"], OF_GIT),
        all
    );
}

fn a_file_opens_them_as_the_flag_does(fixture: &Fixture) {
    check_out(fixture);
    let all = OF_GIT.replace(' ', "\n") + "\n";
    fixture.write("open.toml", "guard = false\n[grants]\nwrite = ['work']\n");
    assert_eq!(written(fixture, &["--policy", "open.toml"], OF_GIT), all);
}

/// All that people and agents do with git but change its settings.
fn git_works_in_a_guarded_checkout(fixture: &Fixture) {
    const SCRIPT: &str = "set -e
export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e
git status --short
echo second > file; git add file; git commit -qm second
git checkout -q -b side
echo third > file; git commit -qam third; git tag third
echo open > file; git stash -q; git stash pop -q; git checkout -q file
git checkout -q main
git merge -q side
git switch -q side; git reset -q --hard HEAD~1; git rebase -q main
git switch -q main; git branch -q -D side
git fetch -q origin
git worktree add -q /tmp/other HEAD; git worktree remove /tmp/other
git cherry-pick -n HEAD >/dev/null; git reset -q --hard
git gc -q
git fsck --no-progress --no-dangling
git log --format=%s
if git config user.name evil 2>/dev/null; then echo changed; fi
git log -1 --format=%s";
    check_out(fixture);
    let settings = fixture.read("work/.git/config");
    let work = fixture.text("work");
    let flags = ["--write", &work, "--read", "origin", "--cwd", &work];
    let outcome = fixture.script(&flags, SCRIPT).run();
    assert_eq!(
        outcome.text(),
        "third\nsecond\nfirst\nthird\n",
        "{outcome:?}"
    );
    assert_eq!(fixture.read("work/.git/config"), settings);
    assert_eq!(git(fixture, "-C work status --short").text(), "");
}

/// `git config`, and `git push -u`, put a new file in its place.
fn settings_that_are_replaced_outside_end_the_guest_and_the_flag_is_named(fixture: &Fixture) {
    check_out(fixture);
    let mut call = fixture.script(&["--write", "work"], "echo ready; read go; echo evil");
    let mut child = call.spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    git(fixture, "-C work config some.key value");
    let ended = ends_within(&child, Duration::from_secs(15));
    drop(child.stdin.take());
    assert_eq!((ended, wait(&mut child).code()), (true, Some(137)));
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    for word in ["work/.git/config was moved", "--no-guard", "guard = false"] {
        assert!(said.contains(word), "{word:?} in {said}");
    }
    // Work that leaves the settings alone goes on beside it.
    let mut call = fixture.script(&["--write", "work"], "echo ready; read go; echo done");
    let mut child = call.spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    git(fixture, "-C work commit -q --allow-empty -m other");
    git(fixture, "-C work gc -q");
    drop(child.stdin.take());
    assert_eq!(read_line(&mut stdout), "done\n");
    assert_eq!(wait(&mut child).code(), Some(0));
}

fn hooks_that_are_missing_are_held_and_gone_at_the_end(fixture: &Fixture) {
    check_out(fixture);
    fs::remove_dir_all(fixture.path("work/.git/hooks")).unwrap();
    git(fixture, "-C work config extensions.worktreeConfig true");
    let script = "mkdir work/.git/hooks; echo evil > work/.git/hooks/pre-commit; \
                  echo evil > work/.git/config.worktree; git -C work status --short; echo done";
    let outcome = fixture.script(&["--write", "work"], script).run();
    outcome.is(0);
    assert_eq!(outcome.text(), "done\n", "{outcome:?}");
    assert!(!fixture.exists("work/.git/hooks"));
    assert!(!fixture.exists("work/.git/config.worktree"));
}

fn a_linked_worktree_keeps_its_way_to_the_repository(fixture: &Fixture) {
    check_out(fixture);
    git(fixture, "-C work worktree add -q ../linked");
    let way = fixture.read("linked/.git");
    let paths = "linked/.git linked/file";
    assert_eq!(
        written(fixture, &["--write", "linked"], paths),
        "linked/file\n"
    );
    let swap = "mv linked/.git linked/old || rm linked/.git";
    assert_ne!(fixture.script(&["--write", "linked"], swap).run().code(), 0);
    assert_eq!(fixture.read("linked/.git"), way);
    // With the repository beside it, which is guarded too, git works there.
    let commit = "git -c user.name=n -c user.email=e commit -qam second && git log -1 --format=%s";
    let (linked, repository) = (fixture.text("linked"), fixture.text("work/.git"));
    let flags = ["--write", &linked, "--write", &repository, "--cwd", &linked];
    fixture.script(&flags, commit).run().prints("second\n");
    let hook = "work/.git/hooks/pre-commit";
    assert_eq!(
        written(
            fixture,
            &["--write", "linked", "--write", "work/.git"],
            hook
        ),
        ""
    );
    assert_eq!(
        written(fixture, &["--write", "linked", "--no-guard"], paths),
        "linked/.git\nlinked/file\n"
    );
}

/// A guest in the main checkout would lead git in the other one elsewhere.
fn the_repository_keeps_the_ways_of_its_worktrees(fixture: &Fixture) {
    check_out(fixture);
    git(fixture, "-C work worktree add -q ../linked");
    let own = "work/.git/worktrees/linked";
    let paths = format!("{own}/commondir {own}/gitdir {own}/extra");
    let open = format!("{own}/extra\n");
    assert_eq!(written(fixture, &["--write", "work"], &paths), open);
    let all = paths.replace(' ', "\n") + "\n";
    assert_eq!(
        written(fixture, &["--write", "work", "--no-guard"], &paths),
        all
    );
}

fn a_bare_repository_is_guarded(fixture: &Fixture) {
    check_out(fixture);
    let paths = "origin/hooks/post-receive origin/config origin/file";
    assert_eq!(
        written(fixture, &["--write", "origin"], paths),
        "origin/file\n"
    );
    let (work, origin) = (fixture.text("work"), fixture.text("origin"));
    let push = "git commit -q --allow-empty -m second && git push -q origin main";
    let names = [
        "AUTHOR_NAME",
        "AUTHOR_EMAIL",
        "COMMITTER_NAME",
        "COMMITTER_EMAIL",
    ];
    let names = names.map(|name| format!("GIT_{name}=n"));
    let mut flags = vec!["--write", &work, "--write", &origin, "--cwd", &work];
    flags.extend(names.iter().flat_map(|name| ["--env", name.as_str()]));
    fixture.script(&flags, push).run().is(0);
    assert_eq!(
        git(fixture, "-C origin log -1 --format=%s").text(),
        "second\n"
    );
}

fn a_second_grant_that_leads_there_is_guarded_too(fixture: &Fixture) {
    check_out(fixture);
    let all = format!("{}:/all", fixture.text(""));
    let flags = ["--write", "work", "--write", all.as_str()];
    let paths = "/all/work/.git/hooks/x /all/work/.git/config /all/work/.git/y";
    assert_eq!(written(fixture, &flags, paths), "/all/work/.git/y\n");
    // By its own name it was asked for.
    let hooks = format!("{}:/hooks", fixture.text("work/.git/hooks"));
    let flags = ["--write", "work", "--write", hooks.as_str()];
    assert_eq!(written(fixture, &flags, "/hooks/x"), "/hooks/x\n");
}

fn a_link_for_hooks_is_refused(fixture: &Fixture) {
    check_out(fixture);
    fs::remove_dir_all(fixture.path("work/.git/hooks")).unwrap();
    fixture.make_folder("work/githooks");
    symlink("../githooks", fixture.path("work/.git/hooks")).unwrap();
    let refused = fixture.script(&["--write", "work"], "true").run();
    refused.refuses(&["policy: ", "work/.git/hooks", "symlink", "--no-guard"]);
    fixture
        .script(&["--write", "work", "--no-guard"], "true")
        .run()
        .is_silent(0);
}

fn explain_names_what_is_kept(fixture: &Fixture) {
    check_out(fixture);
    let explain = |flags: &[&str]| {
        let words = [&["explain", "--write", "work"], flags, &["--", "true"]].concat();
        let outcome = fixture.palisade(words).run();
        outcome.is_silent(0);
        outcome.text()
    };
    let line = format!(
        "keep      what git executes outside, unless --no-guard is given: {0}/config, {0}/hooks\n",
        fixture.text("work/.git")
    );
    let said = explain(&[]);
    assert!(said.contains(&line), "{said}");
    assert!(!explain(&["--no-guard"]).contains("keep  "));
    assert!(explain(&["--json"]).contains("\"kept_for_git\""));
}

fn a_profile_says_who_commits(fixture: &Fixture) {
    check_out(fixture);
    fixture.write(
        ".gitconfig",
        "[user]\n\tname = Ada\n\temail = ada@example.com\n[credential]\n\thelper = evil\n",
    );
    let work = fixture.text("work");
    let commit = "git commit -q --allow-empty -m second && git log -1 --format='%an %ce' && git config credential.helper";
    let call = |flags: &[&str]| {
        let flags = [&["--write", &work, "--cwd", &work], flags].concat();
        fixture
            .script(&flags, commit)
            .env("HOME", &fixture.text(""))
            .run()
    };
    let outcome = call(&["--profile", "git"]);
    assert_eq!(outcome.text(), "Ada ada@example.com\n", "{outcome:?}");
    assert_ne!(outcome.code(), 0, "no helper is known");
    assert_eq!(call(&[]).text(), "", "without it, git knows nobody");
    // As root the guest is another user inside, to whom the checkout belongs all the same.
    if fixture.user == User::Root {
        assert_eq!(
            git(fixture, "-C work log -1 --format=%s").text(),
            "second\n"
        );
    }
}

fn a_home_that_is_granted_whole_is_warned_of(fixture: &Fixture) {
    fixture.make_folder("work");
    let call = |flags: &[&str]| {
        fixture
            .script(flags, "true")
            .env("HOME", &fixture.text(""))
            .run()
    };
    let warned = call(&["--write", "."]);
    warned.is(0);
    let words = ["palisade: note: policy: all of ", ".bashrc", "--no-guard"];
    assert!(
        words.iter().all(|word| warned.stderr.contains(word)),
        "{warned:?}"
    );
    call(&["--write", ".", "--no-guard"]).is_silent(0);
    call(&["--write", "work", "--read", "."]).is_silent(0);
}
