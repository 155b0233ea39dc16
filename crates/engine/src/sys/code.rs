//! Machine code out of a file, made executable.
//!
//! The rule for all of it: the file comes from the cache of the supervisor, who compiled it, or had it
//! compiled in a domain of its own, and checked it against its key before it was passed on. It is open
//! for reading only, and its writer has gone.
//!
//! A module or component that is mapped keeps its file open, has three mappings (code between what is read), and its pages
//! are the file's: they are shared with whoever maps it too, and the kernel takes them back where it needs memory.

use std::{fs::File, ops::Deref, os::fd::AsRawFd};
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
    let kind = Mapped::new(&file)?.kind();
    match kind {
        Some(Precompiled::Module) => load_module(engine, file).map(Code::Module),
        Some(Precompiled::Component) => copy_component(engine, &file).map(Code::Component),
        None => Err(wasmtime::Error::msg("it is no compiled code")),
    }
}

/// Whether the file holds the code of a component; what can't be read is for [`load`] to say.
pub(crate) fn is_component(file: &File) -> bool {
    let mapped = Mapped::new(file);
    mapped.is_ok_and(|mapped| mapped.kind() == Some(Precompiled::Component))
}

/// Loads compiled code of a module.
///
/// # Errors
///
/// As [`load`].
pub(crate) fn load_module(engine: &Engine, file: File) -> wasmtime::Result<Module> {
    // SAFETY: the module's rule: the file is the supervisor's own, and stays as it is.
    unsafe { Module::deserialize_open_file(engine, file) }
}

/// Maps compiled code of a component. Needs `/proc`.
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
    let bytes = Mapped::new(file)?;
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

/// A file, to be looked at.
struct Mapped {
    start: *mut std::ffi::c_void,
    length: usize,
}

impl Mapped {
    fn new(file: &File) -> std::io::Result<Self> {
        let length = file.metadata()?.len() as usize;
        let (protection, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::PRIVATE);
        // SAFETY: a mapping of its own, at a place of the kernel's choice; nobody writes to the file.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, flags, file, 0)? };
        Ok(Self { start, length })
    }

    fn kind(&self) -> Option<Precompiled> {
        Engine::detect_precompiled(self)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped for reading as long as `self` lives, and all bytes lie within the file.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` made the mapping and no borrow of it is left. It cannot fail then.
        let _ = unsafe { rustix::mm::munmap(self.start, self.length) };
    }
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
