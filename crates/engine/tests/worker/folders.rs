//! Calls on names, and reading folders.

use crate::harness::program;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
};

/// Runs calls one after the other; a result for each.
#[track_caller]
pub(crate) fn calls(folder: &Path, operations: &[&str]) -> Vec<String> {
    let outcome = program("names")
        .within(folder)
        .arguments(operations.iter().copied())
        .run();
    outcome.output().lines().map(str::to_owned).collect()
}

/// Each call with the result that it must have.
#[track_caller]
pub(crate) fn check(folder: &Path, expected: &[(&str, &str)]) {
    let operations: Vec<_> = expected.iter().map(|(operation, _)| *operation).collect();
    let results = calls(folder, &operations);
    assert_eq!(results.len(), expected.len());
    let wrong: Vec<_> = results
        .iter()
        .zip(expected)
        .filter(|(result, (_, expected))| result != expected)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const EXIST: &str = "20";
const INVAL: &str = "28";
const ISDIR: &str = "31";
const LOOP: &str = "32";
const NAMETOOLONG: &str = "37";
const NOENT: &str = "44";
const NOTDIR: &str = "54";
const NOTEMPTY: &str = "55";
const PERM: &str = "63";

#[test]
fn each_call_does_what_it_is_named_for() {
    let folder = tempfile::tempdir().unwrap();
    check(
        folder.path(),
        &[
            ("mkdir:d", "ok"),
            ("mkdir:d", EXIST),
            ("mkdir:none/d", NOENT),
            ("write:d/f:text", "ok"),
            ("read:d/f", "ok text"),
            ("create:d/f:other", EXIST),
            ("create:d/g:other", "ok"),
            ("overwrite:d/g:OT", "ok"),
            ("read:d/g", "ok OTher"),
            ("overwrite:d/none:x", NOENT),
            ("stat:d/f", "ok 4 4"),
            ("stat:d", "ok 3 0"),
            ("link:d/f:h", "ok"),
            ("read:h", "ok text"),
            ("symlink:d/f:s", "ok"),
            ("symlink:d/f:s", EXIST),
            ("readlink:s", "ok d/f"),
            ("readlink:d", INVAL),
            ("read:s", "ok text"),
            ("lread:s", LOOP),
            ("stat:s", "ok 4 4"),
            ("lstat:s", "ok 7 0"),
            ("link:s:s2", "ok"),
            ("readlink:s2", "ok d/f"),
            ("link-followed:s:h2", "ok"),
            ("lstat:h2", "ok 4 4"),
            ("times:s", "ok"),
            ("ltimes:none", NOENT),
            ("opendir:d", "ok"),
            ("opendir:h", NOTDIR),
            ("creatdir:new", INVAL),
            ("overwrite:d:x", ISDIR),
            ("rename:h:d/h", "ok"),
            ("rename:none:x", NOENT),
            ("rename:d:d/inner", INVAL),
            ("rmdir:d", NOTEMPTY),
            ("unlink:d", ISDIR),
            ("rmdir:s", NOTDIR),
            ("unlink:s", "ok"),
            ("unlink:s2", "ok"),
            ("unlink:d/h", "ok"),
            ("unlink:d/f", "ok"),
            ("unlink:d/g", "ok"),
            ("unlink:d/g", NOENT),
            ("rmdir:d", "ok"),
        ],
    );
    let h2 = fs::metadata(folder.path().join("h2")).unwrap();
    assert_eq!((h2.mtime(), h2.mtime_nsec()), (2, 500_000_000));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// A slash behind a name asks for a folder: nothing else is opened, made, linked, moved or removed by it.
#[test]
fn a_slash_behind_a_name_asks_for_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("f"), "text").unwrap();
    fs::create_dir(path.join("d")).unwrap();
    symlink("f", path.join("to-f")).unwrap();
    symlink("d", path.join("to-d")).unwrap();
    check(
        path,
        &[
            ("read:f/", NOTDIR),
            ("read:to-f/", NOTDIR),
            ("stat:f/", NOTDIR),
            ("lstat:f/", NOTDIR),
            ("lstat:to-d/", "ok 3 0"),
            ("readlink:to-d/", INVAL),
            ("readlink:to-f/", NOTDIR),
            ("times:f/", NOTDIR),
            ("write:new/:x", ISDIR),
            ("create:new/:x", ISDIR),
            ("write:f/:x", ISDIR),
            ("unlink:f/", NOTDIR),
            ("unlink:to-f/", NOTDIR),
            ("unlink:to-d/", NOTDIR),
            ("rmdir:to-d/", NOTDIR),
            ("rename:f/:g", NOTDIR),
            ("rename:to-d/:g", NOTDIR),
            ("rename:f:g/", NOTDIR),
            ("link:f/:g", NOTDIR),
            ("link:f:g/", NOENT),
            ("link:to-d/:g", PERM),
            ("link-followed:to-f/:g", NOTDIR),
            ("symlink:f:g/", NOENT),
            ("mkdir:made/", "ok"),
            ("rename:made/:moved/", "ok"),
            ("rmdir:moved//", "ok"),
        ],
    );
    assert_eq!(fs::read_dir(path).unwrap().count(), 4);
}

