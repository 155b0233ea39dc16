//! WebAssembly behind the wall: recognised, compiled, kept, run and reported like any program.
//!
//! `guests/wasi/cli-guest.c` is compiled twice. Where both can do an act, what they print and how they end
//! must be the same.

use super::{
    network::{Service, free_ports},
    person::{PROMPT, Person},
    schema::violations,
    stage::{Call, Outcome, Stage, User, cases, finish, signal},
};
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

fn write(stage: &Stage, name: &str, bytes: &[u8]) {
    stage.write(name, "");
    fs::write(stage.path(name), bytes).unwrap();
}

/// Puts `guest.wasm` and `guest` into the stage's folder.
pub(super) fn place_twins(stage: &Stage) {
    write(stage, "guest.wasm", &twins().wasm);
    write(stage, "guest", &twins().native);
    fs::set_permissions(stage.path("guest"), Permissions::from_mode(0o755)).unwrap();
}

/// `palisade run` with a cache of the stage's own.
pub(super) fn run(stage: &Stage, flags: &[&str], guest: &[&str]) -> Call {
    palisade(stage, "run", flags, guest)
}

fn palisade(stage: &Stage, verb: &str, flags: &[&str], guest: &[&str]) -> Call {
    stage.make_folder("cache");
    let words = [verb].into_iter().chain(flags.iter().copied());
    let words = words.chain(["--"]).chain(guest.iter().copied());
    stage
        .palisade(words)
        .env("XDG_CACHE_HOME", &stage.text("cache"))
}

fn run_wasm(stage: &Stage, flags: &[&str], acts: &[&str]) -> Outcome {
    place_twins(stage);
    run(stage, flags, &[&["guest.wasm"], acts].concat()).run()
}

/// Runs both twins; they end and print alike.
#[track_caller]
fn run_both(stage: &Stage, flags: &[&str], acts: &[&str]) -> Outcome {
    let wasm = run_wasm(stage, flags, acts);
    let flags = [flags, &["--read", "guest"]].concat();
    let native = run(stage, &flags, &[&["./guest"], acts].concat()).run();
    assert_eq!(
        (wasm.code(), wasm.text()),
        (native.code(), native.text()),
        "{wasm:?}\n{native:?}"
    );
    wasm
}

fn arguments_environment_input_and_exit_code(stage: &Stage) {
    place_twins(stage);
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
    let outcome = run(stage, &["--env", "A=1"], &acts).input("input\n").run();
    outcome.is_silent(7);
    assert_eq!(outcome.text(), "a b\n1\nunset\ninput\n");
    run_wasm(stage, &[], &["env", "XDG_CACHE_HOME", "env", "LISTEN_PID"]).prints("unset\nunset\n");
}

fn found_by_name_by_path_and_by_grant(stage: &Stage) {
    place_twins(stage);
    write(stage, "folder/other", &twins().wasm);
    for program in [
        "guest.wasm",
        "./guest.wasm",
        "folder/other",
        &stage.text("guest.wasm"),
    ] {
        run(stage, &[], &[program, "say", "x"]).run().prints("x\n");
    }
    let granted = ["--read", "folder:/programs"];
    run(stage, &granted, &["/programs/other", "say", "x"])
        .run()
        .prints("x\n");
    run(stage, &[], &["/programs/other"])
        .run()
        .says(127, &["guest: ", "not found"]);
}

/// Whoever left it there would choose what runs with the user's grants.
fn a_native_program_is_not_looked_up_in_the_current_folder(stage: &Stage) {
    write(stage, "echo", &twins().wasm);
    run(stage, &[], &["echo", "native"])
        .run()
        .prints("native\n");
    run(stage, &["--wall", "wasm"], &["echo", "say", "wasm"])
        .run()
        .prints("wasm\n");
}

