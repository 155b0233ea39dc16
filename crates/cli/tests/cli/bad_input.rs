//! What is refused before anything starts: exit code 125, one line, whose fault, what to do.

use super::stage::{Stage, cases};
use std::os::unix::fs::symlink;

cases![
    limits_that_mean_nothing,
    unknown_words,
    flags_of_other_tools,
    help_of_the_verb_that_was_typed,
    nothing_to_run,
    missing_paths,
    parent_folders,
    reserved_places,
    symlinks_in_grants,
    symlinks_in_protected_paths,
    rules_without_effect,
    two_hosts_for_one_guest_path,
    unknown_key_shows_its_line,
    broken_policy_files,
    policy_that_the_guest_could_rewrite,
    policy_that_the_guest_could_replace,
    report_that_cannot_be_written,
    variables_without_a_name,
    working_directory_that_is_not_there,
    devices_that_are_none,
    network_grants_that_are_none,
];

#[track_caller]
fn refused(stage: &Stage, flags: &[&str], words: &[&str]) {
    let line = ["run"]
        .iter()
        .chain(flags)
        .chain(&["--", "/bin/echo", "it ran"])
        .copied();
    stage.palisade(line).run().refuses(words);
}

fn limits_that_mean_nothing(stage: &Stage) {
    refused(
        stage,
        &["--memory", "0"],
        &["policy: --memory: `0`", "leave it out for no limit"],
    );
    refused(
        stage,
        &["--time", "12 parsecs"],
        &[
            "policy: --time: `12 parsecs`",
            "`parsecs` is not known",
            "1h30m",
        ],
    );
    refused(stage, &["--cpu=-1"], &["policy: --cpu:"]);
    refused(stage, &["--cpu", "nan"], &["policy: --cpu:"]);
    refused(stage, &["--processes", "many"], &["policy: --processes:"]);
    refused(
        stage,
        &["--files", "3"],
        &["policy: ", "files", "the least"],
    );
    refused(stage, &["--memory", "99999999999T"], &["policy: --memory:"]);
}

fn unknown_words(stage: &Stage) {
    refused(
        stage,
        &["--writ", "x"],
        &["usage: ", "'--writ'", "'--write'"],
    );
    refused(
        stage,
        &["--profile", "cobol"],
        &[
            "policy: --profile: ",
            "java, python, node, rust, go, maven, git, chromium, palisade",
        ],
    );
    refused(
        stage,
        &["--allow-degraded", "everything"],
        &["policy: --allow-degraded: ", "namespaces"],
    );
    for list in ["memory,everything", "memory,,cpu", "memory,", "memory, cpu"] {
        refused(
            stage,
            &["--allow-degraded", list],
            &["policy: --allow-degraded: ", "namespaces"],
        );
    }
    stage
        .palisade(["rnu", "ls"])
        .run()
        .refuses(&["usage: ", "'rnu'", "--help"]);
}

fn flags_of_other_tools(stage: &Stage) {
    for (flags, advice) in [
        (
            &["--ro-bind", "/srv", "/srv"][..],
            "write `--read PATH:GUEST`",
        ),
        (
            &["--unshare-net"],
            "no network unless `--connect tcp://HOST:PORT`",
        ),
        (&["--whitelist=/srv"], "write `--read PATH`"),
        (&["-v", "/srv:/srv"], "write `--write PATH:GUEST`"),
        (&["--rm"], "leave it out"),
    ] {
        refused(stage, flags, &["usage: palisade has no -", advice]);
    }
}

fn help_of_the_verb_that_was_typed(stage: &Stage) {
    for verb in ["run", "explain", "cost", "bench", "serve", "why"] {
        let help = format!("see `palisade {verb} --help`");
        stage
            .palisade([verb, "--bogus"])
            .run()
            .refuses(&["usage: ", &help]);
    }
}

fn nothing_to_run(stage: &Stage) {
    stage
        .palisade(["run"])
        .run()
        .refuses(&["usage: ", "PROGRAM"]);
    stage
        .palisade(["run", "--no-system", "--"])
        .run()
        .refuses(&["usage: ", "PROGRAM"]);
}

fn missing_paths(stage: &Stage) {
    let missing = stage.text("missing");
    for flag in ["--read", "--write"] {
        refused(
            stage,
            &[flag, "missing"],
            &["policy: ", &missing, "does not exist"],
        );
        refused(stage, &[flag, "missing:/inside"], &["policy: ", &missing]);
    }
    stage.write("file", "");
    refused(
        stage,
        &["--read", "file/below"],
        &["policy: ", "does not exist"],
    );
    refused(stage, &["--read", ""], &["policy: --read"]);
}

