//! `palisade learn`: what comes of a command is the least policy behind which it ends well, and nothing of a run stays.

use super::{
    fixture::{Call, Fixture, Outcome, cases, read_line, signal},
    person::{PROMPT, Person},
};
use palisade_suite::ports::free_ports;
use rustix::process::Signal;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    process::{Child, Command, Stdio},
};

cases![
    a_program_beside_the_project_is_the_command,
    a_program_that_is_a_secret_is_not_granted,
    a_build_runs_in_a_fresh_checkout,
    nothing_of_a_run_stays,
    twice_is_the_same,
    what_changes_alone_is_written,
    a_command_that_writes_nothing_only_reads,
    a_file_beside_the_project_is_granted_with_yes,
    without_a_word_it_is_told,
    somebody_is_asked,
    what_is_written_elsewhere_is_a_copy_too,
    a_command_that_did_without_is_granted_nothing,
    keys_are_granted_to_nobody,
    what_its_user_keeps_is_granted_to_nobody,
    what_the_last_round_left_is_kept,
    what_the_command_names_is_asked_about,
    a_link_to_a_key_grants_none,
    a_guest_that_asks_for_everything_gets_no_key,
    files_and_an_open_network_go_not_together,
    the_hosts_own_ports_are_not_public,
    a_port_that_is_named_is_granted,
    a_command_that_fails_is_told,
    a_command_that_is_missing_is_told,
    each_round_reads_the_same,
    libraries_that_are_loaded,
    words_of_a_guest_are_no_grants,
    what_is_found_elsewhere_inside_is_a_copy_too,
    ctrl_c_ends_a_server,
    what_is_written_is_what_was_proved,
    a_proof_that_is_interrupted_is_none,
    a_program_of_the_project,
    a_link_between_rounds_grants_nothing,
    a_folder_of_keys_is_no_project,
    a_folder_called_as_a_home,
    folders_that_the_guest_closes,
    folders_in_folders_are_thrown_away,
    ctrl_c_ends_a_question,
    names_with_colons,
    what_a_policy_lacks_is_added,
    profiles_that_a_policy_lacks_are_added,
    a_name_is_told_however_it_is_looked_up,
    names_that_are_found_alone_are_told,
    a_fresh_checkout_is_without_what_is_made,
    what_a_policy_lacks_is_printed,
    a_signal_ends_a_server,
    a_signal_ends_the_reading_of_stdin,
    a_guest_that_names_much_is_granted_no_more_than_is_looked_at,
    a_socket_of_its_own,
    places_for_no_policy,
    another_place_for_the_policy,
    values_that_are_none,
    a_home_is_no_project,
    the_project_is_never_executed_outside,
];

const MAKEFILE: &str = "\
test: out/program
	./out/program
out/program: main.c
	mkdir -p out
	cc -o $@ main.c
";

fn place_build(fixture: &Fixture, folder: &str) {
    fixture.write(&format!("{folder}/Makefile"), MAKEFILE);
    fixture.write(
        &format!("{folder}/main.c"),
        "int main(void) { return 0; }\n",
    );
}

/// In the project's folder.
fn palisade(fixture: &Fixture, words: &[&str]) -> Call {
    let mut call = fixture.palisade(words);
    call.command.current_dir(fixture.path("project"));
    call
}

fn learn(fixture: &Fixture, flags: &[&str], command: &[&str]) -> Outcome {
    fixture.make_folder("project");
    let words = [&["learn"], flags, &["--"], command].concat();
    palisade(fixture, &words).run()
}

fn a_program_beside_the_project_is_the_command(fixture: &Fixture) {
    fixture.write_program("tool", "#!/bin/sh\necho made >out\n");
    let outcome = learn(fixture, &[], &["../tool"]);
    tells(
        &outcome,
        0,
        &["granted, for it is the command: --read /", "/tool"],
    );
    assert_eq!(
        policy(fixture),
        ["read ^/tool", "write .", "protect policy.toml"]
    );
    let words = ["run", "--policy", "policy.toml", "--", "../tool"];
    palisade(fixture, &words).run().is(0);
}

/// By its name: nothing of a folder of keys is granted, whoever names it.
fn a_program_that_is_a_secret_is_not_granted(fixture: &Fixture) {
    fixture.write_program(".ssh/tool", "#!/bin/sh\necho made >out\n");
    let outcome = learn(fixture, &["--yes"], &["../.ssh/tool"]);
    tells(&outcome, 125, &["it did not start", "nothing was learned"]);
}

/// The exit code, and words on stderr among others.
fn tells(outcome: &Outcome, code: i32, words: &[&str]) {
    assert_eq!(outcome.code(), code, "{outcome:?}");
    for words in words {
        assert!(
            outcome.stderr.contains(words),
            "{words}: {}",
            outcome.stderr
        );
    }
}

fn script(fixture: &Fixture, flags: &[&str], text: &str) -> Outcome {
    learn(fixture, flags, &["/bin/sh", "-c", text])
}