#[test]
fn names_are_as_long_as_the_kernel_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let name = |length| format!("mkdir:{}", "n".repeat(length));
    let path = |length: usize| format!("stat:{}", "./".repeat(length / 2));
    check(
        folder.path(),
        &[
            (&name(255), "ok"),
            (&name(256), NAMETOOLONG),
            (&path(4094), "ok 3 0"),
            (&path(4096), NAMETOOLONG),
            ("stat:", NOENT),
            ("mkdir:", NOENT),
            ("symlink::x", NOENT),
            ("mkdir:.", EXIST),
            ("rmdir:.", INVAL),
        ],
    );
}

#[test]
fn links_that_go_round_end() {
    let folder = tempfile::tempdir().unwrap();
    symlink("b", folder.path().join("a")).unwrap();
    symlink("a", folder.path().join("b")).unwrap();
    check(
        folder.path(),
        &[
            ("read:a", LOOP),
            ("stat:a/b", LOOP),
            // As many links as the kernel follows; then the link itself is linked.
            ("link-followed:a:c", "ok"),
            ("lstat:c", "ok 7 0"),
        ],
    );
}

#[track_caller]
fn read_names(folder: &Path, buffer_bytes: usize) -> Vec<String> {
    let outcome = program("readdir")
        .within(folder)
        .arguments([buffer_bytes.to_string()])
        .run();
    outcome.output().lines().map(str::to_owned).collect()
}

/// The same names, each once, whatever the buffer holds at a time.
#[test]
fn a_folder_reads_whole_with_buffers_of_each_size() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..700 {
        let name = format!("{number}-{}", "x".repeat(number % 200));
        fs::write(folder.path().join(name), "").unwrap();
    }
    fs::create_dir(folder.path().join("d")).unwrap();
    symlink("d", folder.path().join("l")).unwrap();
    let mut expected: BTreeSet<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let kind = entry.file_type().unwrap();
            let number = match () {
                () if kind.is_dir() => 3,
                () if kind.is_symlink() => 7,
                () => 4,
            };
            format!("{number} {}", entry.file_name().display())
        })
        .collect();
    expected.extend(["3 .".into(), "3 ..".into()]);
    for buffer_bytes in [228, 300, 1000, 4096, 65_536] {
        let names = read_names(folder.path(), buffer_bytes);
        assert_eq!(names.len(), expected.len(), "{buffer_bytes}");
        assert_eq!(names.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

#[test]
fn a_buffer_that_is_too_small_is_filled_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    for buffer_bytes in [1, 23, 24] {
        let outcome = program("readdir")
            .within(folder.path())
            .arguments([buffer_bytes.to_string()])
            .run();
        assert_eq!(outcome.code(), 1);
        assert_eq!(outcome.stdout, format!("no entry fits: {buffer_bytes}\n"));
    }
}

/// Names are bytes.
#[test]
fn names_need_not_be_text() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(OsStr::from_bytes(b"a\xff")), "text").unwrap();
    let mut operation = b"read:a".to_vec();
    operation.push(0xff);
    let outcome = program("names")
        .within(folder.path())
        .arguments([OsStr::from_bytes(&operation)])
        .run();
    assert_eq!(outcome.output(), "ok text\n");
    assert!(read_names(folder.path(), 4096).contains(&"4 a\u{fffd}".to_owned()));
}
