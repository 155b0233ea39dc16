//! Why there is no code.

use palisade_wasm::{compile::CompileError, error::StartError, module::ModuleError};
use std::path::{Path, PathBuf};

/// A filter or component has no code.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum CodeError {
    #[error(transparent)]
    Module(#[from] ModuleError),
    #[error("policy: {} cannot be read: {source}; name a file that is there", path.display())]
    Unreadable {
        path: PathBuf,
        source: rustix::io::Errno,
    },
    #[error("guest: {} is no WebAssembly; name a module or component", path.display())]
    NoModule { path: PathBuf },
    #[error(transparent)]
    Compile(#[from] StartError),
    /// What was compiled is not what it is to be.
    #[error("{source}")]
    Link {
        source: Box<dyn std::error::Error + Send + Sync>,
        /// Whether the module is at fault.
        is_guests: bool,
    },
}

impl CodeError {
    /// The module is at fault.
    pub(crate) fn of_guest(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Link {
            source: Box::new(source),
            is_guests: true,
        }
    }

    /// The server is.
    pub(crate) fn of_host(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Link {
            source: Box::new(source),
            is_guests: false,
        }
    }

    /// Why there is no module at this path.
    pub(super) fn no_module(path: &Path) -> Self {
        let path = path.to_owned();
        match rustix::fs::access(&path, rustix::fs::Access::READ_OK) {
            Ok(()) => Self::NoModule { path },
            Err(source) => Self::Unreadable { path, source },
        }
    }

    /// Whether the module is at fault, so that the same one will fail again.
    pub(super) fn is_guests(&self) -> bool {
        match self {
            Self::NoModule { .. } => true,
            Self::Link { is_guests, .. } => *is_guests,
            Self::Compile(StartError::Compile(error)) => matches!(
                error,
                CompileError::Refused { .. }
                    | CompileError::Time { .. }
                    | CompileError::Signal { .. }
            ),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_is_not_there_is_not_taken_for_another_kind_of_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wasm");
        let told = || CodeError::no_module(&path).to_string();
        assert!(told().contains("cannot be read"), "{}", told());
        std::fs::write(&path, "junk").unwrap();
        assert!(told().contains("is no WebAssembly"), "{}", told());
    }
}
