//! One instance of a guest: memory, tables and globals of its own.

use super::{
    CallError, Function, MemoryError, Values,
    limits::Limiter,
    linked::Linked,
    sys::{Checked, Functions},
    ticker::{Running, Timer},
};
use wasmtime::{Memory, Store};

/// What host functions have of the stack at least, below what a guest may use of it.
const HOST_STACK_BYTES: usize = 128 << 10;

/// Never: how far off the end of time is for a call without limit. Half of what the counter can hold, for
/// its present value is added.
const NEVER: u64 = u64::MAX / 2;

/// What the store of an instance holds.
pub struct Held<S> {
    pub(super) state: S,
    /// The program's number.
    pub(super) program: u64,
    /// Once it was looked for.
    pub(super) memory: Option<Memory>,
    /// Those that were called.
    pub(super) functions: Functions,
    limiter: Limiter,
}

/// One instance. Dropping it gives its slot back; whatever it wrote is gone then.
pub struct Instance<S: 'static = ()> {
    body: Body<S>,
    timer: Option<Timer>,
}

/// An instance without the clock of its calls, which lasts while this changes.
struct Body<S: 'static> {
    store: Store<Held<S>>,
    instance: wasmtime::Instance,
    /// Stack that a call needs of its thread.
    stack_bytes: usize,
    is_alive: bool,
}

/// Calls of an instance that have one limit of time together: it began when [`Instance::calls`] gave this.
///
/// Cheaper by a look at the clock for each call after the first.
pub struct Calls<'a, S: 'static = ()> {
    body: &'a mut Body<S>,
    /// The clock goes as long as this lives.
    _running: Option<Running<'a>>,
}

impl<S: 'static> Instance<S> {
    pub(super) fn new(
        linked: &Linked<S>,
        state: S,
        timer: Option<Timer>,
    ) -> Result<Self, CallError> {
        let stack_bytes = linked.program.engine().options().stack_bytes + HOST_STACK_BYTES;
        check_stack(stack_bytes)?;
        let limits = &linked.limits;
        let held = Held {
            state,
            program: linked.program.number(),
            memory: None,
            functions: Functions::new(linked.program.exports()),
            limiter: Limiter::new(
                limits.memory_bytes,
                limits.table_elements,
                limits.pool.clone(),
            ),
        };
        let mut store = Store::new(linked.program.engine().wasmtime(), held);
        store.limiter(|held| &mut held.limiter);
        store.set_epoch_deadline(NEVER);
        let running = start(&mut store, timer.as_ref());
        let instance = linked
            .pre
            .instantiate(&mut store)
            .map_err(CallError::of_start)?;
        drop(running);
        let body = Body {
            store,
            instance,
            stack_bytes,
            is_alive: true,
        };
        Ok(Self { body, timer })
    }

    /// Calls a function.
    ///
    /// # Errors
    ///
    /// When the guest was ended, by a trap or a limit: the instance is of no more use then. When a host
    /// function gave an error. When the call could not be made.
    pub fn call<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, CallError> {
        self.calls()?.call(function, parameters)
    }

    /// Begins calls that have one limit of time together.
    ///
    /// # Errors
    ///
    /// When the thread has too little stack left.
    pub fn calls(&mut self) -> Result<Calls<'_, S>, CallError> {
        check_stack(self.body.stack_bytes)?;
        Ok(Calls {
            _running: start(&mut self.body.store, self.timer.as_ref()),
            body: &mut self.body,
        })
    }

    /// Whether it can be called: no call ended it.
    pub fn is_alive(&self) -> bool {
        self.body.is_alive
    }

    /// What the host keeps for it.
    pub fn state(&self) -> &S {
        &self.body.store.data().state
    }

    /// What the host keeps for it.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.body.store.data_mut().state
    }

    /// The guest's memory, as large as it is now.
    ///
    /// # Errors
    ///
    /// When it exports none under the name `memory`.
    pub fn memory(&mut self) -> Result<&mut [u8], MemoryError> {
        Ok(self.memory_and_state()?.0)
    }

    /// How large its memories and tables are now, together.
    pub fn memory_bytes(&self) -> usize {
        self.body.store.data().limiter.used_bytes()
    }

    fn find_memory(&mut self) -> Option<Memory> {
        if let Some(memory) = self.body.store.data().memory {
            return Some(memory);
        }
        let memory = self
            .body
            .instance
            .get_memory(&mut self.body.store, "memory");
        self.body.store.data_mut().memory = memory;
        memory
    }

    /// The guest's memory beside what the host keeps, so that bytes go from one to the other once.
    ///
    /// # Errors
    ///
    /// As [`Instance::memory`].
    pub fn memory_and_state(&mut self) -> Result<(&mut [u8], &mut S), MemoryError> {
        let memory = self.find_memory().ok_or(MemoryError::Missing)?;
        let (bytes, held) = memory.data_and_store_mut(&mut self.body.store);
        Ok((bytes, &mut held.state))
    }

    /// Reads of the guest's memory.
    ///
    /// # Errors
    ///
    /// When it has none, or not there.
    pub fn read(&mut self, at: u32, length: usize) -> Result<&[u8], MemoryError> {
        slice(self.memory()?, at, length).map(|bytes| &*bytes)
    }

    /// Writes to the guest's memory.
    ///
    /// # Errors
    ///
    /// When it has none, or not there.
    pub fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), MemoryError> {
        slice(self.memory()?, at, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

impl<S: 'static> std::fmt::Debug for Instance<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Instance")
            .field("is_alive", &self.body.is_alive)
            .finish_non_exhaustive()
    }
}

