//! Faults end the worker by the signal that a native program gets, and are told before.

use crate::harness::module;
use palisade_wasm::status::Status;

const SIGABRT: i32 = 6;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;

/// A module whose main function has a body, with a memory, a table and a type of its own.
fn body(text: &str) -> String {
    format!(
        "(module
            (type $nothing (func)) (type $number (func (result i32)))
            (memory (export \"memory\") 1) (table 4 funcref)
            (func $number (type $number) (i32.const 1)) (elem (i32.const 0) $number)
            (func $deeper (param i32) (call $deeper (i32.add (local.get 0) (i32.const 1))))
            (func $main (export \"_start\") {text}))"
    )
}

#[test]
fn each_fault_has_its_signal() {
    let faults = [
        ("unreachable", SIGABRT, "unreachable"),
        (
            "(drop (i32.load (i32.const 0x10000)))",
            SIGSEGV,
            "out of bounds memory access",
        ),
        (
            "(i32.store offset=0xfffffff0 (i32.const -1) (i32.const 1))",
            SIGSEGV,
            "out of bounds memory access",
        ),
        (
            "(memory.fill (i32.const 0xffff) (i32.const 1) (i32.const 2))",
            SIGSEGV,
            "out of bounds memory access",
        ),
        (
            "(drop (table.get 0 (i32.const 4)))",
            SIGSEGV,
            "out of bounds table access",
        ),
        (
            "(call_indirect (type $nothing) (i32.const 9))",
            SIGSEGV,
            "out of bounds table access",
        ),
        (
            "(call_indirect (type $nothing) (i32.const 1))",
            SIGSEGV,
            "uninitialized element",
        ),
        (
            "(call_indirect (type $nothing) (i32.const 0))",
            SIGSEGV,
            "indirect call type mismatch",
        ),
        (
            "(call $deeper (i32.const 0))",
            SIGSEGV,
            "call stack exhausted",
        ),
        (
            "(drop (i32.div_s (i32.const 1) (i32.const 0)))",
            SIGFPE,
            "integer divide by zero",
        ),
        (
            "(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
            SIGFPE,
            "integer overflow",
        ),
        (
            "(drop (i32.trunc_f64_s (f64.const nan)))",
            SIGFPE,
            "invalid conversion to integer",
        ),
    ];
    for (text, signal, told) in faults {
        let outcome = module(&body(text)).run();
        assert_eq!(outcome.signal(), Some(signal), "{text}: {outcome:?}");
        let Some(Status::Trap(trap)) = outcome.told() else {
            panic!("{text}: {outcome:?}")
        };
        assert!(
            trap.contains(told) && trap.contains("; at "),
            "{text}: {trap}"
        );
        assert!(trap.len() < 2100 && !outcome.stderr.contains("panicked"));
    }
}

#[test]
fn deep_recursion_within_the_stack_is_no_fault() {
    let outcome = module(
        "(module
            (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
            (func $down (param i32) (result i32)
                (if (result i32) (i32.eqz (local.get 0))
                    (then (i32.const 0))
                    (else (i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))))
            (func (export \"_start\")
                (call $exit (i32.ne (call $down (i32.const 100000)) (i32.const 100000)))))",
    );
    assert_eq!(outcome.run().code(), 0);
}

#[test]
fn a_fault_in_a_start_section_is_one_of_the_guest() {
    let outcome =
        module("(module (func $f unreachable) (start $f) (func (export \"_start\")))").run();
    assert_eq!(outcome.signal(), Some(SIGABRT), "{outcome:?}");
}

const GROWS: &str = "(module
    (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
    (memory (export \"memory\") 1) (table 1 funcref)
    (func (export \"_start\") BODY))";

#[test]
fn memory_grows_to_its_limit_and_not_beyond() {
    let grows = GROWS.replace(
        "BODY",
        "(loop (br_if 0 (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
         (i32.store (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4)) (i32.const 1))
         (call $exit (memory.size))",
    );
    let pages = |bytes| module(&grows).memory_bytes(bytes).run().code();
    // The table's element takes 8 bytes.
    assert_eq!(pages(100 * 65536 + 8), 100);
    assert_eq!(pages(100 * 65536 + 7), 99);
}

#[test]
fn tables_count_too() {
    let grows = GROWS.replace(
        "BODY",
        "(call $exit (i32.and
            (i32.eq (table.grow 0 (ref.null func) (i32.const 1001)) (i32.const -1))
            (i32.ne (table.grow 0 (ref.null func) (i32.const 1000)) (i32.const -1))))",
    );
    assert_eq!(
        module(&grows).memory_bytes(65536 + 8 + 8000).run().code(),
        1
    );
}

#[test]
fn a_guest_that_is_too_big_from_the_start_is_refused() {
    let outcome = module(&GROWS.replace("BODY", "")).memory_bytes(65535).run();
    assert_eq!(outcome.code(), 125);
    assert!(
        matches!(outcome.told(), Some(Status::Refused(text)) if text.contains("memory")),
        "{outcome:?}"
    );
}

#[test]
fn a_guest_without_a_memory_gets_faults() {
    let outcome = module(
        "(module
            (import \"wasi_snapshot_preview1\" \"random_get\" (func $random (param i32 i32) (result i32)))
            (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
            (func (export \"_start\") (call $exit (call $random (i32.const 0) (i32.const 1)))))",
    );
    assert_eq!(outcome.run().code(), 21);
}