/// Without comments, and as one line for each key.
fn policy(fixture: &Fixture) -> Vec<String> {
    let text = fixture.read("project/policy.toml");
    let table: toml_edit::DocumentMut = text.parse().expect(&text);
    let grants = table["grants"].as_table_like().unwrap();
    let lines = grants.iter().map(|(key, values)| {
        let values = values.as_array().unwrap().iter();
        let values: Vec<_> = values.map(|value| value.as_str().unwrap()).collect();
        format!("{key} {}", values.join(" ")).replace(&fixture.text(""), "^")
    });
    lines.collect()
}

fn a_build_runs_in_a_fresh_checkout(fixture: &Fixture) {
    place_build(fixture, "project");
    tells(
        &learn(fixture, &[], &["make", "test"]),
        0,
        &["wrote", "ended well in a fresh copy"],
    );
    assert_eq!(
        policy(fixture),
        ["write .", "exec out", "protect policy.toml"]
    );
    place_build(fixture, "checkout");
    fixture.write("checkout/policy.toml", &fixture.read("project/policy.toml"));
    let mut again = fixture.palisade(["run", "--policy", "policy.toml", "--", "make", "test"]);
    again.command.current_dir(fixture.path("checkout"));
    again.run().is(0);
    assert!(fixture.exists("checkout/out/program"));
    // It holds what it says.
    let mut other = fixture.palisade([
        "run",
        "--policy",
        "policy.toml",
        "--",
        "cat",
        "../project/main.c",
    ]);
    other.command.current_dir(fixture.path("checkout"));
    assert_eq!(other.run().code(), 1);
}

fn nothing_of_a_run_stays(fixture: &Fixture) {
    place_build(fixture, "project");
    fixture.make_folder("temporary");
    fixture.write("beside/a", "");
    for command in [
        "make test; cat ../beside/a",
        "chmod 0 . ; exit 1",
        "kill -9 $$",
    ] {
        let words = ["learn", "--force", "--yes", "--", "sh", "-c", command];
        let call = palisade(fixture, &words).env("TMPDIR", &fixture.text("temporary"));
        call.run();
        assert!(!fixture.exists("project/out"));
        let left = fs::read_dir(fixture.path("temporary")).unwrap().count();
        assert_eq!(left, 0, "{command}");
    }
}

fn twice_is_the_same(fixture: &Fixture) {
    place_build(fixture, "project");
    fixture.write("beside/a", "");
    let command = "make test; cat ../beside/a";
    tells(&script(fixture, &["--yes"], command), 0, &[]);
    let first = fixture.read("project/policy.toml");
    tells(&script(fixture, &["--yes", "--force"], command), 0, &[]);
    assert_eq!(fixture.read("project/policy.toml"), first);
}

fn what_changes_alone_is_written(fixture: &Fixture) {
    fixture.write("project/docs/page", "");
    fixture.write("project/src/deep/code", "");
    fixture.write("project/kept", "");
    script(fixture, &[], "echo x >docs/page; rm src/deep/code").is(0);
    assert_eq!(policy(fixture), ["read .", "write docs src/deep"]);
}

fn a_command_that_writes_nothing_only_reads(fixture: &Fixture) {
    fixture.write("project/a", "text");
    let outcome = learn(fixture, &[], &["cat", "a"]);
    assert_eq!(outcome.stdout, b"texttext", "both rounds are heard");
    assert_eq!(policy(fixture), ["read ."]);
}

fn a_file_beside_the_project_is_granted_with_yes(fixture: &Fixture) {
    fixture.write("beside/data", "content");
    let outcome = learn(fixture, &["--yes"], &["cat", "../beside/data"]);
    tells(
        &outcome,
        0,
        &[
            "round 1 ended with exit code 1",
            "granted from now on: --read",
        ],
    );
    assert_eq!(policy(fixture), ["read ^/beside/data ."]);
    assert!(
        fixture
            .read("project/policy.toml")
            .contains("# read by cat")
    );
    palisade(
        fixture,
        &[
            "run",
            "--policy",
            "policy.toml",
            "--",
            "cat",
            "../beside/data",
        ],
    )
    .run()
    .prints("content");
}

fn without_a_word_it_is_told(fixture: &Fixture) {
    fixture.write("beside/data", "content");
    let outcome = learn(fixture, &[], &["cat", "../beside/data"]);
    let told = format!(
        "asked for and not granted: the file {}: it is not granted (--read",
        fixture.text("beside/data")
    );
    tells(
        &outcome,
        1,
        &[
            "not granted: --read",
            "nobody can be asked",
            &told,
            "no policy was written",
        ],
    );
    assert_eq!(outcome.stdout, b"");
    assert!(!fixture.exists("project/policy.toml"));
}

fn somebody_is_asked(fixture: &Fixture) {
    fixture.write("beside/a", "one");
    fixture.write("beside/b", "two");
    fixture.make_folder("project");
    let mut person = Person::sit_down(fixture);
    person.types("cd project\n").sees(PROMPT);
    person.types("$P learn -- sh -c 'cat ../beside/a && cat ../beside/b'; echo code $?\n");
    person
        .sees("beside/a")
        .sees("grant it, and run it again? ")
        .types("y\n");
    person
        .sees("beside/b")
        .sees("grant it, and run it again? ")
        .types("y\n");
    person.sees("onetwo").sees("code 0");
    assert_eq!(policy(fixture), ["read ^/beside/a ^/beside/b ."]);
    person
        .sees(PROMPT)
        .types("$P learn --force -- cat ../beside/a; echo code $?\n");
    person
        .sees("grant it, and run it again? ")
        .types("n\n")
        .sees("code 1");
    assert_eq!(policy(fixture), ["read ^/beside/a ^/beside/b ."]);
}

