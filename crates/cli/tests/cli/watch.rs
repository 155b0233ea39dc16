//! `palisade run --watch`: the files that a guest asks for and may not have, each with its flag; and the same guest otherwise.

use super::fixture::{Call, Fixture, Outcome, cases};
use serde_json::Value;
use std::{fs, os::unix::fs::symlink, path::Path};

cases![
    a_file_that_is_not_granted,
    what_is_told_is_what_was_to_be_changed,
    a_link_itself_is_not_what_it_leads_to,
    what_is_there_already_is_not_made,
    a_folder_with_more_than_was_asked_for_is_not_advised,
    a_home_behind_a_link_is_not_advised,
    a_signal_ends_a_call_that_waits,
    the_flag_that_is_told_works,
    the_command_line_that_is_told_works,
    what_is_granted_for_reading_only,
    what_is_protected_has_no_flag,
    a_relative_path_where_the_folder_is_not_granted,
    a_relative_path_after_going_elsewhere,
    a_name_in_an_open_folder,
    a_link_that_leads_out,
    a_program_that_is_not_granted,
    what_the_guest_has_of_its_own_is_no_denial,
    the_home_is_meant_where_the_guest_has_another,
    keys_get_no_flag,
    what_its_user_keeps_gets_no_flag,
    what_is_not_there_either_is_no_denial,
    what_its_user_may_not_read_is_no_denial,
    a_thread_and_a_child_are_seen,
    many_files_of_a_folder_are_told_as_one,
    a_flood_of_names_is_counted,
    who_wants_a_ring_is_told,
    long_ways_to_short_paths_are_bounded_too,
    how_a_process_ended_is_told,
    without_a_report_it_is_printed,
    why_writes_it_to_a_policy,
    nothing_else_changes,
    nothing_is_told_without_it,
    signals_take_no_call_back,
    bad_pointers_are_the_guest_s_own_beside_it,
    a_path_that_changes_meanwhile_gains_nothing,
    names_act_on_no_terminal,
    network_grants_work_beside_it,
    without_namespaces_it_refuses,
    a_module_is_not_watched,
    a_palisade_inside_is_not_watched,
];

fn watch(fixture: &Fixture, flags: &[&str], command: &[&str]) -> Call {
    let words = ["run", "--watch", "--report", "report.json"].iter();
    fixture.palisade(words.chain(flags).chain(&["--"]).chain(command))
}

fn script(fixture: &Fixture, flags: &[&str], script: &str) -> Vec<Value> {
    watch(fixture, flags, &["/bin/sh", "-c", script]).run();
    denials(fixture)
}

fn python(fixture: &Fixture, flags: &[&str], script: &str) -> Outcome {
    watch(fixture, flags, &["/usr/bin/python3", "-c", script]).run()
}

fn denials(fixture: &Fixture) -> Vec<Value> {
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    report["denials"].as_array().unwrap().clone()
}

/// What and flag of each that is below the test's folder, without that.
fn told(fixture: &Fixture, denials: &[Value]) -> Vec<String> {
    let folder = fixture.text("");
    let lines = denials.iter().map(|denial| {
        let grant = denial["grant"].as_str().unwrap_or("none");
        format!("{} {grant}", denial["what"].as_str().unwrap())
    });
    let here = lines.filter(|line| line.contains(&folder));
    here.map(|line| line.replace(&folder, ".")).collect()
}

fn a_file_that_is_not_granted(fixture: &Fixture) {
    fixture.write("data/file", "");
    let path = fixture.text("data/file");
    let denied = script(fixture, &[], &format!("cat {path}; cat {path}; ls {path}"));
    assert_eq!(
        told(fixture, &denied),
        ["the file ./data/file --read ./data/file"]
    );
    assert_eq!(denied[0]["call"], "openat");
    assert_eq!(denied[0]["process"]["name"], "cat");
    assert!(denied[0]["count"].as_u64() >= Some(3), "{denied:?}");
    assert_eq!(denied[0]["reason"], "it is not granted");
}

