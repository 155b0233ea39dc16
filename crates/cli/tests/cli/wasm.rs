//! WebAssembly behind the wall: recognised, compiled, kept, run and reported like any program.
//!
//! `guests/wasi/cli-guest.c` is compiled twice. Where both can do an act, what they print and how they end
//! must be the same.

use super::{
    fixture::{Call, Fixture, NATIVE_WALL, Outcome, User, cases, finish, signal},
    network::Service,
    person::{PROMPT, Person},
    schema::violations,
};
use palisade_suite::{executable::copy_program, ports::free_ports};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};

cases![
    arguments_environment_input_and_exit_code,
    found_by_name_by_path_and_by_grant,
    a_native_program_is_not_looked_up_in_the_current_folder,
    files_are_the_native_twins,
    a_component_does_as_a_module_does,
    a_file_without_a_grant_is_hinted_at,
    limits_end_both_twins_alike,
    compiling_is_part_of_the_time,
    limits_reach_both_twins_alike,
    memory,
    a_trap_is_told,
    what_is_no_program_is_refused,
    what_needs_more_than_wasi_is_refused,
    what_is_no_file_is_refused,
    the_wall_must_suit_the_file,
    grants_that_it_cannot_have_are_refused,
    a_worker_that_is_not_there,
    code_is_compiled_once,
    spoilt_code_is_made_again,
    other_modules_have_other_code,
    a_cache_that_cannot_be_used_is_told_of,
    a_cache_within_reach_is_refused,
    programs_within_reach_are_refused,
    the_compiler_is_granted_nothing,
    a_policy_file_suits_both_walls,
    a_socket_that_was_passed_in,
    the_report_is_the_guests,
    a_signal_ends_it,
    the_guest_is_on_the_terminal,
    explained_before_it_runs,
    both_walls_side_by_side,
    without_namespaces_it_goes_on_where_accepted,
];

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/wasi/cli-guest.c");

/// The guest as WebAssembly and as a native program.
struct Twins {
    wasm: Vec<u8>,
    native: Vec<u8>,
}

fn twins() -> &'static Twins {
    static TWINS: OnceLock<Twins> = OnceLock::new();
    TWINS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let compile = |compiler: &str, flags: &[&str]| {
            let program = folder.path().join(compiler);
            let mut command = Command::new(compiler);
            command
                .args(flags)
                .args(["-O1", SOURCE, "-o"])
                .arg(&program);
            let status = command.status().unwrap_or_else(|error| {
                panic!("{compiler}: {error}: tools/setup test installs it")
            });
            assert!(status.success(), "{compiler}");
            fs::read(program).unwrap()
        };
        Twins {
            wasm: compile("clang-19", &["--target=wasm32-wasi"]),
            native: compile("cc", &["-static"]),
        }
    })
}

fn write(fixture: &Fixture, name: &str, bytes: &[u8]) {
    fixture.write(name, "");
    fs::write(fixture.path(name), bytes).unwrap();
}

/// Puts `guest.wasm` and `guest` into the fixture's folder.
pub(super) fn place_twins(fixture: &Fixture) {
    write(fixture, "guest.wasm", &twins().wasm);
    fixture.write_program("guest", &twins().native);
}

/// `palisade run` with a cache of the fixture's own.
pub(super) fn run(fixture: &Fixture, flags: &[&str], guest: &[&str]) -> Call {
    palisade(fixture, "run", flags, guest)
}

fn palisade(fixture: &Fixture, verb: &str, flags: &[&str], guest: &[&str]) -> Call {
    fixture.make_folder("cache");
    let words = [verb].into_iter().chain(flags.iter().copied());
    let words = words.chain(["--"]).chain(guest.iter().copied());
    fixture
        .palisade(words)
        .env("XDG_CACHE_HOME", &fixture.text("cache"))
}

pub(crate) fn run_wasm(fixture: &Fixture, flags: &[&str], acts: &[&str]) -> Outcome {
    place_twins(fixture);
    run(fixture, flags, &[&["guest.wasm"], acts].concat()).run()
}

/// Runs both twins; they end and print alike.
#[track_caller]
fn run_both(fixture: &Fixture, flags: &[&str], acts: &[&str]) -> Outcome {
    let wasm = run_wasm(fixture, flags, acts);
    let flags = [flags, &["--read", "guest"]].concat();
    let native = run(fixture, &flags, &[&["./guest"], acts].concat()).run();
    assert_eq!(
        (wasm.code(), wasm.text()),
        (native.code(), native.text()),
        "{wasm:?}\n{native:?}"
    );
    wasm
}

