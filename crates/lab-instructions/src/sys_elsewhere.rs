//! Where the processor is another one nothing is counted.

use std::{
    fmt, io,
    process::{Command, ExitStatus},
};

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

pub(crate) fn step_through(
    _command: &mut Command,
    _step: &mut dyn FnMut(u64),
) -> io::Result<ExitStatus> {
    Err(io::Error::other(NoSteps))
}
