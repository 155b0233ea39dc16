//! What must hold of whatever a guest hands to the host functions of WASI preview 1.
//!
//! The bytes are calls, one after the other: a guest reads them and makes them, with its memory, descriptors
//! and folder as the calls before have left them. The fuzz target and an ordinary test call the same function.

use palisade_compiler::settings;
use palisade_engine::{
    ended::Exited,
    p1::{self, Context, Program},
};
use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    sync::OnceLock,
};
use wasmtime::{Engine, Module, Store};

/// Each function with its parameters: `i` for 32 bits, `I` for 64.
const FUNCTIONS: [(&str, &str); 45] = [
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_prestat_get", "ii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// A call is its function's number and nine arguments, 8 bytes each.
pub(crate) const CALL_BYTES: usize = 80;
/// Where the guest has its calls, and how many bytes of them it takes.
const CALLS_AT: usize = 0x4000;
const MOST_BYTES: usize = 0x8000;

/// Makes the calls in a folder of its own; gives how many a guest was told had succeeded.
///
/// # Panics
///
/// When a function gives what is no error code, something beside the guest's folder has changed, or the
/// guest ended otherwise than by itself.
pub(crate) fn check(bytes: &[u8]) -> usize {
    let bytes = &bytes[..bytes.len().min(MOST_BYTES) / CALL_BYTES * CALL_BYTES];
    let root = tempfile::tempdir().expect("a folder");
    let inside = root.path().join("inside");
    lay_out(root.path(), &inside);
    let before = outside(root.path());
    let (mut store, program) = guest(bytes, &inside);
    let ended = program.run(&mut store);
    let succeeded = match &ended {
        Ok(()) => 0,
        Err(error) => match error.downcast_ref::<Exited>() {
            Some(Exited(count)) => *count as usize,
            None => panic!("the guest ended by {error:#}"),
        },
    };
    drop(store);
    assert_eq!(outside(root.path()), before, "beside the guest's folder");
    succeeded
}

/// Two files, a folder, and links of every kind, out of the folder too.
fn lay_out(root: &Path, inside: &Path) {
    fs::create_dir_all(inside.join("d")).expect("a folder");
    fs::write(root.join("secret"), "secret").expect("a file");
    fs::write(inside.join("f"), "content").expect("a file");
    for (name, text) in [
        ("in", "f"),
        ("up", "../secret"),
        ("away", ".."),
        ("root", "/"),
        ("loop", "loop"),
    ] {
        std::os::unix::fs::symlink(text, inside.join(name)).expect("a link");
    }
}

/// Everything beside the guest's folder: names, content, number of links.
fn outside(root: &Path) -> Vec<(String, u64, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt;
    let mut found: Vec<_> = fs::read_dir(root)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_name() != "inside")
        .map(|entry| {
            let about = entry.metadata().expect("it is there");
            let name = entry.file_name().to_string_lossy().into_owned();
            let content = fs::read(entry.path()).unwrap_or_default();
            (name, about.nlink(), content)
        })
        .collect();
    found.sort();
    found
}

fn guest(calls: &[u8], folder: &Path) -> (Store<Context>, Program) {
    static MODULE: OnceLock<Module> = OnceLock::new();
    let module = MODULE.get_or_init(|| {
        let engine = Engine::new(&settings::command()).expect("an engine");
        let binary = wat::parse_str(source()).expect("the guest's source is right");
        Module::new(&engine, binary).expect("the guest is a module")
    });
    let mut input = tempfile::tempfile().expect("a file");
    input.write_all(calls).expect("room for the calls");
    std::io::Seek::rewind(&mut input).expect("a file");
    let mut context = Context::new(Some(64), Some(1 << 20));
    for stream in [input, nowhere(), nowhere()] {
        context.stream(stream.into()).expect("room for streams");
    }
    context
        .preopen(folder, "/inside".as_ref())
        .expect("the folder is there");
    let mut store = Store::new(module.engine(), context);
    let program = p1::link(&mut store, module).expect("it is a program");
    (store, program)
}

fn nowhere() -> File {
    File::options()
        .write(true)
        .open("/dev/null")
        .expect("/dev/null is there")
}

