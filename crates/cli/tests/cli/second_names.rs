//! Grants that lead to the same files by two paths, of which one gives what the other withholds.

use super::fixture::{Fixture, Outcome, User, cases};
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::Path,
};

cases![
    no_second_grant_leads_to_a_protected_path,
    no_mount_leads_to_a_protected_path,
    what_is_written_is_not_executed_by_a_mount,
    no_name_is_exempt,
    a_folder_for_sockets_has_one_name,
];

fn no_second_grant_leads_to_a_protected_path(fixture: &Fixture) {
    fixture.write("work/sub/.env", "SECRET=1");
    symlink("work", fixture.path("link")).unwrap();
    symlink("work/sub", fixture.path("deeper")).unwrap();
    symlink("work/sub/.env", fixture.path("file")).unwrap();
    let script = "for path in link/sub/.env deeper/.env file /x/.env; do echo evil > $path; done";
    for second in ["link", "deeper", "file", "deeper:/x"] {
        let flags = [
            "--write",
            "work",
            "--protect",
            "work/sub/.env",
            "--write",
            second,
        ];
        let outcome = fixture.script(&flags, script).run();
        assert_eq!(fixture.read("work/sub/.env"), "SECRET=1", "{second}");
        outcome.refuses(&["policy: ", "work/sub/.env is protected", "protect that too"]);
    }
    // Both protected, or the second for reading alone: nothing is open.
    for more in [
        ["--protect", "link/sub/.env", "--write", "link"],
        ["--read", "link", "--env", "A=b"],
    ] {
        let flags = [
            &["--write", "work", "--protect", "work/sub/.env"][..],
            &more,
        ]
        .concat();
        fixture.script(&flags, script).run();
        assert_eq!(fixture.read("work/sub/.env"), "SECRET=1", "{more:?}");
    }
    // Below a protected folder, at another place than its own.
    let flags = [
        "--write",
        "work",
        "--protect",
        "work/sub",
        "--write",
        "deeper:/x",
    ];
    fixture
        .script(&flags, script)
        .run()
        .refuses(&["policy: ", "work/sub is protected"]);
}

/// A shell command with mounts around it that are made for it alone.
fn among_mounts(fixture: &Fixture, mounts: &str, command: &str) -> Outcome {
    let script = format!("{mounts} && {command}");
    let mut flags = vec!["--mount", "--propagation", "private"];
    if fixture.user == User::Ordinary {
        flags.extend(["--user", "--map-root-user"]);
    }
    flags.extend(["/bin/sh", "-c", &script]);
    fixture.call(Path::new("/usr/bin/unshare"), flags).run()
}

/// The same of palisade.
fn run_among_mounts(fixture: &Fixture, mounts: &str, words: &str) -> Outcome {
    let program = fixture.program().display();
    among_mounts(fixture, mounts, &format!("exec {program} run {words}"))
}

fn no_mount_leads_to_a_protected_path(fixture: &Fixture) {
    fixture.write("work/sub/.env", "SECRET=1");
    fixture.make_folder("work/inside");
    fixture.make_folder("other");
    let guest = "-- /bin/sh -c 'echo evil > other/sub/.env; echo evil > other/.env; echo evil > work/inside/.env'";
    for (mounts, flags) in [
        ("mount --bind work other", "--write other"),
        ("mount --bind work/sub other", "--write other"),
        ("mount --bind work/sub work/inside", ""),
    ] {
        let words = format!("--write work --protect work/sub/.env {flags} {guest}");
        let outcome = run_among_mounts(fixture, mounts, &words);
        assert_eq!(fixture.read("work/sub/.env"), "SECRET=1", "{mounts}");
        outcome.refuses(&["policy: ", "work/sub/.env is protected"]);
    }
}

/// Writes a program below `work` and executes it by the path of another mount.
fn write_and_execute(path: &str) -> String {
    format!("/bin/sh -c 'cp /bin/echo work/tools/new && {path} executed'")
}

