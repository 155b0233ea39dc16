//! A module with its settings, ready to be started on any thread.

use crate::{LoadError, Part, Settings, Shared, callbacks::Callbacks, state::Loaded};
use palisade_engine::{
    guest::{Linked, Program},
    handles::Handles,
};
use std::sync::Arc;

/// A proxy-wasm module with its settings. Clones are one; any thread may start instances of it.
#[derive(Clone, Debug)]
pub struct Filter {
    pub(crate) loaded: Arc<Loaded>,
}

impl Filter {
    /// Makes a filter of a module: µs, but for the first filter of a [`Shared`], for which the host functions are
    /// registered that all use.
    ///
    /// # Errors
    ///
    /// When it is no proxy-wasm module of version 0.1.0, 0.2.0, 0.2.1 or 0.2.100, imports what there is not, or
    /// begins beyond its limits.
    pub fn load(
        program: &Program,
        settings: Settings,
        shared: &Arc<Shared>,
    ) -> Result<Self, LoadError> {
        let callbacks = Callbacks::of(program)?;
        let imports = shared.imports(program.engine())?;
        let linked = Linked::new(program, &imports, settings.limits.clone())?;
        let loaded = Loaded {
            linked,
            callbacks,
            space: shared.space(&settings.tenant, &settings.vm_id),
            series: shared.series(&settings.name),
            settings,
            reads_properties: program.imports("proxy_get_property"),
            changes_bodies: program.imports("proxy_set_buffer_bytes"),
        };
        Ok(Self {
            loaded: Arc::new(loaded),
        })
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    /// What its code takes, if it was loaded from a file.
    pub fn handles(&self) -> Handles {
        self.loaded.linked.program().handles()
    }

    /// Whether anybody else has it: an instance, or a request.
    pub fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.loaded) > 1
    }

    /// Whether it inspects this part. One that it does not inspect need not be held for it.
    pub fn inspects(&self, part: Part) -> bool {
        self.loaded.callbacks.inspects(part)
    }

    /// Whether it can ask for properties. Only for such a one need [`crate::Exchange::started`] be known.
    pub fn reads_properties(&self) -> bool {
        self.loaded.reads_properties
    }

    /// Whether it can make a body longer or shorter. One that cannot leaves its length as it is.
    pub fn changes_bodies(&self) -> bool {
        self.loaded.changes_bodies
    }

    /// Whether anything of it is called when an exchange is over.
    pub fn hears_of_ends(&self) -> bool {
        self.loaded.callbacks.hears_of_ends()
    }

    /// Whether it inspects exchanges that are over. For one that does, the response's head is kept.
    pub fn inspects_ends(&self) -> bool {
        self.loaded.callbacks.on_log.is_some()
    }
}
