//! What ends a guest, and what that leaves.

use super::*;

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
            pool: None,
        };
        Guest::load(&wasm(GUEST), with(limits)).unwrap_err()
    };
    assert!(matches!(load(1 << 15, 10), LoadError::Limit { .. }));
    assert!(matches!(load(1 << 20, 3), LoadError::Limit { .. }));
    assert!(matches!(load(1 << 40, 10), LoadError::Engine { .. }));
    assert!(matches!(load(1 << 20, 1 << 30), LoadError::Engine { .. }));
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
