//! Compiled code: machine code that this process will execute as it is.

mod values;

pub use values::Values;
pub(super) use values::{Checked, Functions};

use super::{Engine, LoadError};
use wasmtime::Module;

/// The machine code of a module, for [`Engine::load`].
///
/// A safe program has only what an engine compiled; bytes from elsewhere need a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled(Vec<u8>);

impl Compiled {
    #[cfg(feature = "compiler")]
    pub(super) fn new(code: Vec<u8>) -> Self {
        Self(code)
    }

    /// Takes code back that [`Compiled::bytes`] gave.
    ///
    /// # Safety
    ///
    /// The bytes are those that this crate made, unchanged. Code of another version or of other settings is
    /// refused when it is loaded; code that was changed is executed, whatever it does. So it must come from
    /// where only those can write who may as well change this program.
    pub unsafe fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The code, to be kept.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn load(&self, engine: &Engine) -> Result<Module, LoadError> {
        // SAFETY: the bytes are a compiler's, unchanged: `new` has them from ours, and whoever called
        // `from_bytes` promised it.
        unsafe { Module::deserialize(engine.wasmtime(), &self.0) }.map_err(LoadError::Stale)
    }
}
