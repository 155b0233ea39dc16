//! Addresses that reach out of a guest's memory: each of each function is a fault, and ends nothing.

use crate::harness::module;
use std::{io::Write, os::unix::net::UnixStream};

const FAULT: i32 = 21;
const PAGE: u32 = 65536;

/// An argument of a function.
#[derive(Clone, Copy)]
enum Argument {
    /// A number that is valid.
    Number(u32),
    /// The same, with 64 bits.
    Long(u64),
    /// An address of so many bytes.
    Address(u32, u32),
}

use Argument::{Address, Long, Number};

/// The first preopened folder.
const FOLDER: Argument = Number(3);
/// A file that is open for both: stdin is one.
const FILE: Argument = Number(0);
/// A path of 4 bytes.
const PATH: [Argument; 2] = [Address(1000, 4), Number(4)];
/// As [`PATH`], elsewhere.
const OTHER: [Argument; 2] = [Address(1100, 4), Number(4)];
/// One part of 8 bytes.
const PARTS: [Argument; 2] = [Address(1200, 8), Number(1)];
/// A clock that has passed.
const SUBSCRIPTION: Argument = Address(1300, 48);
/// A place for a result.
const fn result(bytes: u32) -> Argument {
    Address(2000, bytes)
}

fn functions() -> Vec<(&'static str, Vec<Argument>)> {
    let [path, path_length] = PATH;
    let [other, other_length] = OTHER;
    let [list, count] = PARTS;
    let follow = Number(1);
    vec![
        ("args_get", vec![Address(2000, 4), Address(3000, 12)]),
        ("args_sizes_get", vec![result(4), Address(3000, 4)]),
        ("environ_get", vec![Address(2000, 4), Address(3000, 4)]),
        ("environ_sizes_get", vec![result(4), Address(3000, 4)]),
        ("clock_res_get", vec![Number(1), result(8)]),
        ("clock_time_get", vec![Number(1), Long(0), result(8)]),
        ("fd_fdstat_get", vec![FILE, result(24)]),
        ("fd_filestat_get", vec![FILE, result(64)]),
        ("fd_prestat_get", vec![FOLDER, result(8)]),
        ("fd_prestat_dir_name", vec![FOLDER, result(1), Number(1)]),
        ("fd_pread", vec![FILE, list, count, Long(0), result(4)]),
        ("fd_pwrite", vec![FILE, list, count, Long(0), result(4)]),
        ("fd_read", vec![FILE, list, count, result(4)]),
        ("fd_write", vec![FILE, list, count, result(4)]),
        (
            "fd_readdir",
            vec![FOLDER, Address(3000, 100), Number(100), Long(0), result(4)],
        ),
        ("fd_seek", vec![FILE, Long(0), Number(0), result(8)]),
        ("fd_tell", vec![FILE, result(8)]),
        ("path_create_directory", vec![FOLDER, path, path_length]),
        (
            "path_filestat_get",
            vec![FOLDER, follow, path, path_length, result(64)],
        ),
        (
            "path_filestat_set_times",
            vec![
                FOLDER,
                follow,
                path,
                path_length,
                Long(0),
                Long(0),
                Number(0),
            ],
        ),
        (
            "path_link",
            vec![
                FOLDER,
                Number(0),
                path,
                path_length,
                FOLDER,
                other,
                other_length,
            ],
        ),
        (
            "path_open",
            vec![
                FOLDER,
                follow,
                path,
                path_length,
                Number(0),
                Long(0),
                Long(0),
                Number(0),
                result(4),
            ],
        ),
        (
            "path_readlink",
            vec![
                FOLDER,
                path,
                path_length,
                Address(3000, 100),
                Number(100),
                result(4),
            ],
        ),
        ("path_remove_directory", vec![FOLDER, path, path_length]),
        (
            "path_rename",
            vec![FOLDER, path, path_length, FOLDER, other, other_length],
        ),
        (
            "path_symlink",
            vec![path, path_length, FOLDER, other, other_length],
        ),
        ("path_unlink_file", vec![FOLDER, path, path_length]),
        (
            "poll_oneoff",
            vec![SUBSCRIPTION, Address(2000, 32), Number(1), Address(3000, 4)],
        ),
        ("random_get", vec![Address(2000, 16), Number(16)]),
        ("sock_accept", vec![FILE, Number(0), result(4)]),
        (
            "sock_recv",
            vec![FILE, list, count, Number(0), result(4), Address(3000, 2)],
        ),
        ("sock_send", vec![FILE, list, count, Number(0), result(4)]),
    ]
}

