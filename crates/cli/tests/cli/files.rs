//! Granted files and folders: what may be done there, and what may not.

use super::fixture::{Fixture, User, cases, kill_and_await_keeper, read_line, wait};
use std::{
    fs,
    io::BufReader,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixListener,
    },
    path::Path,
    process::{Child, ChildStdout, Command},
};

cases![
    read_only,
    single_file,
    read_if_there,
    missing_in_a_writable_folder_it_stays_missing,
    writable,
    written_files_belong_to_the_starter,
    mapped_to_another_path,
    in_place_of_what_the_domain_has,
    mounts_made_later_do_not_appear,
    below_private_tmp,
    in_place_of_private_tmp,
    writable_in_read_only,
    read_only_in_writable,
    nested_three_deep,
    a_mount_point_cannot_be_moved,
    protect_file,
    protect_folder,
    protected_parents_cannot_be_moved,
    protect_what_does_not_exist,
    protect_below_what_does_not_exist,
    protect_much_that_does_not_exist,
    two_domains_protect_the_same,
    a_killed_domain_leaves_the_other_protected,
    placeholder_is_gone_after_sigkill,
    placeholder_that_somebody_filled_stays,
    links_do_not_lead_out,
    private_tmp_is_private,
    written_programs_do_not_run,
    granted_exec,
    granted_exec_of_a_folder_to_come,
    memory_files_do_not_run,
    setuid_cannot_be_made,
    special_files,
    secrets_of_others_stay_unreadable,
    keys_and_tokens_are_not_in_the_system_view,
    imagemagick_refuses_inside_what_it_refuses_outside,
    maven_finds_its_settings,
    what_a_group_may_read_is_not_in_the_system_view,
    nobody_waits_for_a_guest_s_lease,
    the_system_view_is_not_watched,
    the_boot_has_no_name,
    sockets_in_granted_folders_are_not_granted,
    a_socket_cannot_be_put_in_the_place_of_another,
];

fn read_if_there(fixture: &Fixture) {
    fixture.write("data/file", "content\n");
    let flags = ["--read-if-there", "data", "--read-if-there", "absent"];
    let script =
        "cat data/file; ls -d absent 2>/dev/null; ls; echo x 2>/dev/null > data/file || echo kept";
    fixture
        .script(&flags, script)
        .run()
        .prints("content\ndata\nkept\n");
    fixture.write("policy.toml", "grants.read-if-there = ['data', 'absent']");
    fixture
        .script(&["--policy", "policy.toml"], script)
        .run()
        .prints("content\ndata\nkept\n");
    // Whoever may not look does not know.
    if fixture.user == User::Ordinary {
        fixture
            .script(&["--read-if-there", "/root/x"], "true")
            .run()
            .refuses(&["policy: /root/x"]);
    }
}

/// Where it is there, a read grant inside a write grant withholds.
fn missing_in_a_writable_folder_it_stays_missing(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = ["--write", "work", "--read-if-there", "work/vendor"];
    let script = "mkdir work/vendor; echo evil > work/vendor/x; touch work/other; echo done";
    let outcome = fixture.script(&flags, script).run();
    assert_eq!(outcome.text(), "done\n", "{outcome:?}");
    assert!(!fixture.exists("work/vendor") && fixture.exists("work/other"));
}

/// Debian's policy refuses PDF, which Ghostscript would read.
fn imagemagick_refuses_inside_what_it_refuses_outside(fixture: &Fixture) {
    const PDF: &str = "%!PS-Adobe-3.0\n%%BoundingBox: 0 0 9 9\n0 0 9 9 rectfill showpage\n";
    fixture.write("in.ps", PDF);
    let folder = fixture.text("");
    let convert = "/usr/bin/convert-im6.q16 ps:in.ps out.png";
    let outside = fixture.call(Path::new("/bin/sh"), ["-c", convert]).run();
    let inside = fixture.script(&["--write", &folder], convert).run();
    for outcome in [&outside, &inside] {
        assert!(outcome.stderr.contains("security policy"), "{outcome:?}");
    }
    assert!(!fixture.exists("out.png"));
    // It is the policy that refuses, and nothing else of the wall.
    let without = "MAGICK_CONFIGURE_PATH=/tmp /usr/bin/convert-im6.q16 xc:red out.png";
    fixture.script(&["--write", &folder], without).run().is(0);
}

fn maven_finds_its_settings(fixture: &Fixture) {
    let script = "test -r /etc/maven/m2.conf && ls /etc/maven";
    let outcome = fixture.script(&[], script).run();
    outcome.is_silent(0);
    assert!(outcome.text().contains("settings.xml"), "{outcome:?}");
}

/// Whatever of it this host has.
fn keys_and_tokens_are_not_in_the_system_view(fixture: &Fixture) {
    let hidden = "/etc/ssl/private /etc/pki/tls/private /etc/npmrc /etc/pip.conf /etc/gitconfig /etc/profile \
                  /etc/bash.bashrc";
    let script = format!("for path in {hidden}; do if test -e $path; then echo $path; fi; done");
    fixture.script(&[], &script).run().prints("");
    let on_host = hidden
        .split_whitespace()
        .any(|path| fs::exists(path).unwrap());
    assert!(on_host, "nothing to hide on this host");
    if fs::exists("/etc/ssl/certs/ca-certificates.crt").unwrap() {
        let script = "test -s /etc/ssl/certs/ca-certificates.crt && test -s /etc/ssl/openssl.cnf";
        fixture.script(&[], script).run().prints("");
    }
}

