//! Where the parts of palisade run that serve one guest and need not share memory with the rest.

/// Threads or processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Threads of this process.
    #[default]
    Threads,
    /// Each a process, where this one has a single thread when it starts a guest.
    Processes,
}
