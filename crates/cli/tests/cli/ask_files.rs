//! `palisade run --ask-files`: what the host has and no grant covers is asked about while the guest waits, and mounted where the
//! answer is yes.

use super::{
    ask::{Asker, Patient, SILENCE, report, shows},
    fixture::{Call, Fixture, cases, ends_soon, init_of},
    person::{PROMPT, Person},
};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

cases![
    a_file_is_asked_about_once,
    no_to_a_file_is_remembered,
    once_is_no_answer_for_a_file,
    a_folder_is_asked_about,
    what_is_to_be_written_is_asked_about,
    a_folder_that_is_granted_for_reading_is_asked_about,
    a_program_is_asked_about,
    after_a_file_its_folder_is_asked_about,
    who_refuses_the_folder_is_asked_for_the_file,
    a_folder_with_a_key_is_told_as_one,
    what_lies_in_the_home_is_asked_about_where_it_is,
    keys_and_homes_are_not_asked_about,
    what_the_guest_has_of_its_own_is_not_asked_about,
    what_runs_outside_is_not_asked_about_for_writing,
    what_is_agreed_to_in_turn_executes_nothing_that_is_written,
    a_link_of_the_host_s_is_found_where_it_was_named,
    what_is_named_from_another_folder_is_not_asked_about,
    a_flood_of_names_ends_no_questions,
    what_comes_to_be_is_asked_about,
    what_is_not_there_is_not_asked_about,
    what_is_granted_is_not_asked_about,
    silence_is_no_to_a_file,
    what_lies_there_since_is_not_granted,
    who_swaps_it_all_the_time_gains_nothing,
    a_node_is_never_let_go_on,
    a_terminal_that_is_closed_says_no,
    what_the_guest_leads_to_is_not_asked_about,
    a_grant_answers_a_question_about_files,
    what_was_taken_back_is_asked_about_again,
    always_is_written_to_the_policy,
    others_go_on_while_a_file_is_asked_about,
    so_many_files_wait_and_the_rest_is_counted,
    somebody_at_a_terminal_grants_a_file,
    the_events_tell_it_once,
    who_asks_about_no_files_counts_none,
    it_takes_somebody_to_ask,
];

/// Questions go to the socket of an [`Asker`].
const ASKS: [&str; 5] = [
    "--report",
    "report.json",
    "--ask-socket",
    "asker",
    "--ask-files",
];

fn python(fixture: &Fixture, script: &str) -> Call {
    let words = ["run"].iter().chain(&ASKS).copied();
    fixture.palisade(words.chain(["--", "/usr/bin/python3", "-c", script]))
}

fn script(fixture: &Fixture, flags: &[&str], script: &str) -> Call {
    let flags = [&ASKS[..], flags].concat();
    fixture.script(&flags, script)
}

/// Two files in folders of their own, which are nobody's secret.
fn write_files(fixture: &Fixture) -> [String; 2] {
    fixture.write("data/file", "content");
    fixture.write("other/file", "content of the other");
    ["data/file", "other/file"].map(|name| fixture.text(name))
}

fn grants(told: &[Value]) -> Vec<&str> {
    let questions = told.iter().filter(|one| one["type"] == "question");
    questions
        .map(|one| one["grant"].as_str().unwrap())
        .collect()
}

fn a_file_is_asked_about_once(fixture: &Fixture) {
    let [file, other] = write_files(fixture);
    let asker = Asker::says(fixture, &["run", "no"]);
    let text = format!("cat {file}; cat {file}; cat {other} 2>/dev/null || echo none");
    shows(&script(fixture, &[], &text).run(), "contentcontentnone\n");
    let told = asker.told();
    let wanted = [format!("--read {file}"), format!("--read {other}")];
    assert_eq!(grants(&told), wanted);
    assert_eq!(told[0]["call"], "openat");
    assert_eq!(told[0]["target"], file);
    assert_eq!(told[0]["process"]["name"], "cat");
    assert_eq!(told[0]["has_once"], false);
    let report = report(fixture);
    assert_eq!(report["granted"][0]["grant"], wanted[0]);
    assert_eq!(report["granted"][0]["verdict"], "run");
    assert_eq!(report["granted"][1], Value::Null);
    assert_eq!(report["denials"][0]["grant"], wanted[1]);
    assert_eq!(report["denials"][1], Value::Null);
}

