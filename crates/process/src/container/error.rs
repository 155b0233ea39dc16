//! Why a container is not created, started or entered.

use crate::{KeeperError, wire::container::Step};
use rustix::io::Errno;
use std::path::PathBuf;

/// What kept it.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum ContainerError {
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    #[error(transparent)]
    Filter(#[from] crate::seccomp::CompileError),
    #[error("wall: cannot talk to the container: {0}")]
    Talk(#[source] Errno),
    #[error("wall: the container's first process ended without a word")]
    Silent,
    #[error("host: the container does not run")]
    Gone,
    #[error("policy: the {kind} namespace {path:?} cannot be opened: {errno}")]
    OpenNamespace {
        kind: &'static str,
        path: PathBuf,
        errno: Errno,
    },
    #[error("host: the user namespace's {file} cannot be written: {errno}")]
    MapIds { file: &'static str, errno: Errno },
    #[error("policy: {path:?} cannot be mounted: {errno}")]
    OpenSource { path: PathBuf, errno: Errno },
    #[error("host: {path:?}, which runs the container's program, cannot be opened: {errno}")]
    OpenExecutable { path: PathBuf, errno: Errno },
    #[error("host: /proc cannot be opened: {0}")]
    OpenProc(#[source] Errno),
    #[error("host: the file system of {path:?} cannot show its files as other users': {errno}")]
    MapMount { path: PathBuf, errno: Errno },
    #[error("policy: the container has more mounts than one message can carry ({most})")]
    TooManyMounts { most: usize },
    #[error("{what}: {errno}")]
    Step {
        /// In words, and whose fault it is.
        what: String,
        step: Step,
        item: u32,
        errno: Errno,
    },
    #[error("{what} ended with {status}")]
    Hook { what: String, status: String },
    #[error("{0}")]
    Paused(String),
    #[error("wall: nobody can answer the container's calls on the network: {0}")]
    Supervise(String),
    #[error("host: the kernel lets this process not ask the container's keeper: {0}")]
    Shut(#[source] Errno),
}
