//! What the store of an instance holds.

use crate::{
    context::Context,
    limits::{HANDLES, HOST_CALL_BYTES, Held, Memory, Until},
    outgoing::Outgoing,
    reach::Reach,
    sys::OnThread,
    worker::Shared,
};
use std::{rc::Rc, sync::Arc};
use wasmtime::{Store, UpdateDeadline, component::ResourceTable};
use wasmtime_wasi::{WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// One instance's.
pub(crate) struct State {
    pub(crate) context: Context,
    table: ResourceTable,
    http: WasiHttpCtx,
    outgoing: Outgoing,
    memory: Memory,
    until: Arc<Until>,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.context.wasi,
            table: &mut self.table,
        }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView {
            hooks: &mut self.outgoing,
            table: &mut self.table,
            ctx: &mut self.http,
        }
    }
}

impl State {
    fn new(shared: &Shared, reach: &Reach, context: Context) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Self {
            context,
            table,
            http: WasiHttpCtx::new(),
            outgoing: Outgoing {
                gate: Arc::clone(&reach.gate),
                host: OnThread::new(Rc::clone(&shared.host)),
                sends: OnThread::new(shared.sends.clone()),
                own_sends: None,
                has_told: false,
            },
            memory: Memory::new(reach.memory_bytes, Held::clone(&shared.held)),
            until: Arc::clone(&shared.until),
        }
    }
}

/// What is left of an instance whose guest has ended: the instance itself is gone from here on.
pub(crate) fn take_apart(store: Store<State>) -> State {
    let mut state = store.into_data();
    state.memory.clear();
    state
}

/// Ticks that a guest may compute before others have their turn.
pub(crate) const TURN_TICKS: u64 = 4;

/// A store for one instance.
pub(crate) fn make_store(
    engine: &wasmtime::Engine,
    shared: &Shared,
    reach: &Reach,
    context: Context,
) -> Store<State> {
    let mut store = Store::new(engine, State::new(shared, reach, context));
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(HOST_CALL_BYTES);
    store.set_epoch_deadline(TURN_TICKS);
    // Captures nothing, so that nothing is allocated.
    store.epoch_deadline_callback(|store| {
        store.data().until.check()?;
        Ok(UpdateDeadline::Yield(TURN_TICKS))
    });
    store
}
