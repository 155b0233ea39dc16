//! A component as its policy has it: what its instances may reach and use, whether or not its code is loaded.

use crate::{
    code::{Code, Imports},
    load::{Isolation, LoadError},
    reach::{Links, Reach},
};
use palisade_engine::{growth::MemoryPool, permits::Share};
use palisade_policy::Policy;
use std::sync::Arc;

/// A component's policy, looked up. Clones share it; each thread that serves has a [`Worker`](crate::Worker) of its own.
///
/// Its [`Code`] is loaded when it is needed, and may be dropped and loaded again.
#[derive(Clone)]
pub struct Component(Arc<Settings>);

pub(crate) struct Settings {
    imports: Imports,
    pub(crate) isolation: Isolation,
    pub(crate) share: Share,
    pub(crate) reach: Reach,
    /// What its owner's guests have their memory of.
    pub(crate) pool: Option<Arc<MemoryPool>>,
}

impl Component {
    /// Each worker has `share` of the engine's pool for it.
    ///
    /// # Errors
    ///
    /// When its policy asks for what no service can have.
    pub fn new(
        imports: &Imports,
        policy: &Policy,
        isolation: Isolation,
        share: Share,
        links: Links,
    ) -> Result<Self, LoadError> {
        Self::within(imports, policy, isolation, share, links, None)
    }

    /// The same, whose instances have their memory of this pool, together with all that is its owner's.
    ///
    /// # Errors
    ///
    /// As [`Component::new`].
    pub fn within(
        imports: &Imports,
        policy: &Policy,
        isolation: Isolation,
        share: Share,
        links: Links,
        pool: Option<Arc<MemoryPool>>,
    ) -> Result<Self, LoadError> {
        let reach = Reach::of(policy, links)?;
        let most = imports.engine().options().memory_bytes;
        if reach.memory_bytes > most {
            let limit = reach.memory_bytes;
            return Err(LoadError::Memory { limit, most });
        }
        Ok(Self(Arc::new(Settings {
            imports: imports.clone(),
            isolation,
            share,
            reach,
            pool,
        })))
    }

    /// Links the code that the engine loaded.
    ///
    /// # Errors
    ///
    /// When it is no service, or imports what nobody gives it.
    pub fn link(&self, component: &wasmtime::component::Component) -> Result<Code, LoadError> {
        self.0.imports.link(component, self.0.isolation)
    }

    /// What it may reach.
    pub fn reach(&self) -> &Reach {
        &self.0.reach
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.0
    }
}

impl std::fmt::Debug for Component {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Component")
            .field("isolation", &self.0.isolation)
            .field("reach", &self.0.reach)
            .finish_non_exhaustive()
    }
}
