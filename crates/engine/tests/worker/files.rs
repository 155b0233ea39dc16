//! Calls on open files.

use crate::harness::{module, program};

#[track_caller]
fn run(arguments: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let outcome = program("files")
        .within(folder.path())
        .arguments(arguments.iter().copied())
        .run();
    assert_eq!(outcome.output(), "");
    folder
}

#[test]
fn positions() {
    let folder = run(&["positions"]);
    let text = std::fs::read_to_string(folder.path().join("positions")).unwrap();
    assert_eq!(text, "0123ab6789");
}

#[test]
fn as_many_parts_as_the_kernel_takes() {
    run(&["many-parts"]);
}

#[test]
fn sizes_and_times() {
    run(&["sizes-and-times"]);
}

#[test]
fn flags() {
    run(&["flags"]);
}

#[test]
fn descriptors_are_the_lowest_free_up_to_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = program("files")
        .within(folder.path())
        .arguments(["numbers", "40"])
        .files(40)
        .run();
    assert_eq!(outcome.output(), "");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Opens `file` ten times. Before each it asks what the folder is, as wasi-libc does.
const OPENS: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_fdstat_get" (func $stat (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "file")
    (func $well (param i32) local.get 0 if unreachable end)
    (func (export "_start") (local $left i32)
        (local.set $left (i32.const 10))
        loop $more
            (call $well (call $stat (i32.const 3) (i32.const 64)))
            (call $well (call $open (i32.const 3) (i32.const 1) (i32.const 0) (i32.const 4)
                (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 32)))
            (call $well (call $close (i32.load (i32.const 32))))
            (br_if $more (local.tee $left (i32.sub (local.get $left) (i32.const 1))))
        end))"#;

#[test]
fn an_open_is_one_call_of_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let trace = folder.path().join("trace");
    let outcome = module(OPENS).within(folder.path()).traced(&trace).run();
    assert_eq!(outcome.output(), "");
    let trace = std::fs::read_to_string(trace).unwrap();
    let calls = trace.lines().filter_map(|line| line.split_once('('));
    let opens = calls.clone().filter(|(_, rest)| rest.contains("\"file\""));
    assert_eq!(opens.count(), 10, "{trace}");
    let first = trace.find("\"file\"").unwrap();
    let meanwhile = trace[first..].lines().skip(1).take(18);
    let names: Vec<_> = meanwhile
        .filter_map(|line| line.split('(').next())
        .collect();
    assert_eq!(names, ["close", "openat2"].repeat(9), "{trace}");
}