fn no_to_a_file_is_remembered(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let asker = Asker::says(fixture, &["no"]);
    let text = format!("cat {file}; cat {file}; test -e {file} || echo none");
    let outcome = script(fixture, &[], &text).run();
    shows(&outcome, "none\n");
    assert_eq!(outcome.stderr.matches("No such file").count(), 2);
    assert_eq!(asker.targets(), [file]);
    assert_eq!(report(fixture)["granted"], Value::Null);
}

/// What is mounted is there for all that follows.
fn once_is_no_answer_for_a_file(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let asker = Asker::says(fixture, &["once"]);
    let text = format!("cat {file} || echo none");
    shows(&script(fixture, &[], &text).run(), "none\n");
    assert_eq!(asker.targets().len(), 1);
}

fn a_folder_is_asked_about(fixture: &Fixture) {
    write_files(fixture);
    let folder = fixture.text("data");
    let asker = Asker::says(fixture, &["run"]);
    let text = format!("ls {folder}; cat {folder}/file");
    shows(&script(fixture, &[], &text).run(), "file\ncontent");
    assert_eq!(grants(&asker.told()), [format!("--read {folder}")]);
}

fn what_is_to_be_written_is_asked_about(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let folder = fixture.text("out");
    fixture.make_folder("out");
    let asker = Asker::says(fixture, &["run"]);
    let text = format!("echo changed >{file}; echo made >{folder}/new; echo made >{folder}/second");
    script(fixture, &[], &text).run().is(0);
    let told = asker.told();
    assert_eq!(
        grants(&told),
        [format!("--write {file}"), format!("--write {folder}")]
    );
    assert_eq!(fixture.read("data/file"), "changed\n");
    assert_eq!(fixture.read("out/second"), "made\n");
}

fn a_folder_that_is_granted_for_reading_is_asked_about(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let asker = Asker::says(fixture, &["run"]);
    let text = format!("cat {file}; echo changed >{file}");
    shows(
        &script(fixture, &["--read", "data"], &text).run(),
        "content",
    );
    let told = asker.told();
    let folder = fixture.text("data");
    assert_eq!(grants(&told), [format!("--write {folder}")], "as a whole");
    assert_eq!(told[0]["sought"], file);
    assert_eq!(fixture.read("data/file"), "changed\n");
}

fn a_program_is_asked_about(fixture: &Fixture) {
    fixture.write_program("tools/run", "#!/bin/sh\necho executed\n");
    let program = fixture.text("tools/run");
    let asker = Asker::says(fixture, &["run"]);
    shows(&script(fixture, &[], &program).run(), "executed\n");
    assert_eq!(grants(&asker.told()), [format!("--read {program}")]);
}

fn after_a_file_its_folder_is_asked_about(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    for name in ["data/second", "data/third", "data/deep/fourth"] {
        fixture.write(name, name);
    }
    let folder = fixture.text("data");
    let asker = Asker::says(fixture, &["run"]);
    let text = format!(
        "cd /; for name in file second third deep/fourth file; do cat {folder}/$name; echo; done"
    );
    shows(
        &script(fixture, &[], &text).run(),
        "content\ndata/second\ndata/third\ndata/deep/fourth\ncontent\n",
    );
    let told = asker.told();
    assert_eq!(
        grants(&told),
        [format!("--read {file}"), format!("--read {folder}")]
    );
    assert_eq!(told[1]["sought"], format!("{folder}/second"));
    assert_eq!(told[0]["sought"], Value::Null);
    assert_eq!(
        [&told[0]["is_folder"], &told[1]["is_folder"]],
        [&Value::Null, &json!(true)]
    );
}

/// Nobody is asked for it unasked, and who is asked for it is told.
fn a_folder_with_a_key_is_told_as_one(fixture: &Fixture) {
    write_files(fixture);
    for name in ["data/second", "data/deep/.env"] {
        fixture.write(name, name);
    }
    let folder = fixture.text("data");
    let asker = Asker::says(fixture, &["run"]);
    fixture.write("more/deep/.env", "key");
    let more = fixture.text("more");
    let text = format!("cat {folder}/file; cat {folder}/second; ls {more}");
    shows(
        &script(fixture, &[], &text).run(),
        "contentdata/seconddeep\n",
    );
    let told = asker.told();
    let wanted = [
        format!("--read {folder}/file"),
        format!("--read {folder}/second"),
        format!("--read {more}"),
    ];
    assert_eq!(grants(&told), wanted);
    assert_eq!(told[2]["secret"], format!("{more}/deep/.env"));
    assert_eq!(told[1]["secret"], Value::Null);
}

