//! What all requests of a worker share: its component, its clock, and what one leaves for the next.

pub(crate) mod idle;

use crate::{
    Fault,
    component::{Component, LoadError, Loaded},
    context::Context,
    host::{Host, Stream},
    limits::{Held, Memory, Until},
    outgoing::Outgoing,
    sends::Sends,
    state::{State, refill},
};
use idle::{Idle, Kept};
use palisade_engine::{
    permits::{Permit, Permits},
    service::Timer,
};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};
use wasmtime::Store;

/// Contexts that wait for a request.
const MOST_IDLE: usize = 64;

/// What the requests of a worker share.
pub(crate) struct Shared {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) host: Rc<dyn Host>,
    pub(crate) timer: Timer,
    pub(crate) until: Arc<Until>,
    held: Held,
    permits: Rc<Permits>,
    /// Requests of all its instances.
    sends: Sends,
    /// What [`Host::memory`] was told last.
    told_held: Cell<u64>,
    contexts: RefCell<Vec<Context>>,
    idle: Idle,
}

impl Shared {
    /// For the calling thread.
    ///
    /// # Errors
    ///
    /// When a granted folder can't be opened.
    pub(crate) fn new(component: &Component, host: Rc<dyn Host>) -> Result<Self, LoadError> {
        let loaded = Arc::clone(component.loaded());
        let context = Context::new(&loaded.reach, Rc::clone(&host))
            .map_err(|error| LoadError::Folder(format!("{error:#}")))?;
        Ok(Self {
            idle: Idle::new(loaded.pre.engine()),
            timer: loaded.timer.of_thread(),
            permits: Permits::new(loaded.share),
            sends: Sends::default(),
            loaded,
            host,
            until: Arc::new(Until::new()),
            held: Held::default(),
            told_held: Cell::new(0),
            contexts: RefCell::new(vec![context]),
        })
    }

    /// What all instances hold, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.get()
    }

    /// For one more instance.
    pub(crate) async fn permit(&self) -> Result<Permit, Fault> {
        self.permits.take().await.map_err(|none| {
            let fault = Fault::from(none);
            self.log(&fault);
            fault
        })
    }

    /// Says why a guest failed, or had no chance to.
    #[cold]
    pub(crate) fn log(&self, fault: &Fault) {
        let line = match fault.is_want_of_instances() {
            false => fault.to_string(),
            true => match self.permits.refuse() {
                Some(requests) => format!("{fault} (requests refused: {requests})"),
                None => return,
            },
        };
        self.host.log(Stream::Wall, &line);
    }

    /// A store for one more instance.
    pub(crate) fn new_store(&self, engine: &wasmtime::Engine) -> wasmtime::Result<Store<State>> {
        let context = self.context()?;
        let reach = &self.loaded.reach;
        let gate = Arc::clone(&reach.gate);
        let outgoing = Outgoing::new(gate, Rc::clone(&self.host), self.sends.clone());
        let memory = Memory::new(reach.memory_bytes, Held::clone(&self.held));
        let state = State::new(context, outgoing, memory, Arc::clone(&self.until));
        Ok(state.into_store(engine))
    }

    /// One that a request left, or a new one.
    fn context(&self) -> wasmtime::Result<Context> {
        match self.contexts.borrow_mut().pop() {
            Some(context) => Ok(context),
            None => Context::new(&self.loaded.reach, Rc::clone(&self.host)),
        }
    }

    /// Its request is over.
    pub(crate) fn give_back(&self, context: Context) {
        context.journal.finish();
        let mut contexts = self.contexts.borrow_mut();
        if contexts.len() < MOST_IDLE {
            contexts.push(context);
        }
    }

    /// An instance that waited.
    pub(crate) fn take_kept(&self) -> Option<Kept> {
        let mut kept = self.idle.take()?;
        refill(&mut kept.store);
        Some(kept)
    }

    /// Its request is over, without a fault.
    pub(crate) fn keep(self: &Rc<Self>, kept: Kept) {
        kept.store.data().context.journal.finish();
        idle::keep(self, kept);
    }

    /// Tells the server what instances hold, if that changed.
    pub(crate) fn tell_memory(&self) {
        let held = self.held.get();
        if self.told_held.replace(held) != held {
            self.host.memory(held);
        }
    }
}
