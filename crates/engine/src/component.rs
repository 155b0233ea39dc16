//! Components of WASI 0.2 and 0.3 in the worker.

use crate::worker::{Ended, StatusPipe};
use palisade_wasm::order::Order;
use wasmtime::{Engine, component::Component};

/// Runs a component's `wasi:cli/run` to its end.
pub fn run(
    _engine: &Engine,
    _component: Component,
    _order: &Order,
    _status: &mut StatusPipe,
) -> Ended {
    Ended::Refused("wall: this worker runs core modules only, not components".into())
}
