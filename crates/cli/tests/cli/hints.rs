//! What a guest that failed may have missed, and the flags that would have helped: each is tried.

use super::fixture::{Call, Fixture, Outcome, User, cases};
use palisade_suite::executable::copy_program;
use std::{
    ffi::OsString,
    fs,
    os::unix::{
        ffi::OsStringExt,
        fs::{PermissionsExt, chown, symlink},
    },
    path::Path,
    process::Command,
};

cases![
    missing_interpreter_of_a_script,
    missing_interpreter_with_a_carriage_return,
    missing_loader_of_a_binary,
    interpreter_that_another_script_lacks,
    interpreter_behind_a_link_that_leads_out,
    program_of_a_toolchain_in_a_home,
    program_that_is_a_link_out_of_its_folder,
    program_beside_what_is_private,
    program_that_its_user_keeps,
    program_that_is_seen_where_path_does_not_lead,
    program_of_rustup,
    program_of_the_present_folder,
    shared_places_are_not_advised,
    names_are_quoted_for_the_shell,
    a_path_is_told_once,
    sockets_below_a_write_grant_in_tmp,
    chromium_and_its_own_sandbox,
    library_in_a_writable_folder,
    library_that_is_no_reason,
    library_with_a_name_that_acts_on_a_terminal,
    libraries_are_looked_for_within_bounds,
    script_that_is_not_granted,
    program_that_is_not_granted,
    absolute_path,
    nothing_to_hint_at,
    success_needs_no_hint,
    the_hint_works,
];

fn notes(outcome: &Outcome) -> Vec<&str> {
    outcome
        .stderr
        .lines()
        .filter(|line| line.contains("note: "))
        .collect()
}

fn script_that_is_not_granted(fixture: &Fixture) {
    fixture.write("script.sh", "exit 0\n");
    let outcome = fixture
        .palisade(["run", "--", "/bin/sh", "script.sh"])
        .run();
    outcome.is(2);
    assert_eq!(
        notes(&outcome),
        ["palisade: note: 'script.sh' exists on the host but is not granted: --read script.sh"]
    );
}

fn program_that_is_not_granted(fixture: &Fixture) {
    fixture.write_program("program", "#!/bin/sh\n");
    let outcome = fixture.palisade(["run", "--", "./program"]).run();
    outcome.is(127);
    assert_eq!(notes(&outcome).len(), 1, "{outcome:?}");
    assert!(
        notes(&outcome)[0].ends_with("--read ./program"),
        "{outcome:?}"
    );
}

fn absolute_path(fixture: &Fixture) {
    fixture.write("data", "");
    let data = fixture.text("data");
    let outcome = fixture.palisade(["run", "--", "/bin/cat", &data]).run();
    outcome.is(1);
    assert!(
        notes(&outcome)[0].ends_with(&format!("--read {data}")),
        "{outcome:?}"
    );
}

/// Granted, in the system view, a flag, or not on the host either.
fn nothing_to_hint_at(fixture: &Fixture) {
    fixture.write("granted", "");
    let words = [
        "run",
        "--read",
        "granted",
        "--",
        "/bin/false",
        "granted",
        "/usr/bin/env",
        "-x",
        "absent",
        "",
    ];
    let outcome = fixture.palisade(words).run();
    outcome.is(1);
    assert_eq!(notes(&outcome), [""; 0], "{outcome:?}");
}

fn success_needs_no_hint(fixture: &Fixture) {
    fixture.write("script.sh", "");
    fixture
        .palisade(["run", "--", "/bin/true", "script.sh"])
        .run()
        .is_silent(0);
}

fn the_hint_works(fixture: &Fixture) {
    fixture.write("script.sh", "echo well\n");
    let outcome = fixture
        .palisade(["run", "--", "/bin/sh", "script.sh"])
        .run();
    let note = notes(&outcome)[0].to_owned();
    let (_, flag) = note.rsplit_once(": ").unwrap();
    let words = ["run"]
        .into_iter()
        .chain(flag.split(' '))
        .chain(["--", "/bin/sh", "script.sh"]);
    fixture.palisade(words).run().prints("well\n");
}

/// Runs a note's words in a shell, as somebody would who copies them: `palisade run FLAGS -- …`.
fn try_flags(fixture: &Fixture, flags: &str, rest: &str) -> Call {
    let script = format!("\"$0\" run {flags} -- {rest}");
    let program = fixture.program().to_str().unwrap();
    fixture.call(Path::new("/bin/bash"), ["-c", &script, program])
}