fn who_refuses_the_folder_is_asked_for_the_file(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    for name in ["data/second", "data/third"] {
        fixture.write(name, name);
    }
    let folder = fixture.text("data");
    let asker = Asker::says(fixture, &["run", "no", "run", "no"]);
    let text =
        format!("for name in file second third; do cat {folder}/$name || echo -n none; echo; done");
    shows(
        &script(fixture, &[], &text).run(),
        "content\ndata/second\nnone\n",
    );
    assert_eq!(
        grants(&asker.told()),
        [
            format!("--read {file}"),
            format!("--read {folder}"),
            format!("--read {folder}/second"),
            format!("--read {folder}/third"),
        ]
    );
}

/// The guest has another home, and finds it there.
fn what_lies_in_the_home_is_asked_about_where_it_is(fixture: &Fixture) {
    fixture.write("home/.toolrc", "settings");
    let asker = Asker::says(fixture, &["run"]);
    let call = script(fixture, &[], "cat ~/.toolrc; echo ~");
    shows(
        &call.env("HOME", &fixture.text("home")).run(),
        "settings/tmp\n",
    );
    let told = asker.told();
    let wanted = format!("--read {}:/tmp/.toolrc", fixture.text("home/.toolrc"));
    assert_eq!(grants(&told), [wanted]);
    assert_eq!(told[0]["target"], fixture.text("home/.toolrc"));
    assert_eq!(told[0]["sought"], "/tmp/.toolrc");
}

fn keys_and_homes_are_not_asked_about(fixture: &Fixture) {
    for name in ["home/.ssh/id_rsa", "home/.aws/credentials", "data/.env"] {
        fixture.write(name, "key");
    }
    let asker = Asker::says(fixture, &["run"]);
    let [home, data] = ["home", "data"].map(|name| fixture.text(name));
    let text = format!(
        "cat {home}/.ssh/id_rsa ~/.ssh/id_rsa {home}/.aws/credentials {data}/.env; ls {home} /root /etc/ssh /var/tmp"
    );
    let outcome = script(fixture, &[], &text).env("HOME", &home).run();
    assert!(!outcome.text().contains("key"), "{outcome:?}");
    assert_eq!(asker.targets(), [""; 0]);
}

/// Nor covered by what the host has there.
fn what_the_guest_has_of_its_own_is_not_asked_about(fixture: &Fixture) {
    fixture.write("home/.toolrc", "the host's");
    fixture.write("home/.tool/file", "the host's");
    let asker = Asker::says(fixture, &["run"]);
    let text = "echo own >~/.toolrc; cat ~/.toolrc; mkdir ~/.tool; echo own >~/.tool/file; cat ~/.tool/file; ls ~/.tool";
    let call = script(fixture, &[], text).env("HOME", &fixture.text("home"));
    shows(&call.run(), "own\nown\nfile\n");
    assert_eq!(asker.targets(), [""; 0]);
}

fn what_runs_outside_is_not_asked_about_for_writing(fixture: &Fixture) {
    for name in [
        "checkout/.git/hooks/pre-commit",
        "checkout/.git/config",
        "home/.bashrc",
        "home/.config/git/config",
        "all/one/.git/config",
        "project/.vscode/tasks.json",
    ] {
        fixture.write(name, "");
    }
    let asker = Asker::says(fixture, &["run"]);
    let own = [
        "checkout/.git/hooks/pre-commit",
        "checkout/.git/hooks/new",
        "checkout/.git/config",
        "home/.bashrc",
        "home/.zshenv",
        "home/.config/git/config",
        "all/new",
        "checkout/new",
        "project/.vscode/tasks.json",
    ];
    let paths: Vec<_> = own.iter().map(|name| fixture.text(name)).collect();
    let text = format!(
        "for path in {} /etc/profile /usr/bin/new; do echo x >>$path; done 2>/dev/null; echo end",
        paths.join(" ")
    );
    let call = script(fixture, &[], &text).env("HOME", &fixture.text("home"));
    shows(&call.run(), "end\n");
    assert_eq!(asker.targets(), [""; 0]);
}

