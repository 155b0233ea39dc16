//! What is refused before anything starts: exit code 125, one line, whose fault, what to do.

use super::fixture::{Fixture, cases};
use palisade_suite::executable::copy_program;
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
    programs_of_palisade_that_the_guest_could_replace,
    a_code_cache_that_the_guest_could_change,
    policy_that_the_guest_could_replace,
    report_that_cannot_be_written,
    variables_without_a_name,
    working_directory_that_is_not_there,
    devices_that_are_none,
    network_grants_that_are_none,
];

#[track_caller]
fn refused(fixture: &Fixture, flags: &[&str], words: &[&str]) {
    let line = ["run"]
        .iter()
        .chain(flags)
        .chain(&["--", "/bin/echo", "it ran"])
        .copied();
    fixture.palisade(line).run().refuses(words);
}

fn limits_that_mean_nothing(fixture: &Fixture) {
    refused(
        fixture,
        &["--memory", "0"],
        &["policy: --memory: `0`", "leave it out for no limit"],
    );
    refused(
        fixture,
        &["--time", "12 parsecs"],
        &[
            "policy: --time: `12 parsecs`",
            "`parsecs` is not known",
            "1h30m",
        ],
    );
    refused(fixture, &["--cpu=-1"], &["policy: --cpu:"]);
    refused(fixture, &["--cpu", "nan"], &["policy: --cpu:"]);
    refused(fixture, &["--processes", "many"], &["policy: --processes:"]);
    refused(
        fixture,
        &["--files", "3"],
        &["policy: ", "files", "the least"],
    );
    refused(
        fixture,
        &["--memory", "99999999999T"],
        &["policy: --memory:"],
    );
}

fn unknown_words(fixture: &Fixture) {
    refused(
        fixture,
        &["--writ", "x"],
        &["usage: ", "'--writ'", "'--write'"],
    );
    refused(
        fixture,
        &["--profile", "cobol"],
        &[
            "policy: --profile: ",
            "java, python, node, rust, go, maven, git, chromium, palisade",
        ],
    );
    refused(
        fixture,
        &["--allow-degraded", "everything"],
        &["policy: --allow-degraded: ", "namespaces"],
    );
    for list in ["memory,everything", "memory,,cpu", "memory,", "memory, cpu"] {
        refused(
            fixture,
            &["--allow-degraded", list],
            &["policy: --allow-degraded: ", "namespaces"],
        );
    }
    fixture
        .palisade(["rnu", "ls"])
        .run()
        .refuses(&["usage: ", "'rnu'", "--help"]);
}

fn flags_of_other_tools(fixture: &Fixture) {
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
        refused(fixture, flags, &["usage: palisade has no -", advice]);
    }
}

fn help_of_the_verb_that_was_typed(fixture: &Fixture) {
    for verb in ["run", "explain", "cost", "bench", "serve", "why"] {
        let help = format!("see `palisade {verb} --help`");
        fixture
            .palisade([verb, "--bogus"])
            .run()
            .refuses(&["usage: ", &help]);
    }
}

fn nothing_to_run(fixture: &Fixture) {
    fixture
        .palisade(["run"])
        .run()
        .refuses(&["usage: ", "PROGRAM"]);
    fixture
        .palisade(["run", "--no-system", "--"])
        .run()
        .refuses(&["usage: ", "PROGRAM"]);
}

fn missing_paths(fixture: &Fixture) {
    let missing = fixture.text("missing");
    for flag in ["--read", "--write"] {
        refused(
            fixture,
            &[flag, "missing"],
            &["policy: ", &missing, "does not exist"],
        );
        refused(fixture, &[flag, "missing:/inside"], &["policy: ", &missing]);
    }
    fixture.write("file", "");
    refused(
        fixture,
        &["--read", "file/below"],
        &["policy: ", "does not exist"],
    );
    refused(fixture, &["--read", ""], &["policy: --read"]);
}

fn parent_folders(fixture: &Fixture) {
    fixture.make_folder("a");
    refused(fixture, &["--read", "a/../a"], &["policy: --read", "`..`"]);
    refused(
        fixture,
        &["--write", "/var/../etc"],
        &["policy: --write", "`..`"],
    );
    refused(
        fixture,
        &["--read", "a:/x/../y"],
        &["policy: --read", "`..`"],
    );
    refused(fixture, &["--cwd", "/a/../b"], &["policy: --cwd", "`..`"]);
    let above = fixture.palisade(["run", "--read", "../", "--", "/bin/true"]);
    above.run().is_silent(0);
}

