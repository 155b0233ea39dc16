//! A guest: a program whose imports are there, under limits.

use super::{
    CallError, Engine, Function, FunctionError, Imports, Instance, Isolation, Limits, LoadError,
    Options, Program, Values, instance::Held, ticker::Timer,
};
use std::sync::Arc;
use wasmtime::{InstancePre, UnknownImportError};

/// Bytes of a page of memory, where a module says no other size.
const PAGE_BYTES: u64 = 64 << 10;

/// A program whose imports are there, under limits: what instances are made of.
///
/// For hosts that keep instances themselves. It may be sent and shared between threads, whatever the host
/// keeps for each instance; instances may not unless that may.
pub struct Linked<S: 'static = ()> {
    pub(super) program: Program,
    pub(super) pre: InstancePre<Held<S>>,
    pub(super) limits: Limits,
    /// Keeps the ticker's thread alive. Instances have one of their thread.
    timer: Option<Timer>,
}

impl<S: 'static> Linked<S> {
    /// Gives a program its imports, some of these: what is registered once serves any number of programs.
    ///
    /// # Errors
    ///
    /// When an import is missing, or the limits do not fit the program or its engine.
    pub fn new(program: &Program, imports: &Imports<S>, limits: Limits) -> Result<Self, LoadError> {
        check_limits(program, &limits)?;
        let pre = imports
            .linker
            .instantiate_pre(program.module())
            .map_err(import_error)?;
        let timer = limits
            .time
            .map(|time| Timer::new(program.engine().wasmtime(), time))
            .transpose()
            .map_err(LoadError::Thread)?;
        Ok(Self {
            program: program.clone(),
            pre,
            limits,
            timer,
        })
    }

    /// Makes an instance, for which the host keeps this state.
    ///
    /// # Errors
    ///
    /// When the guest's start function is ended, or the engine has no slot left.
    pub fn instantiate(&self, state: S) -> Result<Instance<S>, CallError> {
        Instance::new(self, state, self.timer.as_ref().map(Timer::of_thread))
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl<S: 'static> std::fmt::Debug for Linked<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Linked")
            .field("program", &self.program)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// A guest, ready to be called.
///
/// One thread calls it at a time. A clone shares the code and has an instance of its own, so that threads
/// call without waiting for one another.
pub struct Guest<S: 'static = ()> {
    linked: Arc<Linked<S>>,
    state: Arc<dyn Fn() -> S + Send + Sync>,
    isolation: Isolation,
    /// The instance that the last call left.
    kept: Option<Box<Instance<S>>>,
}

impl Guest {
    /// Compiles a module that imports nothing, for the engine of this process.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    #[cfg(feature = "compiler")]
    pub fn load(module: &[u8], options: Options) -> Result<Self, LoadError> {
        let engine = Engine::shared()?;
        Self::link(
            &engine.compile(module)?,
            Imports::new(&engine),
            options,
            || (),
        )
    }

    /// The same, of a module that was compiled before.
    ///
    /// # Errors
    ///
    /// See [`LoadError`].
    pub fn load_compiled(code: &super::Compiled, options: Options) -> Result<Self, LoadError> {
        let engine = Engine::shared()?;
        Self::link(&engine.load(code)?, Imports::new(&engine), options, || ())
    }
}

impl<S: Send + 'static> Guest<S> {
    /// Gives a program its imports; `state` makes what the host keeps for each instance.
    ///
    /// # Errors
    ///
    /// When an import is missing, or the limits do not fit the program or its engine.
    pub fn link(
        program: &Program,
        imports: Imports<S>,
        options: Options,
        state: impl Fn() -> S + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            linked: Arc::new(Linked::new(program, &imports, options.limits)?),
            state: Arc::new(state),
            isolation: options.isolation,
            kept: None,
        })
    }

    /// Looks a function up and checks its type, once for all calls of this guest and its clones.
    ///
    /// # Errors
    ///
    /// When there is none of this name and type.
    pub fn function<P: Values, R: Values>(
        &self,
        name: &str,
    ) -> Result<Function<P, R>, FunctionError> {
        self.linked.program.function(name)
    }

    /// Calls a function. What it finds is as [`Options::isolation`] says; after an end it is a new instance
    /// in any case.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub fn call<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, CallError> {
        if self.isolation == Isolation::Fresh {
            return self.instantiate()?.call(function, parameters);
        }
        // Taken out: a host function that panics takes the instance with it.
        let mut instance = match self.kept.take() {
            Some(instance) => instance,
            None => Box::new(self.instantiate()?),
        };
        let result = instance.call(function, parameters);
        if instance.is_alive() {
            self.kept = Some(instance);
        }
        result
    }

    /// The instance that calls share; `None` before the first and after an end, and with
    /// [`Isolation::Fresh`].
    pub fn kept(&mut self) -> Option<&mut Instance<S>> {
        self.kept.as_deref_mut()
    }

    /// Ends the kept instance: the next call gets a new one.
    pub fn reset(&mut self) {
        self.kept = None;
    }

    /// Makes an instance of the caller's own: for several calls that share one, its memory filled between
    /// them.
    ///
    /// # Errors
    ///
    /// When the guest's start function is ended, or the engine has no slot left.
    pub fn instantiate(&self) -> Result<Instance<S>, CallError> {
        self.linked.instantiate((self.state)())
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.linked.program
    }
}

impl<S: Send + 'static> Clone for Guest<S> {
    /// A guest of the same code, imports and limits, and no instance yet.
    fn clone(&self) -> Self {
        Self {
            linked: Arc::clone(&self.linked),
            state: Arc::clone(&self.state),
            isolation: self.isolation,
            kept: None,
        }
    }
}

impl<S: 'static> std::fmt::Debug for Guest<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Guest")
            .field("program", &self.linked.program)
            .field("limits", &self.linked.limits)
            .field("isolation", &self.isolation)
            .finish_non_exhaustive()
    }
}

/// Says now what each call would fail of.
fn check_limits(program: &Program, limits: &Limits) -> Result<(), LoadError> {
    let most = program.engine().options();
    let needed = program.module().resources_required();
    check_limit(
        "bytes of memory",
        needed
            .max_initial_memory_size
            .unwrap_or(0)
            .saturating_mul(PAGE_BYTES),
        limits.memory_bytes,
        most.memory_bytes,
    )?;
    check_limit(
        "elements of a table",
        needed.max_initial_table_size.unwrap_or(0),
        limits.table_elements,
        most.table_elements,
    )
}

fn check_limit(of: &'static str, needed: u64, limit: usize, most: usize) -> Result<(), LoadError> {
    if limit > most {
        return Err(LoadError::Engine { of, limit, most });
    }
    if needed > limit as u64 {
        let limit = limit as u64;
        return Err(LoadError::Limit { of, needed, limit });
    }
    Ok(())
}

fn import_error(error: wasmtime::Error) -> LoadError {
    match error.downcast_ref::<UnknownImportError>() {
        Some(unknown) => LoadError::Import {
            module: unknown.module().to_owned(),
            name: unknown.name().to_owned(),
        },
        None => LoadError::ImportType(error),
    }
}