/// The flags at the end of the only note.
#[track_caller]
fn advised(outcome: &Outcome) -> String {
    let notes = notes(outcome);
    assert_eq!(notes.len(), 1, "{outcome:?}");
    let (_, flags) = notes[0].split_once(": --").unwrap();
    format!("--{flags}")
}

fn missing_interpreter_of_a_script(fixture: &Fixture) {
    fixture.write_program("script", "#!/opt/palisade-no-such/fish -x\necho never\n");
    fixture
        .palisade(["run", "--read", "script", "--", "./script"])
        .run()
        .says(
            127,
            &[
                "guest: './script' is there",
                "'/opt/palisade-no-such/fish', which was not found inside",
                "not on the host either",
            ],
        );
    fixture.write_program("bin/own", "#!/bin/sh\n");
    let own = format!("#!{}\n", fixture.text("bin/own"));
    fixture.write_program("script", &own);
    fixture
        .palisade(["run", "--read", "script", "--", "./script"])
        .run()
        .says(
            127,
            &[
                "bin/own', which was not found",
                "on the host, and not granted",
            ],
        );
    fixture
        .palisade(["run", "--no-system", "--read", "bin", "--", "bin/own"])
        .run()
        .says(
            127,
            &["'/bin/sh', which was not found inside the domain, nor any of"],
        );
}

fn missing_interpreter_with_a_carriage_return(fixture: &Fixture) {
    fixture.write_program("script", "#!/bin/sh\r\necho never\r\n");
    fixture
        .palisade(["run", "--read", "script", "--", "./script"])
        .run()
        .says(127, &["'/bin/sh\\r'", "carriage return"]);
}

/// A header, and one segment that names the loader: what the kernel reads before it looks for that.
fn binary(loader: &str) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64 + 2 * 56, 0);
    let at = bytes.len() as u64;
    let mut put = |place: usize, number: u64, length: usize| {
        bytes[place..place + length].copy_from_slice(&number.to_le_bytes()[..length]);
    };
    for (place, number, length) in [
        (16, 2, 2),
        (
            18,
            if cfg!(target_arch = "aarch64") {
                183
            } else {
                62
            },
            2,
        ),
        (20, 1, 4),
        (24, 0x40_0000, 8),
        (32, 64, 8),
        (52, 64, 2),
        (54, 56, 2),
        (56, 2, 2),
        // PT_INTERP
        (64, 3, 4),
        (64 + 8, at, 8),
        (64 + 32, loader.len() as u64 + 1, 8),
        // PT_LOAD
        (120, 1, 4),
        (120 + 4, 5, 4),
        (120 + 16, 0x40_0000, 8),
        (120 + 32, at, 8),
        (120 + 40, at, 8),
        (120 + 48, 0x1000, 8),
    ] {
        put(place, number, length);
    }
    bytes.extend_from_slice(loader.as_bytes());
    bytes.push(0);
    bytes
}

fn missing_loader_of_a_binary(fixture: &Fixture) {
    fixture.write_program("program", "");
    fs::write(
        fixture.path("program"),
        binary("/lib/palisade-no-such-ld.so.1"),
    )
    .unwrap();
    fixture
        .palisade(["run", "--read", ".", "--", "./program"])
        .run()
        .says(
            127,
            &[
                "'./program' is there",
                "'/lib/palisade-no-such-ld.so.1', which was not found",
            ],
        );
    // A real one.
    copy_program("/usr/bin/env".as_ref(), &fixture.path("program")).unwrap();
    let outcome = fixture
        .palisade(["run", "--no-system", "--read", ".", "--", "./program"])
        .run();
    outcome.says(127, &["'/lib", "which was not found inside"]);
}

fn interpreter_that_another_script_lacks(fixture: &Fixture) {
    fixture.write_program("inner", "#!/opt/palisade-no-such/inner\n");
    fixture.write_program("outer", format!("#!{}\n", fixture.text("inner")));
    fixture
        .palisade(["run", "--read", ".", "--", "./outer"])
        .run()
        .says(127, &["'./outer'", "'/opt/palisade-no-such/inner'"]);
}

