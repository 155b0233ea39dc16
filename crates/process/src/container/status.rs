//! What a container is doing, as the kernel tells of its first process.

use crate::wire;
use serde::{Deserialize, Serialize};
use std::fs;

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
        let title = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
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

fn stat(pid: u32) -> Option<(u8, u64)> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
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
