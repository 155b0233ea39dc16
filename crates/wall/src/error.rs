//! Palisade's own refusals and failures.

use std::{error, fmt};

/// Palisade refused or failed. How a guest ended is never an error: it is in the [`crate::Report`].
///
/// The message is the wall's own: what failed, whose fault it is and what to do. The wall's error itself is
/// [`Error::downcast_ref`]'s to give; whoever drives walls goes by [`Error::cause`].
pub struct Error {
    cause: Cause,
    error: Box<dyn error::Error + Send + Sync>,
}

/// What of an error every wall can have, and a front end acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The guest finds no such program.
    NotFound,
    /// There is a program, and the guest cannot execute it.
    CannotExecute,
    /// The limit on time was reached before the guest was started.
    TimeLimit,
    /// The host refuses namespaces, without which the user may have chosen to go on.
    NoNamespaces,
    /// Anything else.
    Other,
}

impl Error {
    /// An error of a wall's.
    pub fn new(cause: Cause, error: impl Into<Box<dyn error::Error + Send + Sync>>) -> Self {
        Self {
            cause,
            error: error.into(),
        }
    }

    /// See [`Cause`].
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// The wall's own error, if it is of this type.
    pub fn downcast_ref<E: error::Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(formatter)
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.error.source()
    }
}