/// What lies outside of the domain is not read, wherever a guest's link leads.
fn interpreter_behind_a_link_that_leads_out(fixture: &Fixture) {
    fixture.write_program("secret", "#!/opt/secret-word/of-the-host\n");
    fixture.make_folder("work");
    symlink(fixture.path("secret"), fixture.path("work/link")).unwrap();
    let outcome = fixture
        .palisade([
            "run",
            "--write",
            "work",
            "--exec",
            "work",
            "--",
            "work/link",
        ])
        .run();
    outcome.says(127, &["was not found"]);
    assert!(!outcome.stderr.contains("secret-word"), "{outcome:?}");
}

/// A program that needs what lies beside its folder, as toolchains do.
fn write_toolchain(fixture: &Fixture, root: &str) {
    let program = "#!/bin/sh\ncat \"${0%/*}/../lib/answer\"\n";
    fixture.write_program(&format!("{root}/bin/palisade-tool"), program);
    fixture.write(&format!("{root}/lib/answer"), "42\n");
}

fn with_path(call: Call, fixture: &Fixture, folder: &str) -> Call {
    let path = format!("{}:/usr/bin:/bin", fixture.text(folder));
    call.env("PATH", &path).env("HOME", &fixture.text("home"))
}

/// Runs the tool, which is not found; takes the flags of the note, and has them run it.
#[track_caller]
fn flags_start_the_tool(fixture: &Fixture, folder: &str) -> String {
    let call = fixture.palisade(["run", "--", "palisade-tool"]);
    let outcome = with_path(call, fixture, folder).run();
    outcome.is(127);
    let flags = advised(&outcome);
    let tried = try_flags(fixture, &flags, "palisade-tool");
    with_path(tried, fixture, folder).run().prints("42\n");
    flags
}

fn program_of_a_toolchain_in_a_home(fixture: &Fixture) {
    write_toolchain(fixture, "home/.nvm/versions/v 22");
    let flags = flags_start_the_tool(fixture, "home/.nvm/versions/v 22/bin");
    let root = fixture.text("home/.nvm/versions/v 22");
    assert_eq!(flags, format!("--read '{root}' --env PATH"));
}

fn program_that_is_a_link_out_of_its_folder(fixture: &Fixture) {
    write_toolchain(fixture, "home/sdk/tool");
    fixture.make_folder("home/bin");
    let target = fixture.path("home/sdk/tool/bin/palisade-tool");
    // The tool finds what lies beside it by its own name, as `go` does by its real one.
    symlink(&target, fixture.path("home/bin/palisade-tool")).unwrap();
    let call = fixture.palisade(["run", "--", "palisade-tool"]);
    let outcome = with_path(call, fixture, "home/bin").run();
    outcome.is(127);
    let flags = advised(&outcome);
    let (file, root) = (
        fixture.text("home/bin/palisade-tool"),
        fixture.text("home/sdk/tool"),
    );
    assert_eq!(flags, format!("--read {file} --read {root} --env PATH"));
}

/// Around a home's own `bin` lies the home.
fn program_beside_what_is_private(fixture: &Fixture) {
    fixture.write_program("home/bin/palisade-tool", "#!/bin/sh\necho 42\n");
    let flags = flags_start_the_tool(fixture, "home/bin");
    let file = fixture.text("home/bin/palisade-tool");
    assert_eq!(flags, format!("--read {file} --env PATH"));
    fixture.write_program("home/.ssh/bin/palisade-tool", "#!/bin/sh\necho 42\n");
    let call = fixture.palisade(["run", "--", "palisade-tool"]);
    let outcome = with_path(call, fixture, "home/.ssh/bin").run();
    outcome.is(127);
    assert!(
        notes(&outcome)[0].contains("no flag is advised"),
        "{outcome:?}"
    );
    assert!(!outcome.stderr.contains("--read"), "{outcome:?}");
}

/// Neither the file nor the folder that it was installed to.
fn program_that_its_user_keeps(fixture: &Fixture) {
    write_toolchain(fixture, "home/sdk/tool");
    fixture.write("settings/palisade/sensitive", "~/sdk\n");
    let call = fixture.palisade(["run", "--watch", "--", "palisade-tool"]);
    let call = with_path(call, fixture, "home/sdk/tool/bin");
    let outcome = call.env("XDG_CONFIG_HOME", &fixture.text("settings")).run();
    outcome.is(127);
    assert!(
        notes(&outcome)[0].contains("no flag is advised"),
        "{outcome:?}"
    );
    assert!(!outcome.stderr.contains("--read"), "{outcome:?}");
}

