//! The worker's end of the status pipe. Where nobody holds the other end, as beside a container, how the guest ended is told on
//! its stderr.

use crate::sys;
use palisade_policy::visible;
use palisade_wasm::{
    order::Order,
    status::{Status, not_run},
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    fs::File,
    io::Write as _,
};

/// Tells the supervisor how far the worker is. Phases wait for each other: the guest's start should not
/// cost a system call for each.
#[derive(Debug)]
pub(crate) struct StatusPipe {
    pipe: Option<File>,
    program: OsString,
    lines: String,
}

impl StatusPipe {
    /// Takes over the pipe of the order, if it has one.
    pub(crate) fn of(order: &Order) -> Self {
        Self {
            pipe: order.status.map(|pipe| File::from(sys::adopt(pipe))),
            program: order.arguments.first().cloned().unwrap_or_default(),
            lines: String::new(),
        }
    }

    /// A step of the start is done now. It is told with [`StatusPipe::started`].
    pub(crate) fn phase(&mut self, name: &str) {
        if self.pipe.is_none() {
            return;
        }
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
        match self.pipe {
            Some(_) => self.add(status),
            None => self.lines.extend(in_words(status, &self.program)),
        }
        self.write();
    }

    fn add(&mut self, status: &Status) {
        write!(self.lines, "{status}").expect("a string takes everything");
    }

    /// A supervisor that has gone ends this process by other means: there is nobody to tell.
    fn write(&mut self) {
        let lines = self.lines.as_bytes();
        let _ = match &mut self.pipe {
            Some(pipe) => pipe.write_all(lines),
            None => std::io::stderr().write_all(lines),
        };
        self.lines.clear();
    }
}

/// For whoever reads the guest's stderr; `None` for what only a supervisor makes use of.
fn in_words(status: &Status, program: &OsStr) -> Option<String> {
    let text = match status {
        Status::Phase { .. } => return None,
        Status::Trap(text) => format!("guest: it was ended by a fault: {}", visible(text)),
        Status::Refused(text) => not_run(program.as_ref(), text),
        Status::Stale(text) => format!(
            "host: palisade-worker and palisade-compiler do not belong together ({}): build both anew",
            visible(text)
        ),
    };
    Some(format!("palisade: {text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_supervisor_an_end_is_told_in_words() {
        let said = |status| in_words(&status, "prog.wasm".as_ref()).unwrap();
        assert_eq!(
            said(Status::Trap("unreachable; at \x1b[2J".into())),
            "palisade: guest: it was ended by a fault: unreachable; at \\u{1b}[2J\n"
        );
        assert_eq!(
            said(Status::Refused("it imports a.b".into())),
            "palisade: guest: prog.wasm cannot be run: it imports a.b\n"
        );
        let phase = Status::Phase {
            name: "started".into(),
            at_ns: 1,
        };
        assert_eq!(in_words(&phase, "".as_ref()), None);
    }
}