fn what_is_written_elsewhere_is_a_copy_too(fixture: &Fixture) {
    fixture.write("beside/log", "old");
    fixture.write("other/file", "old");
    let command = "cat ../beside/log && echo new >../beside/log && echo x >../other/made && cat ../other/file";
    tells(&script(fixture, &["--yes"], command), 0, &[]);
    assert_eq!(fixture.read("beside/log"), "old");
    assert!(!fixture.exists("other/made"));
    let written = policy(fixture)
        .into_iter()
        .find(|line| line.starts_with("write"));
    assert_eq!(written.unwrap(), "write ^/beside/log ^/other");
}

fn a_command_that_did_without_is_granted_nothing(fixture: &Fixture) {
    fixture.write("beside/data", "content");
    tells(
        &script(fixture, &["--yes"], "cat ../beside/data || true"),
        0,
        &[],
    );
    assert_eq!(policy(fixture), ["read ."]);
    let text = fixture.read("project/policy.toml");
    assert!(
        text.contains("Asked for and not granted: it did without."),
        "{text}"
    );
}

fn keys_are_granted_to_nobody(fixture: &Fixture) {
    fixture.write("home/.ssh/id_ed25519", "a key");
    fixture.write("home/.netrc", "a password");
    let command = "cat ../home/.ssh/id_ed25519 ../home/.netrc";
    let outcome = script(fixture, &["--yes"], command);
    tells(
        &outcome,
        1,
        &["keys and passwords are kept there", "no policy was written"],
    );
    assert_eq!(outcome.stdout, b"");
    let outcome = script(fixture, &["--yes"], &format!("{command} || true"));
    assert_eq!(outcome.stdout, b"");
    assert_eq!(policy(fixture), ["read ."]);
    let text = fixture.read("project/policy.toml");
    assert!(!text.contains("(--read"), "{text}");
    let told = format!("(by hand: --read {})", fixture.text("home/.ssh/id_ed25519"));
    assert!(text.contains(&told), "{text}");
}

/// Git looks whether there is a folder, and says that it is none.
fn what_the_command_names_is_asked_about(fixture: &Fixture) {
    fixture.write("origin/file", "one");
    fixture.write("home/.ssh/id_ed25519", "a key");
    let looks = "[ -d $1 ] && cat $1/file >copy";
    let learn_of = |folder: &str| {
        learn(
            fixture,
            &["--yes", "--force"],
            &["/bin/sh", "-c", looks, "sh", folder],
        )
    };
    tells(
        &learn_of("../origin"),
        0,
        &["granted from now on: --read", "/origin"],
    );
    let learned = ["read ^/origin", "write .", "protect policy.toml"];
    assert_eq!(policy(fixture), learned);
    for other in ["../none", "../home/.ssh", "../home"] {
        tells(&learn_of(other), 1, &["no policy was written"]);
    }
}

fn what_the_last_round_left_is_kept(fixture: &Fixture) {
    fixture.write("project/source", "as it was");
    let command = "mkdir -p out && echo made >out/file && ln -s file out/link && rm source";
    let outcome = script(fixture, &["--keep", "../kept"], command);
    tells(&outcome, 0, &["kept in", "what the last round left"]);
    assert_eq!(fixture.read("kept/out/file"), "made\n");
    assert_eq!(
        fs::read_link(fixture.path("kept/out/link")).unwrap(),
        std::path::Path::new("file")
    );
    assert!(!fixture.exists("kept/source"));
    assert_eq!(fixture.read("project/source"), "as it was");
    assert!(!fixture.exists("project/out"));
    // What failed is looked at, too.
    let outcome = script(
        fixture,
        &["--keep", "../failed", "--force"],
        "echo half >made; exit 3",
    );
    tells(&outcome, 3, &["kept in", "no policy was written"]);
    assert_eq!(fixture.read("failed/made"), "half\n");
    for there in ["../kept", "../none/below", "/"] {
        let refused = script(fixture, &["--keep", there, "--force"], "true");
        refused.refuses(&["usage: ", "--keep"]);
    }
}

fn what_its_user_keeps_is_granted_to_nobody(fixture: &Fixture) {
    fixture.write("home/letters/one", "a letter");
    fixture.write("home/.config/palisade/sensitive", "~/letters\n");
    fixture.make_folder("project");
    let words = ["learn", "--yes", "--", "cat", "../home/letters/one"];
    let outcome = palisade(fixture, &words)
        .env("HOME", &fixture.text("home"))
        .env("XDG_CONFIG_HOME", &fixture.text("home/.config"))
        .run();
    tells(
        &outcome,
        1,
        &["you keep it from every guest", "no policy was written"],
    );
    assert_eq!(outcome.stdout, b"");
    assert!(!outcome.stderr.contains("by hand"), "{}", outcome.stderr);
}

