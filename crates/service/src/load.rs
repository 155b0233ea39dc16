//! How a component is to be served, and why it can't be.

use crate::reach::ReachError;
use std::io;

/// What a request finds of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// A new instance, which is gone when the guest has ended. Nothing of one request is left for another.
    #[default]
    Fresh,
    /// An instance that answered others before, one at a time, with all that they left in its memory. WASI
    /// 0.2 only.
    Kept,
}

/// A component can't be a service under this policy.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each variant's message is its documentation")]
#[non_exhaustive]
pub enum LoadError {
    #[error(transparent)]
    Code(#[from] palisade_engine::service::LoadError),
    #[error(transparent)]
    Reach(#[from] ReachError),
    #[error(
        "guest: the component exports neither wasi:http/incoming-handler@0.2 nor wasi:http/handler@0.3: it is no service"
    )]
    NoHandler,
    #[error("guest: the component cannot be linked: {0}; it needs what no service here has")]
    Link(String),
    #[error(
        "policy: isolation = \"kept\" is for components of WASI 0.2, and this one is of 0.3: leave it out"
    )]
    Kept,
    #[error(
        "policy: limits.memory of {limit} bytes is more than the {most} that an instance can have here"
    )]
    Memory { limit: usize, most: usize },
    #[error("host: no thread can be started to keep guests to their time: {0}")]
    Thread(#[source] io::Error),
}
