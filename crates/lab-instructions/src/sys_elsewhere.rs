//! Where the processor is another one nothing is counted.

use std::{
    fmt, io,
    os::fd::BorrowedFd,
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

impl NoSteps {
    pub(crate) fn none() -> Self {
        Self
    }

    pub(crate) fn because(_error: io::Error) -> Self {
        Self
    }
}

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

/// Threads that would take single steps.
pub(crate) struct Threads;

impl Threads {
    pub(crate) fn of(_pid: u32, _threads: &[i32]) -> io::Result<Self> {
        Err(io::Error::other(NoSteps))
    }

    pub(crate) fn step_until(
        &mut self,
        _is_over: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<u64> {
        Err(NoSteps.into())
    }
}

pub(crate) fn is_readable(_file: BorrowedFd<'_>) -> bool {
    false
}

pub(crate) fn wait_for_all() {}
