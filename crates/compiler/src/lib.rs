//! From WebAssembly to machine code, and what whoever compiles must agree on with whoever runs the code.
//!
//! | part | |
//! |---|---|
//! | [`settings`] | the configurations of Wasmtime, for compiling and for running |
//! | [`compile`](compile_for) | the compiler; without the feature `compiler` there is none |
//!
//! The program of this crate is run by the wasm wall, in a domain that is granted nothing. It holds the compiler and
//! nothing of what runs guests.

#[cfg(feature = "compiler")]
mod compile;
pub mod settings;

#[cfg(feature = "compiler")]
pub use compile::{CompileError, compile, compile_for};

use palisade_policy::visible;

/// Bytes of what is said of a guest: less than a pipe takes at once.
const TEXT_BYTES: usize = 2000;

/// Whether the bytes begin as a component does, not as a core module: the upper half of the version
/// field is the layer.
pub fn is_component(bytes: &[u8]) -> bool {
    bytes.get(6) == Some(&1)
}

/// One line of bounded length, with what a terminal would act on made visible: names in it are the guest's.
pub fn shorten(text: String) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let mut text = visible(&lines.join(" ")).into_owned();
    if text.len() > TEXT_BYTES {
        text.truncate(text.floor_char_boundary(TEXT_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(shorten("short".into()), "short");
        assert_eq!(shorten("a:\n    b\x1b[2J".into()), "a: b\\u{1b}[2J");
        let long = shorten("ä".repeat(4000));
        assert!(long.len() < TEXT_BYTES + 4 && long.ends_with("ä…"));
    }
}
