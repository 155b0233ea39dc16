//! Why a guest was not started.

use crate::{compile::CompileError, module::ModuleError, programs::ProgramInReach};
use palisade_process::LaunchError;
use rustix::io::Errno;
use std::path::PathBuf;

/// A guest was not started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
pub enum StartError {
    #[error(transparent)]
    Module(#[from] ModuleError),
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error(
        "policy: the guest could write {}, where palisade keeps code that it runs later: keep it out of what is \
         granted, or add --protect {}", path.display(), path.display()
    )]
    CacheInReach { path: PathBuf },
    #[error(transparent)]
    ProgramInReach(#[from] ProgramInReach),
    #[error("host: cannot look at {}: {source}", path.display())]
    Compiler {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("host: cannot hand code to the worker: {0}")]
    Code(#[source] std::io::Error),
    #[error("host: cannot make a pipe for the worker: {0}")]
    Pipe(#[source] Errno),
    #[error(transparent)]
    Launch(#[from] LaunchError),
}
