//! A module that an engine can run.

use super::{
    Engine, Function, FunctionError, Values,
    function::{asked_type, found_type, is_of_type},
};
use crate::handles::Handles;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use wasmtime::{ExternType, Module};

/// A module, compiled for an engine. Clones share the code.
#[derive(Clone)]
pub struct Program {
    engine: Engine,
    module: Module,
    /// Tells its functions from another's.
    number: u64,
    exports: Arc<[String]>,
}

impl Program {
    pub(super) fn new(engine: &Engine, module: Module) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let exports = module
            .exports()
            .map(|export| export.name().to_owned())
            .collect();
        Self {
            engine: engine.clone(),
            module,
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            exports,
        }
    }

    /// Looks a function up and checks its type, once for all calls.
    ///
    /// # Errors
    ///
    /// When there is none of this name and type.
    pub fn function<P: Values, R: Values>(
        &self,
        name: &str,
    ) -> Result<Function<P, R>, FunctionError> {
        self.find_function(name)?
            .ok_or_else(|| FunctionError::Missing {
                name: name.to_owned(),
                exports: self.exports.join(", "),
            })
    }

    /// The same, of a function that need not be there: `None` if it is not.
    ///
    /// # Errors
    ///
    /// When there is one of this name, and of another type.
    pub fn find_function<P: Values, R: Values>(
        &self,
        name: &str,
    ) -> Result<Option<Function<P, R>>, FunctionError> {
        let Some(ExternType::Func(found)) = self.module.get_export(name) else {
            return Ok(None);
        };
        if !is_of_type::<P, R>(&found) {
            return Err(FunctionError::Type {
                name: name.to_owned(),
                asked: asked_type::<P, R>(),
                found: found_type(&found),
            });
        }
        let index = self.exports.iter().position(|export| export == name);
        let export = self.module.get_export_index(name);
        let found = index.zip(export);
        Ok(found.map(|(index, export)| Function::new(self.number, index, export)))
    }

    /// Whether it can call a host function of this name.
    pub fn imports(&self, name: &str) -> bool {
        self.module.imports().any(|import| import.name() == name)
    }

    /// What it takes, if it was loaded from a file.
    pub fn handles(&self) -> Handles {
        self.engine.handles()
    }

    /// The engine that it was compiled for.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn module(&self) -> &Module {
        &self.module
    }

    /// How many there are.
    pub(super) fn exports(&self) -> usize {
        self.exports.len()
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Program")
            .field("exports", &self.exports)
            .finish_non_exhaustive()
    }
}
