//! Guests that can't be run, and code that is none.

use crate::harness::{Outcome, code, module, program};
use palisade_compiler::compile;
use palisade_wasm::status::Status;

#[track_caller]
fn refusal(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code(), 125, "{outcome:?}");
    match outcome.told() {
        Some(Status::Refused(text)) => text,
        _ => panic!("{outcome:?}"),
    }
}

#[test]
fn all_imports_that_are_missing_are_named() {
    let imports: String = (0..20)
        .map(|number| format!("(import \"env\" \"f{number}\" (func))"))
        .collect();
    let outcome = module(&format!("(module {imports} (func (export \"_start\")))")).run();
    let text = refusal(&outcome);
    assert!(
        text.contains("env.f0, env.f1") && text.ends_with("and 12 more"),
        "{text}"
    );
    for import in [
        "(import \"wasi_snapshot_preview1\" \"fd_nothing\" (func))",
        "(import \"wasi_snapshot_preview1\" \"fd_read\" (memory 1))",
        "(import \"wasi_unstable\" \"fd_read\" (func))",
        "(import \"env\" \"memory\" (memory 1))",
    ] {
        let outcome = module(&format!("(module {import} (func (export \"_start\")))")).run();
        assert!(refusal(&outcome).contains("does not offer"), "{outcome:?}");
    }
}

#[test]
fn imports_of_other_types_are_refused() {
    let import = "(import \"wasi_snapshot_preview1\" \"fd_close\" (func (param i64)))";
    let outcome = module(&format!("(module {import} (func (export \"_start\")))")).run();
    assert!(refusal(&outcome).starts_with("guest: "), "{outcome:?}");
}

#[test]
fn what_is_no_program_is_refused() {
    for text in [
        "(module)",
        "(module (func (export \"_initialize\")))",
        "(module (memory (export \"_start\") 1))",
        "(module (func (export \"_start\") (param i32)))",
    ] {
        let outcome = module(text).run();
        assert!(refusal(&outcome).starts_with("guest: "), "{outcome:?}");
    }
    let outcome = module("(module (func (export \"_initialize\")))").run();
    assert!(
        refusal(&outcome).contains("library, not a program"),
        "{outcome:?}"
    );
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    let outcome = program("process").preopen("/no/such/folder".as_ref()).run();
    assert!(refusal(&outcome).contains("/no/such/folder"), "{outcome:?}");
}

#[test]
fn fewer_files_than_it_starts_with_are_refused() {
    let outcome = program("process").files(3).run();
    assert!(refusal(&outcome).starts_with("policy: "), "{outcome:?}");
    assert_eq!(program("process").files(4).run().code(), 99);
}

#[test]
fn code_that_is_none_is_stale_and_never_run() {
    let module = wat::parse_str("(module (func (export \"_start\")))").unwrap();
    let good = compile(&module).unwrap();
    let mut other_version = good.clone();
    let at = other_version
        .windows(6)
        .position(|bytes| bytes == b"48.0.8")
        .expect("the version is written there");
    other_version[at + 5] = b'9';
    let half = &good[..good.len() / 2];
    for bytes in [
        &b""[..],
        b"\0",
        &[0x7f; 5000],
        b"\0asm\x01\0\0\0",
        half,
        &other_version,
    ] {
        let outcome = code(bytes).run();
        assert_eq!(outcome.code(), 125, "{outcome:?}");
        assert!(
            matches!(outcome.told(), Some(Status::Stale(_))),
            "{outcome:?}"
        );
    }
    assert_eq!(code(&good).run().code(), 0);
}

#[track_caller]
fn compile_error(text: &str) -> String {
    let module = wat::parse_str(text).unwrap();
    compile(&module).expect_err(text).to_string()
}

#[test]
fn what_no_guest_may_use_is_said_in_one_sentence() {
    let refused = [
        (
            "(module (memory (export \"memory\") 1 2 shared))",
            "threads (shared memory)",
        ),
        (
            "(module (import \"env\" \"memory\" (memory 1 2 shared)))",
            "threads (shared memory)",
        ),
        (
            "(module (import \"wasi\" \"thread-spawn\" (func (param i32) (result i32))))",
            "threads (shared memory)",
        ),
        (
            "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))",
            "threads (shared memory)",
        ),
        ("(module (tag (param i32)))", "exceptions"),
        (
            "(module (type (struct (field i32))) (func (param (ref 0))))",
            "garbage-collected types",
        ),
        ("(module (memory i64 1))", "a memory with 64-bit addresses"),
    ];
    for (text, what) in refused {
        let error = compile_error(text);
        let sentence = format!("guest: it needs {what}, which the wasm wall does not offer: ");
        assert!(error.starts_with(&sentence), "{text}: {error}");
    }
    assert!(compile_error("(module (memory 1 2 shared))").contains("without -pthread"));
}

#[test]
fn what_is_not_webassembly_is_refused() {
    let error = |bytes: &[u8]| compile(bytes).expect_err("no module").to_string();
    for bytes in [
        &b""[..],
        b"\0asm",
        b"\0asm\x01\0\0\0\xff",
        b"#!/bin/sh\n",
        b"\0asm\x0d\0\x01\0\xff",
    ] {
        assert!(
            error(bytes).starts_with("guest: it is not valid WebAssembly"),
            "{}",
            error(bytes)
        );
    }
}