fn program_that_is_seen_where_path_does_not_lead(fixture: &Fixture) {
    write_toolchain(fixture, "granted");
    let call = fixture.palisade(["run", "--read", "granted", "--", "palisade-tool"]);
    let outcome = with_path(call, fixture, "granted/bin").run();
    outcome.is(127);
    assert_eq!(advised(&outcome), "--env PATH");
    let tried = try_flags(fixture, "--read granted --env PATH", "palisade-tool");
    with_path(tried, fixture, "granted/bin")
        .run()
        .prints("42\n");
}

/// Which is a link, or another name, of rustup's.
fn program_of_rustup(fixture: &Fixture) {
    fixture.write_program("home/.cargo/bin/rustup", "#!/bin/sh\nexit 9\n");
    fixture.write("home/.cargo/credentials.toml", "secret");
    symlink("rustup", fixture.path("home/.cargo/bin/palisade-tool")).unwrap();
    fixture.write(
        "home/.rustup/settings.toml",
        "version = \"12\"\ndefault_toolchain = \"stable\"\n",
    );
    write_toolchain(fixture, "home/.rustup/toolchains/stable");
    let flags = flags_start_the_tool(fixture, "home/.cargo/bin");
    let root = fixture.text("home/.rustup/toolchains/stable");
    assert_eq!(
        flags,
        format!("--read {root} --env PATH={root}/bin:\"$PATH\"")
    );
}

fn program_of_the_present_folder(fixture: &Fixture) {
    fixture.write_program("palisade-tool", "#!/bin/sh\necho 42\n");
    let outcome = fixture.palisade(["run", "--", "palisade-tool"]).run();
    outcome.is(127);
    assert_eq!(
        notes(&outcome),
        [
            "palisade: note: 'palisade-tool' lies in this folder, where PATH does not lead: write ./palisade-tool, and \
             add --read ./palisade-tool"
        ]
    );
    let tried = try_flags(fixture, "--read ./palisade-tool", "./palisade-tool");
    tried.run().prints("42\n");
}

fn shared_places_are_not_advised(fixture: &Fixture) {
    let home = fixture.text("");
    fixture.write(".ssh/config", "");
    fixture.make_folder("drop");
    fs::set_permissions(fixture.path("drop"), fs::Permissions::from_mode(0o1777)).unwrap();
    for place in [
        "/",
        "/tmp",
        "/etc",
        "/var",
        "/proc",
        "/dev",
        "/run",
        "/home",
        "/root",
        "/sys",
        "/var/tmp",
        "/dev/shm",
        "/etc/shadow",
        "/proc/1/environ",
        &home,
        ".",
        ".ssh",
        ".ssh/config",
        "drop",
    ] {
        let call = fixture.palisade(["run", "--", "/bin/false", place]);
        let outcome = call.env("HOME", &home).run();
        outcome.is(1);
        assert!(!outcome.stderr.contains("--"), "{place}: {outcome:?}");
    }
    let call = fixture.palisade(["run", "--", "/bin/false", ".ssh"]);
    let outcome = call.env("HOME", &home).run();
    assert!(
        notes(&outcome)[0].contains("keys and passwords"),
        "{outcome:?}"
    );
}

fn names_are_quoted_for_the_shell(fixture: &Fixture) {
    let names = [
        &b"$(touch pwned)"[..],
        b"it's; x",
        b"a:b",
        b"back\\slash",
        b"~",
        b"\xff\x1b[2Jx",
        "\u{202e}x".as_bytes(),
        b"new\nline",
    ];
    for name in names {
        let name = OsString::from_vec(name.to_vec());
        let path = fixture.path("").join(&name);
        fs::write(&path, "well\n").unwrap();
        own(fixture, &path);
        let words = ["run", "--", "/bin/cat"].map(OsString::from);
        let outcome = fixture.palisade(words.iter().chain([&name])).run();
        outcome.is(1);
        let flags = advised(&outcome);
        let program = fixture.program().to_str().unwrap();
        let script = format!("\"$0\" run {flags} -- /bin/cat \"$1\"");
        let words = ["-c", &script, program].map(OsString::from);
        let tried = fixture.call(Path::new("/bin/bash"), words.iter().chain([&name]));
        tried.run().prints("well\n");
    }
    assert!(!fixture.exists("pwned"));
}

fn own(fixture: &Fixture, path: &Path) {
    if fixture.user == User::Ordinary && rustix::process::geteuid().is_root() {
        chown(path, Some(65534), Some(65534)).unwrap();
    }
}

