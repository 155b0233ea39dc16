//! Stopping all processes of a domain as one.
//!
//! Of version 2 alone: a frozen process of version 2 dies of SIGKILL (the kernel's signal delivery goes before its trap), so
//! a domain whose supervisor and keeper were killed ends all the same. One frozen by version 1 would stay until somebody
//! thawed it.

use crate::kernel_file;

use super::{detect::detect, leaf::FROZEN, tree::wait_for_change};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

/// Lets the domain of this process go on, whoever has frozen it.
///
/// # Errors
///
/// When that cannot be told or done. A process in no group that we freeze is left alone.
pub(crate) fn thaw(pid: u32) -> io::Result<()> {
    let groups = kernel_file::text(format!("/proc/{pid}/cgroup"))?;
    let mounts = kernel_file::own_mounts()?;
    let unified = detect(&groups, &mounts).unified;
    match unified.and_then(|unified| unified.own) {
        Some(dir) if dir.ends_with(FROZEN) => Freezer::open(&dir)?.thaw(),
        _ => Ok(()),
    }
}

/// Freezes and thaws one domain, `cgroup.freeze` in the kernel's `admin-guide/cgroup-v2`. It holds what it takes from the
/// start: whoever has no descriptors left must be able to thaw.
#[derive(Debug)]
pub struct Freezer {
    control: File,
    events: File,
}

impl Freezer {
    /// Of this group.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            control: OpenOptions::new()
                .write(true)
                .open(dir.join("cgroup.freeze"))?,
            events: File::open(dir.join("cgroup.events"))?,
        })
    }

    /// Stops them, and waits until all have stopped, for `most` at most.
    ///
    /// # Errors
    ///
    /// When some would not stop in that time (those that wait for a disk, say), and then all go on; or the group is
    /// gone.
    pub fn freeze(&self, most: Duration) -> io::Result<()> {
        let frozen = self
            .write(b"1")
            .and_then(|()| self.wait(Instant::now() + most));
        if frozen.is_err() {
            self.thaw()?;
        }
        frozen
    }

    fn wait(&self, until: Instant) -> io::Result<()> {
        while !self.is_frozen()? {
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            wait_for_change(&self.events, until);
        }
        Ok(())
    }

    /// Lets them go on.
    ///
    /// # Errors
    ///
    /// When the group is gone.
    pub fn thaw(&self) -> io::Result<()> {
        self.write(b"0")
    }

    fn write(&self, value: &[u8]) -> io::Result<()> {
        self.control.write_all_at(value, 0)
    }

    fn is_frozen(&self) -> io::Result<bool> {
        // Two short lines.
        let mut text = [0; 128];
        let length = self.events.read_at(&mut text, 0)?;
        let mut lines = text[..length].split(|byte| *byte == b'\n');
        Ok(lines.any(|line| line == b"frozen 1"))
    }
}