fn arguments_environment_input_and_exit_code(fixture: &Fixture) {
    place_twins(fixture);
    let acts = [
        "guest.wasm",
        "say",
        "a b",
        "env",
        "A",
        "env",
        "HOME",
        "copy",
        "exit",
        "7",
    ];
    let outcome = run(fixture, &["--env", "A=1"], &acts)
        .input("input\n")
        .run();
    outcome.is_silent(7);
    assert_eq!(outcome.text(), "a b\n1\nunset\ninput\n");
    run_wasm(
        fixture,
        &[],
        &["env", "XDG_CACHE_HOME", "env", "LISTEN_PID"],
    )
    .prints("unset\nunset\n");
}

fn found_by_name_by_path_and_by_grant(fixture: &Fixture) {
    place_twins(fixture);
    write(fixture, "folder/other", &twins().wasm);
    for program in [
        "guest.wasm",
        "./guest.wasm",
        "folder/other",
        &fixture.text("guest.wasm"),
    ] {
        run(fixture, &[], &[program, "say", "x"])
            .run()
            .prints("x\n");
    }
    let granted = ["--read", "folder:/programs"];
    run(fixture, &granted, &["/programs/other", "say", "x"])
        .run()
        .prints("x\n");
    run(fixture, &[], &["/programs/other"])
        .run()
        .says(127, &["guest: ", "not found"]);
}

/// Whoever left it there would choose what runs with the user's grants.
fn a_native_program_is_not_looked_up_in_the_current_folder(fixture: &Fixture) {
    write(fixture, "echo", &twins().wasm);
    run(fixture, &[], &["echo", "native"])
        .run()
        .prints("native\n");
    run(fixture, &["--wall", "wasm"], &["echo", "say", "wasm"])
        .run()
        .prints("wasm\n");
}

fn files_are_the_native_twins(fixture: &Fixture) {
    fixture.write("in/file", "content\n");
    fixture.write("out/kept", "kept\n");
    fixture.write("beside", "secret\n");
    let inside = fixture.text("in/file");
    let flags = ["--read", "in", "--write", "out", "--protect", "out/kept"];
    #[rustfmt::skip]
    let acts = [
        "show", "in/file", "show", &inside, "show", "in/../in/file", "list", "in",
        "put", "in/file", "put", "in/new", "remove", "in/file", "folder", "in/folder",
        "put", "out/new", "show", "out/new", "put", "out/kept", "remove", "out/kept",
        "list", "out", "remove", "out/new", "show", "out/new",
        "show", "beside", "show", "in/none", "show", "in/file/x", "list", "in/file",
    ];
    let both = run_both(fixture, &flags, &acts);
    assert!(both.text().contains("put out/kept: EROFS"), "{both:?}");
    assert!(!both.text().contains("secret"), "{both:?}");
    assert_eq!(fixture.read("out/kept"), "kept\n");
    #[rustfmt::skip]
    let acts = [
        "put", "/tmp/a", "show", "/tmp/a", "folder", "/tmp/a/b", "folder", "/tmp/b", "folder", "/tmp/b/c", "remove", "/tmp/a", "show", "/tmp/a",
        "show", "/etc/passwd", "show", "/etc/shadow", "put", "/etc/passwd", "put", "/usr/new",
        "list", "/root", "show", "/dev/null", "list", "/etc/alternatives", "show", "/bin/gone",
    ];
    run_both(fixture, &[], &acts);
}

/// The same program as a component of WASI 0.2.
fn component() -> &'static [u8] {
    static COMPONENT: OnceLock<Vec<u8>> = OnceLock::new();
    COMPONENT.get_or_init(|| {
        let adapter = WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER;
        wit_component::ComponentEncoder::default()
            .module(&twins().wasm)
            .and_then(|encoder| encoder.adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter))
            .and_then(|mut encoder| encoder.encode())
            .unwrap()
    })
}

