//! How a guest ended, in the words of the process wall.

use wasmtime::{Trap, WasmBacktrace};

/// Functions that a trap's text names.
const FRAMES: usize = 16;

/// SIGABRT.
const ABORT: u8 = 6;
/// SIGFPE.
const ARITHMETIC: u8 = 8;
/// SIGSEGV.
const SEGMENT: u8 = 11;

/// How a program ended.
#[derive(Debug)]
pub enum Ended {
    /// It said so itself, with this code.
    Code(u8),
    /// It broke a rule of WebAssembly, or a host function had to end it.
    Trap(wasmtime::Error),
    /// It was never run: it asks for what is not offered here. The text says what.
    Refused(String),
}

/// The signal that ends a native program for the same fault, by its number.
pub fn signal_of(error: &wasmtime::Error) -> u8 {
    error
        .downcast_ref::<Trap>()
        .map_or(ABORT, |trap| signal_of_trap(*trap))
}

fn signal_of_trap(trap: Trap) -> u8 {
    match trap {
        Trap::StackOverflow
        | Trap::MemoryOutOfBounds
        | Trap::TableOutOfBounds
        | Trap::IndirectCallToNull
        | Trap::BadSignature
        | Trap::NullReference => SEGMENT,
        Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger => {
            ARITHMETIC
        }
        _ => ABORT,
    }
}

/// The fault and the functions that were running, the innermost first: `unreachable; at f; at main`.
pub(crate) fn describe(error: &wasmtime::Error) -> String {
    let cause = error.root_cause().to_string();
    let mut text = cause.trim_start_matches("wasm trap: ").to_owned();
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map_or(&[][..], |trace| trace.frames());
    for frame in frames.iter().take(FRAMES) {
        text.push_str("; at ");
        match frame.func_name() {
            Some(name) => text.push_str(name),
            None => text.push_str(&format!("function {}", frame.func_index())),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_is_the_signal_of_the_same_fault() {
        let signal = |trap: Trap| signal_of(&wasmtime::Error::from(trap));
        assert_eq!(signal(Trap::UnreachableCodeReached), ABORT);
        assert_eq!(signal(Trap::StackOverflow), SEGMENT);
        assert_eq!(signal(Trap::BadSignature), SEGMENT);
        assert_eq!(signal(Trap::IntegerDivisionByZero), ARITHMETIC);
        let behind_context = wasmtime::Error::from(Trap::MemoryOutOfBounds).context("at main");
        assert_eq!(signal_of(&behind_context), SEGMENT);
        assert_eq!(signal_of(&wasmtime::format_err!("a host function")), ABORT);
    }
}