fn files_are_the_native_twins(stage: &Stage) {
    stage.write("in/file", "content\n");
    stage.write("out/kept", "kept\n");
    stage.write("beside", "secret\n");
    let inside = stage.text("in/file");
    let flags = ["--read", "in", "--write", "out", "--protect", "out/kept"];
    #[rustfmt::skip]
    let acts = [
        "show", "in/file", "show", &inside, "show", "in/../in/file", "list", "in",
        "put", "in/file", "put", "in/new", "remove", "in/file", "folder", "in/folder",
        "put", "out/new", "show", "out/new", "put", "out/kept", "remove", "out/kept",
        "list", "out", "remove", "out/new", "show", "out/new",
        "show", "beside", "show", "in/none", "show", "in/file/x", "list", "in/file",
    ];
    let both = run_both(stage, &flags, &acts);
    assert!(both.text().contains("put out/kept: EROFS"), "{both:?}");
    assert!(!both.text().contains("secret"), "{both:?}");
    assert_eq!(stage.read("out/kept"), "kept\n");
    #[rustfmt::skip]
    let acts = [
        "put", "/tmp/a", "show", "/tmp/a", "folder", "/tmp/a/b", "folder", "/tmp/b", "folder", "/tmp/b/c", "remove", "/tmp/a", "show", "/tmp/a",
        "show", "/etc/passwd", "show", "/etc/shadow", "put", "/etc/passwd", "put", "/usr/new",
        "list", "/root", "show", "/dev/null", "list", "/etc/alternatives", "show", "/bin/gone",
    ];
    run_both(stage, &[], &acts);
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

fn a_component_does_as_a_module_does(stage: &Stage) {
    stage.write("in/file", "content\n");
    stage.make_folder("out");
    write(stage, "component.wasm", component());
    place_twins(stage);
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
        let outcome = run(stage, &flags, &guest).input("input\n").run();
        outcome.is_silent(0);
        outcome.text()
    });
    assert_eq!(outcomes[0], outcomes[1]);
    run(
        stage,
        &["--report", "report.json"],
        &["component.wasm", "trap"],
    )
    .run()
    .says(134, &["guest: trap: ", "unreachable"]);
    assert_eq!(report(stage)["wall"], "wasm");
    for (flags, act, code) in [
        (&["--time", "300ms"][..], "spin", 124),
        (&["--time", "300ms"], "sleep", 124),
        (&CPU_TIME[..], "spin", 152),
        (&["--output", "64K"], "flood", 153),
    ] {
        run(stage, flags, &["component.wasm", act])
            .run()
            .says(code, &["limit: "]);
    }
    // The engine has no name for EMFILE, and says EIO.
    let limited = ["--files", "64", "--processes", "1"];
    let outcome = run(stage, &limited, &["component.wasm", "open-all"]).run();
    outcome.is_silent(0);
    assert!(
        outcome.text().starts_with("opened some, then "),
        "{outcome:?}"
    );
    // It ends with success or failure; WASI 0.2 has no other codes.
    run(stage, &[], &["component.wasm", "exit", "7"])
        .run()
        .is_silent(1);
}

