//! What a guest finds around it: variables, working directory, devices, system view, identity.

use super::fixture::{Fixture, User, cases};
use rustix::fs::{FileType, Mode};
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
        process::CommandExt,
    },
};

cases![
    variables,
    granted_variables,
    variables_of_files,
    files_of_variables_that_are_none,
    files_of_variables_in_reach,
    working_directory,
    chosen_working_directory,
    system_view,
    no_system,
    nothing_personal,
    processes,
    devices,
    devices_of_other_names,
    devices_that_are_none,
    identity,
    capabilities,
    clone3_makes_processes_alone,
    clone3_is_absent_beside_control_groups,
    network,
    host_name,
    descriptors,
    a_user_that_no_file_knows,
];

/// Without `HOME` its home is asked for, and the C library would load what it asks by into a static program.
fn a_user_that_no_file_knows(fixture: &Fixture) {
    const UNKNOWN: u32 = 61_234;
    let mut call = fixture.script(&["--grantable"], "echo runs");
    if rustix::process::geteuid().is_root() {
        call.command.uid(UNKNOWN).gid(UNKNOWN);
    }
    call.command.current_dir("/");
    call.run().prints("runs\n");
}

fn variables(fixture: &Fixture) {
    let outcome = fixture
        .palisade(["run", "--", "/usr/bin/env"])
        .env("SECRET_TOKEN", "hunter2")
        .env("HOME", "/home/somebody")
        .env("LD_PRELOAD", "/evil.so")
        .env("LANG", "C.UTF-8")
        .env("LC_TIME", "C")
        .env("LC_TOKEN", "hunter2")
        .env("TERM", "xterm")
        .run();
    outcome.is_silent(0);
    let text = outcome.text();
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "HOME=/tmp",
            "LANG=C.UTF-8",
            "LC_TIME=C",
            "LOGNAME=guest",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "TERM=xterm",
            "USER=guest",
        ]
    );
}

fn granted_variables(fixture: &Fixture) {
    let print = "echo \"$A-$B-$C-${D-unset}\"";
    let flags = ["--env", "A=1", "--env", "B", "--env", "C=", "--env", "D"];
    fixture
        .script(&flags, print)
        .env("B", "host")
        .env("A", "host")
        .run()
        .prints("1-host--unset\n");
    fixture
        .script(&["--env", "A=1", "--env", "A=2"], print)
        .run()
        .prints("2---unset\n");
    fixture
        .script(&["--env", "PATH=/bin"], "echo $PATH")
        .run()
        .prints("/bin\n");
}

/// No value of theirs is in a command line, a plan or a report.
fn variables_of_files(fixture: &Fixture) {
    fixture.write(
        "a.env",
        "# comment\n\nA=from $HOME `x` # all of it\nB=file\r\nEMPTY=\nC=1\n",
    );
    fixture.write("b.env", "C=2\n");
    fixture.write(
        "policy.toml",
        "[grants]\nenv-file = ['a.env']\nenv = ['B=typed']\n",
    );
    let print = "echo \"$A-$B-$C-${EMPTY-unset}\"";
    let flags = [
        "--env-file",
        "a.env",
        "--env-file",
        "b.env",
        "-e",
        "B=typed",
    ];
    let expected = "from $HOME `x` # all of it-typed-2-\n";
    fixture.script(&flags, print).run().prints(expected);
    // `env` wins, wherever it stands.
    let flags = ["--policy", "policy.toml", "--env-file", "b.env"];
    fixture.script(&flags, print).run().prints(expected);
    let flags = ["--env-file", "a.env", "--report", "report.json"];
    fixture
        .script(&flags, "tr '\\0' ' ' < /proc/self/cmdline")
        .run()
        .is(0);
    assert!(!fixture.read("report.json").contains("all of it"));
    // The host's own value of a name that is granted without one is another source.
    let flags = ["--env-file", "b.env", "--env", "C"];
    let call = fixture.script(&flags, "echo $C").env("C", "host");
    call.run().prints("host\n");
}