fn parent_folders(stage: &Stage) {
    stage.make_folder("a");
    refused(stage, &["--read", "a/../a"], &["policy: --read", "`..`"]);
    refused(
        stage,
        &["--write", "/var/../etc"],
        &["policy: --write", "`..`"],
    );
    refused(stage, &["--read", "a:/x/../y"], &["policy: --read", "`..`"]);
    refused(stage, &["--cwd", "/a/../b"], &["policy: --cwd", "`..`"]);
    let above = stage.palisade(["run", "--read", "../", "--", "/bin/true"]);
    above.run().is_silent(0);
}

fn reserved_places(stage: &Stage) {
    refused(stage, &["--read", "/"], &["policy: ", "`/`"]);
    refused(stage, &["--read", "/proc"], &["policy: ", "/proc"]);
    refused(stage, &["--write", "/dev"], &["policy: ", "--device"]);
    stage.make_folder("a");
    refused(stage, &["--read", "/:/"], &["policy: ", "`/`"]);
    refused(stage, &["--read", "a:/proc/x"], &["policy: "]);
    refused(stage, &["--read", "/:/everything"], &["policy: ", "/"]);
}

/// A link is followed once, by palisade: what the guest gets is what the link led to then.
fn symlinks_in_grants(stage: &Stage) {
    stage.write("real/file", "content");
    symlink(stage.path("real"), stage.path("link")).unwrap();
    symlink("/nowhere", stage.path("dangling")).unwrap();
    refused(
        stage,
        &["--read", "dangling"],
        &["policy: ", "does not exist"],
    );
    stage
        .script(&["--read", "link"], "cat link/file")
        .run()
        .prints("content");
    // What may not be granted by its name may not be granted by another one either.
    for (link, target) in [
        ("root", "/"),
        ("processes", "/proc"),
        ("devices", "/dev"),
        ("self", "/proc/self/root"),
    ] {
        symlink(target, stage.path(link)).unwrap();
        refused(stage, &["--read", link], &["policy: ", "/"]);
        refused(
            stage,
            &["--write", &format!("{link}:/inside")],
            &["policy: ", "/"],
        );
    }
}

fn symlinks_in_protected_paths(stage: &Stage) {
    stage.make_folder("a/real");
    symlink("real", stage.path("a/link")).unwrap();
    refused(
        stage,
        &["--write", "a", "--protect", "a/link"],
        &["policy: ", "symlink"],
    );
    refused(
        stage,
        &["--write", "a", "--protect", "a/link/deeper"],
        &["policy: ", "symlink"],
    );
    symlink("nowhere", stage.path("a/dangling")).unwrap();
    refused(
        stage,
        &["--write", "a", "--protect", "a/dangling"],
        &["policy: ", "symlink"],
    );
}

fn rules_without_effect(stage: &Stage) {
    stage.make_folder("a");
    refused(
        stage,
        &["--protect", "a"],
        &["policy: ", "no effect", "--write"],
    );
    refused(stage, &["--exec", "a"], &["policy: ", "--write"]);
    refused(stage, &["--ipc", "a"], &["policy: ", "--write"]);
    refused(stage, &["--read", "a", "--exec", "a"], &["policy: "]);
    refused(
        stage,
        &["--write", "a", "--protect", "a"],
        &["policy: ", "read"],
    );
}

fn two_hosts_for_one_guest_path(stage: &Stage) {
    stage.make_folder("a");
    stage.make_folder("b");
    refused(
        stage,
        &["--read", "a:/x", "--read", "b:/x"],
        &["policy: ", "two host paths"],
    );
}

fn unknown_key_shows_its_line(stage: &Stage) {
    stage.write(
        "policy.toml",
        "[grants]\nread = []\n\n[limits]\nmemroy = '512M'\n",
    );
    let outcome = stage
        .palisade(["run", "--policy", "policy.toml", "--", "/bin/true"])
        .run();
    outcome.says(125, &["policy: ", "unknown key `memroy`"]);
    assert!(outcome.stderr.contains("policy.toml:5:1"), "{outcome:?}");
    assert!(
        outcome.stderr.contains("5 | memroy = '512M'"),
        "{outcome:?}"
    );
    assert!(
        outcome.stderr.contains("did you mean `memory`?"),
        "{outcome:?}"
    );
}

