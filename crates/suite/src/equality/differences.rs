//! Where a program shows something else as WebAssembly, and why. `docs/walls/README.md` tells users.

use super::{Case, Line};
use crate::guests::Probe;

/// One line that differs.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The probe that shows it.
    pub probe: Probe,
    /// Its cases; all of them where this is empty.
    pub cases: &'static [&'static str],
    /// What is called.
    pub call: &'static str,
    /// What it gives natively; nothing where the line is not there.
    pub native: Option<&'static str>,
    /// What it gives as WebAssembly.
    pub wasm: Option<&'static str>,
    /// The name of its row in the documentation.
    pub row: &'static str,
}

/// Every difference.
pub const DIFFERENCES: &[Difference] = &[];

impl Difference {
    fn concerns(&self, case: &Case) -> bool {
        self.probe == case.probe && (self.cases.is_empty() || self.cases.contains(&case.name))
    }

    fn is(&self, call: &str, native: Option<&str>, wasm: Option<&str>) -> bool {
        self.call == call && self.native == native && self.wasm == wasm
    }
}

/// The lines that the module must show where the program shows `native`.
///
/// # Errors
///
/// The first line that differs without being listed, or a listed one that does not differ.
pub fn compare(case: &Case, native: &[Line], wasm: &[Line]) -> Result<(), String> {
    let listed: Vec<_> = DIFFERENCES
        .iter()
        .filter(|difference| difference.concerns(case))
        .collect();
    let mut used = vec![false; listed.len()];
    let mut use_up = |call: &str, native: Option<&str>, wasm: Option<&str>| {
        let index = listed
            .iter()
            .position(|difference| difference.is(call, native, wasm));
        if let Some(index) = index {
            used[index] = true;
        }
        index.is_some()
    };
    let (mut ours, mut theirs) = (native.iter().peekable(), wasm.iter().peekable());
    loop {
        match (ours.peek().copied(), theirs.peek().copied()) {
            (None, None) => break,
            (Some(one), Some(other)) if one == other => {
                ours.next();
                theirs.next();
            }
            (Some(one), Some(other))
                if one.call() == other.call()
                    && use_up(one.call(), Some(one.value()), Some(other.value())) =>
            {
                ours.next();
                theirs.next();
            }
            (Some(one), _) if use_up(one.call(), Some(one.value()), None) => {
                ours.next();
            }
            (_, Some(other)) if use_up(other.call(), None, Some(other.value())) => {
                theirs.next();
            }
            (one, other) => {
                let text = |line: Option<&Line>| {
                    line.map_or("(nothing)".to_owned(), |line| line.0.clone())
                };
                return Err(format!(
                    "  native  {}\n  wasm    {}",
                    text(one),
                    text(other)
                ));
            }
        }
    }
    match used.iter().position(|used| !used) {
        Some(index) => Err(format!("no difference any more: {:?}", listed[index])),
        None => Ok(()),
    }
}