fn what_is_written_is_not_executed_by_a_mount(fixture: &Fixture) {
    fixture.make_folder("work/tools");
    fixture.make_folder("other/below");
    for (mounts, grants, path) in [
        (
            "mount --bind work other",
            "--read other --write work",
            "other/tools/new",
        ),
        (
            "mount --bind work/tools other",
            "--read other --write work",
            "other/new",
        ),
        (
            "mount --bind work other",
            "--read other --write work/tools",
            "other/tools/new",
        ),
        (
            "mount --bind work other/below",
            "--read other --write work",
            "other/below/tools/new",
        ),
    ] {
        let act = write_and_execute(path);
        among_mounts(fixture, mounts, &act).prints("executed\n");
        fs::remove_file(fixture.path("work/tools/new")).unwrap();
        let refused = run_among_mounts(fixture, mounts, &format!("{grants} -- {act}"));
        refused.refuses(&["policy: ", "could execute as", "/other"]);
        let exec = grants.rsplit(' ').next().unwrap();
        let granted = format!("{grants} --exec {exec} -- {act}");
        run_among_mounts(fixture, mounts, &granted).prints("executed\n");
        fs::remove_file(fixture.path("work/tools/new")).unwrap();
        // Another folder there.
        let words = format!("{grants} -- /bin/sh -c 'cp /bin/echo work/tools/new; cat other/kept'");
        fixture.write("other/kept", "kept\n");
        run_among_mounts(fixture, "true", &words).prints("kept\n");
        fs::remove_file(fixture.path("work/tools/new")).unwrap();
    }
}

/// However much it looks like one that palisade gives its own programs.
fn no_name_is_exempt(fixture: &Fixture) {
    fixture.make_folder("work/tools");
    for name in ["/.palisade-worker", "/.palisade-x/y", "/.palisade"] {
        let read = format!("work:{name}");
        let act = format!("cp /bin/echo /w/tools/new && {name}/tools/new executed");
        let flags = ["--read", &read, "--write", "work:/w"];
        let outcome = fixture.script(&flags, &act).run();
        outcome.refuses(&["policy: ", "could execute as", name]);
        fixture
            .script(&[&flags[..], &["--exec", "/w"]].concat(), &act)
            .run()
            .prints("executed\n");
    }
}

/// By a second one, a folder with a socket of the host's could be moved into it: that is one mount.
fn a_folder_for_sockets_has_one_name(fixture: &Fixture) {
    const MOVE: &str = "import os, socket, sys\n\
         try: os.rename(sys.argv[1] + '/trap', sys.argv[1] + '/run/trap')\n\
         except OSError as error: print(error.errno)\n\
         try: socket.socket(socket.AF_UNIX).connect(sys.argv[2] + '/trap/agent')\n\
         except OSError as error: print(error.errno)\n";
    fixture.make_folder("data/run");
    fixture.make_folder("data/trap");
    let server = UnixListener::bind(fixture.path("data/trap/agent")).unwrap();
    server.set_nonblocking(true).unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(fixture.path("data/trap/agent"), open).unwrap();
    let run = |flags: &[&str], place: &str| {
        let folder = match place {
            "/run" => "data",
            _ => "/d",
        };
        let words = ["run"].iter().chain(flags).copied();
        let guest = ["--", "python3", "-c", MOVE, folder, place];
        fixture.palisade(words.chain(guest)).run()
    };
    for (flags, place, other) in [
        (
            [
                "--write",
                "data",
                "--write",
                "data/run:/run",
                "--ipc",
                "/run",
            ],
            "/run",
            "data/run",
        ),
        (
            [
                "--write", "data:/d", "--write", "data/run", "--ipc", "data/run",
            ],
            "data/run",
            "/d/run",
        ),
    ] {
        let refused = run(&flags, place);
        assert!(server.accept().is_err(), "{flags:?}");
        refused.refuses(&["policy: ", "sockets", other, "--ipc"]);
        // Each a mount of its own.
        run(&[&flags[..], &["--ipc", other]].concat(), place).prints("18\n2\n");
    }
}