fn reserved_places(fixture: &Fixture) {
    refused(fixture, &["--read", "/"], &["policy: ", "`/`"]);
    refused(fixture, &["--read", "/proc"], &["policy: ", "/proc"]);
    refused(fixture, &["--write", "/dev"], &["policy: ", "--device"]);
    fixture.make_folder("a");
    refused(fixture, &["--read", "/:/"], &["policy: ", "`/`"]);
    refused(fixture, &["--read", "a:/proc/x"], &["policy: "]);
    refused(fixture, &["--read", "/:/everything"], &["policy: ", "/"]);
}

/// A link is followed once, by palisade: what the guest gets is what the link led to then.
fn symlinks_in_grants(fixture: &Fixture) {
    fixture.write("real/file", "content");
    symlink(fixture.path("real"), fixture.path("link")).unwrap();
    symlink("/nowhere", fixture.path("dangling")).unwrap();
    refused(
        fixture,
        &["--read", "dangling"],
        &["policy: ", "does not exist"],
    );
    fixture
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
        symlink(target, fixture.path(link)).unwrap();
        refused(fixture, &["--read", link], &["policy: ", "/"]);
        refused(
            fixture,
            &["--write", &format!("{link}:/inside")],
            &["policy: ", "/"],
        );
    }
}

fn symlinks_in_protected_paths(fixture: &Fixture) {
    fixture.make_folder("a/real");
    symlink("real", fixture.path("a/link")).unwrap();
    refused(
        fixture,
        &["--write", "a", "--protect", "a/link"],
        &["policy: ", "symlink"],
    );
    refused(
        fixture,
        &["--write", "a", "--protect", "a/link/deeper"],
        &["policy: ", "symlink"],
    );
    symlink("nowhere", fixture.path("a/dangling")).unwrap();
    refused(
        fixture,
        &["--write", "a", "--protect", "a/dangling"],
        &["policy: ", "symlink"],
    );
}

fn rules_without_effect(fixture: &Fixture) {
    fixture.make_folder("a");
    refused(
        fixture,
        &["--protect", "a"],
        &["policy: ", "no effect", "--write"],
    );
    refused(fixture, &["--exec", "a"], &["policy: ", "--write"]);
    refused(fixture, &["--ipc", "a"], &["policy: ", "--write"]);
    refused(fixture, &["--read", "a", "--exec", "a"], &["policy: "]);
    refused(
        fixture,
        &["--write", "a", "--protect", "a"],
        &["policy: ", "read"],
    );
}

fn two_hosts_for_one_guest_path(fixture: &Fixture) {
    fixture.make_folder("a");
    fixture.make_folder("b");
    refused(
        fixture,
        &["--read", "a:/x", "--read", "b:/x"],
        &["policy: ", "two host paths"],
    );
}

