//! What a guest tries in vain without any network grant, and what it wrote and cannot execute: told with the flag.

use super::{
    fixture::{Fixture, cases},
    person::{PROMPT, Person},
};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;

cases![
    a_program_that_was_written_names_the_flag,
    a_script_of_the_own_tmpfs_names_it_too,
    a_relative_name_is_seen_from_wherever_it_leads,
    a_name_of_the_path_is_one_as_well,
    a_new_link_to_one_is_one_too,
    a_thread_is_seen,
    a_name_in_an_open_folder_is_seen,
    a_terminal_shows_it,
    the_guest_s_own_program_names_it,
    the_execution_flag_that_is_told_works,
    what_cannot_be_executed_anyway_is_no_denial,
    an_address_is_told,
    a_name_is_told,
    a_name_is_told_beside_a_folder,
    a_name_is_told_beside_network_grants,
    a_flood_is_counted,
    a_flood_beside_a_folder_is_counted,
    bad_pointers_are_the_guest_s_own,
    programs_start_as_without_anybody_looking,
];

/// The denials of a run with these flags.
fn denials(fixture: &Fixture, flags: &[&str], command: &[&str]) -> Vec<Value> {
    let words = ["run", "--report", "report.json"].iter().chain(flags);
    let outcome = fixture.palisade(words.chain(&["--"]).chain(command)).run();
    outcome.is(3);
    let report: Value = serde_json::from_str(&fixture.read("report.json")).unwrap();
    report["denials"].as_array().unwrap().clone()
}

fn by_shell(fixture: &Fixture, flags: &[&str], script: &str) -> Vec<Value> {
    denials(fixture, flags, &["/bin/bash", "-c", script])
}

fn by_python(fixture: &Fixture, flags: &[&str], script: &str) -> Vec<Value> {
    denials(fixture, flags, &["/usr/bin/python3", "-c", script])
}

fn told(denials: &[Value]) -> Vec<(&str, &str)> {
    denials
        .iter()
        .filter(|denial| denial["probe"] != true)
        .map(|denial| {
            (
                denial["what"].as_str().unwrap(),
                denial["grant"].as_str().unwrap_or_default(),
            )
        })
        .collect()
}

fn a_program_that_was_written_names_the_flag(fixture: &Fixture) {
    fixture.make_folder("work");
    let work = fixture.text("work");
    let script = "cd work; cp /bin/true t; ./t; exit 3";
    let denied = by_shell(fixture, &["--write", "work"], script);
    let (what, flag) = (
        format!("the execution of {work}/t"),
        format!("--exec {work}"),
    );
    assert_eq!(told(&denied), [(what.as_str(), flag.as_str())]);
    assert_eq!(denied[0]["call"], "execve");
    let text = fixture
        .palisade(["why", "report.json"])
        .run()
        .is_silent(0)
        .text();
    assert!(
        text.contains("/t: what the guest can write is not executed; `--exec "),
        "{text}"
    );
}

fn a_script_of_the_own_tmpfs_names_it_too(fixture: &Fixture) {
    let script =
        r#"printf '#!/bin/sh\nexit 0\n' > /tmp/s; chmod +x /tmp/s; /tmp/s; cd /tmp; ./s; exit 3"#;
    let denied = by_shell(fixture, &[], script);
    assert_eq!(told(&denied), [("the execution of /tmp/s", "--exec /tmp")]);
    assert_eq!(denied[0]["count"], 2);
}

/// By who stands where programs are executed, and by who stood there when it named one before.
fn a_relative_name_is_seen_from_wherever_it_leads(fixture: &Fixture) {
    fixture.make_folder("work");
    let script = "cp /bin/true /tmp/s; cd /usr/bin; ./true && ../../tmp/s; cd /tmp && ./s; cd /usr; bin/true && exit 3";
    for flags in [&[][..], &["--read", "work"], &["--write", "work"]] {
        let denied = by_shell(fixture, flags, script);
        assert_eq!(told(&denied), [("the execution of /tmp/s", "--exec /tmp")]);
        assert_eq!(denied[0]["count"], 2, "{flags:?}");
    }
}

/// As npm runs what packages bring.
fn a_name_of_the_path_is_one_as_well(fixture: &Fixture) {
    fixture.make_folder("work");
    fixture.make_folder("work/bin");
    fixture.make_folder("work/lib");
    fixture.write_program("work/lib/tool", "#!/bin/sh\n");
    symlink("../lib/tool", fixture.path("work/bin/tool")).unwrap();
    let work = fixture.text("work");
    let script = "cd work; PATH=$PWD/bin:$PATH; tool; exit 3";
    let denied = by_shell(fixture, &["--write", "work"], script);
    let (what, flag) = (
        format!("the execution of {work}/lib/tool"),
        format!("--exec {work}"),
    );
    assert_eq!(told(&denied), [(what.as_str(), flag.as_str())]);
}