/// An ordinary user keeps the groups that palisade was started with. Root makes a host with such files;
/// who is not root has no way to, and shows that what there is stays readable.
fn what_a_group_may_read_is_not_in_the_system_view(fixture: &Fixture) {
    const GROUP: &str = "12345";
    const HOST: &str = "mount -t tmpfs etc /etc/ssl && mkdir -m 755 /etc/ssl/certs && mkdir -m 710 /etc/ssl/private \
        && echo secret > /etc/ssl/private/key && echo secret > /etc/ssl/certs/both.pem && echo fine > /etc/ssl/certs/a.pem \
        && ln -s a.pem /etc/ssl/certs/a.0 && chgrp 12345 /etc/ssl/private /etc/ssl/private/key /etc/ssl/certs/both.pem \
        && chmod 640 /etc/ssl/private/key /etc/ssl/certs/both.pem && exec \"$@\"";
    let read = "cat /etc/ssl/private/key /etc/ssl/certs/both.pem; cat /etc/ssl/certs/a.0; ls /etc/ssl/certs";
    if !rustix::process::geteuid().is_root() {
        fixture.script(&[], "test -d /etc/ssl/certs").run().is(0);
        return;
    }
    let program = fixture.program().to_str().unwrap();
    let become_user = match fixture.user {
        User::Root => "--reuid=0",
        User::Ordinary => "--reuid=65534",
    };
    for flags in [&[][..], &["--allow-degraded", "namespaces"]] {
        let limit = match flags {
            [] => "exec \"$@\"",
            _ => {
                "exec unshare -Ur sh -c 'echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"' sh \"$@\""
            }
        };
        let mut call = Command::new("/usr/bin/unshare");
        call.args(["--mount", "sh", "-c", HOST, "sh", "setpriv", become_user])
            .args([
                "--regid=65534",
                "--groups",
                GROUP,
                "sh",
                "-c",
                limit,
                "sh",
                program,
                "run",
            ])
            .args(flags)
            .args(["--", "sh", "-c", read])
            .current_dir(fixture.path(""))
            .stdin(std::process::Stdio::null());
        let output = call.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("secret"), "{flags:?}: {output:?}");
        assert!(said.contains("fine\n"), "{flags:?}: {output:?}");
    }
}

/// A program in Python that makes one call of the C library.
fn calls(fixture: &Fixture, flags: &[&str], call: &str) -> String {
    let program = format!(
        "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\n\
         r = {call}\nprint('done' if r >= 0 else ctypes.get_errno())"
    );
    let words = ["run"].iter().chain(flags).copied();
    let outcome = fixture
        .palisade(words.chain(["--", "python3", "-c", &program]))
        .run();
    outcome.is(0);
    outcome.text()
}

fn nobody_waits_for_a_guest_s_lease(fixture: &Fixture) {
    fixture.write("data/file", "x");
    let file = "os.open('data/file', 0)";
    let folder = "os.open('data', 0)";
    for (fd, command, argument) in [
        (file, 1024, 0),
        (folder, 1026, 1),
        ("os.open('/usr/bin', 0)", 1026, 1),
    ] {
        let call = format!("c.fcntl({fd}, {command}, {argument})");
        for grant in ["--read", "--write"] {
            assert_eq!(calls(fixture, &[grant, "data"], &call), "1\n", "{call}");
        }
    }
    let own = "c.fcntl(os.open('data/file', 0), 3, 0)";
    assert_eq!(calls(fixture, &["--read", "data"], own), "done\n");
}

fn the_system_view_is_not_watched(fixture: &Fixture) {
    fixture.write("data/file", "x");
    let watch = |path: &str| format!("c.inotify_add_watch(c.inotify_init(), b'{path}', 0x20)");
    assert_eq!(calls(fixture, &[], &watch("/usr/bin")), "13\n");
    assert_eq!(
        calls(fixture, &["--read", "data/file"], &watch("/usr/bin")),
        "13\n"
    );
    assert_eq!(
        calls(fixture, &["--write", "data"], &watch("data")),
        "done\n"
    );
}

