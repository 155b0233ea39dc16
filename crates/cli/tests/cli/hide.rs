//! `palisade run --hide`: in a folder that a guest sees, what is hidden is not there, whoever does what meanwhile.

use super::{
    fixture::{Fixture, Outcome, cases},
    grant::{Guest, operate},
    grant_files::EVALUATES,
    wasm::{place_twins, run_wasm},
};
use palisade_suite::executable::copy_program;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    process::Command,
};

cases![
    what_is_hidden_is_not_there,
    the_rest_is_as_it_was,
    it_is_not_there_later_either,
    what_comes_to_lie_there_is_not_there,
    a_folder_that_is_written_to_hides_folders,
    a_file_in_a_folder_that_is_written_to_takes_a_word,
    what_takes_the_place_of_a_file_ends_the_guest,
    what_is_written_lies_in_what_is_read,
    a_pattern_takes_a_word,
    a_pattern_finds_odd_names,
    a_folder_that_cannot_be_looked_through,
    another_name_is_refused,
    a_link_is_refused,
    what_looks_left_behind_is_hidden,
    a_file_in_a_hidden_folder_has_no_other_name,
    a_grant_in_a_grant_that_is_moved_shows_nothing,
    what_is_closed_outside_is_closed,
    what_the_host_does_not_execute_is_not_executed,
    a_pattern_finds_links_alone,
    a_folder_with_a_sign_in_its_name,
    the_order_means_nothing,
    what_lies_beside_is_in_one_piece,
    folders_keep_their_modes,
    what_is_the_domains_own_is_not_hidden,
    the_note_says_that_it_is_hidden,
    what_is_granted_is_not_hidden,
    what_lies_nowhere_is_refused,
    a_root_hides,
    a_policy_file_says_so,
    the_report_tells_what_is_held,
    explain_tells_it,
    nobody_grants_it_later,
    watch_tells_that_it_is_hidden,
    a_program_that_is_hidden_does_not_start,
    a_module_has_the_same_verdict,
    without_namespaces_it_refuses,
];

/// A project with a key, a folder of keys, and others below.
fn lay_out(fixture: &Fixture) {
    fixture.write("work/.env", "secret");
    fixture.write("work/keys/one", "secret");
    fixture.write("work/src/deep/server.pem", "secret");
    fixture.write("work/src/main.c", "source");
}

fn script(fixture: &Fixture, flags: &[&str], script: &str) -> Outcome {
    lay_out(fixture);
    fixture.script(flags, script).run()
}

fn refuses(fixture: &Fixture, flags: &[&str], words: &[&str]) {
    script(fixture, flags, "true").refuses(words);
}

fn start(fixture: &Fixture, flags: &[&str]) -> Guest {
    lay_out(fixture);
    Guest::start(fixture, flags, EVALUATES)
}

const ALL: [&str; 10] = [
    "--read",
    "work",
    "--hide",
    "work/.env",
    "--hide",
    "work/keys",
    "--hide",
    "work/src/deep/server.pem",
    "--hide",
    "work/later/x",
];

fn what_is_hidden_is_not_there(fixture: &Fixture) {
    let tries = "cd work; cat .env keys/one src/deep/server.pem; ls -A . src/deep; ls keys; test -e .env || echo gone";
    let tried = script(fixture, &ALL, tries);
    assert_eq!(tried.text(), ".:\nsrc\n\nsrc/deep:\ngone\n", "{tried:?}");
    assert_eq!(tried.stderr.matches("No such file").count(), 4, "{tried:?}");
}