fn a_file_without_a_grant_is_hinted_at(stage: &Stage) {
    stage.write("file", "x");
    let outcome = run_wasm(stage, &[], &["show", "file", "exit", "1"]);
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

fn compiling_is_part_of_the_time(stage: &Stage) {
    write(stage, "large.wasm", &large_module());
    let limited = run(stage, &["--time", "50ms"], &["large.wasm"]).run();
    limited.says(124, &["limit: ", "large.wasm", "compile", "--time"]);
    // What was not finished was not kept, and what is left over of a longer time is the guest's.
    run(stage, &["--time", "5m"], &["large.wasm"])
        .run()
        .is_silent(0);
    run(stage, &["--time", "30s"], &["large.wasm"])
        .run()
        .is_silent(0);
}
/// An ordinary user has no control group here to count it.
const CPU_TIME: [&str; 4] = ["--cpu-time", "200ms", "--allow-degraded", "cpu-time"];

fn limits_end_both_twins_alike(stage: &Stage) {
    // Compiling takes time, too.
    run_wasm(stage, &[], &[]).is_silent(0);
    for (flags, act, code, word) in [
        (&["--time", "300ms"][..], ["sleep"], 124, "--time"),
        (&["--time", "300ms"], ["spin"], 124, "--time"),
        (&CPU_TIME, ["spin"], 152, "--cpu-time"),
        (&["--output", "64K"], ["flood"], 153, "--output"),
    ] {
        let outcome = run_wasm(stage, flags, &act);
        outcome.says(code, &["limit: ", word]);
        run_both(stage, flags, &act);
    }
}

fn limits_reach_both_twins_alike(stage: &Stage) {
    run_both(stage, &["--file-size", "1M"], &["fill", "/tmp/x"]).says(153, &["--file-size"]);
    run_both(stage, &["--tmp-size", "1M"], &["fill", "/tmp/x"]).prints("fill /tmp/x: ENOSPC\n");
    for files in ["8", "64"] {
        run_both(stage, &["--files", files], &["open-all"]).prints("opened some, then EMFILE\n");
    }
    run_both(stage, &["--processes", "1"], &["say", "x"]).prints("x\n");
}

fn memory(stage: &Stage) {
    match stage.user {
        User::Root => {
            run_both(stage, &["--memory", "64M"], &["grow", "300"])
                .says(137, &["limit: ", "--memory"]);
            run_both(stage, &["--memory", "512M"], &["grow", "100"]).prints("grew\n");
        }
        User::Ordinary => {
            let accepted = ["--memory", "64M", "--allow-degraded", "memory"];
            run_both(stage, &accepted, &["grow", "300"]).prints("grew by less\n");
            run_both(stage, &accepted, &["grow", "10"]).prints("grew\n");
        }
    }
}

/// The signal is that of the same fault in a native program.
fn a_trap_is_told(stage: &Stage) {
    for (act, code, word) in [
        ("trap", 134, "unreachable"),
        ("divide", 136, "divide by zero"),
        ("recurse", 139, "recurse"),
    ] {
        let outcome = run_wasm(stage, &["--report", "report.json"], &[act]);
        outcome.says(
            code,
            &["guest: trap: ", word, "at main"][..2 + usize::from(act != "recurse")],
        );
        assert!(!outcome.stderr.contains("ended by"), "{outcome:?}");
        let report = report(stage);
        assert!(report["trap"].as_str().unwrap().contains(word), "{report}");
        assert_eq!(report["exit_code"], code);
    }
}

const HEAD: &[u8] = b"\0asm\x01\0\0\0";

fn what_is_no_program_is_refused(stage: &Stage) {
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
        write(stage, "bad.wasm", bytes);
        run(stage, &[], &["bad.wasm"])
            .run()
            .refuses(&["guest: ", "bad.wasm", word]);
    }
    write(stage, "short.wasm", b"\0asm");
    run(stage, &[], &["./short.wasm"])
        .run()
        .refuses(&["guest: ", "short.wasm"]);
}

/// `(import "nothing" "here" (func))`, and a program's `_start` that is this function.
const IMPORTS_NOTHING: &[u8] =
    b"\x01\x04\x01\x60\0\0\x02\x10\x01\x07nothing\x04here\0\0\x07\x0a\x01\x06_start\0\0";
/// A memory of one page, shared.
const SHARES_MEMORY: &[u8] = b"\x05\x04\x01\x03\x01\x01";

fn what_needs_more_than_wasi_is_refused(stage: &Stage) {
    for (rest, words) in [
        (IMPORTS_NOTHING, ["nothing", "here"]),
        (SHARES_MEMORY, ["thread", ""]),
    ] {
        write(stage, "more.wasm", &[HEAD, rest].concat());
        let mut expected = vec!["guest: ", "more.wasm"];
        expected.extend(words);
        run(stage, &[], &["more.wasm"]).run().refuses(&expected);
    }
}

fn what_is_no_file_is_refused(stage: &Stage) {
    stage.make_fifo("fifo.wasm");
    stage.make_folder("folder.wasm");
    for name in ["./fifo.wasm", "./folder.wasm", "gone.wasm"] {
        let outcome = run(stage, &[], &[name]).run();
        assert!([126, 127].contains(&outcome.code()), "{outcome:?}");
    }
    write(stage, "huge.wasm", &twins().wasm);
    let huge = fs::File::options()
        .write(true)
        .open(stage.path("huge.wasm"));
    huge.unwrap().set_len(1 << 40).unwrap();
    run(stage, &[], &["huge.wasm"])
        .run()
        .refuses(&["guest: ", "huge.wasm", "larger"]);
}

