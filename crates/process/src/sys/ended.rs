//! How a process ended that is nobody's child here, and what outlives it.

use palisade_wall::Exit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What is known of a process by its descriptor: `_IOWR(0xff, 11, struct pidfd_info)` (linux/pidfd.h, Linux 6.13).
pub(crate) const PIDFD_GET_INFO: u64 = 0xc040_ff0b;
/// `PIDFD_INFO_EXIT`: how it ended, once its parent has waited for it (Linux 6.15).
const INFO_EXIT: u64 = 1 << 3;

/// `struct pidfd_info` as it was first.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    group: u64,
    /// Its numbers, its parent's, and its users and groups.
    ids: [u32; 11],
    exit: i32,
}

const _: () = assert!(size_of::<Info>() == 64);

/// `None` where the kernel does not tell, or its parent has not waited for it.
pub(crate) fn exit_of(process: BorrowedFd<'_>) -> Option<Exit> {
    let mut info = Info {
        mask: INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: the kernel reads and writes a structure of this layout and of the size that the request's number has.
    let result = unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (result == 0 && info.mask & INFO_EXIT != 0)
        .then(|| Exit::from_wait_status(info.exit.cast_unsigned()))
}

/// The network namespace that a process is in: for as long as that is open, the kernel does not begin to take it down.
/// `None` where the kernel does not give it (Linux 6.11), or not to this process.
pub(crate) fn network_of(process: BorrowedFd<'_>) -> Option<OwnedFd> {
    // `PIDFD_GET_NET_NAMESPACE`: `_IO(0xff, 4)`.
    const GET: u64 = 0xff04;
    // SAFETY: the request takes no argument.
    let namespace = unsafe { libc::ioctl(process.as_raw_fd(), GET, 0) };
    // SAFETY: the kernel just made it for this caller.
    (namespace >= 0).then(|| unsafe { OwnedFd::from_raw_fd(namespace) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use std::{os::fd::AsFd, process::Command};

    #[test]
    fn the_end_of_a_process_is_told_once_it_was_waited_for() {
        for (script, expected) in [
            ("read x; exit 7", Exit::Code(7)),
            ("read x; kill -9 $$", Exit::Signal(9)),
        ] {
            let mut child = Command::new("/bin/sh")
                .args(["-c", script])
                .stdin(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let pid = Pid::from_child(&child);
            let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            assert_eq!(exit_of(process.as_fd()), None);
            drop(child.stdin.take());
            child.wait().unwrap();
            // Before Linux 6.15 nobody tells.
            let told = exit_of(process.as_fd());
            assert!(
                told == Some(expected) || told.is_none() && !tells(),
                "{told:?}"
            );
        }
    }

    fn tells() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release
            .split(['.', '-'])
            .map(|part| part.parse().unwrap_or(0));
        let version: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
        version >= (6, 15)
    }
}