/// Nobody has followed them before: their times of access are due, and the kernel does not follow them by heart.
fn a_new_link_to_one_is_one_too(fixture: &Fixture) {
    fixture.make_folder("work");
    let work = fixture.text("work");
    let script = "
import os, shutil, sys
def run(path):
    try: os.execv(path, ['t'])
    except PermissionError: pass
for folder in ('/tmp', sys.argv[1]):
    os.chdir(folder)
    shutil.copy('/bin/true', 't')
    links = [('t', 'relative'), (folder + '/t', 'absolute'), ('circle', 'circle')]
    for target, link in links: os.symlink(target, link)
    os.mkdir('below')
    os.symlink('../t', 'below/up')
    for link in ('relative', folder + '/absolute', 'below/up'): run(link)
    try: os.execv('circle', ['t'])
    except OSError: pass
    run('t')
os._exit(3)";
    let flags = ["--write", "work"];
    let denied = denials(fixture, &flags, &["/usr/bin/python3", "-c", script, &work]);
    let (what, flag) = (
        format!("the execution of {work}/t"),
        format!("--exec {work}"),
    );
    let own = ("the execution of /tmp/t", "--exec /tmp");
    assert_eq!(told(&denied), [own, (what.as_str(), flag.as_str())]);
    assert_eq!(
        (&denied[0]["count"], &denied[1]["count"]),
        (&json!(4), &json!(4))
    );
}

fn a_thread_is_seen(fixture: &Fixture) {
    let script = "
import os, shutil, threading
shutil.copy('/bin/true', '/tmp/t')
def run():
    try: os.execv('/tmp/t', ['t'])
    except PermissionError: pass
thread = threading.Thread(target=run)
thread.start()
thread.join()
os._exit(3)";
    let denied = by_python(fixture, &[], script);
    assert_eq!(told(&denied), [("the execution of /tmp/t", "--exec /tmp")]);
}

/// With somebody between the guest and init, and without.
fn a_name_in_an_open_folder_is_seen(fixture: &Fixture) {
    fixture.make_folder("work");
    let script = "
import ctypes, os, shutil
shutil.copy('/bin/true', '/tmp/t')
os.chdir('/')
folder = os.open('/tmp', os.O_PATH)
words = (ctypes.c_char_p * 2)(b't', None)
EXECVEAT = 322
ctypes.CDLL(None).syscall(EXECVEAT, folder, b't', words, words, 0)
os._exit(3)";
    for flags in [&[][..], &["--read", "work"]] {
        let denied = by_python(fixture, flags, script);
        assert_eq!(told(&denied), [("the execution of /tmp/t", "--exec /tmp")]);
    }
}

fn a_terminal_shows_it(fixture: &Fixture) {
    let mut person = Person::sit_down(fixture);
    person.types("$P run -- sh -c 'cp /bin/true /tmp/t; /tmp/t'\n");
    person
        .sees("palisade: denied: the execution of /tmp/t: --exec /tmp\r\n")
        .sees(PROMPT);
}

fn the_guest_s_own_program_names_it(fixture: &Fixture) {
    fixture.make_folder("work");
    fixture.write_program("work/t", "#!/bin/sh\nexit 0\n");
    let work = fixture.text("work");
    let flag = format!("--exec {work}");
    let run = |flags: &[&str]| {
        let words = ["run", "--write", "work"].iter().chain(flags);
        fixture.palisade(words.chain(&["--", "work/t"])).run()
    };
    run(&[]).says(126, &["'work/t' cannot be executed", &flag]);
    run(&["--exec", "work"]).is_silent(0);
    fixture.write("work/plain", "");
    let words = ["run", "--write", "work", "--", "work/plain"];
    let outcome = fixture.palisade(words).run();
    outcome.says(126, &["cannot be executed: Permission denied"]);
    assert!(!outcome.stderr.contains("--exec"), "{outcome:?}");
}

fn the_execution_flag_that_is_told_works(fixture: &Fixture) {
    let script = "cp /bin/true /tmp/t; /tmp/t; exit 3";
    let denied = by_shell(fixture, &[], script);
    let (_, flag) = told(&denied)[0];
    let flags: Vec<_> = flag.split(' ').collect();
    assert_eq!(by_shell(fixture, &flags, script), [Value::Null; 0]);
}

/// Not there, not executable, or nothing that anybody executes.
fn what_cannot_be_executed_anyway_is_no_denial(fixture: &Fixture) {
    let script = ": > /tmp/t; /tmp/t; /tmp/none; /tmp; /usr/bin/none; exit 3";
    assert_eq!(by_shell(fixture, &[], script), [Value::Null; 0]);
}

