//! What a guest finds around it: variables, working directory, devices, system view, identity.

use super::stage::{Stage, User, cases};
use rustix::fs::{FileType, Mode};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
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
    network,
    host_name,
    descriptors,
];

fn variables(stage: &Stage) {
    let outcome = stage
        .palisade(["run", "--", "/usr/bin/env"])
        .env("SECRET_TOKEN", "hunter2")
        .env("HOME", "/home/somebody")
        .env("LD_PRELOAD", "/evil.so")
        .env("LANG", "C.UTF-8")
        .env("LC_TIME", "C")
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

fn granted_variables(stage: &Stage) {
    let print = "echo \"$A-$B-$C-${D-unset}\"";
    let flags = ["--env", "A=1", "--env", "B", "--env", "C=", "--env", "D"];
    stage
        .script(&flags, print)
        .env("B", "host")
        .env("A", "host")
        .run()
        .prints("1-host--unset\n");
    stage
        .script(&["--env", "A=1", "--env", "A=2"], print)
        .run()
        .prints("2---unset\n");
    stage
        .script(&["--env", "PATH=/bin"], "echo $PATH")
        .run()
        .prints("/bin\n");
}

/// No value of theirs is in a command line, a plan or a report.
fn variables_of_files(stage: &Stage) {
    stage.write(
        "a.env",
        "# comment\n\nA=from $HOME `x` # all of it\nB=file\r\nEMPTY=\nC=1\n",
    );
    stage.write("b.env", "C=2\n");
    stage.write(
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
    stage.script(&flags, print).run().prints(expected);
    // `env` wins, wherever it stands.
    let flags = ["--policy", "policy.toml", "--env-file", "b.env"];
    stage.script(&flags, print).run().prints(expected);
    let flags = ["--env-file", "a.env", "--report", "report.json"];
    stage
        .script(&flags, "tr '\\0' ' ' < /proc/self/cmdline")
        .run()
        .is(0);
    assert!(!stage.read("report.json").contains("all of it"));
    // The host's own value of a name that is granted without one is another source.
    let flags = ["--env-file", "b.env", "--env", "C"];
    let call = stage.script(&flags, "echo $C").env("C", "host");
    call.run().prints("host\n");
}

fn files_of_variables_that_are_none(stage: &Stage) {
    for (text, why) in [
        ("hunter2", "line 1: there is no `=`"),
        (
            "A=1\nhunter2=\"x\"",
            "line 2: the value begins with a quote",
        ),
        ("hunter 2=x", "line 1: the name has a space"),
        ("hunter2=\u{0}", "line 1: "),
    ] {
        stage.write("x.env", text);
        let outcome = stage.script(&["--env-file", "x.env"], "true").run();
        outcome.refuses(&["policy: cannot use the file of variables ", why]);
        assert!(!outcome.stderr.contains("hunter"), "{outcome:?}");
    }
    stage.make_fifo("fifo");
    stage.make_folder("folder");
    for name in ["fifo", "folder", "absent", "/dev/zero", "/proc/self/mem"] {
        let outcome = stage.script(&["--env-file", name], "true").run();
        outcome.refuses(&["policy: cannot use the file of variables "]);
    }
    stage.write("x.env", &"A=1\n".repeat(1 << 19));
    let outcome = stage.script(&["--env-file", "x.env"], "true").run();
    outcome.refuses(&["larger than"]);
}

/// A guest that writes one chooses the variables of the next guest; by a link it would choose the file.
fn files_of_variables_in_reach(stage: &Stage) {
    stage.write("work/x.env", "A=1\n");
    stage.write("y.env", "A=2\n");
    symlink(stage.path("y.env"), stage.path("work/link.env")).unwrap();
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
            stage
                .palisade(words)
                .run()
                .refuses(&["policy: the guest could rewrite the file of variables"]);
        }
    }
    let flags = ["--read", "work", "--env-file", "work/x.env"];
    stage.script(&flags, "echo $A").run().prints("1\n");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/x.env",
        "--env-file",
        "work/x.env",
    ];
    stage.script(&flags, "echo $A").run().prints("1\n");
}

/// Where palisade was started if the guest can see that, else the root.
fn working_directory(stage: &Stage) {
    stage.script(&[], "pwd").run().prints("/\n");
    stage
        .script(&["--read", "."], "pwd")
        .run()
        .prints(&format!("{}\n", stage.text("")));
    stage.write("file", "content");
    stage
        .script(&["--read", ".:/elsewhere"], "pwd")
        .run()
        .prints("/\n");
}

fn chosen_working_directory(stage: &Stage) {
    stage
        .script(&["--cwd", "/usr"], "pwd")
        .run()
        .prints("/usr\n");
    stage
        .script(&["--cwd", "/tmp"], "pwd; touch here")
        .run()
        .prints("/tmp\n");
    stage.make_folder("work/deep");
    stage
        .script(&["--write", "work:/work", "--cwd", "/work/deep"], "pwd")
        .run()
        .prints("/work/deep\n");
    stage
        .script(&["--write", "work", "--cwd", "work"], "pwd")
        .run()
        .prints(&format!("{}\n", stage.text("work")));
}

