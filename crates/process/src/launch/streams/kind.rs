//! Every kind of descriptor that can be a standard stream, and what is done about it.

use super::{file::File, pipe::Pipe};
use crate::launch_error::LaunchError;
use rustix::{
    fs::{FileType, OFlags, Stat},
    io::Errno,
    net::{SocketType, sockopt},
};
use std::os::fd::BorrowedFd;

/// What can be a stream.
#[derive(Debug)]
pub(super) enum Kind {
    /// Handed over as it is.
    Passed,
    /// Only its bytes are.
    Relayed,
    /// A pipe or FIFO.
    Pipe(Pipe),
    /// A connected socket for bytes. Its bytes pass too, and it stays a socket.
    Socket {
        identity: (u64, u64),
    },
    File(File),
}

impl Kind {
    pub(super) fn of(stream: &'static str, fd: BorrowedFd<'_>) -> Result<Self, LaunchError> {
        let bad = |errno| LaunchError::BadStream { stream, errno };
        let refused = |refusal: Refusal| LaunchError::StreamRefused {
            stream,
            what: refusal.0,
            advice: refusal.1,
        };
        let stat = rustix::fs::fstat(fd).map_err(bad)?;
        if stat_is_folder(&stat) {
            return Err(LaunchError::StreamIsFolder { stream });
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => Ok(Self::Pipe(Pipe::new(fd, &stat).map_err(bad)?)),
            FileType::CharacterDevice if is_memory_device(&stat) => Ok(Self::Passed),
            FileType::CharacterDevice | FileType::BlockDevice => Ok(Self::Relayed),
            FileType::RegularFile => {
                let flags = rustix::fs::fcntl_getfl(fd).map_err(bad)?;
                if flags.contains(OFlags::PATH) {
                    return Err(refused(PLACE));
                }
                // Namespaces and the like are files that cannot be sought in.
                let offset = rustix::fs::tell(fd).map_err(|_| refused(NAMELESS))?;
                Ok(Self::File(File::new(&stat, flags, offset)))
            }
            FileType::Socket => {
                if let Some(refusal) = refusal_of_socket(fd).map_err(bad)? {
                    return Err(refused(refusal));
                }
                let identity = (stat.st_dev, stat.st_ino);
                Ok(Self::Socket { identity })
            }
            // Nameless ones of the kernel's have no type: eventfd, timerfd, signalfd, epoll, inotify,
            // fanotify, userfaultfd, io_uring, perf, BPF, Landlock, seccomp, mounts, old pidfds.
            _ => Err(refused(NAMELESS)),
        }
    }
}

/// A folder is a way out: `openat(0, "..")`.
fn stat_is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// What it is, and what to do about it.
type Refusal = (&'static str, &'static str);

const PLACE: Refusal = (
    "a descriptor that names a place (O_PATH) and cannot be read or written",
    "open it for reading or writing",
);
const NAMELESS: Refusal = (
    "an object of the kernel's and none of file, pipe, socket and device",
    "redirect it, to /dev/null for none",
);
const LISTENS: Refusal = (
    "a socket that listens",
    "pass it by socket activation and --listen inherited, or let the super-server accept (inetd: nowait, systemd: Accept=yes)",
);
const MESSAGES: Refusal = (
    "a socket for messages, which the guest could send to others than its peer",
    "let a program outside turn them into bytes (socat), or grant the guest an address of its own with --listen",
);
const UNCONNECTED: Refusal = (
    "a socket without a peer, which the guest could connect to anything",
    "connect it first, or grant --connect",
);

/// `mem(4)`, `null(4)`, `random(4)`: nothing that is shared is behind these.
fn is_memory_device(stat: &Stat) -> bool {
    const MEM_MAJOR: u32 = 1;
    const NULL_ZERO_FULL_RANDOM_URANDOM: [u32; 5] = [3, 5, 7, 8, 9];
    rustix::fs::major(stat.st_rdev) == MEM_MAJOR
        && NULL_ZERO_FULL_RANDOM_URANDOM.contains(&rustix::fs::minor(stat.st_rdev))
}

/// Bytes between two peers can be relayed, whatever the family (TCP, local, vsock). A message may have
/// an address, and packets of other families are no stream at all.
fn refusal_of_socket(fd: BorrowedFd<'_>) -> Result<Option<Refusal>, Errno> {
    if sockopt::socket_type(fd)? != SocketType::STREAM {
        return Ok(Some(MESSAGES));
    }
    if sockopt::socket_acceptconn(fd)? {
        return Ok(Some(LISTENS));
    }
    match rustix::net::getpeername(fd) {
        Err(Errno::NOTCONN) => Ok(Some(UNCONNECTED)),
        // An address of a family that the library does not know is one all the same.
        _ => Ok(None),
    }
}