/// Modes, owners and contents; nothing can be written.
fn the_rest_is_as_it_was(fixture: &Fixture) {
    lay_out(fixture);
    let set_mode = |path: &str, mode| {
        fs::set_permissions(fixture.path(path), Permissions::from_mode(mode)).unwrap();
    };
    set_mode("work/src", 0o750);
    set_mode("work/src/main.c", 0o640);
    fixture.write_program("work/src/tool", "#!/bin/sh\necho runs\n");
    let tries = "cd work; cat src/main.c; echo; stat -c '%a %u' . src src/main.c | sed \"s/ $(id -u)$/ own/\"; src/tool
        touch new src/new; echo x >src/main.c; rm src/main.c; chmod 777 src";
    let tried = fixture.script(&ALL, tries).run();
    let mode = fs::metadata(fixture.path("work"))
        .unwrap()
        .permissions()
        .mode()
        & 0o777;
    let expected = format!("source\n{mode:o} own\n750 own\n640 own\nruns\n");
    assert_eq!(tried.text(), expected, "{tried:?}");
    assert_eq!(tried.stderr.matches("Read-only").count(), 5, "{tried:?}");
}

fn it_is_not_there_later_either(fixture: &Fixture) {
    let mut guest = start(fixture, &ALL);
    let (env, one) = (fixture.text("work/.env"), fixture.text("work/keys/one"));
    fixture.write("new", "secret");
    fs::rename(fixture.path("new"), fixture.path("work/.env")).unwrap();
    fs::rename(fixture.path("work/keys"), fixture.path("work/moved")).unwrap();
    fixture.write("work/keys/one", "secret");
    assert_eq!(guest.reads(&env), "ENOENT");
    assert_eq!(guest.reads(&one), "ENOENT");
    fs::remove_file(fixture.path("work/.env")).unwrap();
    fixture.write("work/.env", "secret");
    assert_eq!(guest.reads(&env), "ENOENT");
    guest.ends().is(0);
}

/// What leads there is not there either.
fn what_comes_to_lie_there_is_not_there(fixture: &Fixture) {
    let mut guest = start(fixture, &ALL);
    fixture.write("work/later/x", "secret");
    fixture.write("work/other", "comes later");
    assert_eq!(guest.reads(&fixture.text("work/later/x")), "ENOENT");
    assert_eq!(guest.reads(&fixture.text("work/other")), "comes later");
    guest.ends().is(0);
}

fn a_folder_that_is_written_to_hides_folders(fixture: &Fixture) {
    let flags = [
        "--write",
        "work",
        "--hide",
        "work/keys",
        "--hide",
        "work/src/deep",
    ];
    let tries = "cd work; ls -A keys src/deep; cat keys/one; touch keys/new; rmdir keys; mv keys k; mv src s; mv src/deep d
        ln keys/one l; touch src/new; test -e src/new && echo written";
    let tried = script(fixture, &flags, tries);
    assert_eq!(tried.text(), "keys:\n\nsrc/deep:\nwritten\n", "{tried:?}");
    assert_eq!(fixture.read("work/keys/one"), "secret");
    assert_eq!(tried.stderr.matches("busy").count(), 4, "{tried:?}");
}

const WRITES: [&str; 4] = ["--write", "work", "--hide", "work/.env"];

fn a_file_in_a_folder_that_is_written_to_takes_a_word(fixture: &Fixture) {
    let why = [
        "policy: ",
        "work/.env",
        "granted for writing",
        "--allow-degraded hide",
    ];
    refuses(fixture, &WRITES, &why);
    let missing = ["--write", "work", "--hide", "work/none"];
    refuses(fixture, &missing, &["work/none", "--allow-degraded hide"]);
    let flags = [
        &WRITES[..],
        &["--hide", "work/none", "--allow-degraded", "hide"],
    ]
    .concat();
    let tries = "cd work; cat .env none; echo x >.env; echo x >none; rm .env; mv .env e; mv none n; rm none; echo end";
    let tried = script(fixture, &flags, tries);
    assert_eq!(tried.text(), "end\n", "{tried:?}");
    assert_eq!(fixture.read("work/.env"), "secret");
    assert!(!fixture.exists("work/none"));
}

