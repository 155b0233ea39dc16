//! The worker's end of the status pipe.

use palisade_wasm::status::Status;
use rustix::time::{ClockId, clock_gettime};
use std::{fmt::Write as _, fs::File, io::Write as _};

/// Tells the supervisor how far the worker is. Phases wait for each other: the guest's start should not
/// cost a system call for each.
#[derive(Debug)]
pub(crate) struct StatusPipe {
    pipe: File,
    lines: String,
}

impl StatusPipe {
    /// Writes to a pipe.
    pub(crate) fn new(pipe: File) -> Self {
        Self {
            pipe,
            lines: String::new(),
        }
    }

    /// A step of the start is done now. It is told with [`StatusPipe::started`].
    pub(crate) fn phase(&mut self, name: &str) {
        let now = clock_gettime(ClockId::Monotonic);
        self.add(&Status::Phase {
            name: name.into(),
            at_ns: now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
        });
    }

    /// The guest's first instruction is next: tells all phases.
    pub(crate) fn started(&mut self) {
        self.phase("started");
        self.write();
    }

    /// Tells how it ended, and the phases that were not told yet.
    pub(crate) fn tell(&mut self, status: &Status) {
        self.add(status);
        self.write();
    }

    fn add(&mut self, status: &Status) {
        write!(self.lines, "{status}").expect("a string takes everything");
    }

    /// A supervisor that has gone ends this process by other means: there is nobody to tell.
    fn write(&mut self) {
        let _ = self.pipe.write_all(self.lines.as_bytes());
        self.lines.clear();
    }
}