fn the_wall_must_suit_the_file(stage: &Stage) {
    place_twins(stage);
    run(stage, &["--wall", "process"], &["./guest.wasm"])
        .run()
        .refuses(&["policy: ", "guest.wasm", "WebAssembly"]);
    run(stage, &["--wall", "wasm"], &["./guest"])
        .run()
        .refuses(&["policy: ", "guest"]);
    run(stage, &["--wall", "wasm"], &["gone"])
        .run()
        .refuses(&["policy: ", "gone", "not found"]);
    run(stage, &["--wall", "vm"], &["true"])
        .run()
        .refuses(&["policy: --wall", "process, wasm"]);
    run(stage, &["--wall", "process"], &["true"])
        .run()
        .is_silent(0);
}

fn grants_that_it_cannot_have_are_refused(stage: &Stage) {
    place_twins(stage);
    stage.write("one", "1");
    for (flags, word) in [
        (&["--device", "pts"][..], "terminals"),
        (&["--profile", "palisade"], "palisade of its own"),
        (&["--cwd", "/tmp", "--read", "one:/one"], "/one"),
    ] {
        for verb in ["run", "explain"] {
            let call = palisade(stage, verb, flags, &["guest.wasm"]);
            call.run().refuses(&["policy: ", word]);
        }
    }
}

fn a_worker_that_is_not_there(stage: &Stage) {
    place_twins(stage);
    let call = || run(stage, &[], &["guest.wasm", "say", "x"]);
    call()
        .env("PALISADE_LIBEXEC", &stage.text(""))
        .run()
        .refuses(&[
            "host: ",
            "palisade-worker",
            "make build",
            "PALISADE_LIBEXEC",
        ]);
    let beside = stage.program().parent().unwrap().to_str().unwrap();
    call().env("PALISADE_LIBEXEC", beside).run().prints("x\n");
}

/// The one entry of the stage's cache.
#[track_caller]
fn entry(stage: &Stage) -> PathBuf {
    let mut entries = entries(stage);
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries.remove(0)
}