fn how_a_process_ended_is_told(fixture: &Fixture) {
    fixture.write("data/one", "");
    fixture.write("data/other", "");
    let [one, other] = ["data/one", "data/other"].map(|name| fixture.text(name));
    let both = format!("sh -c '[ -r {one} ]; exit 0'; sh -c '[ -r {other} ]; exit 3'; exit 0");
    let denied = script(fixture, &[], &both);
    let ended = |path: &str| {
        let what = format!("the file {path}");
        let denial = denied.iter().find(|denial| denial["what"] == what);
        denial.unwrap()["ended"].clone()
    };
    let told = match kernel_tells_how_others_ended() {
        true => [0, 3].map(|code| serde_json::json!({ "code": code })),
        false => [Value::Null, Value::Null],
    };
    assert_eq!([ended(&one), ended(&other)], told, "{denied:?}");
    // What it is likely to have failed for comes first.
    let why = fixture.palisade(["why", "report.json"]).run().text();
    let at = |path: &str| why.find(&format!("wanted the file {path}")).unwrap();
    if kernel_tells_how_others_ended() {
        assert!(at(&other) < at(&one), "{why}");
        assert!(
            why.contains(", which ended with exit code 3, wanted"),
            "{why}"
        );
    }
}

/// Since Linux 6.15.
fn kernel_tells_how_others_ended() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version >= (6, 15)
}

/// The same files, before the user has said that they are kept.
fn what_its_user_keeps_gets_no_flag(fixture: &Fixture) {
    fixture.write("home/letters/one", "");
    fixture.write("data/a.vault", "");
    let paths = ["home/letters/one", "data/a.vault"].map(|path| fixture.text(path));
    let script = format!("cat {}", paths.join(" "));
    let run = || {
        let mut call = watch(fixture, &[], &["/bin/sh", "-c", &script]);
        call = call.env("HOME", &fixture.text("home"));
        call.env("XDG_CONFIG_HOME", &fixture.text("settings")).run()
    };
    let flags = || {
        let denied = denials(fixture);
        let flags = denied.iter().filter_map(|denial| denial["grant"].as_str());
        flags.map(str::to_owned).collect::<Vec<_>>()
    };
    run();
    assert_eq!(flags(), paths.clone().map(|path| format!("--read {path}")));
    fixture.write(
        "settings/palisade/sensitive",
        "# mine\n~/letters\n*.vault\n",
    );
    run();
    assert_eq!(flags(), [""; 0], "{:?}", denials(fixture));
    let reason = "it is not granted, and you keep it from every guest: grant only what the guest needs of it";
    let told = denials(fixture);
    assert!(
        told.iter().all(|denial| denial["reason"] == reason),
        "{told:?}"
    );
    // By what a link leads to as well, and what was advised before is not any more.
    fixture.write("settings/palisade/sensitive", "");
    run();
    fixture.write("settings/palisade/sensitive", "~/link\n*.vault\n");
    symlink("letters", fixture.path("home/link")).unwrap();
    let why = || {
        let mut call = fixture.palisade(["why", "report.json"]);
        call = call.env("HOME", &fixture.text("home"));
        call.env("XDG_CONFIG_HOME", &fixture.text("settings")).run()
    };
    let told = why().is_silent(0).text();
    assert!(
        !told.contains("--read") && told.contains("you keep it"),
        "{told}"
    );
    run();
    assert_eq!(flags(), [""; 0], "{:?}", denials(fixture));
    // Nor is there a note of the words of the command.
    let mut call = watch(fixture, &[], &["/bin/cat", &paths[0]]);
    call = call.env("HOME", &fixture.text("home"));
    let outcome = call.env("XDG_CONFIG_HOME", &fixture.text("settings")).run();
    assert!(!outcome.stderr.contains("--read"), "{outcome:?}");
    // Nobody takes a list that cannot be read for an empty one.
    let list = "settings/palisade/sensitive";
    fs::remove_file(fixture.path(list)).unwrap();
    symlink("nowhere", fixture.path(list)).unwrap();
    run().refuses(&["usage: cannot read", list]);
    fs::remove_file(fixture.path(list)).unwrap();
    fixture.write("settings/palisade/sensitive", "~/letters\n/a/../b\n");
    run().refuses(&["usage: ", "settings/palisade/sensitive: line 2", "`..`"]);
    // Nor has the guest a word in it.
    fixture.write("settings/palisade/sensitive", "~/letters\n");
    let mut call = watch(fixture, &["--write", "settings"], &["/bin/true"]);
    call = call.env("XDG_CONFIG_HOME", &fixture.text("settings"));
    call.run().refuses(&[
        "policy: ",
        "what is kept from every guest",
        "where the guest can write",
    ]);
}

