//! What a program is started with, and how it ends.

use crate::harness::{module, program};
use palisade_wasm::status::Status;

#[test]
fn arguments_and_environment_arrive_whole() {
    let run = program("process").arguments(["arguments", "", "two words", "--code=9"]);
    assert_eq!(
        run.run().output(),
        "process.wasm\narguments\n\ntwo words\n--code=9\n"
    );
    let run = program("process")
        .arguments(["environment"])
        .env("PWD", "/")
        .env("EMPTY", "")
        .env("LISTEN_PID", "77");
    assert_eq!(run.run().output(), "EMPTY=\nPWD=/\n");
}

#[test]
fn no_arguments_but_the_name_are_no_error() {
    assert_eq!(program("process").run().code(), 99);
}

#[test]
fn exit_codes_are_cut_as_natively() {
    for (asked, expected) in [
        ("0", 0),
        ("1", 1),
        ("125", 125),
        ("255", 255),
        ("0x12c", 44),
    ] {
        let outcome = program("process").arguments(["exit", asked]).run();
        assert_eq!(outcome.code(), expected);
        assert_eq!(outcome.told(), None);
    }
}

#[test]
fn coming_back_from_the_main_function_is_success() {
    let outcome = module("(module (func (export \"_start\")))").run();
    assert_eq!((outcome.code(), outcome.told()), (0, None));
}

#[test]
fn phases_are_told_in_order() {
    let outcome = module("(module (func (export \"_start\")))").run();
    let mut last_ns = 0;
    let names: Vec<_> = outcome
        .status
        .iter()
        .map(|status| match status {
            Status::Phase { name, at_ns } => {
                assert!(*at_ns >= last_ns, "{outcome:?}");
                last_ns = *at_ns;
                name.as_str()
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["engine", "loaded", "linked", "started"]);
}

#[test]
fn streams_are_passed_through() {
    let text = "0123456789abcdef\n".repeat(20_000);
    let outcome = program("process")
        .arguments(["copy"])
        .stdin(text.as_str())
        .run();
    assert!(outcome.output() == text);
    assert_eq!(outcome.stderr, "copied\n");
}

#[test]
fn random_bytes_are_random_and_stay_in_place() {
    assert_eq!(program("process").arguments(["random"]).run().code(), 0);
}

#[test]
fn clocks_go_forward_and_show_the_time() {
    let outcome = program("process").arguments(["clocks"]).run();
    let shown: u64 = outcome.output().trim().parse().unwrap();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(now.abs_diff(shown) < 60, "{shown} is not about {now}");
}

#[test]
fn abort_is_sigabrt() {
    let outcome = program("process").arguments(["abort"]).run();
    assert_eq!(outcome.signal(), Some(6));
    let Some(Status::Trap(text)) = outcome.told() else {
        panic!("{outcome:?}")
    };
    assert!(
        text.contains("unreachable") && text.contains("; at abort"),
        "{text}"
    );
}