fn broken_policy_files(stage: &Stage) {
    refused(
        stage,
        &["--policy", "absent.toml"],
        &["policy: ", "absent.toml"],
    );
    stage.make_folder("folder");
    refused(stage, &["--policy", "folder"], &["policy: ", "folder"]);
    for (text, word) in [
        ("[limits\n", "not valid TOML"),
        ("[limits]\ntime = '12 parsecs'\n", "parsecs"),
        ("[limits]\nmemory = 0\n", "memory"),
        (
            "[grants]\nconnect = ['example.org:443']\n",
            "does not say by which transport",
        ),
        ("[grants]\nread = 'src'\n", "must be"),
        ("read = ['src']\n", "belongs"),
    ] {
        stage.write("policy.toml", text);
        let outcome = stage
            .palisade(["run", "--policy", "policy.toml", "--", "/bin/true"])
            .run();
        outcome.is(125);
        assert!(outcome.stderr.contains(word), "{word}: {outcome:?}");
        assert!(
            outcome.stderr.contains("policy.toml:"),
            "the place: {outcome:?}"
        );
    }
}

fn policy_that_the_guest_could_rewrite(stage: &Stage) {
    stage.write("work/policy.toml", "");
    let flags = ["--policy", "work/policy.toml", "--write", "work"];
    refused(
        stage,
        &flags,
        &["policy: ", "rewrite its own policy", "--protect"],
    );
    let protected = [&flags[..], &["--protect", "work/policy.toml"]].concat();
    stage.script(&protected, "true").run().is_silent(0);
    stage
        .script(&["--policy", "work/policy.toml", "--read", "work"], "true")
        .run()
        .is_silent(0);
}

/// Granting the folder under another name, or by a link, changes nothing.
fn policy_that_the_guest_could_replace(stage: &Stage) {
    stage.write("work/policy.toml", "");
    symlink(stage.path("work/policy.toml"), stage.path("link.toml")).unwrap();
    refused(
        stage,
        &["--policy", "work/policy.toml", "--write", "work:/w"],
        &["rewrite its own policy"],
    );
    refused(
        stage,
        &["--policy", "link.toml", "--write", "work:/w"],
        &["rewrite its own policy"],
    );
    stage.write("own.toml", "[grants]\nwrite = ['.']\n");
    refused(
        stage,
        &["--policy", "own.toml"],
        &["rewrite its own policy"],
    );
    stage.make_folder("links");
    symlink(
        stage.path("work/policy.toml"),
        stage.path("links/policy.toml"),
    )
    .unwrap();
    refused(
        stage,
        &["--policy", "links/policy.toml", "--write", "links"],
        &["policy: "],
    );
}

fn report_that_cannot_be_written(stage: &Stage) {
    refused(
        stage,
        &["--report", "no/such/folder/report.json"],
        &["host: ", "report"],
    );
}

fn variables_without_a_name(stage: &Stage) {
    let cases = [
        ("BAD NAME=1", "a space or an unprintable character"),
        ("BAD\tNAME", "a space or an unprintable character"),
        ("=1", "no name before the `=`"),
        ("", "nothing was given"),
    ];
    for (grant, word) in cases {
        refused(stage, &["--env", grant], &["policy: --env: ", word]);
        stage.write("odd.toml", &format!("[grants]\nenv = [{grant:?}]\n"));
        let outcome = stage
            .palisade(["run", "--policy", "odd.toml", "--", "/bin/true"])
            .run();
        outcome.says(125, &["policy: ", "is not a valid environment grant"]);
        assert!(outcome.stderr.contains("odd.toml:2:8"), "{outcome:?}");
        assert!(outcome.stderr.contains(word), "{outcome:?}");
    }
}

fn working_directory_that_is_not_there(stage: &Stage) {
    refused(
        stage,
        &["--cwd", "/no/such/folder"],
        &["policy: ", "/no/such/folder", "--cwd"],
    );
}

fn devices_that_are_none(stage: &Stage) {
    stage.write("file", "");
    refused(
        stage,
        &["--device", &stage.text("file")],
        &["policy: ", "not a device"],
    );
    refused(
        stage,
        &["--device", "/dev/no-such-device"],
        &["policy: ", "does not exist"],
    );
    refused(stage, &["--device", "null"], &["policy: --device: "]);
}

fn network_grants_that_are_none(stage: &Stage) {
    for (flags, word) in [
        (["--connect", "example.com:443"], "by which transport"),
        (["--connect", "tcp://0177.1:80"], "`0177.1`"),
        (["--connect", "tcp://2130706433:80"], "`2130706433`"),
        (
            ["--connect", "tcp://[::ffff:10.0.0.1]:80"],
            "write `10.0.0.1`",
        ),
        (["--connect", "tcp://10.0.0.1/8:80"], "`10.0.0.0/8`"),
        (["--connect", "tcp://a\u{1b}[2J:80"], r"`\u{1b}`"),
        (["--connect", "unix:a/../b"], "`..`"),
        (["--listen", "tcp://example.com:80"], "not at a name"),
        (["--listen", "tcp://*:80,redy"], "`redy`"),
    ] {
        refused(stage, &flags, &[&format!("policy: {}: ", flags[0]), word]);
    }
}