fn system_view(stage: &Stage) {
    stage
        .script(
            &[],
            "test -x /usr/bin/env && test -e /etc/passwd && test -r /etc/os-release",
        )
        .run()
        .is_silent(0);
    for place in ["/usr/bin", "/etc", "/", "/bin", "/proc", "/dev"] {
        let outcome = stage
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

fn no_system(stage: &Stage) {
    stage
        .palisade(["run", "--no-system", "--", "/bin/sh", "-c", "true"])
        .run()
        .says(127, &["not found"]);
    // Palisade is a static program itself.
    let grant = format!("{}:/program", stage.program().display());
    let outcome = stage
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

fn nothing_personal(stage: &Stage) {
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
        stage
            .script(&[], &format!("test -e {place}"))
            .run()
            .is_silent(1);
    }
    let names = stage
        .script(&[], "cut -d: -f1 /etc/passwd | tr '\\n' ' '")
        .run();
    assert_eq!(names.text(), "root guest nobody ");
}

/// Init, the shell and what the shell has started.
fn processes(stage: &Stage) {
    stage
        .script(&[], "set /proc/[0-9]*; echo $1 $#; test $2 = /proc/$$")
        .run()
        .prints("/proc/1 2\n");
    stage
        .script(&[], "kill -0 -1 && kill -KILL 1; echo still here")
        .run()
        .is(0);
}

fn devices(stage: &Stage) {
    let list = stage.script(&[], "cd /dev; echo *").run();
    assert_eq!(
        list.text(),
        "fd full null ptmx random shm stderr stdin stdout urandom zero\n"
    );
    stage
        .script(&[], "echo x > /dev/null; head -c 4 /dev/zero | wc -c")
        .run()
        .prints("4\n");
    let with_terminals = stage
        .script(&["--device", "pts"], "test -c /dev/pts/ptmx && echo yes")
        .run();
    with_terminals.prints("yes\n");
    stage.script(&[], "test -e /dev/tty").run().is_silent(1);
    stage
        .script(&["--device", "/dev/tty"], "test -c /dev/tty")
        .run()
        .is_silent(0);
}

fn identity(stage: &Stage) {
    let id = match stage.user {
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
    stage
        .script(&[], "echo $(id -u) $(id -g) $(id -G)")
        .run()
        .prints(&format!("{id}\n"));
    stage.script(&[], "id -un").run().prints("guest\n");
}

fn capabilities(stage: &Stage) {
    let wanted = "NoNewPrivs:\t1 Seccomp:\t2 CapInh:\t0000000000000000 CapPrm:\t0000000000000000 \
                  CapEff:\t0000000000000000 CapBnd:\t0000000000000000 CapAmb:\t0000000000000000 ";
    let script = "for name in NoNewPrivs Seccomp CapInh CapPrm CapEff CapBnd CapAmb; do \
                  grep ^$name: /proc/self/status | tr '\\n' ' '; done";
    stage.script(&[], script).run().prints(wanted);
}

fn network(stage: &Stage) {
    stage
        .script(&[], "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '")
        .run()
        .prints("lo\n");
}

fn host_name(stage: &Stage) {
    stage.script(&[], "uname -n").run().prints("palisade\n");
}

/// Nothing that palisade, or whoever started it, had open. The listing has one of its own.
fn descriptors(stage: &Stage) {
    stage
        .palisade(["run", "--", "/bin/ls", "/proc/self/fd"])
        .run()
        .prints("0\n1\n2\n3\n");
}

/// What root made, and only root can: nodes outside `/dev`, and a link to one.
fn devices_of_other_names(stage: &Stage) {
    if stage.user != User::Root {
        return;
    }
    let make = |name: &str, kind, (major, minor), mode: u32| {
        let (path, device) = (stage.path(name), rustix::fs::makedev(major, minor));
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, Mode::empty(), device).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    make("zero", FileType::CharacterDevice, (1, 5), 0o666);
    // What is for root alone is not for the guest: the grant shows a device, it does not open it.
    make("closed", FileType::CharacterDevice, (1, 5), 0o600);
    // The machine's memory; and some disk, where there is one of these numbers.
    make("memory", FileType::CharacterDevice, (1, 1), 0o600);
    make("disk", FileType::BlockDevice, (254, 0), 0o600);
    symlink("zero", stage.path("link")).unwrap();
    let read = |name: &str| {
        let path = stage.text(name);
        let script = format!("head -c 2 {path} | od -An -tx1");
        stage.script(&["--device", &path], &script).run()
    };
    read("zero").prints(" 00 00\n");
    read("link").prints(" 00 00\n");
    for name in ["closed", "memory", "disk"] {
        let outcome = read(name);
        assert!(outcome.stderr.contains("Permission denied"), "{outcome:?}");
    }
    // In a granted folder nodes are none.
    let script = "cat zero; cat link";
    let outcome = stage.script(&["--read", "."], script).run();
    assert_eq!(
        outcome.stderr.matches("Permission denied").count(),
        2,
        "{outcome:?}"
    );
}

fn devices_that_are_none(stage: &Stage) {
    stage.write("file", "");
    stage.make_fifo("fifo");
    let (file, fifo) = (stage.text("file"), stage.text("fifo"));
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
        let outcome = stage.script(&["--device", path], "true").run();
        outcome.refuses(&["policy: ", path, why]);
    }
}