/// A server of the host's that tells who connects.
fn serve(fixture: &Fixture, name: &str) -> UnixListener {
    let listener = UnixListener::bind(fixture.path(name)).unwrap();
    fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

const CONNECT: &str = "import socket, sys\n\
     for path in sys.argv[1:]:\n\
     \ts = socket.socket(socket.AF_UNIX)\n\
     \ttry: s.connect(path); print('connected')\n\
     \texcept OSError as error: print(error.errno)\n";

fn sockets_in_granted_folders_are_not_granted(fixture: &Fixture) {
    fixture.make_folder("data/run");
    let servers = ["data/agent", "data/run/agent"].map(|name| serve(fixture, name));
    std::os::unix::fs::symlink("data/agent", fixture.path("link")).unwrap();
    let connect = |flags: &[&str], paths: &[&str]| {
        let words = ["run"].iter().chain(flags);
        let guest = ["--", "python3", "-c", CONNECT];
        let call = fixture.palisade(words.chain(&guest).chain(paths).copied());
        let outcome = call.run();
        outcome.is(0);
        let reached = servers
            .iter()
            .filter(|server| server.accept().is_ok())
            .count();
        (outcome.text(), reached)
    };
    let refused = |text: &str| (text.to_owned(), 0);
    let all = ["data/agent", "data/run/agent", "data/none", "data"];
    for grant in ["--read", "--write"] {
        assert_eq!(connect(&[grant, "data"], &all), refused("13\n13\n2\n111\n"));
    }
    let through = ["--read", "data", "--read", "link:/tmp/agent"];
    assert_eq!(
        connect(&through, &["/tmp/agent"]),
        ("connected\n".to_owned(), 1)
    );
    // The path of a granted socket, which its guest has made to lead to another.
    let moved = format!(
        "import os\nos.rename('/tmp/a', '/tmp/b'); os.mkdir('/tmp/a'); os.symlink({:?}, '/tmp/a/place')\n{CONNECT}",
        fixture.text("data")
    );
    let place = format!("unix:{}:/tmp/a/place", fixture.text("data/run/agent"));
    let flags = ["run", "--read", "data", "--connect", &place];
    let words = ["--", "python3", "-c", &moved, "data/agent"];
    let call = fixture.palisade(flags.iter().chain(&words).copied()).run();
    assert_eq!(call.text(), "13\n", "{call:?}");
    let ipc = ["--write", "data", "--ipc", "data/run"];
    assert_eq!(connect(&ipc, &all[..2]), ("13\nconnected\n".to_owned(), 1));
    let socket = format!("unix:{}", fixture.text("data/agent"));
    let granted = ["--read", "data", "--connect", &socket];
    assert_eq!(
        connect(&granted, &all[..2]),
        ("connected\n13\n".to_owned(), 1)
    );
    // What guests do among themselves.
    let own = "import multiprocessing.managers, socket\n\
         l = socket.socket(socket.AF_UNIX); l.bind('/tmp/own'); l.listen()\n\
         c = socket.socket(socket.AF_UNIX); c.connect('/tmp/own')\n\
         a = socket.socket(socket.AF_UNIX); a.bind('\\0own'); a.listen()\n\
         c = socket.socket(socket.AF_UNIX); c.connect('\\0own')\n\
         m = multiprocessing.managers.SyncManager(); m.start(); print(m.list([1]))\n\
         t = socket.socket()\n\
         try: t.connect(('127.0.0.1', 1))\n\
         except OSError as error: print(error.errno)\n";
    let outcome = fixture
        .palisade(["run", "--read", "data", "--", "python3", "-c", own])
        .run();
    assert_eq!(outcome.text(), "[1]\n13\n", "{outcome:?}");
}

/// Neither by a link that turns while the path is looked at, nor by moving it to where sockets are met.
fn a_socket_cannot_be_put_in_the_place_of_another(fixture: &Fixture) {
    const TURN: &str = "import os, socket, threading, time\n\
         l = socket.socket(socket.AF_UNIX); l.bind('/tmp/own'); l.listen(4096)\n\
         os.symlink('/tmp/own', '/tmp/link')\n\
         end = time.monotonic() + 1\n\
         def turn():\n\
         \twhile time.monotonic() < end:\n\
         \t\tfor target in (HOST, '/tmp/own'):\n\
         \t\t\tos.symlink(target, '/tmp/next'); os.rename('/tmp/next', '/tmp/link')\n\
         threading.Thread(target=turn).start()\n\
         while time.monotonic() < end:\n\
         \ts = socket.socket(socket.AF_UNIX)\n\
         \ttry: s.connect('/tmp/link')\n\
         \texcept OSError: pass\n";
    fixture.make_folder("data/run");
    let server = serve(fixture, "data/agent");
    let host = format!("HOST = '{}'\n", fixture.text("data/agent"));
    let flags = ["run", "--read", "data", "--", "python3", "-c"];
    let outcome = fixture
        .palisade(flags.iter().copied().chain([&*(host + TURN)]))
        .run();
    outcome.is(0);
    let program = "import os\n\
         for call, name in ((os.link, 'link'), (os.rename, 'moved')):\n\
         \ttry: call('data/agent', 'data/run/' + name)\n\
         \texcept OSError as error: print(error.errno)\n\
         try: os.rename('data/run', 'data/away')\n\
         except OSError as error: print(error.errno)\n";
    let flags = ["--write", "data", "--ipc", "data/run"];
    let words = ["run"].iter().chain(&flags).copied();
    let outcome = fixture
        .palisade(words.chain(["--", "python3", "-c", program]))
        .run();
    assert_eq!(outcome.text(), "18\n18\n16\n", "{outcome:?}");
    assert!(server.accept().is_err(), "somebody connected");
}

fn the_boot_has_no_name(fixture: &Fixture) {
    let name = "/proc/sys/kernel/random/boot_id";
    assert!(!fs::read_to_string(name).unwrap().is_empty());
    fixture.script(&[], &format!("cat {name}")).run().prints("");
}

fn read_only(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let flags = ["--read", "data"];
    fixture
        .script(&flags, "cat data/file")
        .run()
        .prints("content");
    for act in [
        "echo x > data/file",
        "echo x >> data/file",
        "rm data/file",
        "touch data/new",
        "mkdir data/new",
        "mv data/file data/other",
        "chmod 777 data/file",
        "ln -s x data/link",
        "truncate -s 0 data/file",
    ] {
        let outcome = fixture.script(&flags, act).run();
        assert_ne!(outcome.code(), 0, "{act}");
        assert!(outcome.stderr.contains("Read-only"), "{act}: {outcome:?}");
    }
    assert_eq!(fixture.read("data/file"), "content");
}

fn single_file(fixture: &Fixture) {
    fixture.write("data/one", "1");
    fixture.write("data/two", "2");
    fixture
        .script(&["--read", "data/one"], "cat data/one; ls data")
        .run()
        .prints("1one\n");
    fixture
        .script(&["--write", "data/one"], "echo changed > data/one; ls data")
        .run()
        .prints("one\n");
    assert_eq!(fixture.read("data/one"), "changed\n");
    let outcome = fixture
        .script(&["--write", "data/one"], "rm data/one")
        .run();
    assert_ne!(outcome.code(), 0, "{outcome:?}");
    assert!(fixture.exists("data/one"));
}

fn writable(fixture: &Fixture) {
    fixture.write("data/file", "content");
    let acts = "cd data && echo new > file && mkdir -p a/b && echo x > a/b/c && mv a/b/c d && ln -s d e && rm -r a && chmod 600 d && cat e";
    fixture
        .script(&["--write", "data"], acts)
        .run()
        .prints("x\n");
    assert_eq!(fixture.read("data/file"), "new\n");
    assert!(fixture.exists("data/d") && fixture.exists("data/e") && !fixture.exists("data/a"));
}

fn written_files_belong_to_the_starter(fixture: &Fixture) {
    fixture.make_folder("data");
    fixture
        .script(
            &["--write", "data"],
            "echo x > data/new; mkdir data/folder; stat -c %U data/new",
        )
        .run()
        .prints("guest\n");
    let owner = fs::metadata(fixture.path("data")).unwrap();
    for name in ["data/new", "data/folder"] {
        let new = fs::metadata(fixture.path(name)).unwrap();
        assert_eq!((new.uid(), new.gid()), (owner.uid(), owner.gid()), "{name}");
    }
}

/// Not even where mounts spread from one namespace to the next, as on most hosts, and not into a read grant.
fn mounts_made_later_do_not_appear(fixture: &Fixture) {
    const SCRIPT: &str = r#"
        cd "$1" && mount -t tmpfs none . && cd "$1" && mount --make-shared . || exit 1
        mkdir -p granted/below && chmod -R 755 . && mkfifo go || exit 1
        setpriv --reuid="$2" --regid="$2" --clear-groups "$3" run --read granted:/granted -- \
            /bin/sh -c 'echo ready; read go; ls /granted/below; echo end' <go >out &
        exec 9>go
        until grep -q ready out; do kill -0 $! || exit 1; done
        mount -t tmpfs late granted/below && touch granted/below/late && echo go >&9
        wait && cat out
    "#;
    let id = fs::metadata(fixture.path("")).unwrap().uid().to_string();
    let (place, program) = (fixture.text(""), fixture.program().to_str().unwrap());
    let words = [
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        SCRIPT,
        "sh",
        &place,
        &id,
        program,
    ];
    let output = Command::new("unshare").args(words).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        told,
        "ready\nend\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn mapped_to_another_path(fixture: &Fixture) {
    fixture.write("data/file", "content");
    fixture
        .script(&["--read", "data:/mnt/data"], "cat /mnt/data/file")
        .run()
        .prints("content");
    fixture
        .script(
            &["--read", "data:/mnt/data"],
            &format!("test -e {}", fixture.text("data")),
        )
        .run()
        .is_silent(1);
    fixture
        .script(&["--write", "data:/work"], "echo new > /work/file")
        .run()
        .is_silent(0);
    assert_eq!(fixture.read("data/file"), "new\n");
    fixture
        .script(&["--read", "data/file:/etc/hosts"], "cat /etc/hosts")
        .run()
        .prints("new\n");
    fixture.write("a:b", "colon");
    fixture
        .script(&["--read", r"a\:b:/c"], "cat /c")
        .run()
        .prints("colon");
}

/// What a domain has of its own at `/etc` is made beside mounts, by another process: nothing of it may land in a folder that is
/// granted there, nor where that leads.
fn in_place_of_what_the_domain_has(fixture: &Fixture) {
    for folder in ["data", "elsewhere"] {
        fixture.make_folder(folder);
    }
    let elsewhere = fixture.path("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, fixture.path("data/ssl")).unwrap();
    for _ in 0..10 {
        for flag in ["--write", "--read"] {
            let call = fixture.script(&[flag, "data:/etc"], "ls /etc");
            call.run().prints("ssl\n");
        }
        for host in ["/etc", "/etc/ssl"] {
            let call = fixture.script(&["--read-if-there", host], "test -e /etc/hosts");
            call.run().is_silent(0);
        }
    }
    let left = |folder: &str| fs::read_dir(fixture.path(folder)).unwrap().count();
    assert_eq!([left("data"), left("elsewhere")], [1, 0]);
}

fn below_private_tmp(fixture: &Fixture) {
    fixture.write("data/file", "content");
    fixture
        .script(
            &["--read", "data:/tmp/data"],
            "cat /tmp/data/file; ls /tmp; touch /tmp/new",
        )
        .run()
        .prints("contentdata\n");
    fixture
        .script(&["--write", "data:/tmp/data"], "mv /tmp/data /tmp/other")
        .run()
        .is(1);
}

fn in_place_of_private_tmp(fixture: &Fixture) {
    fixture.make_folder("scratch");
    fixture
        .script(&["--write", "scratch:/tmp"], "echo x > /tmp/left")
        .run()
        .is_silent(0);
    assert_eq!(fixture.read("scratch/left"), "x\n");
}

fn writable_in_read_only(fixture: &Fixture) {
    fixture.write("project/source", "s");
    fixture.write("project/target/old", "o");
    fixture.write("project/state", "0");
    let flags = [
        "--read",
        "project",
        "--write",
        "project/target",
        "--write",
        "project/state",
    ];
    fixture
        .script(
            &flags,
            "cd project; echo new > target/new; echo 1 > state; cat source target/old",
        )
        .run()
        .prints("so");
    assert_eq!(
        fixture.read("project/target/new") + &fixture.read("project/state"),
        "new\n1\n"
    );
    for act in [
        "echo x > project/source",
        "touch project/new",
        "mv project/target project/t",
        "rm project/state",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
    }
}

fn read_only_in_writable(fixture: &Fixture) {
    fixture.write("project/source", "s");
    fixture.write("project/vendor/lib", "v");
    let flags = ["--write", "project", "--read", "project/vendor"];
    fixture
        .script(&flags, "cd project; echo new > source; cat vendor/lib")
        .run()
        .prints("v");
    for act in [
        "echo x > project/vendor/lib",
        "touch project/vendor/new",
        "rm -r project/vendor",
        "mv project/vendor project/v",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
    }
    assert_eq!(fixture.read("project/vendor/lib"), "v");
}

fn nested_three_deep(fixture: &Fixture) {
    fixture.write("a/b/c/d/file", "0");
    let flags = [
        "--read", "a", "--write", "a/b", "--read", "a/b/c", "--write", "a/b/c/d",
    ];
    fixture
        .script(&flags, "echo 1 > a/b/c/d/file; touch a/b/new")
        .run()
        .is_silent(0);
    for act in [
        "touch a/new",
        "touch a/b/c/new",
        "mv a/b/c a/b/x",
        "mv a/b a/x",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
    }
    assert_eq!(fixture.read("a/b/c/d/file"), "1\n");
}

/// What lies on the way to a nested grant is held in place too.
fn a_mount_point_cannot_be_moved(fixture: &Fixture) {
    fixture.write("a/on/the/way/file", "0");
    let flags = ["--write", "a", "--read", "a/on/the/way"];
    for act in [
        "mv a/on a/off",
        "mv a/on/the a/on/that",
        "rm -rf a/on",
        "mkdir a/x; mv -T a/x a/on",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
        assert_eq!(fixture.read("a/on/the/way/file"), "0", "{act}");
    }
    fixture
        .script(&flags, "touch a/on/new a/on/the/new")
        .run()
        .is_silent(0);
}

fn protect_file(fixture: &Fixture) {
    fixture.write("work/.env", "SECRET=1");
    fixture.write("work/other", "");
    let flags = ["--write", "work", "--protect", "work/.env"];
    for act in [
        "echo x > work/.env",
        "rm -f work/.env",
        "mv work/.env work/e",
        "mv -f work/other work/.env",
        "ln -f work/other work/.env",
        "chmod 777 work/.env",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
        assert_eq!(fixture.read("work/.env"), "SECRET=1", "{act}");
    }
    fixture
        .script(&flags, "cat work/.env; echo y > work/other")
        .run()
        .prints("SECRET=1");
}

fn protect_folder(fixture: &Fixture) {
    fixture.write("work/.git/hooks/pre-commit", "#!/bin/sh\n");
    fixture.write("work/.git/config", "");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/.git/hooks",
        "--no-guard",
    ];
    for act in [
        "echo x >> work/.git/hooks/pre-commit",
        "touch work/.git/hooks/post-commit",
        "rm -r work/.git/hooks",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
    }
    fixture
        .script(&flags, "echo x > work/.git/config; touch work/.git/index")
        .run()
        .is_silent(0);
    assert_eq!(fixture.read("work/.git/hooks/pre-commit"), "#!/bin/sh\n");
}

fn protected_parents_cannot_be_moved(fixture: &Fixture) {
    fixture.write("work/a/b/kept", "0");
    let flags = ["--write", "work", "--protect", "work/a/b/kept"];
    for act in [
        "mv work/a work/x",
        "mv work/a/b work/a/x",
        "mv work/a/b /tmp/",
        "rm -rf work/a",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
        assert_eq!(fixture.read("work/a/b/kept"), "0", "{act}");
    }
}

fn protect_what_does_not_exist(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = ["--write", "work", "--protect", "work/.env"];
    for act in [
        "echo x > work/.env",
        "mkdir work/.env",
        "ln -s /etc/passwd work/.env",
        "touch work/o; mv -f work/o work/.env",
        "rm -f work/.env",
    ] {
        assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
        assert!(
            !fixture.exists("work/.env"),
            "the placeholder is gone: {act}"
        );
    }
    fixture
        .script(&flags, "touch work/other")
        .run()
        .is_silent(0);
}

fn protect_below_what_does_not_exist(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = ["--write", "work", "--protect", "work/.git/hooks/pre-commit"];
    let act = "mkdir -p work/.git/hooks; echo evil > work/.git/hooks/pre-commit";
    assert_ne!(fixture.script(&flags, act).run().code(), 0);
    assert!(
        !fixture.exists("work/.git"),
        "{:?}",
        fs::read_dir(fixture.path("work"))
            .unwrap()
            .collect::<Vec<_>>()
    );
}

/// Some of it below one missing folder, some of it that folder.
fn protect_much_that_does_not_exist(fixture: &Fixture) {
    fixture.make_folder("work");
    for paths in [
        [".git/hooks", ".git/config", ".env"],
        [".git", ".git/hooks", ".git/hooks/x"],
    ] {
        let paths = paths.map(|path| format!("work/{path}"));
        let flags: Vec<_> = paths
            .iter()
            .flat_map(|path| ["--protect", path])
            .chain(["--write", "work"])
            .collect();
        for act in [
            "mkdir -p work/.git/hooks",
            "mkdir work/.git && touch work/.git/config",
            "ln -s / work/.git",
        ] {
            assert_ne!(fixture.script(&flags, act).run().code(), 0, "{act}");
        }
        fixture
            .script(&flags, "touch work/other")
            .run()
            .is_silent(0);
        assert_eq!(
            fs::read_dir(fixture.path("work")).unwrap().count(),
            1,
            "only what was written"
        );
        fs::remove_file(fixture.path("work/other")).unwrap();
    }
}

/// A domain that holds `work/.env` until its input ends, then tries to write it.
fn hold_protected(fixture: &Fixture) -> (Child, BufReader<ChildStdout>) {
    let flags = ["--write", "work", "--protect", "work/.env"];
    let script = "echo ready; read go; echo evil > work/.env && echo written";
    let mut child = fixture.script(&flags, script).spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    (child, stdout)
}

#[track_caller]
fn is_still_protected(fixture: &Fixture, (mut child, mut stdout): (Child, BufReader<ChildStdout>)) {
    assert!(fixture.exists("work/.env"), "still held");
    drop(child.stdin.take());
    assert_eq!(read_line(&mut stdout), "", "not written");
    wait(&mut child);
    assert!(!fixture.exists("work/.env"), "gone with the last");
}

/// One domain's end must not take the placeholder away under the other, whichever came first.
fn two_domains_protect_the_same(fixture: &Fixture) {
    fixture.make_folder("work");
    for first_ends_first in [false, true] {
        let (first, second) = (hold_protected(fixture), hold_protected(fixture));
        let (one, other) = if first_ends_first {
            (first, second)
        } else {
            (second, first)
        };
        let (mut child, _stdout) = one;
        drop(child.stdin.take());
        wait(&mut child);
        is_still_protected(fixture, other);
    }
}

/// Nor must a sudden end, after which the keeper cleans.
fn a_killed_domain_leaves_the_other_protected(fixture: &Fixture) {
    fixture.make_folder("work");
    for first_is_killed in [false, true] {
        let (first, second) = (hold_protected(fixture), hold_protected(fixture));
        let (one, other) = if first_is_killed {
            (first, second)
        } else {
            (second, first)
        };
        kill_and_await_keeper(one.0);
        is_still_protected(fixture, other);
    }
}

fn placeholder_is_gone_after_sigkill(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/.env",
        "--protect",
        "work/.git/hooks",
    ];
    let mut child = fixture.script(&flags, "echo ready; sleep 60").spawn();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    assert_eq!(read_line(&mut stdout), "ready\n");
    assert!(fixture.exists("work/.env") && fixture.exists("work/.git"));
    kill_and_await_keeper(child);
    assert!(!fixture.exists("work/.env") && !fixture.exists("work/.git"));
}

