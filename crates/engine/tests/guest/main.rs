//! Guests in this process: what they can do, what ends them, and that nothing of one is left for another.

mod ends;
mod host_functions;

use palisade_engine::guest::{
    CallError, Caller, Compiled, End, Engine, EngineOptions, Function, FunctionError, Guest,
    HostError, Imports, Isolation, Limits, Linked, LoadError, MemoryError, Options,
};
use palisade_wall::{Ending, Exit};
use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// A little of everything that a guest can do, and of what it should not.
const GUEST: &str = r#"
    (module
      (memory (export "memory") 1)
      (table $table (export "table") 4 funcref)
      (global $count (mut i32) (i32.const 0))
      (type $none (func))
      (elem (table $table) (i32.const 0) func $other)
      (func $other (param i32))
      (func (export "add") (param i32 i32) (result i32)
        (i32.add (local.get 0) (local.get 1)))
      (func (export "swap") (param i64 f64) (result f64 i64)
        (local.get 1) (local.get 0))
      (func (export "count") (result i32)
        (global.set $count (i32.add (global.get $count) (i32.const 1)))
        (global.get $count))
      (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1)))
      (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
      (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
      (func (export "grow_table") (param i32) (result i32)
        (table.grow $table (ref.null func) (local.get 0)))
      (func (export "fill_table") (table.set $table (i32.const 3) (ref.func $other)))
      (func (export "table_is_empty") (result i32)
        (ref.is_null (table.get $table (i32.const 3))))
      (func $unreachable (export "unreachable") unreachable)
      (func (export "divide") (param i32 i32) (result i32)
        (i32.div_s (local.get 0) (local.get 1)))
      (func (export "call_wrong") (call_indirect (type $none) (i32.const 0)))
      (func (export "call_null") (call_indirect (type $none) (i32.const 1)))
      (func (export "loop") (loop (br 0)))
      (func $recurse (export "recurse") (call $recurse)))
"#;

fn wasm(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("read the guest's text")
}

fn guest(options: Options) -> Guest {
    Guest::load(&wasm(GUEST), options).expect("load the guest")
}

fn fresh() -> Options {
    Options {
        isolation: Isolation::Fresh,
        ..Options::default()
    }
}

fn with(limits: Limits) -> Options {
    Options {
        limits,
        ..Options::default()
    }
}

fn end<T: std::fmt::Debug>(result: Result<T, CallError>) -> End {
    match result {
        Err(CallError::Ended(end)) => end,
        other => panic!("it should have been ended: {other:?}"),
    }
}

#[test]
fn numbers_go_in_and_come_out() {
    let mut guest = guest(Options::default());
    let add: Function<(i32, i32), i32> = guest.function("add").unwrap();
    assert_eq!(guest.call(&add, (1, 2)).unwrap(), 3);
    let swap: Function<(i64, f64), (f64, i64)> = guest.function("swap").unwrap();
    assert_eq!(guest.call(&swap, (-7, 0.5)).unwrap(), (0.5, -7));
    // One function under two types of the host's that are one for the guest.
    let unsigned: Function<(u32, u32), u32> = guest.function("add").unwrap();
    assert_eq!(guest.call(&unsigned, (u32::MAX, 2)).unwrap(), 1);
    assert_eq!(guest.call(&add, (3, 4)).unwrap(), 7);
}

#[test]
fn a_kept_instance_remembers_and_a_fresh_one_does_not() {
    for (options, counted) in [(Options::default(), [1, 2, 3]), (fresh(), [1, 1, 1])] {
        let mut guest = guest(options);
        let count: Function<(), i32> = guest.function("count").unwrap();
        assert_eq!([(); 3].map(|()| guest.call(&count, ()).unwrap()), counted);
    }
    let mut guest = guest(Options::default());
    let count: Function<(), i32> = guest.function("count").unwrap();
    guest.call(&count, ()).unwrap();
    assert_eq!(guest.clone().call(&count, ()).unwrap(), 1);
    guest.reset();
    assert_eq!(guest.call(&count, ()).unwrap(), 1);
}

#[test]
fn a_function_is_checked_when_it_is_looked_up() {
    let guest = guest(Options::default());
    let missing = guest.function::<(), ()>("nothing").unwrap_err();
    assert!(matches!(&missing, FunctionError::Missing { name, exports }
        if name == "nothing" && exports.contains("add, swap")));
    assert!(matches!(
        guest.function::<(), ()>("memory"),
        Err(FunctionError::Missing { .. })
    ));
    let wrong = guest.function::<(i32, i64), i32>("add").unwrap_err();
    insta::assert_snapshot!(wrong, @r#"host: "add" was asked for as (i32, i64) -> (i32), but the guest's is (i32, i32) -> (i32)"#);
    assert!(guest.function::<(i32, i32), ()>("add").is_err());
    assert!(guest.function::<i32, i32>("add").is_err());
}

#[test]
fn another_guests_function_is_refused() {
    let (one, mut other) = (guest(Options::default()), guest(Options::default()));
    let add: Function<(i32, i32), i32> = one.function("add").unwrap();
    assert!(matches!(
        other.call(&add, (1, 2)),
        Err(CallError::OtherGuest)
    ));
}

#[test]
fn what_is_no_module_or_needs_threads_is_refused() {
    let load = |text: &str| Guest::load(&wasm(text), Options::default()).unwrap_err();
    assert!(matches!(
        Guest::load(b"not wasm", Options::default()),
        Err(LoadError::Compile(_))
    ));
    assert!(matches!(
        load("(module (memory 1 2 shared))"),
        LoadError::Compile(_)
    ));
    assert!(matches!(load("(component)"), LoadError::Compile(_)));
    let import =
        load(r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func (param i32))))"#);
    assert!(matches!(import, LoadError::Import { name, .. } if name == "proc_exit"));
}