fn the_flag_that_is_told_works(fixture: &Fixture) {
    fixture.write("da:ta/a b", "content");
    let path = fixture.text("da:ta/a b");
    let denied = script(fixture, &[], &format!("cat '{path}'"));
    let grant = denied[0]["grant"].as_str().unwrap();
    let (flag, value) = grant.split_once(' ').unwrap();
    let outcome = watch(fixture, &[flag, value], &["cat", &path]).run();
    outcome.prints("content");
    assert_eq!(denials(fixture), [] as [Value; 0]);
}

/// As it can be copied to a shell.
fn the_command_line_that_is_told_works(fixture: &Fixture) {
    fixture.write("da:ta/a b", "content");
    let read = format!("cat '{}'; exit $?", fixture.text("da:ta/a b"));
    script(fixture, &["--env", "A=secret"], &read);
    let why = fixture.palisade(["why", "report.json"]).run().text();
    assert!(!why.contains("secret"), "{why}");
    let told = why
        .lines()
        .find_map(|line| line.strip_prefix("To allow it: palisade "));
    // As a shell reads it, which knows the variable.
    let line = format!("{:?} {}", fixture.program(), told.unwrap());
    let mut shell = fixture.call(Path::new("/bin/bash"), ["-c", &line]);
    shell = shell.env("A", "secret");
    shell.run().prints("content");
    let mut shell = fixture.call(Path::new("/bin/bash"), ["-c", &line]);
    assert!(
        shell.command.status().unwrap().code() != Some(0),
        "nobody tells its value"
    );
}

fn what_is_granted_for_reading_only(fixture: &Fixture) {
    fixture.write("work/old", "");
    fixture.write("work/below/x", "");
    let all = "cd work; echo >old; echo >new; mkdir folder; mv old other; rm below/x; ln -s a link; chmod 600 old";
    let denied = script(fixture, &["--read", "work"], all);
    assert_eq!(
        told(fixture, &denied),
        [
            "write access to ./work/old --write ./work",
            "write access to ./work/new --write ./work",
            "write access to ./work/folder --write ./work",
            "write access to ./work/other --write ./work",
            "write access to ./work/below/x --write ./work/below",
            "write access to ./work/link --write ./work",
        ]
    );
    assert_eq!(denied[0]["reason"], "it is granted for reading only");
    script(fixture, &["--read", "work:/inside"], "echo >/inside/new");
    let denied = denials(fixture);
    assert_eq!(
        told(fixture, &denied),
        ["write access to ./work/new --write ./work:/inside"]
    );
}

fn what_is_protected_has_no_flag(fixture: &Fixture) {
    fixture.write("work/kept", "");
    let flags = ["--write", "work", "--protect", "work/kept"];
    let denied = script(fixture, &flags, "echo >work/kept");
    assert_eq!(told(fixture, &denied), ["write access to ./work/kept none"]);
    assert_eq!(denied[0]["reason"], "it is protected");
}

/// The first thing that everybody tries.
fn a_relative_path_where_the_folder_is_not_granted(fixture: &Fixture) {
    fixture.write("file", "");
    fixture.write("a/b", "");
    let denied = script(fixture, &[], "cat file a/../a/b; cat /a/b");
    assert_eq!(
        told(fixture, &denied),
        [
            "the file ./file --read ./file",
            "the file ./a/b --read ./a/b"
        ]
    );
    let flags = ["--cwd", "/"];
    let elsewhere = script(fixture, &flags, "cat file");
    assert_eq!(told(fixture, &elsewhere), [] as [&str; 0]);
}

fn a_relative_path_after_going_elsewhere(fixture: &Fixture) {
    fixture.write("a/granted", "");
    fixture.write("a/x", "");
    fixture.write("b/x", "");
    let all = "cd a && cat granted && cd / && cat ../b/x; cd ~-; cat ../b/x; cd ..; cat b/x; true";
    let outcome = watch(fixture, &["--read", "a"], &["/bin/bash", "-c", all]).run();
    outcome.is(0);
    assert_eq!(
        told(fixture, &denials(fixture)),
        ["the file ./b/x --read ./b/x"]
    );
}

