//! What all requests of a worker share: its component, its clock, and what one leaves for the next.

pub(crate) mod idle;

use crate::{
    Fault,
    code::Code,
    component::{Component, Settings},
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
    cell::{Cell, OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
};
use wasmtime::Store;

/// Contexts that wait for a request.
const MOST_IDLE: usize = 64;

/// What the requests of a worker share.
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    pub(crate) host: Rc<dyn Host>,
    /// Of the engine that its code was loaded for last.
    timer: RefCell<Option<(wasmtime::Engine, Rc<Timer>)>>,
    pub(crate) until: Arc<Until>,
    held: Held,
    permits: Rc<Permits>,
    /// Requests of all its instances.
    sends: Sends,
    /// What [`Host::memory`] was told last.
    told_held: Cell<u64>,
    contexts: RefCell<Vec<Context>>,
    /// Made for the first instance that is kept.
    idle: OnceCell<Idle>,
}

impl Shared {
    /// For the calling thread.
    pub(crate) fn new(component: &Component, host: Rc<dyn Host>) -> Self {
        let settings = Arc::clone(component.settings());
        Self {
            idle: OnceCell::new(),
            timer: RefCell::default(),
            permits: Permits::new(settings.share),
            sends: Sends::default(),
            settings,
            host,
            until: Arc::new(Until::new()),
            held: Held::default(),
            told_held: Cell::new(0),
            contexts: RefCell::default(),
        }
    }

    /// The time of turns of this code's instances.
    pub(crate) fn timer(&self, code: &Code) -> Rc<Timer> {
        let mut timer = self.timer.borrow_mut();
        if let Some((engine, timer)) = &*timer
            && wasmtime::Engine::same(engine, code.engine())
        {
            return Rc::clone(timer);
        }
        let made = Rc::new(code.timer_of_thread());
        *timer = Some((code.engine().clone(), Rc::clone(&made)));
        made
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
        let reach = &self.settings.reach;
        let gate = Arc::clone(&reach.gate);
        let outgoing = Outgoing::new(gate, Rc::clone(&self.host), self.sends.clone());
        let pool = self.settings.pool.clone();
        let memory = Memory::new(reach.memory_bytes, pool, Held::clone(&self.held));
        let state = State::new(context, outgoing, memory, Arc::clone(&self.until));
        Ok(state.into_store(engine))
    }

    /// One that a request left, or a new one.
    fn context(&self) -> wasmtime::Result<Context> {
        match self.contexts.borrow_mut().pop() {
            Some(context) => Ok(context),
            None => Context::new(&self.settings.reach, Rc::clone(&self.host)),
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

    /// An instance of this code that waited.
    pub(crate) fn take_kept(&self, code: &Code) -> Option<Kept> {
        loop {
            let mut kept = self.idle.get()?.take()?;
            // One of other code is of an older version of the component.
            if kept.code.is(code) {
                refill(&mut kept.store);
                return Some(kept);
            }
        }
    }

    fn idle(&self, engine: &wasmtime::Engine) -> &Idle {
        self.idle
            .get_or_init(|| Idle::new(engine, self.settings.pool.clone()))
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