fn what_takes_the_place_of_a_file_ends_the_guest(fixture: &Fixture) {
    let flags = [&WRITES[..], &["--allow-degraded", "hide"]].concat();
    let mut guest = start(fixture, &flags);
    assert_eq!(guest.reads(&fixture.text("work/.env")), "");
    fixture.write("new", "secret");
    fs::rename(fixture.path("new"), fixture.path("work/.env")).unwrap();
    let ended = guest.ends();
    assert_eq!(ended.code(), 137, "{ended:?}");
    assert_eq!(report(fixture)["ending"], "unprotected");
}

fn what_is_written_lies_in_what_is_read(fixture: &Fixture) {
    fixture.make_folder("work/out");
    let flags = [
        "--read",
        "work",
        "--write",
        "work/out",
        "--hide",
        "work/.env",
        "--hide",
        "work/src/deep",
    ];
    let tries =
        "cd work; cat .env src/deep/server.pem; echo made >out/made; cat out/made; touch new";
    let tried = script(fixture, &flags, tries);
    assert_eq!(tried.text(), "made\n", "{tried:?}");
    assert_eq!(fixture.read("work/out/made"), "made\n");
    let lies_in_it = [&flags[..6], &["--hide", "work/out"]].concat();
    refuses(fixture, &lies_in_it, &["work/out", "drop one of them"]);
}

const PATTERN: [&str; 4] = ["--read", "work", "--hide", "work/**/*.pem"];

fn a_pattern_takes_a_word(fixture: &Fixture) {
    refuses(
        fixture,
        &PATTERN,
        &[
            "a pattern is looked for at the start",
            "--allow-degraded hide",
        ],
    );
    let flags = [&PATTERN[..], &["--allow-degraded", "hide"]].concat();
    let tried = script(
        fixture,
        &flags,
        "ls -A work/src work/src/deep; cat work/src/deep/server.pem",
    );
    assert_eq!(
        tried.text(),
        "work/src:\ndeep\nmain.c\n\nwork/src/deep:\n",
        "{tried:?}"
    );
}

/// No name is text to the kernel, and none is special to a pattern.
fn a_pattern_finds_odd_names(fixture: &Fixture) {
    lay_out(fixture);
    for name in [
        &b"\xff\xfe.pem"[..],
        b" .pem",
        b"a\nb.pem",
        b".pem",
        b"[a].pem",
        b"\\.pem",
        b"-.pem",
    ] {
        let path = fixture.path("work").join(OsStr::from_bytes(name));
        fixture.write("odd", "secret");
        fs::rename(fixture.path("odd"), path).unwrap();
    }
    fs::create_dir(fixture.path("work/folder.pem")).unwrap();
    symlink("/etc/passwd", fixture.path("work/src/kept")).unwrap();
    let flags = [&PATTERN[..], &["--allow-degraded", "hide"]].concat();
    let tried = fixture
        .script(&flags, "cd work; ls -A; cat ./*.pem .pem")
        .run();
    assert_eq!(tried.text(), ".env\nkeys\nsrc\n", "{tried:?}");
}

/// As root there is none.
fn a_folder_that_cannot_be_looked_through(fixture: &Fixture) {
    lay_out(fixture);
    fixture.make_folder("work/closed");
    let set_mode = |mode| {
        let mode = Permissions::from_mode(mode);
        fs::set_permissions(fixture.path("work/closed"), mode).unwrap();
    };
    let flags = [&PATTERN[..], &["--allow-degraded", "hide"]].concat();
    let run = |flags: &[&str]| fixture.script(flags, "echo ran").run();
    let is_root = fixture.user.name() == "root";
    for (mode, enters) in [(0o311, true), (0o000, false)] {
        set_mode(mode);
        let ran = run(&flags);
        match enters && !is_root {
            true => drop(ran.refuses(&["work/closed", "cannot be looked through"])),
            false => drop(ran.prints("ran\n")),
        }
    }
    // The guest could change the mode.
    let writes = [&["--write"], &flags[1..]].concat();
    match is_root {
        true => drop(run(&writes).prints("ran\n")),
        false => drop(run(&writes).refuses(&["work/closed", "cannot be looked through"])),
    }
    set_mode(0o755);
}