fn a_component_does_as_a_module_does(fixture: &Fixture) {
    fixture.write("in/file", "content\n");
    fixture.make_folder("out");
    write(fixture, "component.wasm", component());
    place_twins(fixture);
    let flags = [
        "--read", "in", "--write", "out", "--env", "A=1", "--time", "1m",
    ];
    #[rustfmt::skip]
    let acts = [
        "say", "a b", "env", "A", "env", "B", "show", "in/file", "show", "in/none",
        "put", "out/new", "show", "out/new", "list", "out", "remove", "out/new", "show", "/etc/passwd",
        "put", "/tmp/a", "show", "/tmp/a", "show", "/etc/shadow", "copy",
    ];
    let outcomes = ["component.wasm", "guest.wasm"].map(|program| {
        let guest = [&[program], &acts[..]].concat();
        let outcome = run(fixture, &flags, &guest).input("input\n").run();
        outcome.is_silent(0);
        outcome.text()
    });
    assert_eq!(outcomes[0], outcomes[1]);
    run(
        fixture,
        &["--report", "report.json"],
        &["component.wasm", "trap"],
    )
    .run()
    .says(134, &["guest: trap: ", "unreachable"]);
    assert_eq!(report(fixture)["wall"], "wasm");
    for (flags, act, code) in [
        (&["--time", "300ms"][..], "spin", 124),
        (&["--time", "300ms"], "sleep", 124),
        (&CPU_TIME[..], "spin", 152),
        (&["--output", "64K"], "flood", 153),
    ] {
        run(fixture, flags, &["component.wasm", act])
            .run()
            .says(code, &["limit: "]);
    }
    // The engine has no name for EMFILE, and says EIO.
    let limited = ["--files", "64", "--processes", "1"];
    let outcome = run(fixture, &limited, &["component.wasm", "open-all"]).run();
    outcome.is_silent(0);
    assert!(
        outcome.text().starts_with("opened some, then "),
        "{outcome:?}"
    );
    // It ends with success or failure; WASI 0.2 has no other codes.
    run(fixture, &[], &["component.wasm", "exit", "7"])
        .run()
        .is_silent(1);
}

fn a_file_without_a_grant_is_hinted_at(fixture: &Fixture) {
    fixture.write("file", "x");
    let outcome = run_wasm(fixture, &[], &["show", "file", "exit", "1"]);
    outcome.is(1);
    assert_eq!(
        outcome.stderr,
        "palisade: note: 'file' exists on the host but is not granted: --read file\n",
        "the module itself needs no grant"
    );
}

/// A module that takes longer to compile than it may run: functions of nothing but additions.
fn large_module() -> Vec<u8> {
    let sum =
        "(local.get 0) (i64.const 3) (i64.add) (i64.const 5) (i64.mul) (local.set 0) ".repeat(2000);
    let function = format!("(func (param i64) {sum})");
    let text = format!(
        "(module (func (export \"_start\")) {})",
        function.repeat(200)
    );
    wat::parse_str(text).unwrap()
}

fn compiling_is_part_of_the_time(fixture: &Fixture) {
    write(fixture, "large.wasm", &large_module());
    let limited = run(fixture, &["--time", "50ms"], &["large.wasm"]).run();
    limited.says(124, &["limit: ", "large.wasm", "compile", "--time"]);
    // What was not finished was not kept, and what is left over of a longer time is the guest's.
    run(fixture, &["--time", "5m"], &["large.wasm"])
        .run()
        .is_silent(0);
    run(fixture, &["--time", "30s"], &["large.wasm"])
        .run()
        .is_silent(0);
}
/// An ordinary user has no control group here to count it.
const CPU_TIME: [&str; 4] = ["--cpu-time", "200ms", "--allow-degraded", "cpu-time"];

fn limits_end_both_twins_alike(fixture: &Fixture) {
    // Compiling takes time, too.
    run_wasm(fixture, &[], &[]).is_silent(0);
    for (flags, act, code, word) in [
        (&["--time", "300ms"][..], ["sleep"], 124, "--time"),
        (&["--time", "300ms"], ["spin"], 124, "--time"),
        (&CPU_TIME, ["spin"], 152, "--cpu-time"),
        (&["--output", "64K"], ["flood"], 153, "--output"),
    ] {
        let outcome = run_wasm(fixture, flags, &act);
        outcome.says(code, &["limit: ", word]);
        run_both(fixture, flags, &act);
    }
}

