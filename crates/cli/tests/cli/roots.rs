//! A folder as the guest's root, behind both walls.

use super::{
    fixture::{Fixture, cases, ends_soon, finish, pidfd_of, read_line},
    wasm::{place_twins, run},
};
use palisade_suite::{executable::copy_program, guest};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::BufReader,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    process::Stdio,
};

cases![
    both_walls_show_the_folder,
    what_is_made_in_the_root_is_made_in_the_folder,
    the_domains_own_lies_over_what_the_folder_has,
    nothing_is_made_in_the_folder_for_a_mount,
    no_way_leads_above_the_root,
    links_are_followed_inside,
    a_planted_link_takes_no_mount,
    other_grants_lie_in_the_root,
    protected_in_the_root,
    what_is_lost_is_told_by_the_guests_name,
    what_is_written_in_the_root_does_not_run,
    an_output_in_the_root_does_not_run,
    sockets_in_the_root_are_not_granted,
    what_takes_the_place_of_proc_leads_nowhere,
    cpu_time_is_counted_without_proc,
    a_terminal_needs_no_devices,
    names_need_a_hosts_file,
    roots_that_cannot_be,
];

/// A folder with a static program and little else.
fn lay(fixture: &Fixture) {
    place_twins(fixture);
    fixture.write("root/etc/file", "in the root\n");
    fixture.make_folder("root/programs");
    copy_program(&fixture.path("guest"), &fixture.path("root/programs/guest")).unwrap();
    fixture.write("secret", "a secret\n");
}