/// The guest: reads its calls from its input and makes each. It counts those that succeeded and exits with
/// their number.
fn source() -> String {
    let imports: String = FUNCTIONS.iter().map(import).collect();
    let cases: String = (0..FUNCTIONS.len()).rev().map(case).collect();
    let blocks = "(block ".repeat(FUNCTIONS.len());
    let labels: String = (0..FUNCTIONS.len()).map(|at| format!("{at} ")).collect();
    let data = data();
    format!(
        r#"(module
{imports}
  (memory (export "memory") 2)
  (data (i32.const 64) "{data}")
  (global $succeeded (mut i32) (i32.const 0))
  (func $note (param $error i32)
    (if (i32.gt_u (local.get $error) (i32.const 76)) (then unreachable))
    (if (i32.eqz (local.get $error))
      (then (global.set $succeeded (i32.add (global.get $succeeded) (i32.const 1))))))
  ;; Waits are short, whatever the call says, and fit into the memory.
  (func $poll (param $from i32) (param $to i32) (param $count i32) (param $stored i32) (result i32)
    (local.set $from (i32.and (local.get $from) (i32.const 0xfff8)))
    (local.set $count (i32.and (local.get $count) (i32.const 3)))
    (i64.store offset=24 (local.get $from) (i64.and (i64.load offset=24 (local.get $from)) (i64.const 0xffff)))
    (i64.store offset=72 (local.get $from) (i64.and (i64.load offset=72 (local.get $from)) (i64.const 0xffff)))
    (i64.store offset=120 (local.get $from) (i64.and (i64.load offset=120 (local.get $from)) (i64.const 0xffff)))
    ;; No wait for a file alone: the first is a clock, and not until a time of day.
    (i32.store8 offset=8 (local.get $from) (i32.const 0))
    (i32.store16 offset=40 (local.get $from) (i32.const 0))
    (call $poll_oneoff (local.get $from) (local.get $to) (local.get $count) (local.get $stored)))
  (func $make (param $at i32)
{blocks}
    (br_table {labels}{last} (i32.rem_u (i32.load (local.get $at)) (i32.const {count})))
{cases}
  )
  (func (export "_start") (local $at i32) (local $end i32)
    (i32.store (i32.const 0) (i32.const {CALLS_AT}))
    (i32.store (i32.const 4) (i32.const {MOST_BYTES}))
    (drop (call $fd_read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (local.set $at (i32.const {CALLS_AT}))
    (local.set $end (i32.add (local.get $at) (i32.load (i32.const 8))))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
        (call $make (local.get $at))
        (local.set $at (i32.add (local.get $at) (i32.const {CALL_BYTES})))
        (br $next)))
    (call $proc_exit (global.get $succeeded))))
"#,
        last = FUNCTIONS.len() - 1,
        count = FUNCTIONS.len(),
    )
}

fn import((name, parameters): &(&str, &str)) -> String {
    let types: String = parameters
        .chars()
        .map(|kind| if kind == 'i' { " i32" } else { " i64" })
        .collect();
    let result = match *name {
        "proc_exit" => "",
        _ => " (result i32)",
    };
    format!(
        "  (import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param{types}){result}))\n"
    )
}

/// What follows the end of the block that the function's number leaves.
fn case(at: usize) -> String {
    let number = FUNCTIONS.len() - 1 - at;
    let (name, parameters) = FUNCTIONS[number];
    let arguments: String = parameters
        .chars()
        .enumerate()
        .map(|(at, kind)| argument(name, at, kind))
        .collect();
    let function = if name == "poll_oneoff" { "poll" } else { name };
    let call = match name {
        // The end is the last call's.
        "proc_exit" => "(nop)".to_owned(),
        _ => format!("(call $note (call ${function}{arguments}))"),
    };
    format!(") {call} (return)\n")
}

fn argument(function: &str, at: usize, kind: char) -> String {
    let offset = 8 + 8 * at;
    let load = format!(
        "(i{}.load offset={offset} (local.get $at))",
        if kind == 'i' { 32 } else { 64 }
    );
    match (function, kind) {
        // The disk is not the guest's own here.
        ("fd_allocate" | "fd_pwrite" | "fd_filestat_set_size", 'I') => {
            format!(" (i64.and {load} (i64.const 0xffff))")
        }
        _ => format!(" {load}"),
    }
}

/// Names at 64, 96, …, and at 512 a list of parts that overlap.
fn data() -> String {
    let names: [&str; 12] = [
        "f",
        "d",
        "in",
        "up",
        "away/secret",
        "root/etc",
        "loop",
        "../secret",
        "d/../../secret",
        "new",
        "f/",
        "d/new",
    ];
    let mut text = String::new();
    for name in names {
        text += &format!("{name:\0<32}").replace('\0', "\\00");
    }
    text
}

/// One call, as bytes: for seeds.
#[allow(dead_code, reason = "the fuzz target has its seeds as files")]
pub(crate) fn call(name: &str, arguments: &[u64]) -> Vec<u8> {
    let number = FUNCTIONS.iter().position(|(function, _)| *function == name);
    let mut bytes = (number.expect("a function of preview 1") as u64)
        .to_le_bytes()
        .to_vec();
    for argument in arguments {
        bytes.extend_from_slice(&argument.to_le_bytes());
    }
    bytes.resize(CALL_BYTES, 0);
    bytes
}
