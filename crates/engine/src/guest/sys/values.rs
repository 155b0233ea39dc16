//! Numbers on their way into guests and out of them, and the call itself.
//!
//! One call serves functions of every type: it takes numbers as compiled code has them. Its machine code is
//! much longer than what is round it; a copy for each type would push others' out of the processor's cache.

use crate::guest::Function;
use std::{any::TypeId, marker::PhantomData, mem::MaybeUninit, ptr};
use wasmtime::{
    AsContextMut, Caller, Extern, Func, Instance, StoreContextMut, ValRaw, WasmParams, WasmResults,
    WasmTy,
};

/// Numbers that a function takes, or gives, at most.
const MOST: usize = 12;

/// Where numbers are while a function is called.
type Slots = [MaybeUninit<ValRaw>; MOST];

/// What a function takes, or gives: nothing, a number, or a tuple of up to 12 of `i32`, `u32`, `i64`,
/// `u64`, `f32` and `f64`.
///
/// # Safety
///
/// [`Values::TYPES`] are those of what [`Values::lower`] writes, from the first slot on, and [`Values::lift`] reads
/// from there.
pub unsafe trait Values: WasmParams + WasmResults + 'static {
    /// WebAssembly's names of the types, in order.
    const TYPES: &'static [&'static str];

    #[doc(hidden)]
    fn lower(self, slots: &mut Slots);

    /// # Safety
    ///
    /// These are in the slots.
    #[doc(hidden)]
    unsafe fn lift(slots: &Slots) -> Self;
}

/// One number.
pub trait Number: WasmTy + 'static {
    /// WebAssembly's name of the type.
    const TYPE: &'static str;

    fn to_raw(self) -> ValRaw;

    /// Of a slot with a number of this type.
    fn of_raw(raw: ValRaw) -> Self;
}

macro_rules! numbers {
    ($($number:ty => $type:literal, $to:expr, $of:expr;)*) => {$(
        impl Number for $number {
            const TYPE: &'static str = $type;

            #[inline]
            fn to_raw(self) -> ValRaw {
                $to(self)
            }

            #[inline]
            fn of_raw(raw: ValRaw) -> Self {
                $of(raw)
            }
        }

        // SAFETY: it is in the first slot.
        unsafe impl Values for $number {
            const TYPES: &'static [&'static str] = &[$type];

            #[inline]
            fn lower(self, slots: &mut Slots) {
                slots[0].write(self.to_raw());
            }

            #[inline]
            unsafe fn lift(slots: &Slots) -> Self {
                // SAFETY: whoever calls this has it there.
                Self::of_raw(unsafe { slots[0].assume_init_read() })
            }
        }
    )*};
}

numbers! {
    i32 => "i32", ValRaw::i32, |raw: ValRaw| raw.get_i32();
    u32 => "i32", ValRaw::u32, |raw: ValRaw| raw.get_u32();
    i64 => "i64", ValRaw::i64, |raw: ValRaw| raw.get_i64();
    u64 => "i64", ValRaw::u64, |raw: ValRaw| raw.get_u64();
    f32 => "f32", |value: f32| ValRaw::f32(value.to_bits()), |raw: ValRaw| f32::from_bits(raw.get_f32());
    f64 => "f64", |value: f64| ValRaw::f64(value.to_bits()), |raw: ValRaw| f64::from_bits(raw.get_f64());
}

macro_rules! tuples {
    ($($number:ident $index:literal)*) => {
        // SAFETY: each is in the slot of its index.
        unsafe impl<$($number: Number),*> Values for ($($number,)*) {
            const TYPES: &'static [&'static str] = &[$($number::TYPE),*];

            #[inline]
            #[allow(non_snake_case, reason = "a value has its type's name in this macro")]
            fn lower(self, _slots: &mut Slots) {
                let ($($number,)*) = self;
                $(_slots[$index].write($number.to_raw());)*
            }

            #[inline]
            #[allow(clippy::unused_unit, reason = "what no number makes")]
            unsafe fn lift(_slots: &Slots) -> Self {
                // SAFETY: whoever calls this has them there.
                ($($number::of_raw(unsafe { _slots[$index].assume_init_read() }),)*)
            }
        }
    };
}

tuples!();
tuples!(A 0);
tuples!(A 0 B 1);
tuples!(A 0 B 1 C 2);
tuples!(A 0 B 1 C 2 D 3);
tuples!(A 0 B 1 C 2 D 3 E 4);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10);
tuples!(A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7 I 8 J 9 K 10 L 11);