/// The link lies in what the guest may write, and is asked for by a name that nobody fears.
fn a_link_to_a_key_grants_none(fixture: &Fixture) {
    fixture.write("home/.ssh/id_ed25519", "a key");
    let key = fixture.text("home/.ssh/id_ed25519");
    fixture.make_folder("project");
    symlink(&key, fixture.path("project/theirs")).unwrap();
    let planted = format!(
        "ln -s {key} mine; ln -s ../home/.ssh folder; cat theirs mine folder/id_ed25519 || true"
    );
    let outcome = script(fixture, &["--yes"], &planted);
    tells(&outcome, 0, &[]);
    assert_eq!(outcome.stdout, b"");
    let granted = policy(fixture).join("\n");
    assert!(
        !granted.contains("ssh") && !granted.contains("home"),
        "{granted}"
    );
}

fn a_guest_that_asks_for_everything_gets_no_key(fixture: &Fixture) {
    for file in [
        ".ssh/id_rsa",
        ".aws/credentials",
        ".gnupg/x",
        ".bash_history",
        "a.pem.key",
        "b/.env",
        "b/c",
        "b/d",
        "b/e",
    ] {
        fixture.write(&format!("home/{file}"), "hidden");
    }
    let all = "find ../home; cat $(cd ../home && echo .ssh/id_rsa) ../home/.ssh/id_rsa ../home/.aws/credentials \
               ../home/.gnupg/x ../home/.bash_history ../home/a.pem.key ../home/b/.env; cat ../home/b/c ../home/b/d ../home/b/e; exit 3";
    let outcome = script(fixture, &["--yes"], all);
    tells(&outcome, 3, &["is kept from everybody"]);
    for secret in [".ssh", ".aws", ".gnupg", "history", ".key", ".env"] {
        let granted = format!(
            "granted from now on: --read {}/home/{secret}",
            fixture.text("")
        );
        assert!(!outcome.stderr.contains(&granted), "{}", outcome.stderr);
    }
    // Each file by itself: their folder holds what nobody may have.
    for file in ["c", "d", "e"] {
        let granted = format!(
            "granted from now on: --read {}\n",
            fixture.text(&format!("home/b/{file}"))
        );
        assert!(outcome.stderr.contains(&granted), "{}", outcome.stderr);
    }
    assert!(!String::from_utf8_lossy(&outcome.stdout).contains("hidden\nhidden\nhidden\nhidden"));
}

fn files_and_an_open_network_go_not_together(fixture: &Fixture) {
    fixture.write("beside/data", "content");
    for flags in [
        &["--allow-network"][..],
        &["--connect", "tcp://127.0.0.1:9"],
    ] {
        let flags = [&["--yes"], flags].concat();
        tells(
            &learn(fixture, &flags, &["true"]),
            125,
            &["usage: ", "--yes"],
        );
    }
    let outcome = learn(fixture, &["--allow-network"], &["cat", "../beside/data"]);
    tells(
        &outcome,
        1,
        &["files beside the project go with no --allow-network"],
    );
    assert!(!fixture.exists("project/policy.toml"));
}

/// A database of the host's trusts whoever reaches it.
fn the_hosts_own_ports_are_not_public(fixture: &Fixture) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let outcome = learn(fixture, &["--allow-network"], &["bash", "-c", &command]);
    tells(&outcome, 1, &["it is not public"]);
    server.set_nonblocking(true).unwrap();
    assert!(server.accept().is_err(), "it was reached");
}

fn a_port_that_is_named_is_granted(fixture: &Fixture) {
    let port = free_ports(1);
    let server = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let grant = format!("tcp://127.0.0.1:{port}");
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let outcome = learn(fixture, &["--connect", &grant], &["bash", "-c", &command]);
    tells(&outcome, 0, &["ended well in a fresh copy"]);
    assert_eq!(
        policy(fixture),
        ["read .".to_owned(), format!("connect {grant}")]
    );
    drop(server);
}

fn a_command_that_fails_is_told(fixture: &Fixture) {
    tells(
        &script(fixture, &["--yes"], "exit 7"),
        7,
        &["did not end well (exit code 7)"],
    );
    assert!(!fixture.exists("project/policy.toml"));
}

fn a_command_that_is_missing_is_told(fixture: &Fixture) {
    let outcome = learn(fixture, &["--yes"], &["no-such-program"]);
    tells(&outcome, 125, &["guest: it did not start"]);
    assert!(!fixture.exists("project/policy.toml"));
}

fn each_round_reads_the_same(fixture: &Fixture) {
    fixture.make_folder("project");
    fixture.write("beside/data", "");
    let words = [
        "learn",
        "--yes",
        "--",
        "sh",
        "-c",
        "cat; cat ../beside/data",
    ];
    let outcome = palisade(fixture, &words).input("input,").run();
    tells(&outcome, 0, &[]);
    assert_eq!(outcome.stdout, b"input,input,input,");
    // From where the file is read on.
    let words = words.map(|word| word.replace("--yes", "--force"));
    let mut call = fixture.call(
        "/bin/sh".as_ref(),
        ["-c", "read first; exec \"$@\" <&0", "sh"],
    );
    let text = fixture.path("text");
    fs::write(&text, "first\nrest,").unwrap();
    call.command
        .arg(fixture.program())
        .args(&words[..4])
        .args(["-c", "cat"]);
    call.command.current_dir(fixture.path("project"));
    call.command.stdin(fs::File::open(text).unwrap());
    let output = call.command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "rest,rest,");
}