fn limits_reach_both_twins_alike(fixture: &Fixture) {
    run_both(fixture, &["--file-size", "1M"], &["fill", "/tmp/x"]).says(153, &["--file-size"]);
    run_both(fixture, &["--tmp-size", "1M"], &["fill", "/tmp/x"]).prints("fill /tmp/x: ENOSPC\n");
    for files in ["8", "64"] {
        run_both(fixture, &["--files", files], &["open-all"]).prints("opened some, then EMFILE\n");
    }
    run_both(fixture, &["--processes", "1"], &["say", "x"]).prints("x\n");
}

fn memory(fixture: &Fixture) {
    match fixture.user {
        User::Root => {
            run_both(fixture, &["--memory", "64M"], &["grow", "300"])
                .says(137, &["limit: ", "--memory"]);
            run_both(fixture, &["--memory", "512M"], &["grow", "100"]).prints("grew\n");
        }
        User::Ordinary => {
            let accepted = ["--memory", "64M", "--allow-degraded", "memory"];
            run_both(fixture, &accepted, &["grow", "300"]).prints("grew by less\n");
            run_both(fixture, &accepted, &["grow", "10"]).prints("grew\n");
        }
    }
}

/// The signal is that of the same fault in a native program.
fn a_trap_is_told(fixture: &Fixture) {
    for (act, code, word) in [
        ("trap", 134, "unreachable"),
        ("divide", 136, "divide by zero"),
        ("recurse", 139, "recurse"),
    ] {
        let outcome = run_wasm(fixture, &["--report", "report.json"], &[act]);
        outcome.says(
            code,
            &["guest: trap: ", word, "at main"][..2 + usize::from(act != "recurse")],
        );
        assert!(!outcome.stderr.contains("ended by"), "{outcome:?}");
        let report = report(fixture);
        assert!(report["trap"].as_str().unwrap().contains(word), "{report}");
        assert_eq!(report["exit_code"], code);
    }
}

const HEAD: &[u8] = b"\0asm\x01\0\0\0";

fn what_is_no_program_is_refused(fixture: &Fixture) {
    let cut = &twins().wasm[..twins().wasm.len() / 2];
    let garbage = [HEAD, b"\xff\xfe\xfd garbage"].concat();
    let unknown = b"\0asm\x63\0\0\0";
    let component = [b"\0asm\x0d\0\x01\0", &b"\x63\x63\x63"[..]].concat();
    for (bytes, word) in [
        (HEAD, "_start"),
        (cut, ""),
        (&garbage, ""),
        (&unknown[..], "version"),
        (&component, ""),
    ] {
        write(fixture, "bad.wasm", bytes);
        run(fixture, &[], &["bad.wasm"])
            .run()
            .refuses(&["guest: ", "bad.wasm", word]);
    }
    write(fixture, "short.wasm", b"\0asm");
    run(fixture, &[], &["./short.wasm"])
        .run()
        .refuses(&["guest: ", "short.wasm"]);
}

/// `(import "nothing" "here" (func))`, and a program's `_start` that is this function.
const IMPORTS_NOTHING: &[u8] =
    b"\x01\x04\x01\x60\0\0\x02\x10\x01\x07nothing\x04here\0\0\x07\x0a\x01\x06_start\0\0";
/// A memory of one page, shared.
const SHARES_MEMORY: &[u8] = b"\x05\x04\x01\x03\x01\x01";

fn what_needs_more_than_wasi_is_refused(fixture: &Fixture) {
    for (rest, words) in [
        (IMPORTS_NOTHING, ["nothing", "here"]),
        (SHARES_MEMORY, ["thread", ""]),
    ] {
        write(fixture, "more.wasm", &[HEAD, rest].concat());
        let mut expected = vec!["guest: ", "more.wasm"];
        expected.extend(words);
        run(fixture, &[], &["more.wasm"]).run().refuses(&expected);
    }
}

fn what_is_no_file_is_refused(fixture: &Fixture) {
    fixture.make_fifo("fifo.wasm");
    fixture.make_folder("folder.wasm");
    for name in ["./fifo.wasm", "./folder.wasm", "gone.wasm"] {
        let outcome = run(fixture, &[], &[name]).run();
        assert!([126, 127].contains(&outcome.code()), "{outcome:?}");
    }
    write(fixture, "huge.wasm", &twins().wasm);
    let huge = fs::File::options()
        .write(true)
        .open(fixture.path("huge.wasm"));
    huge.unwrap().set_len(1 << 40).unwrap();
    run(fixture, &[], &["huge.wasm"])
        .run()
        .refuses(&["guest: ", "huge.wasm", "larger"]);
}