fn an_address_is_told(fixture: &Fixture) {
    let script = "for to in 192.0.2.1/443 192.0.2.1/443 127.0.0.1/5432; do : < /dev/tcp/$to; done; \
                  : < /dev/udp/192.0.2.7/99; exit 3";
    fixture.make_folder("work");
    for flags in [&[][..], &["--read", "work"]] {
        let denied = by_shell(fixture, flags, script);
        assert_eq!(
            told(&denied),
            [
                (
                    "a connection to tcp://192.0.2.1:443",
                    "--connect tcp://192.0.2.1:443"
                ),
                (
                    "a connection to tcp://127.0.0.1:5432",
                    "--connect tcp://127.0.0.1:5432"
                ),
                (
                    "a connection to udp://192.0.2.7:99",
                    "--connect udp://192.0.2.7:99"
                ),
            ]
        );
        assert_eq!(denied[0]["count"], 2);
        assert_eq!(denied[0]["process"]["name"], "bash");
    }
}

const LOOKUP: &str = "
import os, socket
try: socket.getaddrinfo('Example.com', 80)
except socket.gaierror as error: assert error.errno == socket.EAI_NONAME, error
os._exit(3)";

/// One name, whatever other tries belong to it.
fn is_the_name(denied: &[Value]) {
    assert_eq!(
        told(denied),
        [("the name example.com", "--connect tcp://example.com:443")]
    );
    assert_eq!(denied[0]["process"]["name"], "python3");
}

fn a_name_is_told(fixture: &Fixture) {
    is_the_name(&by_python(fixture, &[], LOOKUP));
}

fn a_name_is_told_beside_a_folder(fixture: &Fixture) {
    fixture.make_folder("work");
    is_the_name(&by_python(fixture, &["--write", "work"], LOOKUP));
}

fn a_name_is_told_beside_network_grants(fixture: &Fixture) {
    for grant in ["tcp://127.0.0.1:1", "udp://127.0.0.1:1"] {
        is_the_name(&by_python(fixture, &["--connect", grant], LOOKUP));
    }
}

const FLOOD: &str = "for i in {1..100}; do cp /bin/true $i; ./$i; done 2> /dev/null; exit 3";

fn is_counted(denied: &[Value]) {
    assert_eq!(denied.len(), 33, "{denied:?}");
    assert_eq!(denied[32]["what"], "more that was refused, all different");
    // Of each that was looked at; a look may miss one while others mount.
    let more = denied[32]["count"].as_u64().unwrap();
    assert!((50..=68).contains(&more), "{more}");
}

fn a_flood_is_counted(fixture: &Fixture) {
    is_counted(&by_shell(fixture, &[], &format!("cd /tmp; {FLOOD}")));
}

fn a_flood_beside_a_folder_is_counted(fixture: &Fixture) {
    fixture.make_folder("work");
    is_counted(&by_shell(
        fixture,
        &["--write", "work"],
        &format!("cd work; {FLOOD}"),
    ));
}

/// Whoever looks cannot read them, and the kernel says so.
fn bad_pointers_are_the_guest_s_own(fixture: &Fixture) {
    let script = "
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
kept = socket.socket(type=socket.SOCK_DGRAM)
fd = kept.fileno()
def fails(result, *expected):
    assert result == -1 and ctypes.get_errno() in expected, (result, ctypes.get_errno())
for bad in (0, 1, 2**47, 2**64 - 1):
    pointer = ctypes.c_void_p(bad)
    fails(libc.execve(pointer, None, None), errno.EFAULT)
    fails(libc.connect(fd, pointer, 16), errno.EFAULT)
    fails(libc.sendto(fd, pointer, 5, 0, pointer, 28), errno.EFAULT, errno.EDESTADDRREQ)
    fails(libc.sendmmsg(fd, pointer, 2, 0), errno.EFAULT)
os._exit(3)";
    fixture.make_folder("work");
    for flags in [&[][..], &["--read", "work"]] {
        assert_eq!(by_python(fixture, flags, script), [Value::Null; 0]);
    }
}

fn programs_start_as_without_anybody_looking(fixture: &Fixture) {
    fixture.make_folder("work");
    let script = r#"cd /bin && ./echo "$0" && bash -c 'exec -a name sh -c "echo \$0"' &&
        env -i A=1 /usr/bin/env && for i in 1 2 3 4 5 6 7 8; do (/bin/true &) ; done; wait; seq 3 | xargs -n1 -P3 true; echo end"#;
    for flags in [&[][..], &["--write", "work"]] {
        let command = ["--", "/bin/bash", "-c", script, "zero"];
        let words = ["run"].iter().chain(flags).chain(&command);
        fixture
            .palisade(words)
            .run()
            .prints("zero\nname\nA=1\nend\n");
    }
}
