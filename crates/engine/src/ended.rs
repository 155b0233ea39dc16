//! How a guest ended, in the words of the process wall.

use wasmtime::Trap;

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
