//! Waiting for what the kernel tells of, and for what it does not.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::{os::fd::OwnedFd, time::Duration};

/// Whether a process, by its pidfd, has ended before that time is over.
pub(crate) fn has_ended_within(process: &OwnedFd, most: Duration) -> anyhow::Result<bool> {
    let timeout = Timespec::try_from(most)?;
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&timeout)))?;
    Ok(ready > 0)
}

/// Between two looks at what the kernel tells of nobody.
pub(crate) fn wait_a_moment() {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    let _ = rustix::event::poll(&mut [], Some(&moment));
}