fn libraries_that_are_loaded(fixture: &Fixture) {
    fixture.write("project/lib/x.c", "int x(void) { return 5; }\n");
    let build = "cc -shared -fPIC -o lib/libx.so lib/x.c";
    let load = "python3 -c 'import ctypes; print(ctypes.CDLL(\"./lib/libx.so\").x())'";
    tells(&script(fixture, &[], &format!("{build} && {load}")), 0, &[]);
    assert_eq!(policy(fixture), ["read .", "write lib", "exec lib"]);
}

/// In names of files and of programs.
fn words_of_a_guest_are_no_grants(fixture: &Fixture) {
    fixture.write("beside/data", "");
    let hostile = "\"]\nconnect = [\"internet\"]\nread = [\"/etc";
    let made = format!(
        "import ctypes, os\nctypes.CDLL(None).prctl(15, {:?}.encode(), 0, 0, 0)\n\
         os.makedirs({:?}, exist_ok=True)\nopen('../beside/data').read()\n\
         try: open('../beside/' + {:?})\nexcept OSError: pass\n",
        "x\n]\nexec=[1",
        hostile.replace('/', "|"),
        hostile
    );
    tells(
        &learn(fixture, &["--yes"], &["python3", "-c", &made]),
        0,
        &[],
    );
    let granted = policy(fixture);
    assert_eq!(
        granted,
        ["read ^/beside/data", "write .", "protect policy.toml"]
    );
}

/// Below the guest's home, which is not its user's.
fn what_is_found_elsewhere_inside_is_a_copy_too(fixture: &Fixture) {
    fixture.write("home/settings/file", "old");
    fixture.write("home/other/.env", "hidden");
    fixture.make_folder("project");
    let command =
        "cat /tmp/settings/file && echo new >/tmp/settings/file || exit 1; ls /tmp/other || true";
    let words = ["learn", "--yes", "--", "sh", "-c", command];
    let outcome = palisade(fixture, &words)
        .env("HOME", &fixture.text("home"))
        .run();
    assert_eq!(fixture.read("home/settings/file"), "old", "{outcome:?}");
    let granted = policy(fixture).join("\n");
    assert!(
        granted.contains("^/home/settings"),
        "{granted}\n{outcome:?}"
    );
    assert!(!granted.contains("other"), "{granted}");
}

fn ctrl_c_ends_a_server(fixture: &Fixture) {
    fixture.make_folder("project");
    let mut person = Person::sit_down(fixture);
    person.types("cd project\n").sees(PROMPT);
    person.types("$P learn -- sh -c 'echo x >data; echo is up; exec sleep 600'; echo code $?\n");
    person.sees("\nis up").types("\x03").sees("code 0");
    assert_eq!(policy(fixture), ["write .", "protect policy.toml"]);
}

/// What others trust is protected only where the command ends well so.
fn what_is_written_is_what_was_proved(fixture: &Fixture) {
    fixture.make_folder("project");
    let mut git = fixture.call("/usr/bin/git".as_ref(), ["init", "-q"]);
    git.command.current_dir(fixture.path("project"));
    tells(&git.run(), 0, &[]);
    let command = "touch .git/lock && rm .git/lock && echo x >out";
    tells(&script(fixture, &[], command), 0, &["in a fresh copy"]);
    let words = [
        "run",
        "--policy",
        "policy.toml",
        "--",
        "/bin/sh",
        "-c",
        command,
    ];
    tells(&palisade(fixture, &words).run(), 0, &[]);
    assert_eq!(policy(fixture), ["write .", "protect policy.toml"]);
    let text = fixture.read("project/policy.toml");
    assert!(text.contains("# Behind less it did not end well"), "{text}");
}

fn a_proof_that_is_interrupted_is_none(fixture: &Fixture) {
    fixture.make_folder("project");
    let words = [
        "learn",
        "--",
        "sh",
        "-c",
        "echo x >out; echo up; read line; echo $line",
    ];
    fixture.write("lines", "first\n");
    let mut call = palisade(fixture, &words);
    call.command
        .stdin(fs::File::open(fixture.path("lines")).unwrap());
    call.command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = call.command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    for line in ["up\n", "first\n"] {
        assert_eq!(read_line(&mut stdout), line);
    }
    signal(&child, Signal::TERM);
    let output = child.wait_with_output().unwrap();
    let text = fs::read_to_string(fixture.path("project/policy.toml")).unwrap_or_default();
    // Before the last round it ends all of it; during the round it is no proof.
    let stderr = String::from_utf8_lossy(&output.stderr);
    match text.is_empty() {
        true => assert!(stderr.contains("no policy was written"), "{stderr}"),
        false if text.contains("was not run behind it") => {}
        // It was too late.
        false => assert!(stderr.contains("ended well in a fresh copy"), "{stderr}"),
    }
}

