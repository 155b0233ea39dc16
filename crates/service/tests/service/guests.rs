//! Guests that are services, from source, compiled as services are.

#[path = "../../../engine/tests/component/rust.rs"]
mod rust;

pub(crate) use rust::Missing;

use palisade_engine::service::Engine;
use std::sync::OnceLock;
use wasmtime::component::Component;

pub(crate) fn engine() -> Engine {
    Engine::shared().expect("an engine")
}

/// `answers`, of WASI 0.2.
pub(crate) fn answers() -> Result<Component, Missing> {
    static ANSWERS: OnceLock<Result<Component, Missing>> = OnceLock::new();
    ANSWERS.get_or_init(|| load(&engine(), "answers")).clone()
}

/// `tasks`, of WASI 0.3.
pub(crate) fn tasks() -> Result<Component, Missing> {
    static TASKS: OnceLock<Result<Component, Missing>> = OnceLock::new();
    TASKS.get_or_init(|| load(&engine(), "tasks")).clone()
}

/// A package of `guests/component`, for an engine.
pub(crate) fn load(engine: &Engine, package: &str) -> Result<Component, Missing> {
    let component = rust::component(package)?;
    Ok(engine.compile(&component).expect("compile the component"))
}
