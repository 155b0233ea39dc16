//! From a module or component to machine code.

use super::load::{LoadError, Tools};
use crate::beneath;
use palisade_policy::Policy;
use palisade_wasm::{
    code::{self, Code, Compiler},
    compile::Purpose,
    module::{Module, ModuleError},
};
use rustix::fs::{Mode, OFlags};
use std::path::Path;

/// Compiles what is at `path`, below a folder that it must be `within`, or finds it in the cache. `guest` says whose it is.
pub(super) fn compile(
    path: &Path,
    within: Option<&Path>,
    purpose: Purpose,
    policy: &Policy,
    tools: &Tools,
    guest: impl Fn() -> String,
) -> Result<Code, LoadError> {
    let opened = open(path, within).map_err(|source| LoadError::Module {
        guest: guest(),
        source,
    })?;
    let module = opened.ok_or_else(|| no_module(guest(), path))?;
    let compiler = Compiler {
        path: &tools.programs.compiler,
        machine: &tools.machine,
        allow_degraded: &policy.allow_degraded,
        within: None,
    };
    let cache = code::open_cache(tools.caches.as_deref());
    code::obtain(&module, purpose, &compiler, cache).map_err(|source| LoadError::Compile {
        guest: guest(),
        source,
    })
}

/// Without waiting for anybody: it may be a FIFO.
fn open(path: &Path, within: Option<&Path>) -> Result<Option<Module>, ModuleError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    match beneath::open(within, path, flags, Mode::empty()) {
        Ok(file) => Module::of_file(path, file),
        Err(_) => Ok(None),
    }
}

/// Why there is no module at this path.
fn no_module(guest: String, path: &Path) -> LoadError {
    let path = path.to_owned();
    match rustix::fs::access(&path, rustix::fs::Access::READ_OK) {
        Ok(()) => LoadError::NoModule { guest, path },
        Err(source) => LoadError::Unreadable {
            guest,
            path,
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_there_is_not_taken_for_another_kind_of_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wasm");
        let told = || no_module("filter x".into(), &path).to_string();
        assert!(told().contains("cannot be read"), "{}", told());
        std::fs::write(&path, "junk").unwrap();
        assert!(told().contains("is no WebAssembly"), "{}", told());
    }
}