fn the_wall_must_suit_the_file(fixture: &Fixture) {
    place_twins(fixture);
    run(fixture, &["--wall", "process"], &["./guest.wasm"])
        .run()
        .refuses(&["policy: ", "guest.wasm", "WebAssembly"]);
    run(fixture, &["--wall", "wasm"], &["./guest"])
        .run()
        .refuses(&["policy: ", "guest"]);
    run(fixture, &["--wall", "wasm"], &["gone"])
        .run()
        .refuses(&["policy: ", "gone", "not found"]);
    run(fixture, &["--wall", "vm"], &["true"])
        .run()
        .refuses(&["policy: --wall", "process, wasm"]);
    run(fixture, &["--wall", "process"], &["true"])
        .run()
        .is_silent(0);
}

fn grants_that_it_cannot_have_are_refused(fixture: &Fixture) {
    place_twins(fixture);
    fixture.write("one", "1");
    for (flags, word) in [
        (&["--device", "pts"][..], "terminals"),
        (&["--profile", "palisade"], "palisade of its own"),
        (&["--cwd", "/tmp", "--read", "one:/one"], "/one"),
    ] {
        for verb in ["run", "explain"] {
            let call = palisade(fixture, verb, flags, &["guest.wasm"]);
            call.run().refuses(&["policy: ", word]);
        }
    }
}

fn a_worker_that_is_not_there(fixture: &Fixture) {
    place_twins(fixture);
    let call = || run(fixture, &[], &["guest.wasm", "say", "x"]);
    call()
        .env("PALISADE_LIBEXEC", &fixture.text(""))
        .run()
        .refuses(&[
            "host: ",
            "palisade-worker",
            "make build",
            "PALISADE_LIBEXEC",
        ]);
    let beside = fixture.program().parent().unwrap().to_str().unwrap();
    call().env("PALISADE_LIBEXEC", beside).run().prints("x\n");
}

