//! The file operations that groups are made of, so that tests can put a model in the kernel's place.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Access, AtFlags, CWD, accessat},
};

use crate::kernel_file;

/// A tree of groups.
pub(super) trait Tree {
    /// A file's text.
    fn read(&self, file: &Path) -> io::Result<String>;
    /// Writes `value` in one piece; the file must exist.
    fn write(&self, file: &Path, value: &str) -> io::Result<()>;
    /// Makes a group.
    fn make(&self, group: &Path) -> io::Result<()>;
    /// Removes a group.
    fn remove(&self, group: &Path) -> io::Result<()>;
    /// The names of the groups and files in a group.
    fn list(&self, group: &Path) -> io::Result<Vec<String>>;
    /// Whether this process may write to a file or make groups in a directory.
    fn may_write(&self, path: &Path) -> bool;
    /// Waits until it may help to try again to remove a busy group.
    fn wait_for_exit(&self, group: &Path, attempt: u32, until: Instant);
}

/// The kernel's own tree.
pub(super) struct Kernel;

impl Tree for Kernel {
    fn read(&self, file: &Path) -> io::Result<String> {
        kernel_file::text(file)
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(file)?;
        file.write_all(value.as_bytes())
    }

    fn make(&self, group: &Path) -> io::Result<()> {
        fs::create_dir(group)
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        fs::remove_dir(group)
    }

    fn list(&self, group: &Path) -> io::Result<Vec<String>> {
        fs::read_dir(group)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    fn may_write(&self, path: &Path) -> bool {
        // The effective ids count, as they will when the write comes.
        accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    fn wait_for_exit(&self, group: &Path, attempt: u32, until: Instant) {
        if !wait_while_populated(&group.join("cgroup.events"), until) {
            thread::sleep(back_off(attempt));
        }
    }
}

/// Waits on version 2 until the group's last process has gone; `false` if nothing tells.
fn wait_while_populated(events: &Path, until: Instant) -> bool {
    let Ok(file) = fs::File::open(events) else {
        return false;
    };
    // A poll reports what changed since the last read.
    let populated = io::read_to_string(&file).is_ok_and(|text| text.contains("populated 1"));
    populated && wait_for_change(&file, until)
}

/// Waits until a group's events are others than when they were read last, and not longer than this; `false` if nothing
/// tells.
pub(super) fn wait_for_change(events: &fs::File, until: Instant) -> bool {
    let Ok(left) = Timespec::try_from(until.saturating_duration_since(Instant::now())) else {
        return false;
    };
    poll(&mut [PollFd::new(events, PollFlags::PRI)], Some(&left)).is_ok()
}

/// Version 1 tells nobody when a group's last process has gone, and on both versions the kernel
/// unlinks an exited process from its group a moment after its parent has seen the exit (Linux
/// 6.19: when it is switched away from for the last time). Nothing can be waited for there but
/// time: 50 µs at first, doubling to 13 ms.
fn back_off(attempt: u32) -> Duration {
    Duration::from_micros(50 << attempt.min(8))
}