#[test]
fn threads_call_without_waiting_for_one_another() {
    let guest = guest(with(Limits {
        time: Some(Duration::from_secs(60)),
        ..Limits::default()
    }));
    let count: Function<(), i32> = guest.function("count").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut guest = guest.clone();
            scope.spawn(move || {
                for turn in 1..=1000 {
                    assert_eq!(guest.call(&count, ()).unwrap(), turn);
                }
            });
        }
    });
}

#[test]
fn no_slot_is_an_error_and_comes_back() {
    let engine = Engine::new(EngineOptions {
        instances: 2,
        ..EngineOptions::default()
    })
    .unwrap();
    let program = engine.compile(&wasm(GUEST)).unwrap();
    let guest = Guest::link(&program, Imports::new(&engine), Options::default(), || ()).unwrap();
    let held = [(); 2].map(|()| guest.instantiate().unwrap());
    assert!(matches!(guest.instantiate(), Err(CallError::Full(_))));
    drop(held);
    assert!(guest.instantiate().is_ok());
}

#[test]
fn compiled_code_is_kept_and_loaded() {
    let engine = Engine::shared().unwrap();
    let code = engine.precompile(&wasm(GUEST)).unwrap();
    let mut guest = Guest::load_compiled(&code, Options::default()).unwrap();
    let add: Function<(i32, i32), i32> = guest.function("add").unwrap();
    assert_eq!(guest.call(&add, (20, 22)).unwrap(), 42);
    assert!(!code.bytes().is_empty());
}

#[test]
#[allow(unsafe_code, reason = "the code is no code, and never executed")]
fn code_that_does_not_fit_is_refused() {
    // SAFETY: an engine loads nothing that is not of its own version, and so executes none of it.
    let code = unsafe { Compiled::from_bytes(b"no code at all".to_vec()) };
    assert!(matches!(
        Guest::load_compiled(&code, Options::default()),
        Err(LoadError::Stale(_))
    ));
}

#[test]
fn what_is_linked_goes_from_thread_to_thread_whatever_its_instances_hold() {
    fn check<T: Send + Sync>() {}
    check::<Linked<std::rc::Rc<()>>>();
    let imports = Imports::<std::rc::Rc<i32>>::new(&Engine::shared().unwrap());
    let program = Engine::shared().unwrap().compile(&wasm(GUEST)).unwrap();
    let limits = Limits {
        time: Some(Duration::from_secs(10)),
        ..Limits::default()
    };
    let linked = Linked::new(&program, &imports, limits).unwrap();
    let add: Function<(i32, i32), i32> = linked.program().function("add").unwrap();
    std::thread::scope(|scope| {
        for number in 0..2 {
            let linked = &linked;
            scope.spawn(move || {
                let mut instance = linked.instantiate(std::rc::Rc::new(number)).unwrap();
                assert_eq!(instance.call(&add, (number, 1)).unwrap(), number + 1);
                assert_eq!(**instance.state(), number);
            });
        }
    });
}

/// In a process of its own: tests beside it take memory too.
#[test]
fn the_host_survives_ten_thousand_traps_without_growing() {
    const ALONE: &str = "PALISADE_TRAPS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return trap_ten_thousand_times();
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("the_host_survives_ten_thousand_traps_without_growing")
        .env(ALONE, "")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{told}");
    assert!(told.contains("1 passed"), "{told}");
}

fn trap_ten_thousand_times() {
    let mut guest = guest(Options::default());
    let function: Function<(), ()> = guest.function("unreachable").unwrap();
    let mut trap = |times: usize| {
        for _ in 0..times {
            end(guest.call(&function, ()));
        }
        resident_bytes()
    };
    let before = trap(1000);
    let after = trap(10_000);
    assert!(
        after < before + (4 << 20),
        "from {before} to {after} bytes of memory"
    );
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