/// A part of a memory.
pub(super) fn slice(memory: &mut [u8], at: u32, length: usize) -> Result<&mut [u8], MemoryError> {
    let memory_bytes = memory.len();
    let start = at as usize;
    start
        .checked_add(length)
        .and_then(|end| memory.get_mut(start..end))
        .ok_or(MemoryError::Bounds {
            at,
            length,
            memory_bytes,
        })
}

impl<S: 'static> Calls<'_, S> {
    /// Calls a function, within what is left of the time.
    ///
    /// # Errors
    ///
    /// As [`Instance::call`].
    pub fn call<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, CallError> {
        self.body.call(function, parameters)
    }

    /// What the host keeps for the instance.
    pub fn state(&self) -> &S {
        &self.body.store.data().state
    }

    /// What the host keeps for the instance.
    pub fn state_mut(&mut self) -> &mut S {
        &mut self.body.store.data_mut().state
    }
}

impl<S: 'static> std::fmt::Debug for Calls<'_, S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl<S: 'static> Body<S> {
    fn call<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
        parameters: P,
    ) -> Result<R, CallError> {
        let held = self.store.data();
        if function.program != held.program {
            return Err(CallError::OtherGuest);
        }
        if !self.is_alive {
            return Err(CallError::Gone);
        }
        let checked = match held.functions.find(function.index) {
            Some(checked) => checked,
            None => self.look_up(function)?,
        };
        // Dead until it came back: a host function that panics leaves nobody knows what.
        self.is_alive = false;
        match checked.call(&mut self.store, parameters) {
            Ok(result) => {
                self.is_alive = true;
                Ok(result)
            }
            Err(error) => Err(CallError::of(error)),
        }
    }

    /// Once for each function of an instance.
    #[cold]
    fn look_up<P: Values, R: Values>(
        &mut self,
        function: &Function<P, R>,
    ) -> Result<Checked<P, R>, CallError> {
        let checked = Checked::of_instance(function, &self.instance, &mut self.store)
            .ok_or(CallError::OtherGuest)?;
        let functions = &mut self.store.data_mut().functions;
        functions.put(function.index, &checked);
        Ok(checked)
    }
}

/// Starts the time of a call that has a limit. The clock goes as long as what is given back lives.
fn start<'a, S: 'static>(
    store: &mut Store<Held<S>>,
    timer: Option<&'a Timer>,
) -> Option<Running<'a>> {
    let timer = timer?;
    let running = timer.start();
    store.set_epoch_deadline(timer.ticks());
    Some(running)
}

/// The engine counts a guest's stack from where the call is made. Below a shallow one lies the guard page,
/// whose fault would be the host's end.
fn check_stack(needed_bytes: usize) -> Result<(), CallError> {
    let left_bytes = stacker::remaining_stack().unwrap_or(0);
    match left_bytes >= needed_bytes {
        true => Ok(()),
        false => Err(CallError::Stack {
            left_bytes,
            needed_bytes,
        }),
    }
}