/// A program that calls a function once and exits with what it says.
fn caller(name: &str, arguments: &[Argument]) -> String {
    let kind = |argument: &Argument| match argument {
        Long(_) => "i64",
        Number(_) | Address(..) => "i32",
    };
    let types: Vec<_> = arguments.iter().map(kind).collect();
    let values: Vec<_> = arguments
        .iter()
        .map(|argument| match argument {
            Long(value) => format!("(i64.const {value})"),
            Number(value) | Address(value, _) => format!("(i32.const {value})"),
        })
        .collect();
    format!(
        r#"(module
            (import "wasi_snapshot_preview1" "{name}" (func $called (param {}) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (data (i32.const 1000) "file")
            (data (i32.const 1100) "made")
            (data (i32.const 1200) "\00\10\00\00\08\00\00\00")
            (data (i32.const 1316) "\01\00\00\00")
            (func (export "_start") (call $exit (call $called {}))))"#,
        types.join(" "),
        values.join(" ")
    )
}

#[track_caller]
fn result_of(name: &str, arguments: &[Argument]) -> i32 {
    run(name, &caller(name, arguments))
}

/// Stdin is a socket for functions on sockets, with a byte to be received.
#[track_caller]
fn run(name: &str, text: &str) -> i32 {
    let folder = tempfile::tempdir().unwrap();
    let (guest, mut host) = UnixStream::pair().unwrap();
    host.write_all(b"x").unwrap();
    let run = module(text).within(folder.path()).env("A", "b");
    let outcome = match name.starts_with("sock_") {
        true => run.stdin_from(guest).run(),
        false => run.run(),
    };
    assert!(outcome.stderr.is_empty(), "{name}: {outcome:?}");
    outcome.code()
}

#[test]
fn valid_addresses_are_no_fault() {
    for (name, arguments) in functions() {
        assert_ne!(result_of(name, &arguments), FAULT, "{name}");
    }
}

#[test]
fn each_address_beyond_the_memory_is_a_fault() {
    for (name, arguments) in functions() {
        for (at, argument) in arguments.iter().enumerate() {
            let Address(_, bytes) = *argument else {
                continue;
            };
            for bad in [PAGE - bytes + 1, PAGE, u32::MAX - bytes + 1, u32::MAX] {
                let mut changed = arguments.clone();
                changed[at] = Address(bad, bytes);
                assert_eq!(
                    result_of(name, &changed),
                    FAULT,
                    "{name}, argument {at} is {bad:#x}"
                );
            }
        }
    }
}

/// The length that stands behind an address.
#[test]
fn each_length_beyond_the_memory_is_a_fault() {
    for (name, arguments) in functions() {
        for (at, pair) in arguments.windows(2).enumerate() {
            let (Address(address, bytes), Number(length)) = (pair[0], pair[1]) else {
                continue;
            };
            // Where a length counts records, a huge number of them is refused as such.
            if bytes != length {
                continue;
            }
            for bad in [PAGE - address + 1, u32::MAX - address, u32::MAX] {
                let mut changed = arguments.clone();
                changed[at + 1] = Number(bad);
                assert_eq!(
                    result_of(name, &changed),
                    FAULT,
                    "{name}, argument {at} is {bad:#x} bytes long"
                );
            }
        }
    }
}

/// What a list of parts points to.
#[test]
fn each_part_beyond_the_memory_is_a_fault() {
    for (name, arguments) in functions() {
        let has_parts = arguments
            .iter()
            .any(|argument| matches!(argument, Address(1200, _)));
        if !has_parts {
            continue;
        }
        for part in [
            r"\f9\ff\00\00\08\00\00\00",
            r"\01\00\00\00\ff\ff\ff\ff",
            r"\ff\ff\ff\ff\02\00\00\00",
        ] {
            let text = caller(name, &arguments).replace(r"\00\10\00\00\08\00\00\00", part);
            assert_eq!(run(name, &text), FAULT, "{name}, {part}");
        }
    }
}
