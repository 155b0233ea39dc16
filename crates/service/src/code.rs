//! The code of a component, with its imports: what instances are made of.

use crate::{
    load::{Isolation, LoadError},
    open,
    state::State,
};
use palisade_engine::{
    handles::Handles,
    lock::lock,
    service::{Engine, Timer},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use wasmtime::component::{Component, InstancePre, Linker};
use wasmtime_wasi_http::{
    p2::{self, bindings::ProxyPre},
    p3::{self, bindings::ServicePre},
};

/// How long a guest computes before others have their turn.
const TURN: Duration = Duration::from_millis(crate::state::TURN_TICKS);

/// Which service a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// `wasi:http/incoming-handler@0.2.x`.
    Preview2,
    /// `wasi:http/handler@0.3.x`.
    Preview3,
}

impl World {
    /// The newest that the component exports.
    fn of(component: &Component) -> Option<Self> {
        let exports = component.component_type();
        let worlds = exports
            .exports(component.engine())
            .filter_map(|(name, _)| Self::of_export(name));
        worlds.max_by_key(|world| *world as u8)
    }

    fn of_export(name: &str) -> Option<Self> {
        if name.starts_with("wasi:http/incoming-handler@0.2.") {
            return Some(Self::Preview2);
        }
        name.starts_with("wasi:http/handler@0.3.")
            .then_some(Self::Preview3)
    }
}

pub(crate) enum Pre {
    Preview2(ProxyPre<State>),
    Preview3(ServicePre<State>),
}

/// A component that is loaded and linked. Clones share it, and an instance has one.
#[derive(Clone)]
pub struct Code(Arc<Linked>);

struct Linked {
    pre: Pre,
    handles: Handles,
    /// Workers' own are made beside it.
    timer: Timer,
}

impl Code {
    /// Which service it is.
    pub fn world(&self) -> World {
        match self.0.pre {
            Pre::Preview2(_) => World::Preview2,
            Pre::Preview3(_) => World::Preview3,
        }
    }

    /// Whether anybody else has it: an instance, or a request.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// What it takes of what a process has few of.
    pub fn handles(&self) -> Handles {
        self.0.handles
    }

    /// Whether both are one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn pre(&self) -> &Pre {
        &self.0.pre
    }

    pub(crate) fn engine(&self) -> &wasmtime::Engine {
        match &self.0.pre {
            Pre::Preview2(pre) => pre.engine(),
            Pre::Preview3(pre) => pre.engine(),
        }
    }

    /// The time of turns, for the calling thread.
    pub(crate) fn timer_of_thread(&self) -> Timer {
        self.0.timer.of_thread()
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Code")
            .field("world", &self.world())
            .finish_non_exhaustive()
    }
}

/// What components import, for an engine. Clones share it: to register WASI takes longer than to link a component.
#[derive(Clone)]
pub struct Imports(Arc<Inner>);

struct Inner {
    engine: Engine,
    registered: Mutex<Vec<Registered>>,
}

/// The imports of one world, for one of the engines that an [`Engine`] is made of.
struct Registered {
    world: World,
    engine: wasmtime::Engine,
    linker: Arc<Linker<State>>,
}

impl Imports {
    /// For the components of this engine.
    pub fn new(engine: &Engine) -> Self {
        Self(Arc::new(Inner {
            engine: engine.clone(),
            registered: Mutex::default(),
        }))
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn link(
        &self,
        component: &Component,
        isolation: Isolation,
    ) -> Result<Code, LoadError> {
        let world = World::of(component).ok_or(LoadError::NoHandler)?;
        if (world, isolation) == (World::Preview3, Isolation::Kept) {
            return Err(LoadError::Kept);
        }
        let pre = self.pre(world, component);
        let pre = pre.map_err(|error| LoadError::Link(format!("{error:#}")))?;
        let timer = Timer::new(component.engine(), TURN).map_err(LoadError::Thread)?;
        let handles = self.0.engine.handles(component);
        Ok(Code(Arc::new(Linked {
            pre,
            handles,
            timer,
        })))
    }

    fn pre(&self, world: World, component: &Component) -> wasmtime::Result<Pre> {
        let linker = self.linker(world, component.engine())?;
        let pre: InstancePre<State> = linker.instantiate_pre(component)?;
        Ok(match world {
            World::Preview2 => Pre::Preview2(ProxyPre::new(pre)?),
            World::Preview3 => Pre::Preview3(ServicePre::new(pre)?),
        })
    }

    fn linker(
        &self,
        world: World,
        engine: &wasmtime::Engine,
    ) -> wasmtime::Result<Arc<Linker<State>>> {
        let mut registered = lock(&self.0.registered);
        let of_both =
            |one: &&Registered| one.world == world && wasmtime::Engine::same(&one.engine, engine);
        if let Some(found) = registered.iter().find(of_both) {
            return Ok(Arc::clone(&found.linker));
        }
        let linker = Arc::new(register(world, engine)?);
        registered.push(Registered {
            world,
            engine: engine.clone(),
            linker: Arc::clone(&linker),
        });
        Ok(linker)
    }
}

impl std::fmt::Debug for Imports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Imports")
            .field("engine", &self.0.engine)
            .finish_non_exhaustive()
    }
}

fn register(world: World, engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    // All of WASI is there, and what is not granted says no: components of many languages import the whole
    // of it and use little.
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    open::shadow_calls(&mut linker)?;
    p2::add_only_http_to_linker_async(&mut linker)?;
    if world == World::Preview3 {
        wasmtime_wasi::p3::add_to_linker(&mut linker)?;
        open::shadow_tasks(&mut linker)?;
        p3::add_to_linker(&mut linker)?;
    }
    Ok(linker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_export_tells_the_world() {
        let of = World::of_export;
        assert_eq!(
            of("wasi:http/incoming-handler@0.2.0"),
            Some(World::Preview2)
        );
        assert_eq!(
            of("wasi:http/incoming-handler@0.2.12"),
            Some(World::Preview2)
        );
        assert_eq!(of("wasi:http/handler@0.3.0"), Some(World::Preview3));
        assert_eq!(of("wasi:cli/run@0.2.0"), None);
    }
}