fn a_program_of_the_project(fixture: &Fixture) {
    fixture.make_folder("project");
    fixture.write_program("project/tools/gen", "#!/bin/sh\necho x >out\n");
    tells(
        &learn(fixture, &[], &["tools/gen"]),
        0,
        &["in a fresh copy"],
    );
    assert_eq!(
        policy(fixture),
        ["write .", "exec tools", "protect policy.toml"]
    );
    fixture.write_program("project/run.sh", "#!/bin/sh\necho x >out\n");
    tells(
        &learn(fixture, &["--force"], &["./run.sh"]),
        0,
        &["in a fresh copy"],
    );
    assert_eq!(
        policy(fixture),
        ["write .", "exec .", "protect policy.toml"]
    );
}

/// Somebody else's, or the user's own by mistake.
fn a_link_between_rounds_grants_nothing(fixture: &Fixture) {
    fixture.write("home/.ssh/id_rsa", "a key");
    fixture.write("beside/data", "content");
    fixture.make_folder("project");
    let words = [
        "learn",
        "--yes",
        "--",
        "sh",
        "-c",
        "cat ../beside/data && echo in && read line",
    ];
    let mut call = palisade(fixture, &words);
    call.command
        .stdin(fs::File::open(fixture.path("beside/data")).unwrap());
    call.command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = call.command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    // The second round reads it.
    assert_eq!(read_line(&mut stdout), "contentin\n");
    let data = fixture.path("beside/data");
    let _ = fs::remove_file(&data);
    symlink(fixture.path("home/.ssh/id_rsa"), &data).unwrap();
    let output = child.wait_with_output().unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("a key"), "{rest}{output:?}");
}

fn a_folder_of_keys_is_no_project(fixture: &Fixture) {
    fixture.write("project/.ssh/id_rsa", "a key");
    for folder in ["project/.ssh", "project"] {
        let mut call = fixture.palisade(["learn", "--", "cat", ".ssh/id_rsa", "id_rsa"]);
        call.command.current_dir(fixture.path(folder));
        call.command.env("HOME", fixture.path("project"));
        let outcome = call.run();
        tells(&outcome, 125, &["no project"]);
        assert_eq!(outcome.stdout, b"");
    }
}

fn a_folder_called_as_a_home(fixture: &Fixture) {
    fixture.write("project/~/file", "");
    tells(
        &script(fixture, &[], "echo x >./~/file"),
        0,
        &["in a fresh copy"],
    );
    assert_eq!(policy(fixture), ["read .", "write ./~"]);
    let words = [
        "run",
        "--policy",
        "policy.toml",
        "--",
        "sh",
        "-c",
        "echo x >./~/file",
    ];
    tells(&palisade(fixture, &words).run(), 0, &[]);
}

fn folders_that_the_guest_closes(fixture: &Fixture) {
    fixture.write("project/sub/file", "");
    fixture.write("project/other/file", "");
    fixture.write("beside/data", "");
    let command = "cat ../beside/data && echo x >>../beside/data && chmod 0 ../beside/data && chmod 0 sub && chmod 444 other";
    tells(
        &script(fixture, &["--yes"], command),
        0,
        &["in a fresh copy"],
    );
    let granted = policy(fixture).join(" ");
    assert!(granted.contains("write ^/beside/data"), "{granted}");
}

fn folders_in_folders_are_thrown_away(fixture: &Fixture) {
    fixture.make_folder("project");
    fixture.make_folder("temporary");
    let deep = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')";
    let words = ["learn", "--", "python3", "-c", deep];
    let call = palisade(fixture, &words).env("TMPDIR", &fixture.text("temporary"));
    tells(&call.run(), 0, &["in a fresh copy"]);
    let left = fs::read_dir(fixture.path("temporary")).unwrap().count();
    assert_eq!(left, 0);
}

fn ctrl_c_ends_a_question(fixture: &Fixture) {
    fixture.write("beside/a", "one");
    fixture.make_folder("project");
    let mut person = Person::sit_down(fixture);
    person.types("cd project\n").sees(PROMPT);
    person.types("$P learn -- cat ../beside/a; echo code $?\n");
    person
        .sees("grant it, and run it again? ")
        .types("\x03")
        .sees("no policy was written");
    person.sees("code 125");
    assert!(!fixture.exists("project/policy.toml"));
}

fn names_with_colons(fixture: &Fixture) {
    fixture.write("be:side/da ta", "content");
    fixture.write("project/a:b/file", "");
    let command = "cat '../be:side/da ta' && echo x >a:b/file && cp /bin/true a:b/x && a:b/x";
    tells(
        &script(fixture, &["--yes"], command),
        0,
        &["in a fresh copy"],
    );
    assert_eq!(
        policy(fixture),
        [r"read ^/be\:side/da ta .", r"write a\:b", r"exec a\:b"]
    );
}

