//! From WebAssembly to machine code.

use crate::{is_component, settings, shorten};
use palisade_wall::Purpose;
use wasmparser::{Parser, Payload, Validator, WasmFeatures};
use wasmtime::{Config, Engine, Error};

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
    /// It is good for something else.
    #[error("guest: it is {what}: {advice}")]
    OtherKind {
        /// What it is.
        what: &'static str,
        /// What to do with it, or in place of it.
        advice: &'static str,
    },
    /// It is broken, or something else.
    #[error("guest: it is not valid WebAssembly: {0}")]
    Invalid(String),
    /// The compiler's own.
    #[error("wall: it cannot be compiled: {0}")]
    Compiler(String),
}

/// Compiles a program, module or component, for a worker.
///
/// # Errors
///
/// When it is not WebAssembly, or uses what no guest here may.
pub fn compile(module: &[u8]) -> Result<Vec<u8>, CompileError> {
    compile_for(Purpose::Program, module)
}

/// Compiles what is run as the purpose says, with the settings of whoever runs it.
///
/// # Errors
///
/// When it is not WebAssembly, is good for something else, or uses what no guest here may.
pub fn compile_for(purpose: Purpose, module: &[u8]) -> Result<Vec<u8>, CompileError> {
    if spawns_threads(module) {
        return Err(not_offered(WasmFeatures::THREADS));
    }
    check_kind(purpose, module)?;
    match (purpose, is_component(module)) {
        (Purpose::Program, false) => compile_with(settings::command(), module),
        (Purpose::Program, true) => compile_with(settings::command_component(), module),
        (Purpose::Filter, _) => compile_with(settled(settings::filter(), module), module),
        (Purpose::Service, _) => compile_service(module),
    }
}

fn compile_service(component: &[u8]) -> Result<Vec<u8>, CompileError> {
    let compiled = |settings| compile_with(settled(settings, component), component);
    let of_tasks = || compiled(settings::service_of_tasks());
    // A component of 0.2 may have parts of 0.3.
    match has_export(component, HANDLER_0_3) {
        true => of_tasks(),
        false => compiled(settings::service()).or_else(|_| of_tasks()),
    }
}

/// These settings, by how much its memories begin with.
fn settled(settings: Config, module: &[u8]) -> Config {
    match data_bytes(module) > settings::MOST_COPIED_BYTES {
        true => settings::with_images(settings),
        false => settings,
    }
}

/// What the memories of it and of all modules in it begin with.
fn data_bytes(module: &[u8]) -> usize {
    let payloads = Parser::new(0).parse_all(module);
    let sections = payloads.filter_map(|payload| match payload {
        Ok(Payload::DataSection(section)) => Some(section),
        _ => None,
    });
    let segments = sections.flat_map(|section| section.into_iter().flatten());
    segments.map(|segment| segment.data.len()).sum()
}

fn compile_with(settings: Config, module: &[u8]) -> Result<Vec<u8>, CompileError> {
    let engine =
        Engine::new(&settings).map_err(|error| CompileError::Compiler(format!("{error:#}")))?;
    match is_component(module) {
        true => engine.precompile_component(module),
        false => engine.precompile_module(module),
    }
    .map_err(|error| explain(module, &error))
}

/// How the exports begin that tell what WebAssembly is good for.
const HANDLER_0_2: &str = "wasi:http/incoming-handler@0.2.";
const HANDLER_0_3: &str = "wasi:http/handler@0.3.";
const COMMAND: &str = "wasi:cli/run@";
const PROXY_WASM: &str = "proxy_";
const START: &str = "_start";

/// Says what it is where it is not what is asked for. What is no valid WebAssembly is for the compiler
/// to say.
fn check_kind(purpose: Purpose, module: &[u8]) -> Result<(), CompileError> {
    let has = |prefix| has_export(module, prefix);
    let other = |what, advice| Err(CompileError::OtherKind { what, advice });
    match (purpose, is_component(module)) {
        (Purpose::Program, _) => Ok(()),
        (Purpose::Filter, true) => other(
            "a component, and filters are modules that speak proxy-wasm",
            "give it as a service if it exports wasi:http, or build it with a proxy-wasm SDK",
        ),
        (Purpose::Filter, false) if has(PROXY_WASM) || !is_readable(module) => Ok(()),
        (Purpose::Filter, false) if has(START) => other(
            "a program (it exports `_start` and nothing of proxy-wasm), not a filter",
            "run it with `palisade run`, or build a filter with a proxy-wasm SDK",
        ),
        (Purpose::Filter, false) => other(
            "a module that exports nothing of proxy-wasm",
            "build it with a proxy-wasm SDK, which adds the exports that begin with `proxy_`",
        ),
        (Purpose::Service, false) if !is_readable(module) => Ok(()),
        (Purpose::Service, false) if has(PROXY_WASM) => other(
            "a proxy-wasm filter, and services are components",
            "give it as a filter",
        ),
        (Purpose::Service, false) => other(
            "a core module, and services are components",
            "make it one that exports wasi:http/incoming-handler (`wasm-tools component new`)",
        ),
        (Purpose::Service, true)
            if has(HANDLER_0_2) || has(HANDLER_0_3) || !is_readable(module) =>
        {
            Ok(())
        }
        (Purpose::Service, true) if has(COMMAND) => other(
            "a program (it exports wasi:cli/run and no handler of wasi:http), not a service",
            "run it with `palisade run`",
        ),
        (Purpose::Service, true) => other(
            "a component that exports neither wasi:http/incoming-handler@0.2 nor wasi:http/handler@0.3",
            "build it for the world wasi:http/proxy or wasi:http/service",
        ),
    }
}

fn is_readable(module: &[u8]) -> bool {
    Parser::new(0)
        .parse_all(module)
        .all(|payload| payload.is_ok())
}

/// Whether something is exported whose name begins so: by the outermost, not by what is within.
fn has_export(module: &[u8], prefix: &str) -> bool {
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(module) {
        let Ok(payload) = payload else { return false };
        let found = match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                depth += 1;
                false
            }
            Payload::End(_) if depth > 0 => {
                depth -= 1;
                false
            }
            Payload::ExportSection(exports) => {
                let mut exports = exports.into_iter().flatten();
                depth == 0 && exports.any(|export| export.name.starts_with(prefix))
            }
            Payload::ComponentExportSection(exports) => {
                let mut exports = exports.into_iter().flatten();
                depth == 0 && exports.any(|export| export.name.name.starts_with(prefix))
            }
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
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

#[cfg(test)]
mod tests;
