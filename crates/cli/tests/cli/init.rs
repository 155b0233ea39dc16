//! `palisade init`: a policy to start from.

use super::fixture::{Fixture, Outcome, cases};
use std::os::unix::fs::symlink;

cases![
    a_project_is_built_by_the_policy_that_is_written_for_it,
    what_others_trust_stays_as_it_is_for_an_agent,
    a_policy_that_is_there_stays_unless_forced,
    a_link_in_its_place_is_not_followed,
    all_of_a_home_is_no_project,
    what_is_printed_is_what_is_written,
    settings_of_an_agent_become_a_policy,
    settings_cannot_write_more_than_values,
    settings_that_are_none_are_refused,
];

/// A project in C, whose build runs what it has built.
fn make_project(fixture: &Fixture) {
    fixture.write(
        "checkout/Makefile",
        "check: words\n\t./words >counted\nwords: words.c\n\tcc -o $@ $<\n",
    );
    let program = "#include <stdio.h>\nint main(void) { puts(\"hello\"); }\n";
    fixture.write("checkout/words.c", program);
    fixture.write("checkout/.github/workflows/ci.yml", "jobs: {}\n");
}

fn in_checkout(fixture: &Fixture, words: &[&str]) -> Outcome {
    let mut call = fixture.palisade(words);
    call.command.current_dir(fixture.path("checkout"));
    call.run()
}

fn run_by_policy(fixture: &Fixture, command: &[&str]) -> Outcome {
    let words = ["run", "--policy", "policy.toml", "--"];
    in_checkout(fixture, &[&words, command].concat())
}

fn a_project_is_built_by_the_policy_that_is_written_for_it(fixture: &Fixture) {
    make_project(fixture);
    let told = in_checkout(fixture, &["init"]);
    assert!(told.status.success(), "{told:?}");
    assert!(
        told.stderr.contains("wrote policy.toml, for make"),
        "{told:?}"
    );
    let next = told
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("palisade: next: palisade "));
    let next = shlex::split(next.unwrap()).unwrap();
    let words: Vec<_> = next.iter().map(String::as_str).collect();
    assert_eq!(words, ["run", "--policy", "policy.toml", "--", "make"]);
    let built = in_checkout(fixture, &words);
    assert!(built.status.success(), "{built:?}");
    assert_eq!(fixture.read("checkout/counted"), "hello\n");
    let policy = fixture.read("checkout/policy.toml");
    let changed = run_by_policy(
        fixture,
        &[
            "sh",
            "-c",
            "echo >>.github/workflows/ci.yml; echo >>policy.toml",
        ],
    );
    assert!(!changed.status.success(), "{changed:?}");
    assert_eq!(
        fixture.read("checkout/.github/workflows/ci.yml"),
        "jobs: {}\n"
    );
    assert_eq!(fixture.read("checkout/policy.toml"), policy);
}

fn what_others_trust_stays_as_it_is_for_an_agent(fixture: &Fixture) {
    make_project(fixture);
    let told = in_checkout(fixture, &["init", "--agent"]);
    assert!(told.status.success(), "{told:?}");
    let plants = "for path in .vscode .claude .github; do\n\
                  rm -rf $path; mkdir -p $path; echo x >$path/planted; echo x >$path; done; echo done >edited";
    let planted = run_by_policy(fixture, &["sh", "-c", plants]);
    assert!(planted.status.success(), "{planted:?}");
    assert_eq!(fixture.read("checkout/edited"), "done\n");
    // Folders stood there meanwhile, which git does not show.
    for path in [".vscode", ".claude", ".github/planted"] {
        assert!(!fixture.exists(&format!("checkout/{path}")), "{path}");
    }
    assert_eq!(
        fixture.read("checkout/.github/workflows/ci.yml"),
        "jobs: {}\n"
    );
}

fn a_policy_that_is_there_stays_unless_forced(fixture: &Fixture) {
    make_project(fixture);
    fixture.write("checkout/policy.toml", "# mine\n");
    in_checkout(fixture, &["init"]).refuses(&["is there already", "--force"]);
    assert_eq!(fixture.read("checkout/policy.toml"), "# mine\n");
    let forced = in_checkout(fixture, &["init", "--force"]);
    assert!(forced.status.success(), "{forced:?}");
    assert!(fixture.read("checkout/policy.toml").contains("[grants]"));
}

/// A project that somebody else made may have one there, to where its owner writes.
fn a_link_in_its_place_is_not_followed(fixture: &Fixture) {
    make_project(fixture);
    fixture.write("bashrc", "mine\n");
    symlink(fixture.path("bashrc"), fixture.path("checkout/policy.toml")).unwrap();
    in_checkout(fixture, &["init"]).refuses(&["is there already"]);
    let forced = in_checkout(fixture, &["init", "--force"]);
    assert!(forced.status.success(), "{forced:?}");
    assert_eq!(fixture.read("bashrc"), "mine\n");
    assert!(fixture.read("checkout/policy.toml").contains("[grants]"));
}