fn another_name_is_refused(fixture: &Fixture) {
    let read = ["--read", "work", "--hide", "work/.env"];
    for other in ["work/.env:/x", "work:/other"] {
        let flags = [&read[..], &["--read", other]].concat();
        refuses(
            fixture,
            &flags,
            &["work/.env is hidden", "sees the same as /"],
        );
    }
    let folder = [
        "--read",
        "work",
        "--hide",
        "work/keys",
        "--write",
        "work/keys/one:/x",
    ];
    refuses(
        fixture,
        &folder,
        &["work/keys is hidden", "sees the same as /x"],
    );
    fs::hard_link(fixture.path("work/.env"), fixture.path("work/src/linked")).unwrap();
    fixture.script(&read, "true").run().refuses(&[
        "work/.env is hidden",
        "sees the same as",
        "work/src/linked",
    ]);
}

fn a_link_is_refused(fixture: &Fixture) {
    lay_out(fixture);
    symlink("keys", fixture.path("work/link")).unwrap();
    for hidden in ["work/link", "work/link/one"] {
        let flags = ["--read", "work", "--hide", hidden];
        let refused = fixture.script(&flags, "true").run();
        refused.refuses(&["work/link is a symlink", "hide what it leads to"]);
    }
    let flags = ["--read", "work", "--hide", "work/keys"];
    let tried = fixture
        .script(&flags, "cat work/link/one work/keys/one")
        .run();
    assert_eq!(tried.text(), "", "{tried:?}");
}

fn set_mode(fixture: &Fixture, path: &str, mode: u32) {
    fs::set_permissions(fixture.path(path), Permissions::from_mode(mode)).unwrap();
}

/// Of the modes that palisade's own placeholders have.
fn what_looks_left_behind_is_hidden(fixture: &Fixture) {
    let flags = ["--write", "work", "--hide", "work/keys"];
    lay_out(fixture);
    set_mode(fixture, "work/keys", 0o1555);
    let tried = fixture
        .script(&flags, "cat work/keys/one; ls -A work/keys")
        .run();
    assert_eq!(tried.text(), "", "{tried:?}");
    set_mode(fixture, "work/keys", 0o755);
    set_mode(fixture, "work/src", 0o1555);
    let deep = ["--write", "work", "--hide", "work/src/deep"];
    let tried = fixture
        .script(&deep, "cat work/src/deep/server.pem; cat work/src/main.c")
        .run();
    assert_eq!(tried.text(), "source", "{tried:?}");
    set_mode(fixture, "work/src", 0o755);
    // What somebody puts into a place that is held.
    let held = [
        "--write",
        "work",
        "--hide",
        "work/none/x",
        "--allow-degraded",
        "hide",
    ];
    let mut guest = Guest::start(fixture, &held, EVALUATES);
    if fixture.user.name() == "root" {
        fixture.write("work/none/x", "secret");
    }
    let path = fixture.text("work/none/x");
    assert_eq!(guest.reads(&path), "ENOENT");
    let other = [
        "--write",
        "work",
        "--hide",
        "work/none",
        "--allow-degraded",
        "hide",
    ];
    let tried = fixture
        .script(&other, "cat work/none/x; ls -A work/none")
        .run();
    assert_eq!(tried.text(), "", "{tried:?}");
    assert_eq!(guest.reads(&path), "ENOENT");
    guest.ends().is(0);
}