/// Somebody outside may write to it meanwhile; that is not palisade's to remove.
fn placeholder_that_somebody_filled_stays(fixture: &Fixture) {
    fixture.make_folder("work");
    let (mut child, _stdout) = hold_protected(fixture);
    fs::set_permissions(fixture.path("work/.env"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(fixture.path("work/.env"), "from outside").unwrap();
    drop(child.stdin.take());
    wait(&mut child);
    assert_eq!(fixture.read("work/.env"), "from outside");
}

fn links_do_not_lead_out(fixture: &Fixture) {
    fixture.write("secret", "hunter2");
    fixture.make_folder("work");
    let secret = fixture.text("secret");
    let outcome = fixture
        .script(
            &["--write", "work"],
            &format!("ln -s {secret} work/link; cat work/link"),
        )
        .run();
    assert_eq!(
        (outcome.code(), outcome.text().as_str()),
        (1, ""),
        "{outcome:?}"
    );
    let outcome = fixture
        .script(&["--write", "work"], "cat work/../secret")
        .run();
    assert_eq!(
        (outcome.code(), outcome.text().as_str()),
        (1, ""),
        "{outcome:?}"
    );
}

fn private_tmp_is_private(fixture: &Fixture) {
    let name = fixture
        .path("")
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    fixture
        .script(
            &[],
            &format!("ls -A /tmp /dev/shm; echo x > /tmp/{name}; echo x > /dev/shm/{name}"),
        )
        .run()
        .prints("/dev/shm:\n\n/tmp:\n");
    for place in ["/tmp", "/dev/shm"] {
        assert!(!fs::exists(format!("{place}/{name}")).unwrap());
    }
}

fn written_programs_do_not_run(fixture: &Fixture) {
    fixture.make_folder("work");
    for place in ["/tmp", "/dev/shm", "work"] {
        let outcome = fixture
            .script(
                &["--write", "work"],
                &format!("cp /bin/echo {place}/echo && exec {place}/echo ran"),
            )
            .run();
        assert_eq!(
            (outcome.code(), outcome.text().as_str()),
            (126, ""),
            "{place}: {outcome:?}"
        );
    }
    let by_loader = "cp /bin/true /tmp/true && exec /lib64/ld-linux-x86-64.so.2 /tmp/true";
    assert_ne!(
        fixture.script(&[], by_loader).run().code(),
        0,
        "nor by way of the dynamic linker"
    );
    let as_interpreter =
        "cp /bin/cat /tmp/cat; printf '#!/tmp/cat\\n' > /tmp/s; chmod +x /tmp/s; exec /tmp/s";
    assert_ne!(fixture.script(&[], as_interpreter).run().code(), 0);
}

/// It is made, and stays.
fn granted_exec_of_a_folder_to_come(fixture: &Fixture) {
    fixture.make_folder("work");
    let flags = ["--write", "work", "--exec", "work/bin"];
    fixture.script(&flags, "[ -d work/bin ]").run().is(0);
    assert!(fixture.exists("work/bin"));
    let run = "cp /bin/echo work/bin/echo && exec work/bin/echo ran";
    fixture.script(&flags, run).run().prints("ran\n");
    assert!(fixture.exists("work/bin/echo"));
    // Not what a link leads to, and no more than one.
    fixture.make_folder("elsewhere");
    std::os::unix::fs::symlink(fixture.path("elsewhere"), fixture.path("work/link")).unwrap();
    std::os::unix::fs::symlink("nowhere", fixture.path("work/dangling")).unwrap();
    for missing in ["work/link/new", "work/new/bin", "work/dangling"] {
        fixture
            .script(&["--write", "work", "--exec", missing], "true")
            .run()
            .refuses(&["--exec", "mkdir -p"]);
    }
    assert!(!fixture.exists("elsewhere/new") && !fixture.exists("work/new"));
    assert!(!fixture.exists("work/nowhere"));
    // What is protected in it would come into being with it, in the guest's hands.
    for kept in [
        ["--protect", "work/new/kept"],
        ["--read-if-there", "work/new/a/kept"],
    ] {
        let flags = [&["--write", "work", "--exec", "work/new"][..], &kept].concat();
        let act = "mkdir -p work/new/a; echo evil > work/new/kept; echo evil > work/new/a/kept";
        fixture
            .script(&flags, act)
            .run()
            .refuses(&["--exec", "mkdir -p"]);
        assert!(!fixture.exists("work/new"));
    }
}

fn granted_exec(fixture: &Fixture) {
    fixture.make_folder("work/bin");
    let run = |place: &str| format!("cp /bin/echo {place}/echo && exec {place}/echo ran");
    fixture
        .script(&["--exec", "/tmp"], &run("/tmp"))
        .run()
        .prints("ran\n");
    fixture
        .script(&["--write", "work", "--exec", "work"], &run("work/bin"))
        .run()
        .prints("ran\n");
    fixture
        .script(&["--write", "work", "--exec", "work/bin"], &run("work/bin"))
        .run()
        .prints("ran\n");
    fixture
        .script(&["--write", "work", "--exec", "work/bin"], &run("work"))
        .run()
        .is(126);
    fixture
        .script(&["--write", "work", "--exec", "work/bin"], &run("/tmp"))
        .run()
        .is(126);
    fixture
        .script(&["--exec", "/tmp"], &run("/dev/shm"))
        .run()
        .is(126);
}

/// memfd_create is 319; 0x10 is MFD_EXEC.
fn memory_files_do_not_run(fixture: &Fixture) {
    let script = r#"
        open(my $in, "<", "/bin/true") or die; binmode $in; local $/; my $program = <$in>;
        my $name = "x"; my $fd = syscall(319, $name, $ARGV[0] + 0); exit 9 if $fd < 0;
        open(my $out, ">&=", $fd) or die; print $out $program; $out->flush;
        exec "/proc/self/fd/$fd"; exit 8;
    "#;
    fixture.write("memory.pl", script);
    for flags in ["0", "16"] {
        let outcome = fixture
            .palisade([
                "run",
                "--read",
                "memory.pl",
                "--",
                "/usr/bin/perl",
                "memory.pl",
                flags,
            ])
            .run();
        assert!(
            [8, 9].contains(&outcome.code()),
            "MFD flags {flags}: {outcome:?}"
        );
    }
}

fn setuid_cannot_be_made(fixture: &Fixture) {
    fixture.make_folder("work");
    for act in [
        "chmod u+s work/f",
        "chmod g+s work/f",
        "install -m 4755 /bin/true work/f",
    ] {
        let outcome = fixture
            .script(&["--write", "work"], &format!("touch work/f; {act}"))
            .run();
        assert_ne!(outcome.code(), 0, "{act}: {outcome:?}");
        let mode = fs::metadata(fixture.path("work/f"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o6000, 0, "{act}");
        fs::remove_file(fixture.path("work/f")).unwrap();
    }
}

/// Sockets and FIFOs only where nobody outside meets them, or where that was granted.
fn special_files(fixture: &Fixture) {
    fixture.make_folder("work");
    for (flags, place, may) in [
        (&["--write", "work"][..], "work", false),
        (&["--write", "work", "--ipc", "work"], "work", true),
        (&["--write", "work"], "/tmp", true),
        (&["--write", "work"], "/dev/shm", true),
        (&["--write", "work:/tmp"], "/tmp", false),
        (&["--write", "work:/tmp", "--ipc", "/tmp"], "/tmp", true),
    ] {
        let outcome = fixture
            .script(
                flags,
                &format!("rm -f {place}/fifo; mkfifo {place}/fifo && rm {place}/fifo"),
            )
            .run();
        assert_eq!(outcome.code() == 0, may, "{place} {flags:?}: {outcome:?}");
    }
    // Not by another way either, and what is no socket or FIFO is nobody's affair.
    for act in [
        "mkfifo /tmp/fifo && mv /tmp/fifo work/moved",
        "mkfifo /tmp/fifo && ln /tmp/fifo work/linked",
        "cd work && mkfifo ../work/relative",
        "ln -s $PWD/work /tmp/way && mkfifo /tmp/way/by-link",
    ] {
        let outcome = fixture.script(&["--write", "work"], act).run();
        assert_ne!(outcome.code(), 0, "{act}");
    }
    assert_eq!(fs::read_dir(fixture.path("work")).unwrap().count(), 0);
    let meeting = "import os, socket, stat
os.chdir('/tmp')
os.mkdir('folder')
folder = os.open('folder', os.O_RDONLY)
os.mknod('node', 0o640 | stat.S_IFIFO, dir_fd=folder)
os.mknod('folder/socket', 0o600 | stat.S_IFSOCK)
os.umask(0o077)
os.mkfifo('relative', 0o666)
bound = socket.socket(socket.AF_UNIX)
bound.bind('folder/bound')
modes = [oct(os.stat(name).st_mode) for name in ('folder/node', 'folder/socket', 'relative')]
def errno(act):
    try: act()
    except OSError as error: return error.errno
print(modes, bound.getsockname(), [errno(act) for act in (
    lambda: os.mkfifo('relative'), lambda: os.mkfifo(''), lambda: os.mkfifo('none/a'), lambda: os.mkfifo('/usr/a'),
    lambda: os.mknod('a', 0o600 | stat.S_IFIFO, dir_fd=bound.fileno()), lambda: os.mkfifo('x' * 5000))])
";
    let python = [
        "run",
        "--write",
        "work",
        "--",
        "/usr/bin/python3",
        "-c",
        meeting,
    ];
    fixture
        .palisade(python)
        .run()
        .prints("['0o10640', '0o140600', '0o10600'] folder/bound [17, 2, 2, 30, 20, 36]\n");
    paths_through_proc(fixture);
    signals_interrupt_nothing_that_is_done(fixture);
    for act in [
        "mknod work/null c 1 3",
        "mknod work/disk b 8 0",
        "mknod /tmp/null c 1 3",
    ] {
        assert_ne!(
            fixture.script(&["--write", "work"], act).run().code(),
            0,
            "{act}"
        );
    }
}

/// What is made for the guest by another process lies where the guest's own `/proc/self` leads, whatever number a folder has.
fn paths_through_proc(fixture: &Fixture) {
    let through = "import os, socket
os.chdir('/tmp')
os.mkdir('folder')
opened = os.open('folder', os.O_RDONLY)
for number in range(opened, 40):
    os.dup2(opened, number)
    os.mkfifo(f'/proc/self/fd/{number}/fifo')
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(f'/dev/fd/{number}/socket')
    assert bound.getsockname() == f'/dev/fd/{number}/socket'
    bound.close()
    assert sorted(os.listdir('folder')) == ['fifo', 'socket'], number
    os.remove('folder/fifo'); os.remove('folder/socket')
os.chdir('folder')
os.mkfifo('/proc/self/cwd/fifo')
socket.socket(socket.AF_UNIX).bind('/proc/thread-self/cwd/socket')
print(sorted(os.listdir('.')))
try: os.mkfifo('/proc/self/fd/900/fifo')
except OSError as error: print(error.errno)
";
    let python = [
        "run",
        "--write",
        "work",
        "--",
        "/usr/bin/python3",
        "-c",
        through,
    ];
    let outcome = fixture.palisade(python).run();
    outcome.prints("['fifo', 'socket']\n2\n");
}

/// What a program is told of a call that a signal came into is what became of that call, and of no other.
fn signals_interrupt_nothing_that_is_done(fixture: &Fixture) {
    let often = "import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
wrong = made = 0
for number in range(300):
    path = f'/tmp/fifo-{number}'
    try:
        os.mkfifo(path)
        made += 1
        wrong += not os.path.exists(path)
    except InterruptedError:
        wrong += os.path.exists(path)
signal.setitimer(signal.ITIMER_REAL, 0)
print(wrong, made > 0)
";
    let python = [
        "run",
        "--write",
        "work",
        "--",
        "/usr/bin/python3",
        "-c",
        often,
    ];
    fixture.palisade(python).run().prints("0 True\n");
}

/// A granted folder opens no file that its starter could not read, root's case included: there the
/// guest may not read what belongs to others than the folder's owner.
fn secrets_of_others_stay_unreadable(fixture: &Fixture) {
    fixture.write("data/mine", "mine");
    fs::set_permissions(fixture.path("data/mine"), fs::Permissions::from_mode(0o600)).unwrap();
    fixture
        .script(&["--read", "data"], "cat data/mine")
        .run()
        .prints("mine");
    let outcome = fixture
        .script(&["--read", "/etc/shadow"], "cat /etc/shadow")
        .run();
    match fixture.user {
        User::Root => assert_eq!(outcome.code(), 0, "granted by root by name: {outcome:?}"),
        User::Ordinary => assert_ne!(outcome.code(), 0),
    }
}
