//! What the store of an instance holds.

use crate::{
    context::Context,
    limits::{HANDLES, HOST_CALL_BYTES, Memory, Until},
    outgoing::Outgoing,
};
use std::sync::Arc;
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
    pub(crate) fn new(
        context: Context,
        outgoing: Outgoing,
        memory: Memory,
        until: Arc<Until>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Self {
            context,
            table,
            http: WasiHttpCtx::new(),
            outgoing,
            memory,
            until,
        }
    }

    /// A store for one instance.
    pub(crate) fn into_store(self, engine: &wasmtime::Engine) -> Store<Self> {
        let mut store = Store::new(engine, self);
        store.limiter(|state| &mut state.memory);
        // Captures nothing, so that nothing is allocated.
        store.epoch_deadline_callback(|store| {
            let until = &store.data().until;
            until.check()?;
            until.note_yield();
            palisade_engine::service::tick_finely();
            Ok(UpdateDeadline::Yield(TURN_TICKS))
        });
        refill(&mut store);
        store
    }
}

/// Ticks that a guest may compute before others have their turn. The first that are due may come together; once somebody
/// has computed for so long they are made one by one.
pub(crate) const TURN_TICKS: u64 = 1;

/// What an instance may use up for one request.
pub(crate) fn refill(store: &mut Store<State>) {
    store.set_epoch_deadline(TURN_TICKS);
    store.set_hostcall_fuel(HOST_CALL_BYTES);
}

/// What is left of an instance whose guest has ended: the instance itself is gone from here on.
pub(crate) fn take_apart(store: Store<State>) -> State {
    let mut state = store.into_data();
    state.memory.clear();
    state
}
