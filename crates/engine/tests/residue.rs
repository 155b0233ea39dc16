//! Nothing of a guest is left for the next one in its slot of the pool, with protection keys and without.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use palisade_engine::guest::{
    Engine, EngineOptions, Function, Guest, Imports, Isolation, LoadError, Options, ProtectionKeys,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    let trials = vec![
        Trial::test("residue/off", || check_residue(ProtectionKeys::Off)),
        Trial::test("residue/auto", || check_residue(ProtectionKeys::Auto)),
        Trial::ignorable_test("residue/on", check_residue_with_keys),
        Trial::ignorable_test("refused/on", check_refusal),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

const GUEST: &str = r#"
    (module
      (memory (export "memory") 1)
      (table $table 4 funcref)
      (global $count (mut i32) (i32.const 0))
      (elem declare func $other)
      (func $other)
      (func (export "count") (result i32)
        (global.set $count (i32.add (global.get $count) (i32.const 1)))
        (global.get $count))
      (func (export "store") (param i32 i32) (i32.store (local.get 0) (local.get 1)))
      (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
      (func (export "fill_table") (table.set $table (i32.const 3) (ref.func $other)))
      (func (export "table_is_empty") (result i32)
        (ref.is_null (table.get $table (i32.const 3)))))
"#;

fn check_residue_with_keys() -> Result<Completion, Failed> {
    if !ProtectionKeys::are_available() {
        return Ok(Completion::ignored_with(
            "the engine knows no protection keys on this processor",
        ));
    }
    check_residue(ProtectionKeys::On)?;
    Ok(Completion::Completed)
}

/// Fails closed: no engine, not one without.
fn check_refusal() -> Result<Completion, Failed> {
    if ProtectionKeys::are_available() {
        return Ok(Completion::ignored_with(
            "this processor has protection keys",
        ));
    }
    let options = EngineOptions {
        protection_keys: ProtectionKeys::On,
        ..EngineOptions::default()
    };
    match Engine::new(options) {
        Err(LoadError::Pool(_)) => Ok(Completion::Completed),
        other => Err(format!("{other:?}").into()),
    }
}

/// Guest after guest in one slot: each looks for what the one before it wrote.
fn check_residue(protection_keys: ProtectionKeys) -> Result<(), Failed> {
    let engine = Engine::new(EngineOptions {
        instances: 1,
        memory_bytes: 64 << 20,
        resident_bytes: 64 << 10,
        protection_keys,
        ..EngineOptions::default()
    })
    .unwrap();
    let program = engine.compile(&wat::parse_str(GUEST)?).unwrap();
    let other = engine
        .compile(&wat::parse_str(
            GUEST.replace("\"memory\") 1)", "\"memory\") 1 128)"),
        )?)
        .unwrap();
    let options = Options {
        isolation: Isolation::Fresh,
        ..Options::default()
    };
    let link =
        |program| Guest::link(program, Imports::new(&engine), options.clone(), || ()).unwrap();
    for guest in [link(&program), link(&other), link(&program)] {
        let function = |name| guest.function::<(), i32>(name).unwrap();
        let (count, is_empty) = (function("count"), function("table_is_empty"));
        let fill: Function<(), ()> = guest.function("fill_table").unwrap();
        let grow: Function<i32, i32> = guest.function("grow").unwrap();
        let store: Function<(i32, i32), ()> = guest.function("store").unwrap();
        for _ in 0..3 {
            let mut instance = guest.instantiate().unwrap();
            assert_eq!(instance.call(&count, ()).unwrap(), 1, "a global is left");
            assert_eq!(
                instance.call(&is_empty, ()).unwrap(),
                1,
                "a table's element is left"
            );
            assert_eq!(
                instance.call(&grow, 127).unwrap(),
                1,
                "the size of a memory is left"
            );
            let memory = instance.memory().unwrap();
            assert!(
                memory.iter().all(|byte| *byte == 0),
                "bytes of a memory are left"
            );
            // In what stays resident, just above it, and in the last page.
            for at in [0, 65_000, 65_536, 70_000, 128 * 65_536 - 4] {
                instance.call(&store, (at, -1)).unwrap();
            }
            instance.call(&fill, ()).unwrap();
            assert_eq!(instance.call(&is_empty, ()).unwrap(), 0);
        }
    }
    Ok(())
}
