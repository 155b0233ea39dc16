//! Looking names up, apart from the rest: it reads the system's settings and executes getent(1), and
//! nobody else who serves a guest needs that.
//!
//! In a process of its own where palisade has one thread only, as `palisade run` has; else in a thread, whose
//! rules hold what goes astray.

use super::small_thread;
use crate::{
    confine::{ConfineError, Kept, Target, Use},
    parts::Parts,
    seccomp::{self, Groups},
    sys::{Forked, fork},
};
use palisade_network::{Resolve, SystemResolver, service};
use rustix::io::Errno;
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::Arc,
};

/// Where questions for names arrive. Dropping it ends whoever answers them.
#[derive(Debug)]
pub(super) enum Asked {
    /// Nobody answers yet.
    Waiting(OwnedFd),
    /// A thread does. It ends when nobody can ask any more.
    Thread,
    /// A process does.
    Process(Forked),
}

/// What it reads: settings of the C library and what they name, and where services of names listen.
const READ: [&str; 7] = [
    "/etc",
    "/run",
    "/var/run",
    "/var/lib/sss",
    "/var/lib/extrausers",
    "/proc",
    "/dev/urandom",
];
/// getent(1) and its libraries.
const EXECUTED: [&str; 5] = ["/usr", "/lib", "/lib64", "/bin", "/nix/store"];

impl Asked {
    /// Has them answered.
    ///
    /// # Errors
    ///
    /// When there can be no more threads or processes.
    pub(super) fn serve(&mut self, parts: Parts, landlock_abi: Option<u32>) -> io::Result<()> {
        let Self::Waiting(asked) = std::mem::replace(self, Self::Thread) else {
            return Ok(());
        };
        if parts == Parts::Processes {
            // A lookup that hangs has left a thread behind.
            match fork(c"palisade-names", &[asked.as_raw_fd()], || {
                answer(&asked, landlock_abi);
            }) {
                Err(Errno::BUSY) => {}
                forked => {
                    *self = Self::Process(forked?);
                    return Ok(());
                }
            }
        }
        small_thread("palisade-names", move || answer(&asked, landlock_abi))?;
        Ok(())
    }

    /// Has the process begin to end.
    pub(super) fn dismiss(&self) {
        if let Self::Process(process) = self {
            process.kill();
        }
    }
}

fn answer(asked: &OwnedFd, landlock_abi: Option<u32>) {
    // Whoever asks one that could not be confined hears nothing.
    if confine(landlock_abi).is_ok() {
        let resolver: Arc<dyn Resolve> = Arc::new(SystemResolver::default());
        service::serve(asked, &resolver);
    }
}

fn confine(landlock_abi: Option<u32>) -> Result<(), ConfineError> {
    let reads = READ.map(|path| (Target::Path(path.into()), Use::Read));
    let executes = EXECUTED.map(|path| (Target::Path(path.into()), Use::Execute));
    let null = [(Target::Path("/dev/null".into()), Use::Write)];
    let kept = Kept {
        files: reads.into_iter().chain(executes).chain(null).collect(),
        connects: true,
        // A guest's that stands among the host's files, processes and queues.
        calls: seccomp::allow_list(&Groups {
            host_files_visible: true,
            foreign_processes_visible: true,
            host_ipc_visible: true,
            // Of the host's own names nss-myhostname(8) answers with the addresses of its interfaces.
            netlink_route: true,
            ..Groups::default()
        }),
    };
    kept.walls(landlock_abi)?.around_this_thread()
}