fn a_name_in_an_open_folder(fixture: &Fixture) {
    fixture.write("work/sub/file", "");
    let code = "
import os
fd = os.open('work/sub', os.O_RDONLY)
os.stat('file', dir_fd=fd)
for name in ['made', '../made']:
    try: os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=fd)
    except OSError as error: print(error.errno)";
    let outcome = python(fixture, &["--read", "work"], code);
    assert_eq!(outcome.text(), "30\n30\n");
    assert_eq!(
        told(fixture, &denials(fixture)),
        [
            "write access to ./work/sub/made --write ./work/sub",
            "write access to ./work/made --write ./work",
        ]
    );
}

fn a_link_that_leads_out(fixture: &Fixture) {
    fixture.write("elsewhere/tool", "");
    fixture.make_folder("work");
    symlink("../elsewhere/tool", fixture.path("work/tool")).unwrap();
    symlink("/usr/bin/env", fixture.path("work/env")).unwrap();
    let denied = script(
        fixture,
        &["--read", "work"],
        "cat work/tool; cat work/env >/tmp/x",
    );
    assert_eq!(
        told(fixture, &denied),
        ["the file ./elsewhere/tool --read ./elsewhere/tool"]
    );
}

fn a_program_that_is_not_granted(fixture: &Fixture) {
    fixture.write_program("tools/tool", "#!/bin/sh\n");
    let path = fixture.text("tools");
    let denied = script(
        fixture,
        &[],
        &format!("PATH=/nowhere:{path}:$PATH tool; exec {path}/tool"),
    );
    assert_eq!(
        told(fixture, &denied),
        ["the file ./tools/tool --read ./tools/tool"]
    );
}

fn what_the_guest_has_of_its_own_is_no_denial(fixture: &Fixture) {
    fixture.make_folder("work");
    let all = "cat /etc/passwd /etc/hosts /proc/self/status /dev/null >/tmp/x; ls / /tmp /dev /proc; \
               mkdir /tmp/made; echo >/tmp/made/x; cat /tmp/made/x; cp /bin/true work/t; rm work/t; ls -l work; cat work/none";
    let denied = script(fixture, &["--write", "work"], all);
    assert_eq!(denied, [] as [Value; 0]);
}

fn the_home_is_meant_where_the_guest_has_another(fixture: &Fixture) {
    fixture.write("home/.toolrc", "settings");
    let home = fixture.text("home");
    let read = ["/bin/sh", "-c", "cat ~/.toolrc"];
    watch(fixture, &[], &read).env("HOME", &home).run();
    let denied = denials(fixture);
    let flag = "--read ./home/.toolrc:/tmp/.toolrc";
    assert_eq!(
        told(fixture, &denied),
        [format!("the file ./home/.toolrc {flag}")]
    );
    let (flag, value) = denied[0]["grant"]
        .as_str()
        .unwrap()
        .split_once(' ')
        .unwrap();
    let outcome = watch(fixture, &[flag, value], &read).env("HOME", &home);
    outcome.run().prints("settings");
}

/// Nor is there one by a link that the guest has made.
fn keys_get_no_flag(fixture: &Fixture) {
    fixture.write("home/.ssh/id", "secret");
    fixture.make_folder("work");
    let home = fixture.text("home");
    let all = format!("cat ~/.ssh/id; ln -s {home}/.ssh/id work/harmless; cat work/harmless");
    watch(fixture, &["--write", "work"], &["/bin/sh", "-c", &all])
        .env("HOME", &home)
        .run();
    let denied = denials(fixture);
    assert_eq!(told(fixture, &denied), ["the file ./home/.ssh/id none"]);
    let why = fixture.palisade(["why", "report.json"]).run().text();
    assert!(!why.contains("To allow it"), "{why}");
    assert!(
        why.contains(
            ": it is not granted, and keys and passwords are kept there: grant only what the guest needs of it.\n"
        ),
        "{why}"
    );
}

fn what_is_not_there_either_is_no_denial(fixture: &Fixture) {
    let none = fixture.text("none/at/all");
    let denied = script(
        fixture,
        &[],
        &format!("cat {none}; ls ~/.none; echo >{none}; /none"),
    );
    assert_eq!(told(fixture, &denied), [] as [&str; 0]);
}

