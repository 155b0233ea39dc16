//! From WebAssembly to machine code.

#[cfg(feature = "compiler")]
pub use compiler::{CompileError, compile};

/// Whether the bytes begin as a component does, not as a core module: the upper half of the version
/// field is the layer.
pub fn is_component(bytes: &[u8]) -> bool {
    bytes.get(6) == Some(&1)
}

#[cfg(feature = "compiler")]
mod compiler {
    use super::is_component;
    use crate::{settings, worker::shorten};
    use wasmparser::{Parser, Payload, Validator, WasmFeatures};
    use wasmtime::{Engine, Error};

    /// Why there is no machine code for a guest.
    #[derive(Debug, thiserror::Error)]
    pub enum CompileError {
        /// It uses a part of WebAssembly that no guest here may.
        #[error("guest: it needs {what}, which the wasm wall does not offer: {advice}")]
        NotOffered {
            /// The part.
            what: &'static str,
            /// How to do without.
            advice: &'static str,
        },
        /// It is broken, or something else.
        #[error("guest: it is not valid WebAssembly: {0}")]
        Invalid(String),
        /// The compiler's own.
        #[error("wall: it cannot be compiled: {0}")]
        Compiler(String),
    }

    /// Compiles a program, module or component, for [`crate::worker`].
    ///
    /// # Errors
    ///
    /// When it is not WebAssembly, or uses what no guest here may.
    pub fn compile(module: &[u8]) -> Result<Vec<u8>, CompileError> {
        if spawns_threads(module) {
            return Err(not_offered(WasmFeatures::THREADS));
        }
        let failed = |error: Error| explain(module, &error);
        let engine = |config| {
            Engine::new(&config).map_err(|error| CompileError::Compiler(format!("{error:#}")))
        };
        match is_component(module) {
            true => engine(settings::command_component())?.precompile_component(module),
            false => engine(settings::command())?.precompile_module(module),
        }
        .map_err(failed)
    }

    /// What a guest may need that is not offered, and what to do.
    const NOT_OFFERED: &[(WasmFeatures, &str, &str)] = &[
        (
            WasmFeatures::THREADS,
            "threads (shared memory)",
            "build it without -pthread, or run a native build behind the process wall",
        ),
        (
            WasmFeatures::LEGACY_EXCEPTIONS,
            "exceptions (the older proposal)",
            "build it without them (-fno-exceptions, or setjmp and longjmp that are emulated)",
        ),
        (
            WasmFeatures::EXCEPTIONS,
            "exceptions",
            "build it without them (-fno-exceptions, or setjmp and longjmp that are emulated)",
        ),
        (
            WasmFeatures::GC,
            "garbage-collected types",
            "use a compiler that brings its own collector, or run a native build behind the process wall",
        ),
        (
            WasmFeatures::STACK_SWITCHING,
            "stack switching",
            "build it without",
        ),
        (
            WasmFeatures::MEMORY64,
            "a memory with 64-bit addresses",
            "build it for wasm32",
        ),
    ];

    fn not_offered(feature: WasmFeatures) -> CompileError {
        let found = NOT_OFFERED.iter().find(|(each, ..)| *each == feature);
        let (_, what, advice) = found.expect("the table has all that is asked for");
        CompileError::NotOffered { what, advice }
    }

    /// The import of a program for wasi-threads.
    fn spawns_threads(module: &[u8]) -> bool {
        let imports = Parser::new(0)
            .parse_all(module)
            .filter_map(|payload| match payload {
                Ok(Payload::ImportSection(section)) => Some(section),
                _ => None,
            });
        imports
            .flat_map(|section| section.into_imports())
            .flatten()
            .any(|import| (import.module, import.name) == ("wasi", "thread-spawn"))
    }

    /// A guest that is valid with all of WebAssembly, and not without one part, needs that part.
    fn explain(module: &[u8], error: &Error) -> CompileError {
        let is_valid = |features| {
            Validator::new_with_features(features)
                .validate_all(module)
                .is_ok()
        };
        let all = WasmFeatures::all();
        let text = shorten(format!("{error:#}"));
        if !is_valid(all) {
            return CompileError::Invalid(text);
        }
        let needed = NOT_OFFERED
            .iter()
            .find(|(feature, ..)| !is_valid(all.difference(*feature)));
        match needed {
            Some((feature, ..)) => not_offered(*feature),
            None => CompileError::Compiler(text),
        }
    }
}
