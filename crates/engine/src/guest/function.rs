//! Functions of guests, and the values that they take and give.

use std::{fmt, marker::PhantomData};
use wasmtime::{FuncType, ModuleExport, WasmParams, WasmResults, WasmTy};

/// A function of a guest, whose type was checked: what [`super::Guest::call`] takes.
pub struct Function<P, R> {
    /// The program's number.
    pub(super) program: u64,
    /// Which of the program's exports.
    pub(super) place: usize,
    pub(super) export: ModuleExport,
    signature: PhantomData<fn(P) -> R>,
}

impl<P, R> Function<P, R> {
    pub(super) fn new(program: u64, place: usize, export: ModuleExport) -> Self {
        Self {
            program,
            place,
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
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// What a function takes, or gives: nothing, a number, or a tuple of up to 12 of `i32`, `u32`, `i64`,
/// `u64`, `f32` and `f64`.
pub trait Values: WasmParams + WasmResults + 'static {
    /// WebAssembly's names of the types, in order.
    fn types() -> Vec<&'static str>;
}

/// One number.
pub trait Number: WasmTy + 'static {
    /// WebAssembly's name of the type.
    const TYPE: &'static str;
}

macro_rules! numbers {
    ($($number:ty => $type:literal)*) => {$(
        impl Number for $number {
            const TYPE: &'static str = $type;
        }

        impl Values for $number {
            fn types() -> Vec<&'static str> {
                vec![$type]
            }
        }
    )*};
}

numbers! { i32 => "i32"  u32 => "i32"  i64 => "i64"  u64 => "i64"  f32 => "f32"  f64 => "f64" }

macro_rules! tuples {
    ($($number:ident)*) => {
        impl<$($number: Number),*> Values for ($($number,)*) {
            fn types() -> Vec<&'static str> {
                vec![$($number::TYPE),*]
            }
        }
    };
}

tuples!();
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);

/// A function's type: `(i32, i32) -> (i64)`.
#[derive(PartialEq, Eq)]
pub(super) struct Signature(String);

impl Signature {
    /// What the host asks for.
    pub(super) fn new<P: Values, R: Values>() -> Self {
        Self(format!(
            "({}) -> ({})",
            P::types().join(", "),
            R::types().join(", ")
        ))
    }

    /// What a guest has.
    pub(super) fn of(found: &FuncType) -> Self {
        let list = |types: &mut dyn Iterator<Item = wasmtime::ValType>| {
            let names: Vec<_> = types.map(|kind| kind.to_string()).collect();
            names.join(", ")
        };
        Self(format!(
            "({}) -> ({})",
            list(&mut found.params()),
            list(&mut found.results())
        ))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
