//! Functions of the host, and its access to a memory.

use super::*;

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