fn files_of_variables_that_are_none(fixture: &Fixture) {
    for (text, why) in [
        ("hunter2", "line 1: there is no `=`"),
        (
            "A=1\nhunter2=\"x\"",
            "line 2: the value begins with a quote",
        ),
        ("hunter 2=x", "line 1: the name has a space"),
        ("hunter2=\u{0}", "line 1: "),
    ] {
        fixture.write("x.env", text);
        let outcome = fixture.script(&["--env-file", "x.env"], "true").run();
        outcome.refuses(&["policy: cannot use the file of variables ", why]);
        assert!(!outcome.stderr.contains("hunter"), "{outcome:?}");
    }
    fixture.make_fifo("fifo");
    fixture.make_folder("folder");
    for name in ["fifo", "folder", "absent", "/dev/zero", "/proc/self/mem"] {
        let outcome = fixture.script(&["--env-file", name], "true").run();
        outcome.refuses(&["policy: cannot use the file of variables "]);
    }
    fixture.write("x.env", &"A=1\n".repeat(1 << 19));
    let outcome = fixture.script(&["--env-file", "x.env"], "true").run();
    outcome.refuses(&["larger than"]);
}

/// A guest that writes one chooses the variables of the next guest; by a link it would choose the file.
fn files_of_variables_in_reach(fixture: &Fixture) {
    fixture.write("work/x.env", "A=1\n");
    fixture.write("y.env", "A=2\n");
    symlink(fixture.path("y.env"), fixture.path("work/link.env")).unwrap();
    for file in ["work/x.env", "work/link.env"] {
        for verb in ["run", "explain"] {
            let words = [
                verb,
                "--write",
                "work",
                "--env-file",
                file,
                "--",
                "/bin/true",
            ];
            fixture
                .palisade(words)
                .run()
                .refuses(&["policy: the guest could rewrite the file of variables"]);
        }
    }
    let flags = ["--read", "work", "--env-file", "work/x.env"];
    fixture.script(&flags, "echo $A").run().prints("1\n");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/x.env",
        "--env-file",
        "work/x.env",
    ];
    fixture.script(&flags, "echo $A").run().prints("1\n");
}

/// Where palisade was started if the guest can see that, else the root.
fn working_directory(fixture: &Fixture) {
    fixture.script(&[], "pwd").run().prints("/\n");
    fixture
        .script(&["--read", "."], "pwd")
        .run()
        .prints(&format!("{}\n", fixture.text("")));
    fixture.write("file", "content");
    fixture
        .script(&["--read", ".:/elsewhere"], "pwd")
        .run()
        .prints("/\n");
}

fn chosen_working_directory(fixture: &Fixture) {
    fixture
        .script(&["--cwd", "/usr"], "pwd")
        .run()
        .prints("/usr\n");
    fixture
        .script(&["--cwd", "/tmp"], "pwd; touch here")
        .run()
        .prints("/tmp\n");
    fixture.make_folder("work/deep");
    fixture
        .script(&["--write", "work:/work", "--cwd", "/work/deep"], "pwd")
        .run()
        .prints("/work/deep\n");
    fixture
        .script(&["--write", "work", "--cwd", "work"], "pwd")
        .run()
        .prints(&format!("{}\n", fixture.text("work")));
}

fn system_view(fixture: &Fixture) {
    fixture
        .script(
            &[],
            "test -x /usr/bin/env && test -e /etc/passwd && test -r /etc/os-release",
        )
        .run()
        .is_silent(0);
    for place in ["/usr/bin", "/etc", "/", "/bin", "/proc", "/dev"] {
        let outcome = fixture
            .script(
                &[],
                &format!("touch {place}/new 2>/tmp/why || cat /tmp/why"),
            )
            .run();
        assert!(
            ["Read-only", "denied", "No such"]
                .iter()
                .any(|why| outcome.text().contains(why)),
            "{place}: {outcome:?}"
        );
    }
}

fn no_system(fixture: &Fixture) {
    fixture
        .palisade(["run", "--no-system", "--", "/bin/sh", "-c", "true"])
        .run()
        .says(127, &["not found"]);
    // Palisade is a static program itself.
    let grant = format!("{}:/program", fixture.program().display());
    let outcome = fixture
        .palisade([
            "run",
            "--no-system",
            "--read",
            &grant,
            "--",
            "/program",
            "--version",
        ])
        .run();
    outcome.is_silent(0);
    assert!(outcome.text().starts_with("palisade "));
}

