//! What a container is doing, as the kernel tells of its first process.

use crate::{kernel_file, wire};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A process, so that no later one of the same pid is taken for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its pid.
    pub pid: u32,
    /// When it began, in the kernel's ticks since the machine's start (proc_pid_stat(5)).
    pub began: u64,
}

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It waits for its start.
    Created,
    /// Its program runs.
    Running,
    /// It has ended.
    Stopped,
}

impl Identity {
    /// The process that has this pid now.
    pub fn of(pid: u32) -> Option<Self> {
        let (_, began) = stat(pid)?;
        Some(Self { pid, began })
    }

    /// Whether it still runs; one that has ended and was not waited for does not.
    pub fn runs(&self) -> bool {
        stat(self.pid)
            .is_some_and(|(state, began)| began == self.began && !matches!(state, b'Z' | b'X'))
    }

    /// What a container does whose first process this is.
    pub fn status(&self) -> Status {
        let title = kernel_text(&format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut words = title.split(|byte| *byte == 0);
        let is_container = words.next() == Some(wire::CONTAINERS_TITLE);
        let word = words.nth(1);
        // Looked at last: what was read before is its own if it still runs.
        match self.runs() {
            true if is_container && word == Some(wire::RUNNING_TITLE) => Status::Running,
            true => Status::Created,
            false => Status::Stopped,
        }
    }
}

/// More than any of them has, but for names of containers that are longer than an engine's.
const ABOUT_BYTES: usize = 1 << 10;

fn kernel_text(path: &str) -> Option<Vec<u8>> {
    kernel_file::read(Path::new(path), ABOUT_BYTES).ok()
}

fn stat(pid: u32) -> Option<(u8, u64)> {
    let text = kernel_text(&format!("/proc/{pid}/stat"))?;
    // The second field is the program's name, which may have blanks and brackets.
    let after_name = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text[after_name + 1..]
        .split(|byte| *byte == b' ')
        .filter(|field| !field.is_empty());
    let state = *fields.next()?.first()?;
    const BEGAN_AFTER_STATE: usize = 18;
    let began = std::str::from_utf8(fields.nth(BEGAN_AFTER_STATE)?).ok()?;
    Some((state, began.trim().parse().ok()?))
}