fn all_of_a_home_is_no_project(fixture: &Fixture) {
    fixture.make_folder("home");
    let home = fixture.text("home");
    fixture.write("home/.profile", "");
    fixture
        .palisade(["init", &home])
        .run()
        .refuses(&["is no project but a home"]);
    assert!(!fixture.exists("home/policy.toml"));
    // Everybody's.
    fixture
        .palisade(["init", "/tmp"])
        .run()
        .refuses(&["put another policy in its place"]);
}

fn what_is_printed_is_what_is_written(fixture: &Fixture) {
    make_project(fixture);
    let printed = in_checkout(fixture, &["init", "--print"]);
    assert!(printed.status.success(), "{printed:?}");
    assert!(!fixture.exists("checkout/policy.toml"));
    in_checkout(fixture, &["init"]);
    assert_eq!(fixture.read("checkout/policy.toml"), printed.text());
}

fn settings_of_an_agent_become_a_policy(fixture: &Fixture) {
    make_project(fixture);
    fixture.make_folder("other");
    fixture.write("checkout/ci/lock", "as it was\n");
    let settings = r#"{
        "permissions": {"allow": ["Bash(make:*)"], "deny": ["Edit(ci/**)"]},
        "sandbox": {"filesystem": {"allowWrite": ["../other"]}, "network": {"allowedDomains": ["docs.example"]}}
    }"#;
    fixture.write("checkout/.claude/settings.json", settings);
    let told = in_checkout(fixture, &["init", "--from", ".claude/settings.json"]);
    assert!(told.status.success(), "{told:?}");
    for words in [
        "of Claude Code's settings: 2 granted, 1 protected, 0 hidden, 1 left out",
        "read it first",
    ] {
        assert!(told.stderr.contains(words), "{words}: {told:?}");
    }
    let policy = fixture.read("checkout/policy.toml");
    for line in [
        "\"tcp://docs.example:443\"",
        "#   Bash(make:*): a rule for commands",
    ] {
        assert!(policy.contains(line), "{line}: {policy}");
    }
    // Names are looked up at the start: this one nobody has.
    let without = policy.replace("\"tcp://docs.example:443\",", "");
    fixture.write("checkout/policy.toml", &without);
    let tried = run_by_policy(
        fixture,
        &["sh", "-c", "echo x >../other/made; echo x >ci/lock; make"],
    );
    assert!(tried.status.success(), "{tried:?}");
    assert_eq!(fixture.read("other/made"), "x\n");
    assert_eq!(fixture.read("checkout/ci/lock"), "as it was\n");
}

/// Who wrote the settings does not write the policy, nor on the terminal.
fn settings_cannot_write_more_than_values(fixture: &Fixture) {
    make_project(fixture);
    fixture.make_folder("a\"]\nwrite = [\"b");
    let settings = r#"{"filesystem": {
        "allowWrite": ["../a\"]\nwrite = [\"b", "x\n[grants]\nread = [\"y\"]\u001b[2J", "."],
        "denyWrite": ["c\"]\nexec = [\"d"]},
        "network": {"allowedDomains": ["e\"]\nlisten = [\"tcp://*:1"]}}"#;
    fixture.write("settings.json", settings);
    let told = in_checkout(fixture, &["init", "--from", "../settings.json"]);
    assert!(told.status.success(), "{told:?}");
    let policy = fixture.read("checkout/policy.toml");
    assert!(!policy.contains('\u{1b}'), "{policy:?}");
    let lines = policy.lines().filter(|line| !line.starts_with('#'));
    let keys: Vec<_> = lines.filter(|line| line.contains(" = ")).collect();
    for key in ["read = ", "listen = ", "exec = [\"d"] {
        assert!(!keys.iter().any(|line| line.starts_with(key)), "{policy}");
    }
    assert_eq!(
        keys.iter()
            .filter(|line| line.starts_with("write = "))
            .count(),
        1,
        "{policy}"
    );
    run_by_policy(fixture, &["true"]).is(0);
}

fn settings_that_are_none_are_refused(fixture: &Fixture) {
    make_project(fixture);
    fixture.write("settings.json", "{\"theme\": \"dark\"}");
    for (file, words) in [
        ("../settings.json", "Claude Code"),
        ("Makefile", "neither JSON nor TOML"),
        ("none.json", "cannot read none.json"),
    ] {
        let told = in_checkout(fixture, &["init", "--from", file]);
        assert_eq!(told.status.code(), Some(125), "{told:?}");
        assert!(told.stderr.contains(words), "{told:?}");
    }
    assert!(!fixture.exists("checkout/policy.toml"));
}