fn what_a_policy_lacks_is_added(fixture: &Fixture) {
    fixture.write("project/docs/page", "");
    fixture.write("beside/data", "");
    let mine = "# Mine.\n[grants]\nread = [\n    \".\", # all of it\n]\n[limits]\ntime = \"5s\"\n";
    fixture.write("project/policy.toml", mine);
    let outcome = script(
        fixture,
        &["--yes", "--merge"],
        "cat ../beside/data && echo x >docs/page",
    );
    tells(&outcome, 0, &["2 grants added"]);
    let text = fixture.read("project/policy.toml");
    assert!(
        text.starts_with("# Mine.\n") && text.contains("\".\", # all of it\n"),
        "{text}"
    );
    assert_eq!(policy(fixture), ["read . ^/beside/data", "write docs"]);
    assert!(text.contains("/beside/data\", # read by cat\n"), "{text}");
    let outcome = script(
        fixture,
        &["--yes", "--merge"],
        "cat ../beside/data && echo x >docs/page",
    );
    let limit = "leave less room than this command would be given: time = \"10m\"";
    tells(&outcome, 0, &["has all of it", limit]);
    assert_eq!(fixture.read("project/policy.toml"), text);
}

/// Without the profile of its tool the policy would be none behind which it ended well.
fn profiles_that_a_policy_lacks_are_added(fixture: &Fixture) {
    fixture.write("project/go.mod", "module example\n");
    fixture.write("home/go/pkg/mod/cache/entry", "fetched");
    fixture.write("project/policy.toml", "[grants]\nread = [\".\"]\n");
    let entry = fixture.text("home/go/pkg/mod/cache/entry");
    let words = ["learn", "--merge", "--", "/bin/cat", &entry];
    let outcome = palisade(fixture, &words)
        .env("HOME", &fixture.text("home"))
        .run();
    tells(&outcome, 0, &["1 grant added", "new: profiles = [\"go\"]"]);
    let text = fixture.read("project/policy.toml");
    assert!(text.starts_with("profiles = [\"go\"]\n"), "{text}");
}

/// By a lookup whose question nobody sees: of one address family.
fn a_name_is_told_however_it_is_looked_up(fixture: &Fixture) {
    let lookup = "import socket
address = socket.getaddrinfo('registry.example', 8443, socket.AF_INET)[0][4]
socket.create_connection(address)";
    let outcome = learn(fixture, &[], &["/usr/bin/python3", "-c", lookup]);
    tells(
        &outcome,
        1,
        &["not granted: --connect tcp://registry.example:8443"],
    );
}

/// It ends well only as long as names are found, which they are not behind a policy that grants none.
fn names_that_are_found_alone_are_told(fixture: &Fixture) {
    let lookup = "import socket
try: socket.gethostbyname('tracker.example')
except OSError: open('without', 'w')";
    let outcome = learn(fixture, &[], &["/usr/bin/python3", "-c", lookup]);
    tells(&outcome, 0, &["once more, without names being found"]);
    let text = fixture.read("project/policy.toml");
    assert!(text.contains("write = ["), "{text}");
    let needs = "import socket\nsocket.gethostbyname('needed.example')";
    let outcome = learn(fixture, &["--force"], &["/usr/bin/python3", "-c", needs]);
    tells(&outcome, 1, &["no policy was written"]);
}

fn a_fresh_checkout_is_without_what_is_made(fixture: &Fixture) {
    fixture.write(
        "project/Makefile",
        "all:\n\tmkdir target && echo x >target/made\n",
    );
    fixture.write("project/.gitignore", "*.local\n");
    fixture.write("project/settings.local", "mine");
    fixture.write("project/target/made", "before");
    let large = fs::File::options()
        .write(true)
        .open(fixture.path("project/target/made"));
    large.unwrap().set_len((1 << 30) + 1).unwrap();
    let command = "test ! -e settings.local && make";
    let outcome = script(fixture, &[], command);
    tells(
        &outcome,
        125,
        &["too much to copy", "--fresh leaves out what is made anew"],
    );
    let outcome = script(fixture, &["--fresh"], command);
    tells(&outcome, 0, &["as it is checked out", "1 grant"]);
    assert_eq!(policy(fixture), ["write .", "protect policy.toml"]);
    assert_eq!(fixture.read("project/settings.local"), "mine");
}

fn what_a_policy_lacks_is_printed(fixture: &Fixture) {
    fixture.write("beside/data", "");
    let mine = "grants.read = [\".\"]\n";
    fixture.write("project/policy.toml", mine);
    let outcome = script(fixture, &["--yes", "--diff"], "cat ../beside/data");
    tells(&outcome, 0, &[]);
    let told = format!(
        "+ grants.read = [{:?}] # read by cat\n",
        fixture.text("beside/data")
    );
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), told);
    assert_eq!(fixture.read("project/policy.toml"), mine);
    tells(
        &script(fixture, &["--out", "none.toml", "--diff"], "true"),
        125,
        &["cannot read"],
    );
}

/// Of a server somebody has seen enough. Without a terminal nobody but palisade hears of it.
fn a_signal_ends_a_server(fixture: &Fixture) {
    fixture.write("project/data", "");
    for end in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut child = apart(fixture, "echo x >data; echo ready; exec sleep 600");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(read_line(&mut stdout), "ready\n");
        signal(&child, end);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(policy(fixture), ["write .", "protect policy.toml"]);
    }
}

/// `palisade learn` of a script, in a session of its own: nobody at the suite's terminal is asked.
fn apart(fixture: &Fixture, script: &str) -> Child {
    let mut call = fixture.call("/usr/bin/setsid".as_ref(), [fixture.program()]);
    let words = ["learn", "--force", "--", "/bin/sh", "-c", script];
    let command = call.command.args(words);
    command.current_dir(fixture.path("project"));
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Who reads it to its end has nothing to wait for.
    drop(child.stdin.take());
    child
}