fn nothing_personal(fixture: &Fixture) {
    for place in [
        "/home",
        "/root",
        "/var",
        "/run",
        "/sys",
        "/mnt",
        "/etc/shadow",
        "/etc/hostname",
        "/etc/machine-id",
    ] {
        fixture
            .script(&[], &format!("test -e {place}"))
            .run()
            .is_silent(1);
    }
    let names = fixture
        .script(&[], "cut -d: -f1 /etc/passwd | tr '\\n' ' '")
        .run();
    assert_eq!(names.text(), "root guest nobody ");
}

/// Init, the shell and what the shell has started.
fn processes(fixture: &Fixture) {
    fixture
        .script(&[], "set /proc/[0-9]*; echo $1 $#; test $2 = /proc/$$")
        .run()
        .prints("/proc/1 2\n");
    fixture
        .script(&[], "kill -0 -1 && kill -KILL 1; echo still here")
        .run()
        .is(0);
}

fn devices(fixture: &Fixture) {
    let list = fixture.script(&[], "cd /dev; echo *").run();
    assert_eq!(
        list.text(),
        "fd full null ptmx random shm stderr stdin stdout urandom zero\n"
    );
    fixture
        .script(&[], "echo x > /dev/null; head -c 4 /dev/zero | wc -c")
        .run()
        .prints("4\n");
    let with_terminals = fixture
        .script(&["--device", "pts"], "test -c /dev/pts/ptmx && echo yes")
        .run();
    with_terminals.prints("yes\n");
    fixture.script(&[], "test -e /dev/tty").run().is_silent(1);
    fixture
        .script(&["--device", "/dev/tty"], "test -c /dev/tty")
        .run()
        .is_silent(0);
}

fn identity(fixture: &Fixture) {
    let id = match fixture.user {
        User::Root => "1000 1000 1000",
        User::Ordinary => {
            let ids = [
                rustix::process::geteuid().as_raw(),
                rustix::process::getegid().as_raw(),
            ];
            let [uid, gid] = if ids[0] == 0 { [65534, 65534] } else { ids };
            &format!("{uid} {gid} {gid}")
        }
    };
    fixture
        .script(&[], "echo $(id -u) $(id -g) $(id -G)")
        .run()
        .prints(&format!("{id}\n"));
    fixture.script(&[], "id -un").run().prints("guest\n");
}

fn capabilities(fixture: &Fixture) {
    let wanted = "NoNewPrivs:\t1 Seccomp:\t2 CapInh:\t0000000000000000 CapPrm:\t0000000000000000 \
                  CapEff:\t0000000000000000 CapBnd:\t0000000000000000 CapAmb:\t0000000000000000 ";
    let script = "for name in NoNewPrivs Seccomp CapInh CapPrm CapEff CapBnd CapAmb; do \
                  grep ^$name: /proc/self/status | tr '\\n' ' '; done";
    fixture.script(&[], script).run().prints(wanted);
}

/// Prints what clone3(2) says to each of these flags: a process, or an error number.
const CLONE3: &str = "import ctypes, os, struct
call = ctypes.CDLL(None, use_errno=True).syscall
def clone3(flags, *more):
    words = struct.pack('11Q', flags, 0, 0, 0, 17, 0, 0, 0, *(more or (0, 0, 0)))
    child = call(435, words, len(words))
    if child == 0: os._exit(0)
    if child < 0: return ctypes.get_errno()
    os.waitpid(child, 0)
    return 'a process'
";

/// Namespaces and chosen numbers take what no guest has, and a user namespace is one too many: `EPERM` and `ENOSPC`.
fn clone3_makes_processes_alone(fixture: &Fixture) {
    let flags = "(0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x20000000, 0x40000000)";
    let script = format!(
        "{CLONE3}
chosen = (ctypes.c_int * 1)(4000)
print(clone3(0), [clone3(flag) for flag in {flags}], [clone3(0x10000000 | flag) for flag in (0,) + {flags}],
    clone3(0, ctypes.addressof(chosen), 1, 0), clone3(0x200000000, 0, 0, 0), open('/proc/sys/user/max_user_namespaces').read())
"
    );
    let outcome = fixture
        .palisade(["run", "--", "/usr/bin/python3", "-c", &script])
        .run();
    outcome.prints(&format!("a process {:?} {:?} 1 9 0\n\n", [1; 7], [28; 8]));
}

