//! A component, ready to be instantiated: code, imports, policy.

use crate::{
    open,
    reach::{Reach, ReachError},
    state::State,
};
use palisade_engine::{
    permits::Share,
    service::{Engine, Timer},
};
use palisade_policy::Policy;
use std::{io, sync::Arc, time::Duration};
use wasmtime::component::{InstancePre, Linker};
use wasmtime_wasi_http::{
    p2::{self, bindings::ProxyPre},
    p3::{self, bindings::ServicePre},
};

/// How long a guest computes before others have their turn.
const TURN: Duration = Duration::from_millis(crate::state::TURN_TICKS);

/// What a request finds of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A new instance, which is gone when the guest has ended. Nothing of one request is left for another.
    #[default]
    Fresh,
    /// An instance that answered others before, one at a time, with all that they left in its memory. WASI
    /// 0.2 only.
    Kept,
}

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
    fn of(component: &wasmtime::component::Component) -> Option<Self> {
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

/// A component can't be a service under this policy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum LoadError {
    #[error(transparent)]
    Code(#[from] palisade_engine::service::LoadError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(
        "guest: the component exports neither wasi:http/incoming-handler@0.2 nor wasi:http/handler@0.3: it is no service"
    )]
    NoHandler,
    #[error("guest: the component cannot be linked: {0}; it needs what no service here has")]
    Link(String),
    #[error(
        "policy: isolation = \"kept\" is for components of WASI 0.2, and this one is of 0.3: leave it out"
    )]
    Kept,
    #[error(
        "policy: limits.memory of {limit} bytes is more than the {most} that an instance can have here"
    )]
    Memory { limit: usize, most: usize },
    #[error("host: no thread can be started to keep guests to their time: {0}")]
    Thread(#[source] io::Error),
    #[error("host: a granted folder cannot be opened: {0}")]
    Folder(String),
}

pub(crate) enum Pre {
    Preview2(ProxyPre<State>),
    Preview3(ServicePre<State>),
}

impl Pre {
    pub(crate) fn engine(&self) -> &wasmtime::Engine {
        match self {
            Self::Preview2(pre) => pre.engine(),
            Self::Preview3(pre) => pre.engine(),
        }
    }
}

/// A component with its imports and its policy. Clones share it; each thread that serves has a
/// [`Worker`](crate::Worker) of its own.
#[derive(Clone)]
pub struct Component(Arc<Loaded>);

pub(crate) struct Loaded {
    pub(crate) pre: Pre,
    pub(crate) isolation: Isolation,
    pub(crate) share: Share,
    pub(crate) reach: Reach,
    /// Workers' own are made beside it.
    pub(crate) timer: Timer,
}

impl Component {
    /// Links a component that `engine` loaded. Each worker has `share` of the engine's pool for it.
    ///
    /// # Errors
    ///
    /// When it is no service, imports what nobody gives it, or its policy asks for what no service can have.
    pub fn new(
        engine: &Engine,
        component: &wasmtime::component::Component,
        policy: &Policy,
        isolation: Isolation,
        share: Share,
    ) -> Result<Self, LoadError> {
        let world = World::of(component).ok_or(LoadError::NoHandler)?;
        if (world, isolation) == (World::Preview3, Isolation::Kept) {
            return Err(LoadError::Kept);
        }
        let reach = Reach::of(policy)?;
        let most = engine.options().memory_bytes;
        if reach.memory_bytes > most {
            let limit = reach.memory_bytes;
            return Err(LoadError::Memory { limit, most });
        }
        let linked = |error: wasmtime::Error| LoadError::Link(format!("{error:#}"));
        let timer = Timer::new(component.engine(), TURN).map_err(LoadError::Thread)?;
        Ok(Self(Arc::new(Loaded {
            pre: link(world, component).map_err(linked)?,
            isolation,
            share,
            reach,
            timer,
        })))
    }

    /// Which service it is.
    pub fn world(&self) -> World {
        match self.0.pre {
            Pre::Preview2(_) => World::Preview2,
            Pre::Preview3(_) => World::Preview3,
        }
    }

    /// What it may reach.
    pub fn reach(&self) -> &Reach {
        &self.0.reach
    }

    pub(crate) fn loaded(&self) -> &Arc<Loaded> {
        &self.0
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Component")
            .field("world", &self.world())
            .field("isolation", &self.0.isolation)
            .field("reach", &self.0.reach)
            .finish_non_exhaustive()
    }
}

fn link(world: World, component: &wasmtime::component::Component) -> wasmtime::Result<Pre> {
    let mut linker = Linker::new(component.engine());
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
    let pre: InstancePre<State> = linker.instantiate_pre(component)?;
    Ok(match world {
        World::Preview2 => Pre::Preview2(ProxyPre::new(pre)?),
        World::Preview3 => Pre::Preview3(ServicePre::new(pre)?),
    })
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