fn what_its_user_may_not_read_is_no_denial(fixture: &Fixture) {
    if fixture.user.name() == "root" {
        return;
    }
    fs::write(fixture.path("closed"), "").unwrap();
    let denied = script(fixture, &[], "ls /root/.profile /root/.ssh/id_rsa");
    assert_eq!(denied, [] as [Value; 0]);
}

fn a_thread_and_a_child_are_seen(fixture: &Fixture) {
    fixture.write("one", "");
    fixture.write("two", "");
    let (one, two) = (fixture.text("one"), fixture.text("two"));
    let code = format!(
        "
import os, threading
def look(path):
    try: open(path)
    except OSError: pass
thread = threading.Thread(target=look, args=['{one}'])
thread.start()
thread.join()
if not os.fork():
    look('{two}')
    os._exit(0)
os.wait()"
    );
    python(fixture, &[], &code).is(0);
    assert_eq!(
        told(fixture, &denials(fixture)),
        ["the file ./one --read ./one", "the file ./two --read ./two"]
    );
}

fn many_files_of_a_folder_are_told_as_one(fixture: &Fixture) {
    for name in ["a", "b", "c"] {
        fixture.write(&format!("data/sub/{name}"), "");
    }
    fixture.write("other", "");
    let here = fixture.text("");
    script(
        fixture,
        &[],
        &format!("cat {here}/data/sub/a {here}/other {here}/data/sub/b; head {here}/data/sub/c"),
    );
    let why = fixture.palisade(["why", "report.json"]).run().text();
    let why = why.replace(&here, ".");
    let lines: Vec<_> = why.lines().skip(1).collect();
    assert_eq!(
        lines[0],
        "- cat, head wanted 3 files and folders below ./data/sub: it is not granted; `--read ./data/sub` would open \
         ./data/sub to be read and executed."
    );
    assert!(lines[1].contains("wanted the file ./other"), "{why}");
    let flags = "To allow it: palisade run --watch --report report.json --read ./data/sub --read ./other -- ";
    assert!(lines[2].starts_with(flags), "{why}");
    assert_eq!(
        lines[3..],
        ["In a policy: grants.read = [\"./data/sub\", \"./other\"]"]
    );
}

/// In bounded memory: what names there are is the guest's to choose.
/// It is refused as it is without anybody who looks.
fn who_wants_a_ring_is_told(fixture: &Fixture) {
    let script = "import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(425, 8, ctypes.create_string_buffer(120)) == -1
print(ctypes.get_errno())";
    assert_eq!(python(fixture, &[], script).stdout, b"38\n");
    let denials = denials(fixture);
    let ring: Vec<_> = denials
        .iter()
        .filter(|denial| denial["call"] == "io_uring_setup")
        .collect();
    assert_eq!(ring.len(), 1, "{denials:?}");
    assert_eq!(ring[0]["what"], "io_uring");
    assert_eq!(
        (&ring[0]["grant"], &ring[0]["probe"]),
        (&Value::Null, &Value::Bool(true))
    );
}

fn a_flood_of_names_is_counted(fixture: &Fixture) {
    for index in 0..300 {
        fixture.write(&format!("data/{index}"), "");
    }
    let data = fixture.text("data");
    let code = format!(
        "
import os
for index in range(300): os.path.exists(f'{data}/{{index}}')
for index in range(20000): os.path.exists('/none/' + 'x' * 200 + str(index))"
    );
    python(fixture, &[], &code).is(0);
    let denied = denials(fixture);
    assert_eq!(denied.len(), 257);
    assert_eq!(denied[256]["what"], "more files, or names of none");
    let more = denied[256]["count"].as_u64().unwrap();
    assert!((10_000..=20_100).contains(&more), "{more}");
}

/// What is kept of a name is its bytes, not those of the path that it comes to.
fn long_ways_to_short_paths_are_bounded_too(fixture: &Fixture) {
    let code = "
import os
for index in range(2000): os.path.exists('x/../' * 800 + str(index))";
    python(fixture, &[], code).is(0);
    let denied = denials(fixture);
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(denied[0]["what"], "more files, or names of none");
    let more = denied[0]["count"].as_u64().unwrap();
    assert!((1_700..=2_000).contains(&more), "{more}");
}