fn a_file_in_a_hidden_folder_has_no_other_name(fixture: &Fixture) {
    lay_out(fixture);
    let flags = ["--read", "work", "--hide", "work/keys"];
    fs::hard_link(fixture.path("work/keys/one"), fixture.path("work/keys/two")).unwrap();
    fixture.script(&flags, "true").run().is(0);
    fs::hard_link(fixture.path("work/keys/one"), fixture.path("outside")).unwrap();
    let granted = [&flags[..], &["--read", "outside:/x"]].concat();
    fixture
        .script(&granted, "true")
        .run()
        .refuses(&["work/keys is hidden", "sees the same as /x"]);
    let mut guest = Guest::start(fixture, &[&["--grantable"], &flags[..]].concat(), EVALUATES);
    let refused = operate(
        fixture,
        "grant",
        &guest,
        &["--read", &fixture.text("outside")],
    );
    refused.says(125, &["sees the same as", "outside"]);
    assert_eq!(guest.reads(&fixture.text("work/src/main.c")), "source");
    guest.ends().is(0);
    fs::rename(
        fixture.path("outside"),
        fixture.path("work/src/deep/linked"),
    )
    .unwrap();
    fixture.script(&flags, "true").run().refuses(&[
        "work/keys is hidden",
        "sees the same as",
        "work/src/deep/linked",
    ]);
}

/// What lies around it is shown then, and has it too.
fn a_grant_in_a_grant_that_is_moved_shows_nothing(fixture: &Fixture) {
    for (inner, outer, ends) in [
        ("--read", "--read", 0),
        ("--write", "--read", 0),
        ("--write", "--write", 137),
    ] {
        let _ = fs::remove_dir_all(fixture.path("work"));
        lay_out(fixture);
        let mut flags = vec![outer, "work", inner, "work/src", "--hide", "work/src/deep"];
        if outer == "--write" {
            flags.push("--no-guard");
        }
        let mut guest = Guest::start(fixture, &flags, EVALUATES);
        let secret = fixture.text("work/src/deep/server.pem");
        assert_eq!(guest.reads(&secret), "ENOENT", "{inner} in {outer}");
        fs::rename(fixture.path("work/src"), fixture.path("moved")).unwrap();
        fixture.write("work/src/deep/server.pem", "secret");
        if ends == 0 {
            assert_eq!(guest.reads(&secret), "ENOENT", "{inner} in {outer}");
        }
        assert_eq!(guest.ends().code(), ends, "{inner} in {outer}");
        fs::remove_dir_all(fixture.path("moved")).unwrap();
    }
}

/// An overlay remembers what the modes were.
fn what_is_closed_outside_is_closed(fixture: &Fixture) {
    fixture.write("work/file", "open");
    let mut guest = start(fixture, &ALL);
    let path = fixture.text("work/file");
    assert_eq!(
        guest.evaluates(&format!("os.access({path:?}, os.R_OK)")),
        "True"
    );
    set_mode(fixture, "work/file", 0);
    assert_eq!(guest.reads(&path), "EACCES");
    guest.ends().is(0);
}