/// An open folder of theirs is where a new process can begin, and an ordinary user may be allowed that.
fn clone3_is_absent_beside_control_groups(fixture: &Fixture) {
    let script = format!("{CLONE3}\nprint(clone3(0))");
    let python = ["--", "/usr/bin/python3", "-c", &script];
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_there = mounts.lines().any(|line| line.contains(" - cgroup"));
    let is_ordinary = fixture.user == User::Ordinary;
    let expected = match is_ordinary && is_there {
        true => "38\n",
        false => "a process\n",
    };
    let words = ["run", "--read", "/sys"].iter().chain(&python);
    fixture.palisade(words).run().prints(expected);
    // Whoever listens there could pass one.
    let socket = fixture.text("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let expected = match is_ordinary {
        true => "38\n",
        false => "a process\n",
    };
    let grant = format!("unix:{socket}");
    let words = ["run", "--connect", &grant].into_iter().chain(python);
    fixture.palisade(words).run().prints(expected);
}

fn network(fixture: &Fixture) {
    fixture
        .script(&[], "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '")
        .run()
        .prints("lo\n");
}

fn host_name(fixture: &Fixture) {
    fixture.script(&[], "uname -n").run().prints("palisade\n");
}

/// Nothing that palisade, or whoever started it, had open. The listing has one of its own.
fn descriptors(fixture: &Fixture) {
    fixture
        .palisade(["run", "--", "/bin/ls", "/proc/self/fd"])
        .run()
        .prints("0\n1\n2\n3\n");
}

/// What root made, and only root can: nodes outside `/dev`, and a link to one.
fn devices_of_other_names(fixture: &Fixture) {
    if fixture.user != User::Root {
        return;
    }
    let make = |name: &str, kind, (major, minor), mode: u32| {
        let (path, device) = (fixture.path(name), rustix::fs::makedev(major, minor));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::empty(), device).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    make("zero", FileType::CharacterDevice, (1, 5), 0o666);
    // What is for root alone is not for the guest: the grant shows a device, it does not open it.
    make("closed", FileType::CharacterDevice, (1, 5), 0o600);
    // The machine's memory; and some disk, where there is one of these numbers.
    make("memory", FileType::CharacterDevice, (1, 1), 0o600);
    make("disk", FileType::BlockDevice, (254, 0), 0o600);
    symlink("zero", fixture.path("link")).unwrap();
    let read = |name: &str| {
        let path = fixture.text(name);
        let script = format!("head -c 2 {path} | od -An -tx1");
        fixture.script(&["--device", &path], &script).run()
    };
    read("zero").prints(" 00 00\n");
    read("link").prints(" 00 00\n");
    for name in ["closed", "memory", "disk"] {
        let outcome = read(name);
        assert!(outcome.stderr.contains("Permission denied"), "{outcome:?}");
    }
    // In a granted folder nodes are none.
    let script = "cat zero; cat link";
    let outcome = fixture.script(&["--read", "."], script).run();
    assert_eq!(
        outcome.stderr.matches("Permission denied").count(),
        2,
        "{outcome:?}"
    );
}

fn devices_that_are_none(fixture: &Fixture) {
    fixture.write("file", "");
    fixture.make_fifo("fifo");
    let (file, fifo) = (fixture.text("file"), fixture.text("fifo"));
    for (path, why) in [
        (file.as_str(), "is not a device node"),
        (&fifo, "is not a device node"),
        ("/dev/shm", "is not a device node"),
        ("/dev/no-such-device", "does not exist"),
        ("/dev/stdin", "a name that the domain has of its own"),
        ("/dev/fd/0", "a name that the domain has of its own"),
        ("/dev/ptmx", "a name that the domain has of its own"),
        ("/dev/pts/0", "a name that the domain has of its own"),
        ("/proc/self/fd/0", "a name that the domain has of its own"),
    ] {
        let outcome = fixture.script(&["--device", path], "true").run();
        outcome.refuses(&["policy: ", path, why]);
    }
}