fn unknown_key_shows_its_line(fixture: &Fixture) {
    fixture.write(
        "policy.toml",
        "[grants]\nread = []\n\n[limits]\nmemroy = '512M'\n",
    );
    let outcome = fixture
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

fn broken_policy_files(fixture: &Fixture) {
    refused(
        fixture,
        &["--policy", "absent.toml"],
        &["policy: ", "absent.toml"],
    );
    fixture.make_folder("folder");
    refused(fixture, &["--policy", "folder"], &["policy: ", "folder"]);
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
        fixture.write("policy.toml", text);
        let outcome = fixture
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

fn policy_that_the_guest_could_rewrite(fixture: &Fixture) {
    fixture.write("work/policy.toml", "");
    let flags = ["--policy", "work/policy.toml", "--write", "work"];
    refused(
        fixture,
        &flags,
        &["policy: ", "rewrite its own policy", "--protect"],
    );
    let protected = [&flags[..], &["--protect", "work/policy.toml"]].concat();
    fixture.script(&protected, "true").run().is_silent(0);
    fixture
        .script(&["--policy", "work/policy.toml", "--read", "work"], "true")
        .run()
        .is_silent(0);
}

/// The next start would execute what the guest put there, without a wall.
fn programs_of_palisade_that_the_guest_could_replace(fixture: &Fixture) {
    const PROGRAMS: [&str; 5] = ["", "-host", "-lab", "-worker", "-compiler"];
    for folder in ["bin", "libexec/palisade", "work", "named"] {
        fixture.make_folder(folder);
    }
    let program = fixture.path("bin/palisade");
    copy_program(fixture.program(), &program).unwrap();
    for name in &PROGRAMS[1..] {
        fixture.write(&format!("bin/palisade{name}"), "");
    }
    let call = |flags: &[&str]| {
        let words = [&["explain"], flags, &["--", "/bin/true"]].concat();
        let explained = fixture.call(&program, words).run();
        let words = [&["run"], flags, &["--", "/bin/true"]].concat();
        let call = fixture.call(&program, words);
        (call, explained)
    };
    let refuses = |flags: &[&str]| {
        let words = ["policy: ", "outside the wall", "--protect"];
        let (call, explained) = call(flags);
        explained.refuses(&words);
        call.run().refuses(&words);
    };
    for granted in ["bin", "bin:/elsewhere", "libexec", "."] {
        refuses(&["--write", granted]);
    }
    for name in PROGRAMS {
        refuses(&["--write", &format!("bin/palisade{name}")]);
        // All others are protected.
        let others = PROGRAMS.iter().filter(|other| **other != name);
        let paths: Vec<_> = others.map(|other| format!("bin/palisade{other}")).collect();
        let protect = paths.iter().flat_map(|path| ["--protect", path.as_str()]);
        let flags: Vec<_> = ["--write", "bin"].into_iter().chain(protect).collect();
        refuses(&flags);
    }
    for flags in [
        &["--write", "work", "--write", "named"][..],
        &["--read", "."],
    ] {
        call(flags).0.run().is_silent(0);
    }
    // Who is started without the variable looks beside the program all the same.
    let named = fixture.text("named");
    for granted in ["named", "libexec"] {
        let call = call(&["--write", granted]).0;
        let outcome = call.env("PALISADE_LIBEXEC", &named).run();
        outcome.refuses(&["policy: ", "outside the wall", "--protect"]);
    }
}

/// What it puts there runs in the worker of a later guest, and in a server.
fn a_code_cache_that_the_guest_could_change(fixture: &Fixture) {
    fixture.make_folder("caches/palisade/code");
    let run = |granted: &str| {
        let words = ["run", "--write", granted, "--", "/bin/true"];
        let call = fixture.palisade(words);
        call.env("XDG_CACHE_HOME", &fixture.text("caches")).run()
    };
    for granted in ["caches", "caches/palisade", "caches/palisade/code", "."] {
        run(granted).refuses(&["policy: ", "caches/palisade", "--protect"]);
    }
    fixture.make_folder("caches/other");
    run("caches/other").is_silent(0);
}

/// Granting the folder under another name, or by a link, changes nothing.
fn policy_that_the_guest_could_replace(fixture: &Fixture) {
    fixture.write("work/policy.toml", "");
    symlink(fixture.path("work/policy.toml"), fixture.path("link.toml")).unwrap();
    refused(
        fixture,
        &["--policy", "work/policy.toml", "--write", "work:/w"],
        &["rewrite its own policy"],
    );
    refused(
        fixture,
        &["--policy", "link.toml", "--write", "work:/w"],
        &["rewrite its own policy"],
    );
    fixture.write("own.toml", "[grants]\nwrite = ['.']\n");
    refused(
        fixture,
        &["--policy", "own.toml"],
        &["rewrite its own policy"],
    );
    fixture.make_folder("links");
    symlink(
        fixture.path("work/policy.toml"),
        fixture.path("links/policy.toml"),
    )
    .unwrap();
    refused(
        fixture,
        &["--policy", "links/policy.toml", "--write", "links"],
        &["policy: "],
    );
}

fn report_that_cannot_be_written(fixture: &Fixture) {
    refused(
        fixture,
        &["--report", "no/such/folder/report.json"],
        &["host: ", "report"],
    );
}

fn variables_without_a_name(fixture: &Fixture) {
    let cases = [
        ("BAD NAME=1", "a space or an unprintable character"),
        ("BAD\tNAME", "a space or an unprintable character"),
        ("=1", "no name before the `=`"),
        ("", "nothing was given"),
    ];
    for (grant, word) in cases {
        refused(fixture, &["--env", grant], &["policy: --env: ", word]);
        fixture.write("odd.toml", &format!("[grants]\nenv = [{grant:?}]\n"));
        let outcome = fixture
            .palisade(["run", "--policy", "odd.toml", "--", "/bin/true"])
            .run();
        outcome.says(125, &["policy: ", "is not a valid environment grant"]);
        assert!(outcome.stderr.contains("odd.toml:2:8"), "{outcome:?}");
        assert!(outcome.stderr.contains(word), "{outcome:?}");
    }
}

fn working_directory_that_is_not_there(fixture: &Fixture) {
    refused(
        fixture,
        &["--cwd", "/no/such/folder"],
        &["policy: ", "/no/such/folder", "--cwd"],
    );
}

fn devices_that_are_none(fixture: &Fixture) {
    fixture.write("file", "");
    refused(
        fixture,
        &["--device", &fixture.text("file")],
        &["policy: ", "not a device"],
    );
    refused(
        fixture,
        &["--device", "/dev/no-such-device"],
        &["policy: ", "does not exist"],
    );
    refused(fixture, &["--device", "null"], &["policy: --device: "]);
}

fn network_grants_that_are_none(fixture: &Fixture) {
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
        refused(fixture, &flags, &[&format!("policy: {}: ", flags[0]), word]);
    }
}