fn a_path_is_told_once(fixture: &Fixture) {
    fixture.write("a", "");
    let same = fixture.text("a");
    let outcome = fixture
        .palisade(["run", "--", "/bin/false", "a", "./a", &same, "a"])
        .run();
    assert_eq!(notes(&outcome).len(), 1, "{outcome:?}");
    let names: Vec<String> = (0..100).map(|number| format!("file-{number}")).collect();
    for name in &names {
        fixture.write(name, "");
    }
    let words = ["run", "--", "/bin/false"].into_iter();
    let outcome = fixture
        .palisade(words.chain(names.iter().map(String::as_str)))
        .run();
    assert!((2..=5).contains(&notes(&outcome).len()), "{outcome:?}");
}

/// Not Chromium itself: what is advised depends on what is installed.
fn chromium_and_its_own_sandbox(fixture: &Fixture) {
    fixture.write_program("chromium", "#!/bin/sh\nexit \"$1\"\n");
    let run = |flags: &[&str], words: &[&str]| {
        let words = [&["run", "--read", "."], flags, &["--", "./chromium"], words].concat();
        fixture.palisade(words).run()
    };
    let has_scripts = Path::new("/etc/chromium.d").is_dir();
    let advice = match has_scripts {
        true => ": --profile chromium",
        false => ": tell it --no-sandbox",
    };
    let outcome = run(&[], &["1"]);
    outcome.is(1);
    assert!(notes(&outcome)[0].contains(advice), "{outcome:?}");
    run(&["--no-system"], &["1"]).is(127);
    run(&[], &["0"]).is_silent(0);
    assert_eq!(notes(&run(&[], &["1", "--no-sandbox"])), [""; 0]);
    let profiled = run(&["--profile", "chromium"], &["1"]);
    assert_eq!(notes(&profiled).is_empty(), has_scripts, "{profiled:?}");
}

const LOAD: &str = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded')";

/// Puts a library there: a module of Python's.
fn write_library(fixture: &Fixture, name: impl AsRef<Path>) {
    let script = "import _ctypes; print(_ctypes.__file__, end='')";
    let python = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .output()
        .unwrap();
    let path = fixture.path("").join(name);
    fs::copy(String::from_utf8(python.stdout).unwrap(), &path).unwrap();
    own(fixture, &path);
}

/// Runs Python, which loads the library at a path.
fn load(fixture: &Fixture, flags: &[&str], library: impl Into<OsString>) -> Outcome {
    let words = [&["run"], flags, &["--", "/usr/bin/python3", "-c", LOAD]].concat();
    let words = words.into_iter().map(OsString::from);
    fixture.palisade(words.chain([library.into()])).run()
}

fn library_in_a_writable_folder(fixture: &Fixture) {
    fixture.make_folder("work/lib");
    write_library(fixture, "work/lib/x.so.1");
    let outcome = load(fixture, &["--write", "work"], "work/lib/x.so.1");
    outcome.is(1);
    let work = fixture.text("work");
    assert_eq!(
        notes(&outcome),
        [format!(
            "palisade: note: no library is loaded from where the guest can write (\"failed to map segment\"), and \
             'x.so.1' lies there: --exec {work}"
        )]
    );
    let flags = ["--write", "work", "--exec", &work];
    load(fixture, &flags, "work/lib/x.so.1").prints("loaded\n");
    // By the path that the guest knows.
    let outcome = load(fixture, &["--write", "work:/inside"], "/inside/lib/x.so.1");
    outcome.is(1);
    assert_eq!(advised(&outcome), "--exec /inside");
}

/// What was loaded before is told of where it may be why, and nowhere else.
fn library_that_is_no_reason(fixture: &Fixture) {
    fixture.make_folder("work");
    fixture.write_program("work/program", "#!/bin/sh\n");
    write_library(fixture, "work/x.so");
    load(fixture, &["--write", "work"], "work/x.so").is(1);
    let notes_of = |flags: &[&str], script: &str| {
        let words = [&["run"], flags, &["--", "/bin/sh", "-c", script]].concat();
        let outcome = fixture.palisade(words).run();
        notes(&outcome).len()
    };
    assert_eq!(notes_of(&["--write", "work"], "exit 1"), 1);
    assert_eq!(notes_of(&["--write", "work"], "exit 0"), 0);
    assert_eq!(notes_of(&["--write", "work"], "kill -9 $$"), 0);
    // A WebAssembly guest loads none.
    let module = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (func (export "_start") (call $exit (i32.const 1))))"#;
    fs::write(fixture.path("exit.wasm"), wat::parse_str(module).unwrap()).unwrap();
    let outcome = fixture
        .palisade(["run", "--write", "work", "--", "./exit.wasm"])
        .run();
    outcome.is(1);
    assert!(!outcome.stderr.contains("no library"), "{}", outcome.stderr);
    assert_eq!(
        notes_of(&["--write", "work", "--exec", "work"], "exit 1"),
        0
    );
    assert_eq!(
        notes_of(&["--write", "work", "--exec", "work/x.so"], "exit 1"),
        0
    );
    assert_eq!(
        notes_of(&["--write", "work", "--read", "work/x.so"], "exit 1"),
        0
    );
    assert_eq!(notes_of(&["--read", "work"], "exit 1"), 0);
    assert_eq!(notes_of(&[], "exit 1"), 0);
}

