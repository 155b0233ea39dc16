//! Functions of guests, and the values that they take and give.

use super::Values;
use std::{fmt, marker::PhantomData};
use wasmtime::{FuncType, ModuleExport, ValType};

/// A function of a guest, whose type was checked: what [`super::Guest::call`] takes.
pub struct Function<P, R> {
    /// The program's number.
    pub(super) program: u64,
    /// Which of the program's exports.
    pub(super) index: usize,
    pub(super) export: ModuleExport,
    signature: PhantomData<fn(P) -> R>,
}

impl<P, R> Function<P, R> {
    pub(super) fn new(program: u64, index: usize, export: ModuleExport) -> Self {
        Self {
            program,
            index,
            export,
            signature: PhantomData,
        }
    }
}

impl<P, R> Clone for Function<P, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, R> Copy for Function<P, R> {}

impl<P, R> fmt::Debug for Function<P, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Function")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

/// Whether a guest's function is of the type that the host asks for. Makes no text: a plugin has dozens.
pub(super) fn is_of_type<P: Values, R: Values>(found: &FuncType) -> bool {
    is_list(found.params(), P::TYPES) && is_list(found.results(), R::TYPES)
}

fn is_list(found: impl ExactSizeIterator<Item = ValType>, asked: &[&str]) -> bool {
    found.len() == asked.len()
        && found
            .zip(asked)
            .all(|(found, asked)| number_name(&found) == Some(asked))
}

/// `None`: no number that a host can give or take.
fn number_name(kind: &ValType) -> Option<&'static str> {
    Some(match kind {
        ValType::I32 => "i32",
        ValType::I64 => "i64",
        ValType::F32 => "f32",
        ValType::F64 => "f64",
        ValType::V128 | ValType::Ref(_) => return None,
    })
}

/// The type that the host asks for: `(i32, i32) -> (i64)`.
pub(super) fn asked_type<P: Values, R: Values>() -> String {
    format!("({}) -> ({})", P::TYPES.join(", "), R::TYPES.join(", "))
}

/// The type that a guest has.
pub(super) fn found_type(found: &FuncType) -> String {
    let list = |types: &mut dyn Iterator<Item = ValType>| {
        let names: Vec<_> = types.map(|kind| kind.to_string()).collect();
        names.join(", ")
    };
    format!(
        "({}) -> ({})",
        list(&mut found.params()),
        list(&mut found.results())
    )
}
