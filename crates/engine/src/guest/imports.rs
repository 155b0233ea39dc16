//! What the host lets a guest call.

use super::{
    CallError, Engine, Function, LoadError, MemoryError, Values, instance::Held, sys::Checked,
};
use wasmtime::{Linker, WasmRet, WasmTy};

/// Host functions that a guest may import. It reaches nothing else.
///
/// `S` is what the host keeps for each instance: functions find it in their [`Caller`].
///
/// ```
/// use palisade_engine::guest::{Caller, Engine, Imports};
///
/// let mut imports = Imports::<Vec<i32>>::new(&Engine::shared()?);
/// imports.function("host", "keep", |mut caller: Caller<'_, Vec<i32>>, value: i32| {
///     caller.state_mut().push(value);
/// })?;
/// # Ok::<(), palisade_engine::guest::LoadError>(())
/// ```
pub struct Imports<S: 'static = ()> {
    pub(super) linker: Linker<Held<S>>,
}

impl<S: 'static> Imports<S> {
    /// None yet.
    pub fn new(engine: &Engine) -> Self {
        Self {
            linker: Linker::new(engine.wasmtime()),
        }
    }

    /// Whether they are for guests of this engine: of another one's nothing can be linked with them.
    pub fn are_for(&self, engine: &Engine) -> bool {
        wasmtime::Engine::same(self.linker.engine(), engine.wasmtime())
    }

    /// Lets guests import this function. It takes a [`Caller`] and numbers, and gives nothing, a number, a
    /// tuple of numbers, or a `Result` of these: an error ends the guest's call, which gives
    /// [`CallError::HostFunction`].
    ///
    /// # Errors
    ///
    /// When there is one of this name already.
    pub fn function<A, R>(
        &mut self,
        module: &str,
        name: &str,
        function: impl HostFunction<S, A, R>,
    ) -> Result<&mut Self, LoadError> {
        function
            .register(&mut self.linker, module, name)
            .map_err(|source| LoadError::Register {
                module: module.to_owned(),
                name: name.to_owned(),
                source,
            })?;
        Ok(self)
    }
}

impl<S: 'static> std::fmt::Debug for Imports<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Imports").finish_non_exhaustive()
    }
}

/// A closure that a guest can call: `Fn(Caller<'_, S>, numbers…) -> R`, with up to 12 numbers.
pub trait HostFunction<S: 'static, A, R>: Send + Sync + 'static {
    #[doc(hidden)]
    fn register(
        self,
        linker: &mut Linker<Held<S>>,
        module: &str,
        name: &str,
    ) -> wasmtime::Result<()>;
}

macro_rules! host_functions {
    ($($number:ident)*) => {
        impl<S, F, R, $($number),*> HostFunction<S, ($($number,)*), R> for F
        where
            S: 'static,
            F: Fn(Caller<'_, S>, $($number),*) -> R + Send + Sync + 'static,
            R: WasmRet,
            $($number: WasmTy),*
        {
            fn register(
                self,
                linker: &mut Linker<Held<S>>,
                module: &str,
                name: &str,
            ) -> wasmtime::Result<()> {
                #[allow(non_snake_case, reason = "a value has its type's name in this macro")]
                let function = move |caller: wasmtime::Caller<'_, Held<S>>, $($number: $number),*| {
                    self(Caller(caller), $($number),*)
                };
                linker.func_wrap(module, name, function)?;
                Ok(())
            }
        }
    };
}

host_functions!();
host_functions!(A);
host_functions!(A B);
host_functions!(A B C);
host_functions!(A B C D);
host_functions!(A B C D E);
host_functions!(A B C D E G);
host_functions!(A B C D E G H);
host_functions!(A B C D E G H I);
host_functions!(A B C D E G H I J);
host_functions!(A B C D E G H I J K);
host_functions!(A B C D E G H I J K L);
host_functions!(A B C D E G H I J K L M);

/// The instance that calls a host function.
pub struct Caller<'a, S: 'static>(wasmtime::Caller<'a, Held<S>>);

impl<S: 'static> Caller<'_, S> {
    /// What the host keeps for the instance.
    pub fn state(&self) -> &S {
        &self.0.data().state
    }

    /// What the host keeps for the instance.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.0.data_mut().state
    }

    /// The guest's memory, as large as it is now.
    ///
    /// # Errors
    ///
    /// When it exports none under the name `memory`.
    pub fn memory(&mut self) -> Result<&mut [u8], MemoryError> {
        Ok(self.memory_and_state()?.0)
    }

    /// The guest's memory beside what the host keeps, so that bytes go from one to the other once.
    ///
    /// # Errors
    ///
    /// As [`Caller::memory`].
    pub fn memory_and_state(&mut self) -> Result<(&mut [u8], &mut S), MemoryError> {
        let memory = match self.0.data().memory {
            Some(memory) => memory,
            None => self.find_memory()?,
        };
        let (bytes, held) = memory.data_and_store_mut(&mut self.0);
        Ok((bytes, &mut held.state))
    }

    /// Once for each instance.
    #[cold]
    fn find_memory(&mut self) -> Result<wasmtime::Memory, MemoryError> {
        let memory = self
            .0
            .get_export("memory")
            .and_then(wasmtime::Extern::into_memory)
            .ok_or(MemoryError::Missing)?;
        self.0.data_mut().memory = Some(memory);
        Ok(memory)
    }

    /// Reads of the guest's memory.
    ///
    /// # Errors
    ///
    /// When it has none, or not there.
    pub fn read(&mut self, at: u32, length: u32) -> Result<&[u8], MemoryError> {
        super::instance::slice(self.memory()?, at, length as usize).map(|bytes| &*bytes)
    }

    /// Writes to the guest's memory.
    ///
    /// # Errors
    ///
    /// When it has none, or not there.
    pub fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), MemoryError> {
        super::instance::slice(self.memory()?, at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Calls the guest back, an allocator of its own for example. The time of the outer call goes on.
    ///
    /// An end of the inner call is the outer's too: pass the error on.
    ///
    /// # Errors
    ///
    /// As [`super::Instance::call`].
    pub fn call<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, CallError> {
        let held = self.0.data();
        if function.program != held.program {
            return Err(CallError::OtherGuest);
        }
        let checked = match held.functions.find(function.index) {
            Some(checked) => checked,
            None => self.look_up(function)?,
        };
        checked.call(&mut self.0, parameters).map_err(CallError::of)
    }

    /// Once for each function of an instance.
    #[cold]
    fn look_up<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
    ) -> Result<Checked<P, R>, CallError> {
        let checked = Checked::of_caller(function, &mut self.0).ok_or(CallError::OtherGuest)?;
        let functions = &mut self.0.data_mut().functions;
        functions.put(function.index, &checked);
        Ok(checked)
    }
}

impl<S: 'static> std::fmt::Debug for Caller<'_, S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Caller").finish_non_exhaustive()
    }
}