fn without_a_report_it_is_printed(fixture: &Fixture) {
    fixture.write("file", "");
    let path = fixture.text("file");
    let outcome = fixture
        .palisade(["run", "--watch", "--", "cat", &path])
        .run();
    outcome.is(1);
    for words in [
        &*format!("\npalisade: denied: the file {path} (cat): --read {path}\n"),
        "with --report FILE, `palisade why FILE`",
    ] {
        assert!(outcome.stderr.contains(words), "{words}: {outcome:?}");
    }
}

fn why_writes_it_to_a_policy(fixture: &Fixture) {
    fixture.write("data/file", "content");
    fixture.make_folder("out");
    fixture.write("policy.toml", "# Mine.\n[grants]\nread = [\"data/file\"]\n");
    let cat = ["/bin/sh", "-c", "cat data/file >out/copy"];
    let flags = ["--policy", "policy.toml"];
    watch(fixture, &flags, &cat).run();
    fixture
        .palisade(["why", "report.json", "--apply", "policy.toml", "--yes"])
        .run()
        .is(0);
    let policy = fixture.read("policy.toml");
    assert!(policy.starts_with("# Mine.\n[grants]\n"), "{policy}");
    watch(fixture, &flags, &cat).run().is_silent(0);
    assert_eq!(fixture.read("out/copy"), "content");
}

/// Same wall, same verdicts.
fn nothing_else_changes(fixture: &Fixture) {
    fixture.write("work/file", "content");
    fixture.write("hidden", "");
    let hidden = fixture.text("hidden");
    let all = format!(
        "cat {hidden}; cd work; cat file; cat none; cp file copy; mv copy moved; ln -s moved link; readlink link; \
         mkdir -p a/b; rmdir a/b; rm link; stat -c %a file; chmod 640 file; stat -c %a file; [ -x file ]; echo $?; \
         find . | sort; ./file; echo $?; echo x >/usr/x; python3 -c 'print(1)'; ls /proc/self/fd; ulimit -n; \
         rm -r a moved; chmod 644 file"
    );
    let run = |flags: &[&str]| {
        let outcome = fixture
            .script(&[flags, &["--write", "work"]].concat(), &all)
            .run();
        let guests = outcome
            .stderr
            .lines()
            .filter(|line| !line.starts_with("palisade: "));
        let errors: Vec<_> = guests.map(str::to_owned).collect();
        (outcome.status.code(), outcome.text(), errors)
    };
    assert_eq!(run(&["--watch"]), run(&[]));
}

fn nothing_is_told_without_it(fixture: &Fixture) {
    fixture.write("file", "");
    let words = ["run", "--report", "report.json", "--", "cat", "file"];
    fixture.palisade(words).run().is(1);
    assert_eq!(denials(fixture), [] as [Value; 0]);
}

/// A call that is only looked at ends as it would have, whatever comes meanwhile: `stat` fails by no signal.
fn signals_take_no_call_back(fixture: &Fixture) {
    let code = "use Time::HiRes qw(setitimer ITIMER_REAL); my ($signals, %failed); \
                $SIG{ALRM} = sub { $signals++ }; setitimer(ITIMER_REAL, 5e-4, 5e-4); \
                until ($signals > 200) { defined stat '/usr/bin/env' or $failed{$!}++ } \
                setitimer(ITIMER_REAL, 0); print join ' ', %failed";
    let outcome = watch(fixture, &[], &["perl", "-e", code]).run();
    outcome.prints("");
}

fn bad_pointers_are_the_guest_s_own_beside_it(fixture: &Fixture) {
    let code = "
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
openat = 257
def ask(path, flags=0):
    libc.syscall(openat, ctypes.c_long(-100), path, ctypes.c_long(flags), ctypes.c_long(0))
    return ctypes.get_errno()
last = mmap.mmap(-1, 2 * 4096)
last.write(b'x' * 8192)
page = ctypes.addressof(ctypes.c_char.from_buffer(last))
libc.mprotect(ctypes.c_void_p(page + 4096), ctypes.c_long(4096), ctypes.c_int(0))
print(ask(ctypes.c_void_p(1)), ask(ctypes.c_void_p(2**63)), ask(ctypes.c_void_p(page + 4090)))
print(ask(ctypes.c_char_p(b'/' + b'x' * 5000)), ask(ctypes.c_char_p(b'')), ask(ctypes.c_char_p(b'/\\xff\\xfe')))";
    python(fixture, &[], code).prints("14 14 14\n36 2 2\n");
    assert_eq!(told(fixture, &denials(fixture)), [] as [&str; 0]);
}

