//! From WebAssembly to machine code.

#[cfg(feature = "compiler")]
use crate::settings;

/// Compiles a program, module or component, for [`crate::worker`].
///
/// # Errors
///
/// When it is not WebAssembly, or uses what no guest here may.
#[cfg(feature = "compiler")]
pub fn compile(module: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let engine = wasmtime::Engine::new(&settings::command())?;
    if is_component(module) {
        engine.precompile_component(module)
    } else {
        engine.precompile_module(module)
    }
}

/// Whether the bytes begin as a component does, not as a core module: the upper half of the version
/// field is the layer.
pub fn is_component(bytes: &[u8]) -> bool {
    bytes.get(6) == Some(&1)
}
