//! Guests in this process: what they can do, what ends them, and that nothing of one is left for another.

use palisade_engine::guest::{
    CallError, Caller, Compiled, End, Engine, EngineOptions, Function, FunctionError, Guest,
    HostError, Imports, Isolation, Limits, Linked, LoadError, MemoryError, Options,
};
use palisade_wall::{Ending, Exit};
use std::{
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
fn each_trap_is_the_signal_of_the_same_fault() {
    let mut guest = guest(Options::default());
    let cases = [
        ("unreachable", 6, "unreachable"),
        ("call_wrong", 11, "indirect call type mismatch"),
        ("call_null", 11, "uninitialized element"),
        ("recurse", 11, "call stack exhausted"),
    ];
    for (name, signal, words) in cases {
        let function: Function<(), ()> = guest.function(name).unwrap();
        let end = end(guest.call(&function, ()));
        assert_eq!(
            (end.exit, end.ending),
            (Exit::Signal(signal), Ending::Guest)
        );
        assert!(end.message.contains(words), "{name}: {}", end.message);
    }
    let divide: Function<(i32, i32), i32> = guest.function("divide").unwrap();
    assert_eq!(end(guest.call(&divide, (1, 0))).exit, Exit::Signal(8));
    assert_eq!(guest.call(&divide, (6, 3)).unwrap(), 2);
    let load: Function<i32, i32> = guest.function("load").unwrap();
    assert_eq!(end(guest.call(&load, -4)).exit, Exit::Signal(11));
}

#[test]
fn a_trap_says_where() {
    let mut guest = guest(Options::default());
    let function: Function<(), ()> = guest.function("unreachable").unwrap();
    let message = end(guest.call(&function, ())).message;
    assert_eq!(
        message,
        "wasm `unreachable` instruction executed; at unreachable"
    );
}

#[test]
fn a_guest_that_loops_ends_when_its_time_is_up() {
    let time = Duration::from_millis(20);
    for isolation in [Isolation::Kept, Isolation::Fresh] {
        let mut guest = guest(Options {
            isolation,
            limits: Limits {
                time: Some(time),
                ..Limits::default()
            },
        });
        let (spin, add): (Function<(), ()>, Function<(i32, i32), i32>) = (
            guest.function("loop").unwrap(),
            guest.function("add").unwrap(),
        );
        for _ in 0..3 {
            let began = Instant::now();
            let end = end(guest.call(&spin, ()));
            assert!(began.elapsed() >= time, "it had less than its time");
            assert_eq!((end.exit, end.ending), (Exit::Signal(9), Ending::TimeLimit));
            assert_eq!(end.ending.shell_code(end.exit), 124);
            assert_eq!(guest.call(&add, (1, 2)).unwrap(), 3);
        }
    }
}

#[test]
fn a_start_function_that_loops_ends_too() {
    let options = with(Limits {
        time: Some(Duration::from_millis(5)),
        ..Limits::default()
    });
    let module = wasm(r#"(module (func $loop (loop (br 0))) (start $loop) (func (export "f")))"#);
    let mut guest = Guest::load(&module, options).unwrap();
    let function: Function<(), ()> = guest.function("f").unwrap();
    assert_eq!(end(guest.call(&function, ())).ending, Ending::TimeLimit);
}

#[test]
fn the_clock_goes_again_after_it_slept() {
    let mut guest = guest(with(Limits {
        time: Some(Duration::from_millis(5)),
        ..Limits::default()
    }));
    let spin: Function<(), ()> = guest.function("loop").unwrap();
    for _ in 0..2 {
        // Longer than the clock stays awake for nobody; the call is what wakes it.
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(end(guest.call(&spin, ())).ending, Ending::TimeLimit);
    }
}

#[test]
fn a_guest_that_grows_ends_at_its_limit() {
    let mut guest = guest(with(Limits {
        memory_bytes: 4 << 16,
        table_elements: 100,
        ..Limits::default()
    }));
    let grow: Function<i32, i32> = guest.function("grow").unwrap();
    assert_eq!(guest.call(&grow, 2).unwrap(), 1);
    let over = end(guest.call(&grow, 2));
    assert_eq!(
        (over.exit, over.ending),
        (Exit::Signal(9), Ending::MemoryLimit)
    );
    assert_eq!(
        guest.call(&grow, 1).unwrap(),
        1,
        "a new instance has its first page"
    );
    let grow_table: Function<i32, i32> = guest.function("grow_table").unwrap();
    assert_eq!(guest.call(&grow_table, 96).unwrap(), 4);
    assert_eq!(end(guest.call(&grow_table, 1)).ending, Ending::MemoryLimit);
}

#[test]
fn limits_that_cannot_be_are_refused_when_the_guest_is_loaded() {
    let load = |memory_bytes, table_elements| {
        let limits = Limits {
            memory_bytes,
            table_elements,
            time: None,
        };
        Guest::load(&wasm(GUEST), with(limits)).unwrap_err()
    };
    assert!(matches!(load(1 << 15, 10), LoadError::Limit { .. }));
    assert!(matches!(load(1 << 20, 3), LoadError::Limit { .. }));
    assert!(matches!(load(1 << 40, 10), LoadError::Engine { .. }));
    assert!(matches!(load(1 << 20, 1 << 30), LoadError::Engine { .. }));
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
fn the_host_survives_ten_thousand_traps_without_growing() {
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
fn a_shallow_thread_is_told_so() {
    let mut guest = guest(Options::default());
    let function: Function<(), ()> = guest.function("recurse").unwrap();
    let called = std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(move || guest.call(&function, ()))
        .unwrap()
        .join()
        .unwrap();
    assert!(matches!(called, Err(CallError::Stack { .. })), "{called:?}");
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

/// What the host keeps for each instance of [`CALLER`].
#[derive(Default)]
struct Log {
    lines: Vec<String>,
}

const CALLER: &str = r#"
    (module
      (import "host" "log" (func $log (param i32 i32)))
      (import "host" "deny" (func $deny (result i32)))
      (import "host" "call_back" (func $call_back (result i32)))
      (memory (export "memory") 1)
      (data (i32.const 8) "hello")
      (func (export "greet") (call $log (i32.const 8) (i32.const 5)))
      (func (export "lie") (call $log (i32.const 65534) (i32.const 5)))
      (func (export "ask") (result i32) (call $deny))
      (func (export "there_and_back") (result i32) (call $call_back))
      (func (export "answer") (result i32) (i32.const 42)))
"#;

fn caller() -> Guest<Log> {
    let engine = Engine::shared().unwrap();
    let program = engine.compile(&wasm(CALLER)).unwrap();
    let answer: Function<(), i32> = program.function("answer").unwrap();
    let mut imports = Imports::<Log>::new(&engine);
    imports
        .function(
            "host",
            "log",
            |mut caller: Caller<'_, Log>, at: u32, length: u32| {
                let words = caller.read(at, length)?.to_owned();
                caller.state_mut().lines.push(String::from_utf8(words)?);
                Ok::<_, HostError>(())
            },
        )
        .unwrap()
        .function("host", "deny", |_: Caller<'_, Log>| {
            Err::<i32, _>(HostError::msg("not today"))
        })
        .unwrap()
        .function("host", "call_back", move |mut caller: Caller<'_, Log>| {
            caller.call(&answer, ()).map_err(HostError::from)
        })
        .unwrap();
    Guest::link(&program, imports, Options::default(), Log::default).unwrap()
}

#[test]
fn host_functions_read_memory_and_keep_state() {
    let mut guest = caller();
    let greet: Function<(), ()> = guest.function("greet").unwrap();
    guest.call(&greet, ()).unwrap();
    guest.call(&greet, ()).unwrap();
    assert_eq!(guest.kept().unwrap().state().lines, ["hello", "hello"]);
    let back: Function<(), i32> = guest.function("there_and_back").unwrap();
    assert_eq!(guest.call(&back, ()).unwrap(), 42);
}

#[test]
fn a_host_functions_error_ends_the_call_and_is_told() {
    let mut guest = caller();
    let (ask, lie, greet): (Function<(), i32>, Function<(), ()>, Function<(), ()>) = (
        guest.function("ask").unwrap(),
        guest.function("lie").unwrap(),
        guest.function("greet").unwrap(),
    );
    guest.call(&greet, ()).unwrap();
    let Err(CallError::HostFunction(error)) = guest.call(&ask, ()) else {
        panic!("the host function's error should come out");
    };
    assert_eq!(error.root_cause().to_string(), "not today");
    assert!(guest.kept().is_none());
    let Err(CallError::HostFunction(error)) = guest.call(&lie, ()) else {
        panic!("the host function's error should come out");
    };
    assert!(matches!(
        error.downcast_ref(),
        Some(MemoryError::Bounds { at: 65534, .. })
    ));
}

#[test]
fn a_host_function_that_panics_takes_the_instance_with_it() {
    let engine = Engine::shared().unwrap();
    let program = engine
        .compile(&wasm(
            r#"(module (import "host" "panic" (func $f)) (func (export "f") (call $f)))"#,
        ))
        .unwrap();
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let mut imports = Imports::new(&engine);
    imports
        .function("host", "panic", |_: Caller<'_, ()>| -> () {
            panic!("on purpose")
        })
        .unwrap();
    let mut guest = Guest::link(&program, imports, Options::default(), move || {
        counter.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    let function: Function<(), ()> = guest.function("f").unwrap();
    for turn in 1..=2 {
        let called =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| guest.call(&function, ())));
        assert!(called.is_err());
        assert_eq!(made.load(Ordering::Relaxed), turn);
    }
}

#[test]
fn an_import_of_another_type_is_refused() {
    let engine = Engine::shared().unwrap();
    let program = engine
        .compile(&wasm(r#"(module (import "host" "f" (func (param i64))))"#))
        .unwrap();
    let mut imports = Imports::new(&engine);
    imports
        .function("host", "f", |_: Caller<'_, ()>, _: i32| ())
        .unwrap();
    assert!(matches!(
        imports.function("host", "f", |_: Caller<'_, ()>| ()),
        Err(LoadError::Register { .. })
    ));
    assert!(matches!(
        Guest::link(&program, imports, Options::default(), || ()),
        Err(LoadError::ImportType(_))
    ));
}

#[test]
fn the_host_reads_and_writes_memory_within_its_bounds() {
    let guest = guest(Options::default());
    let mut instance = guest.instantiate().unwrap();
    let load: Function<i32, i32> = guest.function("load").unwrap();
    instance.write(65532, &[1, 2, 3, 4]).unwrap();
    assert_eq!(instance.call(&load, 65532).unwrap(), 0x0403_0201);
    assert_eq!(instance.read(65533, 2).unwrap(), [2, 3]);
    let beyond = Err(MemoryError::Bounds {
        at: 65533,
        length: 4,
        memory_bytes: 65536,
    });
    assert_eq!(instance.write(65533, &[0; 4]), beyond);
    assert!(instance.read(u32::MAX, usize::MAX).is_err());
    let mut bare = Guest::load(&wasm("(module (memory 1))"), Options::default())
        .unwrap()
        .instantiate()
        .unwrap();
    assert_eq!(bare.memory().err(), Some(MemoryError::Missing));
}

#[test]
fn an_ended_instance_says_so() {
    let guest = guest(Options::default());
    let mut instance = guest.instantiate().unwrap();
    let function: Function<(), ()> = guest.function("unreachable").unwrap();
    end(instance.call(&function, ()));
    assert!(!instance.is_alive());
    assert!(matches!(instance.call(&function, ()), Err(CallError::Gone)));
}

#[test]
fn calls_have_one_time_together() {
    let mut imports = Imports::<Arc<AtomicUsize>>::new(&Engine::shared().unwrap());
    imports
        .function(
            "host",
            "sleep",
            |_: Caller<'_, Arc<AtomicUsize>>, ms: u32| {
                std::thread::sleep(Duration::from_millis(ms.into()));
            },
        )
        .unwrap();
    let text = r#"(module
        (import "host" "sleep" (func $sleep (param i32)))
        (func (export "spend") (param i32)
          (call $sleep (local.get 0))
          ;; Where the time is looked at.
          (loop)))"#;
    let program = Engine::shared().unwrap().compile(&wasm(text)).unwrap();
    let limits = Limits {
        time: Some(Duration::from_millis(80)),
        ..Limits::default()
    };
    let linked = Linked::new(&program, &imports, limits).unwrap();
    let spend: Function<u32, ()> = program.function("spend").unwrap();
    // One by one each has its own time.
    let mut instance = linked.instantiate(Arc::default()).unwrap();
    for _ in 0..3 {
        instance.call(&spend, 50).unwrap();
    }
    let mut calls = instance.calls().unwrap();
    calls.call(&spend, 50).unwrap();
    let end = end(calls.call(&spend, 50));
    assert_eq!(end.ending, Ending::TimeLimit);
    assert!(matches!(calls.call(&spend, 0), Err(CallError::Gone)));
    drop(calls);
    assert!(!instance.is_alive());
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