/// A file, the folder around it, to write there: what was open before executes nothing of it.
fn what_is_agreed_to_in_turn_executes_nothing_that_is_written(fixture: &Fixture) {
    for name in ["tools/run", "tools/other"] {
        fixture.write_program(name, "#!/bin/sh\necho executed\n");
    }
    let folder = fixture.text("tools");
    let asker = Asker::says(fixture, &["run"]);
    let text = format!(
        "
import os, subprocess
kept = os.open('{folder}/run', os.O_RDONLY)
open('{folder}/other').read()
open('{folder}/run', 'a').write('echo written\\n')
for path in f'/proc/self/fd/{{kept}}', '{folder}/run':
    try: print(subprocess.run([path], pass_fds=[kept], capture_output=True, text=True).stdout)
    except OSError as error: print(error.strerror)
"
    );
    shows(
        &python(fixture, &text).run(),
        "Permission denied\nPermission denied\n",
    );
    let wanted = [
        format!("--read {folder}/run"),
        format!("--read {folder}"),
        format!("--write {folder}"),
    ];
    assert_eq!(grants(&asker.told()), wanted);
    assert!(fixture.read("tools/run").ends_with("echo written\n"));
}

fn a_link_of_the_host_s_is_found_where_it_was_named(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    symlink("data", fixture.path("link")).unwrap();
    let link = fixture.text("link/file");
    let asker = Asker::says(fixture, &["run"]);
    shows(
        &script(fixture, &[], &format!("cat {link}")).run(),
        "content",
    );
    let told = asker.told();
    assert_eq!(grants(&told), [format!("--read {file}:{link}")]);
    assert_eq!(
        (&told[0]["target"], &told[0]["sought"]),
        (&json!(file), &json!(link))
    );
}

/// Whoever stands where nothing is granted stands in the root: a grant would be found elsewhere.
fn what_is_named_from_another_folder_is_not_asked_about(fixture: &Fixture) {
    fixture.write("file", "content");
    let asker = Asker::says(fixture, &["run"]);
    shows(
        &script(fixture, &[], "cat file || echo none").run(),
        "none\n",
    );
    assert_eq!(asker.targets(), [""; 0]);
}

fn a_flood_of_names_ends_no_questions(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let asker = Asker::says(fixture, &["run"]);
    let text = format!(
        "
import os
for number in range(9000): os.path.exists(f'/no/such/{{number}}')
print(open('{file}').read())
"
    );
    shows(&python(fixture, &text).run(), "content\n");
    assert_eq!(asker.targets(), [file]);
}

