//! How a guest ended, and the words for it.

use palisade_compiler::shorten;
use wasmtime::{Error, Trap, WasmBacktrace};

/// Functions that a trap's text names.
const FRAMES: usize = 16;

/// The guest called `proc_exit`, with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guest exited with {0}")]
pub struct Exited(pub u32);

/// The end of a worker's guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with an exit code.
    Exited(u8),
    /// It broke a rule of WebAssembly.
    Trapped {
        /// The signal that a native program gets for the same fault.
        signal: i32,
        /// The fault, and the functions that were running, the innermost first.
        text: String,
    },
    /// It can't be run behind this wall, and why.
    Refused(String),
    /// Its compiled code does not fit this worker.
    Stale(String),
}

impl Ended {
    /// What a call of the guest's main function comes to.
    pub(crate) fn of(result: wasmtime::Result<()>) -> Self {
        match result {
            Ok(()) => Self::Exited(0),
            Err(error) => Self::of_error(&error),
        }
    }

    fn of_error(error: &Error) -> Self {
        if let Some(Exited(code)) = error.downcast_ref() {
            // As wait(2) shows a native program's.
            return Self::Exited((code & 0xff) as u8);
        }
        let signal = error
            .downcast_ref::<Trap>()
            .map_or(libc::SIGABRT, |trap| signal(*trap));
        Self::Trapped {
            signal,
            text: describe(error),
        }
    }
}

/// What the processor, or libc, does to a native program for the same fault.
pub(crate) fn signal(trap: Trap) -> i32 {
    match trap {
        Trap::StackOverflow
        | Trap::MemoryOutOfBounds
        | Trap::TableOutOfBounds
        | Trap::IndirectCallToNull
        | Trap::BadSignature => libc::SIGSEGV,
        Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger => {
            libc::SIGFPE
        }
        _ => libc::SIGABRT,
    }
}

/// What ended a guest, on one line of bounded length: `out of bounds memory access; at f; at main`.
pub fn describe(error: &Error) -> String {
    let cause = error.root_cause().to_string();
    let mut text = cause.trim_start_matches("wasm trap: ").to_owned();
    let frames = error
        .downcast_ref::<WasmBacktrace>()
        .map_or(&[][..], |trace| trace.frames());
    for frame in frames.iter().take(FRAMES) {
        let name = frame
            .func_name()
            .map_or_else(|| format!("function {}", frame.func_index()), str::to_owned);
        text.push_str("; at ");
        text.push_str(&name);
    }
    if frames.len() > FRAMES {
        text.push_str(&format!("; and {} more", frames.len() - FRAMES));
    }
    shorten(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_is_cut_as_the_kernel_does() {
        let exit = |code| Ended::of(Err(Error::from(Exited(code))));
        assert_eq!(Ended::of(Ok(())), Ended::Exited(0));
        assert_eq!(exit(7), Ended::Exited(7));
        assert_eq!(exit(0x101), Ended::Exited(1));
    }
}
