//! What went wrong, counted: an answer that is refused at once would be a fast one.

use serde::Serialize;

/// How often each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Failures {
    /// Connections that were refused.
    pub(crate) connect: usize,
    /// Requests that were not answered, or not to the end.
    pub(crate) broken: usize,
    /// Answers other than 200.
    pub(crate) status: usize,
    /// Answers of another length than the first.
    pub(crate) length: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Connect,
    Broken,
    Status,
    Length,
}

impl Failures {
    pub(crate) fn count(&mut self, failure: Failure) {
        let count = match failure {
            Failure::Connect => &mut self.connect,
            Failure::Broken => &mut self.broken,
            Failure::Status => &mut self.status,
            Failure::Length => &mut self.length,
        };
        *count += 1;
    }
}

/// What a right answer is like.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expected {
    body_bytes: Option<u64>,
}

impl Expected {
    /// Whether an answer is like those before it.
    pub(crate) fn check(&mut self, status: u16, body_bytes: u64) -> Result<(), Failure> {
        if status != 200 {
            return Err(Failure::Status);
        }
        if *self.body_bytes.get_or_insert(body_bytes) != body_bytes {
            return Err(Failure::Length);
        }
        Ok(())
    }

    /// Bytes of the body of a right answer, if there was any.
    pub(crate) fn body_bytes(&self) -> Option<u64> {
        self.body_bytes
    }
}