fn entries(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.path("cache/palisade/code")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn says_x(stage: &Stage) -> Outcome {
    let outcome = run(stage, &[], &["guest.wasm", "say", "x"]).run();
    assert_eq!(outcome.text(), "x\n", "{outcome:?}");
    outcome
}

fn code_is_compiled_once(stage: &Stage) {
    place_twins(stage);
    says_x(stage).is_silent(0);
    let kept = fs::metadata(entry(stage)).unwrap();
    assert_eq!((kept.mode() & 0o777, kept.nlink()), (0o600, 1));
    says_x(stage).is_silent(0);
    let same = fs::metadata(entry(stage)).unwrap();
    assert_eq!(
        (kept.ino(), kept.mtime_nsec()),
        (same.ino(), same.mtime_nsec())
    );
}

fn spoilt_code_is_made_again(stage: &Stage) {
    place_twins(stage);
    says_x(stage);
    let path = entry(stage);
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
        fs::write(&path, &spoilt).unwrap();
        says_x(stage).is_silent(0);
        assert_eq!(fs::read(entry(stage)).unwrap(), whole);
    }
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    says_x(stage).is_silent(0);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let moved = stage.path("cache/palisade/moved");
    fs::rename(&path, &moved).unwrap();
    symlink(&moved, &path).unwrap();
    says_x(stage).is_silent(0);
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

fn other_modules_have_other_code(stage: &Stage) {
    place_twins(stage);
    says_x(stage);
    // A custom section changes the module's bytes and nothing it does.
    let other = [&twins().wasm[..], b"\0\x05\x04test"].concat();
    write(stage, "guest.wasm", &other);
    says_x(stage).is_silent(0);
    assert_eq!(entries(stage).len(), 2);
}

fn a_cache_that_cannot_be_used_is_told_of(stage: &Stage) {
    place_twins(stage);
    let told = |outcome: &Outcome, word: &str| {
        outcome.is(0);
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        assert!(
            outcome.stderr.starts_with("palisade: note: host: "),
            "{outcome:?}"
        );
        assert!(outcome.stderr.contains(word), "{outcome:?}");
    };
    says_x(stage);
    let folder = stage.path("cache/palisade/code");
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    told(&says_x(stage), "others have rights");
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    says_x(stage).is_silent(0);
    stage.write("file", "");
    let call =
        run(stage, &[], &["guest.wasm", "say", "x"]).env("XDG_CACHE_HOME", &stage.text("file"));
    told(&call.run(), "file");
    if stage.user == User::Ordinary {
        let mut call = run(stage, &[], &["guest.wasm", "say", "x"]);
        call.command.env_remove("XDG_CACHE_HOME");
        told(&call.run(), "HOME");
    }
}

fn a_cache_within_reach_is_refused(stage: &Stage) {
    place_twins(stage);
    let acts = ["guest.wasm", "say", "x"];
    for granted in [".", "cache", "cache/palisade"] {
        stage.make_folder("cache/palisade");
        run(stage, &["--write", granted], &acts).run().refuses(&[
            "policy: ",
            "cache/palisade",
            "--protect",
        ]);
    }
    let protected = ["--write", ".", "--protect", "cache/palisade"];
    run(stage, &protected, &acts).run().prints("x\n");
    run(stage, &["--read", "."], &acts).run().prints("x\n");
}

/// They run later guests: the worker in their domains, the compiler makes their code.
fn programs_within_reach_are_refused(stage: &Stage) {
    place_twins(stage);
    stage.make_folder("libexec");
    stage.make_folder("elsewhere");
    let beside = stage.program().parent().unwrap();
    for name in ["palisade-worker", "palisade-compiler"] {
        fs::copy(beside.join(name), stage.path("libexec").join(name)).unwrap();
    }
    symlink(stage.text("libexec"), stage.path("elsewhere/link")).unwrap();
    let acts = ["guest.wasm", "say", "x"];
    let with = |folder: &str, granted: &str| {
        let call = run(stage, &["--write", granted], &acts);
        call.env("PALISADE_LIBEXEC", &stage.text(folder)).run()
    };
    for granted in ["libexec", "libexec/palisade-compiler"] {
        with("libexec", granted).refuses(&["policy: ", "libexec/palisade-", "--protect"]);
    }
    // Where a link on the way lies.
    with("elsewhere/link", "elsewhere").refuses(&["policy: ", "palisade-"]);
    with("libexec", "elsewhere").prints("x\n");
}

/// A compiler that looks for the user's files, in the place of palisade's own.
fn the_compiler_is_granted_nothing(stage: &Stage) {
    place_twins(stage);
    stage.write("secret", "secret");
    let beside = stage.program().parent().unwrap();
    stage.make_folder("libexec");
    let worker = "palisade-worker";
    fs::copy(beside.join(worker), stage.path("libexec").join(worker)).unwrap();
    let program = stage.text("libexec/palisade-compiler");
    let compile = |source: &str| {
        write(stage, "look.c", source.as_bytes());
        let compiled = Command::new("cc")
            .args(["-static", &stage.text("look.c"), "-o", &program])
            .status();
        assert!(compiled.unwrap().success());
    };
    // It does nothing: no code comes out.
    compile("int main(void) { return 0; }\n");
    run(stage, &["--read", "."], &["guest.wasm"])
        .env("PALISADE_LIBEXEC", &stage.text("libexec"))
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
        stage.text("secret")
    );
    let source = source.replace(
        "#include <stdio.h>",
        "#include <stdio.h>\n#include <stdlib.h>",
    );
    compile(&source);
    let outcome = run(stage, &["--read", "."], &["guest.wasm"])
        .env("PALISADE_LIBEXEC", &stage.text("libexec"))
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

fn a_policy_file_suits_both_walls(stage: &Stage) {
    stage.write("in/file", "content\n");
    stage.make_folder("out");
    stage.write(
        "policy.toml",
        "cwd = \"/in\"\n[grants]\nread = [\"in:/in\", \"guest:/programs/guest\"]\nwrite = [\"out:/out\"]\nexec = [\"/out\"]\nipc = [\"/out\"]\nenv = [\"A=1\"]\n[limits]\ntime = \"1m\"\nfiles = 64\nprocesses = 8\n",
    );
    place_twins(stage);
    let acts = [
        "show", "/in/file", "put", "/in/file", "put", "/out/new", "env", "A", "list", "/out",
    ];
    let outcomes = [stage.text("guest.wasm"), "/programs/guest".into()].map(|program| {
        let guest = [&[program.as_str()], &acts[..]].concat();
        let outcome = run(stage, &["--policy", "policy.toml"], &guest).run();
        outcome.is_silent(0);
        outcome.text()
    });
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].starts_with("content\nput /in/file: EROFS\nput /out/new: done\n1\n"));
}