fn names(fixture: &Fixture, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(fixture.path(folder)).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// What the native program in the root prints.
fn native(fixture: &Fixture, flags: &[&str], acts: &[&str]) -> String {
    let outcome = run(fixture, flags, &[&["/programs/guest"], acts].concat()).run();
    outcome.is_silent(0);
    outcome.text()
}

/// The same of the module, which lies outside.
fn module(fixture: &Fixture, flags: &[&str], acts: &[&str]) -> String {
    let outcome = run(fixture, flags, &[&["guest.wasm"], acts].concat()).run();
    outcome.is_silent(0);
    outcome.text()
}

fn both_walls_show_the_folder(fixture: &Fixture) {
    lay(fixture);
    let flags = ["--read", "root:/"];
    let outside = fixture.text("secret");
    let acts = [
        "list",
        "/",
        "show",
        "/etc/file",
        "show",
        "etc/file",
        "list",
        "/etc",
        "put",
        "/new",
        "put",
        "/etc/file",
        "list",
        "/usr",
        "show",
        "/etc/passwd",
        "show",
        &outside,
    ];
    let expected = format!(
        "etc\nprograms\nin the root\nin the root\nfile\nput /new: EROFS\nput /etc/file: EROFS\nlist /usr: ENOENT\n\
         show /etc/passwd: ENOENT\nshow {outside}: ENOENT\n"
    );
    assert_eq!(native(fixture, &flags, &acts), expected);
    assert_eq!(module(fixture, &flags, &acts), expected);
    // A file says the same.
    fixture.write("policy.toml", "[grants]\nread = ['root:/']\n");
    let flags = ["--policy", "policy.toml"];
    assert_eq!(native(fixture, &flags, &acts), expected);
    assert_eq!(module(fixture, &flags, &acts), expected);
}

fn what_is_made_in_the_root_is_made_in_the_folder(fixture: &Fixture) {
    lay(fixture);
    let flags = ["--write", "root:/", "--exec", "/programs"];
    assert_eq!(
        native(fixture, &flags, &["put", "/native", "remove", "/etc/file"]),
        "put /native: done\nremove /etc/file: done\n"
    );
    assert_eq!(
        module(
            fixture,
            &["--write", "root:/"],
            &["put", "/module", "folder", "/etc/new"]
        ),
        "put /module: done\nfolder /etc/new: done\n"
    );
    assert_eq!(
        names(fixture, "root"),
        ["etc", "module", "native", "programs"]
    );
    assert_eq!(names(fixture, "root/etc"), ["new"]);
    assert_eq!(fixture.read("root/native"), "written\n");
}

fn the_domains_own_lies_over_what_the_folder_has(fixture: &Fixture) {
    lay(fixture);
    for folder in ["root/dev", "root/proc", "root/tmp"] {
        fixture.make_folder(folder);
        fixture.write(&format!("{folder}/theirs"), "");
    }
    for flags in [
        &["--read", "root:/"][..],
        &["--write", "root:/", "--exec", "/programs"],
    ] {
        let acts = "put /tmp/new list /tmp put /dev/null put /dev/new";
        let acts: Vec<_> = acts.split(' ').collect();
        let told = "put /tmp/new: done\nnew\nput /dev/null: done\nput /dev/new: EROFS\n";
        assert_eq!(module(fixture, flags, &acts), told);
        // A process has a comm(5) besides.
        let acts = [&acts[..], &["show", "/proc/self/comm"]].concat();
        assert_eq!(native(fixture, flags, &acts), format!("{told}guest\n"));
    }
    for folder in ["root/dev", "root/proc", "root/tmp"] {
        assert_eq!(names(fixture, folder), ["theirs"]);
    }
}

fn nothing_is_made_in_the_folder_for_a_mount(fixture: &Fixture) {
    lay(fixture);
    let before = names(fixture, "root");
    let flags = ["--write", "root:/", "--exec", "/programs"];
    let acts = [
        "list",
        "/",
        "show",
        "/dev/null",
        "show",
        "/proc/version",
        "put",
        "/tmp/x",
    ];
    let expected =
        "etc\nprograms\nshow /dev/null: ENOENT\nshow /proc/version: ENOENT\nput /tmp/x: ENOENT\n";
    assert_eq!(native(fixture, &flags, &acts), expected);
    assert_eq!(module(fixture, &flags, &acts), expected);
    assert_eq!(names(fixture, "root"), before);
}

fn no_way_leads_above_the_root(fixture: &Fixture) {
    lay(fixture);
    fixture.make_folder("root/proc");
    let secret = fixture.text("secret");
    for start in [
        "/..",
        "/../..",
        "/etc/../..",
        "/.root/..",
        "/proc/1/root",
        "/proc/self/root/..",
    ] {
        let path = format!("{start}{secret}");
        for flags in [
            &["--read", "root:/"][..],
            &["--write", "root:/", "--exec", "/programs"],
        ] {
            for text in [
                native(fixture, flags, &["show", &path]),
                module(fixture, flags, &["show", &path]),
            ] {
                assert!(text.starts_with("show "), "{path}: {text}");
            }
        }
    }
    let mounts = native(
        fixture,
        &["--read", "root:/"],
        &["show", "/proc/self/mountinfo"],
    );
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    let expected = [
        "/",
        "/proc",
        "/proc/kallsyms",
        "/proc/keys",
        "/proc/sys/kernel/random/boot_id",
    ];
    assert!(
        points.clone().all(|point| expected.contains(&point)),
        "{mounts}"
    );
    assert_eq!(points.filter(|point| *point == "/").count(), 1, "{mounts}");
}

fn links_are_followed_inside(fixture: &Fixture) {
    lay(fixture);
    symlink("/programs", fixture.path("root/bin")).unwrap();
    symlink(fixture.path("secret"), fixture.path("root/out")).unwrap();
    run(
        fixture,
        &["--read", "root:/"],
        &["guest", "show", "/etc/file", "show", "/out"],
    )
    .run()
    .prints("in the root\nshow /out: ENOENT\n");
}

/// Left by an earlier guest, where palisade would mount something the next time.
fn a_planted_link_takes_no_mount(fixture: &Fixture) {
    lay(fixture);
    fixture.write("outside/kept", "");
    for name in ["dev", "proc", "tmp"] {
        symlink(
            fixture.path("outside"),
            fixture.path(&format!("root/{name}")),
        )
        .unwrap();
    }
    let flags = ["--write", "root:/", "--exec", "/programs"];
    for told in [native, module] {
        let text = told(
            fixture,
            &flags,
            &["put", "/tmp/x", "show", "/dev/null", "list", "/"],
        );
        assert!(!text.contains("done"), "{text}");
    }
    assert_eq!(names(fixture, "outside"), ["kept"]);
    run(
        fixture,
        &["--write", "root:/", "--cwd", "/tmp"],
        &["guest.wasm", "list", "."],
    )
    .run()
    .says(125, &["/tmp", "cannot be opened"]);
}

fn other_grants_lie_in_the_root(fixture: &Fixture) {
    lay(fixture);
    fixture.write("data/file", "granted\n");
    let flags = ["--read", "root:/", "--write", "data:/data"];
    let outcome = run(fixture, &flags, &["/programs/guest"]).run();
    outcome.says(
        125,
        &["policy: ", "/data", "root/data does not exist", "make"],
    );
    run(fixture, &flags, &["guest.wasm"])
        .run()
        .says(125, &["policy: ", "/data", "root/data does not exist"]);
    fixture.make_folder("root/data");
    let acts = ["show", "/data/file", "put", "/data/new", "put", "/new"];
    let expected = "granted\nput /data/new: done\nput /new: EROFS\n";
    assert_eq!(native(fixture, &flags, &acts), expected);
    assert_eq!(module(fixture, &flags, &acts), expected);
    // From within another grant, by relative and by absolute paths.
    let flags = [&flags[..], &["--cwd", "/data"]].concat();
    let acts = ["show", "file", "show", "/etc/file", "show", "/data/file"];
    let expected = "granted\nin the root\ngranted\n";
    assert_eq!(native(fixture, &flags, &acts), expected);
    assert_eq!(module(fixture, &flags, &acts), expected);
}

fn protected_in_the_root(fixture: &Fixture) {
    lay(fixture);
    let flags = [
        "--write",
        "root:/",
        "--exec",
        "/programs",
        "--protect",
        "/etc/file",
        "--protect",
        "/run/absent",
    ];
    let acts = [
        "put",
        "/etc/file",
        "remove",
        "/etc/file",
        "put",
        "/run",
        "put",
        "/etc/new",
    ];
    for text in [
        native(fixture, &flags, &acts),
        module(fixture, &flags, &acts),
    ] {
        assert!(
            text.starts_with("put /etc/file: EROFS\nremove /etc/file: EBUSY\nput /run: E"),
            "{text}"
        );
        assert!(text.ends_with("put /etc/new: done\n"), "{text}");
    }
    assert_eq!(fixture.read("root/etc/file"), "in the root\n");
    assert!(!fixture.exists("root/run"));
}

/// Also where the folder is not the root of the worker that does the guest's calls.
fn what_is_lost_is_told_by_the_guests_name(fixture: &Fixture) {
    lay(fixture);
    let flags = [
        "--write",
        "root:/",
        "--exec",
        "/programs",
        "--protect",
        "/etc/file",
        "--report",
        "report",
    ];
    for program in ["/programs/guest", "guest.wasm"] {
        fixture.write("root/etc/file", "in the root\n");
        fixture.write("report", "");
        let mut child = run(fixture, &flags, &[program, "show", "/etc/file", "copy"]).spawn();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        assert_eq!(read_line(&mut stdout), "in the root\n");
        fs::rename(
            fixture.path("root/etc/file"),
            fixture.path("root/etc/moved"),
        )
        .unwrap();
        // While its input is open the guest waits.
        assert!(ends_soon(&pidfd_of(child.id())), "{program} runs on");
        let outcome = finish(child, b"");
        outcome.is(137);
        assert!(outcome.stderr.contains(" /etc/file"), "{outcome:?}");
        let report: Value = serde_json::from_str(&fixture.read("report")).unwrap();
        assert_eq!(report["lost"], "/etc/file", "{program}");
    }
}

fn what_is_written_in_the_root_does_not_run(fixture: &Fixture) {
    lay(fixture);
    run(fixture, &["--write", "root:/"], &["/programs/guest"])
        .run()
        .says(126, &["/programs/guest"]);
    assert_eq!(
        native(
            fixture,
            &["--write", "root:/", "--exec", "/"],
            &["put", "/x"]
        ),
        "put /x: done\n"
    );
}

/// The host's programs in the folder, as other grants: the flags for it.
fn lay_system(fixture: &Fixture) -> Vec<String> {
    let mut flags = Vec::new();
    for name in ["usr", "bin", "lib", "lib64"] {
        let (path, inside) = (format!("/{name}"), format!("root/{name}"));
        match fs::read_link(&path) {
            Ok(target) => symlink(target, fixture.path(&inside)).unwrap(),
            Err(_) => {
                fixture.make_folder(&inside);
                flags.extend(["--read".into(), path]);
            }
        }
    }
    flags
}

/// Only its bytes are passed on: the rules of Landlock's that keep an output from being executed say what may be done
/// below the root, and it lies there.
fn an_output_in_the_root_does_not_run(fixture: &Fixture) {
    // The file last: who reads the pipe takes from it what the program says.
    const ACT: &str = "readlink /proc/self/fd/1 >&2; cat /usr/bin/id; \
         until cmp -s /usr/bin/id /out; do :; done; \
         for way in /proc/self/fd/1 /out; do $way; done; \
         timeout 3 /lib64/ld-linux-x86-64.so.2 /proc/self/fd/1; timeout 30 /lib64/ld-linux-x86-64.so.2 /out; true";
    fixture.make_folder("root/proc");
    let system = lay_system(fixture);
    let runs_output = |more: &[&str]| {
        fixture.write("root/out", "");
        fs::set_permissions(fixture.path("root/out"), fs::Permissions::from_mode(0o755)).unwrap();
        let flags = ["run", "--time", "60s", "--write", "root:/"].into_iter();
        let flags = flags.chain(system.iter().map(String::as_str));
        let guest = ["--", "/bin/sh", "-c", ACT];
        let mut call = fixture.palisade(flags.chain(more.iter().copied()).chain(guest));
        let out = File::options().append(true).open(fixture.path("root/out"));
        let command = call.command.stdin(Stdio::null()).stdout(out.unwrap());
        let child = command.stderr(Stdio::piped()).spawn().unwrap();
        let outcome = finish(child, b"");
        assert!(outcome.stderr.starts_with("pipe:["), "{outcome:?}");
        let written = fs::read(fixture.path("root/out")).unwrap();
        let program = fs::read("/usr/bin/id").unwrap();
        assert!(written.starts_with(&program), "{outcome:?}");
        written.len() > program.len()
    };
    assert!(!runs_output(&[]));
    assert!(runs_output(&["--exec", "/"]), "granted, it runs");
}

/// Nor are those on its file system that other grants bring.
fn sockets_in_the_root_are_not_granted(fixture: &Fixture) {
    fixture.make_folder("root/run");
    fixture.make_folder("other");
    copy_program(&guest("meet"), &fixture.path("root/meet")).unwrap();
    let sockets = ["root/run/socket", "other/socket"];
    let _servers = sockets.map(|name| UnixListener::bind(fixture.path(name)).unwrap());
    for name in sockets {
        fs::set_permissions(fixture.path(name), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let meet = |flags: &[&str]| {
        let command = ["--", "/meet", "/run/socket"];
        let words = ["run"].iter().chain(flags).chain(&command);
        fixture.palisade(words.copied()).run()
    };
    for root in [
        &["--read", "root:/"][..],
        &["--write", "root:/", "--exec", "/"],
    ] {
        meet(root).prints("13\n");
        meet(&[root, &["--read", "other:/run"]].concat()).prints("13\n");
    }
    let granted = format!("unix:{}:/run/socket", fixture.text("root/run/socket"));
    meet(&["--read", "root:/", "--connect", &granted]).prints("0\n");
}

/// Listens, waits for the end of its input, connects to itself, and tells whether somebody came.
const CONNECT_TO_ITSELF: &str = r"if True:
    import socket, sys
    own = socket.socket(socket.AF_UNIX); own.bind('/tmp/own'); own.listen()
    print('ready', flush=True)
    sys.stdin.read()
    socket.socket(socket.AF_UNIX).connect('/tmp/own')
    own.setblocking(False); own.accept(); print('came')
";

/// Sockets are found by `/proc/self/fd`. What somebody put at that path, before or while the guest runs, could lead
/// init from a socket of the guest's to one of the host's.
fn what_takes_the_place_of_proc_leads_nowhere(fixture: &Fixture) {
    fixture.make_folder("root/tmp");
    fixture.make_folder("root/other/self/fd");
    for number in 0..1024 {
        let link = format!("root/other/self/fd/{number}");
        symlink("/other/socket", fixture.path(&link)).unwrap();
    }
    let server = UnixListener::bind(fixture.path("root/other/socket")).unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(fixture.path("root/other/socket"), open).unwrap();
    server.set_nonblocking(true).unwrap();
    let system = lay_system(fixture);
    let system: Vec<_> = system.iter().map(String::as_str).collect();
    let [proc, away] = ["root/proc", "root/away"].map(|name| fixture.path(name));
    let exchange = |what: &str| match what {
        "exchanged" => {
            fs::rename(&proc, &away).unwrap();
            symlink("other", &proc).unwrap();
        }
        "moved over" => {
            fs::create_dir(&away).unwrap();
            fs::rename(&away, &proc).unwrap();
            fs::remove_dir(&proc).unwrap();
            symlink("other", &proc).unwrap();
        }
        _ => {}
    };
    for grant in ["--read", "--write"] {
        for what in ["prepared", "exchanged", "moved over"] {
            let _ = fs::remove_dir_all(&away);
            let _ = fs::remove_file(&proc);
            match what {
                "prepared" => symlink("other", &proc).unwrap(),
                _ => fixture.make_folder("root/proc"),
            }
            let flags = [&["run", grant, "root:/"], &system[..]].concat();
            let guest = ["--", "/usr/bin/python3", "-c", CONNECT_TO_ITSELF];
            let mut child = fixture.palisade(flags.iter().chain(&guest)).spawn();
            let mut stdout = BufReader::new(child.stdout.take().unwrap());
            assert_eq!(read_line(&mut stdout), "ready\n", "{grant} {what}");
            exchange(what);
            drop(child.stdin.take());
            assert_eq!(read_line(&mut stdout), "came\n", "{grant} {what}");
            finish(child, b"").is_silent(0);
            assert!(server.accept().is_err(), "{grant} {what}");
        }
    }
}

/// What lies at `/proc` is the guest's to write there: it must not tell what the guest used.
fn cpu_time_is_counted_without_proc(fixture: &Fixture) {
    lay(fixture);
    fixture.write("root/other/1/stat", "");
    symlink("other", fixture.path("root/proc")).unwrap();
    let flags = [
        "--write",
        "root:/",
        "--exec",
        "/programs",
        "--cpu-time",
        "200ms",
        "--allow-degraded",
        "cpu-time",
    ];
    let code = |program| run(fixture, &flags, &[program, "spin"]).run().code();
    assert_eq!(code("/programs/guest"), 152);
    assert_eq!(code("guest.wasm"), 152);
}

/// The one that palisade gives a guest in the place of its own terminal comes from no path of the guest's.
fn a_terminal_needs_no_devices(fixture: &Fixture) {
    lay(fixture);
    fixture.make_folder("root/dev/pts");
    fixture.make_fifo("root/dev/pts/ptmx");
    fs::rename(fixture.path("root/dev"), fixture.path("root/devices")).unwrap();
    symlink("devices", fixture.path("root/dev")).unwrap();
    let words = format!(
        "{} run --write root:/ --exec /programs -- /programs/guest tty",
        fixture.program().display()
    );
    let mut call = fixture.call("/usr/bin/script".as_ref(), ["-qec", &words, "/dev/null"]);
    call.command.env("TERM", "dumb");
    let outcome = call.run();
    assert!(outcome.text().contains("111"), "{outcome:?}");
}

fn names_need_a_hosts_file(fixture: &Fixture) {
    lay(fixture);
    let flags = ["--read", "root:/", "--connect", "tcp://localhost:1"];
    let outcome = run(fixture, &flags, &["/programs/guest", "list", "/"]).run();
    if outcome.code() != 0 {
        outcome.says(125, &["policy: ", "/etc/hosts", "does not exist"]);
    }
    fixture.write("root/etc/hosts", "");
    let text = native(fixture, &flags, &["show", "/etc/hosts"]);
    assert!(text.contains("localhost") || text.is_empty(), "{text}");
}

fn roots_that_cannot_be(fixture: &Fixture) {
    lay(fixture);
    for (grant, why) in [
        ("/:/", "the host's `/` cannot be granted"),
        ("/proc:/", "cannot be granted"),
        ("/dev:/", "cannot be granted"),
        ("secret:/", "only a folder can be the guest's root"),
        ("absent:/", "does not exist"),
    ] {
        for program in ["/programs/guest", "guest.wasm"] {
            run(fixture, &["--read", grant], &[program])
                .run()
                .says(125, &["policy: ", why]);
        }
    }
    symlink("/", fixture.path("top")).unwrap();
    for (flags, program, why) in [
        (&["--read", "top:/"][..], "/bin/true", "cannot be granted"),
        (
            &["--read", "root:/", "--read", "cache:/"],
            "guest.wasm",
            "two host paths",
        ),
        (
            &["--read", "root:/", "--device", "/dev/tty"],
            "/programs/guest",
            "root/dev does not exist",
        ),
        (
            &["--read", "root:/", "--profile", "palisade"],
            "/programs/guest",
            "profile `palisade`",
        ),
    ] {
        run(fixture, flags, &[program])
            .run()
            .says(125, &["policy: ", why]);
    }
}
