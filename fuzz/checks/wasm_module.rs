//! What must hold of whatever bytes somebody gives as a WebAssembly program.
//!
//! The fuzz target and an ordinary test call the same function.

use palisade_compiler::{compile, is_component, settings};
use palisade_engine::p1::{self, Context};
use wasmtime::{Engine, Module, Store};

/// What the bytes are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing that is compiled.
    Refused,
    /// A module or component that is no program for this wall.
    Compiled,
    /// A program. It is not run: what it does is the target `host_call`'s.
    Program,
}

/// Compiles what can be, and sets up what is a module. Nothing panics, and every refusal is one line that
/// a terminal can show.
pub(crate) fn check(bytes: &[u8]) -> Taken {
    // The compiler's own process is bounded; here, what takes it a second is left out.
    if bytes.len() > 1 << 16 {
        return Taken::Refused;
    }
    if let Err(error) = compile(bytes) {
        assert_shows(&format!("{error:#}"));
        return Taken::Refused;
    }
    if is_component(bytes) {
        return Taken::Compiled;
    }
    let engine = Engine::new(&settings::command()).expect("an engine");
    let module = Module::new(&engine, bytes).expect("it was compiled before");
    // A start section would run.
    let store = Store::new(&engine, Context::new(Some(16), Some(1 << 20)));
    match has_start(bytes) {
        true => Taken::Compiled,
        false => set_up(store, &module),
    }
}

fn set_up(mut store: Store<Context>, module: &Module) -> Taken {
    match p1::link(&mut store, module) {
        Ok(_) => Taken::Program,
        Err(error) => {
            assert_shows(&error.to_string());
            Taken::Compiled
        }
    }
}

/// Whether a module that is valid has a section of number 8.
fn has_start(mut bytes: &[u8]) -> bool {
    bytes = bytes.get(8..).unwrap_or_default();
    while let [number, rest @ ..] = bytes {
        let Some((length, rest)) = leb128(rest) else {
            return false;
        };
        if *number == 8 {
            return true;
        }
        bytes = rest.get(length..).unwrap_or_default();
    }
    false
}

fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.iter().take(5).position(|byte| byte & 0x80 == 0)?;
    let value = bytes[..=end]
        .iter()
        .rev()
        .fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    Some((value, &bytes[end + 1..]))
}

/// A message can be printed on a terminal, whatever it is about.
fn assert_shows(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
}