/// A name that nobody had is one by the time that somebody looks again.
fn what_comes_to_be_is_asked_about(fixture: &Fixture) {
    fixture.make_folder("data");
    let file = fixture.text("data/late");
    let text = format!(
        "cat {file} || echo none; read line; until cat {file} 2>/dev/null; do sleep 0.2; done; echo"
    );
    let mut asker = Patient::begin(&mut script(fixture, &[], &text), fixture);
    assert_eq!(asker.reads(), "none\n");
    fixture.write("data/late", "content");
    asker.types("\n");
    assert_eq!(asker.asked()["target"], file);
    asker.says(r#"{"question": 1, "verdict": "run"}"#);
    assert_eq!(asker.reads(), "content\n");
    asker.ends();
}

fn what_is_not_there_is_not_asked_about(fixture: &Fixture) {
    write_files(fixture);
    let asker = Asker::says(fixture, &["run"]);
    let folder = fixture.text("data");
    let text = format!("cat {folder}/none /no/such/file; echo >/tmp/own; cat /tmp/own");
    script(fixture, &[], &text).run();
    assert_eq!(asker.targets(), [""; 0]);
}

fn what_is_granted_is_not_asked_about(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    fixture.make_folder("out");
    let asker = Asker::says(fixture, &["no"]);
    let out = fixture.text("out/new");
    let text =
        format!("cat {file}; echo made >{out}; cat {out} /etc/passwd /usr/bin/true >/dev/null");
    let flags = ["--read", "data", "--write", "out"];
    shows(&script(fixture, &flags, &text).run(), "content");
    assert_eq!(asker.targets(), [""; 0]);
}

fn silence_is_no_to_a_file(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let asker = Asker::says(fixture, &[SILENCE]);
    let text = format!("cat {file} || echo none; cat {file} || echo none");
    let outcome = script(fixture, &["--ask-time", "200ms"], &text).run();
    shows(&outcome, "none\nnone\n");
    let told = asker.told();
    assert_eq!(told[1], json!({"type": "withdrawn", "question": 1}));
    assert_eq!(told.len(), 2);
}

/// Between question and answer somebody puts a link in its place, or another file.
fn what_lies_there_since_is_not_granted(fixture: &Fixture) {
    fixture.write("secret/key", "key");
    for replaced in ["link", "file", "folder"] {
        fixture.write("data/file", "content");
        let file = fixture.text("data/file");
        let text = format!("cat {file} || echo none");
        let mut asker = Patient::begin(&mut script(fixture, &[], &text), fixture);
        assert_eq!(asker.asked()["target"], file);
        match replaced {
            "link" => {
                fs::remove_file(&file).unwrap();
                symlink(fixture.path("secret/key"), &file).unwrap();
            }
            "file" => fs::rename(fixture.path("secret/key"), &file).unwrap(),
            _ => {
                fs::rename(fixture.path("data"), fixture.path("away")).unwrap();
                symlink(fixture.path("secret"), fixture.path("data")).unwrap();
                fixture.write("secret/file", "another");
            }
        }
        asker.says(r#"{"question": 1, "verdict": "run"}"#);
        // It is asked about once more, by what lies there now.
        let again = asker.asked();
        assert_eq!(again["question"], 2, "{replaced}");
        let leads_elsewhere = replaced != "file";
        assert_eq!(again["target"] != file.as_str(), leads_elsewhere, "{again}");
        asker.says(r#"{"question": 2, "verdict": "no"}"#);
        assert_eq!(asker.reads(), "none\n", "{replaced}");
        asker.ends();
        assert_eq!(report(fixture)["granted"], Value::Null);
        fs::remove_file(fixture.path("asker")).unwrap();
        fs::remove_file(fixture.path("report.json")).unwrap();
        if replaced != "folder" {
            fs::remove_file(&file).unwrap();
            fixture.write("secret/key", "key");
        }
    }
}

/// Somebody outside changes what lies there as fast as he can, and one who answers agrees to the file alone: what is mounted is that,
/// or nothing.
fn who_swaps_it_all_the_time_gains_nothing(fixture: &Fixture) {
    const ROUNDS: usize = 8;
    let [file, _] = write_files(fixture);
    fixture.write("secret/key", "key");
    symlink(fixture.path("secret/key"), fixture.path("data/link")).unwrap();
    fixture.write_program(
        "tools/asker",
        format!(
            "#!/usr/bin/python3 -u
import json, sys
for line in sys.stdin:
    told = json.loads(line)
    if told['type'] == 'question':
        verdict = 'run' if told['target'] == '{file}' else 'no'
        print(json.dumps({{'question': told['question'], 'verdict': verdict}}))
"
        ),
    );
    let (link, asker) = (fixture.path("data/link"), fixture.text("tools/asker"));
    let swap = || renameat_with(CWD, &file, CWD, &link, RenameFlags::EXCHANGE).unwrap();
    let run = || {
        let text = format!("for _ in $(seq 40); do cat {file} 2>/dev/null && break; done; true");
        let flags = ["--ask-program", &asker, "--ask-files"];
        fixture.script(&flags, &text).run().text()
    };
    let is_over = AtomicBool::new(false);
    let outputs: Vec<_> = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                swap();
            }
        });
        let outputs = (0..ROUNDS).map(|_| run()).collect();
        is_over.store(true, Ordering::Relaxed);
        outputs
    });
    let is_harmless = |output: &String| ["", "content"].contains(&output.as_str());
    assert!(outputs.iter().all(is_harmless), "{outputs:?}");
    if fs::symlink_metadata(&file).unwrap().is_symlink() {
        swap();
    }
    assert_eq!(run(), "content", "once nobody swaps it, it is granted");
}