/// A function of an instance whose type was checked.
pub(in crate::guest) struct Checked<P, R> {
    function: Func,
    of: PhantomData<fn(P) -> R>,
}

/// A [`Function`] was checked against its export's type when its program was asked for it, and the engine finds nothing for an
/// export of another program: to check the type once more for each instance costs as much as to call it some ten times.
impl<P: Values, R: Values> Checked<P, R> {
    fn new(function: Func) -> Self {
        let of = PhantomData;
        Self { function, of }
    }

    /// The instance's function; `None`: it is of another program.
    pub(in crate::guest) fn of_instance(
        function: &Function<P, R>,
        instance: &Instance,
        store: impl AsContextMut,
    ) -> Option<Self> {
        let found = instance.get_module_export(store, &function.export);
        found.and_then(Extern::into_func).map(Self::new)
    }

    /// The same of the instance that calls a host function.
    pub(in crate::guest) fn of_caller<T: 'static>(
        function: &Function<P, R>,
        caller: &mut Caller<'_, T>,
    ) -> Option<Self> {
        let found = caller.get_module_export(&function.export);
        found.and_then(Extern::into_func).map(Self::new)
    }

    /// Calls it. Panics if it is of another store.
    #[inline]
    pub(in crate::guest) fn call(
        self,
        mut store: impl AsContextMut,
        parameters: P,
    ) -> wasmtime::Result<R> {
        let mut slots: Slots = [const { MaybeUninit::uninit() }; MOST];
        parameters.lower(&mut slots);
        let count = P::TYPES.len().max(R::TYPES.len());
        let values = ptr::slice_from_raw_parts_mut(slots.as_mut_ptr().cast::<ValRaw>(), count);
        // SAFETY: the function takes and gives what the types say, for which there are as many slots as it has
        // parameters or results, whichever are more. The parameters are in them, and nobody else borrows them.
        unsafe { enter(&mut store.as_context_mut(), self.function, values) }?;
        // SAFETY: it came back, and so its results are there.
        Ok(unsafe { R::lift(&slots) })
    }
}

/// Functions of an instance that were looked up, each at its export's index with the type that it was checked for.
pub(in crate::guest) struct Functions(Box<[Option<(TypeId, Func)>]>);

impl Functions {
    /// None yet, and room for those of so many exports.
    pub(in crate::guest) fn new(exports: usize) -> Self {
        Self(vec![None; exports].into())
    }

    #[inline]
    pub(in crate::guest) fn find<P: Values, R: Values>(
        &self,
        index: usize,
    ) -> Option<Checked<P, R>> {
        let (of, function) = (*self.0.get(index)?)?;
        let is_that = of == TypeId::of::<fn(P) -> R>();
        is_that.then(|| Checked::new(function))
    }

    pub(in crate::guest) fn put<P: Values, R: Values>(
        &mut self,
        index: usize,
        checked: &Checked<P, R>,
    ) {
        self.0[index] = Some((TypeId::of::<fn(P) -> R>(), checked.function));
    }
}

/// # Safety
///
/// That of [`Func::call_unchecked`].
#[inline(never)]
unsafe fn enter<T: 'static>(
    store: &mut StoreContextMut<'_, T>,
    function: Func,
    values: *mut [ValRaw],
) -> wasmtime::Result<()> {
    // SAFETY: that of this function.
    unsafe { function.call_unchecked(store, values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<V: Values>(values: V) -> V {
        let mut slots: Slots = [const { MaybeUninit::uninit() }; MOST];
        values.lower(&mut slots);
        // SAFETY: `lower` has written them.
        unsafe { V::lift(&slots) }
    }

    #[test]
    fn numbers_keep_every_bit_on_their_way() {
        let first = (
            -1_i32,
            u32::MAX,
            i64::MIN,
            u64::MAX,
            -0.0_f32,
            f64::MIN_POSITIVE,
        );
        assert_eq!(there_and_back(first), first);
        assert!(there_and_back(-0.0_f32).is_sign_negative());
        let strange = f64::from_bits(0x7ff0_0000_dead_beef);
        assert_eq!(there_and_back(strange).to_bits(), strange.to_bits());
        let many = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11_u32);
        let many: (u32, u32, u32, u32, u32, u32, u32, u32, u32, u32, u32, u32) = many;
        assert_eq!(there_and_back(many), many);
        there_and_back(());
    }
}