fn a_socket_that_was_passed_in(stage: &Stage) {
    place_twins(stage);
    let port = free_ports(1);
    let listen = format!("tcp://127.0.0.1:{port},ready");
    let acts = ["guest.wasm", "say", "up", "serve"];
    let server = Service::start(run(stage, &["--listen", &listen], &acts), "up");
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.write_all(b"hello").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
    let said = server.ends();
    assert!(said.contains("served"), "{said}");
}

fn report(stage: &Stage) -> Value {
    serde_json::from_str(&stage.read("report.json")).unwrap()
}

fn the_report_is_the_guests(stage: &Stage) {
    let flags = ["--report", "report.json", "--time", "1m"];
    run_wasm(stage, &flags, &["exit", "3"]).is_silent(3);
    let report = report(stage);
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

fn a_signal_ends_it(stage: &Stage) {
    place_twins(stage);
    let mut child = run(stage, &[], &["guest.wasm", "say", "up", "sleep"]).spawn();
    let mut up = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    signal(&child, Signal::TERM);
    finish(child, b"").is_silent(143);
}

fn the_guest_is_on_the_terminal(stage: &Stage) {
    place_twins(stage);
    let cache = stage.text("cache");
    stage.make_folder("cache");
    let mut person = Person::sit_down(stage);
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

fn explained_before_it_runs(stage: &Stage) {
    place_twins(stage);
    let flags = ["--exec", "/tmp", "--files", "32"];
    let explain = |flags: &[&str]| palisade(stage, "explain", flags, &["guest.wasm", "x"]).run();
    let outcome = explain(&flags);
    outcome.is_silent(0);
    let text = outcome.text();
    for line in [
        format!("module    {}", stage.text("guest.wasm")),
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
        entries_or_none(stage).is_empty(),
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

fn entries_or_none(stage: &Stage) -> Vec<PathBuf> {
    let exists = Path::new(&stage.path("cache/palisade")).exists();
    if exists { entries(stage) } else { Vec::new() }
}

fn both_walls_side_by_side(stage: &Stage) {
    let explain = |flags: &[&str]| {
        let outcome = palisade(stage, "explain", flags, &["true"]).run();
        outcome.is_silent(0);
        outcome
    };
    let text = explain(&["--exec", "/tmp", "--device", "pts"]).text();
    assert!(text.contains("\nwall      process\n"), "{text}");
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
    assert_eq!(json["wall"], "process");
    let rows = json["walls"].as_array().unwrap();
    assert!(
        rows.iter()
            .any(|row| row["capability"] == "isolation" && row["wasm"] != row["process"])
    );
}

/// As the process wall's tier: see `tiers`.
fn without_namespaces_it_goes_on_where_accepted(stage: &Stage) {
    const WITHOUT: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$@\"";
    place_twins(stage);
    stage.write("in/file", "content\n");
    stage.make_folder("out");
    stage.make_folder("cache");
    let without = [
        "-Ur",
        "/bin/sh",
        "-c",
        WITHOUT,
        "sh",
        stage.program().to_str().unwrap(),
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
    let call = stage.call(
        Path::new("/usr/bin/unshare"),
        without.iter().chain(&flags).chain(&acts).copied(),
    );
    let outcome = call.env("XDG_CACHE_HOME", &stage.text("cache")).run();
    outcome.is(3);
    assert_eq!(
        outcome.text(),
        "content\nput out/new: done\nput in/file: EACCES\nshow guest: EACCES\n",
        "{outcome:?}"
    );
}
