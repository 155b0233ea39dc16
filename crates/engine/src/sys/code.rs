//! Machine code out of a file, made executable.
//!
//! The rule for all of it: the file comes from the cache of the supervisor, who compiled it, or had it
//! compiled in a domain of its own, and checked it against its key before it was passed on. It is open
//! for reading only, and its writer has gone.
//!
//! What is mapped has the file's pages: they are shared with whoever maps it too, and the kernel takes them back where it
//! needs memory. Where memories begin with much, the file is kept open and there are three mappings (code between what is
//! read); else there are two, and no file (`mapped`).

use super::mapped::{Mapping, hand_over};
use std::{fs::File, os::fd::AsRawFd};
use wasmtime::{Engine, Module, Precompiled, component::Component};

/// What a compiled file holds.
pub(crate) enum Code {
    /// A core module.
    Module(Module),
    /// A component.
    Component(Component),
}

/// Loads compiled code.
///
/// # Errors
///
/// When it is none, or was made by another version or with other settings.
pub(crate) fn load(engine: &Engine, file: File) -> wasmtime::Result<Code> {
    let kind = Engine::detect_precompiled(&Mapping::new(&file)?);
    match kind {
        Some(Precompiled::Module) => load_module(engine, file).map(Code::Module),
        Some(Precompiled::Component) => copy_component(engine, &file).map(Code::Component),
        None => Err(wasmtime::Error::msg("it is no compiled code")),
    }
}

/// Whether the file holds the code of a component; what can't be read is for [`load`] to say.
pub(crate) fn is_component(file: &File) -> bool {
    let mapped = Mapping::new(file);
    mapped.is_ok_and(|code| Engine::detect_precompiled(&code) == Some(Precompiled::Component))
}

/// Maps compiled code of a module, whose file is kept open: memories begin with parts of it.
///
/// # Errors
///
/// As [`load`].
pub(crate) fn load_module(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: the module's rule: the file is the supervisor's own, and stays as it is.
    unsafe { Module::deserialize_open_file(engine, file) }
}

/// Maps compiled code of a module, for an engine that copies what memories begin with and publishes by [`Publisher`](super::mapped::Publisher):
/// the file is not kept open.
///
/// # Errors
///
/// As [`load`].
pub(crate) fn map_module(engine: &Engine, file: &File) -> wasmtime::Result<Module> {
    hand_over(file, |memory| {
        // SAFETY: the module's rule: the file is the supervisor's own, and stays as it is. It is mapped until the engine
        // says that nobody uses it any more.
        unsafe { Module::deserialize_raw(engine, memory) }
    })
}

/// The same of a component.
///
/// # Errors
///
/// As [`load`].
pub(crate) fn map_component(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    hand_over(file, |memory| {
        // SAFETY: the module's rule: the file is the supervisor's own, and stays as it is. It is mapped until the engine
        // says that nobody uses it any more.
        unsafe { Component::deserialize_raw(engine, memory) }
    })
}

/// Maps compiled code of a component, whose file is kept open: memories begin with parts of it. Needs `/proc`.
///
/// # Errors
///
/// As [`load`].
pub(crate) fn load_component(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    // There is no call for a component that takes an open file, as there is for a module.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the module's rule: the file is the supervisor's own, and stays as it is. The path leads to it as long as
    // the descriptor is open.
    unsafe { Component::deserialize_file(engine, path) }
}

/// Copies compiled code of a component, where there may be no `/proc`.
fn copy_component(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    let bytes = Mapping::new(file)?;
    // SAFETY: the module's rule: the file is the supervisor's own, and stays as it is.
    unsafe { Component::deserialize(engine, &*bytes) }
}

/// Loads what the compiler of this process made.
///
/// # Errors
///
/// As [`load`].
#[cfg(feature = "compiler")]
pub(crate) fn load_own(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the only caller has it from the compiler, and nobody else had it between.
    unsafe { Component::deserialize(engine, code) }
}

#[cfg(all(test, feature = "compiler"))]
mod tests {
    use super::*;
    use palisade_compiler::{compile_for, settings};
    use palisade_wall::Purpose;

    /// A component with an export of this name.
    fn component(export: &str) -> Vec<u8> {
        let text =
            format!(r#"(component (instance $nothing) (export "{export}" (instance $nothing)))"#);
        wat::parse_str(text).expect("a component")
    }

    /// Whoever runs it counts on what its settings put into the code: the checks that bound time above all.
    #[test]
    fn code_for_one_purpose_is_of_no_use_for_another() {
        let engine = |settings| Engine::new(&settings).unwrap();
        let program = compile_for(Purpose::Program, &component("wasi:cli/run@0.2.0")).unwrap();
        for settings in [settings::service(), settings::service_of_tasks()] {
            assert!(load_own(&engine(settings), &program).is_err());
        }
        let service = component("wasi:http/incoming-handler@0.2.4");
        let service = compile_for(Purpose::Service, &service).unwrap();
        assert!(load_own(&engine(settings::service()), &service).is_ok());
        assert!(load_own(&engine(settings::service_of_tasks()), &service).is_err());
        assert!(load_own(&engine(settings::command_component()), &service).is_err());
    }
}
