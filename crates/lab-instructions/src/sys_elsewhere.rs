//! Where the processor is another one nothing is counted.

use std::fmt;

/// This machine makes no single steps.
#[derive(Debug)]
pub(crate) struct NoSteps;

impl fmt::Display for NoSteps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("host: single steps are made of x86-64 only")
    }
}

impl std::error::Error for NoSteps {}

pub(crate) fn count(_pass: &mut dyn FnMut()) -> Result<Option<u64>, NoSteps> {
    Err(NoSteps)
}

pub(crate) fn addresses(_pass: &mut dyn FnMut()) -> Result<Vec<u64>, NoSteps> {
    Err(NoSteps)
}