/// Of the library and of the folder. A link and a FIFO are no libraries, and nobody waits for one.
fn library_with_a_name_that_acts_on_a_terminal(fixture: &Fixture) {
    let folder = OsString::from_vec(b"wo\nrk\x1b[2J'".to_vec());
    let folder = Path::new(&folder);
    let path = fixture.path("").join(folder);
    fs::create_dir(&path).unwrap();
    own(fixture, &path);
    let name = OsString::from_vec(b"\xff\n\x1b[2J$(touch pwned)'.so".to_vec());
    fixture.make_fifo("fifo");
    fs::rename(fixture.path("fifo"), path.join("fifo.so")).unwrap();
    symlink("/usr/bin/env", path.join("link.so")).unwrap();
    symlink("/usr/lib", path.join("lib")).unwrap();
    let library = path.join(&name);
    let run = |flags: Vec<OsString>| {
        let words = ["run".into(), "--write".into(), folder.into()];
        let guest = ["--", "/usr/bin/python3", "-c", LOAD].map(OsString::from);
        let words = words.into_iter().chain(flags).chain(guest);
        fixture
            .palisade(words.chain([library.clone().into()]))
            .run()
    };
    let outcome = run(Vec::new());
    assert_eq!(notes(&outcome), [""; 0], "{outcome:?}");
    write_library(fixture, &library);
    let outcome = run(Vec::new());
    let flag = advised(&outcome);
    let is_plain = |c: char| !c.is_control();
    assert!(notes(&outcome)[0].chars().all(is_plain), "{outcome:?}");
    let printed = Command::new("bash")
        .args(["-c", &format!("printf '%s\\0' {flag}")])
        .output();
    let words = printed.unwrap().stdout;
    let words = words
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words = words.map(|word| OsString::from_vec(word.to_vec()));
    run(words.collect()).prints("loaded\n");
    assert!(!fixture.exists("pwned"));
}

/// What lies behind thousands of files is not found, and nothing is said of it.
fn libraries_are_looked_for_within_bounds(fixture: &Fixture) {
    fixture.make_folder("work/below");
    write_library(fixture, "work/below/x.so");
    let run = || load(fixture, &["--write", "work"], "work/below/x.so");
    assert_eq!(notes(&run()).len(), 1);
    for number in 0..2000 {
        fs::write(fixture.path(&format!("work/{number}")), "").unwrap();
    }
    let outcome = run();
    outcome.is(1);
    assert_eq!(notes(&outcome), [""; 0], "{outcome:?}");
}

fn sockets_below_a_write_grant_in_tmp(fixture: &Fixture) {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    own(fixture, folder.path());
    let granted = folder.path().to_str().unwrap();
    let script = "import socket, tempfile, os\n\
                  s = socket.socket(socket.AF_UNIX)\n\
                  s.bind(os.path.join(tempfile.gettempdir(), 'sock'))\nprint('bound')\n";
    let run = |flags: &[&str]| {
        let words = ["run", "--write", granted];
        let words = words.iter().chain(flags);
        let guest = ["--", "/usr/bin/python3", "-c", script];
        fixture.palisade(words.chain(&guest)).run()
    };
    let outcome = run(&[]);
    outcome.is(1);
    let notes = notes(&outcome);
    assert_eq!(notes.len(), 1, "{outcome:?}");
    assert!(
        notes[0].ends_with("takes --env TMPDIR=/dev/shm"),
        "{outcome:?}"
    );
    run(&["--env", "TMPDIR=/dev/shm"]).prints("bound\n");
    run(&["--ipc", "/tmp"]).prints("bound\n");
}
