//! Equality: one source, one policy file, two walls, and the same to be seen.
//!
//! ```text
//!  guests/portable ─gcc──▶ portable       ─behind the process wall─▶ lines, exit code, host's files
//!                  ─clang▶ portable.wasm  ─behind the wasm wall────▶ the same
//! ```
//!
//! A probe prints a line for each call. A case is a probe at one place, or with one limit, under a policy. What
//! it must show stands in `guests/portable/expected` ([`expected`]); where WebAssembly can't show the same,
//! [`differences`] says so, with the reason. Two things are judged without any list, by [`Case::judge`]: whether the
//! text of a file that is not granted came out, and whether anything on the host changed that is not granted for
//! writing.

mod cases;
pub mod differences;
pub mod expected;
mod folder;
mod observation;
mod policy_file;
mod run;
mod runner;
mod survey;

use std::fmt::Write as _;

pub use cases::{Access, Case, Input, all};
pub use observation::Observation;
pub use runner::CaseRunner;

use crate::guests::Probe;

/// The wall that a guest of the suite is behind: its file decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// The native program.
    Process,
    /// The module.
    Wasm,
}

impl Wall {
    /// The program of a probe in the guests' folder.
    fn program(self, probe: Probe) -> &'static str {
        match (self, is_in_go(probe)) {
            (Self::Process, false) => "portable",
            (Self::Wasm, false) => "portable.wasm",
            (Self::Process, true) => "portable-go",
            (Self::Wasm, true) => "portable-go.wasm",
        }
    }
}

/// `CALL: VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(pub String);

impl Line {
    /// What was called.
    #[must_use]
    pub fn call(&self) -> &str {
        self.0.split_once(": ").map_or(&self.0, |(call, _)| call)
    }

    /// What it gave.
    #[must_use]
    pub fn value(&self) -> &str {
        self.0.split_once(": ").map_or("", |(_, value)| value)
    }
}

/// Both lists side by side where they differ, for the report of a failure.
#[must_use]
pub fn contrast(expected: &[Line], seen: &[Line]) -> String {
    let mut text = String::new();
    let length = expected.len().max(seen.len());
    for index in 0..length {
        let at = |lines: &[Line]| {
            lines
                .get(index)
                .map_or("(nothing)".to_owned(), |line| line.0.clone())
        };
        let (wanted, found) = (at(expected), at(seen));
        if wanted != found {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  expected  {wanted}\n  but saw   {found}");
        }
    }
    text
}

fn is_in_go(probe: Probe) -> bool {
    probe.name().starts_with("go-")
}

/// The name of a probe's file of expectations.
fn file_name(probe: Probe) -> String {
    format!("{}.txt", probe.name())
}