/// Where too many questions wait, calls go on without. Not one that makes a FIFO: its path may be another one by then.
fn a_node_is_never_let_go_on(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    fixture.make_folder("out");
    fixture.write_program("tools/asker", "#!/bin/sh\nexec cat >/dev/null\n");
    let work = fixture.text("out");
    let script = format!(
        "import ctypes, mmap, os, signal, threading
class Waiting(threading.Thread):
    daemon = True
    def run(self): os.path.exists('{file}')
threading.stack_size(65536)
for _ in range(300): Waiting().start()
call = ctypes.CDLL(None, use_errno=True).mknod
paths = [path.encode() + bytes(1) for path in ('{file}x', '{work}/planted')]
size = max(map(len, paths))
paths = [path.ljust(size, bytes(1)) for path in paths]
shared = mmap.mmap(-1, size)
flipping = os.fork()
if flipping == 0:
    while True:
        shared[:] = paths[0]
        shared[:] = paths[1]
place = ctypes.addressof(ctypes.c_char.from_buffer(shared))
for _ in range(600):
    call(ctypes.c_void_p(place), 0o10600, 0)
os.kill(flipping, signal.SIGKILL)
print(os.listdir('{work}'), flush=True)
os._exit(0)
"
    );
    let asker = fixture.text("tools/asker");
    let flags = [
        "run",
        "--write",
        "out",
        "--ask-program",
        &asker,
        "--ask-files",
    ];
    let python = ["--", "/usr/bin/python3", "-c", &script];
    let outcome = fixture.palisade(flags.iter().chain(&python)).run();
    outcome.prints("[]\n");
}

/// Whoever sat there is gone.
fn a_terminal_that_is_closed_says_no(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    fixture.make_folder("out");
    let mut person = Person::sit_down(fixture);
    let guest = format!("trap \"\" HUP; cat {file} >out/read");
    person
        .types(&format!(
            "$P run --write out --ask --ask-files -- sh -c '{guest}'\n"
        ))
        .sees("Your word: ");
    assert!(ends_soon(&person.closes_the_window()));
    assert_eq!(fixture.read("out/read"), "");
}

/// By a link in a folder of its own nobody is asked for what lies elsewhere; by its own path anybody may be.
fn what_the_guest_leads_to_is_not_asked_about(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    fixture.make_folder("work");
    let asker = Asker::says(fixture, &["run"]);
    let work = fixture.text("work");
    let text = format!("ln -s {file} {work}/link; cat {work}/link || echo none");
    shows(
        &script(fixture, &["--write", "work"], &text).run(),
        "none\n",
    );
    assert_eq!(asker.targets(), [""; 0]);
}

fn a_grant_answers_a_question_about_files(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let text = format!("cat {file}; echo");
    let mut asker = Patient::begin(&mut script(fixture, &[], &text), fixture);
    assert_eq!(asker.asked()["target"], file);
    let id = init_of(asker.child.id()).to_string();
    fixture
        .palisade(["grant", &id, "--read", "data"])
        .run()
        .is_silent(0);
    assert_eq!(asker.asked(), json!({"type": "withdrawn", "question": 1}));
    assert_eq!(asker.reads(), "content\n");
    asker.ends();
}