fn a_signal_ends_the_reading_of_stdin(fixture: &Fixture) {
    fixture.make_folder("project");
    let mut call = palisade(fixture, &["learn", "--", "cat"]);
    let mut child = call.spawn();
    let stdin = child.stdin.take();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("reads stdin to its end"), "{line}");
    signal(&child, Signal::TERM);
    stderr.read_to_string(&mut line).unwrap();
    assert!(
        line.contains("host: ended by a signal: no policy was written"),
        "{line}"
    );
    assert_eq!(child.wait().unwrap().code(), Some(125));
    drop(stdin);
}

/// Of folders that a guest names so many are looked through, and it is told which are not.
fn a_guest_that_names_much_is_granted_no_more_than_is_looked_at(fixture: &Fixture) {
    for number in 0..30 {
        for file in 0..1000 {
            let path = fixture.path(&format!("beside/{number}/{file}"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }
    let all =
        "ls ../beside/*; for n in $(seq 0 29); do ls ../beside/$n || failed=1; done; exit $failed";
    let outcome = script(fixture, &["--yes"], all);
    assert!(
        outcome
            .stderr
            .contains("there is more in it than is looked through"),
        "{outcome:?}"
    );
}

fn a_socket_of_its_own(fixture: &Fixture) {
    fixture.write("project/run/keep", "");
    let server = "import os, socket\ns = socket.socket(socket.AF_UNIX); s.bind('run/door'); s.listen(1)\n\
                  c = socket.socket(socket.AF_UNIX); c.connect('run/door'); os.remove('run/door')\n\
                  os.mkfifo('run/fifo'); os.remove('run/fifo')\n";
    tells(
        &learn(fixture, &[], &["python3", "-c", server]),
        0,
        &["in a fresh copy"],
    );
    assert_eq!(policy(fixture), ["read .", "write run", "ipc run"]);
}

fn places_for_no_policy(fixture: &Fixture) {
    fixture.write("project/policy.toml", "as it was");
    tells(
        &learn(fixture, &[], &["true"]),
        125,
        &["host: ", "policy.toml", "is there already", "--force"],
    );
    assert_eq!(fixture.read("project/policy.toml"), "as it was");
    learn(fixture, &["--out", "none/policy.toml"], &["true"])
        .refuses(&["host: ", "folder of none/policy.toml"]);
    // A link is replaced, not followed.
    fixture.write("victim", "as it was");
    fs::remove_file(fixture.path("project/policy.toml")).unwrap();
    symlink(fixture.path("victim"), fixture.path("project/policy.toml")).unwrap();
    tells(&learn(fixture, &["--force"], &["true"]), 0, &[]);
    assert_eq!(fixture.read("victim"), "as it was");
}

fn another_place_for_the_policy(fixture: &Fixture) {
    place_build(fixture, "project");
    tells(
        &learn(fixture, &["--out", "../learned.toml"], &["make", "test"]),
        0,
        &[],
    );
    let text = fixture.read("learned.toml");
    let project = fixture.text("project");
    assert!(text.contains(&format!("    \"{project}\",")), "{text}");
    assert!(text.contains(&format!("    \"{project}/out\",")), "{text}");
    palisade(
        fixture,
        &["run", "--policy", "../learned.toml", "--", "make", "test"],
    )
    .run()
    .is(0);
}

fn values_that_are_none(fixture: &Fixture) {
    for (flag, value) in [
        ("--connect", "nonsense"),
        ("--listen", "tcp://127.0.0.1:x"),
        ("--env", "=x"),
        ("--profile", "cobol"),
    ] {
        let outcome = learn(fixture, &[flag, value], &["true"]);
        outcome.refuses(&["policy: ", flag, value]);
    }
}

fn a_home_is_no_project(fixture: &Fixture) {
    fixture.write("project/.bashrc", "");
    tells(
        &learn(fixture, &[], &["true"]),
        125,
        &["policy: ", "no project but a home"],
    );
}

/// Settings by which git starts programs lie in the project: nothing is asked of git there.
fn the_project_is_never_executed_outside(fixture: &Fixture) {
    fixture.make_folder("project");
    let git = |words: &[&str]| {
        let mut call = fixture.call("/usr/bin/git".as_ref(), words);
        assert!(
            call.command
                .current_dir(fixture.path("project"))
                .status()
                .unwrap()
                .success()
        );
    };
    git(&["init", "-q"]);
    let planted = fixture.text("ran");
    fixture.write_program("project/monitor", format!("#!/bin/sh\necho >{planted}\n"));
    git(&["config", "core.fsmonitor", &fixture.text("project/monitor")]);
    fixture.write_program("project/make", format!("#!/bin/sh\necho >{planted}\n"));
    tells(&learn(fixture, &[], &["true"]), 0, &[]);
    assert!(!fixture.exists("ran"));
    let mode = fs::metadata(fixture.path("project/policy.toml"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o022, 0);
    assert!(Command::new("true").status().unwrap().success());
}
