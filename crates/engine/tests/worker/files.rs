//! Calls on open files.

use crate::harness::program;

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