/// What is read of a path decides nothing.
fn a_path_that_changes_meanwhile_gains_nothing(fixture: &Fixture) {
    fixture.write("granted-file", "granted");
    fixture.write("secret-file-", "secret");
    let [granted, secret] = ["granted-file", "secret-file-"].map(|name| fixture.text(name));
    let code = format!(
        "
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
path = ctypes.create_string_buffer(b'{granted}')
names = [b'{granted}', b'{secret}']
done = False
def change():
    while not done:
        for name in names: ctypes.memmove(path, name, len(name))
thread = threading.Thread(target=change)
thread.start()
seen, end = set(), time.monotonic() + 1
while time.monotonic() < end or len(seen) < 2 and time.monotonic() < end + 20:
    fd = libc.open(path, 0)
    seen.add(os.read(fd, 9) if fd >= 0 else None)
    if fd >= 0: os.close(fd)
done = True
thread.join()
print(sorted(seen, key=str))"
    );
    let outcome = python(fixture, &["--read", &granted], &code);
    assert_eq!(outcome.text(), "[None, b'granted']\n");
}

fn names_act_on_no_terminal(fixture: &Fixture) {
    let name = "a\u{1b}[2J\n- forged";
    fixture.write(name, "");
    let path = fixture.text(name);
    watch(fixture, &[], &["cat", &path]).run();
    assert_eq!(denials(fixture).len(), 1);
    let why = fixture.palisade(["why", "report.json"]).run().text();
    assert!(
        !why.contains('\u{1b}') && !why.contains("\n- forged"),
        "{why}"
    );
    assert!(!why.contains("To allow it"), "{why}");
}

fn network_grants_work_beside_it(fixture: &Fixture) {
    fixture.write("hidden", "");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        use std::io::Write;
        listener.accept().unwrap().0.write_all(b"hello").unwrap();
    });
    let hidden = fixture.text("hidden");
    let code = format!(
        "
import os, socket
os.path.exists('{hidden}')
print(socket.create_connection(('127.0.0.1', {})).recv(9))
try: socket.create_connection(('127.0.0.1', 1))
except OSError: pass",
        address.port()
    );
    let grant = format!("tcp://{address}");
    let outcome = python(fixture, &["--connect", &grant], &code);
    assert_eq!(outcome.text(), "b'hello'\n");
    serving.join().unwrap();
    let denied = denials(fixture);
    assert!(
        denied
            .iter()
            .any(|denial| denial["grant"] == "--connect tcp://127.0.0.1:1"),
        "{denied:?}"
    );
    assert_eq!(
        told(fixture, &denied),
        ["the file ./hidden --read ./hidden"]
    );
}

fn without_namespaces_it_refuses(fixture: &Fixture) {
    let flags = ["--watch", "--allow-degraded", "namespaces"];
    super::tiers::run_without_namespaces(fixture, &flags, "true")
        .run()
        .refuses(&["--watch", "namespaces", "palisade doctor"]);
}

fn a_module_is_not_watched(fixture: &Fixture) {
    fixture.write("module.wasm", "\0asm\u{1}\0\0\0");
    fixture
        .palisade(["run", "--watch", "--", "./module.wasm"])
        .run()
        .refuses(&["usage: --watch", "native program"]);
}

fn a_palisade_inside_is_not_watched(fixture: &Fixture) {
    fixture
        .script(&["--watch", "--profile", "palisade"], "true")
        .run()
        .refuses(&["--watch", "one supervisor"]);
}