/// Only root mounts anything.
fn what_the_host_does_not_execute_is_not_executed(fixture: &Fixture) {
    if fixture.user.name() != "root" {
        return;
    }
    lay_out(fixture);
    fixture.write_program("work/tool", "#!/bin/sh\necho ran\n");
    let inner = format!(
        "mount --bind work work && mount -o remount,bind,noexec work && {} run --read work --hide work/.env -- ./work/tool",
        fixture.program().display()
    );
    let ran = Command::new("unshare")
        .args(["--mount", "sh", "-c", &inner])
        .current_dir(fixture.path(""))
        .output()
        .unwrap();
    assert_eq!(ran.stdout, b"", "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("cannot be executed"), "{said}");
}

fn a_pattern_finds_links_alone(fixture: &Fixture) {
    lay_out(fixture);
    symlink("src/main.c", fixture.path("work/link.pem")).unwrap();
    for access in ["--read", "--write"] {
        let flags = [
            access,
            "work",
            "--hide",
            "work/**/*.pem",
            "--allow-degraded",
            "hide",
        ];
        let tried = fixture
            .script(
                &flags,
                "cat work/src/deep/server.pem; ls work; cat work/src/main.c",
            )
            .run();
        assert!(!tried.text().contains("secret"), "{tried:?}");
        assert!(tried.text().contains("source"), "{tried:?}");
        assert_eq!(
            tried.text().contains("link.pem"),
            access == "--write",
            "{tried:?}"
        );
    }
}

fn a_folder_with_a_sign_in_its_name(fixture: &Fixture) {
    fixture.write("what?/a*/.env", "secret");
    fixture.write("what?/a*/file", "shown");
    fixture.write("what?/ab/.env", "other");
    let script = "cd what?; cat a\\*/.env ab/.env a\\*/file";
    let mut call = fixture.script(&["--read", "what?", "--hide", "what?/a\\*/.env"], script);
    call.command.current_dir(fixture.path(""));
    // As typed, the folder's own name has a sign.
    call.run().refuses(&["a pattern"]);
    let policy = "[grants]\nread = ['.']\nhide = ['a\\*/.env']\n";
    fixture.write("what?/policy.toml", policy);
    let tried = fixture
        .script(&["--policy", "what?/policy.toml"], script)
        .run();
    assert_eq!(tried.text(), "othershown", "{tried:?}");
}

fn the_order_means_nothing(fixture: &Fixture) {
    for flags in [
        [
            "--write",
            "work",
            "--hide",
            "work/keys",
            "--hide",
            "work/keys/one",
        ],
        [
            "--write",
            "work",
            "--hide",
            "work/keys/one",
            "--hide",
            "work/keys",
        ],
    ] {
        script(fixture, &flags, "cat work/keys/one || exit 7").is(7);
    }
}

/// What is written into a file is seen, and git finds its way up.
fn what_lies_beside_is_in_one_piece(fixture: &Fixture) {
    let mut guest = start(fixture, &["--read", "work", "--hide", "work/.env"]);
    let path = fixture.text("work/src/main.c");
    let device = |path: &str| format!("os.stat({path:?}).st_dev");
    assert_eq!(guest.reads(&path), "source");
    fs::write(fixture.path("work/src/main.c"), "changed").unwrap();
    assert_eq!(guest.reads(&path), "changed");
    let [outer, inner] = ["work", "work/src/deep"].map(|folder| fixture.text(folder));
    let (outer, inner) = (
        guest.evaluates(&device(&outer)),
        guest.evaluates(&device(&inner)),
    );
    assert_eq!(outer, inner);
    guest.ends().is(0);
}

fn folders_keep_their_modes(fixture: &Fixture) {
    lay_out(fixture);
    set_mode(fixture, "work", 0o1777);
    set_mode(fixture, "work/src", 0o2755);
    set_mode(fixture, "work/src/deep", 0o700);
    let tried = fixture
        .script(&ALL, "stat -c %a work work/src work/src/deep")
        .run();
    assert_eq!(tried.text(), "1777\n2755\n700\n", "{tried:?}");
}

fn what_is_the_domains_own_is_not_hidden(fixture: &Fixture) {
    lay_out(fixture);
    for folder in ["proc", "tmp", "dev"] {
        fixture.make_folder(&format!("work/{folder}"));
        let hidden = format!("/{folder}");
        let words = ["run", "--read", "work:/", "--hide", &hidden, "--", "/x"];
        fixture
            .palisade(words)
            .run()
            .refuses(&["policy: ", &hidden]);
    }
    let words = [
        "run",
        "--read",
        "/etc:/e",
        "--hide",
        "/e/gai.conf",
        "--",
        "true",
    ];
    fixture
        .palisade(words)
        .run()
        .refuses(&["sees the same as /etc/gai.conf"]);
}

fn the_note_says_that_it_is_hidden(fixture: &Fixture) {
    lay_out(fixture);
    let words = [
        "run",
        "--read",
        "work",
        "--hide",
        "work/.env",
        "--",
        "cat",
        "work/.env",
    ];
    let told = fixture.palisade(words).run();
    assert!(
        told.stderr.contains("'work/.env' is hidden by the policy"),
        "{told:?}"
    );
    assert!(!told.stderr.contains("--read"), "{told:?}");
}

fn what_is_granted_is_not_hidden(fixture: &Fixture) {
    let whole = ["--read", "work", "--hide", "work"];
    refuses(fixture, &whole, &["is hidden", "is granted", "drop one"]);
    let below = [
        "--read",
        "work",
        "--hide",
        "work/src",
        "--write",
        "work/src/deep",
    ];
    refuses(fixture, &below, &["is hidden", "is granted", "drop one"]);
    let found = [
        "--read",
        "work",
        "--write",
        "work/src",
        "--hide",
        "work/s*",
        "--allow-degraded",
        "hide",
    ];
    script(fixture, &found, "true").is(0);
}

fn what_lies_nowhere_is_refused(fixture: &Fixture) {
    for hidden in ["beside", "/usr/bin/env", "/tmp/x", "/etc/passwd"] {
        let flags = ["--read", "work", "--hide", hidden];
        refuses(
            fixture,
            &flags,
            &[hidden, "lies in no folder that is granted"],
        );
    }
    let pattern = [
        "--read",
        "work/src",
        "--hide",
        "work/*.pem",
        "--allow-degraded",
        "hide",
    ];
    refuses(fixture, &pattern, &["lies in no folder that is granted"]);
}

fn a_root_hides(fixture: &Fixture) {
    lay_out(fixture);
    place_twins(fixture);
    copy_program(&fixture.path("guest"), &fixture.path("work/show")).unwrap();
    let flags = ["--read", "work:/", "--hide", "/.env", "--hide", "/keys"];
    let words = ["run"]
        .iter()
        .chain(&flags)
        .chain(&["--", "/show", "list", "/"]);
    let shown = fixture.palisade(words).run();
    assert!(shown.text().contains("src"), "{shown:?}");
    assert!(!shown.text().contains(".env"), "{shown:?}");
    assert!(!shown.text().contains("keys"), "{shown:?}");
}

fn a_policy_file_says_so(fixture: &Fixture) {
    let policy = "[grants]\nread = ['.']\nhide = ['.env', 'keys']\n";
    fixture.write("work/policy.toml", policy);
    let tried = script(
        fixture,
        &["--policy", "work/policy.toml"],
        "ls -A work; cat work/.env",
    );
    assert_eq!(tried.text(), "policy.toml\nsrc\n", "{tried:?}");
}

fn report(fixture: &Fixture) -> Value {
    serde_json::from_str(&fixture.read("report.json")).unwrap()
}

fn hide_row(fixture: &Fixture) -> Option<Value> {
    let report = report(fixture);
    let rows = report["enforcement"].as_array().unwrap();
    rows.iter().find(|row| row["capability"] == "hide").cloned()
}

fn the_report_tells_what_is_held(fixture: &Fixture) {
    let reports = ["--report", "report.json"];
    script(fixture, &[&reports[..], &ALL].concat(), "true").is(0);
    let row = hide_row(fixture).unwrap();
    assert_eq!(
        (&row["actual"], &row["requested"]),
        (&json!("full"), &json!("4 paths"))
    );
    let degraded = [&reports[..], &PATTERN, &["--allow-degraded", "hide"]].concat();
    script(fixture, &degraded, "true").is(0);
    let row = hide_row(fixture).unwrap();
    assert_eq!(row["actual"], "degraded", "{row}");
    script(
        fixture,
        &[&reports[..], &["--read", "work"]].concat(),
        "true",
    )
    .is(0);
    assert_eq!(hide_row(fixture), None);
}

fn explain_tells_it(fixture: &Fixture) {
    lay_out(fixture);
    let words = ["explain"].iter().chain(&ALL).chain(&["--", "true"]);
    let told = fixture.palisade(words).run();
    let line = format!(
        "hide      in {}: .env, keys, later, src/deep/server.pem",
        fixture.text("work")
    );
    assert!(told.text().contains(&line), "{told:?}");
    assert!(told.text().contains("; not "), "{told:?}");
}

fn nobody_grants_it_later(fixture: &Fixture) {
    let flags = [&["--grantable"], &ALL[..]].concat();
    let mut guest = start(fixture, &flags);
    let env = fixture.text("work/.env");
    for (path, why) in [
        (env.clone(), "is hidden"),
        (fixture.text("work/keys/one"), "is hidden"),
        (format!("{env}:/x"), "sees the same as /x"),
        (
            format!("{}:/other", fixture.text("work")),
            "sees the same as /other",
        ),
    ] {
        let refused = operate(fixture, "grant", &guest, &["--read", &path]);
        assert_eq!(refused.code(), 125, "{refused:?}");
        assert!(refused.stderr.contains(why), "{why}: {refused:?}");
    }
    // Beside it there is more to grant.
    fixture.write("beside/file", "granted");
    operate(
        fixture,
        "grant",
        &guest,
        &["--read", &fixture.text("beside")],
    )
    .is_silent(0);
    assert_eq!(guest.reads(&fixture.text("beside/file")), "granted");
    operate(
        fixture,
        "grant",
        &guest,
        &["--write", &fixture.text("work/src")],
    )
    .says(125, &["is hidden"]);
    assert_eq!(guest.reads(&env), "ENOENT");
    guest.ends().is(0);
}

fn watch_tells_that_it_is_hidden(fixture: &Fixture) {
    let flags = [&["--watch", "--report", "report.json"], &ALL[..]].concat();
    script(fixture, &flags, "cat work/.env work/keys/one work/later/x");
    let report = report(fixture);
    let denials = report["denials"].as_array().unwrap();
    let told = denials
        .iter()
        .filter(|denial| denial["reason"] == "it is hidden");
    let mut told: Vec<_> = told
        .map(|denial| denial["what"].as_str().unwrap())
        .collect();
    told.sort_unstable();
    let expected =
        ["work/.env", "work/keys/one"].map(|path| format!("the file {}", fixture.text(path)));
    assert_eq!(told, expected, "{denials:?}");
    assert!(
        denials.iter().all(|denial| denial["grant"].is_null()),
        "{denials:?}"
    );
}

fn a_program_that_is_hidden_does_not_start(fixture: &Fixture) {
    lay_out(fixture);
    fixture.write_program("work/tool", "#!/bin/sh\necho ran\n");
    let tool = fixture.text("work/tool");
    let words = ["run", "--read", "work", "--hide", "work/tool", "--", &tool];
    fixture
        .palisade(words)
        .run()
        .says(127, &["guest: ", "not found"]);
}

fn a_module_has_the_same_verdict(fixture: &Fixture) {
    lay_out(fixture);
    let acts = [
        "show",
        "work/.env",
        "show",
        "work/keys/one",
        "list",
        "work/src/deep",
        "show",
        "work/src/main.c",
    ];
    let tried = run_wasm(fixture, &ALL, &acts);
    assert!(!tried.text().contains("secret"), "{tried:?}");
    assert!(tried.text().contains("source"), "{tried:?}");
    assert_eq!(tried.text().matches("ENOENT").count(), 2, "{tried:?}");
}

fn without_namespaces_it_refuses(fixture: &Fixture) {
    lay_out(fixture);
    let flags = [&["--allow-degraded", "namespaces"], &ALL[..]].concat();
    super::tiers::run_without_namespaces(fixture, &flags, "true")
        .run()
        .refuses(&["hidden inside a folder"]);
}