fn what_was_taken_back_is_asked_about_again(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let text = format!("cat {file}; echo; read line; cat {file} || echo none");
    let mut asker = Patient::begin(&mut script(fixture, &[], &text), fixture);
    asker.asked();
    asker.says(r#"{"question": 1, "verdict": "run"}"#);
    assert_eq!(asker.reads(), "content\n");
    let id = init_of(asker.child.id()).to_string();
    fixture
        .palisade(["revoke", &id, "--read", &file])
        .run()
        .is(0);
    asker.types("\n");
    assert_eq!(asker.asked()["question"], 2);
    asker.says(r#"{"question": 2, "verdict": "no"}"#);
    // Where it was mounted an empty file is left.
    asker.ends();
}

fn always_is_written_to_the_policy(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    fixture.write("own/policy.toml", "[grants]\n");
    let asker = Asker::says(fixture, &["always"]);
    let flags = ["--policy", "own/policy.toml"];
    let text = format!("cat {file}");
    shows(&script(fixture, &flags, &text).run(), "content");
    assert_eq!(asker.targets(), [file.as_str()]);
    let policy = fixture.read("own/policy.toml");
    assert!(policy.contains(&file), "{policy}");
    let words = ["run", "--policy", "own/policy.toml", "--", "cat", &file];
    shows(&fixture.palisade(words).run(), "content");
}

fn others_go_on_while_a_file_is_asked_about(fixture: &Fixture) {
    let [file, _] = write_files(fixture);
    let text = format!("cat {file} & echo goes on; wait; echo");
    let mut asker = Patient::begin(&mut script(fixture, &[], &text), fixture);
    asker.asked();
    assert_eq!(asker.reads(), "goes on\n");
    asker.says(r#"{"question": 1, "verdict": "run"}"#);
    assert_eq!(asker.reads(), "content\n");
    asker.ends();
}

fn so_many_files_wait_and_the_rest_is_counted(fixture: &Fixture) {
    for number in 0..100 {
        fixture.write(&format!("data/{number}/file"), "content");
    }
    let folder = fixture.text("data");
    let text = format!(
        "for file in $(seq 0 99); do cat {folder}/$file/file || echo none & done; echo begun; wait"
    );
    let mut asker = Patient::begin(&mut script(fixture, &[], &text), fixture);
    asker.asked();
    let mut lines: Vec<_> = (0..1 + 100 - 64).map(|_| asker.reads()).collect();
    asker.says(r#"{"question": 1, "verdict": "never"}"#);
    lines.extend((0..64).map(|_| asker.reads()));
    asker.ends();
    let none = lines.iter().filter(|line| *line == "none\n").count();
    assert_eq!(none, 100, "{lines:?}");
    let report = report(fixture).to_string();
    assert!(
        report.contains("more that was to be asked about"),
        "{report}"
    );
}

fn somebody_at_a_terminal_grants_a_file(fixture: &Fixture) {
    let [file, other] = write_files(fixture);
    let mut person = Person::sit_down(fixture);
    person
        .types(&format!("$P run --ask --ask-files -- cat {file}\n"))
        .sees("-- palisade asks --")
        .sees("\"cat\" (process ")
        .sees("wants to read")
        .sees("Whatever runs behind the wall could read it")
        .sees("Your word: ")
        .types("once\n")
        .sees("run, no or never: ")
        .types("run\n")
        .sees("-- the guest goes on --")
        .sees("content")
        .sees(PROMPT)
        .types(&format!(
            "$P run --ask --ask-files -- sh -c 'echo x >>{other}'\n"
        ))
        .sees("wants to write to")
        .sees("change or remove what lies there")
        .sees("Your word: ")
        .types("no\n")
        .sees("cannot create")
        .sees(PROMPT);
    assert_eq!(fixture.read("other/file"), "content of the other");
}

fn the_events_tell_it_once(fixture: &Fixture) {
    let [file, other] = write_files(fixture);
    let asker = Asker::says(fixture, &["run", "no"]);
    let text = format!("cat {file} {other}");
    script(fixture, &["--events", "events"], &text).run();
    asker.told();
    let events = fixture.read("events");
    let about = |path: &str| {
        let lines = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let told = lines.filter(|one| one["target"] == path && one["call"] == "openat");
        told.map(|one| one["verdict"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(about(&file), ["allow"], "{events}");
    assert_eq!(about(&other), ["deny"], "{events}");
    assert!(
        events.contains(&format!(
            "\"event\":\"granted\",\"grant\":\"--read {file}\""
        )),
        "{events}"
    );
}

/// A guest that may be granted more and is watched, and nobody is asked about its files.
fn who_asks_about_no_files_counts_none(fixture: &Fixture) {
    let flags = ["--report", "report.json", "--grantable", "--watch"];
    let text = "cat /no/such/file /no/other 2>/dev/null || echo none";
    shows(&fixture.script(&flags, text).run(), "none\n");
    assert_eq!(report(fixture)["denials"], json!([]));
}

fn it_takes_somebody_to_ask(fixture: &Fixture) {
    let words = ["run", "--ask-files", "--", "true"];
    fixture.palisade(words).run().refuses(&["--ask"]);
}