/// The one entry of the fixture's cache.
#[track_caller]
fn entry(fixture: &Fixture) -> PathBuf {
    let mut entries = entries(fixture);
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

fn entries(fixture: &Fixture) -> Vec<PathBuf> {
    let entries = fs::read_dir(fixture.path("cache/palisade/code")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn says_x(fixture: &Fixture) -> Outcome {
    let outcome = run(fixture, &[], &["guest.wasm", "say", "x"]).run();
    assert_eq!(outcome.text(), "x\n", "{outcome:?}");
    outcome
}

fn code_is_compiled_once(fixture: &Fixture) {
    place_twins(fixture);
    says_x(fixture).is_silent(0);
    let kept = fs::metadata(entry(fixture)).unwrap();
    assert_eq!((kept.mode() & 0o777, kept.nlink()), (0o400, 1));
    says_x(fixture).is_silent(0);
    let same = fs::metadata(entry(fixture)).unwrap();
    assert_eq!(
        (kept.ino(), kept.mtime_nsec()),
        (same.ino(), same.mtime_nsec())
    );
}

fn spoilt_code_is_made_again(fixture: &Fixture) {
    place_twins(fixture);
    says_x(fixture);
    let path = entry(fixture);
    let whole = fs::read(&path).unwrap();
    let flip = |at: usize| {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 0x40;
        spoilt
    };
    for spoilt in [
        flip(0),
        flip(whole.len() / 2),
        flip(whole.len() - 1),
        whole[..whole.len() / 2].to_vec(),
        Vec::new(),
        [&whole[..], b"more"].concat(),
        b"\x7fELF not by far".to_vec(),
    ] {
        // Its owner can give himself the right to.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, &spoilt).unwrap();
        says_x(fixture).is_silent(0);
        assert_eq!(fs::read(entry(fixture)).unwrap(), whole);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    says_x(fixture).is_silent(0);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o400);
    let moved = fixture.path("cache/palisade/moved");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    says_x(fixture).is_silent(0);
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

fn other_modules_have_other_code(fixture: &Fixture) {
    place_twins(fixture);
    says_x(fixture);
    // A custom section changes the module's bytes and nothing it does.
    let other = [&twins().wasm[..], b"\0\x05\x04test"].concat();
    write(fixture, "guest.wasm", &other);
    says_x(fixture).is_silent(0);
    assert_eq!(entries(fixture).len(), 2);
}

fn a_cache_that_cannot_be_used_is_told_of(fixture: &Fixture) {
    place_twins(fixture);
    let told = |outcome: &Outcome, word: &str| {
        outcome.is(0);
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        assert!(
            outcome.stderr.starts_with("palisade: note: host: "),
            "{outcome:?}"
        );
        assert!(outcome.stderr.contains(word), "{outcome:?}");
    };
    says_x(fixture);
    let folder = fixture.path("cache/palisade/code");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    told(&says_x(fixture), "others have rights");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    says_x(fixture).is_silent(0);
    fixture.write("file", "");
    let call =
        run(fixture, &[], &["guest.wasm", "say", "x"]).env("XDG_CACHE_HOME", &fixture.text("file"));
    told(&call.run(), "file");
    if fixture.user == User::Ordinary {
        let mut call = run(fixture, &[], &["guest.wasm", "say", "x"]);
        call.command.env_remove("XDG_CACHE_HOME");
        told(&call.run(), "HOME");
    }
}

fn a_cache_within_reach_is_refused(fixture: &Fixture) {
    place_twins(fixture);
    let acts = ["guest.wasm", "say", "x"];
    for granted in [".", "cache", "cache/palisade"] {
        fixture.make_folder("cache/palisade");
        run(fixture, &["--write", granted], &acts).run().refuses(&[
            "policy: ",
            "cache/palisade",
            "--protect",
        ]);
    }
    let protected = ["--write", ".", "--protect", "cache/palisade"];
    run(fixture, &protected, &acts).run().prints("x\n");
    run(fixture, &["--read", "."], &acts).run().prints("x\n");
}

/// They run later guests: the worker in their domains, the compiler makes their code.
fn programs_within_reach_are_refused(fixture: &Fixture) {
    place_twins(fixture);
    fixture.make_folder("libexec");
    fixture.make_folder("elsewhere");
    let beside = fixture.program().parent().unwrap();
    for name in ["palisade-worker", "palisade-compiler"] {
        copy_program(&beside.join(name), &fixture.path("libexec").join(name)).unwrap();
    }
    symlink(fixture.text("libexec"), fixture.path("elsewhere/link")).unwrap();
    let acts = ["guest.wasm", "say", "x"];
    let with = |folder: &str, granted: &str| {
        let call = run(fixture, &["--write", granted], &acts);
        call.env("PALISADE_LIBEXEC", &fixture.text(folder)).run()
    };
    for granted in ["libexec", "libexec/palisade-compiler"] {
        with("libexec", granted).refuses(&["policy: ", "libexec/palisade-", "--protect"]);
    }
    // Where a link on the way lies.
    with("elsewhere/link", "elsewhere").refuses(&["policy: ", "palisade-"]);
    with("libexec", "elsewhere").prints("x\n");
}

/// A compiler that looks for the user's files, in the place of palisade's own.
fn the_compiler_is_granted_nothing(fixture: &Fixture) {
    place_twins(fixture);
    fixture.write("secret", "secret");
    let beside = fixture.program().parent().unwrap();
    fixture.make_folder("libexec");
    let worker = "palisade-worker";
    copy_program(&beside.join(worker), &fixture.path("libexec").join(worker)).unwrap();
    let program = fixture.text("libexec/palisade-compiler");
    let compile = |source: &str| {
        write(fixture, "look.c", source.as_bytes());
        let compiled = Command::new("cc")
            .args(["-static", &fixture.text("look.c"), "-o", &program])
            .status();
        assert!(compiled.unwrap().success());
    };
    // It does nothing: no code comes out.
    compile("int main(void) { return 0; }\n");
    run(fixture, &["--read", "."], &["guest.wasm"])
        .env("PALISADE_LIBEXEC", &fixture.text("libexec"))
        .run()
        .refuses(&["guest: ", "guest.wasm", "compiler"]);
    let source = format!(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/socket.h>\n#include <unistd.h>\n\
         int main(void) {{\n\
         const char *paths[] = {{\"{}\", \"/etc/passwd\", \"/proc/self/mem\", \"/usr\", \"/tmp/x\"}};\n\
         for (int at = 0; at < 5; at++)\n\
         fprintf(stderr, \"%d\", open(paths[at], at == 4 ? O_CREAT | O_WRONLY : O_RDONLY, 0600) >= 0);\n\
         fprintf(stderr, \"%d%d\", socket(AF_INET, SOCK_STREAM, 0) >= 0, getenv(\"PATH\") != 0);\n\
         return 1;\n}}\n",
        fixture.text("secret")
    );
    let source = source.replace(
        "#include <stdio.h>",
        "#include <stdio.h>\n#include <stdlib.h>",
    );
    compile(&source);
    let outcome = run(fixture, &["--read", "."], &["guest.wasm"])
        .env("PALISADE_LIBEXEC", &fixture.text("libexec"))
        .run();
    // Its own /tmp it can write to; a socket leads nowhere; PATH is the one every guest has.
    let said = outcome
        .stderr
        .trim_end()
        .rsplit(' ')
        .next()
        .unwrap()
        .to_owned();
    outcome.refuses(&["guest: "]);
    assert!(said.starts_with("00001"), "{said}");
}

fn a_policy_file_suits_both_walls(fixture: &Fixture) {
    fixture.write("in/file", "content\n");
    fixture.make_folder("out");
    fixture.write(
        "policy.toml",
        "cwd = \"/in\"\n[grants]\nread = [\"in:/in\", \"guest:/programs/guest\"]\nwrite = [\"out:/out\"]\nexec = [\"/out\"]\nipc = [\"/out\"]\nenv = [\"A=1\"]\n[limits]\ntime = \"1m\"\nfiles = 64\nprocesses = 8\n",
    );
    place_twins(fixture);
    let acts = [
        "show", "/in/file", "put", "/in/file", "put", "/out/new", "env", "A", "list", "/out",
    ];
    let outcomes = [fixture.text("guest.wasm"), "/programs/guest".into()].map(|program| {
        let guest = [&[program.as_str()], &acts[..]].concat();
        let outcome = run(fixture, &["--policy", "policy.toml"], &guest).run();
        outcome.is_silent(0);
        outcome.text()
    });
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].starts_with("content\nput /in/file: EROFS\nput /out/new: done\n1\n"));
}

fn a_socket_that_was_passed_in(fixture: &Fixture) {
    place_twins(fixture);
    let port = free_ports(1);
    let listen = format!("tcp://127.0.0.1:{port},ready");
    let acts = ["guest.wasm", "say", "up", "serve"];
    let server = Service::start(run(fixture, &["--listen", &listen], &acts), "up");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(b"hello").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
    let said = server.ends();
    assert!(said.contains("served"), "{said}");
}

fn report(fixture: &Fixture) -> Value {
    serde_json::from_str(&fixture.read("report.json")).unwrap()
}

fn the_report_is_the_guests(fixture: &Fixture) {
    let flags = ["--report", "report.json", "--time", "1m"];
    run_wasm(fixture, &flags, &["exit", "3"]).is_silent(3);
    let report = report(fixture);
    assert_eq!(
        violations(&palisade_wall::report_schema(), &report),
        [""; 0]
    );
    assert_eq!(report["wall"], "wasm");
    assert_eq!(
        report["command"],
        serde_json::json!(["guest.wasm", "exit", "3"])
    );
    assert_eq!(
        (&report["exit_code"], &report["trap"]),
        (&3.into(), &Value::Null)
    );
    let names = |key: &str, name: &str| -> Vec<String> {
        let rows = report[key].as_array().unwrap().iter();
        rows.map(|row| row[name].as_str().unwrap().to_owned())
            .collect()
    };
    for capability in ["namespaces", "seccomp", "time", "isolation", "host-calls"] {
        assert!(names("enforcement", "capability").contains(&capability.to_owned()));
    }
    let phases = names("phases", "name");
    // Init says that the program runs when it gets the processor back, and that may be later.
    let own = phases
        .iter()
        .skip_while(|phase| *phase != "host-left")
        .take_while(|phase| *phase != "guest-ended")
        .filter(|phase| !["host-left", "program-running"].contains(&phase.as_str()));
    assert!(
        own.count() > 0,
        "the worker's phases stand between: {phases:?}"
    );
}

fn a_signal_ends_it(fixture: &Fixture) {
    place_twins(fixture);
    let mut child = run(fixture, &[], &["guest.wasm", "say", "up", "sleep"]).spawn();
    let mut up = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    signal(&child, Signal::TERM);
    finish(child, b"").is_silent(143);
}

fn the_guest_is_on_the_terminal(fixture: &Fixture) {
    place_twins(fixture);
    let cache = fixture.text("cache");
    fixture.make_folder("cache");
    let mut person = Person::sit_down(fixture);
    person
        .types(&format!("export XDG_CACHE_HOME={cache}\n"))
        .sees(PROMPT)
        .types("$P run guest.wasm tty\n")
        .sees("\n111\r\n")
        .sees(PROMPT)
        .types("$P run guest.wasm say up copy; echo code $?\n")
        .sees("\nup\r\n")
        .types("typed\n")
        .sees("typed\r\ntyped\r\n")
        .types("\x04")
        .sees("code 0\r\n")
        .sees(PROMPT)
        .types("$P run guest.wasm say up sleep; echo code $?\n")
        .sees("\nup\r\n")
        .types("\x03")
        .sees("code 130\r\n");
}

fn explained_before_it_runs(fixture: &Fixture) {
    place_twins(fixture);
    let flags = ["--exec", "/tmp", "--files", "32"];
    let explain = |flags: &[&str]| palisade(fixture, "explain", flags, &["guest.wasm", "x"]).run();
    let outcome = explain(&flags);
    outcome.is_silent(0);
    let text = outcome.text();
    for line in [
        format!("module    {}", fixture.text("guest.wasm")),
        "run       guest.wasm x".into(),
        "unused    exec: a WebAssembly guest executes nothing".into(),
        "proc      for init alone, at no path".into(),
        "wall      wasm".into(),
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line:?} in {text}"
        );
    }
    assert!(
        entries_or_none(fixture).is_empty(),
        "nothing is compiled for it"
    );
    let outcome = explain(&[&flags[..], &["--json"]].concat());
    let plan: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(
        (&plan["wall"], &plan["module"]["kind"]),
        (&"wasm".into(), &"module".into())
    );
    assert_eq!(
        plan["worker"]["command"],
        serde_json::json!(["guest.wasm", "x"])
    );
}

fn entries_or_none(fixture: &Fixture) -> Vec<PathBuf> {
    let exists = Path::new(&fixture.path("cache/palisade")).exists();
    if exists { entries(fixture) } else { Vec::new() }
}

fn both_walls_side_by_side(fixture: &Fixture) {
    let explain = |flags: &[&str]| {
        let outcome = palisade(fixture, "explain", flags, &["true"]).run();
        outcome.is_silent(0);
        outcome
    };
    let text = explain(&["--exec", "/tmp", "--device", "pts"]).text();
    assert!(
        text.contains(&format!("\nwall      {NATIVE_WALL}\n")),
        "{text}"
    );
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("walls "))
        .collect();
    for (start, end) in [
        ("walls     namespaces ", "the same"),
        ("walls     exec ", "nothing: it executes nothing"),
        ("walls     this policy", "or run a native program"),
    ] {
        let row = rows.iter().find(|row| row.starts_with(start)).expect(start);
        assert!(row.ends_with(end), "{row}");
    }
    let json: Value = serde_json::from_slice(&explain(&["--json"]).stdout).unwrap();
    assert_eq!(json["wall"], NATIVE_WALL);
    let rows = json["walls"].as_array().unwrap();
    assert!(
        rows.iter()
            .any(|row| row["capability"] == "isolation" && row["wasm"] != row["process"])
    );
}

/// As the process wall's tier: see `tiers`.
fn without_namespaces_it_goes_on_where_accepted(fixture: &Fixture) {
    const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    place_twins(fixture);
    fixture.write("in/file", "content\n");
    fixture.make_folder("out");
    fixture.make_folder("cache");
    let without = [
        "-Ur",
        "/bin/sh",
        "-c",
        WITHOUT,
        "sh",
        fixture.program().to_str().unwrap(),
    ];
    let flags = [
        "run",
        "--allow-degraded",
        "namespaces",
        "--read",
        "in",
        "--write",
        "out",
    ];
    let acts = [
        "--",
        "guest.wasm",
        "show",
        "in/file",
        "put",
        "out/new",
        "put",
        "in/file",
        "show",
        "guest",
        "exit",
        "3",
    ];
    let call = fixture.call(
        Path::new("/usr/bin/unshare"),
        without.iter().chain(&flags).chain(&acts).copied(),
    );
    let outcome = call.env("XDG_CACHE_HOME", &fixture.text("cache")).run();
    outcome.is(3);
    assert_eq!(
        outcome.text(),
        "content\nput out/new: done\nput in/file: EACCES\nshow guest: EACCES\n",
        "{outcome:?}"
    );
}