/// Under the path that the guest has for it.
fn what_is_told_is_what_was_to_be_changed(fixture: &Fixture) {
    fixture.write("g/f", "");
    fixture.make_folder("g/a");
    symlink("f", fixture.path("g/l")).unwrap();
    let here = fixture.text("");
    for (grant, path, told_as, flag) in [
        ("g", "g/l", "g/l", "--write ./g/f"),
        ("g", "g/a/a", "g/a/a", "--write ./g/a"),
        ("g:/x", "/x/l", "g/l", "--write ./g/f:/x/f"),
        ("g/f:/x/b.txt", "/x/b.txt", "g/f", "--write ./g/f:/x/b.txt"),
    ] {
        let denied = script(fixture, &["--read", grant], &format!("echo x >{path}"));
        assert_eq!(
            told(fixture, &denied),
            [format!("write access to ./{told_as} {flag}")]
        );
        let flag = flag.replace("./", &format!("{here}/"));
        let (flag, value) = flag.split_once(' ').unwrap();
        let flags = ["--read", grant, flag, value];
        // The more of two grants of one path stands alone.
        let flags = match value.ends_with(grant) || flags[1] == "g/f:/x/b.txt" {
            true => &flags[2..],
            false => &flags[..],
        };
        let again = format!("echo x >{path}");
        let outcome = watch(fixture, flags, &["/bin/sh", "-c", &again]).run();
        outcome.is_silent(0);
    }
}

fn a_link_itself_is_not_what_it_leads_to(fixture: &Fixture) {
    fixture.write("data/file", "");
    fixture.make_folder("work");
    symlink("../data", fixture.path("work/out")).unwrap();
    let out = fixture.text("out");
    symlink("data", &out).unwrap();
    let code = format!(
        "
import os
os.lstat('work/out'); os.readlink('work/out')
for call in os.readlink, os.unlink, os.lstat:
    try: call('{out}')
    except OSError: pass
try: os.open('{out}', os.O_RDONLY | os.O_NOFOLLOW)
except OSError: pass"
    );
    python(fixture, &["--read", "work"], &code).is(0);
    // A name is removed from its folder.
    assert_eq!(
        told(fixture, &denials(fixture)),
        ["write access to . --write ."]
    );
}

fn what_is_there_already_is_not_made(fixture: &Fixture) {
    fixture.write("home/.toolrc", "");
    fixture.make_folder("work/old");
    let work = fixture.text("work");
    let all = format!("mkdir -p /tmp/a/b {work}/old; mkdir /tmp; cat ~/.toolrc; ls -d {work}");
    watch(fixture, &[], &["/bin/sh", "-c", &all])
        .env("HOME", &fixture.text("home"))
        .run();
    let told = told(fixture, &denials(fixture));
    let of_home = "the file ./home/.toolrc --read ./home/.toolrc:/tmp/.toolrc";
    assert!(told.contains(&of_home.to_owned()), "{told:?}");
    assert!(
        told.iter()
            .all(|line| line == of_home || line.ends_with(" none")),
        "{told:?}"
    );
}

fn a_folder_with_more_than_was_asked_for_is_not_advised(fixture: &Fixture) {
    for name in ["a", "b", "c", ".npmrc"] {
        fixture.write(&format!("data/{name}"), "");
    }
    let data = fixture.text("data");
    script(fixture, &[], &format!("cat {data}/a {data}/b {data}/c"));
    let why = fixture.palisade(["why", "report.json"]).run().text();
    let flags = format!("--read {data}/a --read {data}/b --read {data}/c -- /bin/sh");
    assert!(why.contains(&flags), "{why}");
}

fn a_home_behind_a_link_is_not_advised(fixture: &Fixture) {
    fixture.write("homes/ada/.config/x/y", "");
    symlink("homes", fixture.path("link")).unwrap();
    let home = fixture.text("link/ada");
    let all = format!("ls {home} {home}/.config; cat {home}/.config/x/y");
    watch(fixture, &[], &["/bin/sh", "-c", &all])
        .env("HOME", &home)
        .run();
    assert_eq!(
        told(fixture, &denials(fixture)),
        [
            "the folder ./homes/ada/.config none",
            "the file ./homes/ada/.config/x/y --read ./homes/ada/.config/x/y",
        ]
    );
}

/// As it does where nobody watches.
fn a_signal_ends_a_call_that_waits(fixture: &Fixture) {
    fixture.make_folder("work");
    let code = "
import signal, socket
def end(*_): raise SystemExit(7)
signal.signal(signal.SIGALRM, end)
server = socket.socket(socket.AF_UNIX)
server.bind('/tmp/s')
server.listen(0)
clients = [socket.socket(socket.AF_UNIX) for _ in range(4)]
signal.setitimer(signal.ITIMER_REAL, .5)
for client in clients: client.connect('/tmp/s')";
    // A folder that is granted has connecting looked at.
    python(fixture, &["--read", "work"], code).is(7);
}
